"""A run before it begins, as plain data: the seed is turned into a plan, and the plan alone is run.

So a run can be written down, made smaller, and run again without the generator that invented it.
"""

from itertools import product
from pathlib import Path as FilePath
from random import Random
from typing import Literal

import msgspec
from msgspec import Struct, structs

from antiphon import config, limits
from antiphon.config import Config, DaemonConfig, LinkConfig, OrderName, Settings, SiteConfig, SiteProtocol
from antiphon.errors import UsageError
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Partition, Trigger, named
from antiphon.simulator.network import AnyFault, LaidPaths, Pair, Path
from antiphon.simulator.steadiness import Steady
from antiphon.wire.decoding import NOT_A_VALUE

FIRST_PORT = 5_000

SiteProtocols = Literal["ring", "token-site", "both"]
"""What a run may have inside of its sites."""


def _drawn(chance: Random) -> SiteProtocol:
    return "token-site" if chance.random() < 0.5 else "ring"


class Daemon(Struct, frozen=True, omit_defaults=True):
    """How one daemon enters the world, and how it lives."""

    name: str
    starts_us: int = 0
    clock_us: int = 0
    """What its monotonic clock shows at time 0."""
    wall_us: int = 0
    """What its wall clock shows at time 0."""
    gathers_us: int = 0
    """How long a busy daemon lets events gather before it handles them together; 0 for an attentive one."""
    late_us: int = 0
    """Its deadlines are served up to so late."""
    drift_ppm: int = 0
    """By how many millionths its monotonic clock runs fast, or slow if less than 0."""
    time_error_us: int | None = None
    """By how much its wall clock may be wrong, as it tells others, if it is a reference."""

    def config(self, address: str) -> DaemonConfig:
        """Its table of the configuration."""
        if self.time_error_us is None:
            return DaemonConfig(self.name, address)
        return DaemonConfig(self.name, address, time="reference", time_error_ms=self.time_error_us / 1_000)


class Site(Struct, frozen=True, omit_defaults=True):
    """Daemons that are near one another."""

    name: str
    daemons: tuple[Daemon, ...]
    latency_us: int = 50
    faults: tuple[AnyFault, ...] = ()
    tight_us: int | None = None
    """Within which time a packet for all of its daemons comes to all of them, if they may rely on that."""
    protocol: SiteProtocol = "ring"


class Route(Struct, frozen=True, omit_defaults=True):
    """What lies between two sites: a path each way for each pair of their daemons."""

    link: LinkConfig
    latency_us: int
    there: tuple[AnyFault, ...] = ()
    back: tuple[AnyFault, ...] = ()


NEAR_US = 200
"""The latency between edges at one place on the map."""


class Edge(Struct, frozen=True, omit_defaults=True):
    """One edge: a machine of its own, from which paths lead to the machines of its attachments."""

    machine: Daemon
    attachments: tuple[str, ...]
    """Daemons or edges, in the order in which it tries them."""
    latency_us: int = 1_000
    faults: tuple[AnyFault, ...] = ()
    organises: bool = False
    """Whether it finds its place among the other edges, to all of which there are paths then, as there are if
    any of them is in a LAN."""
    at: tuple[int, int] = (0, 0)
    """Where on the map it is, in microseconds: what lies between two edges follows from this."""
    lan: str = ""
    """Where its multicasts go: to all edges that have the same here. Empty: it does not use multicast."""
    shares_place: bool = False
    """Whether it multicasts where others of its LAN do: all of them hear it then, and not its group alone."""
    cast_faults: tuple[AnyFault, ...] = ()
    """What multicasts suffer on the way to it."""

    @property
    def name(self) -> str:
        """As messages and the trace have it."""
        return self.machine.name


class Memory(Struct, frozen=True, omit_defaults=True):
    """How much waits for one edge; see `antiphon.limits`. What else is kept stands in the settings."""

    output_bytes: int = limits.EDGE_OUTPUT_BYTES
    cast_bytes: int = limits.CAST_KEEP_BYTES
    cast_us: int = limits.CAST_KEEP_US
    """What is kept of a cast, to repair it."""


class ClientPlan(Struct, frozen=True, omit_defaults=True):
    """One client after another at a daemon."""

    name: str
    """How their names begin; also what their chance comes from, so it stays when others are left out."""
    daemon: str
    """Or an edge."""
    habits: Habits


