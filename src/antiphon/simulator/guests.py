"""The edges that are attached to one machine's process: what `runtime.clients` is to real ones.

What they send in the names of their clients is put into the trace where the core takes it: as sent by
sessions of the attachment, because receivers know the messages under these. The name of such a process tells
whom it serves: `#bob@e1#d1` is what daemon `d1` sends for the session `#bob#e1` at edge `e1`.
"""

import zlib
from typing import TYPE_CHECKING

from antiphon.core.node import Node
from antiphon.simulator.connections import End
from antiphon.simulator.pipes import Frame, Pipe
from antiphon.trace import Event, Identity, Record
from antiphon.trace.watcher import SERVICE_WORDS
from antiphon.types import private_name
from antiphon.wire import bundle, edges, frames

if TYPE_CHECKING:
    from antiphon.simulator.machine import Driven, Machine
    from antiphon.simulator.world import World


class Sponsored:
    """A session in whose name an edge sends."""

    def __init__(self, process: str, edge_process: str, sender: tuple[int, int, int]) -> None:
        self.process = process
        self.edge_process = edge_process
        self.sender = sender
        """Daemon, incarnation and number of the session."""
        self.sequence = 0


class Guest:
    """One connection of an edge."""

    def __init__(self, end: End) -> None:
        self.pipe = Pipe(end)
        self.number = 0
        """By which the node knows it; 0 before it is attached."""
        self.asked: dict[int, edges.Sponsor] = {}
        """By the edge's number for its client."""
        self.sponsored: dict[int, Sponsored] = {}
        self.low_bytes, self.high_bytes = -1, 0


