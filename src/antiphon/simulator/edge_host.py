"""The machine that one edge runs on: it drives an `EdgeNode` as `runtime` does.

Beside its clients, and the edges behind it, it has connections to attachments, which the edge wants dialled.
The trace tells what an attachment says of the feed, where the oracle cannot know it otherwise: at which
place a group begins to flow, and through which daemon views the feed goes. It also tells who asks for pieces
of a cast, who repairs them, and who hears that.
"""

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from antiphon.core.edge.node import EdgeNode
from antiphon.errors import BadPacket
from antiphon.simulator.client import Client
from antiphon.simulator.connections import End
from antiphon.simulator.edge_client import EdgeClient
from antiphon.simulator.machine import Driven, Machine
from antiphon.simulator.pipes import Pipe
from antiphon.simulator.plan import Edge
from antiphon.trace import Event
from antiphon.trace.feeds import FeedNotes
from antiphon.wire import casts, edges, frames

if TYPE_CHECKING:
    from antiphon.simulator.world import World


class EdgeHost(Machine):
    """One edge's machine."""

    node: EdgeNode | None

    def __init__(self, world: "World", number: int, edge: Edge) -> None:
        self.edge = edge
        """The machines of its attachments."""
        self._past_casts: Counter[str] = Counter()
        super().__init__(world, number, edge.machine, "edge")

    def _forget(self) -> None:
        super()._forget()
        self._pipes: dict[int, Pipe] = {}
        """By link."""
        self._links: dict[End, int] = {}
        self._names: dict[int, str] = {}
        self._fed_by: int | None = None
        """The link over which it has asked to be fed."""
        self._feed = FeedNotes(self.note)
        self._is_first = False
        """Whether nothing of the feed can have been read before in the call of the node that is under way."""

    @property
    def is_fed(self) -> bool:
        """Whether the edge, if it runs, is attached, and nothing waits to be written to its attachments."""
        if self.node is None:
            return True
        if self.node.hearing.is_behind:
            return False
        return self.node.is_operational and not any(pipe.waiting_bytes for pipe in self._pipes.values())

    @property
    def _cast_place(self) -> str:
        return self.edge.lan if self.edge.shares_place else self.name if self.edge.lan else ""

    def hears(self, place: str) -> bool:
        """Whether its machine takes multicasts to a place."""
        return self.node is not None and place in self.node.cast_places

    @property
    def casts(self) -> Counter[str]:
        """What was counted of its own cast and of the one that it has heard, in all its lives."""
        return self._past_casts + self._present_casts()

    def _present_casts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        if self.node is not None and self.node.casts_at:
            own, hearing = self.node.behind.server.cast, self.node.hearing
            assert own is not None
            found.update(own.counters)
            found.update(hearing.counters)
            found["repairs of coordinators"] = own.repairs.sent
            found["repairs of others"] = hearing.repairs.sent
            found["repairs spared"] = own.repairs.spared + hearing.repairs.spared
            found["of other streams"] = self.node.counters["cast: of another stream"]
        return found

    def crash(self) -> None:
        """See `Machine`."""
        self._past_casts += self._present_casts()
        super().crash()

    def start(self, step_us: int = 0, uptime_us: int | None = None) -> None:
        """The edge starts with an empty memory, if it does not run."""
        if self.node is not None:
            return
        world = self._world
        self.started_us = world.now_us
        if uptime_us is not None:
            self._ahead_us += uptime_us - self.clock_us
        incarnation = self._random.randrange(1, 1 << 32)
        self.note(Event.RECOVER, incarnation=incarnation)
        self.node = EdgeNode(
            self.name, self.edge.attachments, incarnation=incarnation, now_us=self.clock_us,
            settings=world.config.settings, places=(self.name,), organises=self.edge.organises,
            casts_at=self._cast_place, chance=Random(f"{self.name} {incarnation} secrets").randbytes,
        )  # fmt: skip
        self.node.witness = self._saw_feed
        self.guests = world.guests_of(self, self.node)
        self._settle(self.node)

    def look(self) -> bool:
        """An edge has no buffers that the trace tells of."""
        return True

    def _client(self, node: Driven, welcome: frames.Welcome) -> Client:
        world = self._world
        return EdgeClient(
            node, self.name, welcome, world.config.settings, world.records, self._waiting, world.bearers
        )

    # Events -----------------------------------------------------------------------------------------------

    def hear(self, end: End, event: str, reason: str) -> None:
        """Something has happened to a connection with an attachment, or with an edge behind this one."""
        if self.node is None:
            return
        if end in self._links:
            self._happen(self._happened, end, event, reason)
        elif self.guests is not None and self.guests.is_from_edge(end):
            self._happen(self.guests.happened, end, event, reason)

    def _happened(self, end: End, event: str, reason: str, now_us: int) -> None:
        node, link = self.node, self._links.get(end)
        if node is None or link is None:
            return
        pipe = self._pipes[link]
        if event == "connected":
            node.dialled(link, now_us)
        elif event == "readable":
            self._read_link(link, pipe, now_us)
        elif event == "writable":
            pipe.writable()
        else:
            self._read_link(link, pipe, now_us)
            self._break(link, reason, now_us)

    def _read_link(self, link: int, pipe: Pipe, now_us: int) -> None:
        node = self.node
        assert node is not None
        pipe.read()
        while pipe.unhandled and link in self._pipes:
            kind, frame = pipe.unhandled.popleft()
            self._is_first = not (node.hearing.is_cast or node.hearing.is_behind)
            node.heard(link, kind, frame, now_us)
            # Members get what follows from a frame before the trace tells of the next one.
            self._take_frames(node)
        if link in self._pipes and pipe.end.is_over:
            self._break(link, "the attachment has closed it", now_us)

    def _break(self, link: int, reason: str, now_us: int) -> None:
        """A connection is over."""
        if self._close(link, reason):
            assert self.node is not None
            self.node.broken(link, reason, now_us)

    def _close(self, link: int, reason: str) -> bool:
        """Hang up; whether there was a connection."""
        pipe = self._pipes.pop(link, None)
        if pipe is None:
            return False
        del self._links[pipe.end]
        pipe.flush()
        pipe.end.close()
        if self._fed_by == link:
            self._fed_by = None
            self.note(Event.DETACH, peer=self._names[link], reason=reason)
        return True

    def arrive(self, data: bytes) -> None:
        """A multicast has come."""
        if self.node is not None:
            self._happen(self._hear_cast, data)

    def _hear_cast(self, data: bytes, now_us: int) -> None:
        node = self.node
        if node is None:
            return
        self._note_cast(data, "")
        self._is_first = False
        node.cast(data, now_us)
        self._take_frames(node)

    # What the node leaves behind --------------------------------------------------------------------------

    def _carry_out(self, node: Driven) -> None:
        assert isinstance(node, EdgeNode)
        world = self._world
        dials, node.dials[:] = node.dials[:], []
        for dial in dials:
            end = world.connections.dial(self.number, world.number_of(dial.address))
            self._pipes[dial.link] = Pipe(end)
            self._links[end] = dial.link
            self._names[dial.link] = dial.address
        written, node.upstream[:] = node.upstream[:], []
        for link, frame in written:
            pipe = self._pipes.get(link)
            if pipe is not None:
                if frame[4] == frames.KIND_CONTROL:
                    self._note_go(link, frames.decode_from_client(frame))
                pipe.queue(frame)
        for link in list(self._pipes):
            pipe = self._pipes[link]
            if pipe.waiting_bytes:
                pipe.flush()
            if written or pipe.waiting_bytes != pipe.told_bytes:
                pipe.told_bytes = pipe.waiting_bytes
                node.waiting(link, pipe.waiting_bytes, self.clock_us)
        sent, node.casts[:] = node.casts[:], []
        for place, data in sent:
            self._note_cast(data, self.name)
            world.cast(self, place, data)
        hang_ups, node.hang_ups[:] = node.hang_ups[:], []
        for link in hang_ups:
            self._close(link, "given up")

    def _has_more(self, node: Driven) -> bool:
        assert isinstance(node, EdgeNode)
        return bool(node.dials or node.upstream or node.hang_ups or node.casts)

    # The feed, in the trace -------------------------------------------------------------------------------

    def _note_go(self, link: int, value: object) -> None:
        if isinstance(value, edges.Go):
            if self._fed_by not in (None, link):  # it hangs up there only after this
                assert self._fed_by is not None
                self.note(Event.DETACH, peer=self._names[self._fed_by], reason="given up")
            self._fed_by = link
            self._feed.asked(self._names[link], value)

    def _saw_feed(self, value: object) -> None:
        """The node reads a frame of the feed: members get what follows from earlier ones before the trace
        tells of it."""
        if isinstance(value, edges.Go):
            return  # it is noted when it is sent
        if not self._is_first and self.node is not None:
            self._take_frames(self.node)
        self._is_first = False
        self._feed.read(value)

    # Requests and repairs, in the trace -------------------------------------------------------------------

    def _note_cast(self, data: bytes, sender: str) -> None:
        """A request or repair is multicast, or has come, if there is no `sender`."""
        assert self.node is not None
        try:
            packet = self.node.open_cast(data)
        except BadPacket:  # of another cast
            return
        if isinstance(packet, casts.Request):
            event = Event.REQUEST
            numbers = [one for first, count in packet.ranges for one in range(first, first + count)]
        elif isinstance(packet, casts.Piece) and packet.is_repair:
            event, numbers = Event.REPAIR, [packet.number]
        else:
            return
        for number in numbers:
            self.note(event, peer=sender, place=number, reason=f"{packet.stream:x}")
