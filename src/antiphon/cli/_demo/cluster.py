"""The demo's daemons: one a city, each in a thread, with the delays of the cities between them."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path

from antiphon import config as configuration
from antiphon.cli._demo.geography import City
from antiphon.config import Config, DaemonConfig, Emulation, LinkConfig, Settings, SiteConfig
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config

_SWITCH_INTERVAL_S = 0.0005
"""Daemons and clients share one interpreter here; let them take turns often, as separate processes would."""


@contextmanager
def running(cities: tuple[City, ...]) -> Iterator[Config]:
    """Start the daemons; stop them and remove every file afterwards."""
    usual_interval_s = sys.getswitchinterval()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-demo-")))
        config = _configuration(cities, directory)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        stack.callback(sys.setswitchinterval, usual_interval_s)
        for city in cities:
            daemon = Daemon(config, city.name)
            daemon.start()
            stack.callback(daemon.stop)
        yield config


def _configuration(cities: tuple[City, ...], directory: Path) -> Config:
    places = local_config(len(cities), directory).daemons()
    sites = tuple(
        SiteConfig(
            name=city.name,
            daemon=(DaemonConfig(city.name, place.address, (f"unix:{directory / city.name}",)),),
        )
        for city, (_, place) in zip(cities, places, strict=True)
    )
    links = tuple(
        LinkConfig(
            sites=(one.name, other.name),
            cost=one.delay_ms(other),
            emulate=Emulation(delay_ms=one.delay_ms(other)),
        )
        for one, other in combinations(cities, 2)
    )
    return configuration.build(sites, links, Settings(name="demo"))
