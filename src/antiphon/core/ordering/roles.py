"""The roles of the sources of one view, as they are at one point of the agreed order.

Follows: NAVTECH 5.3 (process descriptors and system configurations).
Deviation: a new view begins with all sources active, whatever they were before: no role outlives its view.
Checked by: tests/paper/test_adaptive.py.
"""

from collections.abc import Iterable

from msgspec import Struct

from antiphon.core.ordering.order import RoleNow
from antiphon.core.ordering.told import Change, Reason, Wish


class Assignment(Struct):
    """Who gives the bundles of a passive source their tickets."""

    sequencer: int
    role_number: int
    first: int
    """The number of the first bundle that needs one; the sequencer counts on from there."""
    told_by: int
    """The number of the source's bundle that said so: a later one counts more."""


class Role(Struct):
    """What one source is now: its process descriptor."""

    is_active: bool = True
    number: int = 0
    """The role number: how often the source has changed its role in this view."""
    reason: Reason = Reason.NEW_VIEW
    since_us: int = 0
    """When this daemon learned of it."""
    place: int = 0
    """Where in the agreed order it took effect."""


class Roles:
    """A system configuration: the roles of all sources."""

    def __init__(self, sources: Iterable[int]) -> None:
        self.began_us = 0
        """When the view began to work at this daemon."""
        self._roles = {source: Role() for source in sources}
        self.active = set(self._roles)
        """The sources that are waited for."""
        self.assignments: dict[int, Assignment] = {}
        """By passive source, who gives tickets for it."""

    def __getitem__(self, source: int) -> Role:
        return self._roles[source]

    def now(self) -> list[RoleNow]:
        """The roles as they are shown."""
        return [
            RoleNow(
                source,
                role.is_active,
                role.number,
                self.assignments[source].sequencer if source in self.assignments else None,
                role.since_us or self.began_us,
                role.reason.text,
            )
            for source, role in sorted(self._roles.items())
        ]

    def take_effect(self, source: int, number: int, change: Change, place: int, now_us: int) -> bool:
        """A change has its turn in the agreed order; whether it is made. `number` is that of its bundle."""
        role = self._roles[source]
        if change.wish is Wish.ACTIVE:
            is_made = not role.is_active
            if is_made:
                self.active.add(source)
                self.assignments.pop(source, None)
        elif change.wish is Wish.PASSIVE:
            is_made = role.is_active and len(self.active) > 1  # the last active source stays active
            if is_made:
                self.active.discard(source)
        else:
            is_made = not role.is_active
        if not is_made:
            return False
        if change.wish is not Wish.ACTIVE:
            self.assign(source, Assignment(change.sequencer, change.role_number, number + 1, number))
        if change.wish is not Wish.SEQUENCER:
            role.is_active = change.wish is Wish.ACTIVE
            role.number += 1
        role.reason, role.since_us, role.place = change.reason, now_us, place
        return True

    def assign(self, source: int, assignment: Assignment) -> None:
        """A source names its sequencer."""
        before = self.assignments.get(source)
        if before is None or before.told_by < assignment.told_by:
            self.assignments[source] = assignment

    def is_served(self, source: int) -> bool:
        """Whether a passive source has a sequencer that is active, and in the role in which it was chosen."""
        assignment = self.assignments.get(source)
        if assignment is None or assignment.sequencer not in self.active:
            return False
        return self._roles[assignment.sequencer].number == assignment.role_number
