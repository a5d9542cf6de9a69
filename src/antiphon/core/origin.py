"""Where this daemon's own bundles begin: each is stamped by the order and sent along the tree of its source.

Follows: Spread paper 3.3 and thesis 5.1 (what a message is assigned before its dissemination), thesis 3.4.2
(its sender computes the sites that must get it).
Deviations: a bundle is stamped where the papers stamp a message. Unreliable bundles have a numbering of their
own at each daemon rather than in each session. The conservative set of sites of 3.4.2 does not suffice: when
a join comes in, a daemon retransmits its later bundles that were pruned from the joining site
(`send_missed`, see `groups.membership`).
Checked by: tests/paper/test_groups.py, tests/paper/test_parsed_once.py.
"""

from collections import Counter, deque
from collections.abc import Collection
from typing import NamedTuple

from msgspec import structs

from antiphon import limits
from antiphon.config import Config
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.dispatch import NOT_FOR_MEMBERS
from antiphon.core.groups.sessions import Pending, Session
from antiphon.core.membership.engine import Engine
from antiphon.core.membership.recovery import control_bundle
from antiphon.core.observer import Observer
from antiphon.core.ordering.entry import Entry
from antiphon.service import CAUSAL, UNRELIABLE, Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Draft, Flag, Header
from antiphon.wire.events import GroupEvent, event_bundle, late_bundle
from antiphon.wire.packet import Fragment


class _Waiting(NamedTuple):
    """A bundle of the daemon itself that waits for its turn."""

    draft: Draft
    destinations: int
    is_chained: bool
    """Whether it comes after the one before it."""
    event: GroupEvent | None = None
    """What is done with it, if messages come here from its place on."""
    is_new: bool = True
    """Whether some of these did not before."""


