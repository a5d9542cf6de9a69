"""What a change of the daemon view means for groups, done in slices.

Follows: thesis 6.4.5 and 6.4.6 (GTRANS and GGATHER).
Deviations: with tens of thousands of groups this is seconds of work. The view is installed before it is done,
and each call of `Node.settle` does a slice of it (`limits.SLICE_STEPS`), so that signs of life go out and
come in between. No client notices where a slice ends: until all of it is done nothing of the new view is
delivered, and no client's message is ordered. If the view is lost meanwhile, the rest is done at once, before
it is left. A daemon tells its members in as many GROUPS messages as it takes (`limits.GROUPS_PART_STEPS`
each); the last one is marked, and groups are put together where the last one of the last daemon stands in the
agreed order.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.changeover import Changeover
from antiphon.core.groups.events import HostedGroup, groups_bundle, is_last_of_groups, parse_groups
from antiphon.core.groups.merging import Merging
from antiphon.core.ordering.entry import Entry
from antiphon.errors import BadFrame
from antiphon.types import ViewId

if TYPE_CHECKING:
    from antiphon.core.node import Node

Work = Iterator[int]
"""Yields after each part of it how many steps that was: members looked at, views made, bundles delivered."""


class Regrouping:
    """Brings the groups of one daemon into a new daemon view, and keeps the slices of all deliveries."""

    def __init__(self, node: "Node") -> None:
        self.slice_steps = limits.SLICE_STEPS
        """How much is done in one call of `Node.settle`."""
        self.part_steps = limits.GROUPS_PART_STEPS
        """How much is told in one GROUPS message."""
        self._node = node
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

    # Slices -----------------------------------------------------------------------------------------------

    def begin_slice(self) -> None:
        """The driver has had its turn."""
        self._left_steps = self.slice_steps

    def spend(self, steps: int) -> None:
        """So much was done."""
        self._left_steps -= steps

    def deliver(self, ready: deque[Entry], deliver: Callable[[Entry], None]) -> bool:
        """Deliver what may be, as far as the slice goes, but never let too much of it wait; whether that was
        all."""
        while ready and self._work is None:
            if self._left_steps <= 0 and len(ready) <= limits.READY_MAX:
                break
            deliver(ready.popleft())
        return not ready

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

    # The end of the old view ------------------------------------------------------------------------------

    def leave(self, changeover: Changeover) -> None:
        """Begin to take leave of the old view: the new one is about to be installed."""
        self._begin(changeover.conclude())

    def enter(self, changeover: Changeover) -> None:
        """The new view is installed; what is left of the old one comes first."""
        self._then = partial(self._enter, changeover)
        if self._work is None:
            self._complete()

    def _enter(self, changeover: Changeover) -> None:
        if self._node.entered_view(changeover):
            self._telling = self._tell()

    # Members told -----------------------------------------------------------------------------------------

    def _tell(self) -> Work:
        """Send this daemon's GROUPS messages."""
        node = self._node
        part: list[HostedGroup] = []
        steps = 0
        for hosted in node.delivery.membership.hosted(node.me):
            if steps >= self.part_steps:
                node.send_groups(groups_bundle(tuple(part), is_last=False))
                yield steps
                part, steps = [], 0
            part.append(hosted)
            steps += 1 + len(hosted.members)
        node.send_groups(groups_bundle(tuple(part)))
        yield steps

    # Members heard ----------------------------------------------------------------------------------------

    def take(self, merging: Merging, entry: Entry, epoch: int) -> None:
        """A GROUPS message is delivered; when all are, the groups are whole again."""
        node = self._node
        groups: tuple[HostedGroup, ...] = ()
        if entry.daemon not in merging.known:
            try:
                groups = parse_groups(entry.bundle, entry.header)
            except BadFrame as error:
                node.counters[error.reason] += 1
        self.spend(1 + len(groups))
        if merging.add(entry.daemon, groups, is_last_of_groups(entry.header)):
            view_id = ViewId(epoch, 0, entry.place, entry.daemon)
            self._begin(node.delivery.merge(merging, view_id), node.merged)
