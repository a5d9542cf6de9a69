"""A cluster of Spread as one of ours: each segment a site, each of its daemons a daemon.

What has no counterpart becomes a remark, never silence. Clients of Spread that had to prove who they are are
never let in unasked: then only programs of the same machine can connect.
"""

import ipaddress
import re
from collections.abc import Iterator

from antiphon import limits
from antiphon.config.addresses import address
from antiphon.config.timing import Preset
from antiphon.spreadwire.config.grammar import Address, Segment, SpreadDaemon, SpreadFile
from antiphon.spreadwire.config.options import (
    ALLOWED_METHODS,
    KEYWORDS,
    POLICY,
    REQUIRED_METHODS,
    WIDE_AREA,
    YES_OR_NO,
    Option,
    nearest_keyword,
    unknown_words,
)
from antiphon.spreadwire.config.ports import choose_ports
from antiphon.spreadwire.config.remarks import Remark, fault, shown
from antiphon.spreadwire.config.writing import Cluster, Daemon, Site

_NOT_IN_NAMES = re.compile(r"[^$-~]")
_NOT_IN_PATHS = re.compile(r"[^A-Za-z0-9._-]")
_UNPROTECTED = (
    "Antiphon asks clients who they are in other ways: by certificates and tokens over TLS, and by an access "
    "list. So this configuration has no TCP places for clients, only unix sockets for programs of the same "
    "machine: see docs/how-to/secure-clients.md, and spread_from there for Spread's clients"
)


def _is_exposed(site: Site) -> bool:
    """Whether a place of its daemons is one that other machines may reach."""
    places = [place for daemon in site.daemons for place in (*daemon.clients, *daemon.spread)]
    hosts = [address(place[4:])[0] for place in places if place.startswith("tcp:")]
    return not all(host == "localhost" or host.startswith("127.") or host == "::1" for host in hosts)


def translate(file: SpreadFile, source: str) -> tuple[Cluster, tuple[Remark, ...]]:
    """Our cluster and all remarks, by line; a ConfigError if it cannot be one of ours."""
    translation = _Translation(file, source)
    cluster = translation.cluster()
    return cluster, tuple(sorted(translation.remarks, key=lambda remark: remark.line))