class Origin:
    """Stamps and sends the bundles of one daemon in one daemon view."""

    def __init__(
        self,
        config: Config,
        *,
        me: int,
        incarnation: int,
        engine: Engine,
        delivery: Delivery,
        observer: Observer | None,
        counters: Counter[str],
    ) -> None:
        self._me = me
        self._my_site = 1 << config.site_of(me)
        self._incarnation = incarnation
        self._view_id = engine.view.id
        self._source = engine.order.source
        self._order = engine.order
        self._forwarder = engine.forwarder
        self._announcer = engine.announcer
        self._delivery = delivery
        self._observer = observer
        self._counters = counters
        self._everywhere = engine.everywhere
        self._sites = {name: config.site_of(number) for number, name in enumerate(config.daemon_names)}
        self._site_of = config.site_of
        self._histories = engine.histories
        self._control_number = 0  # of our last bundle that is no session's
        self._unreliable_number = 0
        self._joining: Counter[str] = Counter()  # groups with a join of ours that has not taken effect
        self._joins: set[int] = set()  # the numbers of these joins
        self._outbox: deque[_Waiting] = deque()
        # Unreliable bundles of sessions, each after one of its session that has no place.
        self._unplaced: deque[tuple[int, Header, bytearray]] = deque()
        self._unplaced_bytes = 0
        if observer is not None:
            # An order that knew its engine would keep it alive after its view.
            view_id = engine.view.id
            engine.order.observer = lambda header: observer.retained(view_id, header)

    @property
    def is_waiting(self) -> bool:
        """Whether a bundle of the daemon itself waits for its turn."""
        order = self._order
        if order.to_tell or not self._outbox or not order.is_holding:
            return bool(order.to_tell or self._outbox)
        return any(self._is_free(waiting.draft.header) for waiting in self._outbox)

    def send(self, session: Session, pending: Pending, now_us: int) -> None:
        """A session's bundle has its turn."""
        header = pending.header
        if pending.event is not None:
            self._send_event(session, pending, pending.event, now_us)
            return
        destinations = self._destinations(bundles.parse_names(header.names)[1:])
        if header.service is UNRELIABLE:
            self._send_unreliable(session, pending, destinations)
        else:
            self._send_ordered(session, pending, destinations, now_us)

    def pass_over(self, session: Session, pending: Pending) -> None:
        """A session's bundle is not sent; its messages have their numbers all the same."""
        count = pending.header.message_count
        if self._observer is not None:
            self._observer.refused((self._me, self._incarnation, session.number, session.sequence), count)
        session.sequence += count

    def send_control(self, draft: Draft, now_us: int, destinations: int | None = None) -> None:
        """A bundle of the daemon itself, for the daemons of these sites, or of all; as soon as it is its
        turn."""
        destinations = self._everywhere if destinations is None else destinations | self._my_site
        self._outbox.append(_Waiting(draft, destinations, True))
        self.flush(now_us)

    def flush(self, now_us: int) -> None:
        """Order what waits for this daemon's turn, if it has come."""
        order = self._order
        if self._unplaced:
            self._send_placed()
        while order.to_tell and order.is_turn:
            self._tell(order.to_tell.popleft(), now_us)
        while self._outbox and order.is_turn:
            at = 0
            if order.is_holding:
                free = (at for at, waiting in enumerate(self._outbox) if self._is_free(waiting.draft.header))
                at = next(free, -1)
            if at < 0:
                return
            draft, destinations, is_chained, event, is_new = self._outbox[at]
            del self._outbox[at]
            previous = self._control_number if is_chained else 0
            entry = self._order_bundle(draft.data, draft.header, 0, 0, previous, destinations, now_us)
            if is_chained:
                self._control_number = entry.header.number
            if event is not None:
                self._brings_messages(entry, 0, event, is_new)

    def listen(self, event: GroupEvent, is_first: bool, now_us: int) -> None:
        """This daemon listens to groups; or again, for another number of receivers; or no longer."""
        brings = event if event.brings_messages else None
        draft = event_bundle("#", event)
        self._outbox.append(_Waiting(draft, self._everywhere, True, brings, is_first))
        self.flush(now_us)

    def _tell(self, body: bytes, now_us: int) -> None:
        """Something of the order itself, for all other daemons."""
        told = control_bundle(body, Flag.ORDER, Service.RELIABLE)
        self._order_bundle(told.data, told.header, 0, 0, 0, self._everywhere, now_us)

    @staticmethod
    def _is_free(header: Header) -> bool:
        """Whether the order never holds a bundle back: a join that waits for others waits for late ones."""
        return bool(header.flags & NOT_FOR_MEMBERS)

    def decide_quorums(self, now_us: int) -> None:
        """Send the events that decide about the quorums of groups, where this daemon has to."""
        for group in self._delivery.membership.to_decide(self._me, self._view_id):
            self.send_control(event_bundle("#", GroupEvent("quorum", group)), now_us)

    def send_missed(self, groups: Collection[str], daemon: int, lts: int, now_us: int) -> None:
        """`daemon` joins `groups` with `lts`: send its site our later bundles that were pruned from it."""
        site, joined = self._site_of(daemon), frozenset(groups)
        for missed in self._order.own_after(lts):
            header = missed.header
            if (
                not header.flags & (Flag.EVENT | Flag.LATE)
                and not header.destinations >> site & 1
                and not missed.resent >> daemon & 1
                and not joined.isdisjoint(bundles.listened_names(header.names))
            ):
                missed.resent |= 1 << daemon
                late = late_bundle(header, missed.bundle, daemon)
                self._outbox.append(_Waiting(late, 1 << site, False))
        self.flush(now_us)

    @property
    def is_joining(self) -> bool:
        """Whether a join of ours is under way."""
        return bool(self._joining)

    def keeps_order(self, header: Header) -> bool:
        """Whether a bundle must not overtake a join of ours that is under way: it is for the same group, or
        it may have to come after a bundle that is retransmitted because of the join: a FIFO one, and one that
        somebody chose to get so, after one of the same session, a causal one after any."""
        if not self._joining:
            return False
        return header.service is not Service.RELIABLE or any(
            name in self._joining for name in bundles.listened_names(header.names)
        )

    def joined(self, entry: Entry, event: GroupEvent) -> None:
        """A join of ours has taken effect, or what we listen to."""
        if entry.header.number in self._joins:  # who listens anew has nothing to wait for
            self._joins.remove(entry.header.number)
            self._joining.subtract(event.groups)
            self._joining = +self._joining

    def _send_event(self, session: Session, pending: Pending, event: GroupEvent, now_us: int) -> None:
        entry = self._send_ordered(session, pending, self._everywhere, now_us)
        if event.brings_messages:
            self._brings_messages(entry, session.number, event, True)

    def _brings_messages(self, entry: Entry, session: int, event: GroupEvent, is_new: bool) -> None:
        """A join of ours, or what we listen to, is on its way: from its place on, messages come here, some of
        which are new here or not."""
        self._delivery.membership.saw((self._me, session), event)
        if not is_new:
            return
        self._joins.add(entry.header.number)
        self._joining.update(event.groups)
        if not all(map(self._delivery.has_staying_member, event.groups)):
            self._order.wait_for_others(entry)

    def _send_ordered(self, session: Session, pending: Pending, destinations: int, now_us: int) -> Entry:
        header = pending.header
        sequence = session.sequence  # events have their place among a session's messages, too
        entry = self._order_bundle(
            pending.bundle, header, session.number, sequence, session.last_number, destinations, now_us
        )
        session.sequence += header.message_count
        session.last_number = entry.header.number
        return entry

    def _order_bundle(
        self,
        data: bytearray,
        header: Header,
        session: int,
        sequence: int,
        previous: int,
        destinations: int,
        now_us: int,
    ) -> Entry:
        order = self._order
        body = order.told_before(header)
        if body is not None:
            self._tell(body, now_us)
        for extension in order.extensions(header, session):
            data, header = bundles.extend(data, header, extension)
        number, lts, aru = order.stamp()
        history = None
        if session and (header.service is CAUSAL or self._histories.is_active):
            self._histories.begin()
            history, told = self._histories.stamp(session, number, lts, destinations)
            data, header = bundles.extend(data, header, told)
        stamped = Header(
            header.length, header.service, header.flags, header.names, header.message_count, header.tag,
            self._me, session, self._incarnation, sequence, number, previous, lts, aru, destinations,
            header.sent_us, header.marks, header.extensions,
        )  # fmt: skip
        bundles.stamp(data, stamped)
        if self._observer is not None:
            self._observer.sent(self._view_id, stamped)
        entry = Entry(self._source, stamped, data)
        entry.history = history
        order.receive(entry, bool(self._joining) and self.keeps_order(stamped))
        self._forwarder.bundle(
            Fragment(self._source, number, destinations, header.length, 0, data),
            lts=lts,
            aru=aru,
            is_urgent=bundles.is_urgent(header.service, header.flags),
            now_us=now_us,
        )
        self._announcer.announced(now_us, lts, aru, order.came)
        return entry

    def _send_unreliable(self, session: Session, pending: Pending, destinations: int) -> None:
        header, data = pending.header, pending.bundle
        self._unreliable_number += 1
        order = self._order
        for extension in order.extensions(header, session.number):
            data, header = bundles.extend(data, header, extension)
        if self._histories.is_active:
            _, told = self._histories.look(session.number, order.clock)
            data, header = bundles.extend(data, header, told)
        stamped = Header(
            header.length, header.service, header.flags, header.names, header.message_count, header.tag,
            self._me, session.number, self._incarnation, session.sequence, self._unreliable_number, 0,
            order.clock, order.aru, destinations, header.sent_us, header.marks, header.extensions,
        )  # fmt: skip
        session.sequence += header.message_count
        if self._unplaced or not order.has_places(session.number):
            if self._unplaced_bytes <= limits.LINK_UNRELIABLE_QUEUE_BYTES:
                self._unplaced.append((session.number, stamped, data))
                self._unplaced_bytes += len(data)
            else:
                self._counters["bundle: unreliable, too many wait for places"] += 1
            return
        self._let_go(stamped, data)

    def _let_go(self, header: Header, data: bytearray) -> None:
        bundles.stamp(data, header)
        self._delivery.message(self._me, header, data)
        self._forwarder.unreliable(
            Fragment(self._me, header.number, header.destinations, header.length, 0, data)
        )

    def _send_placed(self) -> None:
        """Send unreliable bundles whose sessions' earlier bundles have their places now: who gets one may
        send a bundle that must come after these."""
        order = self._order
        while self._unplaced and order.has_places(self._unplaced[0][0]):
            _, header, data = self._unplaced.popleft()
            self._unplaced_bytes -= len(data)
            self._let_go(structs.replace(header, lts=order.clock, aru=order.aru), data)

    def _destinations(self, names: tuple[str, ...]) -> int:
        """The sites that a message to these names must reach."""
        mask = self._delivery.membership.destinations(names)
        for name in names:
            if name[0] == "#":
                daemon = name.rpartition("#")[2]
                site = self._sites.get(daemon)
                mask |= self._delivery.membership.destinations((f"#{daemon}",)) if site is None else 1 << site
        return mask & self._everywhere | self._my_site
