"""A daemon that sends what no daemon makes, under its own seal: its code is broken, or not its own any more.

Every packet of that kind that comes to a receiver who opens it stands in the trace, before what follows from
it. So the oracle knows whom a daemon may leave out, and whom it must.
"""

from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.core.effects import Datagram
from antiphon.core.node import Node
from antiphon.trace import Event
from antiphon.wire import packet
from antiphon.wire.packet import CHECK_BYTES, PacketKind

if TYPE_CHECKING:
    from antiphon.simulator.host import Host

BODY_MAX_BYTES = 200
_KIND_AT = 2
_COUNTER = slice(24, 32)
_ANY_SIZE = (PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.BEAT, PacketKind.PROPOSAL, 0x5A, 0xFF)
"""Kinds of which no body begins like that, and two that do not exist."""
_TOO_SHORT = (PacketKind.HELLO, PacketKind.ACK, PacketKind.NACK, PacketKind.CLOCK)
"""Kinds of which no body is so short. All others are read in some states of their receiver only."""
_FILLING = b"\xc1\xff"
"""The whole of a short body, or its beginning: neither MessagePack nor an item begins with its first byte."""


def nonsense(node: Node, receiver: int, random: Random) -> Datagram:
    """A packet for a neighbour with a head as it should be, and a body that can be none of its kind."""
    view = node.membership.standing.working_view
    kind = random.choice((*_ANY_SIZE, *_TOO_SHORT))
    start = packet.prefix(
        PacketKind.DATA,
        digest=node.config.digest,
        sender=node.me,
        receiver=receiver,
        incarnation=node.incarnation,
        view=0 if view is None else view.id,
        seal=node.datagrams.seal,
    )
    start = start[:_KIND_AT] + bytes((kind,)) + start[_KIND_AT + 1 :]
    head = packet.head(start, counter=node.datagrams.counter.take())
    more = random.randbytes(random.randrange(BODY_MAX_BYTES)) if kind in _ANY_SIZE else b""
    data = head + _FILLING + more + bytes(CHECK_BYTES)
    return Datagram(receiver, [data], len(data), len(data))


class _Sent(Struct, frozen=True):
    """One of these packets, on its way."""

    sender: "Host"
    incarnation: int


class Babble:
    """The packets of that kind in one world."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, _Sent] = {}

    def send(self, sender: "Host", receiver: int, random: Random) -> None:
        """A daemon sends one, if it runs, and packets are sealed."""
        node = sender.node
        if node is None or node.seal is None:
            return
        node.datagrams.append(nonsense(node, receiver, random))
        data = b"".join(node.datagrams[-1].buffers)
        self._under_way[data] = _Sent(sender, node.incarnation)
        sender.settle()

    def came(self, host: "Host", node: Node, data: memoryview, stride_bytes: int) -> None:
        """Packets are about to be read: the trace tells which of them are such, and will be opened."""
        for at in range(0, len(data), stride_bytes):
            self._came(host, node, bytes(data[at : at + stride_bytes]))

    def _came(self, host: "Host", node: Node, data: bytes) -> None:
        sent = self._under_way.pop(data, None)
        if sent is None or node.seal is None:
            return
        process = node.seal.introductions.processes.get(sent.sender.number)
        counter = int.from_bytes(data[_COUNTER], "big")
        if process is None or process.incarnation != sent.incarnation or not process.window.is_new(counter):
            return
        host.note(Event.NONSENSE, members=(sent.sender.name,), incarnations=(sent.incarnation,))

    def __bool__(self) -> bool:
        return bool(self._under_way)