class _Translation:
    def __init__(self, file: SpreadFile, source: str) -> None:
        self.remarks: list[Remark] = []
        self._source = source
        self._file = file
        self._segments = [segment for segment in file.segments if segment.daemons]
        self._ports = choose_ports(segment.port for segment in self._segments)
        self._is_protected = any(map(_asks_for_protection, file.options))
        self._names: set[str] = set()
        self._paths: set[str] = set()
        self._groups: set[str] = set()
        self._loopback_ports: set[int] = set()

    def cluster(self) -> Cluster:
        self._check()
        for option in self._file.options:
            self.remarks.extend(_remarks_on(option))
        for segment in self._file.segments:
            if not segment.daemons:
                self._remark(segment.line, "Spread_Segment", "left out, because it has no daemons")
        self._remark_on_sites()
        self._remark_on_ports()
        sites = tuple(self._site(number, segment) for number, segment in enumerate(self._segments, 1))
        return Cluster(self._membership(), sites, any(map(_is_exposed, sites)))

    def _remark(self, line: int, subject: str, text: str) -> None:
        self.remarks.append(Remark(line, subject, text))

    # The whole --------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """What our loader would refuse, and a daemon when it starts, told with the line in Spread's file."""
        if not self._segments:
            raise fault(self._source, self._file.last_line, "at least one Spread_Segment with a daemon")
        if len(self._segments) > limits.SITES_MAX:
            line = self._segments[limits.SITES_MAX].line
            raise fault(self._source, line, f"at most {limits.SITES_MAX} segments, which become sites")
        for segment in self._segments:
            if len(segment.daemons) > limits.DAEMONS_PER_SITE_MAX:
                raise fault(
                    self._source,
                    segment.daemons[limits.DAEMONS_PER_SITE_MAX].line,
                    f"at most {limits.DAEMONS_PER_SITE_MAX} daemons in a segment, which becomes a site",
                    str(len(segment.daemons)),
                )
        daemons = [daemon for segment in self._segments for daemon in segment.daemons]
        if len(daemons) > limits.DAEMONS_MAX:
            line = daemons[limits.DAEMONS_MAX].line
            raise fault(self._source, line, f"at most {limits.DAEMONS_MAX} daemons", str(len(daemons)))
        self._check_twins()
        self._check_versions(daemons)

    def _check_twins(self) -> None:
        seen: dict[tuple[str, int], SpreadDaemon] = {}
        for segment in self._segments:
            for daemon in segment.daemons:
                twin = seen.setdefault((str(daemon.host).lower(), segment.port), daemon)
                if twin is not daemon:
                    raise fault(
                        self._source,
                        daemon.line,
                        f"an address and port of its own for daemon {shown(daemon.name)}",
                        f"{daemon.host} port {segment.port} as in line {twin.line}",
                    )

    def _check_versions(self, daemons: list[SpreadDaemon]) -> None:
        """Names of hosts are left out: what they stand for is not known before a daemon starts."""
        addresses = [(daemon.host, daemon.line) for daemon in daemons if not isinstance(daemon.host, str)]
        for host, line in addresses:
            first, first_line = addresses[0]
            if host.version != first.version:
                expected = f"an address of IP version {first.version}, like that in line {first_line}: "
                expected += "the daemons of a cluster speak one version"
                raise fault(self._source, line, expected, str(host))

    def _membership(self) -> Preset:
        """The preset, by the rule by which Spread chooses its timeouts."""
        is_wide = len(self._segments) > 1
        for option in self._file.options:
            if option.keyword == WIDE_AREA:
                is_wide = YES_OR_NO[option.words[0].lower()]
        return "wan" if is_wide else "lan"

    def _remark_on_sites(self) -> None:
        if len(self._segments) < 2:
            return
        self._remark(
            0,
            "links",
            "every two sites are joined at cost 1, because there is no [[link]]; add one for each path that "
            "exists, with the delay in milliseconds as its cost, if paths differ",
        )
        if all(len(segment.daemons) == 1 for segment in self._segments):
            self._remark(
                0,
                "sites",
                "each segment has one daemon and became a site of its own; put daemons of one local network "
                "into one [[site]], with or without multicast there",
            )

    def _remark_on_ports(self) -> None:
        lines: dict[int, int] = {}
        for segment in self._segments:
            lines.setdefault(segment.port, segment.line)
        for port, line in lines.items():
            own = self._ports[port]
            tcp = "" if self._is_protected else f" and TCP {own + 1} for its own clients"
            words = (
                f"Spread has UDP {port} and {port + 1} and TCP {port}; Antiphon takes UDP {own} between "
                f"daemons{tcp}: open what is new in firewalls. Clients of Spread connect to TCP {port} and "
                f"unix:/tmp/{port} as before; while Spread's daemon runs on the same machine, leave the keys "
                "`spread` out"
            )
            self._remark(line, "ports", words)

    # Sites ------------------------------------------------------------------------------------------------

    def _site(self, number: int, segment: Segment) -> Site:
        daemons = tuple(self._daemon(daemon, segment.port) for daemon in segment.daemons)
        multicast = self._multicast(segment) if len(daemons) > 1 else None
        return Site(f"site{number}", multicast, daemons, segment.line)

    def _multicast(self, segment: Segment) -> str | None:
        if segment.extra_addresses:
            self._remark(segment.line, "Spread_Segment", "only the first of its addresses counts")
        address = segment.address
        own = (
            "so one that follows from the configuration is used where all daemons of the site hear it, and a "
            "copy is sent to each otherwise; multicast of the [[site]] can name another"
        )
        if not address.is_multicast:
            words = f"{address} is no multicast address, and Antiphon never broadcasts, {own}"
        elif isinstance(address, ipaddress.IPv6Address):
            words = f"Antiphon multicasts only over IPv4, so {address} is not used: each daemon gets a copy"
        elif (group := f"{address}:{self._ports[segment.port]}") in self._groups:
            words = f"{address} is that of another segment, {own}"
        else:
            self._groups.add(group)
            return group
        self._remark(segment.line, "Spread_Segment", words)
        return None

    # Daemons ----------------------------------------------------------------------------------------------

    def _daemon(self, daemon: SpreadDaemon, port: int) -> Daemon:
        name = self._name(daemon)
        own = self._ports[port]
        self._remark_on_daemon(daemon)
        interfaces = [one.address for one in daemon.interfaces if "C" in one.uses]
        hosts: list[str | Address] = [*interfaces] if daemon.interfaces else [daemon.host]
        places = dict.fromkeys(f"tcp:{_written(host)}:{own + 1}" for host in hosts)
        return Daemon(
            name=name,
            address=f"{_written(daemon.host)}:{own}",
            clients=(f"unix:{self._path(name)}", *(() if self._is_protected else places)),
            spread=tuple(self._spread_places(daemon, port, interfaces)),
        )

    def _spread_places(self, daemon: SpreadDaemon, port: int, interfaces: list[Address]) -> Iterator[str]:
        """Where Spread's clients are used to find this daemon: everywhere, unless it names interfaces."""
        is_version_6 = isinstance(daemon.host, ipaddress.IPv6Address)
        everywhere = ipaddress.ip_address("::" if is_version_6 else "0.0.0.0")
        if not self._is_protected:
            for host in dict.fromkeys(interfaces if daemon.interfaces else [everywhere]):
                yield f"tcp:{_written(host)}:{port}"
        # Daemons on loopback addresses share a machine, and only one can have the path that the port names.
        is_local = not isinstance(daemon.host, str) and daemon.host.is_loopback
        if not (is_local and port in self._loopback_ports):
            yield f"unix:/tmp/{port}"
        if is_local:
            self._loopback_ports.add(port)

    def _remark_on_daemon(self, daemon: SpreadDaemon) -> None:
        if daemon.virtual_id:
            self._remark(daemon.line, "VirtualID", "daemons are told apart by their places in the file")
        for interface in daemon.interfaces:
            if "D" in interface.uses and interface.address != daemon.host:
                self._remark(
                    interface.line,
                    f"interface {interface.address}",
                    f"a daemon is reached by the others at one address only, {daemon.host}",
                )
            if interface.uses == "M":
                self._remark(
                    interface.line,
                    f"interface {interface.address}",
                    "there is no monitor with a port of its own: antiphon status asks at a place of clients",
                )

    def _name(self, daemon: SpreadDaemon) -> str:
        """Its name, made legal and unique where it is not."""
        size = limits.DAEMON_NAME_MAX_BYTES
        legal = _NOT_IN_NAMES.sub("_", daemon.name)[:size] or "daemon"
        name = legal
        number = 1
        while name in self._names:
            number += 1
            name = f"{legal[: size - 1 - len(str(number))]}-{number}"
        self._names.add(name)
        if name != daemon.name:
            self._remark(
                daemon.line,
                f"daemon {shown(daemon.name)}",
                f"is called {name} here: a name is unique and has at most {size} characters from $ to ~",
            )
        return name

    def _path(self, name: str) -> str:
        """The path of the daemon's unix socket, different from that of any other daemon."""
        stem = f"/tmp/antiphon-{_NOT_IN_PATHS.sub('_', name)}"
        path = f"{stem}.sock"
        number = 1
        while path in self._paths:
            number += 1
            path = f"{stem}-{number}.sock"
        self._paths.add(path)
        return path


