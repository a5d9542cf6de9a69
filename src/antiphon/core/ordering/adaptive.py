"""The adaptive order: sources that send often give places, the others get theirs with tickets.

Follows: NAVTECH 5 (the dynamic hybrid protocol), InterGroup 6 (only active senders are waited for).

Each source of a view is active or passive. The bundles of an *active* source are born with their places, as
in the symmetric order, and the agreed line is drawn from the active sources alone. An ordered bundle of a
*passive* source goes out at once, names its *sequencer*, and has no place before the ticket that the
sequencer gives it. Places are stamps of the sequencer, made before the bundle that carries the tickets: who
knows all of the sequencer up to a place knows its ticket.

Deviations, each for a property of chapter 2 of the thesis:
- A bundle with a ticket is delivered only when the daemon that sent it is known to have its ticket: that
  daemon confirms it. Without this, the sides of a partition could deliver two such bundles in different
  orders (2.13), because each side delivers what its own daemons have sent (2.15), with ticket or without. A
  safe one is delivered when everybody has the confirmation (2.14).
- What is not ordered goes without a ticket, and is born with its place, unless its session has sent something
  before that waits for its ticket. Whoever comes after it says so (`dependencies`).
- Joins, leaves and all that daemons tell their groups have their turn when everything that was born before
  their places has come from all sources, passive ones, too (2.7): these are rare.
- A source that is about to change its role orders nothing until the change has taken effect (NAVTECH stops
  the sender, too). In a segment, all of its daemons do: none of them numbers a bundle before it has all that
  its segment has numbered before.
- Loss of a sequencer is a change of the view, and a view begins with all sources active. So nothing is
  reassigned because of failures, only when a sequencer becomes passive.
Stability counts all sources. At the end of a view, see `adaptive_ending`.
Checked by: tests/paper/test_adaptive.py, the oracle's rules in the simulator with `--order adaptive`.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence, Set
from heapq import heappop, heappush
from struct import Struct as Layout

from antiphon import limits
from antiphon.core.ordering.adaptive_ending import (
    AdaptiveEnding,
    AdaptiveState,
    PlacedRuns,
    give_places,
    parse_adaptive_state,
)
from antiphon.core.ordering.adaptive_lines import AdaptiveLines
from antiphon.core.ordering.dependencies import Dependencies
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.fifo import Chain
from antiphon.core.ordering.order import Ending, RoleNow
from antiphon.core.ordering.outbox import OrderOutbox
from antiphon.core.ordering.role_changes import RoleChanges
from antiphon.core.ordering.stability import number_of_round, stamp_after, stamp_at
from antiphon.core.ordering.state import encode_state
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.ordering.tickets import TicketBook
from antiphon.core.ordering.told import (
    Change,
    Confirmation,
    Delivered,
    Seen,
    Tickets,
    Told,
    Wish,
    encode_told,
    parse_told,
)
from antiphon.core.overlay.topology import Segment
from antiphon.errors import BadFrame
from antiphon.service import AGREED, CAUSAL, SAFE, UNRELIABLE
from antiphon.wire.after import After, Loose, after_of, extension
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.extensions import SEQUENCER, Extension
from antiphon.wire.packet import Skip

_NAMING = Layout("!HI")
_LOOSE = extension(After(True, ()))
_UNPLACED = Flag.LATE | Flag.CONTROL | Flag.ORDER
"""Bundles that no member hears of: they need no place."""
_DAEMON_FLAGS = ~Flag.CLIENT
_GROUPS_FLAGS = ~Flag.CLIENT & ~_UNPLACED
"""What daemons tell their groups."""


def needs_ticket(header: Header) -> bool:
    """Whether a bundle is not born with its place."""
    return bool(header.extensions) and any(one.type == SEQUENCER for one in header.extensions)


class AdaptiveOrder(SymmetricOrder):
    """The ordering of one daemon: see `order.Order`."""

    def __init__(
        self,
        daemons: int,
        me: int,
        segments: tuple[Segment, ...] | None = None,
        start: int = 0,
        clock: int = 0,
        site: int = 0,
        sites: Sequence[int] | None = None,
    ) -> None:
        """See `symmetric.SymmetricOrder`."""
        super().__init__(daemons, me, segments, start, clock, site, sites)
        self.start = self.lines.agreed
        self._site = site
        self.changes = RoleChanges(me, self._segments, self.contiguous, lambda: self.lines.clock)
        self.roles = self.changes.roles
        self.sequencer = self.changes.sequencer
        self.lines = self._lines = AdaptiveLines.following(
            self.lines, self.roles.active, self.sequencer.reserved
        )
        self.to_tell = self._outbox = OrderOutbox(self)
        self.book = TicketBook(me, self.contiguous, self.resilience.is_urgent)
        self.dependencies = Dependencies(self.source, self.contiguous)
        self.is_over = False
        self._unread: dict[int, list[tuple[int, Entry, Told]]] = {source: [] for source in self._sources}
        self._own_waiting: Counter[int] = Counter()  # by session, bundles that need tickets and wait
        self._waiters: deque[Entry] = deque()  # our bundles that wait for others
        self._last = 0  # the clock when the view stopped
        self._beyond = 0  # the clock after that, which leaves room for places at the end
        self._told = PlacedRuns()  # what others have told of places in attempts to leave the view
        self._ending: AdaptiveEnding | None = None

    # The clock --------------------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """See `order.Order`."""
        return max(self.lines.clock, self._beyond)

    def tick(self) -> int:
        """See `order.Order`."""
        if not self.is_over:
            return self.lines.tick()
        self._beyond = stamp_after(self.clock, self.me)
        return self._beyond

    # Sending ----------------------------------------------------------------------------------------------

    @property
    def is_holding(self) -> bool:  # type: ignore[override]
        """See `order.Order`."""
        if self.is_over:
            return False
        if self.changes.is_changing:
            return True
        if self._sources[self.source].contiguous < self.issued:
            return True
        return len(self.book) > limits.TICKETS_MAX

    def extensions(self, header: Header, session: int) -> tuple[Extension, ...]:
        """See `order.Order`."""
        if self.is_over or header.flags & _UNPLACED:
            return ()
        if header.service is UNRELIABLE:
            named = self.dependencies.named(self._own_under_way())
            return () if named is None else (named,)
        if not self.changes.is_passive:
            return ()
        is_ordered = header.service >= AGREED or header.flags & _GROUPS_FLAGS
        if not is_ordered and not self._own_waiting[session]:
            return (_LOOSE,)
        assignment = self.roles.assignments[self.source]
        return (Extension(SEQUENCER, _NAMING.pack(assignment.sequencer, assignment.role_number)),)

    def _own_under_way(self) -> Loose | None:
        """What is not known to be everywhere of our source, if nobody waits for that."""
        if not self.changes.is_passive or not self._retained:
            return None
        newest = self._greatest(self.source, self._sources[self.source])
        return Loose(self.source, newest, self.lines.clock) if newest else None

    def told_before(self, header: Header) -> bytes | None:
        """See `order.Order`."""
        if self.is_over or header.flags & _UNPLACED:
            return None
        seen = self.dependencies.untold(self.lines.stable)
        self.dependencies.told()
        return encode_told(Seen(seen)) if seen else None

    def has_places(self, session: int) -> bool:
        """See `order.Order`."""
        return not self._own_waiting[session] and self.dependencies.has_room(self.lines.stable)

    def may_follow(self, header: Header, earlier_lts: int) -> bool:
        """A ticket may come late. What was born with its place comes before all that was born after it."""
        return header.lts > earlier_lts or needs_ticket(header)

    def own_after(self, lts: int) -> list[Entry]:
        """The unstable bundles of this daemon that have no place yet, or one after `lts`."""
        return [entry for entry in self._own if not entry.place or entry.place > lts]

    def wait_for_others(self, entry: Entry) -> None:
        """See `order.Order`."""
        entry.waits_for_others = True
        self._waiters.append(entry)
        self._cap()

    def _cap(self) -> None:
        """Acknowledge nothing from the place of our first bundle that waits for others on. Before its ticket
        is here we cannot have acknowledged that place. Daemons that acknowledged nothing after the births of
        such bundles could wait for one another for ever."""
        waiters = self._waiters
        self.lines.capped_below = (waiters[0].place or None) if waiters else None

    def _vouch_again(self) -> None:
        """Acknowledge on from bundles of ours that all others have, also while they wait for their turn: a
        safe bundle before them may wait for what we acknowledge after them."""
        waiters, lines = self._waiters, self.lines
        while waiters and 0 < waiters[0].place <= lines.stable_elsewhere:
            waiters.popleft().waits_for_others = False
            self._cap()
            lines.advance(self._is_complete)

    # Receiving --------------------------------------------------------------------------------------------

    def receive(self, entry: Entry, in_order: bool = False) -> bool:
        """See `order.Order`."""
        header = entry.header
        if not header.extensions and not header.flags & _UNPLACED:  # born with its place
            if not super().receive(entry, in_order):
                return False
            self.changes.sent[entry.source] += 1
            if self._unread[entry.source]:
                self._read(entry.source)
            return True
        self._check_after(header)
        told = parse_told(entry, self._sources) if header.flags & Flag.ORDER else None
        key = (entry.source, header.number)
        if isinstance(told, Change) and not self.has(*key):
            self.changes.under_way[key] = told
        if not super().receive(entry, in_order):
            return False
        if told is not None:
            if not isinstance(told, Change) or told.wish is Wish.PASSIVE:
                self.sequencer.exempt.add(key)
            heappush(self._unread[entry.source], (header.number, entry, told))
        elif not needs_ticket(header):
            self.sequencer.exempt.add(key)
        if not header.flags & _UNPLACED:
            self.changes.sent[entry.source] += 1
        self._read(entry.source)
        return True

    def _check_after(self, header: Header) -> None:
        after = after_of(header)
        if after is not None and any(loose.source not in self._sources for loose in after.needs):
            raise BadFrame("after: not a source of the view")

    def receive_late(self, entry: Entry) -> None:
        """See `order.Order`. What comes before the join that it was sent for is for other sites."""
        self._check_after(entry.header)
        if not self._is_past(entry):
            super().receive_late(entry)

    def _is_past(self, entry: Entry) -> bool:
        """Whether a bundle that was for other sites has its place before what was delivered here."""
        header = entry.header
        if not needs_ticket(header):
            return header.lts <= self.delivered_line
        ticket = self.book.of(entry)
        if ticket is not None:
            return ticket.place <= self.delivered_line
        return header.number <= self.book.highest.get(entry.source, 0)

    def skip(self, skip: Skip, is_urgent: bool = True) -> None:
        """See `order.Order`."""
        if skip.last > self._sources[skip.source].contiguous:
            self.changes.sent[skip.source] += 1
        super().skip(skip, is_urgent)
        self._read(skip.source)

    def saw_unreliable(self, header: Header) -> None:
        """See `order.Order`."""
        self._check_after(header)
        super().saw_unreliable(header)
        self.dependencies.saw_unreliable(header)

    def _keep(self, entry: Entry) -> None:
        needs_lts, needs_aru = self.needs_lts, self.needs_aru
        super()._keep(entry)
        header = entry.header
        is_passive = self.changes.is_passive
        if not is_passive and not header.extensions and not header.flags & Flag.ORDER:
            return
        if header.extensions:
            after = after_of(header)
            if after is not None:
                self.dependencies.came(entry, after)
            if needs_ticket(header):
                entry.place = 0
                if header.daemon == self.me:
                    self._own_waiting[header.session] += 1
        if header.flags & Flag.ORDER:
            self.needs_aru = needs_aru
            change = self.changes.under_way.get((entry.source, header.number))
            if change is None or change.wish is not Wish.PASSIVE or is_passive:
                self.needs_lts = needs_lts
        elif not entry.place:
            self.needs_lts, self.needs_aru = needs_lts, needs_aru
        elif is_passive and not self._waits_for_arus(entry) and not header.flags & ~Flag.CLIENT:
            self.needs_lts = needs_lts  # nobody waits for a passive source

    def _place(self, entry: Entry, in_order: bool) -> None:
        """What needs a ticket waits for it; the rest as in the symmetric order."""
        if self.is_over:
            return
        if not entry.header.extensions and not entry.header.flags & Flag.ORDER:
            super()._place(entry, in_order)
            return
        change = self.changes.under_way.get((entry.source, entry.header.number))
        if change is not None:
            super()._place(entry, in_order=False)
            if change.wish is Wish.PASSIVE:
                heappush(self._order, (entry.header.lts, entry))
            elif self.book.came(entry):
                self._place_at(entry)
        elif not needs_ticket(entry.header):
            super()._place(entry, in_order and not entry.header.flags & Flag.ORDER)
        elif self.book.came(entry):
            self._place_at(entry)

    def _place_at(self, entry: Entry) -> None:
        """A bundle and its ticket have come."""
        header, place = entry.header, entry.place
        if entry.waits_for_others:
            self._cap()
        heappush(self._order, (place, entry))
        is_urgent = self._waits_for_arus(entry) or header.flags & ~Flag.CLIENT & ~Flag.ORDER
        if place > self.needs_lts and (is_urgent or not self.changes.is_passive):
            self.needs_lts = place
        if place > self.needs_aru and is_urgent:
            self.needs_aru = place

    def _waits_for_arus(self, entry: Entry) -> bool:
        """Whether somebody delivers a bundle only when others have announced an aru: so much has to come from
        all sources."""
        return entry.header.service is SAFE or self.resilience.is_urgent(entry)

    def _may_overtake(self, entry: Entry, in_order: bool) -> bool:
        return not needs_ticket(entry.header) and super()._may_overtake(entry, in_order)

    def _read(self, source: int) -> None:
        """Take what a source has told, in the order of its numbers."""
        unread = self._unread[source]
        while unread and unread[0][0] <= self._sources[source].contiguous and not self.is_over:
            number, entry, told = heappop(unread)
            if isinstance(told, Tickets):
                self._take_tickets(source, number, told)
            elif isinstance(told, Confirmation):
                self.book.confirm(entry.daemon, told, entry.header.lts)
                if told.is_urgent:
                    self.needs_lts = max(self.needs_lts, entry.header.lts)
                    self.needs_aru = max(self.needs_aru, entry.header.lts)
            elif isinstance(told, Delivered):
                self.resilience.has_delivered(entry.daemon, told.place)
            elif isinstance(told, Seen):
                self.dependencies.need(entry.header.lts, told.newest)
            elif isinstance(told, Change):
                self.sequencer.begins(source, number)
            else:
                self.changes.reassigned(source, number, told)

    def _take_tickets(self, sequencer: int, number: int, told: Tickets) -> None:
        is_active = not self.changes.is_passive
        for place, entry in self.book.take(sequencer, number, told):
            if told.runs[0][0] == self.source:
                self.lines.saw(place)  # what we send from now on comes after it
            if entry is not None:
                self._place_at(entry)
            elif is_active and place > self.needs_lts:
                self.needs_lts = place

    # Delivering -------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Draw the lines again, deliver what they allow, forget what is everywhere."""
        if not self.moved:
            return
        self.moved = False
        self.lines.advance(self._is_complete)
        self._vouch_again()
        while self._deliver_next():
            pass
        if self.causal.is_active:
            self.causal.reach(self.done_line)
        if self.early.is_active:
            self._reach_agreed()
        self._forget_stable()

    @property
    def done_line(self) -> int:
        """See `symmetric.SymmetricOrder`. The agreed line does not wait for passive sources, so what was born
        before it may not have come."""
        come = self._lines.come
        if not self.book.awaiting and not self.book.placed:  # then places are births
            return min(come, super().done_line)
        self._pass_delivered()
        waiting = [entry.header.lts for _, entry in self._order if not entry.delivered]
        waiting += (entry.header.lts for entry in self.book.awaiting.values())
        return min([come, *(lts - 1 for lts in waiting)])

    def _pass_delivered(self) -> None:
        """See `symmetric.SymmetricOrder`. Changes of roles were handed up when they came, and have their turn
        here all the same."""
        order = self._order
        while order and order[0][1].delivered and not order[0][1].header.flags & Flag.ORDER:
            heappop(order)

    def _deliver_next(self) -> bool:
        self._pass_delivered()
        if not self._order:
            return False
        place, entry = self._order[0]
        if place > self._lines.agreed or entry.waits_for_others or not self._has_turn(entry):
            return False
        heappop(self._order)
        self.delivered_line = max(self.delivered_line, place)
        if entry.header.flags & Flag.ORDER:
            self._change(entry, place)
        else:
            self._deliver(entry)
        return True

    def _has_turn(self, entry: Entry) -> bool:
        """Whether the first bundle of the agreed order waits for nothing but the lines."""
        place, header, lines = entry.place, entry.header, self.lines
        if not self._has_tickets and not header.extensions and not header.flags & _DAEMON_FLAGS:
            return header.service is not SAFE or place <= lines.stable
        if not self._is_behind_all(entry):
            return False
        if header.flags & Flag.ORDER:
            return True
        ticket = self.book.of(entry) if needs_ticket(header) else None
        if header.service is SAFE:
            return place <= lines.stable if ticket is None else 0 < ticket.confirmed_lts <= lines.stable
        if ticket is not None and not self.book.is_certain(entry, ticket, lines.stable):
            return False
        if not self.resilience.waiting:
            return True
        held_lts = header.lts if ticket is None else ticket.confirmed_lts
        if not self.resilience.is_reached(entry, held_lts, lines):
            return False
        if self._lines.come < held_lts:  # arus will not pass it soon
            self.resilience.reached_early(entry)
        return True

    def _is_behind_all(self, entry: Entry) -> bool:
        """Whether nothing can come any more that belongs before a bundle up to the agreed line."""
        place, header = entry.place, entry.header
        gap = self.book.first_gap()
        if self.contiguous(entry.source) < header.number or (gap is not None and gap <= place):
            return False
        if header.flags & Flag.ORDER:
            return True
        return self.dependencies.is_met(place) and not (
            header.flags & _GROUPS_FLAGS and place > self._lines.come
        )

    def _is_certain(self, entry: Entry) -> bool:
        """See `symmetric.SymmetricOrder`. A ticket may still be lost with the view, unless its source has
        confirmed it."""
        if not self._is_behind_all(entry):
            return False
        ticket = self.book.of(entry) if needs_ticket(entry.header) else None
        return ticket is None or self.book.is_certain(entry, ticket, self.lines.stable)

    @property
    def _has_tickets(self) -> bool:
        """Whether anything of a passive source is known that is not everywhere."""
        return bool(len(self.book) or self.dependencies.has_needs or self.sequencer.exempt)

    def _hand_up(self, entry: Entry) -> Chain:
        if entry.header.extensions and entry.daemon == self.me and needs_ticket(entry.header):
            session = entry.header.session
            self._own_waiting[session] -= 1
            if not self._own_waiting[session]:
                del self._own_waiting[session]
        return super()._hand_up(entry)

    def _forget_stable(self) -> list[Entry]:
        forgotten = super()._forget_stable()
        if self._has_tickets:
            for entry in forgotten:
                self.book.forget(entry)
                self.sequencer.exempt.discard((entry.source, entry.header.number))
            self.book.forget_others(self.lines.stable)
        return forgotten

    # Roles ------------------------------------------------------------------------------------------------

    def _change(self, entry: Entry, place: int) -> None:
        """A change of role has its turn."""
        self.changes.has_turn((entry.source, entry.header.number), place)
        self._lines.draw()
        self.moved = True

    def look(self, delays_us: Mapping[int, int], now_us: int) -> None:
        """See `order.Order`."""
        self.changes.look(delays_us, now_us)
        for source, rounds in self.changes.rounds_behind():
            known = number_of_round(self.lines.complete(source))
            self.lines.saw(stamp_at(known + rounds, self.me))

    @property
    def look_due_us(self) -> int | None:  # type: ignore[override]
        """See `order.Order`."""
        return None if self.is_over else self.changes.due_us

    def roles_now(self) -> Sequence[RoleNow]:
        """See `order.Order`."""
        return self.roles.now()

    # What is waited for -----------------------------------------------------------------------------------

    def waited_for(self) -> list[tuple[int, int, int, int]]:
        """See `order.Order`. Nothing has to wait for the lts of a passive source."""
        waited_for = {
            self.roles.assignments[source].sequencer
            for source, _ in self.book.awaiting
            if source in self.roles.assignments
        }
        self._pass_delivered()
        if self._order and needs_ticket(self._order[0][1].header):
            waited_for.add(self._order[0][1].source)
        waited_for |= self.roles.active
        return [
            (source, contiguous, known, lts)
            for source, contiguous, known, lts in super().waited_for()
            if known > contiguous or source in waited_for
        ]

    # The end of the view ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """See `order.Order`. Tickets and confirmations that come later do not count: another part of the view
        cannot know of them. The clock leaves room for the places of what has no ticket."""
        super().stop()
        if self.is_over:
            return
        self.is_over = True
        self._last = self.lines.clock
        self._beyond = 2 * self._last - self.start + limits.PLACES_SPARE

    def tell(self) -> bytes:
        """See `order.Order`."""
        stable = self.lines.stable
        known = PlacedRuns()
        for (source, number), entry in sorted(self.book.placed.items()):
            ticket = self.book.of(entry)
            if ticket is not None and self.book.is_certain(entry, ticket, stable):
                known.add(source, number, ticket.place)
        known.merge(self._told)
        behind = tuple(
            sorted(
                (entry.source, entry.header.number)
                for _, entry in self._retained
                if not entry.delivered
                and entry.header.service >= CAUSAL
                and 0 < entry.place <= self.delivered_line
            )
        )
        return encode_state(
            AdaptiveState(
                self.clock, self.delivered_line, stable, tuple(map(self.tell_source, self._sources)),
                self._last, known.runs(), behind, self.book.first_unsafe(stable),
            )
        )  # fmt: skip

    def check_told(self, told: bytes) -> None:
        """See `order.Order`."""
        parse_adaptive_state(told)

    def ending(self, told: Mapping[int, bytes]) -> Ending:
        """See `order.Order`. What others have told of places is known from now on: it counts in a later
        attempt to leave the view, in which they may not take part."""
        states = {daemon: parse_adaptive_state(body) for daemon, body in told.items()}
        ending = self._ending = AdaptiveEnding(self.me, self._segments, states, self.start)
        self._told.merge(ending.places)
        self._beyond = max(self._beyond, ending.last + ending.after_last)
        return ending

    def recover(self, entry: Entry) -> bool:
        """See `order.Order`. What was for this site has come to it, and is forgotten if it is everywhere.
        Others may not know that, and send it because of a join of ours whose place they do not know."""
        header = entry.header
        if self.has(entry.source, header.number):
            was_for_us = header.destinations >> self._site & 1
            is_here = (entry.source, header.number) in self._retained_keys()
            if self._is_past(entry) or (was_for_us and not is_here):
                return False
        return super().recover(entry)

    def undelivered(self, promised: Set[int]) -> list[Entry]:
        """See `order.Order`."""
        assert self._ending is not None
        return give_places(super().undelivered(promised), self._ending, promised)
