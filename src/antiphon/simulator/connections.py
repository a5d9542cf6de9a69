"""TCP in virtual time: connections over the same paths as packets, with what kernels do for both ends.

In order and reliable while it lasts: bytes travel in segments, which meet the faults of the path like any
packet and are sent again until they are acknowledged, ever more rarely. So losses, jitter and small bandwidth
become delays, and a cut stalls a connection. One that gets no acknowledgement for long breaks at the end that
waits for it. The other end finds out when it says something itself.

A process that ends a connection, or crashes, leaves the rest to its kernel, which either sends what it still
has and then tells the other end, or resets the connection, and with it whatever is under way; that word may
be lost, and is then repeated only when something comes in for the connection.
"""

from collections import Counter, deque
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from antiphon.simulator.world import World

SEGMENT_BYTES = 8 * 1024
"""Real ones are smaller and many more."""
CONTROL_BYTES = 40
"""The size of a segment without data."""
SEND_BUFFER_BYTES = 64 * 1024
RECEIVE_BUFFER_BYTES = 256 * 1024
WINDOW_START_BYTES = 10 * SEGMENT_BYTES
DIAL_RETRY_US = 1_000_000
PROBE_MIN_US = 10_000
RETRY_MIN_US = 200_000
RETRY_MAX_US = 2_000_000
"""The first repetition comes after two round trips, the next ones after these times, doubled with each, or at
once where something that was sent much later has come: as kernels do today."""
GIVE_UP_SUSPICIONS = 2
GIVE_UP_MIN_US = 2_000_000
RESETS = 0.5
"""How many of the connections that a process ends are reset."""


class _Segment(Struct):
    """Bytes on their way; none at the end of the connection."""

    data: bytes
    sent_us: int
    attempts: int = 0
    again_us: int = 0
    """When it was last sent."""


