"""The TOML that an imported cluster becomes."""

import textwrap
from collections.abc import Iterable, Iterator

from msgspec import Struct

from antiphon.config.timing import Preset
from antiphon.spreadwire.config.remarks import shown

_COMMENT_MAX = 100
"""Characters of a line."""


class Daemon(Struct, frozen=True):
    """A daemon of ours."""

    name: str
    address: str
    clients: tuple[str, ...]
    spread: tuple[str, ...]
    """Where clients of Spread find it, as they found Spread's daemon."""


class Site(Struct, frozen=True):
    """A site of ours, made from a segment of Spread."""

    name: str
    multicast: str | None
    """None: the default."""
    daemons: tuple[Daemon, ...]
    line: int
    """The line of the segment."""


class Cluster(Struct, frozen=True):
    """A whole configuration of ours."""

    membership: Preset
    sites: tuple[Site, ...]
    is_exposed: bool = False
    """Whether clients on other machines connect over plain TCP, as they did with Spread."""


def written(cluster: Cluster, warnings: Iterable[str], source: str) -> str:
    """The cluster as a text for our loader, with the warnings, which outlive the screen in this way.

    Every string in it is plain: visible ASCII without quotes.
    """
    return "\n".join(_lines(cluster, warnings, source)) + "\n"


def _lines(cluster: Cluster, warnings: Iterable[str], source: str) -> Iterator[str]:
    yield f"# Made from {shown(source)[1:-1]} by: antiphon config import-spread"
    yield "# The same file goes to every daemon. Order counts: it numbers the sites and the daemons."
    for warning in warnings:
        yield "#"
        yield from (f"# {line}" for line in textwrap.wrap(warning, _COMMENT_MAX))
    yield ""
    yield "[cluster]"
    yield f'membership = "{cluster.membership}"'
    if cluster.is_exposed:
        yield ""
        yield "[security]"
        yield "insecure = true  # as with Spread: nothing is sealed, clients of other machines use plain TCP"
    for site in cluster.sites:
        yield ""
        yield f"[[site]]  # the segment in line {site.line}"
        yield f'name = "{site.name}"'
        if site.multicast is not None:
            yield f'multicast = "{site.multicast}"'
        for daemon in site.daemons:
            yield ""
            yield "[[site.daemon]]"
            yield f'name = "{_escaped(daemon.name)}"'
            yield f'address = "{daemon.address}"'
            yield f"clients = {_array(daemon.clients)}"
            if daemon.spread:
                yield f"spread = {_array(daemon.spread)}"


def _array(places: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{place}"' for place in places) + "]"


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\")
