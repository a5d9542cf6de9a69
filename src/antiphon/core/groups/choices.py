"""Members that chose less than senders ask for: what their daemon hands them before it is delivered.

Follows: InterGroup 5 (each receiver chooses). When a bundle has reached what somebody chose, see
`ordering.early`.
Deviations:
- One session may choose differently in its groups, and gets messages to its private name as they are sent. So
  what it gets early could overtake what it must wait for. It does not: with "fifo" nothing overtakes an
  earlier bundle of its sender, with "agreed" nothing overtakes an earlier bundle of the agreed order. What
  comes by several ways comes by the strictest.
- What came before a join or a leave took effect is delivered in its place.
Checked by: the scenario `choices`, the oracle's "choices" and the properties that members chose.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from antiphon.core.groups.membership import Membership
from antiphon.core.groups.sessions import Sessions
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Order
from antiphon.service import AGREED, FIFO, SAFE, Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag, Header, parse_names
from antiphon.wire.events import GroupEvent

Body = bytes | bytearray | memoryview
Line = tuple[int, int]
"""A sender, or `_ORDER`: within it, nothing is overtaken."""
_ORDER = (-1, -1)
_CACHE_MAX = 4_096


def in_place(entry: Entry) -> Body:
    """A bundle as its receivers get it: with its place, where it has one."""
    place = entry.place
    return entry.bundle if place in (0, entry.header.lts) else bundles.at_place(entry.bundle, place)


class _Waiting(Struct):
    """A bundle that a session has not got."""

    entry: Entry
    is_offered: bool
    """Whether it gets it as soon as nothing is before it; otherwise it is delivered, or offered again."""


def _number_of(waiting: _Waiting) -> int:
    return waiting.entry.header.number


def _place_of(waiting: _Waiting) -> int:
    return waiting.entry.place


class Choices:
    """What the sessions of one daemon chose, and what they have not got because of what comes before it."""

    def __init__(
        self,
        me: int,
        sessions: Sessions,
        membership: Membership,
        find_receivers: Callable[[tuple[str, ...]], tuple[int, ...]],
        hand: Callable[[tuple[int, ...], Header, Body], None],
    ) -> None:
        """`find_receivers` knows the sessions here to which these names are sent, `hand` hands a bundle to
        some."""
        self.is_waiting = False
        """Whether a session waits for a bundle that it would overtake."""
        self._me = me
        self._sessions = sessions
        self._membership = membership
        self._find_receivers = find_receivers
        self._hand = hand
        self._order: Order | None = None
        self._choosers: dict[bytes, tuple[tuple[int, Service], ...]] = {}  # by names area
        self._lines: dict[int, dict[Line, list[_Waiting]]] = {}  # by session, in order, none empty

    def changed(self) -> None:
        """A session of this daemon came, went, joined or left."""
        self._choosers.clear()

    def begin_view(self, order: Order | None) -> None:
        """What is delivered from now on is of the view with this order; None: the end of one."""
        self._order = order
        self._lines.clear()
        self.is_waiting = False
        self.wishes_changed()

    def wishes_changed(self) -> None:
        """Sessions here may have chosen other services: the order offers bundles as these want them."""
        order, wished = self._order, self._sessions.wished
        if order is not None and (wished or order.early.is_active):
            order.early.choose(wished, order.undelivered_now())

    def forget(self, number: int) -> None:
        """A session is over."""
        self._lines.pop(number, None)

    # Who chose what ---------------------------------------------------------------------------------------

    def choose(self, number: int, event: GroupEvent) -> None:
        """A session has joined a group, or left it."""
        session = self._sessions.get(number)
        if session is None:
            return
        session.ceilings.pop(event.group, None)
        if event.kind == "join" and event.delivery:
            session.ceilings[event.group] = Service(event.delivery)
        for waiting in self._lines.get(number, {}).values():
            for one in waiting:
                one.is_offered = False
        if self._order is None or FIFO not in session.ceilings.values():
            return
        ready = [one for one in self._order.ready if isinstance(one, Entry)]
        came = [
            entry
            for entry in (*ready, *self._order.undelivered_now())
            if entry.header.service >= FIFO
            and not entry.header.flags & ~Flag.CLIENT
            and number not in entry.handed
        ]
        for entry in came:
            self._wait(number, (entry.header.daemon, entry.header.session), entry, is_offered=False)

    def _of(self, names: bytes) -> tuple[tuple[int, Service], ...]:
        """The receivers of a bundle to these names that chose anything, each with the strictest of its
        choices for these names; SAFE is none."""
        choosers = self._choosers.get(names)
        if choosers is None:
            if len(self._choosers) >= _CACHE_MAX:
                self._choosers.clear()
            choosers = self._choosers[names] = self._find(parse_names(names)[1:])
        return choosers

    def _find(self, names: tuple[str, ...]) -> tuple[tuple[int, Service], ...]:
        found = []
        for number in self._find_receivers(names):
            session = self._sessions.get(number)
            assert session is not None
            if session.ceilings:
                ways = [name for name in names if name[0] != "#" and self._is_in(number, name)]
                ceilings = [session.ceilings.get(name, SAFE) for name in ways]
                found.append((number, SAFE if session.private_name in names else max(ceilings)))
        return tuple(found)

    def _is_in(self, number: int, name: str) -> bool:
        group = self._membership.groups.get(name)
        return group is not None and number in group.sessions_at(self._me)

    # What is handed to them -------------------------------------------------------------------------------

    def offer(self, entry: Entry, level: int) -> bool:
        """A bundle that is not delivered yet has reached `level`: hand it to the sessions that chose no more,
        unless it overtakes something. Whether there was one."""
        header = entry.header
        sender = (header.daemon, header.session)
        receivers = []
        for number, ceiling in self._of(header.names):
            is_kept_from = sender == (self._me, number) and header.flags & Flag.SELF_DISCARD
            if number in entry.handed or is_kept_from:
                continue
            lines = self._lines.get(number, {})
            is_offered = ceiling <= level
            in_line = (ceiling is FIFO and sender in lines) or (ceiling is AGREED and _ORDER in lines)
            if is_offered and not in_line:
                receivers.append(number)
                continue
            if level >= FIFO:
                self._wait(number, sender, entry, is_offered and ceiling is FIFO)
            if level >= AGREED:
                self._wait(number, _ORDER, entry, is_offered and ceiling is AGREED)
        if receivers:
            entry.handed += tuple(receivers)
            self._hand(tuple(receivers), header, in_place(entry))
            if self.is_waiting:
                self.passed(entry, receivers)
        return bool(receivers)

    def _wait(self, number: int, line: Line, entry: Entry, is_offered: bool) -> None:
        waiting = self._lines.setdefault(number, {}).setdefault(line, [])
        self.is_waiting = True
        known = next((one for one in waiting if one.entry is entry), None)
        if known is None:
            insort(waiting, _Waiting(entry, is_offered), key=_place_of if line == _ORDER else _number_of)
        elif is_offered:
            known.is_offered = True

    def passed(self, entry: Entry, receivers: Iterable[int] | None = None) -> None:
        """A bundle was handed to some sessions, or is delivered to all: what waits for it may follow."""
        header = entry.header
        passed = deque(
            (number, entry) for number in (receivers if receivers is not None else list(self._lines))
        )
        while passed:
            number, entry = passed.popleft()
            header = entry.header
            for line in ((header.daemon, header.session), _ORDER):
                for following in self._advance(number, line, entry):
                    if number not in following.handed:
                        following.handed += (number,)
                        self._hand((number,), following.header, in_place(following))
                        passed.append((number, following))
        self.is_waiting = bool(self._lines)

    def _advance(self, number: int, line: Line, entry: Entry) -> list[Entry]:
        """Take a bundle out of a line; what has nothing before it any more."""
        lines = self._lines.get(number)
        waiting = None if lines is None else lines.get(line)
        if lines is None or waiting is None:
            return []
        at = next((at for at, one in enumerate(waiting) if one.entry is entry), None)
        if at is None:
            return []
        del waiting[at]
        following = []
        while waiting and waiting[0].is_offered:
            following.append(waiting.pop(0).entry)
        if not waiting:
            del lines[line]
            if not lines:
                del self._lines[number]
        return following
