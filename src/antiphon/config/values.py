"""What a configuration says, as values: the tables of the file, and the checked whole with its questions."""

import ipaddress
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from antiphon import limits
from antiphon.config.security import Security
from antiphon.config.timing import PRESETS, Preset, Timing
from antiphon.errors import ConfigError
from antiphon.types import SlowPolicy

_AMOUNT_MAX = 1_000_000_000
"""The largest value of bytes, milliseconds or cost. A greater number, or infinity, is a mistake."""

Positive = Annotated[float, Meta(gt=0, le=_AMOUNT_MAX)]
Milliseconds = Annotated[float, Meta(ge=0, le=_AMOUNT_MAX)]
Wait = Annotated[float, Meta(ge=1, le=3_600_000)] | None
"""Milliseconds from one to an hour; None leaves it to the preset."""
Fraction = Annotated[float, Meta(ge=0, lt=1)]
BufferBytes = Annotated[int, Meta(ge=65_536, le=_AMOUNT_MAX)]
PacketBytes = Annotated[int, Meta(ge=limits.PACKET_MIN_BYTES, le=limits.PACKET_MAX_BYTES)]
Protocol = Literal["hop", "tcp"]
"""What carries everything between the daemons of two sites."""
Congestion = Literal["cubic", "reno"]
SiteProtocol = Literal["ring", "token-site"]
"""What carries everything between the daemons of one site, and decides whose turn it is."""

OrderName = Literal["symmetric", "adaptive"]
"""How the one agreed order of all messages is found."""

SITE_COST = 0.01
"""The cost of the path between two daemons of one site: lower than that of any detour through another
site."""


# The tables of the file -----------------------------------------------------------------------------------


class Emulation(Struct, frozen=True, forbid_unknown_fields=True):
    """A wide-area path imitated on one machine: applied by the sending daemon to every packet."""

    delay_ms: Milliseconds = 0.0
    jitter_ms: Milliseconds = 0.0
    loss: Fraction = 0.0


class LinkConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The path between two sites: between any daemon of one and any daemon of the other."""

    sites: tuple[str, str]
    cost: Positive = 1.0
    packet_bytes: PacketBytes | None = None
    """A ceiling on the size of packets; None leaves it to what gets through."""
    window_bytes: BufferBytes = limits.LINK_WINDOW_MAX_BYTES
    rate_bytes_per_s: Annotated[int, Meta(ge=0, le=1000 * _AMOUNT_MAX)] = 0
    """A ceiling on the sending rate of each side; 0 leaves it to the congestion window."""
    emulate: Emulation | None = None
    protocol: Protocol = "hop"
    congestion: Congestion = "cubic"
    """The rules by which the window of a Hop link grows and shrinks."""

    @property
    def packet_max_bytes(self) -> int:
        """The largest packet that may be sent, if it gets through."""
        return limits.PACKET_MAX_BYTES if self.packet_bytes is None else self.packet_bytes

    @property
    def packet_base_bytes(self) -> int:
        """The largest packet that is sent unproved, and that must get through for daemons to work together.
        Inside a site, that is every packet."""
        if self.sites[0] == self.sites[1]:
            return self.packet_max_bytes
        return min(limits.PACKET_BASE_BYTES, self.packet_max_bytes)


SPREAD_PORT = 4_803
"""The default port of Spread's clients."""


def _is_here(host: str) -> bool:
    """Whether who listens at this host is reached at localhost, too."""
    try:
        number = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host == "localhost"
    return number.is_loopback or number.is_unspecified


class DaemonConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One daemon: where its peers and its clients reach it."""

    name: str
    address: str
    clients: tuple[str, ...] = ()
    tcp_address: str | None = None
    """Where daemons at sites that a `tcp` link joins to its own reach it; None: at `address`."""
    spread: bool | Annotated[int, Meta(ge=1, le=65_535)] | tuple[str, ...] = False
    """Where clients that speak Spread's protocol connect: a port, at which they look for a TCP port of the
    daemon's host or of `localhost`, and for a unix socket; True for Spread's own; or the places, like
    `clients`."""
    time: Literal["reference"] | None = None
    """Whether its system clock is disciplined (by NTP, PTP or GPS), so that it tells others the time."""
    time_error_ms: Annotated[float, Meta(ge=0, le=limits.CLOCK_ERROR_MAX_US / 1_000)] = (
        limits.CLOCK_REFERENCE_ERROR_US / 1_000
    )
    """By how much the system clock of a reference may be wrong."""

    @property
    def spread_places(self) -> tuple[str, ...]:
        """The places that `spread` means."""
        if isinstance(self.spread, tuple):
            return self.spread
        if self.spread is False:
            return ()
        port = SPREAD_PORT if self.spread is True else self.spread
        host = self.address.rpartition(":")[0]
        return f"tcp:{host}:{port}", f"unix:/tmp/{port}"

    @property
    def spread_near(self) -> str | None:
        """Where Spread's clients on the daemon's machine find it, too, if not at the others anyway."""
        if isinstance(self.spread, tuple) or self.spread is False:
            return None
        if _is_here(self.address.rpartition(":")[0]):
            return None
        return f"tcp:127.0.0.1:{SPREAD_PORT if self.spread is True else self.spread}"

    @property
    def stream_address(self) -> str:
        """Where it listens for the connections of other daemons, if it has to."""
        return self.address if self.tcp_address is None else self.tcp_address


class SiteConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Daemons that reach one another by one LAN packet."""

    name: str
    daemon: tuple[DaemonConfig, ...]
    packet_bytes: PacketBytes = limits.PACKET_DEFAULT_BYTES
    protocol: SiteProtocol = "ring"
    """How its daemons exchange packets and take turns."""
    multicast: str = "auto"
    """Whether what is for all daemons of the site is sent by IP multicast: "auto" where it gets through, to
    an address that follows from the configuration, "off", or "auto" with the address that is given."""
    tight_ms: Annotated[float, Meta(ge=0, le=1_000)] | None = None
    """All of its daemons note the arrival of one multicast within this time of one another; None: nothing is
    known of that."""


EdgeMulticast = Literal["auto", "on", "off"]
"""Whether an edge uses multicast."""


class EdgeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One edge: where its clients reach it, and whom it attaches to."""

    name: str
    clients: tuple[str, ...]
    attach: tuple[str, ...]
    """Daemons and edges by name, or addresses, in the order of preference."""
    organise: bool = True
    """Whether it finds its place among the other edges when it is to attach to daemons of the core."""
    reach: tuple[str, ...] = ()
    """Where other edges reach it; without it, the places of its clients that others can reach."""
    multicast: EdgeMulticast = "auto"
    """Whether it feeds edges behind it by multicast, and hears the one that it is attached to, where that
    works: in "auto" not inside of one machine, where copies cost less."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a deployment may tune; the defaults suit a LAN and a WAN of moderate size."""

    name: str = "antiphon"
    delta_ms: Positive = 5.0
    order: OrderName = "symmetric"
    """Which daemons wait for which others before they deliver in the agreed order; the same at all."""
    unstable_bytes: BufferBytes = limits.UNSTABLE_MAX_BYTES
    output_soft_bytes: BufferBytes = limits.SESSION_OUTPUT_SOFT_BYTES
    output_hard_bytes: BufferBytes = limits.SESSION_OUTPUT_HARD_BYTES
    input_total_bytes: Annotated[int, Meta(ge=4 * limits.FRAME_MAX_BYTES, le=_AMOUNT_MAX)] = (
        limits.CLIENTS_INPUT_MAX_BYTES
    )
    """The bound for all clients together. The largest frame must fit into a quarter of it."""
    output_total_bytes: BufferBytes = limits.CLIENTS_OUTPUT_MAX_BYTES
    frame_patience_ms: Annotated[float, Meta(ge=1, le=3_600_000)] = limits.FRAME_PATIENCE_US / 1_000
    """How long a client may leave a large frame unfinished while others wait for room."""
    slow_policy: SlowPolicy = "disconnect"
    """The policy for sessions that do not choose one themselves."""
    slow_patience_ms: Annotated[float, Meta(ge=1, le=3_600_000)] = limits.SLOW_PATIENCE_US / 1_000
    """How long those who send to a slow session wait while it hardly reads, before only its queue grows."""
    slow_own_patience_ms: Annotated[float, Meta(ge=0, le=3_600_000)] = limits.SLOW_OWN_PATIENCE_US / 1_000
    """The patience with what the slow session sends to itself."""
    check_addresses: bool = True
    """Whether a datagram counts only if it comes from the address of the daemon that it names."""
    edges_max: Annotated[int, Meta(ge=0, le=_AMOUNT_MAX)] = limits.EDGES_MAX
    """How many edges may attach to one daemon."""
    edge_coordinators: Annotated[int, Meta(ge=1, le=limits.EDGE_NEIGHBOURS_MAX)] = (
        limits.EDGE_COORDINATORS_FEW
    )
    """How many attach to one daemon before others that organise themselves look for one of these."""
    feed_retain_bytes: BufferBytes = limits.FEED_RETAIN_BYTES
    feed_retain_ms: Annotated[float, Meta(ge=1, le=3_600_000)] = limits.FEED_RETAIN_US / 1_000
    """What a daemon keeps for edges that lose their attachment or do not keep up."""
    membership: Preset = "wan"
    suspect_ms: Wait = None
    suspect_max_ms: Wait = None
    segment_ms: Wait = None
    gather_ms: Wait = None
    gather_max_ms: Wait = None
    join_ms: Wait = None
    probe_ms: Wait = None
    probe_max_ms: Wait = None
    recovery_ms: Wait = None
    damp_ms: Wait = None
    damp_max_ms: Wait = None
    stall_ms: Wait = None

    def timing(self) -> Timing:
        """The waits of the membership: the preset, with what was set beside it."""
        chosen: dict[str, float | None] = {
            name: getattr(self, f"{name.removesuffix('_us')}_ms") for name in Timing.__struct_fields__
        }
        overruled = {name: round(wait * 1_000) for name, wait in chosen.items() if wait is not None}
        return structs.replace(PRESETS[self.membership], **overruled)


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    site: tuple[SiteConfig, ...]
    cluster: Settings = Settings()
    link: tuple[LinkConfig, ...] = ()
    edge: tuple[EdgeConfig, ...] = ()
    security: Security = Security()


# The checked whole ----------------------------------------------------------------------------------------


