"""What is done with each bundle that the order delivers: deliveries are dispatched here, and nowhere else.

Bundles of a view that works and those that are delivered at its end take the same ways. What differs between
the two stands in a `Passage`: the identifiers of the views of groups, what comes before and after a delivery,
and what is dropped.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from antiphon.core.groups.choices import in_place
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.membership import Mark
from antiphon.core.groups.merging import Merging
from antiphon.core.observer import Observer
from antiphon.core.ordering.early import Offer
from antiphon.core.ordering.entry import Entry
from antiphon.errors import BadFrame
from antiphon.types import ViewId
from antiphon.wire.bundle import Flag
from antiphon.wire.events import GroupEvent, HostedGroup, is_last_of_groups, parse_event, parse_groups

Work = Iterator[int]
"""Yields after each part of it how many steps that was: members looked at, views made, bundles delivered."""
NOT_FOR_MEMBERS = Flag.LATE | Flag.CONTROL | Flag.ORDER
"""Bundles that took effect when they came in: members are told nothing of them."""
_DAEMON_FLAGS = ~Flag.CLIENT


class Passage(Protocol):
    """A part of the stream of deliveries: a daemon view that works, or the end of one."""

    view_id: int
    """The daemon view to which the bundles belong."""

    @property
    def merging(self) -> Merging | None:
        """The GROUPS messages so far, while the groups are being put together."""

    @property
    def drops(self) -> bool:
        """Whether messages and group events come too early to be delivered to any member."""

    def dropped(self) -> None:
        """A bundle was not delivered because of that."""

    def spend(self, steps: int) -> None:
        """So much work was done."""

    def before_message(self, entry: Entry) -> None:
        """A bundle of messages is about to be delivered."""

    def before_event(self, entry: Entry, event: GroupEvent) -> Mark:
        """A join, leave or disconnect is about to take effect: how the views that it makes are called."""

    def after_event(self, entry: Entry, event: GroupEvent) -> None:
        """The event has taken effect."""


class Dispatcher:
    """Hands the bundles of one daemon to its groups."""

    def __init__(self, delivery: Delivery, observer: Observer | None, counters: Counter[str]) -> None:
        self._delivery = delivery
        self._choices = delivery.choices
        self._observer = observer
        self._counters = counters

    def deliver(self, entry: Entry | Offer, passage: Passage) -> Work | None:
        """One bundle has its turn, or is offered to members that chose less. What is returned is work that
        comes before the next bundle: the groups are complete, and are put together (`Passage.merging` is over
        when it is done)."""
        if isinstance(entry, Offer):
            if not passage.drops and self._choices.offer(entry.entry, entry.level):
                passage.spend(1)
            return None
        header = entry.header
        flags = header.flags
        if not flags & _DAEMON_FLAGS:
            if passage.drops:
                passage.dropped()
                return None
            passage.before_message(entry)
            if self._observer is not None:
                self._observer.delivered(passage.view_id, header, entry.place)
            self._delivery.message(header.daemon, header, in_place(entry), entry.handed)
            feeding = self._delivery.feeding
            if feeding is not None and feeding.is_active:
                feeding.message(entry)
            if self._choices.is_waiting:
                self._choices.passed(entry)
            passage.spend(1)
        elif flags & NOT_FOR_MEMBERS:
            return None
        elif flags & Flag.GROUPS:
            return self._groups(entry, passage)
        else:
            self._event(entry, passage)
        return None

    def _event(self, entry: Entry, passage: Passage) -> None:
        if passage.drops:
            passage.dropped()
            return
        event = parse_event(entry.bundle, entry.header)
        mark = passage.before_event(entry, event)
        self._observe(entry, passage)
        passage.spend(self._delivery.event(entry.daemon, entry.header, event, mark, entry.place))
        passage.after_event(entry, event)

    def _groups(self, entry: Entry, passage: Passage) -> Work | None:
        """A GROUPS message (figure 6.26)."""
        self._observe(entry, passage)
        merging = passage.merging
        if merging is None:
            return None
        groups: tuple[HostedGroup, ...] = ()
        if entry.daemon not in merging.known:
            try:
                groups = parse_groups(entry.bundle, entry.header)
            except BadFrame as error:
                self._counters[error.reason] += 1
        passage.spend(1 + len(groups))
        if not merging.add(entry.daemon, groups, is_last_of_groups(entry.header)):
            return None
        return self._delivery.merge(merging, ViewId(passage.view_id, 0, entry.place, entry.daemon))

    def _observe(self, entry: Entry, passage: Passage) -> None:
        if self._observer is not None:
            self._observer.delivered(passage.view_id, entry.header, entry.place)
