"""A daemon of the cluster whose way out is tapped: beside what it sends it sends mutants of that.

    python -m antiphon.lab.fuzz.tap CONFIG NAME FOLDER

The daemon itself is the usual one. Between it and its sockets its datagrams are copied, and the copies are
mutated: so mutants come from the right address, and belong to the view, the process and the numbers of now.
All daemons of the cluster are tapped, so that each of them gets mutants, and of every kind that it may get.
"""

import logging
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import FrameType

from msgspec import Struct, structs

from antiphon import config as configuration
from antiphon import limits
from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.streams.channel import Channel
from antiphon.lab.fuzz import packets
from antiphon.lab.fuzz.mutate import Mutant, Unencodable, mutate, mutate_bytes
from antiphon.lab.fuzz.orders import Board, MutantRate, Orders, Record, number_of, seed_of
from antiphon.lab.fuzz.packets import BREAKING, GREETING, Genuine
from antiphon.lab.fuzz.seals import Seals
from antiphon.runtime.daemon import Daemon
from antiphon.wire.packet import EVERYBODY, PacketKind, Pressure
from antiphon.wire.streams import Greeting

AT_ONCE = 64
KEPT_OLD = 64
"""Captures of the past that may come again."""
CALLERS_MAX = 32
"""Connections that were greeted by a mutant and are kept open."""
REPLAYS = 0.05
CONSISTENT = 0.5
AHEAD = 0.6
FRAMED_EACH = 100
"""Of a member's mutants for connections one in so many is sent: most end the connection."""
LEFT_OUT_US = 500_000
LEFT_OUT_MAX_US = 2_000_000
"""For how long daemons leave one another out here: all of them send nonsense all the time."""
UNSEALED = 0.02
"""The share of mutants without a valid check value, which must not be accepted as packets."""


class Captured(Struct, frozen=True):
    """A genuine packet, and the daemon that got it."""

    receiver: int
    genuine: Genuine


