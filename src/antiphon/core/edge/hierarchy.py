"""Edges organise themselves: which of them attach to the core, and to which of these the others attach.

A *coordinator* is an edge that is attached to a daemon of the core; its *local group* are the edges that are
attached to it, its *children*. The core so has as many edges to feed as there are coordinators, however many
edges there are.

Who is there is found out with probes: a question that every daemon and edge answers at once, attached or not,
with its room, and the coordinators that it knows. The time that the answer takes is the distance. An edge
that starts becomes a coordinator if there are few of them, and otherwise looks for one near to it with room,
a few at a time (the expanding search). Now and then each edge looks again (self-determination): a child at a
coordinator that has become much nearer than its own, whether there are too few coordinators, a coordinator
whether it is one too many.

Follows: InterGroup 4 (start-up, expanding ring search, self-determination, fault detection), and the
scalable session messages of SRM on which that builds.
Deviations:
- The paper finds coordinators by multicasts of growing scope. Here attachments tell which there are, and the
search
  grows by how many are asked: it works where multicast does not get through.
- Control information goes along the tree alone. Each edge asks a stated number of others in a stated time,
and tells
  its attachment a stated amount: constant for each node, as RTCP's is, whatever the number of edges.
- Nobody listens to everybody: an edge that takes over as a coordinator is chosen by a number that follows
from its
  name and the time, so that of many children about as many do so as there are coordinators missing.
Checked by: tests/unit/test_hierarchy.py, `antiphon lab edges`.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from zlib import crc32

from msgspec import Struct

from antiphon import limits
from antiphon.wire import edges

SPARES = 2
"""Coordinators at which a child would stand by. It troubles the core only if there are none."""


class Role(Enum):
    """What an edge is among the others."""

    STARTING = "starting"
    """It waits for the first answer."""
    SEARCHING = "searching"
    """It looks for a coordinator."""
    COORDINATOR = "coordinator"
    CHILD = "child"
    PLACED = "placed"
    """It attaches where it was told, to another edge."""


class Reason(Enum):
    """Why an edge has its role."""

    START = "it has just started"
    FEW = "there were few coordinators"
    TOLD = "it was told to attach to an edge"
    ENOUGH = "there were enough coordinators"
    FOUND = "it found a coordinator near to it"
    NEARER = "another coordinator was much nearer"
    NONE_FOUND = "it found no coordinator with room"
    FULL = "the core had no room for another coordinator"
    MISSING = "too few coordinators were left"
    NEEDLESS = "it was one coordinator too many"
    LOST = "its coordinator was lost"


class Choice(Struct, frozen=True):
    """Where an edge wants to be: addresses, the preferred ones first."""

    feeds: tuple[str, ...] = ()
    """At one of these it wants to be fed."""
    stands_by: tuple[str, ...] = ()
    """At another one of these it wants to stand by."""


class Known(Struct):
    """What an edge knows of a place where it might attach."""

    name: str
    address: str
    room: int = 1
    distance_us: int | None = None
    """How long its last answer took."""
    probed_us: int = 0
    """When it was asked last."""
    failures: int = 0
    """How often in a row it has not answered."""
    until_us: int = 0
    """It is left alone before this, because it could not be reached or had no room."""


class Hierarchy:
    """One edge's place among the others."""

    def __init__(self, name: str, core: Sequence[str], now_us: int) -> None:
        """`core` are the addresses of daemons of the core, the preferred one first."""
        self.role = Role.STARTING
        self.reason = Reason.START
        self.since_us = now_us
        self.few = 0
        """How many coordinators the attachment wants to have."""
        self.children = 0
        """How many edges are attached to this one; set by the owner."""
        self.known: dict[str, Known] = {}
        """The coordinators, by name."""
        self.coordinator: str | None = None
        """The name of this child's own one."""
        self.moves = 0
        """How often it has changed its coordinator or its role."""
        self._name = name
        self._core = tuple(core)
        self._asked: dict[str, int] = {}  # address -> when it was asked, without an answer yet
        self._retry_us = now_us
        """When a start that nobody has answered is tried again."""
        self._search_us = now_us
        self._searched: set[str] = set()  # who was asked in this search, by name
        self._look_us = now_us + self._spread(limits.EDGE_DETERMINE_US)
        self._rounds = 0

    def _spread(self, span_us: int) -> int:
        """A time within a span that differs from edge to edge, so that not all of them look at once."""
        return crc32(self._name.encode()) % span_us

    def _enter(self, role: Role, reason: Reason, now_us: int) -> None:
        if role is Role.SEARCHING:
            self._search_us = now_us
            self._searched.clear()
        if (role, reason) != (self.role, self.reason):
            self.since_us = now_us
        self.moves += self.role is not role
        self.role, self.reason = role, reason
        if role is not Role.CHILD:
            self.coordinator = None

    # What the owner asks ----------------------------------------------------------------------------------

    def choice(self) -> Choice:
        """Where this edge wants to be."""
        if self.role in (Role.COORDINATOR, Role.PLACED):
            return Choice(self._core, self._core)
        if self.role is not Role.CHILD or self.coordinator is None:
            return Choice()
        own = self.known[self.coordinator]
        others = [one.address for one in self._near() if one.name != own.name and one.room > 0]
        return Choice((own.address,), tuple(others[:SPARES]) or self._core)

    def probes(self, now_us: int) -> list[str]:
        """The addresses that are to be asked now."""
        self._give_up(now_us)
        found: list[str] = []
        if self.role is Role.STARTING and not self._asked and self._retry_us <= now_us:
            found = list(self._core[:1])
        elif self.role is Role.SEARCHING:
            found = self._next_of_search(now_us)
        elif self._look_us <= now_us:
            found = [] if self.role is Role.PLACED else self._next_of_look(now_us)
        for address in found:
            self._asked[address] = now_us
        return found

    def next_deadline_us(self) -> int | None:
        """When `probes` must be called; None: not before anything happens."""
        due = [asked_us + limits.EDGE_PROBE_US for asked_us in self._asked.values()]
        if self.role is Role.STARTING:
            due += [] if self._asked else [self._retry_us]
        elif self.role is Role.SEARCHING:
            due.append(self._search_us + limits.EDGE_SEARCH_US)
        elif self.role is not Role.PLACED:
            due.append(self._look_us)
        return min(due, default=None)

    @property
    def few_here(self) -> int:
        """How many coordinators there should be; 0 as long as this edge has not looked how many there are."""
        return self.few if self._rounds else 0

    def neighbours(self) -> tuple[edges.Neighbour, ...]:
        """The coordinators that it knows, for its children."""
        near = self._near()
        rest = [one for one in self.known.values() if one.distance_us is None]
        known = [*near, *rest][: limits.EDGE_NEIGHBOURS_MAX]
        return tuple(edges.Neighbour(one.name, (one.address,), one.room) for one in known)

    # What is found out ------------------------------------------------------------------------------------

    def probed(self, address: str, answer: edges.Probed, took_us: int, now_us: int) -> None:
        """A daemon or edge has answered."""
        self._asked.pop(address, None)
        self._learn(answer.coordinators)
        if answer.name in self.known:
            known = self.known[answer.name]
            known.room, known.distance_us, known.probed_us = answer.room, took_us, now_us
            known.failures = known.until_us = 0
            if self._name in answer.path:  # it gets its feed through this edge
                known.until_us = now_us + limits.EDGE_DIAL_MOST_US
        if answer.few:
            self.few = answer.few
        if self.role is Role.STARTING:
            self._start(answer, now_us)
        elif self.role is Role.SEARCHING:
            self._conclude_search(now_us)
        else:
            self._determine(answer, now_us)

    def unreachable(self, address: str, now_us: int) -> None:
        """Nobody has answered there."""
        self._asked.pop(address, None)
        for known in [known for known in self.known.values() if known.address == address]:
            known.distance_us, known.until_us = None, now_us + limits.EDGE_DIAL_MOST_US
            known.failures += 1
            if known.failures > limits.EDGE_FAILURES_MAX and known.name != self.coordinator:
                del self.known[known.name]
        if self.role is Role.STARTING:
            self._core = (*self._core[1:], *self._core[:1])  # the next one
            self._retry_us = now_us + limits.EDGE_PROBE_US // 2
        elif self.role is Role.SEARCHING:
            self._conclude_search(now_us)

    def refused(self, address: str, now_us: int) -> None:
        """The attachment at an address has no room."""
        for known in self.known.values():
            if known.address == address:
                known.room, known.until_us = 0, now_us + limits.EDGE_DIAL_MOST_US
        is_core = self.role is Role.COORDINATOR and address in self._core
        own = None if self.coordinator is None else self.known[self.coordinator].address
        if is_core or own == address:
            self._enter(Role.SEARCHING, Reason.FULL, now_us)

    def lost(self, address: str, now_us: int) -> None:
        """The attachment that fed this edge is lost: a child goes to the next best coordinator that it
        knows, or looks for one."""
        if self.coordinator is None or self.known[self.coordinator].address != address:
            return
        own = self.known[self.coordinator]
        own.distance_us, own.until_us = None, now_us + limits.EDGE_DIAL_MOST_US
        others = [one for one in self._near() if one.room > 0 and one.until_us <= now_us]
        if others:
            self.coordinator, self.reason, self.since_us = others[0].name, Reason.LOST, now_us
            self.moves += 1
        else:
            self._enter(Role.SEARCHING, Reason.LOST, now_us)

    def _learn(self, coordinators: Iterable[edges.Neighbour]) -> None:
        """These are there now."""
        told = {one.name: one for one in coordinators if one.name != self._name and one.places}
        for name, one in told.items():
            known = self.known.get(name)
            if known is None:
                if len(self.known) >= limits.EDGE_KNOWN_MAX:
                    continue
                self.known[name] = Known(name, one.places[0], one.room)
            elif known.distance_us is None:  # what it has said itself is newer
                known.room = one.room

    def _near(self) -> list[Known]:
        """Those that have answered, the nearest first."""
        found = [known for known in self.known.values() if known.distance_us is not None]
        return sorted(found, key=lambda known: (known.distance_us, known.name))

    # Starting and searching -------------------------------------------------------------------------------

    def _start(self, answer: edges.Probed, now_us: int) -> None:
        """The start-up rule."""
        others = [one for one in answer.coordinators if one.name != self._name]
        if answer.path:
            self._enter(Role.PLACED, Reason.TOLD, now_us)
        elif len(others) < answer.few and answer.room > 0:
            self._enter(Role.COORDINATOR, Reason.FEW, now_us)
        else:
            self._enter(Role.SEARCHING, Reason.ENOUGH, now_us)

    def _next_of_search(self, now_us: int) -> list[str]:
        """The next few to be asked; those that follow from the edge's own name first, so that many edges that
        start together do not ask the same ones."""
        room = limits.EDGE_PROBES - len(self._asked)
        fresh = self._unsearched(now_us)
        fresh.sort(key=lambda known: crc32(f"{self._name} {known.name}".encode()))
        for known in fresh[:room]:
            self._searched.add(known.name)
            known.probed_us = now_us
        return [known.address for known in fresh[:room]]

    def _unsearched(self, now_us: int) -> list[Known]:
        """Those that this search has not asked yet."""
        found = (known for known in self.known.values() if known.name not in self._searched)
        return [known for known in found if known.until_us <= now_us and known.address not in self._asked]

    def _conclude_search(self, now_us: int) -> None:
        """Take the nearest one with room, once nobody is asked any more."""
        if self._asked:
            return
        near = [known for known in self._near() if known.room > 0 and known.until_us <= now_us]
        if near:
            self._enter(Role.CHILD, Reason.FOUND, now_us)
            self.coordinator = near[0].name
            return
        if not self._unsearched(now_us):
            self._enter(Role.COORDINATOR, Reason.NONE_FOUND, now_us)

    def _give_up(self, now_us: int) -> None:
        """Whoever has not answered in time is out of reach; a search that takes too long is over."""
        for address in [one for one, us in self._asked.items() if us + limits.EDGE_PROBE_US <= now_us]:
            self.unreachable(address, now_us)
        if self.role is Role.SEARCHING and self._search_us + limits.EDGE_SEARCH_US <= now_us:
            self._asked.clear()
            near = [known for known in self._near() if known.room > 0 and known.until_us <= now_us]
            self._enter(Role.CHILD if near else Role.COORDINATOR, Reason.NONE_FOUND, now_us)
            self.coordinator = near[0].name if near else None

    # Self-determination -----------------------------------------------------------------------------------

    def _next_of_look(self, now_us: int) -> list[str]:
        """Whom to ask this time: the own attachment, and those that were not asked for longest."""
        self._look_us = now_us + limits.EDGE_DETERMINE_US
        self._rounds += 1
        own = next(iter(self.choice().feeds), None)
        found = [] if own is None or own in self._asked else [own]
        others = [one for one in self.known.values() if one.address != own and one.until_us <= now_us]
        others.sort(key=lambda known: (known.probed_us, crc32(f"{self._name} {known.name}".encode())))
        if self.role is Role.CHILD:
            found += [one.address for one in others[: limits.EDGE_PROBES - 1]]
        return found

    def _determine(self, answer: edges.Probed, now_us: int) -> None:
        """Whether the role is still the right one."""
        if self.role is Role.CHILD:
            self._determine_child(answer, now_us)
        elif self.role is Role.COORDINATOR and not answer.path:
            self._determine_coordinator(answer, now_us)

    def _determine_child(self, answer: edges.Probed, now_us: int) -> None:
        assert self.coordinator is not None
        own = self.known[self.coordinator]
        missing = answer.few - 1 - len(answer.coordinators)  # those that it knows, and itself
        if answer.name == own.name and missing > 0 and self._is_chosen(missing, max(1, answer.children)):
            self._enter(Role.COORDINATOR, Reason.MISSING, now_us)
            return
        nearest = next((one for one in self._near() if one.room > 0 and one.until_us <= now_us), own)
        if own.distance_us is None or nearest is own or nearest.distance_us is None:
            return
        if nearest.distance_us * limits.EDGE_NEARER <= own.distance_us:
            self.coordinator, self.reason, self.since_us = nearest.name, Reason.NEARER, now_us
            self.moves += 1

    def _determine_coordinator(self, answer: edges.Probed, now_us: int) -> None:
        others = [one for one in answer.coordinators if one.name != self._name]
        spare = len(others) + 1 - answer.few
        is_needless = not self.children and spare > 0 and any(one.room > 0 for one in others)
        if is_needless and self._is_chosen(spare, len(others) + 1):
            self._enter(Role.SEARCHING, Reason.NEEDLESS, now_us)

    def _is_chosen(self, wanted: int, among: int) -> bool:
        """Whether this edge is one of about so many that change their role, of those that ask themselves."""
        return crc32(f"{self._name} {self._rounds}".encode()) % among < wanted
