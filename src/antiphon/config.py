"""The configuration: one TOML text, the same on every daemon.

    [cluster]
    name = "demo"
    delta_ms = 5.0              # updates from idle sites: at once, but never more often than this

    [[site]]
    name = "east"

    [[site.daemon]]
    name = "east1"
    address = "127.0.0.1:4810"                                   # UDP, daemon to daemon
    clients = ["unix:/tmp/antiphon-east1.sock", "tcp:127.0.0.1:4811"]

    [[link]]                    # without any [[link]], every pair of sites is joined at cost 1
    sites = ["east", "west"]
    cost = 30

`parse` turns the text into a `Config` or raises a ConfigError that names the line, the key and what was
expected. Nothing here touches a file: the runtime and the command line read it and hand over the text.
"""

import re
import tomllib
import zlib
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from antiphon import limits
from antiphon.errors import ConfigError, UsageError
from antiphon.types import check_name

Positive = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]


class Emulation(Struct, frozen=True, forbid_unknown_fields=True):
    """A wide-area path imitated on one machine: applied by the sending daemon to every packet."""

    delay_ms: Annotated[float, Meta(ge=0)] = 0.0
    jitter_ms: Annotated[float, Meta(ge=0)] = 0.0
    loss: Fraction = 0.0


class LinkConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The path between two sites."""

    sites: tuple[str, str]
    cost: Positive = 1.0
    packet_bytes: Annotated[int, Meta(ge=limits.PACKET_MIN_BYTES, le=limits.PACKET_MAX_BYTES)] = (
        limits.PACKET_DEFAULT_BYTES
    )
    window_bytes: Annotated[int, Meta(ge=65_536)] = limits.LINK_WINDOW_MAX_BYTES
    rate_bytes_per_s: Annotated[int, Meta(ge=0)] = 0
    """A ceiling on the sending rate of each side; 0 leaves it to the congestion window."""
    emulate: Emulation | None = None


class DaemonConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One daemon: where its peers and its clients reach it."""

    name: str
    address: str
    clients: tuple[str, ...] = ()


class SiteConfig(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    daemon: tuple[DaemonConfig, ...]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a deployment may tune; the defaults suit a LAN and a WAN of moderate size."""

    name: str = "antiphon"
    delta_ms: Positive = 5.0
    unstable_bytes: Annotated[int, Meta(ge=65_536)] = limits.UNSTABLE_MAX_BYTES
    output_soft_bytes: Annotated[int, Meta(ge=65_536)] = limits.SESSION_OUTPUT_SOFT_BYTES
    output_hard_bytes: Annotated[int, Meta(ge=65_536)] = limits.SESSION_OUTPUT_HARD_BYTES


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    site: tuple[SiteConfig, ...]
    cluster: Settings = Settings()
    link: tuple[LinkConfig, ...] = ()


class Config(Struct, frozen=True):
    """A checked configuration. A site's and a daemon's number is its place in the file, from 0."""

    settings: Settings
    sites: tuple[SiteConfig, ...]
    links: tuple[LinkConfig, ...]
    digest: int
    """Daemons with different configurations must not talk: this goes into every packet."""

    def site_number(self, name: str) -> int:
        return next(number for number, site in enumerate(self.sites) if site.name == name)

    def daemons(self) -> list[tuple[int, DaemonConfig]]:
        """Every daemon with the number of its site, in the order of their numbers."""
        return [(number, daemon) for number, site in enumerate(self.sites) for daemon in site.daemon]

    def daemon_number(self, name: str) -> int:
        """The number of the daemon called `name`; a ConfigError that lists the known ones otherwise."""
        names = [daemon.name for _, daemon in self.daemons()]
        if name not in names:
            raise ConfigError(f"no daemon is called {name!r}; known: {', '.join(names)}")
        return names.index(name)


def parse(text: str, source: str = "configuration") -> Config:
    """The configuration in `text`, or a ConfigError. `source` is how messages call the text."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not TOML: {error}") from None
    try:
        file = msgspec.convert(tree, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), text, source)) from None
    return build(file.site, file.link, file.cluster, source)


def build(
    sites: tuple[SiteConfig, ...],
    links: tuple[LinkConfig, ...] = (),
    settings: Settings | None = None,
    source: str = "configuration",
) -> Config:
    """A checked Config from its parts: the way in for programs, such as the simulator and the demo."""
    settings = settings or Settings()
    _check_sites(sites, source)
    links = links or _every_pair(sites)
    _check_links(sites, links, source)
    digest = zlib.crc32(msgspec.json.encode((settings.name, sites, links)))
    return Config(settings=settings, sites=sites, links=links, digest=digest)


