"""Answers to questions about the daemon: made one after the other, in slices, next to the daemon's work.

The thread that orders messages makes them, so it works on them for `SLICE_US` at a time (and ends the step
that is under way), and then has at least `REST` times as long for everything else, however many clients ask.
A client has one answer under way: its next question, and whatever it sent behind that, is left until it has
read the answer to the one before. All answers that clients have not read yet take `UNREAD_MAX_BYTES`, or
others wait; a client that leaves its answer unread for `PATIENCE_US` meanwhile is cut off.
"""

from collections.abc import Callable, Sequence
from functools import partial
from weakref import ref

from msgspec import Struct

from antiphon.runtime.connection import Connection
from antiphon.runtime.loop import now_us
from antiphon.runtime.status import Steps
from antiphon.wire.frames import AskStatus, Status

SLICE_US = 2_000
REST = 3
UNREAD_MAX_BYTES = 8 * 1024 * 1024
PATIENCE_US = 5_000_000

Frames = Sequence[tuple[int, memoryview | bytearray]]


class Unread(Struct, frozen=True):
    """An answer that was made."""

    frame: "ref[memoryview]"
    """Its bytes, which live until the client's socket has taken them."""
    size: int
    since_us: int


class Answers:
    """The clients that have asked, the answers being made, and those not read yet."""

    def __init__(
        self,
        make: Callable[[AskStatus, int], Steps],
        limit: Callable[[Connection, Steps], Steps] = lambda _, steps: steps,
    ) -> None:
        """`make` begins an answer, and `limit` has it show no more than the client may see."""
        self._make = make
        self._limit = limit
        self._asked: dict[Connection, Steps] = {}
        """First come, first served."""
        self._unread: dict[Connection, Unread] = {}
        self._postponed: dict[Connection, Frames] = {}
        self._ready: dict[Connection, None] = {}
        """Clients of `_postponed` that have read their answer."""
        self._rests_until_us = 0
        self.unread_bytes = 0
        """Bytes of answers that were made and not read."""

    def __bool__(self) -> bool:
        """Whether an answer is to be made, or something that was postponed can go on."""
        return bool(self._asked or self._ready)

    @property
    def waiting(self) -> int:
        """How many clients wait for an answer."""
        return len(self._asked)

    # Questions --------------------------------------------------------------------------------------------

    def ask(self, connection: Connection, request: AskStatus, now: int) -> None:
        """Have a question answered. BadFrame if it is none."""
        assert not self.is_busy(connection)
        self._asked[connection] = self._limit(connection, self._make(request, now))

    def is_busy(self, connection: Connection) -> bool:
        """Whether an answer is under way to this client."""
        return connection in self._asked or connection in self._unread

    def postpone(self, connection: Connection, received: Frames) -> None:
        """Keep what a client has sent, from its next question on."""
        assert self.is_busy(connection)
        self._postponed[connection] = [(kind, bytearray(frame)) for kind, frame in received]

    def is_postponed(self, connection: Connection) -> bool:
        """Whether something that this client sent waits for its answer, so that no more is read."""
        return connection in self._postponed

    def forget(self, connection: Connection) -> None:
        """The client is not served any more."""
        self._asked.pop(connection, None)
        self._postponed.pop(connection, None)
        self._ready.pop(connection, None)
        answer = self._unread.pop(connection, None)
        if answer is not None:
            self.unread_bytes -= answer.size

    def ready(self) -> list[tuple[Connection, Frames]]:
        """Take what was postponed of those clients that have read their answer."""
        ready, self._ready = self._ready, {}
        return [(connection, self._postponed.pop(connection)) for connection in ready]

    # The daemon's turn ------------------------------------------------------------------------------------

    def next_deadline_us(self) -> int | None:
        """When there is something to do."""
        if self._ready:
            return 0
        if not self._asked:
            return None
        if self.unread_bytes < UNREAD_MAX_BYTES:
            return self._rests_until_us
        return min(answer.since_us for answer in self._unread.values()) + PATIENCE_US

    def work(
        self, now: int, say: Callable[[Connection, Status], memoryview], fail: Callable[[Connection], None]
    ) -> None:
        """Make answers for a slice of time. `say` has one written and returns the frame that waits; `fail`
        hears of clients whose answer cannot be made."""
        if not self._asked or now < self._rests_until_us:
            return
        while self._asked and self.unread_bytes < UNREAD_MAX_BYTES:
            connection, steps = next(iter(self._asked.items()))
            try:
                next(steps)
            except StopIteration as done:
                del self._asked[connection]
                frame = say(connection, Status(done.value))
                watched = ref(frame, partial(self._was_read, connection))
                self._unread[connection] = Unread(watched, len(frame), now)
                self.unread_bytes += len(frame)
                del frame
            except Exception:
                self.forget(connection)
                fail(connection)
            if now_us() >= now + SLICE_US:
                break
        self._rests_until_us = now_us() + REST * (now_us() - now)

    def stalled(self, now: int) -> list[Connection]:
        """Clients that have left their answers unread for too long, if others wait because of that."""
        if not self._asked or self.unread_bytes < UNREAD_MAX_BYTES:
            return []
        return [
            connection for connection, answer in self._unread.items() if answer.since_us + PATIENCE_US <= now
        ]

    def _was_read(self, connection: Connection, _frame: "ref[memoryview]") -> None:
        """The last byte of an answer is out."""
        self.unread_bytes -= self._unread.pop(connection).size
        if connection in self._postponed:
            self._ready[connection] = None
