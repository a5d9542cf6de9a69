"""Daemons for the tests of this folder, each in a thread of the test's process."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from antiphon.config import Config
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.udp import Offload, probe

needs_offload = pytest.mark.skipif(
    probe() != Offload(gso=True, gro=True), reason="this kernel has no UDP GSO and GRO"
)


class Cluster:
    """Starts daemons in threads; `daemons[0]` is d1."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.daemons: list[Daemon] = []
        self._stack = stack

    def start(self, config: Config | None = None, *, offload: Offload | None = None) -> list[Daemon]:
        """Start every daemon of `config`, by default a single one with a unix and a TCP listener."""
        config = config or local_config(1, self.directory, tcp=True)
        for _, daemon in config.daemons():
            self.daemons.append(self._stack.enter_context(Daemon(config, daemon.name, offload=offload)))
        return self.daemons
