"""The changes of roles in one view at one daemon: those that are under way, and what its own source asks for.

Follows: NAVTECH 5.3 (mode switching) and 5.4 (each process decides for itself).
Checked by: tests/paper/test_adaptive.py, tests/simulation/test_restless_roles.py.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from antiphon import limits
from antiphon.core.ordering.ahead import Tempo
from antiphon.core.ordering.deciding import Decider, Decision
from antiphon.core.ordering.dependencies import Key
from antiphon.core.ordering.roles import Assignment, Roles
from antiphon.core.ordering.sequencer import Sequencer
from antiphon.core.ordering.told import Change, Reassignment, Wish, encode_told
from antiphon.core.overlay.topology import Segment


class RoleChanges:
    """What one daemon knows and wants of roles."""

    make_decider: Callable[[int], Decider] = Decider
    """Tests decide in other ways."""

    def __init__(
        self,
        me: int,
        segments: Iterable[Segment],
        contiguous: Callable[[int], int],
        clock: Callable[[], int],
    ) -> None:
        """`contiguous` has the number up to which a source's bundles have come, `clock` is Lamport's."""
        sources = {segment[0]: segment for segment in segments}
        self.source = next(source for source, segment in sources.items() if me in segment)
        self.roles = Roles(sources)
        self.sequencer = Sequencer(me, self.source, self.roles, contiguous, clock)
        self.sequencer.rounds_ahead = self._rounds_ahead
        self.wanted: deque[bytes] = deque()
        """Changes that our source asks for, and that were not told yet."""
        self.sent = dict.fromkeys(sources, 0)
        """By source, how many of its bundles for members are known."""
        self._counted = dict(self.sent)  # what of it was looked at
        self._others = 0
        self.under_way: dict[Key, Change] = {}
        """Those that have come and have not had their turn."""
        self._tempo = Tempo()
        self._is_representative = me == self.source
        self._decider: Decider | None = None
        self._is_reassigning = False  # from when this daemon says so until that has come back
        self._delays_us: Mapping[int, int] = {}
        self._now_us = 0

    @property
    def is_passive(self) -> bool:
        """Whether our source is."""
        return self.source not in self.roles.active

    @property
    def is_changing(self) -> bool:
        """Whether a change of our source is under way: it orders nothing until that has had its turn."""
        return self.sequencer.is_changing or self.sequencer.is_pending(self.source)

    def has_turn(self, key: Key, place: int) -> None:
        """A change has its turn in the agreed order."""
        source, number = key
        change = self.under_way.pop(key)
        self.sequencer.ends(source, number)
        self.roles.take_effect(source, number, change, place, self._now_us)
        if source == self.source:
            self.sequencer.is_changing = False
            if self._decider is not None:
                self._decider.changed(self._now_us)

    def _rounds_ahead(self, source: int) -> int:
        """As many stamps as are made until a source's confirmation of a ticket is back; less those that wait
        for other active sources anyway."""
        delays_us = self._delays_us
        others_us = max((delays_us.get(other, 0) for other in self.roles.active), default=0)
        return self._tempo.rounds_in(max(0, 2 * delays_us.get(source, 0) - others_us))

    def rounds_behind(self) -> Iterable[tuple[int, int]]:
        """The other active sources, each with as many stamps as are made while a bundle is on its way from
        there, or rather fewer: clocks that overtook one another would hurry."""
        if not self._is_representative or self.is_passive or not self._tempo.bundles_per_s:
            return ()
        delays_us, tempo = self._delays_us, self._tempo
        return [
            (other, tempo.rounds_in(delays_us[other] * limits.PACE_PERCENT // 100))
            for other in self.roles.active
            if other in delays_us
        ]

    # Another sequencer ------------------------------------------------------------------------------------

    @property
    def must_reassign(self) -> bool:
        """Whether our sequencer has become passive, so that we need another one."""
        if not self._is_representative or self._is_reassigning or not self.is_passive:
            return False
        return not self.roles.is_served(self.source)

    def reassign(self, last: int) -> bytes:
        """The closest active source gives the tickets that are missing: those after number `last`."""
        source, roles = self.source, self.roles
        delays_us = self._delays_us
        sequencer = min(roles.active, key=lambda other: (delays_us.get(other, limits.NEVER_US), other))
        first = max(last + 1, roles.assignments[source].first)
        self._is_reassigning = True
        return encode_told(Reassignment(first, sequencer, roles[sequencer].number))

    def reassigned(self, source: int, number: int, told: Reassignment) -> None:
        """A source has another sequencer; it said so in its bundle with this number."""
        self.roles.assign(source, Assignment(told.sequencer, told.role_number, told.first, number))
        self._is_reassigning = self._is_reassigning and source != self.source

    # Deciding ---------------------------------------------------------------------------------------------

    def look(self, delays_us: Mapping[int, int], now_us: int) -> None:
        """See `order.Order`."""
        self._now_us = now_us
        roles = self.roles
        if not roles.began_us:
            roles.began_us = now_us
        if not self._is_representative:
            return
        self._delays_us = delays_us
        self._tempo.look(self.sent, roles.active, now_us)
        if self._decider is None:
            self._decider = self.make_decider(now_us)
        decider = self._decider
        others = {other: delays_us[other] for other in roles.active if other in delays_us}
        self._count_others()
        decider.look(self.sent[self.source], self._others, now_us)
        if self.is_changing:
            decider.due_us = None
            return
        assignment = roles.assignments.get(self.source)
        sequencer = None if assignment is None else assignment.sequencer
        decision = decider.decide(not self.is_passive, sequencer, others, now_us)
        if decision is not None:
            self._ask_for(decision)

    def _count_others(self) -> None:
        """Count what other sources have sent while they were active."""
        counted = self._counted
        for source, sent in self.sent.items():
            if sent != counted[source]:
                if source != self.source and source in self.roles.active:
                    self._others += sent - counted[source]
                counted[source] = sent

    def _ask_for(self, decision: Decision) -> None:
        sequencer = decision.sequencer
        if decision.wish is Wish.ACTIVE:
            sequencer = self.source
        role_number = self.roles[sequencer].number
        self.sequencer.is_changing = True
        change = Change(decision.wish, sequencer, role_number, decision.reason)
        self.wanted.append(encode_told(change))

    @property
    def due_us(self) -> int | None:
        """When to look although nothing happens."""
        return None if self._decider is None else self._decider.due_us
