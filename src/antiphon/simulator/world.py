"""Virtual time: an event heap that drives the machines of a cluster and the network between them.

Every event has a time in microseconds and a serial number, so that the order of events is a function of the
seed alone.
"""

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from antiphon.config import Config
from antiphon.core.node import Node
from antiphon.simulator.client import Client
from antiphon.simulator.connections import Connections
from antiphon.simulator.host import Host
from antiphon.simulator.network import Network, Pair, Path
from antiphon.simulator.plan import Daemon
from antiphon.simulator.steadiness import Steady
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
    ) -> None:
        self.now_us = 0
        self.chance = chance
        """A generator for one thing by its name; those of others do not depend on it."""
        self.config = config
        self.records: list[Record] = []
        self.network = Network(paths)
        self.connections = Connections(self, chance("connections"))
        self.bearers = Bearers()
        self.cells: Counter[tuple[str, str]] = Counter()
        """How often a daemon in a state of the membership met an event."""
        self.when_entered: Callable[[int, str], None] | None = None
        """Hears of each state that a daemon enters; it may plan something, and do nothing at once."""
        self.hosts = [Host(self, number, daemon) for number, daemon in enumerate(daemons)]
        self.twins = Twins(self, Host)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._serial = 0
        for host in self.hosts:
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

    # Between the machines ---------------------------------------------------------------------------------

    def carry(self, sender: int, receiver: int, data: bytes, stride_bytes: int, is_whole: bool) -> None:
        """Packets leave one machine for another."""
        pair = (sender, receiver)
        for time_us, packets, size in self.network.carry(pair, data, stride_bytes, self.now_us, is_whole):
            path = self.network.paths[pair]
            for host in self.twins.reached(sender, receiver):
                self.schedule(time_us, host.arrive, path, packets, size)

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
    ) -> Client | None:
        """A new session, if the daemon will have it now."""
        return self.hosts[number].connect(name, priority, read_bytes_per_s, views, slow)

    def settle(self, number: int) -> None:
        """Clients of this daemon have new requests."""
        self.hosts[number].settle()

    def disconnect(self, number: int, client: Client, graceful: bool) -> None:
        """End a session from its own side."""
        self.hosts[number].disconnect(client, graceful)

    @property
    def clients(self) -> list[Client]:
        """All open sessions."""
        return [client for host in self.hosts for client in host.clients.values()]

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
        for host in self.hosts:
            empty = host.look() and empty
        return empty

    @property
    def is_busy(self) -> bool:
        """Whether a daemon has events to handle, or a client waits for its daemon or has output to read."""
        return any(host.has_work for host in self.hosts)

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
            )
        )  # fmt: skip