class End:
    """One end of a connection: what the kernel of one machine knows of it."""

    def __init__(self, connections: "Connections", place: int, far: int) -> None:
        self.place = place
        """The number of its machine."""
        self.far = far
        """The number of the other machine."""
        self.is_called = False
        """Whether the other machine has called this one."""
        self.remote: End | None = None
        self.is_established = False
        self.is_over = False
        """Whether the other side has nothing more to say."""
        self.unread_bytes = 0
        self._connections = connections
        self._is_closed = False  # by its process
        self._is_dead = False  # the kernel has forgotten it
        # Sending
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._is_full = False
        self._flying: dict[int, _Segment] = {}
        self._flying_bytes = 0
        self._next = 0
        self._window_bytes = WINDOW_START_BYTES
        self._round_trip_us = PROBE_MIN_US
        # Receiving
        self._unread: list[bytes] = []
        self._expected = 0
        self._early: dict[int, bytes] = {}
        connections.ends[place].setdefault(self)

    # The process ------------------------------------------------------------------------------------------

    def write(self, buffers: list[bytes | memoryview]) -> int:
        """How many bytes the kernel takes."""
        if self._is_dead or self._is_closed:
            return 0
        data = b"".join(buffers)[: max(0, SEND_BUFFER_BYTES - self._unsent_bytes)]
        for at in range(0, len(data), SEGMENT_BYTES):
            self._unsent.append(data[at : at + SEGMENT_BYTES])
        self._unsent_bytes += len(data)
        self._is_full = self._unsent_bytes >= SEND_BUFFER_BYTES
        self._push()
        return len(data)

    def read(self) -> bytes:
        """All that has come."""
        data = b"".join(self._unread)
        self._unread.clear()
        self.unread_bytes = 0
        if self.remote is not None and data:
            self._connections.control(self, self.remote._push)
        return data

    def close(self) -> None:
        """The process has no use for it any more, or is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        self._connections.ends[self.place].pop(self, None)
        if self._is_dead:
            return
        if self.unread_bytes or not self.is_established or self._connections.random.random() < RESETS:
            self._die()
            if self.remote is not None:
                self._connections.control(self, self.remote._reset)
        else:
            self._unsent.append(b"")
            self._push()

    # Calling ----------------------------------------------------------------------------------------------

    def call(self, attempt: int = 0) -> None:
        """Ask the other machine, until it answers or the process has lost patience."""
        if self._is_closed or self.is_established:
            return
        self._connections.control(self, self._called)
        self._connections.after(DIAL_RETRY_US << attempt, self.call, attempt + 1)

    def _called(self) -> None:
        """The word has come to the other machine."""
        connections = self._connections
        if self.remote is None:
            if not connections.is_listening(self.far):
                connections.answer(self, self._reset, "connection refused")
                return
            self.remote = End(connections, self.far, self.place)
            self.remote.remote = self
            self.remote.is_called = self.remote.is_established = True
            connections.tell(self.remote, "called")
        connections.answer(self, self._establish)

    def _establish(self) -> None:
        if self._is_closed:
            assert self.remote is not None
            self._connections.control(self, self.remote._reset)
        elif not self.is_established:
            self.is_established = True
            self._connections.tell(self, "connected")

    # Sending ----------------------------------------------------------------------------------------------

    def _push(self) -> None:
        """Send what the network and the other end have room for."""
        remote = self.remote
        if self._is_dead or remote is None:
            return
        while self._unsent:
            data = self._unsent[0]
            ahead_bytes = self._flying_bytes + len(data)
            if self._flying and (
                ahead_bytes > self._window_bytes or ahead_bytes + remote.unread_bytes > RECEIVE_BUFFER_BYTES
            ):
                break
            if not self._flying and data and remote.unread_bytes >= RECEIVE_BUFFER_BYTES:
                break
            self._unsent.popleft()
            self._unsent_bytes -= len(data)
            self._flying[self._next] = _Segment(data, self._connections.now_us)
            self._flying_bytes += len(data)
            self._transmit(self._next)
            self._next += 1
        if self._is_full and self._unsent_bytes <= SEND_BUFFER_BYTES // 2:
            self._is_full = False
            # As an event of its own: the process may be about to write.
            self._connections.after(0, self._connections.tell, self, "writable")

    def _transmit(self, number: int) -> None:
        segment = self._flying[number]
        segment.attempts += 1
        if segment.attempts > 1:
            self._connections.repairs[self.place] += 1
        segment.again_us = self._connections.now_us
        remote = self.remote
        assert remote is not None
        self._connections.carry(self, segment.data, remote._arrive, number, segment.data)
        wait_us = PROBE_MIN_US + 2 * self._round_trip_us
        if segment.attempts > 1:
            wait_us = (RETRY_MIN_US + self._round_trip_us) << min(segment.attempts - 2, 8)
        self._connections.after(min(wait_us, RETRY_MAX_US), self._retry, number, segment.attempts)

    def _retry(self, number: int, attempts: int) -> None:
        segment = self._flying.get(number)
        if segment is None or segment.attempts != attempts or self._is_dead:
            return
        if self._connections.now_us - segment.sent_us > self._connections.give_up_us:
            self._break("no acknowledgement")
            return
        self._window_bytes = max(SEGMENT_BYTES, self._window_bytes // 2)
        self._transmit(number)

    def _acknowledged(self, expected: int) -> None:
        if self._is_dead:
            return
        for number in [number for number in self._flying if number < expected]:
            segment = self._flying.pop(number)
            self._flying_bytes -= len(segment.data)
            self._window_bytes = min(RECEIVE_BUFFER_BYTES, self._window_bytes + len(segment.data))
            if segment.attempts == 1:
                took_us = self._connections.now_us - segment.sent_us
                self._round_trip_us += (took_us - self._round_trip_us) // 4
        missing = self._flying.get(expected)
        if (
            missing is not None
            and expected + 1 in self._flying
            and self._connections.now_us - missing.again_us > 2 * self._round_trip_us
        ):
            self._retry(expected, missing.attempts)
        self._push()
        if self._is_closed and not self._flying and not self._unsent:
            self._die()

    # Receiving --------------------------------------------------------------------------------------------

    def _arrive(self, number: int, data: bytes) -> None:
        remote = self.remote
        assert remote is not None
        if self._is_dead or (self._is_closed and data):
            self._die()
            self._connections.control(self, remote._reset)
            return
        is_new = False
        if number >= self._expected:
            self._early[number] = data
        while self._expected in self._early:
            came = self._early.pop(self._expected)
            self._expected += 1
            is_new = True
            if came:
                self._unread.append(came)
                self.unread_bytes += len(came)
            else:
                self.is_over = True
        self._connections.control(self, remote._acknowledged, self._expected)
        if is_new and not self._is_closed:
            self._connections.tell(self, "readable")

    def _reset(self, reason: str = "connection reset by peer") -> None:
        if not self._is_dead:
            self._break(reason)

    def cut_off(self, is_told: bool) -> None:
        """Something on the way has had enough of this connection."""
        remote = self.remote
        if self.is_established and remote is not None:
            self._reset()
            if is_told:
                remote._reset()

    def _break(self, reason: str) -> None:
        self._die()
        if not self._is_closed:
            self._connections.tell(self, "ended", reason)

    def _die(self) -> None:
        self._is_dead = True
        self._unsent.clear()
        self._flying.clear()
        self._early.clear()


class Connections:
    """All connections of a world."""

    def __init__(self, world: "World", random: Random) -> None:
        self.random = random
        self.give_up_us = max(GIVE_UP_MIN_US, GIVE_UP_SUSPICIONS * world.config.settings.timing().suspect_us)
        self._world = world
        self.ends: list[dict[End, None]] = [{} for _ in range(world.places)]
        """Those that the process of each machine has, or is about to have."""
        self.repairs: Counter[int] = Counter()
        """How many segments each machine has sent again."""

    def dial(self, place: int, far: int) -> End:
        """A process calls another machine."""
        end = End(self, place, far)
        end.call()
        return end

    def crash(self, place: int) -> None:
        """The process of a machine is gone."""
        for end in list(self.ends[place]):
            end.close()

    def hang_up(self, one: int, other: int, is_told: bool) -> None:
        """The connections between two machines break; the second is told at once, or when it speaks."""
        for end in list(self.ends[one]):
            if end.far == other:
                end.cut_off(is_told)

    # What ends need ---------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        return self._world.now_us

    def is_listening(self, place: int) -> bool:
        return self._world.machines[place].node is not None

    def tell(self, end: End, event: str, reason: str = "") -> None:
        """Something has happened that the process should know."""
        self._world.machines[end.place].hear(end, event, reason)

    def after(self, wait_us: int, action: object, *arguments: object) -> None:
        self._world.schedule(self._world.now_us + wait_us, action, *arguments)  # type: ignore[arg-type]

    def carry(self, end: End, data: bytes, action: object, *arguments: object) -> None:
        """Do something at the far end when a segment comes there, if it does."""
        self._carry(end.place, end.far, data or bytes(CONTROL_BYTES), action, arguments)

    def control(self, end: End, action: object, *arguments: object) -> None:
        """Do something at the far end when a segment without data comes there."""
        self._carry(end.place, end.far, bytes(CONTROL_BYTES), action, arguments)

    def answer(self, end: End, action: object, *arguments: object) -> None:
        """As `carry`, in the other direction, for an end that has no other end yet."""
        self._carry(end.far, end.place, bytes(CONTROL_BYTES), action, arguments)

    def _carry(
        self, place: int, far: int, data: bytes, action: object, arguments: tuple[object, ...]
    ) -> None:
        for time_us, _, _ in self._world.network.carry((place, far), data, len(data), self._world.now_us)[:1]:
            self._world.schedule(time_us, action, *arguments)  # type: ignore[arg-type]
