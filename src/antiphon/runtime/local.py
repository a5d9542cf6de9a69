"""Clusters on this machine: configurations with free ports and sockets in a folder."""

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import structs

from antiphon.config import (
    Config,
    DaemonConfig,
    EdgeConfig,
    Emulation,
    LinkConfig,
    Protocol,
    Settings,
    SiteConfig,
    SiteProtocol,
    build,
)
from antiphon.errors import ConfigError

PORTS = range(10_240, 32_768)
"""Where free ports are looked for: below those that Linux gives to whoever asks for any."""
PORT_TRIES = 4_096
NEAR_MS = 25.0
"""Links with a longer delay than this get the waits of a wide area."""
NEAR = Settings(membership="lan", suspect_ms=1_500.0, recovery_ms=3_000.0)
"""Quick to form, but not quick to suspect: what falls silent on one machine is more often late than dead."""


def local_config(
    sites: int,
    directory: Path,
    *,
    daemons: int = 1,
    delay_ms: float = 0.0,
    jitter_ms: float = 0.0,
    loss: float = 0.0,
    chain: bool = False,
    tcp: bool = False,
    protocol: Protocol = "hop",
    site_protocol: SiteProtocol = "ring",
    settings: Settings | None = None,
) -> Config:
    """`sites` sites of `daemons` daemons each on loopback: site1, site2 and so on, with d1, d2 and so on
    counted through them.

    Clients of d1 connect to `unix:DIRECTORY/d1.sock`, with `tcp` also to a free port. Every pair of sites is
    linked, or with `chain` each to the next. Delay, jitter and loss are those of every link, one way; inside
    a site there are none. `protocol` is that of every link, `site_protocol` that inside of every site.
    Without `settings` the membership waits as the delay suggests.
    """
    every = _daemons(sites * daemons, directory, tcp, protocol == "tcp")
    layout = tuple(
        SiteConfig(
            name=f"site{index + 1}",
            daemon=tuple(every[index * daemons : (index + 1) * daemons]),
            protocol=site_protocol,
        )
        for index in range(sites)
    )
    emulate = (
        Emulation(delay_ms=delay_ms, jitter_ms=jitter_ms, loss=loss)
        if delay_ms or jitter_ms or loss
        else None
    )
    links = tuple(
        LinkConfig(
            sites=(f"site{one + 1}", f"site{other + 1}"),
            cost=delay_ms or 1.0,
            emulate=emulate,
            protocol=protocol,
        )
        for one in range(sites)
        for other in range(one + 1, sites)
        if not chain or other == one + 1
    )
    if settings is None:
        settings = NEAR if delay_ms + jitter_ms <= NEAR_MS else Settings()
    return build(layout, links, settings, source="local configuration")


def alone_config(name: str, clients: tuple[str, ...]) -> Config:
    """One daemon without others, whose clients connect there."""
    (port,) = _free_ports(socket.SOCK_DGRAM, 1)
    only = DaemonConfig(name, f"127.0.0.1:{port}", clients)
    return build((SiteConfig("here", (only,)),), (), NEAR, source="one daemon alone")


def with_edges(config: Config, directory: Path, count: int) -> Config:
    """The same daemons with `count` edges, e1, e2 and so on, each attached to all daemons in turn: e1 to d1
    at first, e2 to d2. Clients of e1 connect to `unix:DIRECTORY/e1.sock`."""
    names = config.daemon_names
    edges = tuple(
        EdgeConfig(
            name=f"e{number + 1}",
            clients=(f"unix:{directory / f'e{number + 1}.sock'}",),
            attach=tuple(names[(number + step) % len(names)] for step in range(len(names))),
        )
        for number in range(count)
    )
    return structs.replace(config, edges=edges)


def _daemons(count: int, directory: Path, tcp: bool, streams: bool) -> list[DaemonConfig]:
    """d1, d2 and so on, each with a port of its own."""
    ports = _free_ports(socket.SOCK_DGRAM, count)
    stream_ports = _free_ports(socket.SOCK_STREAM, 2 * count)
    found = []
    for index, port in enumerate(ports):
        name = f"d{index + 1}"
        clients = [f"unix:{directory / f'{name}.sock'}"]
        if tcp:
            clients.append(f"tcp:127.0.0.1:{stream_ports[index]}")
        tcp_address = f"127.0.0.1:{stream_ports[count + index]}" if streams else None
        found.append(DaemonConfig(name, f"127.0.0.1:{port}", tuple(clients), tcp_address))
    return found


def _free_ports(kind: socket.SocketKind, count: int) -> list[int]:
    """`count` different ports that were free a moment ago. They are none of those that the system gives to
    whoever asks for any: another program would have one of these before it is used."""
    found: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(PORTS, PORT_TRIES):
            probe = stack.enter_context(socket.socket(socket.AF_INET, kind))
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise ConfigError(f"no {count} free ports from {PORTS.start} to {PORTS.stop - 1}")