class Guests:
    """All edges at one process, for one life of it."""

    def __init__(self, world: "World", machine: "Machine", node: "Driven") -> None:
        self._world = world
        self._machine = machine
        self._node = node
        self._guests: dict[End, Guest] = {}
        self._by_number: dict[int, Guest] = {}

    def is_from_edge(self, end: End) -> bool:
        """Whether an edge has called this end of a connection."""
        return end in self._guests or (end.is_called and end.far >= self._world.config.daemon_count)

    @property
    def has_output(self) -> bool:
        """Whether any edge has not got all that was written to it."""
        return any(guest.pipe.waiting_bytes for guest in self._guests.values())

    # Events, as they are called in `connections` ----------------------------------------------------------

    def happened(self, end: End, event: str, reason: str, now_us: int) -> None:
        """The kernel has news of a connection with an edge."""
        if event == "called":
            self._guests[end] = Guest(end)
            return
        guest = self._guests.get(end)
        if guest is None:
            return
        if event == "writable":
            guest.pipe.writable()
        elif event == "ended":
            self._lose(guest, now_us)
        elif not guest.number or self._node.reads(guest.number):
            self._read(guest, now_us)

    def _read(self, guest: Guest, now_us: int) -> None:
        pipe = guest.pipe
        pipe.read()
        self._handle(guest, now_us)
        if pipe.end.is_over and not pipe.unhandled and guest.pipe.end in self._guests:
            self._lose(guest, now_us)

    def _handle(self, guest: Guest, now_us: int) -> None:
        """What has come from an edge, as long as the node reads."""
        node, unhandled = self._node, guest.pipe.unhandled
        while unhandled and guest.pipe.end in self._guests:
            if guest.number and not node.reads(guest.number):
                return
            kind, frame = unhandled.popleft()
            if kind == bundle.FRAME_KIND_BUNDLE:
                self._note_sends(guest, frame)
                node.submit(guest.number, (bytearray(frame),), now_us)
                continue
            value = frames.decode_from_client(frame)
            if isinstance(value, edges.Attach):
                self._attach(guest, value, now_us)
                continue
            if isinstance(value, edges.Probe) and not guest.number:
                guest.pipe.queue(frames.encode_control(node.probe(value)))
                continue
            if isinstance(value, edges.Sponsor):
                guest.asked[value.client] = value
            elif isinstance(value, edges.Unsponsor):
                self._end_sponsored(guest, value.session, "disconnect")
            node.control(guest.number, value, now_us)

    def _attach(self, guest: Guest, request: edges.Attach, now_us: int) -> None:
        answer = self._node.attach(request, now_us)
        if isinstance(answer, frames.Refuse):
            guest.pipe.queue(frames.encode_control(answer))
            self._close(guest)
            return
        guest.number, attached = answer
        self._by_number[guest.number] = guest
        guest.pipe.queue(frames.encode_control(attached))

    def _lose(self, guest: Guest, now_us: int) -> None:
        """The connection is over."""
        number = guest.number
        self._close(guest)
        if number:
            self._node.lost(number, now_us)

    def _close(self, guest: Guest) -> None:
        """Write what can be written at once, and hang up."""
        for session in list(guest.sponsored):
            self._end_sponsored(guest, session, "broken")
        self._guests.pop(guest.pipe.end, None)
        self._by_number.pop(guest.number, None)
        guest.pipe.flush()
        guest.pipe.end.close()

    def crash(self, now_us: int) -> None:
        """The process is gone."""
        for guest in self._guests.values():
            for session in list(guest.sponsored):
                self._end_sponsored(guest, session, "crash")

    # What the node leaves behind --------------------------------------------------------------------------

    def write(self, number: int, frame: Frame) -> None:
        """The node has a frame for an edge, if this is the number of one."""
        guest = self._by_number.get(number)
        if guest is None:
            return
        if frame[4] == frames.KIND_CONTROL:
            value = frames.decode_to_edge(frame)
            if isinstance(value, edges.Sponsored):
                self._begin_sponsored(guest, value)
        guest.pipe.queue(frame)

    def dismiss(self, number: int, goodbye: frames.Goodbye) -> None:
        """The node has ended the conversation with an edge."""
        guest = self._by_number.get(number)
        if guest is not None:
            guest.pipe.queue(frames.encode_control(goodbye))
            self._close(guest)

    def go_on(self, now_us: int) -> None:
        """Read those again whom the node reads again, and write what the kernel takes."""
        for guest in list(self._guests.values()):
            has_come = guest.pipe.unhandled or guest.pipe.end.unread_bytes
            if has_come and (not guest.number or self._node.reads(guest.number)):
                self._read(guest, now_us)
            guest.pipe.flush()
            if guest.number in self._by_number:
                self._tell_backlog(guest, now_us)

    def _tell_backlog(self, guest: Guest, now_us: int) -> None:
        waiting_bytes = guest.pipe.waiting_bytes
        if guest.low_bytes < waiting_bytes <= guest.high_bytes:
            return
        band = self._node.backlog(guest.number, waiting_bytes, guest.pipe.taken_bytes, now_us)
        guest.low_bytes, guest.high_bytes = band.low_bytes, band.high_bytes

    # Whom the core sends for ------------------------------------------------------------------------------

    def _begin_sponsored(self, guest: Guest, value: edges.Sponsored) -> None:
        request = guest.asked.pop(value.client, None)
        if request is None or not isinstance(self._node, Node):
            return
        sender = (value.daemon, value.incarnation, value.session)
        name = private_name(f"{request.name}@{request.edge}", self._machine.name)
        process = self._world.bearers.born(name, sender)
        edge_process = private_name(request.name, request.edge)
        guest.sponsored[value.session] = Sponsored(process, edge_process, sender)
        self._machine.note(
            Event.CONNECT, process=process, peer=edge_process, incarnation=self._node.incarnation
        )

    def _end_sponsored(self, guest: Guest, session: int, cause: str) -> None:
        sponsored = guest.sponsored.pop(session, None)
        if sponsored is not None:
            self._machine.note(Event.DISCONNECT, process=sponsored.process, cause=cause)

    def _note_sends(self, guest: Guest, frame: memoryview) -> None:
        """Put messages into the trace at the moment at which a daemon of the core reads them."""
        header = bundle.parse(frame)
        sponsored = guest.sponsored.get(header.session)
        if sponsored is None:
            return
        groups = bundle.parse_names(header.names)[1:]
        records = self._world.records
        for message in bundle.decode(frame):
            sponsored.sequence += 1
            identity: Identity = (*sponsored.sender, sponsored.sequence)
            records.append(
                Record(
                    len(records), self._world.now_us, Event.SEND, self._machine.name, sponsored.process,
                    groups, (None,) * len(groups), identity,
                    service=SERVICE_WORDS[header.service], checksum=zlib.crc32(message.payload),
                    self_discard=bool(header.flags & bundle.Flag.SELF_DISCARD), peer=sponsored.edge_process,
                )
            )  # fmt: skip
