"""The lab: the experiments of the papers on this machine, one file each, as tables and plots."""

from antiphon.lab import churn, edges, fuzz, scale, soak
from antiphon.lab.experiment import Experiment

_ALL = (scale.EXPERIMENT, churn.EXPERIMENT, edges.EXPERIMENT, soak.EXPERIMENT, fuzz.EXPERIMENT)
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _ALL}
