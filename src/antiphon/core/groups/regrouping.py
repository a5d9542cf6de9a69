"""What a change of the daemon view means for groups, done in slices: the states of their membership.

Follows: thesis 6.4.4 to 6.4.7 (GOP, GTRANS, GGATHER, GGT; `states` has the table).
Deviations: with tens of thousands of groups this is seconds of work. The view is installed before it is done,
and each call of `Node.settle` does a slice of it (`limits.SLICE_STEPS`), so that signs of life go out and
come in between. No client notices where a slice ends: until all of it is done nothing of the new view is
delivered, and no client's message is ordered. If the view is lost meanwhile, the rest is done at once, before
it is left. A daemon announces its members in as many GROUPS messages as it takes (`limits.GROUPS_PART_STEPS`
each); the last one is marked, and groups are put together where the last one of the last daemon stands in the
agreed order.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from antiphon import limits
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.dispatch import Work
from antiphon.core.groups.membership import Membership
from antiphon.core.groups.merging import Merging
from antiphon.core.groups.states import TRANSITIONS, GroupReason, GroupState
from antiphon.core.groups.transition import Transition
from antiphon.core.ordering.early import Offer
from antiphon.core.ordering.entry import Entry
from antiphon.wire.bundle import Draft
from antiphon.wire.events import HostedGroup, groups_bundle


class RegroupingHost(Protocol):
    """What the groups of a daemon ask it to do."""

    me: int
    delivery: Delivery

    def send_groups(self, draft: Draft) -> None:
        """Send a GROUPS message."""

    def groups_entered(self, state: GroupState, reason: GroupReason) -> None:
        """The groups have entered a state that observers are told of."""

    def ended(self, transition: Transition) -> None:
        """Everything of the old view is done."""

    def groups_are_whole(self) -> None:
        """The members of all groups are known, and messages flow."""


class Regrouping:
    """Brings the groups of one daemon into a new daemon view, and keeps the slices of all deliveries."""

    def __init__(self, host: RegroupingHost) -> None:
        self.slice_steps = limits.SLICE_STEPS
        """How much is done in one call of `Node.settle`."""
        self.part_steps = limits.GROUPS_PART_STEPS
        """How much is announced in one GROUPS message."""
        self.state = GroupState.GOP
        self.merging: Merging | None = None
        """The GROUPS messages so far, while groups are put together after daemons have come."""
        self._host = host
        self._left_steps = 0
        self._work: Work | None = None  # before anything else is delivered
        self._then: Callable[[], None] | None = None  # what follows from it
        self._telling: Work | None = None  # our GROUPS messages

    @property
    def is_blocking(self) -> bool:
        """Whether what is left to do comes before anything of the view is delivered."""
        return self._work is not None

    @property
    def is_under_way(self) -> bool:
        """Whether there is work left for the next slice."""
        return self._work is not None or self._telling is not None

    def _enter(self, reason: GroupReason) -> None:
        before, self.state = self.state, TRANSITIONS[self.state][reason]
        if self.state is GroupState.GGATHER or (before, self.state) == (GroupState.GGATHER, GroupState.GOP):
            self._host.groups_entered(self.state, reason)  # the other states hardly last

    # Slices -----------------------------------------------------------------------------------------------

    def begin_slice(self) -> None:
        """The driver has had its turn."""
        self._left_steps = self.slice_steps

    def spend(self, steps: int) -> None:
        """So much was done."""
        self._left_steps -= steps

    def deliver(self, ready: deque[Entry | Offer], deliver: Callable[[Entry | Offer], Work | None]) -> bool:
        """Deliver what may be, as far as the slice goes, but never let too much of it wait; whether that was
        all."""
        while ready and self._work is None:
            if self._left_steps <= 0 and len(ready) <= limits.READY_MAX:
                break
            work = deliver(ready.popleft())
            if work is not None:
                self._begin(work, self._merged)
        return not ready

    def deliver_rest(
        self, ready: deque[Entry | Offer], deliver: Callable[[Entry | Offer], Work | None]
    ) -> None:
        """The view stops: deliver all that may be."""
        self.finish()
        while ready:
            work = deliver(ready.popleft())
            if work is not None:
                self._begin(work, self._merged)
                self.finish()

    def go_on(self) -> None:
        """Do as much as there is room for."""
        if self._work is not None and self._is_done(self._work):
            self._complete()
        if self._work is None and self._telling is not None and self._is_done(self._telling):
            self._telling = None

    def finish(self) -> None:
        """The view stops: whatever would come before its next delivery is done now. The rest of our GROUPS
        messages is not sent: the groups are put together anew in the next view."""
        if self._work is not None:
            for _ in self._work:
                pass
            self._complete()
        self._telling = None

    def _is_done(self, work: Work) -> bool:
        while self._left_steps > 0:
            steps = next(work, None)
            if steps is None:
                return True
            self._left_steps -= steps
        return False

    def _complete(self) -> None:
        then, self._work, self._then = self._then, None, None
        if then is not None:
            then()

    def _begin(self, work: Work, then: Callable[[], None] | None = None) -> None:
        assert self._work is None
        self._work, self._then = work, then
        self.go_on()

    # From view to view --------------------------------------------------------------------------------------

    def leave(self, transition: Transition) -> None:
        """Begin to take leave of the old view: the new one is about to be installed."""
        self._enter(GroupReason.VIEW_ENDED)
        self.merging = None
        self._begin(transition.conclude())

    def enter(self, transition: Transition) -> None:
        """The new view is installed; what is left of the old one comes first."""
        self._then = lambda: self._entered(transition)
        if self._work is None:
            self._complete()

    def _entered(self, transition: Transition) -> None:
        self._host.ended(transition)
        recovery = transition.recovery
        if self.state is GroupState.GGT:
            self._enter(GroupReason.STILL_APART if transition.were_apart else GroupReason.MERGED)
        if self.state is GroupState.GTRANS:
            is_same = recovery.together == recovery.members
            self._enter(GroupReason.SAME_MEMBERS if is_same else GroupReason.DAEMONS_CAME)
        if self.state is GroupState.GOP:
            self._host.groups_are_whole()
            return
        self.merging = Merging(recovery.members, frozenset() if transition.were_apart else recovery.together)
        self._telling = self._tell(self._host.delivery.membership)

    def _merged(self) -> None:
        """The groups are whole again."""
        self.merging = None
        self._enter(GroupReason.MERGED)
        self._host.groups_are_whole()

    def _tell(self, membership: Membership) -> Iterator[int]:
        """Send this daemon's GROUPS messages."""
        part: list[HostedGroup] = []
        steps = 0
        for hosted in membership.hosted(self._host.me):
            if steps >= self.part_steps:
                self._host.send_groups(groups_bundle(tuple(part), is_last=False))
                yield steps
                part, steps = [], 0
            part.append(hosted)
            steps += 1 + len(hosted.members)
        self._host.send_groups(groups_bundle(tuple(part)))
        yield steps
