"""Clean runs of several scenarios, on which the simulator's oracle and the Spark check must agree."""

from pathlib import Path

from antiphon.simulator.run import run_seed

CLEAN: dict[str, tuple[int, ...]] = {
    "swarm": (0, 1, 2, 3, 5, 6, 8, 10, 11, 12, 13, 14, 79),
    "crash": (0, 1, 2, 3),
    "restart": (0, 1, 2),
    "flap": (0, 1, 2),
    "merge": (0,),
    "partition": (0,),
    "cascade": (0, 2, 3),
    "mixed": (2, 3),
    "slow": (8,),
    "locks": (0, 2),
    "choices": (1, 2, 4),
    "calls": (7, 9, 11),
    "refusals": (9, 10),
    "edges": (2,),
    "rim": (1,),
}
"""Small ones, so that the simulator takes seconds for all."""


def clean_run_names() -> list[str]:
    return [f"{scenario}-{seed}" for scenario, seeds in CLEAN.items() for seed in seeds]


def write_clean_runs(folder: Path) -> dict[str, list[str]]:
    """Write the traces, and give the faults that the simulator's oracle finds in each run."""
    faults = {}
    for scenario, seeds in CLEAN.items():
        for seed in seeds:
            outcome = run_seed(seed, scenario, trace_dir=folder)
            faults[f"{scenario}-{seed}"] = list(outcome.faults)
    return faults
