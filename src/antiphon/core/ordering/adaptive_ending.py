"""The end of a view in the adaptive order: places for what has no ticket, or one that is not certain.

Members tell, beside what `state` has, the places of bundles that are *certain*: the daemon that sent each of
them had its ticket when the view stopped. So all who go on together agree on these places. The rest of the
view is delivered like this:

- a bundle whose place is certain has that place
- any other that needs a ticket was delivered by no daemon while the view worked. If it was promised that
  nothing of its sender is dropped, it comes after everything that has a place, in the order of lts; its
  sender does the same wherever it goes on. Otherwise it is dropped if it is causal or ordered, and comes as
  early as it may if not: what its sender's companions deliver of it comes before what they sent then
- a bundle that needs no ticket has the place with which it was born

Places at the end are far beyond the clock of the view (`limits.PLACES_SPARE`): another part of the view may
go on for a while without the passive sources that are lost to it, and what it never got must not seem to come
before what it delivers.

Follows: thesis 6.1.9 and 6.1.10. NAVTECH 5.3 relies on linear views here: it discards what has no ticket.
Checked by: tests/simulation/test_restless_roles.py, the oracle's properties 2.7 to 2.15.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Set

import msgspec

from antiphon import limits
from antiphon.core.ordering.ending import SymmetricEnding
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import daemon_of, stamp_after
from antiphon.core.ordering.state import OrderState, check_state
from antiphon.core.overlay.topology import Segment
from antiphon.errors import BadFrame
from antiphon.service import CAUSAL
from antiphon.wire.decoding import NOT_A_VALUE
from antiphon.wire.extensions import SEQUENCER

PlacedRun = tuple[int, int, int, int]
"""A source, the first and last of consecutive numbers of its bundles, and the place of the first: each of the
others has the next stamp of the same daemon."""


class PlacedRuns:
    """Places of bundles, as runs: what is told may be long, and is never taken apart."""

    def __init__(self, runs: Iterable[PlacedRun] = ()) -> None:
        self._by_source: dict[int, list[tuple[int, int, int]]] = {}  # ascending: first, last, place
        for source, first, last, place in runs:
            self._insert(source, (first, last, place))

    def _insert(self, source: int, run: tuple[int, int, int]) -> None:
        """Add what is not known of a run: what is known of a source does not overlap."""
        known = self._by_source.setdefault(source, [])
        begin, last, place = run
        first = begin
        at = bisect_right(known, first, key=lambda one: one[0])
        if at:
            first = max(first, known[at - 1][1] + 1)
        while first <= last:
            end = min(last, known[at][0] - 1) if at < len(known) else last
            if first <= end:
                known.insert(at, (first, end, _place_at(place, first - begin)))
                at += 1
            if at >= len(known):
                return
            first = known[at][1] + 1
            at += 1

    def add(self, source: int, number: int, place: int) -> None:
        """One more bundle, of a greater number than those of its source before."""
        known = self._by_source.setdefault(source, [])
        if known:
            first, last, begin = known[-1]
            if last == number - 1 and _place_at(begin, number - first) == place:
                known[-1] = (first, number, begin)
                return
        known.append((number, number, place))

    def merge(self, other: "PlacedRuns") -> None:
        """What another one knows, too."""
        for source, first, last, place in other.runs():
            self._insert(source, (first, last, place))

    def place_of(self, source: int, number: int) -> int | None:
        """The place of a bundle, if it is here."""
        known = self._by_source.get(source, [])
        at = bisect_right(known, number, key=lambda one: one[0])
        if not at or number > known[at - 1][1]:
            return None
        first, _, place = known[at - 1]
        return _place_at(place, number - first)

    def runs(self) -> tuple[PlacedRun, ...]:
        """All of it."""
        return tuple((source, *run) for source, known in sorted(self._by_source.items()) for run in known)


def _place_at(begin: int, steps: int) -> int:
    """The place that is so many stamps of one daemon after `begin`."""
    return begin + steps * (stamp_after(begin, daemon_of(begin)) - begin)


class AdaptiveState(OrderState, frozen=True, array_like=True):
    """One daemon's knowledge of the order of its view."""

    last: int
    """Its Lamport clock when the view stopped: no place is later. `clock` is beyond that, so that what has no
    place finds one before everything of the next view."""
    placed: tuple[PlacedRun, ...]
    """The places that are certain."""
    behind: tuple[tuple[int, int], ...]
    """(source, number): bundles that it retains and has not delivered, although it has delivered what has a
    later place."""
    unsafe: int
    """The first place of a safe bundle whose confirmation is not known to be everywhere; 0 if there is none.
    A part of the view that lacks it drops the bundle."""


