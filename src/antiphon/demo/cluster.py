"""The demo's daemons: some in each city, each in a thread, with the delays of the cities between them."""

import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path

from antiphon import config as configuration
from antiphon.client import ask_status
from antiphon.config import Config, DaemonConfig, Emulation, LinkConfig, Security, Settings, SiteConfig
from antiphon.demo.geography import City
from antiphon.errors import AntiphonError
from antiphon.runtime import key_files
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed

SUSPECT_MS = 1_200.0
"""The audience wants to see a crash noticed soon, but daemons that share an interpreter may be late."""
_SWITCH_INTERVAL_S = 0.0005
"""Daemons and clients share one interpreter here; let them take turns often, as separate processes would."""
_PATIENCE_S = 20.0
_LOOK_AGAIN_S = 0.05

_logger = logging.getLogger("antiphon")


class DemoCluster:
    """The daemons, which can be ended and started again, cut off and joined again."""

    def __init__(self, config: Config, trace: Path | None) -> None:
        self.config = config
        self.trace = trace
        """A folder for traces."""
        self._daemons: dict[str, Daemon] = {}

    def start(self, name: str) -> None:
        """Run the daemon of that name."""
        daemon = Daemon(self.config, name, trace=self.trace)
        daemon.start()
        self._daemons[name] = daemon

    def end(self, name: str) -> None:
        """The daemon of that name is gone; the other daemons find out by its silence."""
        self._daemons.pop(name).stop()

    def cut_off(self, city: City) -> None:
        """No packet gets into the city or out of it."""
        inside = frozenset(self.config.daemons_of(self.config.site_number(city.name)))
        outside = frozenset(range(self.config.daemon_count)) - inside
        for name, daemon in self._daemons.items():
            daemon.unreachable = outside if self.config.daemon_number(name) in inside else inside

    def join_up(self) -> None:
        """All paths work again."""
        for daemon in self._daemons.values():
            daemon.unreachable = frozenset()

    def end_all(self) -> None:
        """Nothing is left."""
        for name in list(self._daemons):
            self.end(name)

    def addresses(self, city: City) -> list[str]:
        """Where a person in that city connects, best first: the daemons of the city, then all others."""
        daemons = [
            (site != self.config.site_number(city.name), number, daemon.clients[0])
            for number, (site, daemon) in enumerate(self.config.daemons())
        ]
        return [address for _, _, address in sorted(daemons)]

    async def formed(self) -> None:
        """Wait until all that run are in one view."""
        deadline_s = time.monotonic() + _PATIENCE_S
        places = [daemon.places[0] for daemon in self._daemons.values()]
        while not has_formed(await asyncio.to_thread(_statuses, places), self._daemons):
            if time.monotonic() > deadline_s:
                raise AntiphonError(f"the daemons did not meet within {_PATIENCE_S:.0f} s")
            await asyncio.sleep(_LOOK_AGAIN_S)


def _statuses(places: list[str]) -> list[dict[str, object]]:
    return [ask_status(place, groups=0, sessions=0) for place in places]


@contextmanager
def running(cities: tuple[City, ...], daemons: int, trace: Path | None = None) -> Iterator[DemoCluster]:
    """Start the daemons; stop them and remove every file afterwards."""
    usual_interval_s = sys.getswitchinterval()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-demo-")))
        key_file = directory / "cluster.key"
        key_files.make(key_file)
        cluster = DemoCluster(_configuration(cities, daemons, directory, key_file), trace)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        stack.callback(sys.setswitchinterval, usual_interval_s)
        stack.callback(_logger.setLevel, _logger.level)
        _logger.setLevel(logging.ERROR)  # the story tells what is cut and ended
        stack.callback(cluster.end_all)
        for name in cluster.config.daemon_names:
            cluster.start(name)
        yield cluster


def _configuration(cities: tuple[City, ...], daemons: int, directory: Path, key_file: Path) -> Config:
    places = iter(local_config(len(cities), directory, daemons=daemons).daemons())
    sites = tuple(
        SiteConfig(
            name=city.name,
            daemon=tuple(
                DaemonConfig(name, place.address, (f"unix:{directory / name}",))
                for name, (_, place) in zip(_names(city, daemons), places, strict=False)
            ),
        )
        for city in cities
    )
    links = tuple(
        LinkConfig(
            sites=(one.name, other.name),
            cost=one.delay_ms(other),
            emulate=Emulation(delay_ms=one.delay_ms(other)),
        )
        for one, other in combinations(cities, 2)
    )
    settings = Settings(name="demo", suspect_ms=SUSPECT_MS)
    return configuration.build(sites, links, settings, security=Security(key_file=str(key_file)))


def _names(city: City, daemons: int) -> list[str]:
    return [city.name] if daemons == 1 else [f"{city.name}{number + 1}" for number in range(daemons)]
