"""Edges behind an edge: they are fed from its log, and it sends in the name of their sessions.

The same conversation as at a daemon of the core (`core.feeds.attachments`); but who listens here has the
attachment listen, and who is sponsored here is sponsored there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.feeds.cast import Cast
from antiphon.core.feeds.desk import Bundles, EdgeDesk
from antiphon.core.feeds.log import FeedLog
from antiphon.core.feeds.repairs import Draws
from antiphon.core.feeds.server import FeedServer
from antiphon.core.groups.sessions import Session
from antiphon.types import TransitionalSignal, View
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Header, listened_names

if TYPE_CHECKING:
    from antiphon.core.edge.members import EdgeGroup
    from antiphon.core.edge.node import EdgeNode

_CACHE_MAX = 4_096


class Behind(EdgeDesk):
    """The edges that are attached to an edge."""

    def __init__(self, node: "EdgeNode") -> None:
        settings = node.settings
        retain_us = round(settings.feed_retain_ms * 1_000)
        self.log = FeedLog(0, retain_bytes=settings.feed_retain_bytes, retain_us=retain_us)
        server = FeedServer(
            node.name, self.log, self, node.frames, node.endings,
            edges_max=settings.edges_max, linger_us=retain_us,
        )  # fmt: skip
        if node.casts_at:
            told = node.cast_sealing.announce(node.casts_at)
            draws = Draws(f"{node.name} {node.incarnation} cast")
            seal = node.cast_sealing.seal(told)
            server.cast = Cast(told, seal, draws, node.casts, lambda: node.now_us)
        super().__init__(node, server)
        self._node = node
        self._loose: list[tuple[tuple[str, ...], Header, bytes]] = []  # unreliable bundles of this turn
        self._groups: dict[bytes, tuple[str, ...]] = {}  # by names area: which of them are carried

    # The server's wishes ----------------------------------------------------------------------------------

    def want(self, group: str) -> None:
        """See `FeedOwner`."""
        members = self._node.members
        if group not in members.groups and len(members.groups) >= limits.EDGE_GROUPS_MAX:
            self._node.counters["group: too many for edges behind"] += 1
            return
        wanted = members.want(group)
        wanted.is_wanted_behind = True
        if wanted.flows and not wanted.catches_up:
            self.begins(wanted)

    def unwant(self, group: str) -> None:
        """See `FeedOwner`."""
        self.log.forget(group)
        self._groups.clear()
        wanted = self._node.members.groups.get(group)
        if wanted is not None:
            wanted.is_wanted_behind = False
            self._node.members.release(wanted)

    def count(self, group: str, receivers: int) -> None:
        """See `FeedOwner`."""
        self._node.members.changed[group] = None

    # What edges say ---------------------------------------------------------------------------------------

    def attach(self, request: edges.Attach, now_us: int) -> tuple[int, edges.Attached] | frames.Refuse:
        """An edge wants to be attached here; only where there is a way to the core."""
        node = self._node
        if node.sessions.is_closed:
            return frames.Refuse(frames.STOPPING, frames.STOPPING_REASON)
        way = self._way
        if way is None or node.feed.position is None:
            return frames.Refuse("unattached", f"{node.name} has no attachment itself")
        daemon, path = way
        return self.taken(request, node.endings, daemon, path, now_us)

    def probe(self, request: edges.Probe) -> edges.Probed:
        """Who is here: an edge that has no way to the core has no room."""
        node, way = self._node, self._way
        organiser = node.links.organiser
        if way is None:
            return edges.Probed(request.number, node.name, 0, len(self.server.edges), (node.name,))
        _, path = way
        if organiser is None:
            return self.server.probed(request, path)
        return self.server.probed(
            request, path, organiser.hierarchy.few_here, organiser.hierarchy.neighbours()
        )

    @property
    def _way(self) -> tuple[str, tuple[str, ...]] | None:
        """The daemon of the core where the feed comes from, and the edges from here to there."""
        main = self._node.links.main
        if main is None or main.attached is None:
            return None
        return main.attached.daemon, (self._node.name, *main.attached.path)

    def moved(self) -> None:
        """The way to the core has changed."""
        way = self._way
        if way is None:
            return
        daemon, path = way
        for number in self.server.edges:
            told = edges.Attached(
                frames.PROTOCOL_VERSION, self._node.name, daemon, path,
                limits.MESSAGE_MAX_BYTES, limits.EDGE_BEAT_US,
            )  # fmt: skip
            self._node.tell(number, told)

    def _begin(self, session: Session, request: edges.Sponsor) -> None:
        """See `EdgeDesk`. The attachment of this edge is asked to sponsor it, too."""
        sending = self._node.sending
        sending.sponsor(sending.add(session, request.edge, request.client))

    def _end(self, session: Session) -> None:
        """See `EdgeDesk`. It ends upstream, too."""
        self._node.requests.end(session)
        self._node.sessions.remove(session)

    def _took(self, session: Session, bundles: Bundles) -> None:
        """See `EdgeDesk`. Only where the core takes them they count as sent."""

    # The feed ---------------------------------------------------------------------------------------------

    def part(self, view: int, branch: int) -> None:
        """What follows belongs to this daemon view."""
        self.log.begin_part(view)
        self.log.begin_branch(branch)  # another attachment may be before the branch, or in another one

    def _stand(self) -> int:
        """Let the log know what has come, also of groups that it does not carry; the place."""
        position = self._node.feed.position
        assert position is not None
        self.log.pass_by(position.key)
        return position.place

    def begins(self, group: "EdgeGroup") -> None:
        """A group flows from here on."""
        if group.is_wanted_behind and group.view is not None:
            self._groups.clear()
            place = self._stand()
            self.log.base(group.view, place, self._node.now_us)
            if group.is_signalled:
                signal = TransitionalSignal(group.name, group.view.id)
                self.log.signal(signal, place, self._node.now_us)

    def bundle(self, header: Header, data: bytes) -> None:
        """Messages."""
        groups = self._carried(header.names)
        if groups:
            self.log.bundle(groups, data, header, self._node.now_us)

    def unreliable(self, header: Header, data: bytes) -> None:
        """Unreliable messages."""
        groups = self._carried(header.names)
        if groups:
            self._loose.append((groups, header, data))

    def pump(self, now_us: int) -> None:
        """Feed what has come."""
        self.server.pump(now_us)
        for groups, header, data in self._loose:
            self.server.unreliable(groups, data, header)
        self._loose.clear()

    def _carried(self, area: bytes) -> tuple[str, ...]:
        if not self.log.groups:
            return ()
        found = self._groups.get(area)
        if found is None:
            if len(self._groups) >= _CACHE_MAX:
                self._groups.clear()
            names = listened_names(area)
            members = self._node.members
            found = self._groups[area] = tuple(
                name for name in names if name in self.log.groups and members.is_flowing(name)
            )
        return found

    def view(self, view: View, place: int) -> None:
        """A view of a group that flows."""
        if view.group in self.log.groups:
            self.log.view(view, self._node.now_us, place)

    def signal(self, signal: TransitionalSignal) -> None:
        """A transitional signal of a group that flows."""
        if signal.group in self.log.groups:
            self.log.signal(signal, self._stand(), self._node.now_us)

    def gap(self, gap: edges.Gap) -> None:
        """A group does not flow any more, and something of it is missing until it does."""
        self._groups.clear()
        if gap.group in self.log.groups:
            self.log.gap(gap.group, self._stand(), self._node.now_us, gap.reason)

    def stopped(self) -> None:
        """Another attachment is to feed."""
        self._groups.clear()

    def reached(self) -> None:
        """Nothing more comes up to the edge's place."""
        self.log.reach(self._stand())

    # Time -------------------------------------------------------------------------------------------------

    def timeout(self, now_us: int) -> None:
        """The deadline may have passed. Edges are sent away when there has been no way to the core for a
        while: others may have one."""
        self.server.excuse_pause(now_us)
        lost_us = self._node.links.lost_us
        if lost_us is not None and now_us - lost_us >= limits.EDGE_PATIENCE_US:
            for number in list(self.server.edges):
                reason = f"{self._node.name} has lost its attachment, and finds none"
                self._node.endings.append((number, frames.Goodbye("unattached", reason)))
                self.lost(number, now_us)
        for number in [number for number in self.server.edges if not self._node.reads(number)]:
            self.server.heard(number, now_us)  # it may say what it wants
        for number in [number for number in self.server.edges if self.server.is_silent(number, now_us)]:
            self._end_sponsored(number)
        self.server.timeout(now_us)

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called."""
        deadline_us = self.server.next_deadline_us()
        lost_us = self._node.links.lost_us
        if lost_us is None or not self.server.edges:
            return deadline_us
        patience_us = lost_us + limits.EDGE_PATIENCE_US
        return patience_us if deadline_us is None else min(deadline_us, patience_us)

    def states(self) -> Iterator[dict[str, object]]:
        """What status shows of each edge."""
        return self.server.states()