class Tap:
    """What has gone out of one daemon lately, and mutants of it."""

    def __init__(self, config: Config, number: int, board: Board, record: Record) -> None:
        self.board = board
        self.record = record
        self.pace = MutantRate(AT_ONCE)
        self.serial = 0
        self.made = 0
        self.sent = 0
        """Mutants sent for the orders with `serial`; not every mutant that is made can be sent."""
        self._count = config.daemon_count
        self._number = number
        self._latest: dict[str, dict[int, Captured]] = {kind: {} for kind in packets.UDP_KINDS}
        self._old: deque[Captured] = deque(maxlen=KEPT_OLD)
        self._view: dict[int, int] = {}
        """The view to which the newest packets for a daemon belong."""
        self._number_of: dict[int, int] = {}
        """The number of the newest data packet for a daemon."""

    def saw(self, datagram: Datagram) -> None:
        """A datagram goes out; of a train, its first packet is kept."""
        data = b"".join(datagram.buffers)[: datagram.stride_bytes]
        genuine = packets.take_apart(data, self._count)
        if genuine is None:
            return
        latest = self._latest[packets.kind_of(genuine)]
        for receiver in datagram.receivers or (datagram.receiver,):
            if receiver in latest:
                self._old.append(latest[receiver])
            latest[receiver] = Captured(receiver, genuine)
            if genuine.head.view:
                self._view[receiver] = genuine.head.view
            if genuine.head.kind == PacketKind.DATA:
                packets_in_it = -(-datagram.size_bytes // datagram.stride_bytes)
                self._number_of[receiver] = genuine.head.number + packets_in_it - 1
        self._make_rare(genuine)

    def _make_rare(self, genuine: Genuine) -> None:
        """Make by hand what daemons do not send here by themselves: probes, which are no business of the node
        and nothing but a head, pieces of packets that were too large, and word of slow sessions, of which
        there are none."""
        head = genuine.head
        if head.receiver == EVERYBODY:
            return
        if not self._latest["probe"]:
            for kind in (PacketKind.PROBE, PacketKind.PROBED):
                probe = Genuine(structs.replace(head, kind=int(kind), view=0, number=0), packets.Unread(b""))
                self._latest[kind.name.lower()][head.receiver] = Captured(head.receiver, probe)
        if head.receiver not in self._latest["piece"] and head.kind == PacketKind.DATA:
            piece = Genuine(
                structs.replace(head, kind=int(PacketKind.PIECE)), packets.Part(3_000, 0, b"x" * 1_136)
            )
            self._latest["piece"][head.receiver] = Captured(head.receiver, piece)
        if head.receiver not in self._latest["pressure"] and head.kind == PacketKind.DATA:
            item = Pressure(genuine.body[0].source, self._number, 1, ((1, "t0x1"), (2, "t1x1")))
            self._latest["pressure"][head.receiver] = Captured(head.receiver, Genuine(head, [item]))

    def mutants(self, orders: Orders, receivers: frozenset[int]) -> Iterator[tuple[int, int, Mutant]]:
        """As many as may be sent now for these orders: the number of each, who is to get it, and what."""
        captured = [one for one in self._latest[orders.kind].values() if one.receiver in receivers]
        if not captured:
            return
        pool = [one.genuine for one in captured] + [one.genuine for one in self._old]
        for number in self.numbers(orders):
            random = Random(seed_of(orders, number))
            receiver, mutant = self._mutant(random, random.choice(captured), pool)
            if random.random() >= UNSEALED:
                mutant = Mutant(packets.sealed(mutant.data), mutant.what)
            yield number, receiver, mutant

    def numbers(self, orders: Orders) -> Iterator[int]:
        """The numbers of as many mutants as may be sent now for these orders."""
        if orders.serial != self.serial:
            self.serial, self.made, self.sent = orders.serial, 0, 0
        for _ in range(min(self.pace.take(orders.rate_per_s, time.monotonic()), orders.most - self.sent)):
            yield number_of(orders, self.made, self._number, self.board.workers)
            self.made += 1
        self.board.tell(self._number, orders.serial, self.sent)
        self.record.flush()

    def note(self, orders: Orders, number: int, to: str, what: str, data: bytes) -> None:
        """This mutant is sent."""
        self.sent += 1
        self.record.note(orders, number, to, what, data)

    def _mutant(self, random: Random, of: Captured, pool: list[Genuine]) -> tuple[int, Mutant]:
        if self._old and random.random() < REPLAYS:
            again = random.choice(self._old)
            return of.receiver, Mutant(packets.put_together(again.genuine), "sent again")
        genuine = self._fresh(random, of)
        if random.random() < CONSISTENT:
            return of.receiver, mutate(random, packets.consistent(genuine), _consistent_bytes, pool)
        return of.receiver, mutate(random, genuine, packets.put_together, pool)

    def _fresh(self, random: Random, of: Captured) -> Genuine:
        """The capture as it could be sent now: of this view, and mostly with a number that has not come yet.

        Otherwise it would be refused for its age alone.
        """
        head = of.genuine.head
        if head.view:
            head = structs.replace(head, view=self._view.get(of.receiver, 0))
        if head.kind == PacketKind.DATA and random.random() < AHEAD:
            head = structs.replace(head, number=self._number_of.get(of.receiver, 0) + random.randint(1, 3))
        return structs.replace(of.genuine, head=head)


def _consistent_bytes(genuine: Genuine) -> bytes:
    return packets.put_together(packets.consistent(genuine))


class TappedDaemon(Daemon):
    """Sends what its node wants sent, and mutants."""

    def __init__(self, config: Config, name: str, folder: Path) -> None:
        super().__init__(config, name)
        number = config.daemon_number(name)
        board = Board(folder, config.daemon_count)
        self._board = board
        self._parent = os.getppid()
        self._tap = Tap(config, number, board, Record(folder / f"mutants-{name}.jsonl"))
        self._by_stream = frozenset(config.stream_peers_of(number))
        self._by_datagram = frozenset(config.neighbours_of(number)) - self._by_stream
        self._seals: Seals | None = None
        self._losses = Random(number)
        self._callers: deque[socket.socket] = deque()
        self._stream_places = {
            peer: configuration.address(daemon.stream_address)
            for peer, (_, daemon) in enumerate(config.daemons())
            if peer in self._by_stream
        }

    def _send(self, now: int) -> None:
        if os.getppid() != self._parent:  # the fuzzer was killed, and nothing of it may stay
            self.stop()
        orders = self._board.orders()
        datagrams = list(self._node.datagrams)
        if self._seals is None and self._node.seal is not None:
            self._seals = Seals(self._node, self._tap.saw)
        elif self._seals is None:
            for datagram in datagrams:
                self._tap.saw(datagram)
        if orders.loss:
            self._node.datagrams[:] = [one for one in datagrams if not self._is_lost(one, orders.loss)]
        super()._send(now)
        if not orders.kind:
            return
        if orders.door == "udp":
            self._send_datagrams(orders)
        elif orders.door == "tcp" and self._streams is not None:
            self._send_frames(orders)
        elif self._seals is not None and orders.door == "member":
            self._send_as_member(orders, self._seals)
        elif self._seals is not None and orders.door == "stranger":
            self._send_as_stranger(orders, self._seals)

    def _send_as_member(self, orders: Orders, seals: Seals) -> None:
        """Mutants under our own seal; a few of them over connections, which most of them end."""
        channels = {} if self._streams is None else self._channels()
        for number, receiver, mutant in self._tap.mutants(orders, self._by_datagram | channels.keys()):
            is_framed = receiver in channels
            if is_framed and number % FRAMED_EACH:
                continue
            data = seals.as_member(Random(seed_of(orders, -number)), receiver, mutant)
            self._tap.note(orders, number, self._config.daemon_names[receiver], mutant.what, mutant.data)
            if is_framed:
                channels[receiver].queue(packets.framed(data))
            elif data:
                self._udp.send(Datagram(receiver, [data], len(data), len(data)))

    def _send_as_stranger(self, orders: Orders, seals: Seals) -> None:
        """Mutants of sealed packets, to anybody; or of what opens a connection."""
        receivers = sorted(self._by_stream if orders.kind == GREETING else self._by_datagram)
        for number in self._tap.numbers(orders) if receivers else ():
            random = Random(seed_of(orders, number))
            receiver = random.choice(receivers)
            if orders.kind == GREETING:
                genuine = Greeting(self._config.digest, self._number, receiver, self._node.incarnation)
                mutant = seals.greeting(random, genuine)
                self._call(receiver, mutant.data)
            else:
                mutant = seals.as_stranger(random, orders.kind)
                size = len(mutant.data)
                if size:
                    self._udp.send(Datagram(receiver, [mutant.data], size, size))
            self._tap.note(orders, number, self._config.daemon_names[receiver], mutant.what, mutant.data)

    def _channels(self) -> dict[int, Channel]:
        """The connections to other daemons that are open."""
        assert self._streams is not None
        outputs = self._streams.exchange.outputs
        return {channel.peer: channel for channel in outputs if channel.peer in self._by_stream}

    def _is_lost(self, datagram: Datagram, loss: float) -> bool:
        return datagram.receiver not in self._by_stream and self._losses.random() < loss

    def _send_datagrams(self, orders: Orders) -> None:
        for number, receiver, mutant in self._tap.mutants(orders, self._by_datagram):
            self._tap.note(orders, number, self._config.daemon_names[receiver], mutant.what, mutant.data)
            if mutant.data:
                size = len(mutant.data)
                self._udp.send(Datagram(receiver, [mutant.data], size, size))

    # Connections ------------------------------------------------------------------------------------------

    def _send_frames(self, orders: Orders) -> None:
        assert self._streams is not None
        exchange = self._streams.exchange
        if orders.kind in (GREETING, BREAKING):
            self._break(orders)
            return
        channels = {channel.peer: channel for channel in exchange.outputs}
        open_ones = frozenset(peer for peer in self._by_stream if peer in channels)
        for number, receiver, mutant in self._tap.mutants(orders, open_ones):
            channel = channels[receiver]
            if not self._is_endured(mutant.data, receiver) or channel.waiting_bytes > OUTPUT_BYTES:
                continue  # of the kind BREAKING
            self._tap.note(orders, number, self._config.daemon_names[receiver], mutant.what, mutant.data)
            channel.queue(packets.framed(mutant.data))

    def _is_endured(self, data: bytes, receiver: int) -> bool:
        """Whether the connection would go on after such a frame."""
        genuine = packets.take_apart(data, self._config.daemon_count)
        return genuine is not None and genuine.head.sender == self._number

    def _break(self, orders: Orders) -> None:
        """Greet the other daemons as mutants do; or send what no connection endures over the genuine one."""
        assert self._streams is not None
        as_usual = structs.replace(orders, kind="beat")
        channels = {channel.peer: channel for channel in self._streams.exchange.outputs}
        for number, receiver, mutant in self._tap.mutants(as_usual, self._by_stream):
            random = Random(seed_of(orders, -number))
            if orders.kind == GREETING:
                data, what = self._greeting(random, receiver, mutant)
                self._call(receiver, data)
            elif receiver in channels:
                broken = mutate_bytes(random, packets.framed(mutant.data))
                data, what = broken.data, broken.what
                channel: Channel = channels[receiver]
                if channel.waiting_bytes <= OUTPUT_BYTES:
                    channel.queue(data)
            else:
                continue
            self._tap.note(orders, number, self._config.daemon_names[receiver], what, data)

    def _greeting(self, random: Random, receiver: int, behind: Mutant) -> tuple[bytes, str]:
        """A mutant of our own greeting, and something behind it."""
        genuine = Greeting(self._config.digest, self._number, receiver, self._node.incarnation)
        try:
            mutant = mutate(random, genuine, packets.greeting_bytes)
        except Unencodable:
            mutant = mutate_bytes(random, packets.greeting_bytes(genuine))
        return mutant.data + packets.framed(behind.data), mutant.what

    def _call(self, receiver: int, data: bytes) -> None:
        """Over a connection of its own, which is left open for a while."""
        caller = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        caller.setblocking(False)  # the daemon of this process has no time to wait
        with suppress(OSError):
            caller.connect_ex(self._stream_places[receiver])
            caller.send(data)
        self._callers.append(caller)
        if len(self._callers) > CALLERS_MAX:
            self._callers.popleft().close()


OUTPUT_BYTES = 128 * 1024
"""More than this is not put into a connection beside what is genuine."""


def main() -> None:
    """Run the daemon until SIGTERM."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    file, name, folder = sys.argv[1:]
    limits.EXCLUDED_US, limits.EXCLUDED_MAX_US = LEFT_OUT_US, LEFT_OUT_MAX_US
    running = TappedDaemon(configuration.parse(Path(file).read_text(), file), name, Path(folder))

    def stop(_number: int, _frame: FrameType | None) -> None:
        running.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    running.run()


if __name__ == "__main__":
    main()
