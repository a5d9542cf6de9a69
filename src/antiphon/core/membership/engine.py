"""What a daemon has once per daemon view: links, trees, order and flow control, all built from the view.

Nothing of it outlives the view. In particular no credit or window is carried over, so none can be lost on the
way.

Follows: thesis 3.3 (after a change of the membership a new overlay network is built, with trees of its own),
Spread paper 2.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from antiphon import limits
from antiphon.config import Config
from antiphon.core.effects import Outbox
from antiphon.core.links.building import build, build_site_link
from antiphon.core.links.link import Link
from antiphon.core.links.site import Mate
from antiphon.core.links.tcp import Stream
from antiphon.core.ordering.adaptive import AdaptiveOrder
from antiphon.core.ordering.histories import Histories
from antiphon.core.ordering.order import MakeOrder, Order
from antiphon.core.ordering.plausible import Reach
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.ordering.unreliable import Unreliable
from antiphon.core.ordering.updates import Announcer
from antiphon.core.overlay import routing
from antiphon.core.overlay.delta import Delta
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.core.overlay.fragments import Reassembly
from antiphon.core.overlay.topology import segments
from antiphon.core.view import DaemonView
from antiphon.errors import BadPacket
from antiphon.wire.packet import SERIALS, Data, Packet, Update

ORDERS: dict[str, MakeOrder] = {"symmetric": SymmetricOrder, "adaptive": AdaptiveOrder}
"""The orders that a cluster can choose."""


class Engine:
    """One daemon's working parts for one daemon view."""

    def __init__(
        self,
        config: Config,
        view: DaemonView,
        *,
        me: int,
        clock: int,
        streams: Mapping[int, Stream],
        datagrams: Outbox,
        now_us: int,
    ) -> None:
        settings = config.settings
        self._me = me
        self.view = view
        self.everywhere = 0
        """Mask of the sites that have members."""
        for member in view.members:
            self.everywhere |= 1 << config.site_of(member)
        self.segments = segments(config, view.members, view.links)
        self.source_of = {member: segment[0] for segment in self.segments for member in segment}
        """By member, the source of its bundles."""
        mine = next(segment for segment in self.segments if me in segment)
        self.speaks = mine[0] == me
        """Whether this daemon is its segment's representative."""
        site = config.site_of(me)
        make = ORDERS[settings.order]
        sites = [config.site_of(segment[0]) for segment in self.segments]
        self.order: Order = make(config.daemon_count, me, self.segments, view.id, clock, site, sites)
        self._has_roles = settings.order != "symmetric"
        self._look_us = 0  # not before this
        self.histories = Histories(me, site, self.order, Counter(map(config.site_of, view.members)))
        self.reach = Reach(self.order, self.source_of, view.id, now_us)
        self.site_link = build_site_link(
            config,
            view,
            mine,
            me=me,
            numbering=self.order,
            check_numbering=self.reach.check_numbering,
            check_data=self.reach.check,
            datagrams=datagrams,
            now_us=now_us,
        )
        """The link to the other daemons of our segment; None if there are none."""
        self.links: dict[int, Link] = {
            peer: build(config, view, me=me, peer=peer, streams=streams, datagrams=datagrams, now_us=now_us)
            for peer in view.neighbours(me)
            if peer not in mine
        }
        self._ways = routing.ways(config, self.segments, view.links, me)
        branches = routing.branches(config, self.segments, view.links, me)
        self.delta = Delta(int(settings.delta_ms * 1000), len(self.segments))
        self.forwarder = Forwarder(branches, self.links, self.site_link, self.delta)
        self._serial = 0  # of our last update
        self.announcer = Announcer(self.delta, now_us, view.id)
        under_way_bytes = 4 * (settings.unstable_bytes + limits.FRAME_MAX_BYTES)
        self.reassembly = {
            segment[0]: Reassembly(max(limits.REASSEMBLY_MAX_BYTES, len(segment) * under_way_bytes))
            for segment in self.segments
        }
        self.unreliable_reassembly = {
            member: Reassembly(limits.UNRELIABLE_REASSEMBLY_MAX_BYTES) for member in view.members
        }
        self.unreliable = {member: Unreliable() for member in view.members}
        self.received_bytes = 0
        """Bytes of the data packets that were new to their link or to the ring."""
        self.incomplete: set[int] = set()
        """Daemons with unreliable bundles of which parts are missing."""

    def neighbours(self) -> Iterator[tuple[int, Link | Mate]]:
        """The daemons with which this one exchanges packets in this view, and how it stands with them."""
        yield from self.links.items()
        if self.site_link is not None:
            yield from self.site_link.mates.items()

    def is_mate(self, daemon: int) -> bool:
        """Whether packets of this daemon come over our site link."""
        return self.site_link is not None and daemon in self.site_link.mates

    def receive(self, incoming: Packet, from_site: bool, now_us: int) -> list[Data]:
        """A packet of this view came in: what is new of it. BadPacket if no neighbour can have sent it.
        `from_site` is what `is_mate` answers for its sender."""
        head = incoming.head
        if isinstance(incoming, Data):
            self.reach.check(incoming, from_site, now_us)
        if from_site:
            assert self.site_link is not None
            return self.site_link.receive(incoming, now_us)
        if head.sender not in self.links or head.receiver != self._me:
            raise BadPacket("packet: not from a neighbour")
        return self.links[head.sender].receive(incoming, now_us)

    def pump(self, now_us: int) -> None:
        """Send what was given to links since the last time."""
        touched = self.forwarder.touched
        if touched:
            links = self.links
            for neighbour in touched:
                if neighbour in links:  # what is for our segment goes out with its turn
                    links[neighbour].pump(now_us)
            touched.clear()

    # What our source announces ----------------------------------------------------------------------------

    @property
    def _announcement(self) -> tuple[int, int, int]:
        """What our source may announce now: its bundles up to this number are out, the next one is later than
        this lts, and all of its daemons have everything up to this aru."""
        order = self.order
        lines = order.lines
        if order.is_turn or self.site_link is None:
            return order.issued, lines.clock, lines.own_aru
        return *self.site_link.newest, lines.own_aru

    def announcement_due_us(self) -> int | None:
        """When this daemon may announce something for which other sources wait; None if it has no news."""
        if not self.speaks:
            return None
        order = self.order
        _, lts, aru = self._announcement
        if not self.announcer.has_news(order.highest_lts, lts, aru):
            return None
        return self.announcer.due_us(order.needs_lts, order.needs_aru, lts, aru, order.came)

    def announce(self, now_us: int) -> None:
        """Send an update to the other sources, if there is news and it is time."""
        due_us = self.announcement_due_us()
        if due_us is None or due_us > now_us:
            return
        self.delta.measured(self._delay_us)
        number, lts, aru = self._announcement
        self.announcer.announced(now_us, lts, aru, self.order.came)
        self._serial = (self._serial + 1) % SERIALS  # it only tells copies that wait apart
        self.forwarder.announce(Update(self.order.source, self._serial, number, lts, aru))

    @property
    def _delay_us(self) -> int:
        """The longest one-way delay to a neighbour at another site."""
        return max((link.regulator.rtt_us for link in self.links.values()), default=0) // 2

    def look(self, now_us: int) -> None:
        """Time passes in a view that works."""
        if self._has_roles and now_us >= self._look_us:
            self._look_us = now_us + limits.LOOK_EVERY_US
            self.order.look(self._delays_us() if self.speaks else {}, now_us)

    def _delays_us(self) -> dict[int, int]:
        """The one-way delay to each other source: that of the link on the way there, as measured, and for
        what lies beyond it as much more as it costs."""
        return {
            source: int(self.links[neighbour].regulator.rtt_us * share) // 2
            for source, (neighbour, share) in self._ways.items()
            if neighbour in self.links
        }

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way: every bundle is delivered and known to be everywhere, every link is idle."""
        order = self.order
        return (
            not (order.retained_count or order.ready or order.ahead_count)
            and self.announcement_due_us() is None
            and self.forwarder.is_quiet
            and all(link.is_quiet for link in self.links.values())
            and (self.site_link is None or self.site_link.is_quiet)
        )

    # Time -------------------------------------------------------------------------------------------------

    def timeout(self, now_us: int) -> None:
        """Do whatever is due on links, and give up unreliable bundles that stay incomplete."""
        for link in self.links.values():
            if link.next_deadline_us() <= now_us:
                link.timeout(now_us)
        if self.site_link is not None:
            self.site_link.timeout(now_us)
        for daemon in list(self.incomplete):  # needs no deadline of its own: some link has one soon enough
            self.unreliable_reassembly[daemon].expire(now_us)
            if not self.unreliable_reassembly[daemon]:
                self.incomplete.discard(daemon)

    def next_deadline_us(self) -> int | None:
        """When there is something to do. Asked after every event."""
        deadline_us = self.forwarder.due_us
        news_us = self.announcement_due_us()
        if news_us is not None and (deadline_us is None or news_us < deadline_us):
            deadline_us = news_us
        look_us = self.order.look_due_us
        if look_us is not None:
            deadline_us = earliest_us(deadline_us, max(look_us, self._look_us))
        for link in self.links.values():
            due_us = link.next_deadline_us()
            if deadline_us is None or due_us < deadline_us:
                deadline_us = due_us
        if self.site_link is not None:
            deadline_us = earliest_us(deadline_us, self.site_link.next_deadline_us())
        return deadline_us


def earliest_us(one_us: int | None, other_us: int | None) -> int | None:
    """The earlier of two times, each of which may be never (None)."""
    if one_us is None or (other_us is not None and other_us < one_us):
        return other_us
    return one_us
