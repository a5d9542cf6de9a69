"""The command in a folder of its own, and a small cluster for it to talk to."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import COMMAND, TIMEOUT_S, Finished, Run, Start, environment

from antiphon.client import ask_status
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed


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
        places = [daemon.clients[0] for _, daemon in config.daemons()]
        with Daemon(config, "d1"), Daemon(config, "d2"):
            deadline_s = time.monotonic() + TIMEOUT_S
            while not has_formed([ask_status(place) for place in places], config.daemon_names):
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
            yield places


@pytest.fixture
def lonely() -> Iterator[str]:
    """Where the clients of the only running daemon of a cluster of two sites connect."""
    with tempfile.TemporaryDirectory(prefix="antiphon-test-") as folder:
        config = local_config(2, Path(folder))
        with Daemon(config, "d1") as daemon:
            yield daemon.places[0]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `antiphon` in the background; whatever still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def run(*words: str, stderr: int = subprocess.PIPE) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=tmp_path,
            env=environment(),
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