def _written(host: str | Address) -> str:
    return f"[{host}]" if isinstance(host, ipaddress.IPv6Address) else str(host)


# Options --------------------------------------------------------------------------------------------------


def _methods(option: Option) -> set[str]:
    return set(re.split(r"[\s,]+", option.words[0].upper())) - {""}


def _asks_for_protection(option: Option) -> bool:
    """Whether Spread would let in only some of those who connect."""
    if option.keyword == ALLOWED_METHODS:
        return "NULL" not in _methods(option)
    if option.keyword == REQUIRED_METHODS:
        return not _methods(option) <= {"NULL"}
    return option.keyword == POLICY and option.words[0].upper() != "PERMIT"


def _remarks_on(option: Option) -> Iterator[Remark]:
    known = KEYWORDS.get(option.keyword)
    if known is None:
        near = nearest_keyword(option.keyword)
        hint = f"; perhaps {near} was meant" if near else ""
        yield Remark(
            option.line, shown(option.keyword), f"not an option of Spread, and ignored{hint}", bool(near)
        )
        return
    for word in unknown_words(option):
        yield Remark(option.line, option.keyword, f"{shown(word)} is not a value that Spread knows")
    if known.instead:
        yield Remark(option.line, option.keyword, known.instead)
    elif _asks_for_protection(option):
        yield Remark(option.line, option.keyword, _UNPROTECTED, is_warning=True)
    elif option.keyword != WIDE_AREA:
        yield Remark(
            option.line, option.keyword, "Antiphon accepts every client that reaches it, as this option does"
        )
