"""The command in a folder of its own, and a small cluster for it to talk to."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import COMMAND, TIMEOUT_S, Finished, Run, environment

from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config


@pytest.fixture
def antiphon(tmp_path: Path) -> Run:
    """Runs `antiphon` with the given words and waits for its end."""

    def run(*words: str, stdin: str = "") -> Finished:
        return subprocess.run(
            [*COMMAND, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            cwd=tmp_path,
            env=environment(),
        )

    return run


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    """Where the clients of a running cluster of two sites connect."""
    with tempfile.TemporaryDirectory(prefix="antiphon-test-") as folder:
        config = local_config(2, Path(folder))
        with Daemon(config, "d1"), Daemon(config, "d2"):
            yield [daemon.clients[0] for _, daemon in config.daemons()]