def address(text: str, what: str = "address") -> tuple[str, int]:
    """`host:port` as a pair, or a ConfigError.

    >>> address("127.0.0.1:4810")
    ('127.0.0.1', 4810)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise ConfigError(f"{what} {text!r} is not HOST:PORT, for example 127.0.0.1:4810")
    return host.strip("[]"), int(port)


def _check_sites(sites: tuple[SiteConfig, ...], source: str) -> None:
    if not sites:
        raise ConfigError(f"{source}: at least one [[site]] is needed")
    if len(sites) > limits.SITES_MAX:
        raise ConfigError(f"{source}: {len(sites)} sites; at most {limits.SITES_MAX} are supported")
    _no_repeats([site.name for site in sites], "site", source)
    daemons = [daemon for site in sites for daemon in site.daemon]
    _no_repeats([daemon.name for daemon in daemons], "daemon", source)
    _no_repeats([daemon.address for daemon in daemons], "address", source)
    for site in sites:
        if len(site.daemon) != 1:
            raise ConfigError(
                f"{source}: site {site.name!r} has {len(site.daemon)} daemons; exactly one is supported today"
            )
    for daemon in daemons:
        try:
            check_name(daemon.name, "daemon", limits.DAEMON_NAME_MAX_BYTES)
            address(daemon.address, f"daemon {daemon.name!r}: address")
            for listener in daemon.clients:
                check_listener(listener)
        except (UsageError, ConfigError) as error:
            raise ConfigError(f"{source}: {error}") from None


def check_listener(listener: str) -> str:
    """`listener` if it names a place where clients can connect: `unix:PATH` or `tcp:HOST:PORT`."""
    scheme, _, place = listener.partition(":")
    if scheme == "unix" and place:
        return listener
    if scheme == "tcp":
        address(place, "listener")
        return listener
    raise ConfigError(f"{listener!r} is neither unix:PATH nor tcp:HOST:PORT")


def _check_links(sites: tuple[SiteConfig, ...], links: tuple[LinkConfig, ...], source: str) -> None:
    names = {site.name for site in sites}
    pairs = []
    reached = {sites[0].name}
    for link in links:
        unknown = [name for name in link.sites if name not in names]
        if unknown:
            raise ConfigError(f"{source}: a link names the site {unknown[0]!r}; known: {', '.join(sorted(names))}")
        if link.sites[0] == link.sites[1]:
            raise ConfigError(f"{source}: a link joins {link.sites[0]!r} to itself")
        pairs.append("-".join(sorted(link.sites)))
    _no_repeats(pairs, "link", source)
    for _ in sites:
        for link in links:
            if reached & set(link.sites):
                reached |= set(link.sites)
    if reached != names:
        apart = ", ".join(sorted(names - reached))
        raise ConfigError(f"{source}: no chain of links joins {sites[0].name!r} to: {apart}")


def _every_pair(sites: tuple[SiteConfig, ...]) -> tuple[LinkConfig, ...]:
    return tuple(
        LinkConfig(sites=(one.name, other.name)) for i, one in enumerate(sites) for other in sites[i + 1 :]
    )


def _no_repeats(names: list[str], what: str, source: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{source}: the {what} {name!r} appears more than once")


_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)


def _explain(error: str, text: str, source: str) -> str:
    """msgspec's complaint with the line of the file it is about."""
    match = _PATH.match(error)
    what, path = (match["what"], match["path"] or "") if match else (error, "")
    unknown = re.search(r"unknown field `(\w+)`", what)
    keys: list[Any] = [int(part[1:-1]) if part[0] == "[" else part[1:] for part in re.findall(r"\[\d+\]|\.\w+", path)]
    if unknown:
        keys.append(unknown[1])
        what = f"unknown key {unknown[1]!r}"
    line = _line_of(text, keys)
    where = ".".join(str(key) for key in keys)
    return f"{source}{f', line {line}' if line else ''}{f', key {where}' if where else ''}: {what}"


def _line_of(text: str, keys: list[Any]) -> int | None:
    """The line on which the value at `keys` stands, found by counting table headers; None where unsure."""
    seen: dict[str, int] = {}
    here: list[Any] = []
    tables = {tuple(keys[:length]) for length in range(1, len(keys) + 1)}
    best = None
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\[?\s*([\w.]+)\s*\]?\]", line):
            name = header[1]
            if line.lstrip().startswith("[["):
                seen[name] = seen.get(name, -1) + 1
                for child in [key for key in seen if key.startswith(f"{name}.")]:
                    del seen[child]
            here = []
            parts = name.split(".")
            for depth, part in enumerate(parts, start=1):
                here.append(part)
                prefix = ".".join(parts[:depth])
                if prefix in seen:
                    here.append(seen[prefix])
            if tuple(here) in tables:
                best = number
        elif (entry := re.match(r"\s*([\w]+)\s*=", line)) and (*here, entry[1]) in tables:
            best = number
    return best
