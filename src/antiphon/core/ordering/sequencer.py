"""The sequencer: an active source's representative gives tickets for the sources that have chosen it.

Follows: NAVTECH 5.2 and 5.3: it issues a ticket only if it has the role number with which it was chosen,
and stops when it is about to become passive.
Deviation: bundles of a source get their tickets in the order of their numbers, also those that have no
receiver at the sequencer's site, of which it knows the numbers alone.
Checked by: tests/paper/test_adaptive.py.
"""

from collections.abc import Callable

from antiphon import limits
from antiphon.core.ordering.ahead import Reservations
from antiphon.core.ordering.dependencies import Key
from antiphon.core.ordering.roles import Assignment, Roles
from antiphon.core.ordering.stability import number_of_round, stamp_at
from antiphon.core.ordering.told import Tickets


class Sequencer:
    """What one daemon may give tickets for."""

    def __init__(
        self,
        me: int,
        source: int,
        roles: Roles,
        contiguous: Callable[[int], int],
        clock: Callable[[], int],
    ) -> None:
        """`contiguous` has the number up to which a source's bundles have come, `clock` is Lamport's."""
        self._me = me
        self._is_representative = me == source
        self._source = source
        self.reserved = Reservations()
        """The places that were given, as rounds of the clock."""
        self.rounds_ahead: Callable[[int], int] = lambda source: 0
        """How far ahead of the clock the places of a source's bundles are."""
        self._given: dict[int, int] = {}  # by source, the round of the last place
        self._roles = roles
        self._contiguous = contiguous
        self._clock = clock
        self.is_changing = False
        """Whether a change of our own role is under way: then no ticket is given."""
        self.exempt: set[Key] = set()
        """Bundles that have come and need no ticket."""
        self._pending: dict[int, list[int]] = {}  # by source, the numbers of its changes that are under way

    def begins(self, source: int, number: int) -> None:
        """A source asks for a change of its role or of its sequencer."""
        self._pending.setdefault(source, []).append(number)

    def ends(self, source: int, number: int) -> None:
        """Such a change has had its turn."""
        pending = self._pending.get(source, [])
        if number in pending:
            pending.remove(number)
        if not pending:
            self._pending.pop(source, None)

    def is_pending(self, source: int) -> bool:
        """Whether a change of a source is under way."""
        return source in self._pending

    def _assigned(self) -> list[tuple[int, Assignment]]:
        """The passive sources that this daemon gives tickets, and from which number on."""
        roles = self._roles
        if not self._is_representative or self._source not in roles.active or self.is_changing:
            return []
        return [
            (source, assignment)
            for source, assignment in roles.assignments.items()
            if assignment.sequencer == self._source and self._is_current(assignment)
        ]

    def _last_wanted(self, source: int) -> int:
        """The number up to which a source's bundles may get tickets now: after a change of its role or of its
        sequencer they may be for another daemon to give. A source may ask for the next change before the last
        one has had its turn here."""
        pending = self._pending.get(source)
        last = self._contiguous(source)
        return min(last, pending[0]) if pending else last

    def _is_current(self, assignment: Assignment) -> bool:
        """Whether it is to us in our present role."""
        return assignment.role_number == self._roles[self._source].number

    def has_wanted(self) -> bool:
        """Whether this daemon has tickets to give."""
        found = False
        for source, assignment in self._assigned():
            last = self._last_wanted(source)
            while assignment.first <= last and (source, assignment.first) in self.exempt:
                assignment.first += 1
            found = found or assignment.first <= last
        return found

    def give_tickets(self) -> Tickets:
        """Tickets for what has come from one of the sources assigned to this daemon."""
        runs: list[tuple[int, int, int]] = []
        count = 0
        for source, assignment in self._assigned():
            last = self._last_wanted(source)
            most = min(limits.TICKET_RUNS_MAX, limits.TICKETS_MAX)
            while assignment.first <= last and count < most:
                number = assignment.first
                assignment.first += 1
                if (source, number) in self.exempt:
                    continue
                count += 1
                if runs and runs[-1][2] == number - 1:
                    runs[-1] = (source, runs[-1][1], number)
                else:
                    runs.append((source, number, number))
            if runs:
                return Tickets(self._reserve(source, count), tuple(runs))
        raise AssertionError("there are no tickets to give")

    def _reserve(self, source: int, count: int) -> int:
        """The place of the first of so many bundles of a source; it is a stamp of this daemon, later than all
        that was born here, and than the places that the source's bundles have had from it."""
        first = number_of_round(self._clock()) + 1 + self.rounds_ahead(source)
        first = self.reserved.take(max(first, self._given.get(source, 0) + 1), count)
        self._given[source] = first + count - 1
        return stamp_at(first, self._me)
