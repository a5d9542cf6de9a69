"""The lab: the experiments of the papers on this machine, one file each, as tables and plots."""

from antiphon.lab import churn, fuzz, scale, soak
from antiphon.lab.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for one in (scale.EXPERIMENT, churn.EXPERIMENT, soak.EXPERIMENT, fuzz.EXPERIMENT)
}