class Plan(Struct, frozen=True, omit_defaults=True):
    """Everything that is decided before a run; what is still open comes from `seed`.

    Daemons, paths and clients have chance of their own, so that a plan without some of them stays much the
    same for the others.
    """

    scenario: str
    seed: int
    sites: tuple[Site, ...]
    routes: tuple[Route, ...]
    clients: tuple[ClientPlan, ...]
    working_us: int
    """How long clients act, and incidents happen, after the cluster has formed."""
    settings: Settings = Settings()
    waits: bool = True
    """Whether the working phase begins when all daemons are in one view, and not at once."""
    coalesce: float = 0.0
    """Probability that packets of a train that arrive together are read in one call."""
    incidents: tuple[AnyIncident, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    dead: tuple[str, ...] = ()
    """Daemons that do not run at the end; all others do."""
    damage: tuple[AnyIncident, ...] = ()
    """What stays when everything else is healed."""
    has_restless_roles: bool = False
    """Whether sources change their roles all the time, whatever they send; see `restless`."""
    stop_bound_us: int = 0
    """For how long the others may be without a view because of a planned stop; 0 where other troubles may
    stop them, too."""
    steady: Steady | None = None
    """What is asked of those who are well while other damage lasts."""
    peace_us: int = 0
    """How long a run goes on after the last words at least: what is to stay as it is must do so."""
    edges: tuple[Edge, ...] = ()
    memory: Memory = Memory()
    is_sealed: bool = False
    """Whether packets between daemons are sealed."""
    asks_time_us: int = 0
    """How often all daemons are asked for the time while the cluster works; 0: never."""

    def chance(self, what: str) -> Random:
        """The generator for one thing in this run."""
        return Random(f"{self.scenario} {self.seed} {what}")

    def daemons(self) -> list[Daemon]:
        """The daemons by daemon number."""
        return [daemon for site in self.sites for daemon in site.daemons]

    def config(self) -> Config:
        """The configuration that all daemons have."""
        ports = iter(range(FIRST_PORT, FIRST_PORT + 10_000))
        sites = tuple(
            SiteConfig(
                site.name,
                tuple(daemon.config(f"127.0.0.1:{next(ports)}") for daemon in site.daemons),
                protocol=site.protocol,
                tight_ms=None if site.tight_us is None else site.tight_us / 1_000,
            )
            for site in self.sites
        )
        return config.build(sites, tuple(route.link for route in self.routes), self.settings)

    def paths(self) -> dict[Pair, Path]:
        """The paths between all daemons that may exchange packets."""
        numbers: dict[str, list[int]] = {}
        count = 0
        for site in self.sites:
            numbers[site.name] = list(range(count, count + len(site.daemons)))
            count += len(site.daemons)
        names = [daemon.name for daemon in self.daemons()]
        paths: dict[Pair, Path] = {}

        def lay(
            senders: list[int],
            receivers: list[int],
            latency_us: int,
            faults: tuple[AnyFault, ...],
            base_bytes: int = limits.PACKET_DEFAULT_BYTES,
        ) -> None:
            for one, other in product(senders, receivers):
                if one != other:
                    random = self.chance(f"path {names[one]} {names[other]}")
                    paths[one, other] = Path(latency_us, faults, random, self.coalesce, base_bytes)

        for site in self.sites:
            lay(numbers[site.name], numbers[site.name], site.latency_us, site.faults)
        for route in self.routes:
            one, other = (numbers[name] for name in route.link.sites)
            lay(one, other, route.latency_us, route.there, route.link.packet_base_bytes)
            lay(other, one, route.latency_us, route.back, route.link.packet_base_bytes)
        names += [edge.name for edge in self.edges]
        places = {name: number for number, name in enumerate(names)}
        for edge in self.edges:
            for name in edge.attachments:
                lay([places[edge.name]], [places[name]], edge.latency_us, edge.faults)
                lay([places[name]], [places[edge.name]], edge.latency_us, edge.faults)
        if any(edge.organises or edge.lan for edge in self.edges):
            return self._paths_between_edges(paths, len(names) - len(self.edges))
        return paths

    def _paths_between_edges(self, paths: dict[Pair, Path], first: int) -> dict[Pair, Path]:
        """Also those between edges, and between edges and daemons that are none of their first
        attachments."""
        names = [*(daemon.name for daemon in self.daemons()), *(edge.name for edge in self.edges)]

        def lay(pair: Pair) -> Path:
            ends = [self.edges[number - first] for number in pair if number >= first]
            latency_us = max(edge.latency_us for edge in ends)
            if len(ends) == 2:
                (one_x, one_y), (other_x, other_y) = (edge.at for edge in ends)
                latency_us = NEAR_US + abs(one_x - other_x) + abs(one_y - other_y)
            random = self.chance(f"path {names[pair[0]]} {names[pair[1]]}")
            return Path(latency_us, ends[-1].faults, random, self.coalesce)

        return LaidPaths(paths, lay)

    def without(self, daemon: str) -> "Plan":
        """The same plan for a cluster that never had this daemon, or edge; a site goes with its last daemon,
        and an edge with its last attachment."""
        gone = self._gone_with(daemon)
        sites = tuple(
            structs.replace(site, daemons=tuple(other for other in site.daemons if other.name != daemon))
            for site in self.sites
        )
        sites = tuple(site for site in sites if site.daemons)
        names = {site.name for site in sites}
        return structs.replace(
            self,
            sites=sites,
            routes=tuple(route for route in self.routes if names.issuperset(route.link.sites)),
            clients=tuple(client for client in self.clients if client.daemon not in gone),
            incidents=tuple(_spared(self.incidents, gone)),
            damage=tuple(_spared(self.damage, gone)),
            triggers=tuple(
                structs.replace(trigger, incident=incident)
                for trigger in self.triggers
                if trigger.daemon not in gone
                for incident in _spared((trigger.incident,), gone)
            ),
            dead=tuple(name for name in self.dead if name not in gone),
            edges=tuple(
                structs.replace(
                    edge, attachments=tuple(name for name in edge.attachments if name not in gone)
                )
                for edge in self.edges
                if edge.name not in gone
            ),
            steady=None if self.steady is None else self.steady.without(daemon),
        )

    def _gone_with(self, name: str) -> set[str]:
        """This daemon or edge, and all edges that have no attachment without it."""
        gone = {name}
        before: set[str] = set()
        while gone != before:
            before = set(gone)
            gone |= {edge.name for edge in self.edges if gone.issuperset(edge.attachments)}
        return gone

    def causal(self) -> "Plan":
        """The same plan, with a third of all messages causal."""
        clients = (structs.replace(client, habits=client.habits.causal()) for client in self.clients)
        return structs.replace(self, clients=tuple(clients))

    def resilient(self) -> "Plan":
        """The same plan, with a third of all agreed messages resilient."""
        habits = (structs.replace(client.habits, resilient=1 / 3) for client in self.clients)
        clients = (structs.replace(one, habits=new) for one, new in zip(self.clients, habits, strict=True))
        return structs.replace(self, clients=tuple(clients))

    def sealed(self) -> "Plan":
        """The same plan, with packets between daemons sealed."""
        return structs.replace(self, is_sealed=True)

    def ordered(self, order: OrderName | None) -> "Plan":
        """The same plan for a cluster with this order; None: with its own."""
        return (
            self
            if order is None
            else structs.replace(self, settings=structs.replace(self.settings, order=order))
        )

    def inside(self, protocols: SiteProtocols | None) -> "Plan":
        """The same plan, with this protocol inside of its sites that have several daemons; "both": with
        either, by chance; None: with its own."""
        if protocols is None:
            return self
        chance = self.chance("protocols of sites")
        return structs.replace(
            self,
            sites=tuple(
                structs.replace(site, protocol=_drawn(chance) if protocols == "both" else protocols)
                if len(site.daemons) > 1
                else site
                for site in self.sites
            ),
        )

    def text(self) -> str:
        """The plan as JSON that `read` understands and people can change."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()


def _spared(incidents: tuple[AnyIncident, ...], gone: set[str]) -> list[AnyIncident]:
    """The incidents that do not need any of these; parts lose them."""
    kept: list[AnyIncident] = []
    for incident in incidents:
        if not gone.isdisjoint(named(incident)):
            continue
        if isinstance(incident, Partition):
            parts = tuple(tuple(name for name in part if name not in gone) for part in incident.parts)
            incident = structs.replace(incident, parts=tuple(part for part in parts if part))
        kept.append(incident)
    return kept


def read(file: FilePath) -> Plan:
    """The plan in a file that holds `Plan.text`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Plan)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except NOT_A_VALUE as error:
        raise UsageError(f"{file}: not a plan of a run: {error}") from None