_decode = msgspec.msgpack.Decoder(AdaptiveState).decode


def parse_adaptive_state(body: bytes) -> AdaptiveState:
    """What a daemon has told; BadFrame if no daemon could be in that state."""
    try:
        state = _decode(body)
    except NOT_A_VALUE as error:
        raise BadFrame(f"state: {type(error).__name__}") from None
    check_state(state)
    if max(len(state.placed), len(state.behind)) > limits.PLACED_RUNS_MAX:
        raise BadFrame("state: too many places")
    for source, first, last, place in state.placed:
        if not (0 <= source < limits.DAEMONS_MAX and 0 < first <= last < first + limits.OUTSTANDING_MAX):
            raise BadFrame("state: impossible numbers")
        if last > limits.COUNTER_MAX or not 0 < place <= limits.COUNTER_MAX:
            raise BadFrame("state: impossible counter")
    if not (0 <= state.last <= limits.COUNTER_MAX and 0 <= state.unsafe <= limits.COUNTER_MAX):
        raise BadFrame("state: impossible counter")
    return state


class AdaptiveEnding(SymmetricEnding):
    """See `order.Ending`."""

    def __init__(
        self, me: int, segments: Iterable[Segment], states: Mapping[int, AdaptiveState], start: int
    ) -> None:
        super().__init__(me, segments, states)
        self.last = max(state.last for state in states.values())
        """No place of the view is later, but for those at its end."""
        self.after_last = self.last - start + limits.PLACES_SPARE
        """What has no place is put so much later than its lts: beyond everything that has one."""
        self.places = PlacedRuns()
        """Those that are certain."""
        for _, state in sorted(states.items()):
            self.places.merge(PlacedRuns(state.placed))
        unsafe = [state.unsafe for state in states.values() if state.unsafe]
        self.stable_line = min([self.stable_line, *(place - 1 for place in unsafe)])
        self._behind = {daemon: frozenset(state.behind) for daemon, state in states.items() if state.behind}

    def is_delivered(self, source: int, number: int, place: int) -> bool:
        """See `order.Ending`."""
        if not self._behind:
            return super().is_delivered(source, number, place)
        return any(
            (self.has_delivered(daemon, place) and (source, number) not in self._behind.get(daemon, ()))
            or number in self._overtook.get((daemon, source), ())
            for daemon in self.retaining(source, number)
        )


def give_places(rest: list[Entry], ending: AdaptiveEnding, promised: Set[int]) -> list[Entry]:
    """Give what was not delivered its places; the same bundles in their order. No bundle of the daemons in
    `promised` is dropped."""
    last: dict[tuple[int, int], int] = {}  # by session, the place of what it sent before
    for entry in sorted(rest, key=lambda one: (one.source, one.header.number)):
        header = entry.header
        sender = (header.daemon, header.session)
        if not any(one.type == SEQUENCER for one in header.extensions):
            entry.place = header.lts
            continue
        place = ending.places.place_of(entry.source, header.number)
        is_kept = header.daemon in promised
        if place is None and header.service < CAUSAL and not is_kept:
            place = max(header.lts, last.get(sender, 0), ending.delivered_line)
        entry.place = header.lts + ending.after_last if place is None else place
        if place is not None or is_kept:
            last[sender] = entry.place
    return sorted(rest, key=lambda one: (one.place, one.source, one.header.number))
