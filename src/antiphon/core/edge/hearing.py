"""An edge's end of the cast of its coordinator: two roads of one feed, and pieces that are missing.

What comes over the connection and what comes by the cast is read in the order in which the attachment has fed
it: the connection tells where the feed goes over to the cast and where it comes back (`wire.edges`). Items of
groups to which this edge does not listen are passed over.

A piece is missing when a later one comes, or news, or the word on the connection that the feed has left the
cast. Then its number is asked for by multicast, after a time drawn from [C1 d, (C1 + C2) d]; whoever hears
another one's request for it first waits for twice as long as before. Any edge of the group repairs it
(`feeds.repairs`). After a few rounds without a repair the coordinator is asked over the connection, which
answers with the piece or has this edge begin anew where it stopped.

Follows: SRM, loss recovery, in the local group of InterGroup 4.
Deviations: C1 = 2, and C2 grows with the group, without SRM's measurements; one request asks for many pieces;
the last rounds go over the connection.
Checked by: tests/unit/test_edge_hearing.py, the scenario `rim`, the oracle's *edges* and *repairs*.
"""

from collections import Counter, deque
from math import isqrt
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon import limits
from antiphon.core.feeds.repairs import Draws, Repairs, distance
from antiphon.core.sealing.casts import CastSeal
from antiphon.core.sealing.keys import SECRET_BYTES
from antiphon.errors import BadFrame
from antiphon.service import UNRELIABLE
from antiphon.wire import bundle as bundles
from antiphon.wire import casts, edges, frames
from antiphon.wire.casts import News, Piece, Request

if TYPE_CHECKING:
    from antiphon.core.edge.connection import Connection
    from antiphon.core.edge.node import EdgeNode

REQUEST_FIRST = 2
"""C1."""
_PLACE_MAX_CHARACTERS = 64
_STREAM_MAX = (1 << 64) - 1


class Want(Struct):
    """A piece that is missing."""

    due_us: int
    """When it is asked for."""
    rounds: int = 0
    """How often it was asked for, by this edge or another one."""
    deaf_until_us: int = 0
    """Requests of others that come before this belong to a round that counts already."""


class _Queued(Struct, frozen=True):
    """A frame of the feed that came over the connection, and waits for pieces of the cast."""

    kind: int
    frame: bytes


_Step = _Queued | edges.OnCast | edges.OffCast


