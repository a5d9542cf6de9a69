"""Who listens to a sealed cluster, and sends it what it heard, changed or not: no packet of theirs may count.

A stranger knows the configuration and everything that travels, and writes to every socket. What it may repeat
is only what has come to its receiver already, or was sent before that began its present life: the first
arrival of a genuine packet is no attack, whoever brings it.

Whoever counts one packet of a stranger, or lets a process be somebody because of one, has a breach, and the
trace says so. The same goes for whoever seals two packets with one nonce.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.core.node import Node
from antiphon.simulator.hostile import usurping
from antiphon.trace import Event, Record
from antiphon.wire.packet import EVERYBODY, HEAD_BYTES, SEAL_AT, PacketKind
from antiphon.wire.versions import kind_of

if TYPE_CHECKING:
    from antiphon.simulator.host import Host
    from antiphon.simulator.world import World

KEPT = 1_500
"""Packets that a stranger remembers; when there are more, new ones take the places of any."""
LEAVING = 16
_COUNTER = slice(24, 32)
_RECEIVER = slice(10, 12)
_BLOCK_BITS = 10
_MEMBERSHIP = (PacketKind.INTRODUCTION, PacketKind.BEAT, PacketKind.PROPOSAL)


class _Heard(Struct):
    """One packet that has come to its receiver, and counted."""

    sender: int
    receiver: int
    data: bytes
    at_us: int
    life: int
    """The incarnation of the receiver."""


class Nonces:
    """The counters that one process has used."""

    def __init__(self) -> None:
        self._used: dict[int, int] = {}

    def take(self, data: bytes, stride_bytes: int) -> bool:
        """Whether the packets of a datagram, which leaves now, have counters of their own."""
        is_new = True
        for at in range(0, len(data), stride_bytes):
            counter = int.from_bytes(data[at + _COUNTER.start : at + _COUNTER.stop], "big")
            block, bit = counter >> _BLOCK_BITS, 1 << (counter & (1 << _BLOCK_BITS) - 1)
            used = self._used.get(block, 0)
            is_new &= not used & bit
            self._used[block] = used | bit
        return is_new


class Strangers:
    """Those who listen to one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random: Random = world.chance("strangers")
        self._heard: list[_Heard] = []
        self._leaving: deque[_Heard] = deque(maxlen=LEAVING)
        """What is on its way, if nothing has become of it: a copy that was changed may overtake it."""
        self.sent = 0

    # Listening ----------------------------------------------------------------------------------------------

    def receive(self, host: "Host", node: Node, data: memoryview, stride_bytes: int, now_us: int) -> None:
        """Packets have come to a daemon that were sent to it; those that counted may be repeated."""
        assert node.seal is not None
        before = node.seal.opened
        node.receive(data, stride_bytes, now_us)
        packets = [bytes(data[at : at + stride_bytes]) for at in range(0, len(data), stride_bytes)]
        is_introduction = kind_of(data) == PacketKind.INTRODUCTION
        if node.seal.opened - before != len(packets) and not is_introduction:
            return
        for one in packets:
            sender = int.from_bytes(one[8:10], "big")
            self._remember(_Heard(sender, host.number, one, self._world.now_us, node.incarnation))

    def overhear(self, sender: int, receivers: tuple[int, ...], data: bytes, stride_bytes: int) -> None:
        """Packets leave a daemon."""
        at = self._random.randrange(0, len(data), stride_bytes)
        one = data[at : at + stride_bytes]
        self._leaving.append(_Heard(sender, self._random.choice(receivers), one, self._world.now_us, 0))

    def _remember(self, heard: _Heard) -> None:
        if len(self._heard) < KEPT:
            self._heard.append(heard)
        elif kind_of(heard.data) in _MEMBERSHIP or self._random.random() < 0.1:
            self._heard[self._random.randrange(KEPT)] = heard

    # Sending ------------------------------------------------------------------------------------------------

    def strike(self) -> None:
        """Send one packet to somebody."""
        if not self._heard:
            return
        heard = self._random.choice(self._heard)
        way = self._random.choice((self._repeat, self._repeat, self._misdirect, self._change, self._forge))
        way(heard)

    def _repeat(self, heard: _Heard) -> None:
        host = self._world.hosts[heard.receiver]
        if host.node is None or (heard.life != host.node.incarnation and heard.at_us >= host.started_us):
            return
        self._send(host, heard, heard.data, "it had come before")

    def _misdirect(self, heard: _Heard) -> None:
        hosts, config = self._world.hosts, self._world.config
        if heard.data[_RECEIVER] == EVERYBODY.to_bytes(2, "big"):  # of its sender's site
            inside = config.daemons_of(config.site_of(heard.sender))
            others = [host for host in hosts if host.number not in inside]
        else:
            others = [host for host in hosts if host.number != heard.receiver]
        if others:
            self._send(self._random.choice(others), heard, heard.data, "it was for another daemon")

    def _change(self, heard: _Heard) -> None:
        """One bit, anywhere, or half of the time in the head; of what came long ago, or is on its way."""
        if self._random.random() < 0.7:
            heard = self._random.choice(self._leaving)
        changed = bytearray(heard.data)
        bytes_of = HEAD_BYTES if self._random.random() < 0.5 else len(changed)
        bit = self._random.randrange(8 * bytes_of)
        changed[bit // 8] ^= 1 << bit % 8
        self._send(self._world.hosts[heard.receiver], heard, bytes(changed), "it was changed on its way")

    def _forge(self, heard: _Heard) -> None:
        """A plausible head, with a body that is none; or a packet that is not sealed."""
        host = self._world.hosts[heard.receiver]
        data = None
        if self._random.random() < 0.3 and isinstance(host.node, Node):
            data = usurping(host.node, heard.sender)
        if data is None:
            changed = bytearray(heard.data)
            later = int.from_bytes(changed[_COUNTER], "big") + self._random.randrange(1, 5_000)
            changed[_COUNTER] = later.to_bytes(8, "big")
            if self._random.random() < 0.5:
                changed[HEAD_BYTES:] = self._random.randbytes(len(changed) - HEAD_BYTES)
            data = bytes(changed)
        self._send(host, heard, data, "no daemon had made it")

    def _send(self, host: "Host", heard: _Heard, data: bytes, why: str) -> None:
        self.sent += 1
        path = self._world.network.paths.get((heard.sender, host.number))
        if path is not None:
            host.arrive(path, data, len(data), partial(self._received, host, why))

    def usurp(self, host: "Host", sender: int, data: bytes) -> None:
        """A packet that is not sealed takes the place of a neighbour's next one."""
        self._send(host, _Heard(sender, host.number, data, 0, 0), data, "it was not sealed")

    def _received(
        self, host: "Host", why: str, node: Node, data: memoryview, stride_bytes: int, now_us: int
    ) -> None:
        """A packet of a stranger has come to a daemon."""
        assert node.seal is not None
        processes = node.seal.introductions.processes
        before = node.seal.opened, dict(processes)
        node.receive(data, stride_bytes, now_us)
        if (node.seal.opened, processes) != before:
            self.note_breach(host, f"a packet counted although {why}")

    def note_breach(self, host: "Host", reason: str) -> None:
        """Put it into the trace."""
        records = self._world.records
        records.append(Record(len(records), self._world.now_us, Event.BREACH, host.name, reason=reason))


Receive = Callable[[Node, memoryview, int, int], None]
"""What reads packets for a node: given that, the bytes, the size of packets, and the time."""
assert SEAL_AT < HEAD_BYTES
