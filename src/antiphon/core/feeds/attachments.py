"""A daemon of the core as the attachment of edges: what it listens to for them, and what it sends in their
name.

An edge attaches over a connection like that of a client, and a daemon listens to a group as long as one of
its edges does, and a while longer. Listening is an agreed event: from its place on everything comes here
that is sent to the group, also if no session here is a member. It makes nobody a member, and nobody waits
for it.

Follows: InterGroup 6: who wants to send contacts a sponsor.
Deviation: the sponsor sends in the name of the session. So a session at an edge is no sender that anybody
has to know, and its messages have the same promises as all others from that daemon.
Checked by: the scenario `edges`, tests/unit/test_attachments.py.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from antiphon import limits
from antiphon.core.feeds.desk import EdgeDesk
from antiphon.core.feeds.log import FeedLog
from antiphon.core.feeds.server import FeedServer
from antiphon.core.feeds.source import FeedSource
from antiphon.core.groups.sessions import Session
from antiphon.core.ordering.entry import Entry
from antiphon.wire import edges, frames
from antiphon.wire.events import GroupEvent

if TYPE_CHECKING:
    from antiphon.core.node import Node

Bundles = Sequence[bytearray | memoryview]


class Attachments(EdgeDesk):
    """The edges of one daemon."""

    def __init__(self, node: "Node", view: int) -> None:
        """`view` is the daemon view in which its feed begins."""
        settings = node.config.settings
        retain_us = round(settings.feed_retain_ms * 1_000)
        self._node = node
        self.log = FeedLog(view, retain_bytes=settings.feed_retain_bytes, retain_us=retain_us)
        self.source = FeedSource(self.log, node.delivery.membership)
        server = FeedServer(
            node.name, self.log, self, node.frames, node.endings,
            edges_max=settings.edges_max, linger_us=retain_us,
        )  # fmt: skip
        super().__init__(node, server)
        node.delivery.feeding = self.source
        self._wanted: set[str] = set()
        self._asked: set[str] = set()  # groups with a listen of ours under way
        self._to_ask: dict[str, None] = {}  # those that wait until that has taken effect
        self._to_drop: dict[str, None] = {}  # those that are wanted no longer
        self._has_wishes = False  # that came while no view worked, or one was about to end
        self._untold: dict[str, None] = {}  # groups whose receivers have changed since they were told
        self._tell_us = 0

    # The feed's wishes ------------------------------------------------------------------------------------

    def want(self, group: str) -> None:
        """See `FeedOwner`."""
        self._wanted.add(group)
        self._ask(group)

    def unwant(self, group: str) -> None:
        """See `FeedOwner`."""
        self._wanted.discard(group)
        if not self._node.is_operational:
            self._has_wishes = True
        elif group in self.source.listening:
            self._to_drop[group] = None

    def count(self, group: str, receivers: int) -> None:
        """See `FeedOwner`."""
        self._untold[group] = None

    def _ask(self, group: str) -> None:
        if not self._node.is_operational:
            self._has_wishes = True
        elif group not in self.source.listening and group not in self._asked:
            self._to_ask[group] = None

    def _send(
        self, kind: Literal["listen", "unlisten"], groups: Sequence[str], is_first: bool = False
    ) -> None:
        for at in range(0, len(groups), limits.LISTENED_GROUPS_MAX):
            some = groups[at : at + limits.LISTENED_GROUPS_MAX]
            listened = tuple((group, self.server.receivers(group)) for group in some)
            self._node.listen(GroupEvent(kind, listened=listened), is_first)
            self._node.is_settled = False

    def _send_wishes(self) -> None:
        """Send what waits: one listen at a time, for many groups. Each has to come to all others before it
        takes effect, and daemons that have many under way would wait for one another again and again."""
        to_drop = [group for group in self._to_drop if group not in self._wanted]
        self._to_drop.clear()
        self._send("unlisten", to_drop)
        if self._to_ask and not self._asked:
            some = tuple(islice(self._to_ask, limits.LISTENED_GROUPS_MAX))
            for group in some:
                del self._to_ask[group]
                self._untold.pop(group, None)
            some = tuple(group for group in some if group in self._wanted)
            if some:
                self._asked.update(some)
                self._send("listen", some, is_first=True)

    def groups_are_whole(self) -> None:
        """A view begins to work: what was under way in the last one has come or is lost."""
        self._asked.clear()
        self._to_ask.clear()
        self._to_drop.clear()
        self._tell_wishes()

    def _tell_wishes(self) -> None:
        """Listen to what is wanted, and to nothing else."""
        self._has_wishes = False
        for group in sorted(self._wanted):
            self._ask(group)
        self._to_drop |= dict.fromkeys(sorted(self.source.listening - self._wanted))

    def _took_effect(self) -> None:
        """What was asked for has its place: wishes that came meanwhile may differ."""
        done, self.source.took_effect[:] = self.source.took_effect[:], []
        for group in done:
            self._asked.discard(group)
        for group in dict.fromkeys(done):
            if group in self._wanted:
                self._ask(group)
            else:
                self.unwant(group)

    # What edges say ---------------------------------------------------------------------------------------

    def attach(self, request: edges.Attach, now_us: int) -> tuple[int, edges.Attached] | frames.Refuse:
        """An edge wants to be attached here: its session number, and what it is told."""
        node = self._node
        if node.sessions.is_closed:
            return frames.Refuse(frames.STOPPING, frames.STOPPING_REASON)
        if request.name in node.config.daemon_names:
            return frames.Refuse("name-taken", f"a daemon of the core is called {request.name!r}")
        return self.taken(request, node.endings, node.name, (), now_us)

    def probe(self, request: edges.Probe) -> edges.Probed:
        """Who is here, and which coordinators there are."""
        return self.server.probed(
            request, (), self._node.config.settings.edge_coordinators, tuple(self.server.coordinators())
        )

    # Sponsored sessions -----------------------------------------------------------------------------------

    def _begin(self, session: Session, request: edges.Sponsor) -> None:
        """See `EdgeDesk`. Its client is told by the edge what becomes of it."""
        session.is_connected = False
        node = self._node
        if node.observer is not None:
            node.observer.sponsored(session.number, session.private_name)
        self.tell(session.speaker, edges.Sponsored(request.client, session.number, node.me, node.incarnation))

    def _end(self, session: Session) -> None:
        """See `EdgeDesk`."""
        if self._node.observer is not None:
            self._node.observer.unsponsored(session.number)
        self._node.requests.end(session)
        self._node.stop_listening(session)

    def _took(self, session: Session, bundles: Bundles) -> None:
        """See `EdgeDesk`."""
        if self._node.observer is not None:
            self._node.observer.submitted(session.number, bundles)

    # The daemon's turn ------------------------------------------------------------------------------------

    def feed(self, now_us: int) -> None:
        """The order of the view that works has delivered what its lines allow."""
        if self._has_wishes and self._node.is_operational:
            self._tell_wishes()
        if self.source.took_effect:
            self._took_effect()
        if (self._to_ask or self._to_drop) and self._node.is_operational:
            self._send_wishes()
        if not self.server.edges and not self.source.listening:
            return
        line = self._handed_line()
        if line is not None:
            self.source.advance(line, now_us)
        self._pump(now_us)

    def _handed_line(self) -> int | None:
        """Everything that was born up to here is not only free to be delivered, but has come to the groups:
        what a turn has no time for waits. None while groups are put together, at a place that has not
        passed."""
        order, regrouping = self._node.order, self._node.regrouping
        if regrouping.is_under_way:
            return None
        waiting = [entry.place or entry.header.lts for entry in order.ready if isinstance(entry, Entry)]
        return min([order.done_line, *(place - 1 for place in waiting)])

    def end_view(self, certain_line: int, next_view: int, now_us: int) -> None:
        """Everything of a daemon view is delivered, and another one follows."""
        self.source.end_view(certain_line, next_view, now_us)
        self._pump(now_us)

    def _pump(self, now_us: int) -> None:
        self.server.pump(now_us)
        for groups, header, bundle in self.source.came_unreliable:
            self.server.unreliable(groups, bundle, header)
        self.source.came_unreliable.clear()

    def timeout(self, now_us: int) -> None:
        """The deadline may have passed. An edge that is not read may say what it wants."""
        self.server.excuse_pause(now_us)
        for number in [number for number in self.server.edges if not self.reads(number)]:
            self.server.heard(number, now_us)
        for number in [number for number in self.server.edges if self.server.is_silent(number, now_us)]:
            self._end_sponsored(number)
        self.server.timeout(now_us)
        if self._untold and self._tell_us <= now_us and self._node.is_operational:
            self._tell_us = now_us + limits.EDGE_RECEIVERS_US
            changed = [group for group in self._untold if group in self.source.listening]
            self._untold.clear()
            self._send("listen", changed)

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called."""
        deadline_us = self.server.next_deadline_us()
        if (
            self._untold
            and self._node.is_operational
            and (deadline_us is None or self._tell_us < deadline_us)
        ):
            return self._tell_us
        return deadline_us

    def states(self) -> Iterator[dict[str, object]]:
        """What status shows of each edge."""
        return self.server.states()
