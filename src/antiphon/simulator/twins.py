"""One daemon that runs twice: two processes with one name, number and addresses, each on its own machine.

Nothing is promised to such a daemon, and it can promise nothing. So the trace says that it has crashed when
the second process starts, with its clients, and tells nothing of either process until both have been ended
and the daemon was started anew. Bundles that only they have sent are left out of what others hold and
deliver.
"""

from typing import TYPE_CHECKING

from msgspec import structs

from antiphon.trace import Event, Record
from antiphon.trace.records import Bundle

if TYPE_CHECKING:
    from antiphon.simulator.host import Host
    from antiphon.simulator.world import World

APART_US = 3_600_000_000
"""How far the clocks of the two machines are apart."""


class Diary:
    """The trace as one daemon's observer writes it."""

    def __init__(self, host: "Host", world: "World") -> None:
        self._host = host
        self._world = world

    def __len__(self) -> int:
        return len(self._world.records)

    def append(self, record: Record) -> None:
        """Write it down, unless it is about a daemon that runs twice. What its first process holds is written
        down all the same: others may go on in a view that it had installed before."""
        twins = self._world.twins
        is_first_holding = record.event is Event.HOLD and twins.is_first(self._host)
        if (self._host.is_observed or is_first_holding) and twins.is_known(record):
            self._world.records.append(record)


class Twins:
    """The second processes of a world's daemons."""

    def __init__(self, world: "World", make: type["Host"]) -> None:
        self._world = world
        self._make = make
        self._seconds: dict[int, Host] = {}
        self._reached_by: dict[int, frozenset[int]] = {}
        self._takes_over: dict[int, bool] = {}
        self._known: dict[int, set[Bundle]] = {}
        """For each daemon that has run twice, the bundles that it sent when it ran once."""

    def begin(self, number: int, reached_by: frozenset[int], takes_over: bool) -> bool:
        """A second process starts, if the daemon runs, and runs once."""
        world = self._world
        first = world.hosts[number]
        if first.node is None or number in self._seconds:
            return False
        first.disown()
        self._known[number] = {
            record.bundle
            for record in world.records
            if record.event is Event.SSEND and record.bundle is not None and record.bundle[1] == number
        }
        daemon = structs.replace(first.daemon, clock_us=first.daemon.clock_us + APART_US)
        second = self._make(world, number, daemon, "twin")
        second.is_observed = False
        self._reached_by[number] = reached_by
        self._takes_over[number] = takes_over
        self._seconds[number] = second
        second.start()
        return True

    def end(self, number: int) -> None:
        """Both processes are ended, and the daemon starts anew."""
        second = self._seconds.pop(number, None)
        if second is not None:
            first = self._world.hosts[number]
            second.crash()
            first.crash()
            first.is_observed = True
            first.start()

    def end_all(self) -> None:
        """No daemon runs twice any more."""
        for number in list(self._seconds):
            self.end(number)

    def reached(self, sender: int, receiver: int) -> tuple["Host", ...]:
        """The machines that get packets for a daemon."""
        first = self._world.hosts[receiver]
        second = self._seconds.get(receiver)
        if second is None or sender not in self._reached_by[receiver]:
            return (first,)
        return (second,) if self._takes_over[receiver] else (first, second)

    def is_first(self, host: "Host") -> bool:
        """Whether a machine has the first process of its daemon."""
        return self._world.hosts[host.number] is host

    def is_known(self, record: Record) -> bool:
        """Whether the trace can tell of a record, as far as its bundle is concerned."""
        if record.bundle is None:
            return True
        known = self._known.get(record.bundle[1])
        if known is not None and record.event is Event.SSEND:
            known.add(record.bundle)
        return known is None or record.bundle in known
