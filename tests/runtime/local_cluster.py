"""Daemons for the tests of this folder, each in a thread of the test's process."""

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec import structs
from raw_client import status, wait_until

from antiphon.config import Config
from antiphon.core.observer import Observer
from antiphon.errors import AntiphonError
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed
from antiphon.runtime.udp import Offload, probe

needs_offload = pytest.mark.skipif(
    probe() != Offload(gso=True, gro=True), reason="this kernel has no UDP GSO and GRO"
)


def is_formed(places: Iterable[str], daemons: Sequence[str]) -> bool:
    """Whether all who answer at `places` are in one view of exactly `daemons`, and all of them answer."""
    try:
        return has_formed([status(place) for place in places], daemons)
    except (OSError, AntiphonError, AssertionError):
        return False


def wait_formed(places: Sequence[str], daemons: Sequence[str]) -> None:
    """Until those who listen at `places` are in one view of exactly `daemons`."""
    wait_until(lambda: is_formed(places, daemons))


def own_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no address but loopback")
        host = str(asking.getsockname()[0])
    if host.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return host


def with_spread(config: Config, directory: Path) -> Config:
    """The same daemons, each with a TCP port and a unix socket for Spread's clients."""

    def places(name: str) -> tuple[str, str]:
        return f"unix:{directory}/{name}.spread", "tcp:127.0.0.1:0"

    return structs.replace(
        config,
        sites=tuple(
            structs.replace(
                site,
                daemon=tuple(structs.replace(daemon, spread=places(daemon.name)) for daemon in site.daemon),
            )
            for site in config.sites
        ),
    )


class Cluster:
    """Starts daemons in threads; `daemons[0]` is d1."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.daemons: list[Daemon] = []
        self._stack = stack

    def start(
        self,
        config: Config | None = None,
        *,
        offload: Offload | None = None,
        observer: Callable[[str], Observer] | None = None,
    ) -> list[Daemon]:
        """Start every daemon of `config`, by default a single one with a unix and a TCP listener, and wait
        until they are together; `observer` makes one for the daemon of that name."""
        config = config or local_config(1, self.directory, tcp=True)
        for name in config.daemon_names:
            self.add(config, name, offload=offload, observer=observer(name) if observer else None)
        wait_formed([daemon.places[0] for daemon in self.daemons], config.daemon_names)
        return self.daemons

    def add(
        self, config: Config, name: str, *, offload: Offload | None = None, observer: Observer | None = None
    ) -> Daemon:
        """Start one daemon, and wait for nobody."""
        daemon = self._stack.enter_context(Daemon(config, name, offload=offload, observer=observer))
        self.daemons.append(daemon)
        return daemon
