"""Where this site's own bundles begin: each gets its place in the order and is sent on its way."""

from collections import Counter

from antiphon.config import Config
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.events import GroupEvent, late_bundle
from antiphon.core.groups.sessions import Pending, Session
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.ordering.updates import Announcer
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.packet import Fragment


class Origin:
    """Stamps and sends the bundles of one daemon."""

    def __init__(
        self,
        config: Config,
        *,
        me: int,
        incarnation: int,
        order: SymmetricOrder,
        forwarder: Forwarder,
        delivery: Delivery,
        announcer: Announcer,
    ) -> None:
        self._me = me
        self._incarnation = incarnation
        self._order = order
        self._forwarder = forwarder
        self._delivery = delivery
        self._announcer = announcer
        self._everybody = (1 << len(config.sites)) - 1
        self._daemons = {daemon.name: number for number, (_, daemon) in enumerate(config.daemons())}
        self._unreliable_number = 0
        self._joining: Counter[str] = Counter()  # groups with a join of ours that has not taken effect

    def send(self, session: Session, pending: Pending, now_us: int) -> None:
        """A session's bundle has its turn."""
        header = pending.header
        if pending.event is not None:
            self._send_event(session, pending, pending.event, now_us)
            return
        destinations = self._destinations(bundles.parse_names(header.names)[1:])
        if header.service is Service.UNRELIABLE:
            self._send_unreliable(session, pending, destinations)
        else:
            self._send_ordered(session, pending, destinations, now_us)

    def send_missed(self, group: str, site: int, lts: int, now_us: int) -> None:
        """`site` joins `group` with `lts`: send it our later bundles that were pruned from it."""
        for missed in self._order.held_of(self._me):
            header = missed.header
            if (
                header.lts > lts
                and not header.flags & (Flag.EVENT | Flag.LATE)
                and not (header.destinations | missed.resent) >> site & 1
                and group in bundles.parse_names(header.names)[1:]
            ):
                missed.resent |= 1 << site
                wrapper = late_bundle(header, missed.bundle)
                self._order_bundle(wrapper, bundles.parse(wrapper), 0, 0, 0, 1 << site, now_us)

    def keeps_order(self, header: Header) -> bool:
        """Whether a bundle must not overtake a join of ours that is under way: it is for the same group, or
        it may have to come after a bundle of the same session that is sent again because of the join."""
        if not self._joining:
            return False
        return header.service is Service.FIFO or any(
            name in self._joining for name in bundles.parse_names(header.names)[1:]
        )

    def joined(self, group: str) -> None:
        """A join of ours has taken effect."""
        self._joining[group] -= 1
        self._joining = +self._joining

    def _send_event(self, session: Session, pending: Pending, event: GroupEvent, now_us: int) -> None:
        entry = self._send_ordered(session, pending, self._everybody, now_us)
        self._delivery.membership.saw((self._me, session.number), event)
        if event.kind == "join":
            self._joining[event.group] += 1
            if not self._delivery.has_settled_member(event.group):
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
        number = order.number + 1
        lts = order.lines.tick()
        aru = order.lines.aru
        stamped = Header(
            header.length, header.service, header.flags, header.names, header.message_count, header.tag,
            self._me, session, self._incarnation, sequence, number, previous, lts, aru, destinations,
            header.sent_us,
        )  # fmt: skip
        bundles.stamp(data, stamped)
        entry = Entry(self._me, stamped, data)
        order.receive(entry, in_order=self.keeps_order(stamped))
        self._forwarder.bundle(
            Fragment(self._me, number, destinations, header.length, 0, data), lts=lts, aru=aru, now_us=now_us
        )
        self._announcer.announced(now_us, lts, aru)
        return entry

    def _send_unreliable(self, session: Session, pending: Pending, destinations: int) -> None:
        header, data = pending.header, pending.bundle
        self._unreliable_number += 1
        lines = self._order.lines
        stamped = Header(
            header.length, header.service, header.flags, header.names, header.message_count, header.tag,
            self._me, session.number, self._incarnation, session.sequence, self._unreliable_number, 0,
            lines.clock, lines.aru, destinations, header.sent_us,
        )  # fmt: skip
        bundles.stamp(data, stamped)
        session.sequence += header.message_count
        self._delivery.message(self._me, stamped, data)
        self._forwarder.unreliable(
            Fragment(self._me, self._unreliable_number, destinations, header.length, 0, data)
        )

    def _destinations(self, names: tuple[str, ...]) -> int:
        """The sites that a message to these names must reach."""
        mask = self._delivery.membership.destinations(names)
        for name in names:
            if name[0] == "#":
                number = self._daemons.get(name.rpartition("#")[2])
                if number is not None:
                    mask |= 1 << number
        return mask | 1 << self._me
