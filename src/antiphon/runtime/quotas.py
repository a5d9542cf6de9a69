"""Bounds on memory for all clients of a daemon together.

Input: what was read from clients and is not ordered yet (`cluster.input_total_bytes`): beginnings of frames,
and bundles that wait for their turn. Before it is reached, reading stops:

- a session that has something waiting is read while no more than `ORDINARY` of the budget is in use; the rest
  is for sessions that have nothing waiting, so that many who send a lot do not shut out one who sends little
- a frame of more than `LARGE_BYTES` is read on only once there is room for all of it: large frames have at
  most half of the budget, and those that wait for room get it in the order of asking
- while others wait, a connection that has room and does not bring `PROGRESS_BYTES` more of its frame, or its
  end, within `cluster.frame_patience_ms` is cut off, so that an unfinished frame does not block others for
  long

Output: frames that wait for clients (`cluster.output_total_bytes`), each counted once however many clients
wait for it. Beyond it those for whom most waits are cut off until an eighth of the budget is free again.
"""

from collections.abc import Iterable, Iterator
from weakref import ref

from antiphon.runtime.connection import Buffer, Connection
from antiphon.runtime.serving import ServedSessions

LARGE_BYTES = 64 * 1024
"""Larger than any bundle of several messages."""
PENDING_BYTES = 800
"""What a bundle that waits takes besides its bytes."""
ORDINARY = 3 / 4
PROGRESS_BYTES = 1024 * 1024


class Output:
    """Counts the frames that wait, by watching how long they live."""

    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self.most_bytes = most_bytes
        self._watched: dict[int, _Watched] = {}
        self._lent: list[memoryview] = []  # given out since the last `count`

    def lend(self, frame: Buffer) -> memoryview:
        """A frame for any number of clients that are written to in this turn. To watch it costs more than to
        write it, so that is left to `count`: most frames are out by then."""
        view = memoryview(frame)
        self._lent.append(view)
        return view

    def count(self, written: Iterable[Connection]) -> None:
        """The clients that got frames were written to: count what has to wait."""
        if self._lent:
            if any(connection.waiting_bytes for connection in written):
                for view in self._lent:
                    self._watch(view)
            self._lent.clear()

    def share(self, frame: Buffer) -> memoryview:
        """A frame for any number of clients: counted until the last of them has taken it."""
        view = memoryview(frame)
        self._watch(view)
        return view

    def _watch(self, view: memoryview) -> None:
        watched = _Watched(view, self._gone)
        watched.size = len(view)
        self._watched[id(watched)] = watched
        self.bytes += watched.size

    def _gone(self, watched: "_Watched") -> None:
        del self._watched[id(watched)]
        self.bytes -= watched.size

    @property
    def is_over(self) -> bool:
        """Whether some clients must go."""
        return self.bytes > self.most_bytes

    def heaviest(self, connections: list[Connection]) -> Iterator[Connection]:
        """The connections with the most waiting bytes, one after the other until enough have gone."""
        connections.sort(key=lambda connection: connection.waiting_bytes, reverse=True)
        for connection in connections:
            if self.bytes <= self.most_bytes - self.most_bytes // 8 or not connection.waiting_bytes:
                return
            yield connection


class _Watched(ref):  # type: ignore[type-arg]
    """A reference that knows the size of what it refers to."""

    __slots__ = ("size",)
    size: int


