"""The end of a view in the symmetric order: which members lack and retain which bundles, and where a hole is.

Follows: thesis 6.1.9 and 6.1.10 (figures 6.13 to 6.15).
Deviations:
- a hole is a number that a member lacks and no member retains. Numbers that were never for a site (skipped)
  are no holes to it; whether there is a hole is decided from what all members have told, so that all drop the
  same
- where the knowledge of a source ends that has lost daemons, there may be a hole of which nobody here knows.
  The thesis delivers what others sent after it, which breaks 2.9: that may have been sent in the view of a
  group that an unknown event has made
- where the certain part of the stream ends is found for each group (`line_of`): bundles are pruned, so only
  members whose daemon hosts the group can have delivered more of it than is stable
"""

from collections.abc import Iterable, Mapping

from antiphon import limits
from antiphon.core.ordering.order import Duties
from antiphon.core.ordering.ranges import Ranged, numbers, union
from antiphon.core.ordering.state import OrderState, SourceState
from antiphon.core.overlay.topology import Segment


class SymmetricEnding:
    """See `order.Ending`. In the symmetric order the place of a bundle is its lts."""

    def __init__(self, me: int, segments: Iterable[Segment], states: Mapping[int, OrderState]) -> None:
        """`segments` are those of the view, `states` what the members have told that go on together."""
        self.me = me
        self.together = frozenset(states)
        self._states = {daemon: states[daemon] for daemon in sorted(states)}
        told = list(self._states.values())
        self.delivered_line = max(state.delivered for state in told)
        self.stable_line = max(state.stable for state in told)
        self.last_line = max(state.clock for state in told)
        self._duties: dict[int, Duties] = {}
        self._retaining: dict[
            int, list[tuple[int, Ranged]]
        ] = {}  # source -> members by duty, what they retain
        self._overtook: dict[tuple[int, int], Ranged] = {}  # by member and source
        sources: dict[int, dict[int, SourceState]] = {}
        for daemon, state in self._states.items():
            for known in state.sources:
                sources.setdefault(known.source, {})[daemon] = known
                if known.overtook:
                    self._overtook[daemon, known.source] = Ranged(known.overtook)
        self.hole_line = limits.COUNTER_MAX
        for segment in sorted(segments):
            told_of_it = sources.get(segment[0], {})
            first_hole = self._look_at(segment[0], told_of_it)
            if first_hole is not None or not self.together.issuperset(segment):
                self.hole_line = min(self.hole_line, _complete_line(told_of_it, first_hole))

    def _look_at(self, source: int, known: dict[int, SourceState]) -> int | None:
        """Find the members that lack and retain each of a source's bundles; the number of the first hole."""
        highest = max((state.known for state in known.values()), default=0)
        come = {daemon: _come(known.get(daemon)) for daemon in sorted(self.together)}
        retaining = [
            (daemon, Ranged(known[daemon].retained)) for daemon in self._by_duty(source) if daemon in known
        ]
        self._retaining[source] = retaining
        self._duties[source] = duties = {}
        mine = known.get(self.me)
        for number in numbers(mine.retained if mine is not None else ()):
            if self.retaining(source, number)[0] == self.me:
                who = [daemon for daemon, its in come.items() if number not in its]
                if who:
                    duties[number] = who
        there = Ranged(union(one for _, its in retaining for one in its.ranges))
        holes = (there.first_without(gap) for its in come.values() for gap in its.gaps(highest))
        return min((hole for hole in holes if hole is not None), default=None)

    def _by_duty(self, source: int) -> list[int]:
        """The members in the order in which they retransmit a source's bundles: its first daemon first."""
        return sorted(self.together, key=lambda daemon: (daemon < source, daemon))

    def duties(self, source: int) -> Duties:
        """See `order.Ending`."""
        return self._duties.get(source, {})

    def retaining(self, source: int, number: int) -> list[int]:
        """See `order.Ending`."""
        return [daemon for daemon, its in self._retaining.get(source, ()) if number in its]

    def has_delivered(self, daemon: int, place: int) -> bool:
        """See `order.Ending`."""
        state = self._states.get(daemon)
        return state is not None and state.delivered >= place

    def is_delivered(self, source: int, number: int, place: int) -> bool:
        """See `order.Ending`."""
        return any(
            self.has_delivered(daemon, place) or number in self._overtook.get((daemon, source), ())
            for daemon in self.retaining(source, number)
        )

    def line_of(self, hosts: Iterable[int]) -> int:
        """See `order.Ending`."""
        line = self.stable_line
        for daemon in hosts:
            state = self._states.get(daemon)
            if state is not None and state.delivered > line:
                line = state.delivered
        return line


def _come(state: SourceState | None) -> Ranged:
    """The numbers that have come to a member, or are for other sites."""
    if state is None:
        return Ranged(())
    before = ((1, state.contiguous),) if state.contiguous else ()
    return Ranged((*before, *((first, last) for first, last, _ in state.ahead if last > state.contiguous)))


def _complete_line(known: Mapping[int, SourceState], first_hole: int | None) -> int:
    """The lts up to which nothing is missing of a source, once members have told one another what they have;
    what came before the last number ahead is there, too, if no hole precedes it."""
    line = 0
    for state in known.values():
        if first_hole is None or state.contiguous < first_hole:
            line = max(line, state.lts)
        line = max([line, *(lts for _, last, lts in state.ahead if first_hole is None or last < first_hole)])
    return line
