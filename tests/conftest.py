"""How tests are spread over processes: those that share something costly go to the same one."""

from typing import Any

import pytest

TOGETHER = (
    "tests/spark/",  # one session and one JVM
    "tests/simulation/test_runs.py",  # runs that several tests look at
    "tests/runtime/test_edge_traces.py",  # a cluster that was traced
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What belongs together goes to one process, any other test to whichever is free.

    The marks of `--dist loadgroup` would say the same, but with pytest 9.2 they have no effect
    (pytest-xdist issue 1386).
    """
    if config.getvalue("dist") not in ("load", "loadgroup"):
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((together for together in TOGETHER if nodeid.startswith(together)), nodeid)

    return Scheduling(config, log)
