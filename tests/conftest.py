"""How tests are spread over processes: those that need Spark share one, and so one session and one JVM."""

from typing import Any

import pytest

SPARK = "tests/spark/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All of `tests/spark` goes to one process, any other test to whichever is free.

    The marks of `--dist loadgroup` would say the same, but with pytest 9.2 they have no effect
    (pytest-xdist issue 1386).
    """
    if config.getvalue("dist") not in ("load", "loadgroup"):
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if nodeid.startswith(SPARK) else nodeid

    return Scheduling(config, log)
