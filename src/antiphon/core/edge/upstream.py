"""The way to the core: which attachments are dialled, which one feeds, and what is kept ready beside it.

Addresses are tried in the order of preference. One that failed is left alone for a while, which doubles from
EDGE_DIAL_FIRST_US to EDGE_DIAL_MOST_US with each failure in a row; a connection that lasted ends the row.
Of two connections one feeds; the other stands by: its attachment keeps what the edge listens to, so that the
edge goes on there without a gap when the first one is lost. A connection on which nothing comes for three
beats is lost.

Edges may attach to one another, but never in a circle: each attachment tells by which edges it gets its
feed, anew whenever that changes, and who finds its own name there hangs up.

Follows: InterGroup 6 (RMRA): a receiver that has lost its way to the senders tells where it stopped.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon import limits
from antiphon.core.edge.connection import Connection, Stage
from antiphon.core.edge.hierarchy import Hierarchy
from antiphon.core.edge.organiser import Organiser
from antiphon.errors import BadFrame
from antiphon.wire import edges, frames

if TYPE_CHECKING:
    from antiphon.core.edge.node import EdgeNode

Buffer = bytes | bytearray | memoryview
_BEAT = frames.encode_control(edges.Beat())
_BEAT_MOST_US = 60_000_000


class Dial(Struct, frozen=True):
    """The driver is to connect to an address."""

    link: int
    place: int
    address: str


class Place(Struct):
    """One of the addresses."""

    address: str
    until_us: int
    """It is not dialled before this."""
    failures: int = 0
    """How often it has failed in a row."""
    reason: str = ""
    """Why it failed last."""


class Upstream:
    """The connections of one edge to its attachments."""

    def __init__(
        self, node: "EdgeNode", attachments: Sequence[str], now_us: int, hierarchy: Hierarchy | None = None
    ) -> None:
        """With a `hierarchy`, that decides where to attach; otherwise the order of the addresses."""
        self.main: Connection | None = None
        """The one that feeds this edge."""
        self.places = [Place(address, now_us) for address in attachments]
        self.lost_us: int | None = now_us
        """Since when nothing feeds this edge; None if something does."""
        self.losses = 0
        """How often the feeding connection was lost."""
        self.owner = self._node = node
        self._links: dict[int, Connection] = {}
        self._newest = 0
        self._looked_us = now_us
        self.organiser = None if hierarchy is None else Organiser(self, hierarchy)
        """Who moves this edge among the others, if it is not to stay where it was told."""

    def place_of(self, address: str) -> int:
        """The number of an address."""
        for number, place in enumerate(self.places):
            if place.address == address:
                return number
        self.places.append(Place(address, 0))
        return len(self.places) - 1

    @property
    def standby(self) -> Connection | None:
        """The one that stands by."""
        return next((one for one in self._links.values() if one.stage is Stage.STANDBY), None)

    @property
    def connections(self) -> list[Connection]:
        return list(self._links.values())

    # Events -----------------------------------------------------------------------------------------------

    def dialled(self, link: int, now_us: int) -> None:
        """The driver has connected."""
        connection = self._links.get(link)
        if connection is None or connection.stage is not Stage.DIALLING:
            return
        connection.enter(Stage.GREETING, now_us)
        node = self._node
        if connection.is_probe:
            connection.probed_us = now_us
            self.tell(connection, edges.Probe(), now_us)
            return
        is_standby = self.main is not None
        attach = edges.Attach(
            frames.PROTOCOL_VERSION, node.name, node.incarnation, is_standby, node.places,
            hears=bool(node.casts_at),
        )  # fmt: skip
        self.tell(connection, attach, now_us)

    def broken(self, link: int, reason: str, now_us: int) -> None:
        """The driver could not connect, or the connection is gone."""
        connection = self._links.get(link)
        if connection is not None:
            self._drop(connection, reason, now_us)

    def waiting(self, link: int, waiting_bytes: int) -> None:
        """So much output waits in the driver."""
        connection = self._links.get(link)
        if connection is not None:
            connection.waiting_bytes = waiting_bytes

    def heard(self, link: int, kind: int, frame: memoryview, now_us: int) -> None:
        """A frame came; whoever sends what is none is given up."""
        connection = self._links.get(link)
        if connection is None:
            return
        connection.heard_us = now_us
        try:
            self._take(connection, kind, frame, now_us)
        except BadFrame as error:
            self._node.counters["attachment: bad frame"] += 1
            self.hang_up(connection, f"bad frame: {error.reason}", now_us)

    def _take(self, connection: Connection, kind: int, frame: memoryview, now_us: int) -> None:
        node = self._node
        if kind == frames.FrameKind.BUNDLE:
            if connection is not self.main:
                raise BadFrame("bundle: from an attachment that does not feed")
            node.hearing.bundle(frame)
            return
        value = frames.decode_to_edge(frame)
        if isinstance(value, edges.Beat):
            return
        if isinstance(value, edges.Attached):
            self._greeted(connection, value, now_us)
        elif isinstance(value, frames.Refuse):
            if connection.stage is not Stage.GREETING:
                raise BadFrame("control frame: Refuse in a conversation")
            if self.organiser is not None:
                self.organiser.refused(connection, value, now_us)
            self.hang_up(connection, f"refused: {value.reason} ({value.code})", now_us)
        elif isinstance(value, frames.Goodbye):
            self.hang_up(connection, f"{value.reason} ({value.code})", now_us)
        elif isinstance(value, frames.Problem) and not (value.session or value.client):
            node.complaint = f"{value.reason} ({value.code})"
            node.counters["attachment: problem"] += 1
        elif isinstance(value, edges.Probed):
            if self.organiser is not None:
                self.organiser.probed(connection, value, now_us)
        elif connection is self.main:
            node.take(connection, value, frame)
        elif not isinstance(value, edges.Reached) or connection.stage is not Stage.STANDBY:
            raise BadFrame(f"control frame: {type(value).__name__} before Go")

    # Coming and going -------------------------------------------------------------------------------------

    def _greeted(self, connection: Connection, attached: edges.Attached, now_us: int) -> None:
        """The attachment has taken this edge, or gets its own feed by another way than before."""
        if not 0 < attached.beat_us <= _BEAT_MOST_US:
            raise BadFrame("attached: an impossible beat")
        if connection.stage is Stage.DIALLING:
            raise BadFrame("attached: before Attach")
        connection.attached = attached
        if self._node.name in (attached.name, *attached.path):
            self._node.counters["attachment: loop"] += 1
            self.hang_up(connection, f"loop: {attached.name} gets its feed through this edge", now_us)
            self.places[connection.place].until_us = now_us + limits.EDGE_DIAL_MOST_US
        elif connection is self.main:
            self._node.moved()
        elif connection.stage is Stage.GREETING:
            connection.enter(Stage.STANDBY, now_us)
            if self.main is None:
                self.go(connection, now_us)
            else:
                for group in self._node.members.wanted:
                    self.listen_at(connection, group)

    def go(self, connection: Connection, now_us: int) -> None:
        """Be fed by this attachment from now on."""
        node = self._node
        connection.enter(Stage.FEEDING, now_us)
        self.main = connection
        self.lost_us = None
        node.hearing.stop()
        self._ask_for_feed(connection)
        node.attached()

    def begin_anew(self, connection: Connection) -> None:
        """The attachment has stopped to feed this edge, which is to say where it goes on."""
        self._node.members.detached()
        self._node.behind.stopped()
        self._ask_for_feed(connection)

    def _ask_for_feed(self, connection: Connection) -> None:
        """Say what is listened to, and where to go on."""
        node, now_us = self._node, self._node.now_us
        for group in node.members.wanted:
            held = node.members.held(group)
            if held is not None or group not in connection.listened:
                self.listen_at(connection, group, held)
        node.feed.begin()
        # Also if no group flows: before its own place the edge hands nothing on, so no group may begin there.
        go = edges.Go(node.feed.position)
        if node.witness is not None:
            node.witness(go)
        self.tell(connection, go, now_us)

    def hang_up(self, connection: Connection, reason: str, now_us: int) -> None:
        """Give a connection up."""
        self._node.hang_ups.append(connection.link)
        self._drop(connection, reason, now_us)

    def _drop(self, connection: Connection, reason: str, now_us: int) -> None:
        del self._links[connection.link]
        is_main = connection is self.main
        if self.organiser is not None:
            self.organiser.dropped(connection, is_main, now_us)
        place = self.places[connection.place]
        if connection.is_probe:
            place.reason = "" if connection.is_answered else reason
            return
        if connection.is_greeted and now_us - connection.since_us >= limits.EDGE_DIAL_MOST_US:
            place.failures = 0
        wait_us = min(limits.EDGE_DIAL_FIRST_US << min(place.failures, 16), limits.EDGE_DIAL_MOST_US)
        place.failures += 1
        place.until_us, place.reason = now_us + wait_us, reason
        if is_main:
            self.main = None
            self.lost_us = now_us
            self.losses += 1
            self._node.hearing.stop()
            self._node.detached(reason)

    # What is to be done -----------------------------------------------------------------------------------

    def go_on(self, now_us: int) -> None:
        """Dial, give up, beat: whatever is due."""
        self._excuse_pause(now_us)
        for connection in self.connections:
            if connection.silent_at_us <= now_us:
                waited_us = now_us - (connection.heard_us if connection.is_greeted else connection.since_us)
                self.hang_up(connection, f"silent for {waited_us // 1_000} ms", now_us)
            elif connection.is_greeted and connection.said_us + connection.beat_us <= now_us:
                self.write(connection, _BEAT, now_us)
        if self.main is None and (standby := self.standby) is not None:
            self.go(standby, now_us)
        if self.organiser is not None:
            self.organiser.go_on(now_us)
            return
        place = self._next_place()
        if place is not None and self.places[place].until_us <= now_us:
            self.dial(place, now_us)

    def _excuse_pause(self, now_us: int) -> None:
        """While this process stood still it heard nothing, whoever spoke."""
        paused_us = now_us - self._looked_us
        self._looked_us = now_us
        for connection in self._links.values():
            if paused_us > 2 * connection.beat_us:  # a beat of ours was due before
                connection.heard_us = min(now_us, connection.heard_us + paused_us)
                if not connection.is_greeted:
                    connection.since_us = min(now_us, connection.since_us + paused_us)

    def dial(self, place: int, now_us: int, is_probe: bool = False) -> None:
        """Have the driver connect to an address."""
        self._newest += 1
        address = self.places[place].address
        self._links[self._newest] = Connection(self._newest, place, address, now_us, is_probe)
        self._node.dials.append(Dial(self._newest, place, address))

    def _next_place(self) -> int | None:
        """The address that is dialled next, which may still have to wait; None if all is well."""
        if any(connection is not self.main for connection in self._links.values()):
            return None
        taken = None if self.main is None else self.main.place
        free = [number for number in range(len(self.places)) if number != taken]
        waits = min((self.places[number].until_us for number in free), default=0)
        ready = [number for number in free if self.places[number].until_us <= max(waits, self._node.now_us)]
        return ready[0] if ready else None

    def next_deadline_us(self) -> int | None:
        """When something is due."""
        due = [connection.due_us for connection in self._links.values()]
        if self.organiser is not None:
            wanted_us = self.organiser.next_deadline_us()
            return min(due if wanted_us is None else [*due, wanted_us], default=None)
        place = self._next_place()
        if place is not None:
            due.append(self.places[place].until_us)
        return min(due, default=None)

    # Writing ----------------------------------------------------------------------------------------------

    def listen(self, group: str) -> None:
        """A group is wanted."""
        for connection in self._links.values():
            if connection.is_greeted:
                self.listen_at(connection, group)

    def listen_at(self, connection: Connection, group: str, held: edges.Held | None = None) -> None:
        connection.listen(group)
        self.tell(connection, edges.Listen(group, held), self._node.now_us)

    def unlisten(self, group: str) -> None:
        """A group is wanted no longer."""
        for connection in self._links.values():
            if group in connection.listened:
                connection.unlisten(group)
                self.tell(connection, edges.Unlisten(group), self._node.now_us)

    def tell(self, connection: Connection, value: edges.FromEdge, now_us: int) -> None:
        self.write(connection, frames.encode_control(value), now_us)

    def write(self, connection: Connection, frame: Buffer, now_us: int) -> None:
        """The driver is to write a frame."""
        connection.said_us = now_us
        connection.written_bytes += len(frame)
        self._node.upstream.append((connection.link, frame))
