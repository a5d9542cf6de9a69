"""The cast of a coordinator: what several of the edges behind it want goes to all of them at once.

The frames of the feed are put one behind the other and cut into pieces, which count up; each time that
something is fed a new piece begins, so that an edge can begin to read there. Which edges hear multicasts is
found out by probes: news that ask for an answer over the edge's connection. Whoever has answered of late is
fed by the cast as long as it keeps up, and each of them gets all of it: an edge passes over what it does not
listen to.

Follows: SRM: repairs to all by whoever has a piece, session messages with the newest number; InterGroup 4:
the local group of a coordinator.
Deviations: acknowledgements to a probe go over the connections of the edges, one by each in two seconds.
Checked by: tests/unit/test_cast.py, the scenario `rim` and the oracle's *edges* and *repairs*.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from antiphon import limits
from antiphon.core.feeds.repairs import Draws, Repairs, distance
from antiphon.core.sealing.casts import CastSeal
from antiphon.wire import casts, edges, frames
from antiphon.wire.casts import News, Piece, Range, Request

Body = bytes | bytearray | memoryview
Part = tuple[int, int]
_BATCH_BYTES = 64 * 1024
"""What is put together before it is cut into pieces."""
_BARS_MAX = 4
"""So often the time doubles for which an edge is fed over its connection alone."""
_PROBES_KEPT = 8
"""Probes that may still be answered."""


class Listener(Struct):
    """An edge that can be told of multicasts."""

    heard_us: int | None = None
    """When it has answered a probe last."""
    distance_us: int = limits.CAST_DISTANCE_MAX_US
    lacked: int = 0
    """For how many pieces it has asked over its connection since then."""
    barred_us: int = 0
    """Until then it is fed over its connection alone."""
    bars: int = 0
    """How often that has come to pass."""


class Cast:
    """One node's multicasts to the edges that it feeds."""

    def __init__(
        self,
        told: edges.Cast,
        seal: CastSeal,
        draws: Draws,
        datagrams: list[tuple[str, bytes]],
        clock: Callable[[], int],
    ) -> None:
        """`told` is what edges are told of it. What is to be sent goes into `datagrams`, with the place.
        `clock` tells the time of the last event."""
        self.own = told
        self.place = told.place
        self.stream = told.stream
        self.seal = seal
        self.listeners: dict[int, Listener] = {}
        """By number of the edge."""
        self.able: frozenset[int] = frozenset()
        """Those that hear it."""
        self.counters: Counter[str] = Counter()
        self.repairs = Repairs(draws)
        self._datagrams = datagrams
        self._clock = clock
        self._next = 1
        self._pending = bytearray()
        self._told: Part | None = None
        self._reached: edges.Position | None = None
        self._reached_us = 0
        self._serial = 0
        self._probes: dict[int, int] = {}  # by serial number, when it was sent
        self._probe_us: int | None = None
        self._probe_wait_us = limits.CAST_PROBE_FIRST_US
        self._news_us: int | None = None
        self._news_wait_us = limits.CAST_NEWS_FIRST_US

    @property
    def now_us(self) -> int:
        """The time of the last event."""
        return self._clock()

    # The edges --------------------------------------------------------------------------------------------

    def join(self, number: int) -> edges.Cast:
        """An edge is fed here that can hear: what it is told."""
        self.listeners[number] = Listener()
        if len(self.listeners) >= limits.CAST_CHILDREN_MIN:
            self._probe_us, self._probe_wait_us = self.now_us, limits.CAST_PROBE_FIRST_US
        return self.own

    def lost(self, number: int) -> None:
        """An edge is gone."""
        if self.listeners.pop(number, None) is not None:
            self.able -= {number}
        if len(self.listeners) < limits.CAST_CHILDREN_MIN:
            self._probe_us = None

    def heard(self, number: int, answer: edges.Heard) -> bool:
        """An edge has heard a probe; whether it is fed by the cast from now on, and was not before."""
        listener, sent_us = self.listeners.get(number), self._probes.get(answer.serial)
        if listener is None or answer.stream != self.stream or sent_us is None:
            self.counters["cast: stray answer"] += 1
            return False
        listener.heard_us, listener.lacked = self.now_us, 0
        listener.distance_us = distance((self.now_us - sent_us) // 2)
        if number in self.able or listener.barred_us > self.now_us:
            return False
        self.able |= {number}
        return True

    def bar(self, number: int) -> None:
        """The cast does not do for an edge."""
        self.able -= {number}
        listener = self.listeners.get(number)
        if listener is not None:
            wait_us = limits.CAST_BARRED_US << min(listener.bars, _BARS_MAX)
            listener.barred_us, listener.bars = self.now_us + wait_us, listener.bars + 1

    def expired(self) -> list[int]:
        """The edges that have answered no probe for too long; they are fed over their connections."""
        horizon_us = self.now_us - limits.CAST_PROOF_US
        gone = [number for number in self.able if (self.listeners[number].heard_us or 0) < horizon_us]
        self.able = self.able.difference(gone)
        return sorted(gone)

    def enter(self, number: int) -> edges.OnCast:
        """The feed of an edge goes on in the cast: what it is told."""
        self._told = None  # it may not know in which daemon view the cast is
        return edges.OnCast(self._boundary(), self.listeners[number].distance_us)

    def leave(self, name: str) -> edges.OffCast:
        """The feed of an edge goes on over its connection: what it is told there."""
        self._append(frames.encode_control(edges.Parting(name)))
        return edges.OffCast(self._boundary())

    def lacks(self, number: int, ranges: tuple[Range, ...]) -> list[edges.CastPiece] | None:
        """The pieces for which an edge has asked; None if it has to begin anew."""
        listener = self.listeners.get(number)
        wanted = sum(max(1, count) for _, count in ranges)
        if listener is None or not ranges or listener.lacked + wanted > limits.CAST_LACKS_MAX:
            return None
        listener.lacked += wanted
        found = []
        for first, count in ranges:
            for one in range(first, first + count):
                data = self.repairs.data(one)
                if data is None:
                    return None
                found.append(edges.CastPiece(one, data))
        return found

    # The feed ---------------------------------------------------------------------------------------------

    def put(self, part: Part, frame: Body) -> None:
        """A frame of the feed, which belongs to this daemon view and branch."""
        if part != self._told:
            self._told = part
            self._append(frames.encode_control(edges.Part(*part)))
        self._append(frame)

    def reach(self, position: edges.Position) -> None:
        """There is nothing more up to a position; said now and then."""
        if position != self._reached and self.now_us - self._reached_us >= limits.EDGE_BEAT_US:
            self._reached, self._reached_us = position, self.now_us
            self._told = (position.view, position.branch)
            self._append(frames.encode_control(edges.Reached(position)))

    def _append(self, frame: Body) -> None:
        self._pending += frame
        if len(self._pending) >= _BATCH_BYTES:
            self.flush()

    def _boundary(self) -> int:
        """The number of the piece with which the next frame begins."""
        self.flush()
        return self._next

    def flush(self) -> None:
        """Multicast what was put."""
        if not self._pending:
            return
        whole, self._pending = bytes(self._pending), bytearray()
        for at in range(0, len(whole), limits.CAST_PACKET_BYTES):
            data = whole[at : at + limits.CAST_PACKET_BYTES]
            self._send(Piece(self.stream, self._next, data))
            self.repairs.keep(self._next, data, self.now_us)
            self._next += 1
            self.counters["cast: pieces"] += 1
        self._news_wait_us = limits.CAST_NEWS_FIRST_US
        self._news_us = self.now_us + self._news_wait_us

    def _send(self, packet: casts.Packet) -> None:
        self._datagrams.append((self.place, self.seal.encode(packet)))

    # What comes by multicast ------------------------------------------------------------------------------

    def receive(self, packet: casts.Packet) -> None:
        """Somebody of the local group has asked for a repair, or was the first to repair."""
        if isinstance(packet, Request):
            self.counters["cast: requests heard"] += 1
            self.repairs.members = len(self.able)
            self.repairs.requested(packet.ranges, packet.distance_us, self.now_us)
        elif isinstance(packet, Piece) and packet.is_repair:
            self.repairs.repaired(packet.number, self.now_us)

    # Time -------------------------------------------------------------------------------------------------

    def timeout(self) -> None:
        """Say what is due."""
        now_us = self.now_us
        self.repairs.drop_old(now_us)
        for number, data in self.repairs.take_due(now_us):
            self._send(Piece(self.stream, number, data, is_repair=True))
        if self._probe_us is not None and self._probe_us <= now_us:
            self._probe_us = now_us + self._probe_wait_us
            self._probe_wait_us = min(2 * self._probe_wait_us, limits.CAST_PROBE_US)
            self._tell_news(asks=True)
        elif self._news_us is not None and self._news_us <= now_us:
            self._news_wait_us *= 2
            is_last = self._news_wait_us >= limits.CAST_PROBE_US
            self._news_us = None if is_last else now_us + self._news_wait_us
            self._tell_news(asks=False)

    def _tell_news(self, asks: bool) -> None:
        if not asks and not self.able:
            return
        self._serial = self._serial % 0xFFFFFFFF + 1
        if asks:
            self._probes[self._serial] = self.now_us
            if len(self._probes) > _PROBES_KEPT:
                del self._probes[next(iter(self._probes))]
        self._send(News(self.stream, self._serial, self._next, min(len(self.able), 0xFFFF), asks))

    def next_deadline_us(self) -> int | None:
        """When something is due."""
        due: Iterable[int | None] = (self._probe_us, self._news_us, self.repairs.next_deadline_us())
        return min((one for one in due if one is not None), default=None)

    def figures(self) -> dict[str, int]:
        """What status shows."""
        return {
            "edges": len(self.able),
            "pieces": self.counters["cast: pieces"],
            "requests_heard": self.counters["cast: requests heard"],
            "repairs": self.repairs.sent,
            "repairs_spared": self.repairs.spared,
        }