class Hearing:
    """Reads the feed of one edge from its two roads."""

    def __init__(self, node: "EdgeNode") -> None:
        self.place = ""
        """Where the coordinator multicasts; empty if that is not known."""
        self.stream = 0
        self.seal: CastSeal | None = None
        """Of the coordinator's cast."""
        self.is_cast = False
        """Whether the feed comes by the cast now."""
        self.counters: Counter[str] = Counter()
        self._node = node
        self._draws = Draws(f"{node.name} {node.incarnation} requests")
        self.repairs = Repairs(Draws(f"{node.name} {node.incarnation} repairs"))
        self._queue: deque[_Step] = deque()
        self._queue_bytes = 0
        self._next = 1  # the number of the piece that is read next
        self._known = 1  # the pieces before this one are here, read or missing
        self._newest = 1  # the pieces before this one are said to exist
        self._has_parted = False  # whether the cast has said that it ends for this edge
        self._parted_us = 0
        self._buffer = bytearray()  # the beginning of a frame
        self._lacking_bytes = 0  # so long is the buffer when it holds a frame
        self._missing: dict[int, Want] = {}
        self._due_us: int | None = None  # the earliest time of those
        self._answered_us = 0
        self._is_renewing = False  # nothing that comes is read until the attachment begins anew

    def stop(self) -> None:
        """Another attachment feeds this edge, or none."""
        self.place, self.stream, self.seal = "", 0, None
        self.repairs.clear()
        self._newest = 1
        self._forget()

    def _forget(self) -> None:
        """What is under way on both roads is not read any more."""
        self.is_cast = self._is_renewing = self._has_parted = False
        self._queue.clear()
        self._queue_bytes = self._lacking_bytes = 0
        self._buffer.clear()
        self._missing.clear()
        self._due_us = None

    # The connection ---------------------------------------------------------------------------------------

    def told(self, connection: "Connection", value: edges.OfCast) -> None:
        """The attachment says which road the feed takes."""
        if isinstance(value, edges.Cast):
            self._begin(value)
        elif not self.stream:
            raise BadFrame("cast: not announced")
        elif isinstance(value, edges.Anew):
            self.counters["anew"] += 1
            self._forget()
            self._node.links.begin_anew(connection)
        elif isinstance(value, edges.CastPiece):
            if not 0 < value.number <= limits.COUNTER_MAX or len(value.data) > limits.CAST_PACKET_BYTES:
                raise BadFrame("cast: an impossible piece")
            self._keep(value.number, value.data)
            self._go_on()
        elif not self._is_renewing:
            self._queue.append(value)
            self._go_on()

    def _begin(self, cast: edges.Cast) -> None:
        if not self._node.casts_at or not 0 < len(cast.place) <= _PLACE_MAX_CHARACTERS:
            raise BadFrame("cast: at no place for this edge")
        if not 0 < cast.stream <= _STREAM_MAX:
            raise BadFrame("cast: an impossible stream")
        if len(cast.key) != SECRET_BYTES:
            raise BadFrame("cast: an impossible key")
        if (self.place, self.stream) != (cast.place, cast.stream):
            if self.is_cast:
                raise BadFrame("cast: a second one")
            self.repairs.clear()
            self._newest = 1
            self.place, self.stream = cast.place, cast.stream
            self.seal = self._node.cast_sealing.seal(cast)

    def bundle(self, frame: memoryview) -> None:
        """Messages came over the connection."""
        if not self.is_cast and not self._queue and not self._is_renewing:
            self._node.feed.bundle(frame)
        elif bundles.parse_from_daemon(bytes(frame)).service is UNRELIABLE:
            self._node.feed.bundle(frame)  # in no order
        else:
            self._wait(_Queued(frames.FrameKind.BUNDLE, bytes(frame)))

    def take(self, connection: "Connection", value: frames.ToEdge, frame: memoryview) -> None:
        """A control frame of the feed came over the connection."""
        if not self.is_cast and not self._queue and not self._is_renewing:
            self._node.feed.take(connection, value)
        else:
            self._wait(_Queued(frames.FrameKind.CONTROL, bytes(frame)))

    def _wait(self, queued: _Queued) -> None:
        if self._is_renewing:
            return
        if not self._queue:
            raise BadFrame("feed: over the connection, while it goes by the cast")
        self._queue.append(queued)
        self._queue_bytes += len(queued.frame)
        if self._queue_bytes > limits.CAST_QUEUE_BYTES:
            self._renew("too much waits")

    # Reading ----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Read what can be read, in its order."""
        queue = self._queue
        while not self._is_renewing:
            if self.is_cast:
                step = queue[0] if queue else None
                if step is not None and not isinstance(step, edges.OffCast):
                    raise BadFrame("feed: over the connection, while it goes by the cast")
                self._read(None if step is None else step.until)
                if step is None or self._is_renewing:
                    return
                if self._next != step.until or self._buffer:
                    if not self._has_parted and self._next < step.until:
                        return
                    # What was read may have come from anywhere.
                    self._renew("left in the middle of something")
                    return
                self._leave()
                queue.popleft()
            elif not queue:
                return
            else:
                self._take_step(queue.popleft())

    def _take_step(self, step: _Step) -> None:
        connection = self._node.links.main
        assert connection is not None
        if isinstance(step, edges.OnCast):
            self._enter(step)
        elif isinstance(step, edges.OffCast):
            raise BadFrame("cast: left before it was entered")
        else:
            self._queue_bytes -= len(step.frame)
            if step.kind == frames.FrameKind.BUNDLE:
                self._node.feed.bundle(memoryview(step.frame))
            else:
                self._node.feed.take(connection, frames.decode_to_edge(step.frame))

    def _enter(self, step: edges.OnCast) -> None:
        if not 0 < step.first <= limits.COUNTER_MAX:
            raise BadFrame("cast: an impossible piece")
        self.repairs.distance_us = distance(step.distance_us)
        self.is_cast = True
        self._next = self._known = step.first
        self._notice(self._newest)

    def _leave(self) -> None:
        self.is_cast = self._has_parted = False
        self._missing.clear()
        self._due_us = None

    def _read(self, until: int | None) -> None:
        """Read pieces, up to one that is not here."""
        if until is not None:
            if not 0 < until <= limits.COUNTER_MAX:
                raise BadFrame("cast: left at an impossible piece")
            self._newest = max(self._newest, until)
        while not (self._is_renewing or self._has_parted) and (until is None or self._next < until):
            data = self.repairs.data(self._next)
            if data is None:
                if self._next < self._known and self._next not in self._missing:
                    self._want([self._next])  # it was here, and is forgotten
                break
            self._missing.pop(self._next, None)
            self._next += 1
            self._known = max(self._known, self._next)
            self._take_piece(data)
        if self._has_parted:
            until = self._next
        if until is not None:
            for number in [number for number in self._missing if number >= until]:
                del self._missing[number]
        self._notice(self._newest if until is None else until)

    def _take_piece(self, data: bytes) -> None:
        """Take the frames that end in a piece. What is broken came by multicast, from wherever."""
        self._buffer += data
        if len(self._buffer) < self._lacking_bytes:
            return
        whole = bytes(self._buffer)
        try:
            found, taken, self._lacking_bytes = frames.split(memoryview(whole))
            self._buffer = bytearray(whole[taken:])
            for kind, frame in found:
                if self._has_parted:
                    raise BadFrame("cast: something after a parting")
                self._take_frame(kind, frame)
        except BadFrame as error:
            self._renew(error.reason)

    def _take_frame(self, kind: int, frame: memoryview) -> None:
        node = self._node
        if kind == frames.FrameKind.BUNDLE:
            node.feed.bundle_of_cast(bytes(frame))
        else:
            connection, value = node.links.main, frames.decode_to_edge(frame)
            assert connection is not None
            if not isinstance(value, edges.Parting):
                node.feed.take_of_cast(connection, value)
            elif value.edge == node.name:
                self._has_parted, self._parted_us = True, node.now_us

    def _renew(self, reason: str) -> None:
        """What comes cannot be read: ask for all of it again."""
        self._forget()
        self._is_renewing = True
        self.counters["renewed"] += 1
        self._node.counters[f"cast: renewed: {reason}"[:80]] += 1
        self._tell(edges.Lack())

    def _tell(self, value: edges.FromEdge) -> None:
        links = self._node.links
        if links.main is not None:
            links.tell(links.main, value, self._node.now_us)

    @property
    def is_behind(self) -> bool:
        """Whether something of the feed waits here."""
        return bool(self._queue or self._missing or self._is_renewing)

    @property
    def waiting_bytes(self) -> int:
        """What came over the connection, and waits for pieces of the cast."""
        return self._queue_bytes

    # What comes by multicast ------------------------------------------------------------------------------

    def receive(self, packet: casts.Packet) -> None:
        """A packet of the coordinator's cast; BadFrame for what came over the connection and can be read
        now, and is none of a feed."""
        if isinstance(packet, Request):
            self._requested(packet)
        elif isinstance(packet, News):
            self.repairs.members = packet.members
            self._newest = max(self._newest, packet.next)
            if packet.asks and self._node.now_us - self._answered_us >= limits.CAST_PROBE_FIRST_US // 2:
                self._answered_us = self._node.now_us
                self._tell(edges.Heard(self.stream, packet.serial))
            if self.is_cast:
                self._go_on()
        else:
            self._came(packet)

    def _came(self, piece: Piece) -> None:
        number = piece.number
        if self.is_cast and number >= self._next + limits.CAST_AHEAD_PACKETS:
            self.counters["too far ahead"] += 1
            return
        self.counters["repairs heard" if piece.is_repair else "pieces"] += 1
        if number in self.repairs:
            self.counters["came twice"] += 1
        else:
            self._keep(number, piece.data)
        if piece.is_repair:
            self.repairs.repaired(number, self._node.now_us)
        self._newest = max(self._newest, number + 1)
        if self.is_cast:
            self._go_on()

    def _keep(self, number: int, data: bytes) -> None:
        if number not in self.repairs:
            self.repairs.keep(number, data, self._node.now_us)
        self._missing.pop(number, None)

    def _requested(self, request: Request) -> None:
        """Somebody else asks for pieces: whoever has them may repair them, who lacks them asks later."""
        now_us = self._node.now_us
        self.counters["requests heard"] += 1
        self.repairs.requested(request.ranges, request.distance_us, now_us)
        if self.is_cast:
            self._newest = max(self._newest, *(first + count for first, count in request.ranges))
            self._go_on()  # what somebody asks for exists
        if not self._missing:
            return
        waits_us: dict[int, int] = {}
        for first, count in request.ranges:
            for number in range(first, first + count):
                want = self._missing.get(number)
                if want is not None and want.rounds < limits.CAST_ROUNDS and now_us >= want.deaf_until_us:
                    self._back_off(want, waits_us)
                    want.deaf_until_us = now_us + (want.due_us - now_us) // 2
        self._look_at_due()

    # What is missing --------------------------------------------------------------------------------------

    def _notice(self, newest: int) -> None:
        """The pieces before this one exist."""
        if not self.is_cast:
            return
        newest = min(newest, self._next + limits.CAST_AHEAD_PACKETS)
        if newest > self._known:
            fresh = [number for number in range(self._known, newest) if number not in self.repairs]
            self._known = newest
            self._want(fresh)

    def _want(self, numbers: list[int]) -> None:
        """Pieces are missing from now on."""
        if not numbers:
            return
        due_us = self._node.now_us + self._wait_us(0)
        for number in numbers:
            self._missing[number] = Want(due_us)
        self.counters["missed"] += len(numbers)
        self._look_at_due()

    def _wait_us(self, rounds: int) -> int:
        last = max(REQUEST_FIRST, isqrt(self.repairs.members))
        away_us = distance(self.repairs.distance_us) << rounds
        return self._draws.between(REQUEST_FIRST * away_us, (REQUEST_FIRST + last) * away_us)

    def _back_off(self, want: Want, waits_us: dict[int, int]) -> None:
        """Ask for a piece in the next round. Those of one round are asked for together: `waits_us` has what
        was drawn for it."""
        want.rounds += 1
        wait_us = waits_us.get(want.rounds)
        if wait_us is None:
            wait_us = waits_us[want.rounds] = self._wait_us(want.rounds)
        want.due_us = self._node.now_us + wait_us

    def _look_at_due(self) -> None:
        self._due_us = min((want.due_us for want in self._missing.values()), default=None)

    # Time -------------------------------------------------------------------------------------------------

    def timeout(self, now_us: int) -> None:
        """Ask for what is missing, and repair what others miss."""
        if not self.stream:
            return
        for number, data in self.repairs.take_due(now_us):
            self._send(Piece(self.stream, number, data, is_repair=True))
        self.repairs.drop_old(now_us)
        if self._has_parted and self._parted_us + limits.CAST_ESCALATED_US <= now_us:
            self._renew("parted, and the connection does not say so")
        if self._due_us is not None and self._due_us <= now_us:
            due = sorted(number for number, want in self._missing.items() if want.due_us <= now_us)
            self._ask([number for number in due if self._missing[number].rounds < limits.CAST_ROUNDS])
            self._escalate([number for number in due if self._missing[number].rounds >= limits.CAST_ROUNDS])
            self._look_at_due()

    def _ask(self, due: list[int]) -> None:
        """Ask the local group; what does not fit waits."""
        ranges = casts.ranges_of(due)
        if not ranges:
            return
        asked = sum(count for _, count in ranges)
        waits_us: dict[int, int] = {}
        for place, number in enumerate(due):
            if place < asked:
                self._back_off(self._missing[number], waits_us)
            else:
                self._missing[number].due_us = self._node.now_us + distance(self.repairs.distance_us)
        self.counters["requests"] += 1
        self.counters["asked for"] += asked
        self._send(Request(self.stream, distance(self.repairs.distance_us), ranges))

    def _escalate(self, due: list[int]) -> None:
        """Ask the coordinator, over the connection."""
        ranges = casts.ranges_of(due)
        if not ranges:
            return
        asked = sum(count for _, count in ranges)
        for place, number in enumerate(due):
            wait_us = limits.CAST_ESCALATED_US if place < asked else distance(self.repairs.distance_us)
            self._missing[number].due_us = self._node.now_us + wait_us
        self.counters["escalated"] += asked
        self._tell(edges.Lack(ranges))

    def _send(self, packet: casts.Packet) -> None:
        if self.seal is not None:
            self._node.casts.append((self.place, self.seal.encode(packet)))

    def next_deadline_us(self) -> int | None:
        """When something is due."""
        parted_us = self._parted_us + limits.CAST_ESCALATED_US if self._has_parted else None
        due = (self._due_us, self.repairs.next_deadline_us(), parted_us)
        return min((one for one in due if one is not None), default=None)

    def figures(self) -> dict[str, object]:
        """What status shows."""
        return {
            "place": self.place,
            "feeds": self.is_cast,
            "missing": len(self._missing),
            "waiting_bytes": self.waiting_bytes,
            "kept_bytes": self.repairs.size_bytes,
            "repairs": self.repairs.sent,
            "repairs_spared": self.repairs.spared,
            **{name.replace(" ", "_"): count for name, count in sorted(self.counters.items())},
        }