class Input:
    """Who may be read, and who has a frame under way."""

    def __init__(self, sessions: ServedSessions, most_bytes: int, patience_us: int) -> None:
        self.most_bytes = most_bytes
        self.partial_bytes = 0
        """Bytes of frames that have begun to come in, with the room that is reserved for the rest of them."""
        self.large_bytes = 0
        """The part of `partial_bytes` that is for large frames."""
        self._sessions = sessions
        self._patience_us = patience_us
        self._charged: dict[Connection, int] = {}
        self._large: dict[Connection, tuple[int, int]] = {}
        """Connections that have room for a large frame: what had come of it when, the least recent first."""
        self._waiting: dict[Connection, None] = {}
        """Connections that wait for room for a large frame, in the order of asking."""
        self._full_since_us: int | None = None
        """Since when there is no room for ordinary frames."""
        self._unfinished: dict[Connection, None] = {}
        """Connections that have finished no frame since then."""

    @property
    def used_bytes(self) -> int:
        """Bytes in use by all clients together."""
        sessions = self._sessions
        return self.partial_bytes + sessions.input_bytes + PENDING_BYTES * sessions.waiting

    def __bool__(self) -> bool:
        """Whether a client waits for room."""
        return self._full_since_us is not None or bool(self._waiting)

    @property
    def waiting(self) -> int:
        """How many clients wait for room for a large frame."""
        return len(self._waiting)

    # Reading ----------------------------------------------------------------------------------------------

    def room(self, connection: Connection, wanted_bytes: int, now: int) -> int:
        """How much of a session may be read now, at most `wanted_bytes`; 0: it is to wait.

        One whose small frame has begun to come in may always go on with that: there is room for it.
        """
        needed_bytes = connection.needed_bytes
        if needed_bytes > LARGE_BYTES:
            return wanted_bytes if self._reserve(connection, needed_bytes, now) else 0
        session = self._sessions.get(connection.session)
        has_nothing = session is None or not session.input
        most_bytes = self.most_bytes if has_nothing else int(self.most_bytes * ORDINARY)
        left_bytes = most_bytes - self.used_bytes
        if left_bytes > 0:
            if has_nothing:
                self._full_since_us = None
            return min(wanted_bytes, left_bytes)
        if self._full_since_us is None:
            self._full_since_us = now
            self._unfinished = {one: None for one in self._charged if one not in self._large}
        return 1 if connection.partial_bytes else 0

    def _reserve(self, connection: Connection, needed_bytes: int, now: int) -> bool:
        if connection in self._large:
            return True
        charged = self._charged.get(connection, 0)
        if next(iter(self._waiting), connection) is connection and (
            self.large_bytes + needed_bytes <= self.most_bytes // 2
            and self.used_bytes + needed_bytes - charged <= self.most_bytes
        ):
            self._waiting.pop(connection, None)
            self._large[connection] = (connection.partial_bytes, now)
            self.large_bytes += needed_bytes
            self._charge(connection, needed_bytes)
            return True
        self._waiting[connection] = None
        return False

    def was_read(self, connection: Connection, is_whole: bool, now: int) -> None:
        """Something of this client was read: a whole frame, or part of one."""
        kept_bytes = connection.partial_bytes
        had = self._large.get(connection)
        if had is not None and is_whole:
            self.release(connection)
            had = None
        if had is None:
            if kept_bytes and connection.needed_bytes <= LARGE_BYTES:
                kept_bytes = max(kept_bytes, connection.needed_bytes)
            if kept_bytes or connection in self._charged:
                self._charge(connection, kept_bytes)
        elif kept_bytes >= had[0] + PROGRESS_BYTES:
            del self._large[connection]  # to the end of the row
            self._large[connection] = (kept_bytes, now)
        if is_whole and self._unfinished:
            self._unfinished.pop(connection, None)

    def _charge(self, connection: Connection, count: int) -> None:
        self.partial_bytes += count - self._charged.pop(connection, 0)
        if count:
            self._charged[connection] = count

    def release(self, connection: Connection) -> None:
        """Nothing is kept of this client any more."""
        self._waiting.pop(connection, None)
        self._unfinished.pop(connection, None)
        if self._large.pop(connection, None) is not None:
            self.large_bytes -= self._charged[connection]
        self._charge(connection, 0)

    # Patience ---------------------------------------------------------------------------------------------

    def stalled(self, now: int) -> list[Connection]:
        """Connections that have room and make no use of it while others wait."""
        found: list[Connection] = []
        if self._waiting:
            found += [
                one for one, (_, since_us) in self._large.items() if since_us + self._patience_us <= now
            ]
        if self._full_since_us is not None and self._full_since_us + self._patience_us <= now:
            found += [one for one in self._unfinished if not one.is_paused]
            self._full_since_us = None  # until a connection waits again
        return found

    def next_deadline_us(self) -> int | None:
        """When the next client may have stalled."""
        since_us = [self._full_since_us] if self._full_since_us is not None else []
        if self._waiting and self._large:
            since_us.append(next(iter(self._large.values()))[1])
        return min(since_us) + self._patience_us if since_us else None