class Config(Struct, frozen=True, dict=True):
    """A checked configuration. A site's and a daemon's number is its place in the file, from 0.

    Daemon numbers count through the sites: two sites of two daemons have the daemons 0 and 1, and 2 and 3.
    What is asked for often is worked out once, at the first question.
    """

    settings: Settings
    sites: tuple[SiteConfig, ...]
    links: tuple[LinkConfig, ...]
    digest: int
    """Daemons with different configurations must not talk: this goes into every packet."""
    edges: tuple[EdgeConfig, ...] = ()
    """In no view, so the digest says nothing of them."""
    security: Security = Security()
    """Each daemon may have files of its own, so the digest says nothing of it."""

    def site_number(self, name: str) -> int:
        """The number of the site called `name`, which must be one of ours."""
        return [site.name for site in self.sites].index(name)

    def daemons(self) -> list[tuple[int, DaemonConfig]]:
        """Every daemon with the number of its site, in the order of their numbers."""
        return [(number, daemon) for number, site in enumerate(self.sites) for daemon in site.daemon]

    def daemon_number(self, name: str) -> int:
        """The number of the daemon called `name`; a ConfigError that lists the known ones otherwise."""
        if name not in self.daemon_names:
            known = ", ".join((*self.daemon_names, *(edge.name for edge in self.edges)))
            raise ConfigError(f"no daemon is called {name!r}; known: {known}")
        return self.daemon_names.index(name)

    def edge(self, name: str) -> EdgeConfig | None:
        """The edge called `name`, if there is one."""
        return next((edge for edge in self.edges if edge.name == name), None)

    def attachments_of(self, edge: EdgeConfig) -> tuple[str, ...]:
        """The addresses to which an edge attaches: of a daemon or an edge that it names, the first place."""
        places = {daemon.name: daemon.clients for _, daemon in self.daemons()}
        places |= {other.name: other.clients for other in self.edges}
        return tuple(places[target][0] if target in places else target for target in edge.attach)

    @cached_property
    def daemon_names(self) -> tuple[str, ...]:
        """The names of all daemons, by daemon number."""
        return tuple(daemon.name for _, daemon in self.daemons())

    @cached_property
    def daemon_count(self) -> int:
        """The number of daemons in all sites together."""
        return len(self.daemon_names)

    def site_of(self, daemon: int) -> int:
        """The number of the site that the daemon belongs to."""
        return self._site_numbers[daemon]

    def daemons_of(self, site: int) -> tuple[int, ...]:
        """The numbers of the site's daemons, ascending."""
        return self._daemons_by_site[site]

    def neighbours_of(self, daemon: int) -> tuple[int, ...]:
        """Every other daemon with which this one may exchange packets, ascending.

        Those of its own site, and those of all sites that a link joins to it.
        """
        return self._neighbours[daemon]

    def are_neighbours(self, daemon: int, other: int) -> bool:
        """Whether these two, different ones, may exchange packets."""
        return daemon != other and (self.site_of(daemon), self.site_of(other)) in self._links_by_sites

    def link_between(self, daemon: int, other: int) -> LinkConfig:
        """How two neighbours are joined: by their sites' link, or inside a site by one with the defaults."""
        return self._links_by_sites[self._site_numbers[daemon], self._site_numbers[other]]

    def stream_peers_of(self, daemon: int) -> tuple[int, ...]:
        """Those of its neighbours with which it exchanges everything over TCP, ascending."""
        return tuple(
            other
            for other in self.neighbours_of(daemon)
            if self.link_between(daemon, other).protocol == "tcp"
        )

    @cached_property
    def references(self) -> dict[int, int]:
        """The daemons whose system clocks are disciplined: number, greatest error in microseconds."""
        return {
            number: round(daemon.time_error_ms * 1_000)
            for number, (_, daemon) in enumerate(self.daemons())
            if daemon.time is not None
        }

    @cached_property
    def _site_numbers(self) -> tuple[int, ...]:
        return tuple(site for site, _ in self.daemons())

    @cached_property
    def _daemons_by_site(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.sites]
        for daemon, site in enumerate(self._site_numbers):
            found[site].append(daemon)
        return tuple(map(tuple, found))

    @cached_property
    def _neighbours(self) -> tuple[tuple[int, ...], ...]:
        sites = range(len(self.sites))
        reachable = [
            [
                daemon
                for far in sites
                if (site, far) in self._links_by_sites
                for daemon in self.daemons_of(far)
            ]
            for site in sites
        ]
        return tuple(
            tuple(other for other in reachable[site] if other != daemon)
            for daemon, site in enumerate(self._site_numbers)
        )

    @cached_property
    def _links_by_sites(self) -> dict[tuple[int, int], LinkConfig]:
        """Both directions of every link, and of every site the path between its own daemons."""
        numbers = {site.name: number for number, site in enumerate(self.sites)}
        found = {
            (number, number): LinkConfig(
                sites=(site.name, site.name), cost=SITE_COST, packet_bytes=site.packet_bytes
            )
            for number, site in enumerate(self.sites)
        }
        for link in self.links:
            one, other = (numbers[name] for name in link.sites)
            found[one, other] = found[other, one] = link
        return found
