"""A toy order that gives places late, to show that nothing but `core.ordering` relies on places at birth.

One daemon of each view, the sequencer, gives *tickets*: what it tells of an ordered bundle makes the bundle's
place known. Before that a bundle that is here has none, and neither it nor anything after it is delivered.
A place is no lts: it is greater by `SHIFT`, so that whoever confuses the two is wrong by far. It grows with
the lts, because the sides of a partition must agree on the order of what both of them deliver, whichever side
has the tickets: a bundle that has none when its view ends gets its place without one.
"""

import heapq
from collections.abc import Mapping, Set
from typing import Any

import msgspec

from antiphon import limits
from antiphon.core.ordering.ending import SymmetricEnding
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Ending
from antiphon.core.ordering.state import parse_state
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag
from antiphon.wire.packet import Skip

SHIFT = 1 << 50
Ticket = tuple[int, int, int]
"""A source, and the first and last of its numbers that have their places."""


class FixedSequencer(SymmetricOrder):
    """The symmetric order, but for when a place is known."""

    late = 0
    """How many bundles, of all orders, were here before their places were known."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_sequencer = self.me == min(self._sources)
        self._tickets: set[tuple[int, int]] = set()
        self._wanted: list[Ticket] = []  # the sequencer: what is to be told
        self._arrived: list[tuple[int, Entry]] = []  # the first one without a place, and all after it
        self._is_over = False

    def _keep(self, entry: Entry) -> None:
        super()._keep(entry)
        key = (entry.source, entry.header.number)
        if entry.header.service < Service.CAUSAL or self._is_over or key in self._tickets:
            entry.place = entry.header.lts + SHIFT
        else:
            entry.place = 0
            FixedSequencer.late += 1
            if self._is_sequencer:
                self._wanted.append((*key, key[1]))

    def receive(self, entry: Entry, in_order: bool = False) -> bool:
        if not super().receive(entry, in_order):
            return False
        if entry.header.flags & Flag.ORDER:
            body = bundles.payloads(bytes(entry.bundle), entry.header)[0]
            for source, first, last in msgspec.msgpack.decode(body, type=list[Ticket]):
                self._tickets.update((source, number) for number in range(first, last + 1))
            for _, waiting in (*self._order, *self._arrived):
                if (waiting.source, waiting.header.number) in self._tickets:
                    waiting.place = waiting.header.lts + SHIFT
        return True

    def skip(self, skip: Skip, is_urgent: bool = True) -> None:
        if self._is_sequencer and skip.last > self.contiguous(skip.source):
            self._wanted.append((skip.source, skip.first, skip.last))
        super().skip(skip, is_urgent)

    def advance(self) -> None:
        if self.moved:
            waiting = sorted(self._order + self._arrived)
            placed = next((at for at, (_, entry) in enumerate(waiting) if not entry.place), len(waiting))
            self._order, self._arrived = waiting[:placed], waiting[placed:]
            heapq.heapify(self._order)
            if self._wanted:
                self.to_tell.append(msgspec.msgpack.encode(self._wanted))
                self._wanted.clear()
        super().advance()

    @property
    def done_line(self) -> int:
        line = super().done_line
        return min(line, self._arrived[0][0] - 1) if self._arrived else line

    # The end of the view ----------------------------------------------------------------------------------

    def stop(self) -> None:
        super().stop()
        self._is_over = True
        self.to_tell.clear()

    def undelivered(self, promised: Set[int]) -> list[Entry]:
        rest = super().undelivered(promised)
        for entry in rest:
            entry.place = entry.header.lts + SHIFT
        return rest

    def ending(self, told: Mapping[int, bytes]) -> Ending:
        states = {daemon: parse_state(body) for daemon, body in told.items()}
        return _ShiftedEnding(self.me, self._segments, states)


class _ShiftedEnding(SymmetricEnding):
    """What the symmetric order knows at the end of a view, in places."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.delivered_line += SHIFT
        self.stable_line += SHIFT
        self.last_line += SHIFT
        self.hole_line = min(self.hole_line + SHIFT, limits.COUNTER_MAX)

    def has_delivered(self, daemon: int, place: int) -> bool:
        return super().has_delivered(daemon, place - SHIFT)

    def line_of(self, hosts: Any) -> int:
        self.stable_line -= SHIFT
        line = super().line_of(hosts) + SHIFT
        self.stable_line += SHIFT
        return line


class ReadsLts(FixedSequencer):
    """Takes the lines of the symmetric order for places: everything seems to come after the signal."""

    def ending(self, told: Mapping[int, bytes]) -> Ending:
        states = {daemon: parse_state(body) for daemon, body in told.items()}
        return SymmetricEnding(self.me, self._segments, states)
