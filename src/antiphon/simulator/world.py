"""Virtual time: an event heap that drives the machines of a cluster and the network between them.

Every event has a time in microseconds and a serial number, so that the order of events is a function of the
seed alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

from antiphon.config import Config
from antiphon.core.node import Node
from antiphon.simulator.babble import Babble
from antiphon.simulator.client import Client
from antiphon.simulator.connections import Connections
from antiphon.simulator.edge_host import EdgeHost
from antiphon.simulator.guests import Guests
from antiphon.simulator.host import Host
from antiphon.simulator.machine import Driven, Machine
from antiphon.simulator.network import Network, Pair, Path
from antiphon.simulator.plan import Daemon, Edge
from antiphon.simulator.steadiness import Steady
from antiphon.simulator.strangers import Strangers
from antiphon.simulator.twins import Twins
from antiphon.trace import Event, Record
from antiphon.trace.bearers import Bearers

TURNS_MAX = 100_000
"""Events at one and the same microsecond; more means that the world goes in circles."""


class World:
    """A cluster, its network and its clients in virtual time."""

    def __init__(
        self,
        config: Config,
        daemons: list[Daemon],
        paths: dict[Pair, Path],
        chance: Callable[[str], Random],
        edges: tuple[Edge, ...] = (),
        *,
        is_sealed: bool = False,
    ) -> None:
        self.now_us = 0
        self.chance = chance
        """A generator for one thing by its name; those of others do not depend on it."""
        self.config = config
        self.records: list[Record] = []
        self.strangers = Strangers(self) if is_sealed else None
        """Who listens, where packets are sealed."""
        self.babble = Babble()
        """What daemons send that no daemon makes, under their seals."""
        self.network = Network(paths)
        self.places = len(daemons) + len(edges)
        """How many machines there are."""
        self.connections = Connections(self, chance("connections"))
        self.bearers = Bearers()
        self.cells: Counter[tuple[str, str]] = Counter()
        """How often a daemon in a state of the membership met an event."""
        self.when_entered: Callable[[int, str], None] | None = None
        """Hears of each state that a daemon enters; it may plan something, and do nothing at once."""
        self._numbers = {
            daemon.name: number for number, daemon in enumerate([*daemons, *(edge.machine for edge in edges)])
        }
        self.hosts = [Host(self, number, daemon) for number, daemon in enumerate(daemons)]
        self.edges = [EdgeHost(self, number, edge) for number, edge in enumerate(edges, len(daemons))]
        self.twins = Twins(self, Host)
        self.cast_paths: dict[Pair, Path] = {}
        """The ways of multicasts, laid when they are needed."""
        self._lans: dict[str, list[EdgeHost]] = {}
        for one in self.edges:
            self._lans.setdefault(one.edge.lan, []).append(one)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._serial = 0
        for host in self.machines:
            self.schedule(host.daemon.starts_us, host.start)

    # Time -------------------------------------------------------------------------------------------------

    def clock(self) -> int:
        """The time of the world, for those who write it down."""
        return self.now_us

    def schedule(self, time_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do `action` at `time_us`; actions of the same time happen in the order of these calls."""
        self._serial += 1
        heappush(self._heap, (time_us, self._serial, action, arguments))

    def run(self, until_us: int) -> None:
        """Let time pass."""
        heap = self._heap
        turns = 0
        while heap and heap[0][0] <= until_us:
            time_us, _, action, arguments = heappop(heap)
            turns = turns + 1 if time_us == self.now_us else 0
            if turns > TURNS_MAX:
                raise RuntimeError(f"time stands still at {time_us} us")
            self.now_us = time_us
            action(*arguments)
        self.now_us = max(self.now_us, until_us)

    # The machines -----------------------------------------------------------------------------------------

    @property
    def machines(self) -> Sequence[Host | EdgeHost]:
        """Those of daemons, then those of edges, by their places in the network."""
        return [*self.hosts, *self.edges] if self.edges else self.hosts

    def number_of(self, name: str) -> int:
        """The place of a daemon or an edge in the network."""
        return self._numbers[name]

    def guests_of(self, machine: Machine, node: Driven) -> Guests | None:
        """For the edges at a process that starts, if there are any edges at all."""
        return Guests(self, machine, node) if self.edges else None

    # Between the machines ---------------------------------------------------------------------------------

    def carry(self, sender: int, receiver: int, data: bytes, stride_bytes: int, is_whole: bool) -> None:
        """Packets leave one machine for another."""
        pair = (sender, receiver)
        for time_us, packets, size in self.network.carry(pair, data, stride_bytes, self.now_us, is_whole):
            path = self.network.paths[pair]
            for host in self.twins.reached(sender, receiver):
                self.schedule(time_us, host.arrive, path, packets, size)

    def cast(self, sender: EdgeHost, place: str, data: bytes) -> None:
        """A datagram is multicast in the LAN of an edge."""
        for host in self._lans[sender.edge.lan]:
            if host is sender or not host.hears(place):
                continue
            pair = (sender.number, host.number)
            plain = self.network.paths.get(pair)
            if plain is None:
                continue
            path = self.cast_paths.get(pair)
            if path is None:
                random = self.chance(f"cast {sender.name} {host.name}")
                path = self.cast_paths[pair] = Path(plain.latency_us, host.edge.cast_faults, random, 0.0)
            path.is_open = plain.is_open
            for time_us, packet, _ in path.carry(data, len(data), self.now_us):
                self.schedule(time_us, host.arrive, packet)

    def hang_up(self, one: int, other: int, is_told: bool) -> None:
        """The connection between two daemons breaks; the second one learns of it at once, or when it says
        something."""
        self.connections.hang_up(one, other, is_told)

    def entered(self, number: int, state: str) -> None:
        """A daemon's membership is in a new state."""
        if self.when_entered is not None:
            self.when_entered(number, state)

    # Clients ----------------------------------------------------------------------------------------------

    def connect(
        self,
        number: int,
        name: str,
        priority: int = 0,
        read_bytes_per_s: int = 0,
        views: bool = True,
        slow: str = "",
        forbidden: tuple[str, ...] = (),
    ) -> Client | None:
        """A new session, if the daemon will have it now; it may neither join nor send to the groups that are
        `forbidden`."""
        return self.machines[number].connect(name, priority, read_bytes_per_s, views, slow, forbidden)

    def settle(self, number: int) -> None:
        """Clients of this daemon have new requests."""
        self.machines[number].settle()

    def disconnect(self, number: int, client: Client, graceful: bool) -> None:
        """End a session from its own side."""
        self.machines[number].disconnect(client, graceful)

    @property
    def clients(self) -> list[Client]:
        """All open sessions."""
        return [client for host in self.machines for client in host.clients.values()]

    # Looking ----------------------------------------------------------------------------------------------

    def node(self, number: int) -> Node | None:
        """A daemon's node, while it runs."""
        return self.hosts[number].node

    @property
    def alive(self) -> tuple[int, ...]:
        """The daemons that run, and run once."""
        return tuple(host.number for host in self.hosts if host.node is not None and host.is_observed)

    def names(self, daemons: tuple[int, ...]) -> tuple[str, ...]:
        """What they are called."""
        return tuple(self.config.daemon_names[daemon] for daemon in daemons)

    def edges_in_reach(self) -> list[EdgeHost]:
        """The edges that run and have an attachment that runs and that they can reach, or that can be reached
        from there."""
        found: dict[int, EdgeHost] = {}
        alive = set(self.alive)
        while True:
            new = {
                host.number: host
                for host in self.edges
                if host.node is not None and host.number not in found and self._reaches(host, alive)
            }
            if not new:
                return list(found.values())
            found |= new
            alive |= new.keys()

    def _reaches(self, host: EdgeHost, alive: set[int]) -> bool:
        paths = self.network.paths
        numbers = [self.number_of(name) for name in host.edge.attachments]
        return any(
            number in alive and paths[host.number, number].is_whole and paths[number, host.number].is_whole
            for number in numbers
        )

    def has_formed(self, parts: list[tuple[int, ...]]) -> bool:
        """Whether the daemons of each part are in one view of exactly that part, and messages flow."""
        for part in parts:
            nodes = [self.hosts[daemon].node for daemon in part]
            first = nodes[0]
            if first is None or first.view.members != part:
                return False
            for node in nodes:
                if node is None or node.view.id != first.view.id or not node.is_operational:
                    return False
        return True

    def look(self) -> bool:
        """Put the state of every daemon's buffers into the trace; whether all of them are empty."""
        empty = True
        for host in self.machines:
            empty = host.look() and empty
        return empty

    @property
    def is_busy(self) -> bool:
        """Whether a daemon has events to handle, or a client waits for its daemon or has output to read."""
        return any(host.has_work for host in self.machines)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way between daemons, their signs of life left out."""
        return all(host.node is None or host.node.is_quiet for host in self.hosts)

    def note_steady(self, steady: Steady) -> None:
        """Put into the trace what is asked of the daemons that are well from now on."""
        self.records.append(
            Record(
                len(self.records), self.now_us, Event.STEADY, "", count=steady.views,
                parts=(steady.daemons,), bound_us=steady.silent_us,
            )
        )  # fmt: skip

    def note_restored(self, parts: list[tuple[int, ...]], bound_us: int) -> None:
        """Put into the trace that the faults are over, and what is to come of it."""
        self.records.append(
            Record(
                len(self.records), self.now_us, Event.RESTORED, "",
                parts=tuple(self.names(part) for part in parts), bound_us=bound_us,
                members=tuple(host.name for host in self.edges_in_reach()),
            )
        )  # fmt: skip
