"""The adaptive order: sources that send often give places, the others get theirs with tickets.

Follows: NAVTECH 5 (the dynamic hybrid protocol), InterGroup 6 (only active senders are waited for).

Each source of a view is active or passive. The bundles of an *active* source are born with their places, as
in the symmetric order, and the agreed line is drawn from the active sources alone. A bundle of a *passive*
source goes out at once, names its *sequencer*, and has no place before the ticket that the sequencer gives
it. Places are stamps of the sequencer, made together with the bundle that carries the tickets: who knows all
of the sequencer up to a place knows its ticket.

Deviations, each for a property of chapter 2 of the thesis:
- An ordered bundle of a passive source is delivered only when the daemon that sent it is known to have its
  ticket: that daemon confirms it. Without this, the sides of a partition could deliver two such bundles in
  different orders (2.13), because each side delivers what its own daemons have sent (2.15), with ticket or
  without.
- Bundles of any reliable service get tickets: who has delivered one may send an ordered bundle, which must
  not come before it elsewhere (2.12). Those that are not ordered need no confirmation.
- A source that is about to change its role orders nothing until the change has taken effect (NAVTECH stops
  the sender, too). In a segment, all of its daemons do: none of them numbers a bundle before it has all that
  its segment has numbered before.
- Loss of a sequencer is a change of the view, and a view begins with all sources active. So nothing is
  reassigned because of failures, only when a sequencer becomes passive.
Stability counts all sources. At the end of a view, see `adaptive_ending`.
Checked by: tests/paper/test_adaptive.py, the oracle's rules in the simulator with `--order adaptive`.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.core.ordering.adaptive_ending import (
    AdaptiveEnding,
    AdaptiveState,
    give_places,
    parse_adaptive_state,
)
from antiphon.core.ordering.adaptive_lines import AdaptiveLines
from antiphon.core.ordering.deciding import Decider, Decision
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.fifo import Chain
from antiphon.core.ordering.order import Ending, RoleNow
from antiphon.core.ordering.outbox import OrderOutbox
from antiphon.core.ordering.roles import Assignment, Roles
from antiphon.core.ordering.sequencer import Key, Sequencer
from antiphon.core.ordering.stability import stamp_after
from antiphon.core.ordering.state import encode_state
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.ordering.told import (
    Change,
    Confirmation,
    Reassignment,
    Tickets,
    Told,
    Wish,
    encode_told,
    parse_told,
)
from antiphon.core.overlay.topology import Segment
from antiphon.service import CAUSAL, SAFE
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.extensions import SEQUENCER, Extension
from antiphon.wire.packet import Skip

_NAMING = Layout("!HI")
_UNPLACED = Flag.LATE | Flag.CONTROL | Flag.ORDER
"""Bundles that no member hears of: they need no place."""


class Ticket(Struct, frozen=True):
    """The place of a bundle of a passive source, and the bundle that told it."""

    place: int
    sequencer: int
    number: int


def is_passive(header: Header) -> bool:
    """Whether a bundle is not born with its place."""
    return bool(header.extensions) and any(one.type == SEQUENCER for one in header.extensions)


class AdaptiveOrder(SymmetricOrder):
    """The ordering of one daemon: see `order.Order`."""

    make_decider: Callable[[int], Decider] = Decider
    """Tests decide in other ways."""

    def __init__(
        self,
        daemons: int,
        me: int,
        segments: tuple[Segment, ...] | None = None,
        start: int = 0,
        clock: int = 0,
        site: int = 0,
    ) -> None:
        """See `symmetric.SymmetricOrder`."""
        super().__init__(daemons, me, segments, start, clock, site)
        self.start = self.lines.agreed
        self.roles = Roles(self._sources)
        self.lines = self._lines = AdaptiveLines.following(self.lines, self.roles.active)
        self.sequencer = Sequencer(self.me, self.source, self.roles, self.contiguous, self.lines.tick)
        self.to_tell = self._outbox = OrderOutbox(self)
        self.to_confirm: dict[int, int] = {}
        """By sequencer, the number of its newest tickets for bundles of this daemon, until that is told."""
        self.confirmed: dict[int, dict[int, int]] = {}
        """By daemon and sequencer, the number up to which the daemon is known to have its tickets."""
        self.newest: dict[int, int] = {}
        """By sequencer, the number of its newest bundle with tickets that is known, with all before it."""
        self.tickets: dict[Key, Ticket] = {}
        """Of bundles that are not known to be everywhere, also of those that have no receiver here."""
        self.is_over = False
        self._by_place: list[tuple[int, Key]] = []  # a heap of the tickets
        self._forgotten: dict[int, int] = {}  # by source, the greatest number whose ticket was forgotten
        self._awaiting: dict[Key, tuple[Entry, bool]] = {}  # what has come and has no ticket
        self._gaps: list[tuple[int, Key]] = []  # a heap of tickets whose bundles have not come
        self._unread: dict[int, list[tuple[int, Entry, Told]]] = {source: [] for source in self._sources}
        self._changes: dict[Key, Change] = {}  # those that have not taken effect
        self._waiters: deque[Entry] = deque()  # our bundles that wait for others
        self._sent = dict.fromkeys(self._sources, 0)  # bundles of each source for members
        self._decider: Decider | None = None
        self._own_events = 0  # joins and leaves of our sessions that have not taken effect
        self._is_reassigning = False  # from when this daemon says so until that has come back
        self._delays_us: Mapping[int, int] = {}
        self._now_us = 0
        self._had: tuple[tuple[int, int], ...] = ()
        self._last = 0
        self._ending: AdaptiveEnding | None = None

    # Sending ----------------------------------------------------------------------------------------------

    @property
    def is_holding(self) -> bool:  # type: ignore[override]
        """See `order.Order`."""
        if self.is_over:
            return False
        if self.sequencer.is_changing or self.source in self.sequencer.pending:
            return True
        return self._sources[self.source].contiguous < self.issued

    @property
    def extension(self) -> Extension | None:  # type: ignore[override]
        """See `order.Order`."""
        if self.source in self.roles.active:
            return None
        assignment = self.roles.assignments[self.source]
        return Extension(SEQUENCER, _NAMING.pack(assignment.sequencer, assignment.role_number))

    def has_places(self, number: int) -> bool:
        """See `order.Order`."""
        return not any(
            source == self.source and at <= number and entry.daemon == self.me
            for (source, at), (entry, _) in self._awaiting.items()
        )

    def may_follow(self, lts: int, earlier_lts: int) -> bool:
        """A ticket may come late, so that any bundle may follow any other."""
        return True

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
        self._waiters.popleft()
        self._cap()
        self.lines.advance(self._is_complete)

    # Receiving --------------------------------------------------------------------------------------------

    def receive(self, entry: Entry, in_order: bool = False) -> bool:
        """See `order.Order`."""
        header = entry.header
        told = parse_told(entry, self._sources) if header.flags & Flag.ORDER else None
        key = (entry.source, header.number)
        if isinstance(told, Change) and not self.has(*key):
            self._changes[key] = told
        if not super().receive(entry, in_order):
            return False
        if told is not None:
            if not isinstance(told, Change) or told.wish is Wish.PASSIVE:
                self.sequencer.exempt.add(key)
            heappush(self._unread[entry.source], (header.number, entry, told))
        elif header.flags & _UNPLACED or not is_passive(header):
            self.sequencer.exempt.add(key)
        if not header.flags & _UNPLACED:
            self._sent[entry.source] += 1
        self._read(entry.source)
        return True

    def receive_late(self, entry: Entry) -> None:
        """See `order.Order`. What comes before the join that it was sent for is for other sites."""
        if not self._is_past(entry):
            super().receive_late(entry)

    def _is_past(self, entry: Entry) -> bool:
        """Whether a bundle that was for other sites has its place before what was delivered here."""
        header = entry.header
        if not is_passive(header):
            return header.lts <= self.delivered_line
        ticket = self.tickets.get((entry.source, header.number))
        if ticket is not None:
            return ticket.place <= self.delivered_line
        return header.number <= self._forgotten.get(entry.source, 0)

    def skip(self, skip: Skip, is_urgent: bool = True) -> None:
        """See `order.Order`."""
        if skip.last > self._sources[skip.source].contiguous:
            self._sent[skip.source] += 1
        super().skip(skip, is_urgent)
        self._read(skip.source)

    def _keep(self, entry: Entry) -> None:
        needs_lts, needs_aru = self.needs_lts, self.needs_aru
        super()._keep(entry)
        header = entry.header
        if header.flags & Flag.EVENT and header.daemon == self.me:
            self._own_events += 1
        if is_passive(header):
            ticket = self.tickets.get((entry.source, header.number))
            entry.place = 0 if ticket is None else ticket.place
        if header.flags & Flag.ORDER:
            self.needs_aru = needs_aru
            change = self._changes.get((entry.source, header.number))
            if change is None or change.wish is not Wish.PASSIVE or self.source not in self.roles.active:
                self.needs_lts = needs_lts
        elif not entry.place:
            self.needs_lts, self.needs_aru = needs_lts, needs_aru
        elif (
            self.source not in self.roles.active
            and header.service is not SAFE
            and not header.flags & ~Flag.CLIENT
        ):
            self.needs_lts = needs_lts  # nobody waits for a passive source

    def _place(self, entry: Entry, in_order: bool) -> None:
        """What needs a ticket waits for it; the rest as in the symmetric order."""
        if self.is_over:
            return
        key = (entry.source, entry.header.number)
        change = self._changes.get(key)
        if change is not None:
            super()._place(entry, in_order=False)
            if change.wish is Wish.PASSIVE:
                heappush(self._order, (entry.header.lts, entry))
                return
        elif not is_passive(entry.header):
            super()._place(entry, in_order and not entry.header.flags & Flag.ORDER)
            return
        ticket = self.tickets.get(key)
        if ticket is None:
            self._awaiting[key] = (entry, in_order)
        else:
            self._place_at(entry, ticket.place, in_order)

    def _place_at(self, entry: Entry, place: int, in_order: bool) -> None:
        """A bundle of a passive source has come, and so has its ticket."""
        header = entry.header
        entry.place = place
        if entry.waits_for_others:
            self._cap()
        if header.flags & Flag.ORDER or in_order or header.service >= CAUSAL:
            heappush(self._order, (place, entry))
        else:
            super()._place(entry, in_order=False)
        is_active = self.source in self.roles.active
        is_urgent = header.service is SAFE or header.flags & ~Flag.CLIENT & ~Flag.ORDER
        waits = header.service >= CAUSAL or header.flags & Flag.ORDER
        if place > self.needs_lts and (is_urgent or (waits and is_active)):
            self.needs_lts = place
        if place > self.needs_aru and is_urgent:
            self.needs_aru = place

    def _read(self, source: int) -> None:
        """Take what a source has told, in the order of its numbers."""
        unread = self._unread[source]
        while unread and unread[0][0] <= self._sources[source].contiguous:
            number, entry, told = heappop(unread)
            if isinstance(told, Tickets):
                self._take_tickets(source, number, told)
            elif isinstance(told, Confirmation):
                self._take_confirmation(entry.daemon, told)
            elif isinstance(told, Change):
                self.sequencer.pending[source] = number
            else:
                assignment = Assignment(told.sequencer, told.role_number, told.first, number)
                self.roles.assign(source, assignment)
                self._is_reassigning = self._is_reassigning and source != self.source

    def _take_tickets(self, sequencer: int, number: int, told: Tickets) -> None:
        if not self.is_over:
            self.newest[sequencer] = number
        place = told.place
        for source, first, last in told.runs:
            for at in range(first, last + 1):
                self._take_ticket((source, at), Ticket(place, sequencer, number))
                place = stamp_after(place, sequencer)

    def _take_ticket(self, key: Key, ticket: Ticket) -> None:
        if key in self.tickets or ticket.place <= self.delivered_line:
            return
        self.tickets[key] = ticket
        heappush(self._by_place, (ticket.place, key))
        waiting = self._awaiting.pop(key, None)
        if waiting is None:
            if not self.has(*key):
                heappush(self._gaps, (ticket.place, key))
            if self.source in self.roles.active:
                self.needs_lts = max(self.needs_lts, ticket.place)
            return
        entry, in_order = waiting
        if self.is_over:
            return
        # A join of ours that was sent meanwhile may have an earlier place, and not have taken effect.
        self._place_at(entry, ticket.place, in_order or self._own_events > 0)
        if entry.daemon == self.me and entry.header.service >= CAUSAL:
            self.to_confirm[ticket.sequencer] = ticket.number

    def _take_confirmation(self, daemon: int, told: Confirmation) -> None:
        known = self.confirmed.setdefault(daemon, {})
        for sequencer, number in told.newest:
            known[sequencer] = max(known.get(sequencer, 0), number)

    # Delivering -------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Draw the lines again, deliver what they allow, forget what is everywhere."""
        if not self.moved:
            return
        self.moved = False
        self.lines.advance(self._is_complete)
        while self._deliver_next():
            pass
        if self.causal.is_active:
            self.causal.reach(self._done_line)
        self._forget_stable()

    @property
    def _done_line(self) -> int:
        """See `symmetric.SymmetricOrder`. The agreed line does not wait for passive sources, so what was born
        before it may not have come."""
        self._pass_delivered()
        waiting = [entry.header.lts for _, entry in self._order if not entry.delivered]
        waiting += (entry.header.lts for entry, _ in self._awaiting.values())
        return min(self._lines.come, *(lts - 1 for lts in waiting)) if waiting else self._lines.come

    def _pass_delivered(self) -> None:
        """See `symmetric.SymmetricOrder`. Changes of roles were handed up when they came, and have their turn
        here all the same."""
        order = self._order
        while order and order[0][1].delivered and not order[0][1].header.flags & Flag.ORDER:
            heappop(order)

    def _deliver_next(self) -> bool:
        self._pass_delivered()
        lines, order, gaps = self.lines, self._order, self._gaps
        while gaps and self.has(*gaps[0][1]):
            heappop(gaps)
        if not order or order[0][0] > lines.agreed or (gaps and gaps[0][0] < order[0][0]):
            return False
        place, entry = order[0]
        if entry.header.flags & Flag.ORDER:
            heappop(order)
            self.delivered_line = place
            self._change(entry, place)
            return True
        if is_passive(entry.header) and not self._is_confirmed(entry):
            return False
        if entry.header.service is SAFE and place > lines.stable:
            return False
        if entry.waits_for_others:
            if place > lines.stable_elsewhere:
                return False
            self._vouch_again()
        heappop(order)
        self.delivered_line = place
        self._deliver(entry)
        return True

    def _hand_up(self, entry: Entry) -> Chain:
        if entry.header.flags & Flag.EVENT and entry.daemon == self.me:
            self._own_events -= 1
        return super()._hand_up(entry)

    def _is_confirmed(self, entry: Entry) -> bool:
        """Whether the daemon that sent a bundle is known to have its ticket."""
        if entry.daemon == self.me or entry.place <= self.lines.stable or entry.header.service < CAUSAL:
            return True
        ticket = self.tickets[entry.source, entry.header.number]
        return self.confirmed.get(entry.daemon, {}).get(ticket.sequencer, 0) >= ticket.number

    def _forget_stable(self) -> None:
        retained, stable = self._retained, self.lines.stable
        while retained and retained[0][0] <= stable and retained[0][1].delivered:
            at, entry = heappop(retained)
            header = entry.header
            if entry.place > at and not header.flags & Flag.ORDER:
                heappush(retained, (entry.place, entry))  # its ticket may not have come everywhere
                continue
            self.sequencer.exempt.discard((entry.source, header.number))
            size = len(entry.bundle)
            self.retained_bytes -= size
            if header.daemon == self.me:
                self.own_unstable_bytes -= size
                self.own_stable_bytes += size
                if self._own[0] is entry:
                    self._own.popleft()
                else:
                    self._own.remove(entry)
                if header.session:
                    self.own_stable[header.session] = header.sequence + header.message_count - 1
        by_place = self._by_place
        while by_place and by_place[0][0] <= stable:
            _, key = heappop(by_place)
            del self.tickets[key]
            self._forgotten[key[0]] = max(self._forgotten.get(key[0], 0), key[1])

    # Roles ------------------------------------------------------------------------------------------------

    def _change(self, entry: Entry, place: int) -> None:
        """A change of role has its turn."""
        source, number = entry.source, entry.header.number
        change = self._changes.pop((source, number))
        if self.sequencer.pending.get(source, 0) <= number:
            self.sequencer.pending.pop(source, None)
        self.roles.take_effect(source, number, change, place, self._now_us)
        if source == self.source:
            self.sequencer.is_changing = False
            if self._decider is not None:
                self._decider.changed(self._now_us)
        self._lines.draw()
        self.moved = True

    @property
    def must_reassign(self) -> bool:
        """Whether our sequencer has become passive, so that we need another one."""
        roles = self.roles
        if self.me != self.source or self._is_reassigning or self.source in roles.active:
            return False
        return not roles.is_served(self.source)

    def reassign(self) -> Reassignment:
        """The closest active source gives the tickets that are missing."""
        source, roles = self.source, self.roles
        sequencer = min(roles.active, key=lambda other: (self._delay_us(other), other))
        last = max((number for of, number in self.tickets if of == source), default=0)
        first = max(last, self._forgotten.get(source, 0), roles.assignments[source].first - 1) + 1
        self._is_reassigning = True
        return Reassignment(first, sequencer, roles[sequencer].number)

    def _delay_us(self, source: int) -> int:
        return self._delays_us.get(source, limits.NEVER_US)

    def look(self, delays_us: Mapping[int, int], now_us: int) -> None:
        """See `order.Order`."""
        self._now_us = now_us
        if not self.roles.began_us:
            self.roles.began_us = now_us
        if self.me != self.source:
            return
        self._delays_us = delays_us
        if self._decider is None:
            self._decider = self.make_decider(now_us)
        decider, roles = self._decider, self.roles
        others = {other: delays_us[other] for other in roles.active if other in delays_us}
        decider.look(self._sent[self.source], sum(self._sent[other] for other in roles.active), now_us)
        if self.sequencer.is_changing or self.source in self.sequencer.pending:
            decider.due_us = None
            return
        assignment = roles.assignments.get(self.source)
        sequencer = None if assignment is None else assignment.sequencer
        decision = decider.decide(self.source in roles.active, sequencer, others, now_us)
        if decision is not None:
            self._ask_for(decision)

    def _ask_for(self, decision: Decision) -> None:
        sequencer = decision.sequencer
        if decision.wish is Wish.ACTIVE:
            sequencer = self.source
        role_number = self.roles[sequencer].number
        self.sequencer.is_changing = True
        change = Change(decision.wish, sequencer, role_number, decision.reason)
        self._outbox.bodies.append(encode_told(change))

    @property
    def look_due_us(self) -> int | None:  # type: ignore[override]
        """See `order.Order`."""
        return None if self._decider is None or self.is_over else self._decider.due_us

    def roles_now(self) -> Sequence[RoleNow]:
        """See `order.Order`."""
        return self.roles.now()

    # What is waited for -----------------------------------------------------------------------------------

    def waited_for(self) -> list[tuple[int, int, int, int]]:
        """See `order.Order`. Nothing has to wait for the lts of a passive source."""
        waited_for = {
            self.roles.assignments[source].sequencer
            for source, _ in self._awaiting
            if source in self.roles.assignments
        }
        if self._order and is_passive(self._order[0][1].header) and not self._is_confirmed(self._order[0][1]):
            waited_for.add(self._order[0][1].source)
        waited_for |= self.roles.active
        return [
            (source, contiguous, known, lts)
            for source, contiguous, known, lts in super().waited_for()
            if known > contiguous or source in waited_for
        ]

    # The end of the view ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """See `order.Order`. The clock leaves room for the places of what has no ticket."""
        super().stop()
        if self.is_over:
            return
        self.is_over = True
        self._had = tuple(sorted(self.newest.items()))
        self._last = self.lines.clock
        self.lines.saw(2 * self._last - self.start + limits.PLACES_SPARE)

    def tell(self) -> bytes:
        """See `order.Order`."""
        confirmed = tuple(
            (daemon, sequencer, number)
            for daemon, known in sorted(self.confirmed.items())
            for sequencer, number in sorted(known.items())
        )
        sources = tuple(map(self.tell_source, self._sources))
        return encode_state(
            AdaptiveState(
                self.lines.clock, self.delivered_line, self.lines.stable, sources,
                self._last, self._had, confirmed,
            )
        )  # fmt: skip

    def check_told(self, told: bytes) -> None:
        """See `order.Order`."""
        parse_adaptive_state(told)

    def ending(self, told: Mapping[int, bytes]) -> Ending:
        """See `order.Order`. What others have told of their tickets is known from now on: it counts in a
        later attempt to leave the view, in which they may not take part."""
        states = {daemon: parse_adaptive_state(body) for daemon, body in told.items()}
        ending = AdaptiveEnding(self.me, self._segments, states, self.start)
        for daemon, known in ending.confirmed.items():
            mine = self.confirmed.setdefault(daemon, {})
            for sequencer, number in known.items():
                mine[sequencer] = max(mine.get(sequencer, 0), number)
        self._ending = ending
        return ending

    def recover(self, entry: Entry) -> bool:
        """See `order.Order`."""
        if self.has(entry.source, entry.header.number) and self._is_past(entry):
            return False
        return super().recover(entry)

    def undelivered(self) -> list[Entry]:
        """See `order.Order`."""
        for source, unread in self._unread.items():
            for number, _, told in sorted(unread):  # after a hole, too: all who go on together know these
                if isinstance(told, Tickets):
                    self._take_tickets(source, number, told)
        rest = super().undelivered()
        assert self._ending is not None
        return give_places(rest, self.tickets, self._ending)
