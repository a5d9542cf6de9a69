"""What a daemon has once per daemon view: links, trees, order and flow control, all built from the view.

Nothing of it outlives the view. In particular no credit, window or wish to hold is carried over, so none can
be lost on the way.
"""

from collections.abc import Iterator

from antiphon import limits
from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.links.hop import HopLink
from antiphon.core.links.ring import Mate, Ring
from antiphon.core.membership.view import DaemonView
from antiphon.core.ordering.hold import Hold
from antiphon.core.ordering.symmetric import SymmetricOrder, Unreliable
from antiphon.core.ordering.updates import Announcer
from antiphon.core.overlay import routing
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.core.overlay.fragments import Reassembly
from antiphon.core.overlay.topology import segments


class Term:
    """One daemon's working parts for one daemon view."""

    def __init__(
        self,
        config: Config,
        view: DaemonView,
        *,
        me: int,
        clock: int,
        datagrams: list[Datagram],
        now_us: int,
    ) -> None:
        settings = config.settings
        delta_us = int(settings.delta_ms * 1000)
        self.view = view
        self.everywhere = 0
        """Mask of the sites that have members."""
        for member in view.members:
            self.everywhere |= 1 << config.site_of(member)
        incarnation = view.incarnation(me)
        assert incarnation is not None
        self.segments = segments(config, view.members, view.links)
        self.source_of = {member: segment[0] for segment in self.segments for member in segment}
        """By member, the source in whose name its bundles are numbered."""
        self.sources = tuple(segment[0] for segment in self.segments)
        mine = next(segment for segment in self.segments if me in segment)
        self.speaks = mine[0] == me
        """Whether this daemon is its segment's representative."""
        self.ring: Ring | None = None
        if len(mine) > 1:
            self.ring = Ring(
                me=me,
                members=mine,
                digest=config.digest,
                view=view.id,
                incarnations=dict(zip(view.members, view.incarnations, strict=True)),
                hello_us=settings.timing().hello_us,
                suspect_us=settings.timing().suspect_us,
                packet_bytes=config.link_between(me, me).packet_bytes,
                datagrams=datagrams,
                now_us=now_us,
            )
        self.links: dict[int, HopLink] = {}
        for neighbour in view.neighbours(me):
            if neighbour in mine:
                continue
            link = config.link_between(me, neighbour)
            self.links[neighbour] = HopLink(
                me=me,
                peer=neighbour,
                digest=config.digest,
                view=view.id,
                incarnation=incarnation,
                peer_incarnation=view.incarnation(neighbour) or 0,
                hello_us=settings.timing().hello_us,
                packet_bytes=link.packet_bytes,
                window_bytes=link.window_bytes,
                rate_bytes_per_s=link.rate_bytes_per_s,
                datagrams=datagrams,
                now_us=now_us,
            )
        branches = routing.branches(config, self.segments, view.links, me)
        self.forwarder = Forwarder(branches, self.links, self.ring, delta_us)
        self.order = SymmetricOrder(config.daemon_count, me, self.segments, view.id, clock)
        self.hold = Hold(me)
        self.announcer = Announcer(delta_us, now_us, view.id)
        under_way_bytes = 4 * (settings.unstable_bytes + limits.FRAME_MAX_BYTES)
        self.reassembly = {
            segment[0]: Reassembly(max(limits.REASSEMBLY_MAX_BYTES, len(segment) * under_way_bytes))
            for segment in self.segments
        }
        self.unreliable_reassembly = {
            member: Reassembly(limits.UNRELIABLE_REASSEMBLY_MAX_BYTES) for member in view.members
        }
        self.unreliable = {member: Unreliable() for member in view.members}
        self.incomplete: set[int] = set()
        """Daemons with unreliable bundles of which parts are missing."""

    def neighbours(self) -> Iterator[tuple[int, HopLink | Mate]]:
        """The daemons with which this one exchanges packets in this view, and how it stands with them."""
        yield from self.links.items()
        if self.ring is not None:
            yield from self.ring.mates.items()

    @property
    def word(self) -> tuple[int, int, int]:
        """What may be said of our source now: its bundles up to this number are out, the next one is later
        than this lts, and all of its daemons have everything up to this aru."""
        order = self.order
        if order.is_turn or self.ring is None:
            return order.issued, order.lines.clock, order.lines.own_aru
        return self.ring.site_seq, self.ring.site_lts, order.lines.own_aru
