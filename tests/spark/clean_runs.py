"""Clean runs of several scenarios, on which the simulator's oracle and the Spark check must agree."""

from pathlib import Path

from antiphon.simulator.run import run_seed

Runs = dict[str, tuple[int, ...]]

CLEAN: Runs = {
    "swarm": (0, 1, 2, 3, 5, 6),
    "crash": (0, 1),
    "restart": (0,),
    "flap": (0,),
    "merge": (0,),
    "partition": (0,),
    "cascade": (0, 2),
    "mixed": (2,),
    "slow": (8,),
}
"""Small ones, so that the simulator takes seconds for all."""
MORE: Runs = {
    "swarm": (8, 10, 11, 12, 13, 14),
    "crash": (2, 3),
    "restart": (1, 2),
    "flap": (1, 2),
    "cascade": (3,),
    "mixed": (3,),
}


def run_names(runs: Runs) -> list[str]:
    return [f"{scenario}-{seed}" for scenario, seeds in runs.items() for seed in seeds]


def write_runs(folder: Path, runs: Runs = CLEAN) -> dict[str, list[str]]:
    """Write the traces, and give the faults that the simulator's oracle finds in each run."""
    faults = {}
    for scenario, seeds in runs.items():
        for seed in seeds:
            outcome = run_seed(seed, scenario, trace_dir=folder)
            faults[f"{scenario}-{seed}"] = list(outcome.faults)
    return faults
