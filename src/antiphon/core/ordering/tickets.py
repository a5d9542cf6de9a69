"""The tickets of one view, as one daemon knows them: places of bundles that were not born with one.

A ticket is *confirmed* when the daemon that sent the bundle is known to have it. Places at the end of a view
depend on what senders knew (`adaptive_ending`), so a bundle may be delivered once its ticket is confirmed. It
may be forgotten, and a safe one may be delivered, once everybody has the confirmation.

Follows: NAVTECH 5.2 (a ticket states the total order of a message). Deviation: confirmations are ours.
Checked by: tests/unit/test_tickets.py, tests/paper/test_adaptive.py.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from msgspec import Struct

from antiphon import limits
from antiphon.core.ordering.dependencies import Key
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import stamp_after
from antiphon.core.ordering.told import Confirmation, Tickets
from antiphon.service import SAFE
from antiphon.wire.bundle import Flag


class Ticket(Struct):
    """The place of a bundle of a passive source, and the bundle that told it."""

    place: int
    sequencer: int
    number: int
    confirmed_lts: int = 0
    """The lts of the confirmation; 0 while there is none."""


class TicketBook:
    """What one daemon knows of tickets."""

    def __init__(
        self,
        me: int,
        contiguous: Callable[[int], int],
        is_resilient: Callable[[Entry], bool] = lambda entry: False,
    ) -> None:
        """`contiguous` has the number up to which a source's bundles have come, or are for other sites;
        `is_resilient` tells whether a bundle waits until enough daemons hold it."""
        self._me = me
        self._contiguous = contiguous
        self._is_resilient = is_resilient
        self.awaiting: dict[Key, Entry] = {}
        """What has come and has no ticket."""
        self.placed: dict[Key, Entry] = {}
        """What has come and has a ticket, until it is everywhere."""
        self.highest: dict[int, int] = {}
        """By source, the greatest number that ever had a ticket: they are given in order."""
        self.to_confirm: dict[int, int] = {}
        """By sequencer, the number of its newest tickets for bundles of this daemon, until that is told."""
        self.is_urgent = False
        """Whether a confirmation is waited for by all daemons: it is for a safe or a resilient bundle."""
        self._tickets: dict[Key, Ticket] = {}
        self._by_place: list[tuple[int, Key]] = []  # a heap of the tickets
        self._gaps: list[tuple[int, Key]] = []  # a heap of those for which something has not come
        self._unconfirmed: dict[int, list[tuple[Ticket, Entry]]] = {}  # by the daemon that sent the bundle
        self._confirmed: dict[tuple[int, int], tuple[int, int]] = {}
        # by daemon and sequencer: the number of the newest tickets that the daemon has, and who said so

    def __len__(self) -> int:
        return len(self._tickets)

    def of(self, entry: Entry) -> Ticket | None:
        """The ticket of a bundle."""
        return self._tickets.get((entry.source, entry.header.number))

    # What comes in ----------------------------------------------------------------------------------------

    def came(self, entry: Entry) -> bool:
        """A bundle that needs a ticket has come; whether it has one."""
        key = (entry.source, entry.header.number)
        ticket = self._tickets.get(key)
        if ticket is None:
            self.awaiting[key] = entry
            return False
        self._match(key, entry, ticket)
        return True

    def take(self, sequencer: int, number: int, told: Tickets) -> Iterator[tuple[int, Entry | None]]:
        """A sequencer has given tickets: each place, and its bundle if that has come."""
        place = told.place
        for source, first, last in told.runs:
            self.highest[source] = max(self.highest.get(source, 0), last)
            for at in range(first, last + 1):
                key = (source, at)
                if key not in self._tickets:
                    ticket = self._tickets[key] = Ticket(place, sequencer, number)
                    heappush(self._by_place, (place, key))
                    entry = self.awaiting.pop(key, None)
                    if entry is not None:
                        self._match(key, entry, ticket)
                    if at > self._contiguous(source):
                        heappush(self._gaps, (place, key))
                    yield place, entry
                place = stamp_after(place, sequencer)

    def _match(self, key: Key, entry: Entry, ticket: Ticket) -> None:
        """A bundle and its ticket are both here."""
        entry.place = ticket.place
        self.placed[key] = entry
        if entry.header.flags & Flag.ORDER:
            return  # members are told nothing of it
        number, lts = self._confirmed.get((entry.daemon, ticket.sequencer), (0, 0))
        if number >= ticket.number:
            ticket.confirmed_lts = entry.kept_until = lts
        else:
            entry.kept_until = limits.COUNTER_MAX
            self._unconfirmed.setdefault(entry.daemon, []).append((ticket, entry))
        if entry.daemon == self._me:
            before = self.to_confirm.get(ticket.sequencer, 0)
            self.to_confirm[ticket.sequencer] = max(before, ticket.number)
            self.is_urgent = self.is_urgent or self._is_careful(entry)

    def confirm(self, daemon: int, told: Confirmation, lts: int) -> None:
        """A daemon has the tickets of its bundles up to these; its word has this lts."""
        for sequencer, number in told.newest:
            before, _ = self._confirmed.get((daemon, sequencer), (0, 0))
            if number > before:
                self._confirmed[daemon, sequencer] = (number, lts)
        waiting = self._unconfirmed.pop(daemon, [])
        rest = []
        for ticket, entry in waiting:
            number, told_lts = self._confirmed.get((daemon, ticket.sequencer), (0, 0))
            if number >= ticket.number:
                ticket.confirmed_lts = entry.kept_until = told_lts
            else:
                rest.append((ticket, entry))
        if rest:
            self._unconfirmed[daemon] = rest

    def confirmation(self) -> Confirmation:
        """What this daemon has to confirm."""
        told = Confirmation(tuple(sorted(self.to_confirm.items())), self.is_urgent)
        self.to_confirm.clear()
        self.is_urgent = False
        return told

    # Questions --------------------------------------------------------------------------------------------

    def first_gap(self) -> int | None:
        """The first place of a bundle before which, or with which, something of its source has not come."""
        gaps = self._gaps
        while gaps:
            place, (source, number) = gaps[0]
            if self._contiguous(source) < number:
                return place
            heappop(gaps)
        return None

    def is_certain(self, entry: Entry, ticket: Ticket, stable: int) -> bool:
        """Whether the daemon that sent a bundle is known to have its ticket, because it is this one, has said
        so, or has acknowledged everything up to the place."""
        return entry.daemon == self._me or ticket.confirmed_lts > 0 or ticket.place <= stable

    def first_unsafe(self, stable: int) -> int:
        """The first place of a safe or resilient bundle that waits until its confirmation is everywhere, or
        0."""
        waiting = (
            entry.place
            for key, entry in self.placed.items()
            if self._is_careful(entry)
            and not entry.delivered
            and not 0 < self._tickets[key].confirmed_lts <= stable
        )
        return min(waiting, default=0)

    def _is_careful(self, entry: Entry) -> bool:
        """Whether a bundle waits until many, or all, have its confirmation."""
        return entry.header.service is SAFE or self._is_resilient(entry)

    # Forgetting -------------------------------------------------------------------------------------------

    def forget(self, entry: Entry) -> None:
        """A bundle is everywhere, and so is the confirmation of its ticket."""
        key = (entry.source, entry.header.number)
        self.placed.pop(key, None)
        self._tickets.pop(key, None)

    def forget_others(self, stable: int) -> None:
        """Tickets of bundles that are not for this site are not needed once all have them."""
        by_place = self._by_place
        while by_place and by_place[0][0] <= stable:
            _, key = heappop(by_place)
            if key not in self.placed:
                self._tickets.pop(key, None)
