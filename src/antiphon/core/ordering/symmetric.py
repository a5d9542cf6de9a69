"""The symmetric order: bundles are born ordered, and each daemon finds out alone when to deliver them.

Follows: thesis 5.1 (figures 5.1 and 5.2), Spread paper 3.3.
Deviations:
- lts values compare with "not later than" a line: a site that announces lts L sends nothing more up to L, so
  a bundle with lts L is complete knowledge; the figures' "<" would cost one more update
- updates and aru values count only once the site's bundles before them have come, because Hop does not keep
  order between packets
- a bundle's `previous` and skipped ranges stand in for a gapless session sequence (see `fifo`)
- causal bundles are no agreed ones here: they are delivered ahead of their places if their past is done (see
  `causal`), and in them otherwise
The contract that this order keeps is `order.Order`; a bundle's place is the lts with which it is born.
Checked by: tests/paper/test_ordering.py, the oracle's order rules in the simulator.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush, heapreplace
from itertools import takewhile

from antiphon import limits
from antiphon.core.ordering.causal import CausalQueue
from antiphon.core.ordering.early import EarlyQueue, Offer
from antiphon.core.ordering.ending import SymmetricEnding
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.fifo import Chain
from antiphon.core.ordering.order import Ending, RoleNow, Sender, Telling
from antiphon.core.ordering.resilience import Resilience
from antiphon.core.ordering.sources import Source
from antiphon.core.ordering.stability import Lines
from antiphon.core.ordering.state import OrderState, SourceState, encode_state, parse_state, state_of
from antiphon.core.overlay.topology import Segment
from antiphon.service import CAUSAL, RELIABLE, SAFE
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.extensions import Extension
from antiphon.wire.packet import Skip, Update

_DAEMON_FLAGS = ~Flag.CLIENT


class SymmetricOrder:
    """The ordering of one daemon: bundles, skips and updates in; deliverable bundles out, through `ready`."""

    is_holding = False
    """Bundles are born with their places: none has to be held back."""

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
        """See `order.MakeOrder`; unless `sites` is given each segment has its own."""
        if segments is None:
            segments = tuple((daemon,) for daemon in range(daemons))
        mine = next(segment for segment in segments if me in segment)
        sources = [segment[0] for segment in segments]
        self.me = me
        self.source = mine[0]
        """The source of this daemon's bundles."""
        self.is_turn = len(mine) == 1
        self.issued = 0
        self.lines = Lines(daemons, me, sources, start, max(start, clock), self.source, self.is_turn)
        self.delivered_line = start
        """The lts of the last bundle that was delivered in the agreed order."""
        self.highest_lts = start
        self.loose_lts = start
        self.needs_lts = start
        self.needs_aru = start
        self.came = 0
        self.ready: deque[Entry | Offer] = deque()
        self.retained_bytes = 0
        self.largest_bytes = 0
        self.observer: Callable[[Header], None] | None = None
        self.own_unstable_bytes = 0
        self.own_stable_bytes = 0
        self._segments = segments
        self._sources = {source: Source() for source in sources}
        self._chains: dict[Sender, Chain] = {}
        # Two heaps by lts, which no two bundles share: what waits for its place, and all that is not stable.
        self._order: list[tuple[int, Entry]] = []
        self._retained: list[tuple[int, Entry]] = []
        self._own: deque[Entry] = deque()  # those of `_retained` that are of this daemon, in their order
        self._waiting_for_others: deque[int] = deque()  # lts values
        self.own_stable: dict[int, int] = {}
        self._recovered: set[tuple[int, int]] = set()  # what is retained, once the view has stopped
        self.to_tell: Telling = deque[bytes]()
        self.moved = False
        """Whether anything came in since `advance`."""
        self.causal = CausalQueue(site, self._deliver)
        self.early = EarlyQueue(self.ready, self.contiguous)
        self.resilience = Resilience(me, segments, range(len(segments)) if sites is None else sites)

    # The clock --------------------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """See `order.Order`."""
        return self.lines.clock

    @property
    def aru(self) -> int:
        """See `order.Order`."""
        return self.lines.aru

    @property
    def own_aru(self) -> int:
        """See `order.Order`."""
        return self.lines.own_aru

    @property
    def own_lts(self) -> int:
        """See `order.Order`."""
        return self._own[-1].header.lts if self._own else 0

    def tick(self) -> int:
        """See `order.Order`."""
        return self.lines.tick()

    def witness(self, lts: int) -> None:
        """See `order.Order`."""
        self.lines.saw(lts)

    # Sending ----------------------------------------------------------------------------------------------

    def stamp(self) -> tuple[int, int, int]:
        """Number, lts and aru of this daemon's next bundle."""
        assert self.is_turn
        self.issued += 1
        return self.issued, self.lines.tick(), self.lines.own_aru

    def extensions(self, header: Header, session: int) -> tuple[Extension, ...]:
        """Bundles are born with their places: none has to name a sequencer."""
        return ()

    def told_before(self, header: Header) -> bytes | None:
        """Nothing."""
        return None

    def has_places(self, session: int) -> bool:
        """Bundles are born with their places."""
        return True

    def look(self, delays_us: Mapping[int, int], now_us: int) -> None:
        """There is nothing to decide."""

    look_due_us: int | None = None
    """Never."""

    def roles_now(self) -> Sequence[RoleNow]:
        """All sources are alike."""
        return ()

    def may_follow(self, header: Header, earlier_lts: int) -> bool:
        """Bundles are born with their places, so that this is certain."""
        return header.lts > earlier_lts

    def own_after(self, lts: int) -> list[Entry]:
        """The unstable bundles of this daemon that are later than `lts`, in their order; the cost is that of
        these, not of all that is unstable."""
        found = list(takewhile(lambda entry: entry.header.lts > lts, reversed(self._own)))
        found.reverse()
        return found

    def flagged_bytes(self, flags: int, daemon: int | None = None) -> int:
        """See `order.Order`."""
        return sum(
            len(entry.bundle)
            for _, entry in self._retained
            if entry.header.flags & flags and daemon in (None, entry.daemon)
        )

    def turn(self, number: int, lts: int) -> None:
        """See `order.Order`."""
        self.is_turn = True
        self.passed(number, lts)

    def passed(self, number: int, lts: int) -> None:
        """See `order.Order`."""
        self.issued = max(self.issued, number)
        self.update(Update(self.source, 0, number, lts, 0))

    def vouched(self, aru: int) -> None:
        """Every daemon of our segment has everything up to this lts."""
        if aru > self.lines.own_aru:
            self.lines.claim(self.source, 0, aru)
            self.moved = True

    def contiguous(self, source: int) -> int:
        """The number up to which every bundle of a source has come or was skipped."""
        return self._sources[source].contiguous

    @property
    def retained_count(self) -> int:
        return len(self._retained)

    @property
    def ahead_count(self) -> int:
        """Bundles and ranges that wait for an earlier number of their source."""
        return sum(len(source.ahead) for source in self._sources.values())

    # Receiving --------------------------------------------------------------------------------------------

    def receive(self, entry: Entry, in_order: bool = False) -> bool:
        """See `order.Order`."""
        header = entry.header
        source = self._sources[entry.source]
        number = header.number
        if number <= source.contiguous or number in source.ahead:
            return False
        self._keep(entry)
        if number == source.contiguous + 1 and not source.ahead:
            source.contiguous = number
            self.lines.claim(entry.source, header.lts, header.aru)
            if source.claims:
                self._claim(entry.source, source.due_claims())
        else:
            source.ahead[number] = (number, header.lts, header.aru)
            self._claim(entry.source, source.catch_up())
        if self.early.is_active:
            self.early.came(entry, in_order)
        self._place(entry, in_order)
        if entry.history is not None:
            self.causal.came(entry, entry.history, self._may_overtake(entry, in_order))
        if source.blocked:
            self._retry(source)
        if self.early.is_active:
            self.early.retry(entry.source)
        return True

    def receive_late(self, entry: Entry) -> None:
        """See `order.Order`. It belongs after that join, so it keeps to the agreed order whatever its
        service."""
        self._keep(entry)
        if self.early.is_active:
            self.early.came(entry, in_order=True)
        self._place(entry, in_order=True)
        self.causal.came_late(entry.header.lts)

    def skip(self, skip: Skip, is_urgent: bool = True) -> None:
        """Bundles that have no receiver at this site; unless they are known, they may be urgent."""
        self._saw(skip.lts, is_urgent=is_urgent)
        source = self._sources[skip.source]
        first = max(skip.first, source.contiguous + 1)
        if first > skip.last:
            return
        source.ahead[first] = (skip.last, skip.lts, skip.aru)
        self._claim(skip.source, source.catch_up())
        if source.blocked:
            self._retry(source)
        if self.early.is_active:
            self.early.retry(skip.source)

    def update(self, update: Update) -> None:
        """A source announces where it stands."""
        self._saw(update.lts, of_a_bundle=False)
        source = self._sources[update.source]
        if update.number <= source.contiguous:
            self.lines.claim(update.source, update.lts, update.aru)
        else:
            source.wait(update.number, update.lts, update.aru)

    def forget_sessions(self, source: int, senders: Collection[Sender]) -> None:
        """Sessions are over: their last bundles are delivered."""
        blocked = self._sources[source].blocked
        for sender in senders:
            self._chains.pop(sender, None)
            blocked.discard(sender)
        self.causal.forget(senders)
        self.early.forget(senders)

    def saw_unreliable(self, header: Header) -> None:
        """An unreliable bundle came in: what its receivers send next comes after what its sender had seen."""
        self._saw(header.lts, of_a_bundle=False)
        self.loose_lts = max(self.loose_lts, header.lts)

    def _saw(self, lts: int, of_a_bundle: bool = True, is_urgent: bool = True) -> None:
        self.moved = True
        self.lines.saw(lts)
        if of_a_bundle and lts > self.highest_lts:
            self.highest_lts = lts
            if is_urgent:
                self.needs_lts = self.needs_aru = lts

    def _keep(self, entry: Entry) -> None:
        header = entry.header
        entry.place = lts = header.lts
        self.moved = True
        lines = self.lines
        if lts > lines.clock:
            lines.clock = lts
        if lts > self.highest_lts:
            self.highest_lts = lts
        is_daemons = header.flags & _DAEMON_FLAGS
        if header.service >= CAUSAL or is_daemons:
            if lts > self.needs_lts:
                self.needs_lts = lts
            if lts > self.needs_aru and (header.service is SAFE or is_daemons):
                self.needs_aru = lts
        if header.extensions and self.resilience.came(entry) and lts > self.needs_aru:
            self.needs_aru = lts
        if self.observer is not None:
            self.observer(header)
        size = len(entry.bundle)
        if size > self.largest_bytes:
            self.largest_bytes = size
        self.retained_bytes += size
        if header.daemon == self.me:
            self.own_unstable_bytes += size
            self._own.append(entry)
        else:
            self.came += 1 + size // limits.PACKET_DEFAULT_BYTES
        heappush(self._retained, (lts, entry))
        sender = (header.daemon, header.session)
        chain = self._chains.get(sender)
        if chain is None:
            chain = self._chains[sender] = Chain()
        entry.chain = chain
        chain.received(header.number)

    def _place(self, entry: Entry, in_order: bool) -> None:
        """Rules 3 and 4: reliable goes up at once, FIFO when its session's turn has come; the rest waits."""
        service = entry.header.service
        if in_order or service >= CAUSAL:
            heappush(self._order, (entry.header.lts, entry))
            return
        source = self._sources[entry.source]
        chain = entry.chain
        assert chain is not None
        if service is RELIABLE or chain.is_ready(entry.header.previous, source.contiguous):
            self._deliver(entry)
        else:
            chain.wait(entry)
            source.blocked.add((entry.header.daemon, entry.header.session))

    def _may_overtake(self, entry: Entry, in_order: bool) -> bool:
        """Whether a bundle is delivered as soon as its past is, ahead of its place; it must have one."""
        return entry.header.service is CAUSAL and not in_order and entry.place > 0

    def _claim(self, source: int, known: Iterator[tuple[int, int]]) -> None:
        for lts, aru in known:
            self.lines.claim(source, lts, aru)

    def _retry(self, source: Source) -> None:
        for sender in sorted(source.blocked):
            chain = self._chains.get(sender)
            if chain is None:
                source.blocked.discard(sender)
                continue
            chain.release(source.contiguous, self._hand_up)
            if not chain.is_blocked:
                source.blocked.discard(sender)

    # What is waited for -----------------------------------------------------------------------------------

    def waited_for(self) -> list[tuple[int, int, int, int]]:
        """See `order.Order`."""
        self._pass_delivered()
        first_lts = self._order[0][0] if self._order else 0
        found = []
        for number, source in self._sources.items():
            known, lts = self._greatest(number, source), self.lines.complete(number)
            if known > source.contiguous or lts < first_lts:
                found.append((number, source.contiguous, known, lts))
        return found

    def _greatest(self, number: int, source: Source) -> int:
        """The greatest number of a source's bundles that is known to exist."""
        return max(source.greatest, self.issued if number == self.source else 0)

    def has_all_of(self, number: int, other: int) -> bool:
        """Whether a source, by what it has announced, has every bundle of another one that is known here."""
        if number == other:
            return True
        source = self._sources[other]
        known = [self.lines.complete(other), *(lts for _, lts, _ in source.ahead.values())]
        known += (lts for _, lts, _ in source.claims)
        return self.lines.announced_aru(number) >= max(known)

    def unacknowledged(self) -> list[tuple[int, int]]:
        """The sources that have not acknowledged the oldest retained bundle, each with its aru."""
        return self.lines.unacknowledged(self._retained[0][0]) if self._retained else []

    def first_waiting_source(self) -> int | None:
        """The source of the oldest bundle that waits for its place, or else for all to have it."""
        self._pass_delivered()
        entries = self._order or self._retained
        return entries[0][1].source if entries else None

    def has_later(self, number: int) -> bool:
        """Whether a bundle of a source has come although an earlier one has not."""
        contiguous = self._sources[number].contiguous
        return any(entry.source == number and entry.header.number > contiguous for _, entry in self._retained)

    # Delivering -------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Draw the lines again, deliver what they allow (rules 1 and 2), forget what is everywhere."""
        if not self.moved:
            return
        self.moved = False
        lines = self.lines
        lines.advance(self._is_complete)
        order = self._order
        while order and order[0][0] <= lines.agreed:
            place, entry = order[0]
            if entry.delivered:  # ahead of its place
                heappop(order)
                continue
            if entry.header.service is SAFE and place > lines.stable:
                break
            if entry.waits_for_others:
                if place > lines.stable_elsewhere:
                    break
                self._vouch_again()
            if self.resilience.waiting and not self.resilience.is_reached(entry, entry.header.lts, lines):
                break
            heappop(order)
            self.delivered_line = place
            self._deliver(entry)
        if self.causal.is_active:
            self.causal.reach(self.done_line)
        if self.early.is_active:  # what is delivered comes first, it may have waited longer
            self._reach_agreed()
        self._forget_stable()

    def _reach_agreed(self) -> None:
        """What is not delivered although its place is certain is offered to those who chose no more."""
        agreed = self.lines.agreed
        if self._order and self._order[0][0] <= agreed:  # otherwise nothing waits up to the line
            waiting = [entry for entry in self.undelivered_now() if 0 < entry.place <= agreed]
            self.early.agreed(waiting, self._is_certain)

    def _is_certain(self, entry: Entry) -> bool:
        """Whether a bundle up to the agreed line has the place that it will be delivered in."""
        return True

    def undelivered_now(self) -> list[Entry]:
        """See `order.Order`."""
        return [entry for _, entry in self._retained if not entry.delivered]

    def _forget_stable(self) -> list[Entry]:
        """Forget what is delivered and known to be everywhere, and tell what that was."""
        forgotten: list[Entry] = []
        retained, own, stable = self._retained, self._own, self.lines.stable
        while retained and retained[0][0] <= stable and retained[0][1].delivered:
            entry = retained[0][1]
            if entry.kept_until > stable:
                heapreplace(retained, (stable + 1, entry))
                continue
            heappop(retained)
            forgotten.append(entry)
            size = len(entry.bundle)
            self.retained_bytes -= size
            header = entry.header
            if header.daemon == self.me:
                self.own_unstable_bytes -= size
                self.own_stable_bytes += size
                if own[0] is entry:
                    own.popleft()
                else:
                    own.remove(entry)
                if header.session:
                    self.own_stable[header.session] = header.sequence + header.message_count - 1
        return forgotten

    @property
    def done_line(self) -> int:
        """Everything that was born up to here has come and is delivered: in its place, or without waiting for
        it; a FIFO bundle waits for nothing but earlier ones of its session."""
        self._pass_delivered()
        agreed = self.lines.agreed
        return agreed if not self._order else min(agreed, self._order[0][0] - 1)

    def _pass_delivered(self) -> None:
        """Nothing waits for bundles that were delivered ahead of their places."""
        order = self._order
        while order and order[0][1].delivered:
            heappop(order)

    @property
    def _is_complete(self) -> bool:
        """Whether nothing of our source can be missing here or come from another daemon now."""
        return self.is_turn and self._sources[self.source].contiguous >= self.issued

    def wait_for_others(self, entry: Entry) -> None:
        """See `order.Order`."""
        entry.waits_for_others = True
        self._waiting_for_others.append(entry.header.lts)
        self.lines.capped_below = self._waiting_for_others[0]

    def _vouch_again(self) -> None:
        self._waiting_for_others.popleft()
        self.lines.capped_below = self._waiting_for_others[0] if self._waiting_for_others else None
        self.lines.advance(self._is_complete)

    def _deliver(self, entry: Entry) -> None:
        chain = self._hand_up(entry)
        if chain.waiting or chain.early:
            source = self._sources[entry.source]
            chain.release(source.contiguous, self._hand_up)
            if chain.is_blocked:
                source.blocked.add((entry.header.daemon, entry.header.session))

    def _hand_up(self, entry: Entry) -> Chain:
        chain = entry.chain
        assert chain is not None and not entry.delivered
        entry.delivered = True
        entry.chain = None
        self.ready.append(entry)
        chain.delivered(entry, self._sources[entry.source].contiguous)
        if self.early.is_active:
            self.early.delivered(entry)
        if self.causal.is_active:
            self.causal.handed_up(entry)
        return chain

    # The end of the view -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """The view has stopped: whatever comes now is delivered at its end, in the agreed order."""
        self.causal.stop()
        self.early.stop()
        for number, source in self._sources.items():
            source.blocked.clear()
            if self._greatest(number, source) > source.contiguous + limits.OUTSTANDING_MAX:
                self._forget_impossible(number, source)

    def _forget_impossible(self, number: int, source: Source) -> None:
        """No source is so far ahead of its receivers: every member would refuse a state with such numbers."""
        most = source.contiguous + limits.OUTSTANDING_MAX
        source.forget_after(most)
        for entries in (self._order, self._retained):
            entries[:] = [
                (lts, entry)
                for lts, entry in entries
                if entry.source != number or entry.header.number <= most
            ]
            heapify(entries)
        if number == self.source and self.issued > most:
            self.issued = 0
            self.issued = self._greatest(number, source)

    def tell(self) -> bytes:
        """See `order.Order`."""
        sources = tuple(map(self.tell_source, self._sources))
        return encode_state(OrderState(self.lines.clock, self.delivered_line, self.lines.stable, sources))

    def check_told(self, told: bytes) -> None:
        """See `order.Order`."""
        parse_state(told)

    def ending(self, told: Mapping[int, bytes]) -> Ending:
        """See `order.Order`."""
        states = {daemon: parse_state(body) for daemon, body in told.items()}
        return SymmetricEnding(self.me, self._segments, states)

    def tell_source(self, source: int) -> SourceState:
        """What is known here of one source's bundles."""
        known = self._sources[source]
        lts = self.lines.complete(source)
        if source == self.source and self._is_complete:
            lts = self.lines.clock
        retained = [entry for _, entry in self._retained if entry.source == source]
        return state_of(source, known, lts, self._greatest(source, known), retained, self.delivered_line)

    def has(self, source: int, number: int) -> bool:
        """Whether a bundle has come, or is known to be for other sites."""
        return self._sources[source].has(number)

    def recover(self, entry: Entry) -> bool:
        """See `order.Order`."""
        key = (entry.source, entry.header.number)
        if key in self._retained_keys():
            return False
        if self.has(*key):  # it was for other sites, and now it is for this one, too
            self._recovered.add(key)
            self.receive_late(entry)
            return True
        self._recovered.add(key)
        return self.receive(entry, in_order=True)

    def _retained_keys(self) -> set[tuple[int, int]]:
        if not self._recovered:
            self._recovered = {(entry.source, entry.header.number) for _, entry in self._retained}
        return self._recovered

    def undelivered(self, promised: Set[int]) -> list[Entry]:
        """Everything that was not delivered, in the agreed order."""
        return [entry for _, entry in sorted(self._retained) if not entry.delivered]

    def retained(self) -> list[Entry]:
        """Everything that is not known to be everywhere, in the agreed order."""
        return [entry for _, entry in sorted(self._retained)]
