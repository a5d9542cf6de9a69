"""The fuzzer: mutants of genuine packets and frames, kind by kind, against a live cluster of real daemons.

Afterwards messages flow, memory is flat, status tells the truth, and honest clients have lost nothing that
was promised to them.
"""

from antiphon.lab.fuzz.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
