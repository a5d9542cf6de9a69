"""The soak: a real cluster under floods, churn, pauses, crashes and slow receivers, for minutes or hours.

Nothing may be lost, broken or left over: memory is flat after warm-up, descriptors are given back, queues are
empty at rest, and the oracle finds the whole run clean.

It goes in three acts. In each, clients load the cluster while things are done to its daemons. After each,
all clients go away, and what is then still there is looked at. The first act is the warm-up.
"""

from antiphon.lab.soak.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
