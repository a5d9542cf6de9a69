"""Daemons for the tests of this folder, each in a process of its own, as users run them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from local_cluster import is_formed
from raw_client import RawClient, wait_until

from antiphon.config import Config, as_toml
from antiphon.wire import frames


class ProcessCluster:
    """Starts every daemon of a configuration; they end with the stack."""

    def __init__(self, config: Config, directory: Path, stack: ExitStack) -> None:
        self.config = config
        self.places = [daemon.clients[0] for _, daemon in config.daemons()]
        self.processes: list[subprocess.Popen[bytes]] = []
        self._logs = [directory / f"{name}.log" for name in config.daemon_names]
        self._stack = stack
        self._file = directory / "cluster.toml"
        self._file.write_text(as_toml(config))
        for index in range(config.daemon_count):
            self.processes.append(self._start(index))
        self.wait_formed()

    def _start(self, index: int) -> "subprocess.Popen[bytes]":
        name = self.config.daemon_names[index]
        words = [sys.executable, "-m", "antiphon", "daemon", "--config", str(self._file), "--name", name]
        with self._logs[index].open("ab") as log:
            process = subprocess.Popen(words, stderr=log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def kill(self, index: int) -> None:
        """As a crash does: without any last word."""
        self.processes[index].kill()
        self.processes[index].wait()

    def restart(self, index: int) -> None:
        """Start again one that was killed."""
        self.processes[index] = self._start(index)

    def wait_formed(self, members: Sequence[int] | None = None) -> None:
        """Until these daemons, by default all, are in one view of their own."""
        some = range(self.config.daemon_count) if members is None else members
        places = [self.places[index] for index in some]
        names = [self.config.daemon_names[index] for index in some]

        def has_formed() -> bool:
            for index in some:
                assert self.processes[index].poll() is None, self._logs[index].read_text()
            return is_formed(places, names)

        wait_until(has_formed)

    def assert_well(self) -> None:
        """Every daemon runs and has nothing to regret."""
        for process, log in zip(self.processes, self._logs, strict=True):
            assert process.poll() is None, log.read_text()
            assert "Traceback" not in log.read_text(), log.read_text()

    def descriptors(self, index: int) -> int:
        """Open descriptors of a daemon, without the one that asks."""
        with RawClient(self.places[index]) as asking:
            for _ in range(2):  # by the second answer it has seen the ends of connections closed before
                asking.say(frames.AskStatus())
                asking.hear(frames.Status)
            return len(os.listdir(f"/proc/{self.processes[index].pid}/fd")) - 1

    def resident_bytes(self, index: int) -> int:
        pages = Path(f"/proc/{self.processes[index].pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
