"""All clients of a daemon: who is let in, who is read, who is written to, and who is cut off.

Why a daemon says Goodbye or Refuse by itself, as the code in the frame; the node has codes of its own:

    bad-frame          the client sent what is not a frame, or not one that it may send there
    slow-receiver      too much output waited for it (`cluster.output_hard_bytes`)
    stalled-frame      it did not go on with a frame while others waited for room (`runtime.quotas`)
    greeting-timeout   it asked neither for a session nor about the daemon in time
    stopping           the daemon ends
    internal           a mistake of the daemon's own, met while it served this client

Bounds (`client_limits`): at most GREETINGS_MAX clients without a session; beyond that the oldest is closed if
it had its time, since an honest client is through in milliseconds, or else newcomers wait in the listeners'
queues. At most FAREWELLS_MAX clients on their way out; beyond that the oldest gets what its socket takes and
is closed.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter

from antiphon.config import Config
from antiphon.core.membership.engine import earliest_us
from antiphon.core.node import Node
from antiphon.errors import BadFrame
from antiphon.runtime import client_limits
from antiphon.runtime.answers import Answers, Frames
from antiphon.runtime.client_counters import ClientCounters
from antiphon.runtime.connection import (
    CLOSED,
    LEAVING,
    OPEN,
    READ_BYTES,
    Connection,
    Phase,
    by_kind,
    waiting_bytes,
)
from antiphon.runtime.listener import Listener
from antiphon.runtime.loop import READABLE, WRITABLE, Loop, now_us
from antiphon.runtime.notices import Notices
from antiphon.runtime.quotas import Input, Output
from antiphon.runtime.spread import SpreadConnection
from antiphon.runtime.status import Steps
from antiphon.runtime.successors import Successors
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.wire import frames


class Clients:
    """The connections of a daemon and their sessions in its node."""

    def __init__(
        self,
        loop: Loop,
        node: Node,
        config: Config,
        notices: Notices,
        status: Callable[[frames.AskStatus, int], Steps],
    ) -> None:
        settings = config.settings
        self.counters = ClientCounters()
        self._loop = loop
        self._node = node
        self._soft_bytes = settings.output_soft_bytes
        self._hard_bytes = settings.output_hard_bytes
        self._grace_us = min(client_limits.SLOW_GRACE_US, round(settings.slow_patience_ms * 1_000))
        self._notices = notices
        self.answers = Answers(status)
        self.input = Input(
            node.sessions, settings.input_total_bytes, round(settings.frame_patience_ms * 1_000)
        )
        self.output = Output(settings.output_total_bytes)
        self._to_spread = ToSpread(config.daemon_names, self.output.share)
        self._listeners: list[Listener] = []
        self._accepts_at_us: int | None = None
        """When to go on accepting, while that is paused."""
        self._is_crowded = False
        """Whether it is paused because of too many fresh greetings."""
        self._sessions: dict[int, Connection] = {}
        self.successors = Successors(node.sessions, self._sessions, lambda: node.is_operational)
        self._greetings: dict[Connection, None] = {}
        self.farewells: dict[Connection, None] = {}
        """Clients that have not read their last output yet."""
        self._paused: dict[Connection, None] = {}
        self._behind: dict[Connection, None] = {}
        """Sessions that were warned and do not keep up yet."""
        self._look_us = 0
        self._touched: list[Connection] = []
        self._shared = memoryview(bytearray(READ_BYTES))
        self._has_priorities = False
        """Whether any session has had one."""

    # The daemon's turn ------------------------------------------------------------------------------------

    def listen(self, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)
        for listener in self._listeners:
            self._loop.register(listener.fileno(), partial(self._accept, listener), READABLE)

    def output_bytes(self, numbers: Iterable[int]) -> dict[int, int]:
        """How much output waits for each of these sessions that has not taken all of it yet."""
        return waiting_bytes(self._sessions, numbers)

    def deliver(self, now: int) -> None:
        """Take the frames and endings that the node left."""
        node, sessions = self._node, self._sessions
        for numbers, whole, header in node.frames:
            frame, self._to_spread.header = self.output.lend(whole), header
            for number in numbers:
                connection = sessions.get(number)
                if connection is not None:
                    connection.queue(frame)
                    if not connection.is_touched:
                        self._touch(connection)
        self._to_spread.header = None
        node.frames.clear()
        for number, goodbye in node.endings:
            connection = sessions.pop(number, None)
            if connection is not None:
                self._farewell(connection, goodbye, now)
        node.endings.clear()

    def flush(self, now: int) -> None:
        """Write to every client that got output, by priority; one that is blocked waits for its socket."""
        if self.answers or self.successors:
            self.answers.work(now_us(), self._send_control, partial(self._own_up, now=now))
            for connection, postponed in (*self.answers.ready(), *self.successors.ready(now)):
                self._go_on(connection, postponed, now)
        touched, self._touched = self._touched, []
        if self._has_priorities and len(touched) > 1:
            touched.sort(key=attrgetter("priority"), reverse=True)
        for connection in touched:
            connection.is_touched = False
            if connection.phase is not CLOSED:
                if not connection.interest & WRITABLE:
                    connection.flush()
                self._after_write(connection, now)
        self.output.count(touched)
        if self.output.is_over:
            self._relieve(now)

    def resume(self) -> None:
        """Read again those sessions that the node was too busy for, or that there was no room for."""
        if not self._paused and not self._is_crowded:
            return
        node = self._node
        now = now_us()
        for connection in list(self._paused):
            if (
                node.reads(connection.session)
                and not self.answers.is_postponed(connection)
                and self.input.room(connection, 1, now)
            ):
                del self._paused[connection]
                connection.is_paused = False
                self._watch(connection)
        if self._is_crowded and len(self._greetings) < client_limits.GREETINGS_MAX:
            self._go_on_accepting()

    def next_deadline_us(self) -> int | None:
        """Asked every turn: most of the time nothing is due."""
        due_us = earliest_us(self._accepts_at_us, self._look_us if self._behind else None)
        for crowd in (self._greetings, self.farewells):
            if crowd:
                due_us = earliest_us(due_us, next(iter(crowd)).deadline_us)
        for part in (self.answers, self.input, self.successors):
            if part:
                due_us = earliest_us(due_us, part.next_deadline_us())
        return due_us

    def timeout(self, now: int) -> None:
        """Give up on those who took too long; accept again after a pause."""
        while self._greetings and (late := next(iter(self._greetings))).deadline_us <= now:
            if self.successors.is_waiting(late):
                self._grant_time(late, now)
                continue
            self.counters.greeting_timeouts += 1
            reason = f"no session asked for in {client_limits.GREETING_TIMEOUT_US // 1_000_000} s"
            self._farewell(late, frames.Goodbye("greeting-timeout", reason), now)
        while self.farewells and (late := next(iter(self.farewells))).deadline_us <= now:
            self._close(late)
        if self._accepts_at_us is not None and self._accepts_at_us <= now:
            self._go_on_accepting()
        for stalled in self.answers.stalled(now):
            if stalled.phase is LEAVING:  # the node ends its session by itself
                stalled.drop_output()
            else:
                self._cut_off_slow(stalled, now)
        for stalled in self.input.stalled(now):
            self._cut_off_stalled(stalled, now)
        if self._behind and self._look_us <= now:
            self._look_at_slow(now)

    def stop(self) -> None:
        """Send a goodbye to all clients, as far as their sockets take it at once, and disconnect them."""
        last_word = frames.encode_control(frames.Goodbye(frames.STOPPING, frames.STOPPING_REASON))
        for connection in [*self._sessions.values(), *self._greetings]:
            connection.queue(last_word)
        for connection in [*self._sessions.values(), *self._greetings, *self.farewells]:
            connection.flush()
            connection.finish()
            self._close(connection)
        self._sessions.clear()
        self.close_doors()

    def close_doors(self) -> None:
        """Accept no more clients: those that look for a daemon find another one."""
        for listener in self._listeners:
            if self._accepts_at_us is None:
                self._loop.unregister(listener.fileno())
            listener.close()
        self._listeners, self._accepts_at_us = [], None

    def forget(self) -> None:
        """Close only this process's copies of the descriptors, and say nothing."""
        for connection in [*self._sessions.values(), *self._greetings, *self.farewells]:
            connection.close()
        for listener in self._listeners:
            listener.forget()

    # Coming in --------------------------------------------------------------------------------------------

    def _accept(self, listener: Listener, _events: int) -> None:
        for _ in range(client_limits.ACCEPTS_PER_WAKE):
            now = now_us()
            if len(self._greetings) >= client_limits.GREETINGS_MAX:
                oldest = next(iter(self._greetings))
                spared_until_us = (
                    oldest.deadline_us - client_limits.GREETING_TIMEOUT_US + client_limits.GREETING_GRACE_US
                )
                if spared_until_us > now:
                    self._is_crowded = True
                    self._stop_accepting(spared_until_us)
                    return
            try:
                client = listener.accept()
            except OSError as error:  # no descriptor or memory is left
                self.counters.accept_errors += 1
                self._notices.warn("accept", "cannot take more clients for now: %s", error.strerror)
                self._stop_accepting(now + client_limits.ACCEPT_PAUSE_US)
                return
            if client is None:
                return
            self.counters.accepted += 1
            connection = self._connection(listener, client)
            connection.deadline_us = now + client_limits.GREETING_TIMEOUT_US
            self._make_room(self._greetings, client_limits.GREETINGS_MAX)
            self._greetings[connection] = None
            self._watch(connection)

    def _connection(self, listener: Listener, client: socket.socket) -> Connection:
        if listener.protocol == "spread":
            self.counters.spread += 1
            return SpreadConnection(client, self._to_spread, self.successors.is_taken)
        return Connection(client)

    def _stop_accepting(self, until_us: int) -> None:
        """Newcomers wait in the listeners' queues for a while."""
        for listener in self._listeners:
            self._loop.unregister(listener.fileno())
        self._accepts_at_us = until_us

    def _go_on_accepting(self) -> None:
        self._accepts_at_us = None
        self._is_crowded = False
        self.listen(self._listeners)

    def _make_room(self, crowd: dict[Connection, None], most: int) -> None:
        if len(crowd) >= most:
            self.counters.crowded_out += 1
            oldest = next(iter(crowd))
            oldest.flush()
            self._close(oldest)

    # Reading ----------------------------------------------------------------------------------------------

    def _on_event(self, connection: Connection, events: int) -> None:
        try:
            if events & WRITABLE:
                connection.flush()
                self._after_write(connection, now_us())
            if events & ~WRITABLE:
                self._read(connection)
        except Exception:
            self._own_up(connection, now_us())

    def _read(self, connection: Connection) -> None:
        phase = connection.phase
        if phase is OPEN or phase is Phase.GREETING:
            if self.answers.is_postponed(connection) or self.successors.is_waiting(connection):
                return
            now = now_us()
            room_bytes = self._room(connection, now)
            if not room_bytes:
                connection.is_paused = True
                self._paused[connection] = None
                self._watch(connection)
                return
            try:
                received = connection.read(self._shared, room_bytes)
                if connection.waiting_bytes and phase is Phase.GREETING:
                    self._touch(connection)  # some protocols answer before there is a session
                if received is None:
                    self._lose(connection, now)
                    self._close(connection)
                    return
                if phase is OPEN:
                    self.input.was_read(connection, bool(received), now)
                self._handle(connection, received, now)
            except BadFrame as error:
                self._reject(connection, error.reason, now)
        elif phase is Phase.FAREWELL and not connection.discard(self._shared):
            self._close(connection)
        elif phase is LEAVING:
            # A hang-up, told unasked. The node will end the session; until then there is nothing to watch.
            connection.is_deaf = True
            connection.drop_output()
            self._after_write(connection, now_us())

    def _room(self, connection: Connection, now: int) -> int:
        """How many bytes of this client may be read now."""
        if connection.phase is not OPEN:
            return client_limits.GREETING_READ_BYTES
        if not self._node.reads(connection.session):
            return 0
        return self.input.room(connection, self._node.sessions.input_room(connection.session), now)

    def _go_on(self, connection: Connection, postponed: Frames, now: int) -> None:
        """What the client waited for is there: take its next question, and what it sent behind that."""
        connection.is_paused = connection in self._paused
        try:
            self._handle(connection, postponed, now)
        except BadFrame as error:
            self._reject(connection, error.reason, now)
        except Exception:
            self._own_up(connection, now)
        if connection.phase is not CLOSED:
            self._watch(connection)

    def _handle(self, connection: Connection, received: Frames, now: int) -> None:
        for place, bundles in by_kind(received):
            if not bundles:
                request = frames.decode_from_client(received[place][1])
                if self._postpones(connection, request, received[place:], now):
                    return
                self._control(connection, request, now)
                if connection.phase not in (Phase.GREETING, OPEN):
                    return
            elif connection.phase is OPEN:
                self._node.submit(connection.session, bundles, now)
            else:
                raise BadFrame("bundle: before connect")

    def _postpones(self, client: Connection, request: frames.FromClient, rest: Frames, now: int) -> bool:
        """Whether a request, with which `rest` begins, has to wait."""
        if isinstance(request, frames.AskStatus) and self.answers.is_busy(client):
            self.answers.postpone(client, rest)
        elif isinstance(request, frames.Connect) and self.successors.must_wait(client, request.name, now):
            self.counters.successors += 1
            self.successors.postpone(client, request.name, rest)
            self._grant_time(client, now)
        else:
            return False
        client.is_paused = True
        self._watch(client)
        return True

    def _grant_time(self, connection: Connection, now: int) -> None:
        """A client without a session is at work, or waits through no fault of its own."""
        del self._greetings[connection]
        connection.deadline_us = now + client_limits.GREETING_TIMEOUT_US
        self._greetings[connection] = None

    def _control(self, connection: Connection, request: frames.FromClient, now: int) -> None:
        if isinstance(request, frames.AskStatus):
            self.answers.ask(connection, request, now)
            if connection.phase is Phase.GREETING:
                self._grant_time(connection, now)
        elif isinstance(request, frames.Connect):
            self._connect(connection, request, now)
        elif connection.phase is Phase.GREETING:
            raise BadFrame("control frame: before connect")
        else:
            if isinstance(request, frames.Disconnect):
                connection.phase = LEAVING
                self.input.release(connection)
                connection.forget_input()
                self._watch(connection)
            if isinstance(request, frames.AskTime):
                now = now_us()  # the turn began before the question was asked, or may have
            self._node.control(connection.session, request, now)

    def _connect(self, connection: Connection, request: frames.Connect, now: int) -> None:
        if connection.phase is not Phase.GREETING:
            raise BadFrame("control frame: a second connect")
        answer = self._node.connect(request, now)
        if isinstance(answer, frames.Refuse):
            self.counters.refused += 1
            self._farewell(connection, answer, now)
            return
        del self._greetings[connection]
        self.successors.forget(connection)
        connection.phase = OPEN
        connection.session = answer.session
        connection.name = answer.name
        connection.priority = request.priority
        connection.high_bytes = self._soft_bytes
        self._has_priorities = self._has_priorities or request.priority > 0
        self._sessions[answer.session] = connection
        self._send_control(connection, answer)

    # Writing ----------------------------------------------------------------------------------------------

    def _send_control(self, connection: Connection, value: frames.FromDaemon) -> memoryview:
        """Queue a control frame; returns it. It lives until the client's socket has taken it."""
        frame = self.output.share(frames.encode_control(value))
        connection.queue(frame)
        self._touch(connection)
        return frame

    def _touch(self, connection: Connection) -> None:
        if not connection.is_touched:
            connection.is_touched = True
            self._touched.append(connection)

    def _after_write(self, connection: Connection, now: int) -> None:
        """Compare what waits now with the limits."""
        waiting_bytes = connection.waiting_bytes
        phase = connection.phase
        if phase is OPEN:
            if waiting_bytes >= self._hard_bytes and not self._is_spared(connection, now):
                self._cut_off_slow(connection, now)
                return
            if not connection.low_bytes < waiting_bytes <= connection.high_bytes:
                self._tell_backlog(connection, waiting_bytes, now)
        elif phase is Phase.GREETING:
            if waiting_bytes >= client_limits.GREETING_OUTPUT_MAX_BYTES:
                self._cut_off_slow(connection, now)
                return
        elif phase is Phase.FAREWELL:
            if connection.is_deaf:
                self._close(connection)
                return
            if not waiting_bytes:
                connection.finish()
        self._watch(connection)

    def _is_spared(self, connection: Connection, now: int) -> bool:
        """Whether a client for which too much waits has more time to read it."""
        return connection.spared_until_us > now or self._node.backpressure.bounds(connection.session)

    def _look_at_slow(self, now: int) -> None:
        """Tell the node what slow receivers have read meanwhile; cut off those for whom time is up."""
        self._look_us = now + client_limits.LOOK_US
        for connection in list(islice(self._behind, client_limits.LOOKS_MAX)):
            del self._behind[connection]
            if connection.phase is OPEN:
                self._behind[connection] = None  # last in turn
                self._tell_backlog(connection, connection.waiting_bytes, now)
                self._after_write(connection, now)

    def _tell_backlog(self, connection: Connection, waiting_bytes: int, now: int) -> None:
        """The node wants to know how much output waits; it may have a warning for the client."""
        band = self._node.backlog(connection.session, waiting_bytes, connection.read_bytes, now)
        connection.low_bytes, connection.high_bytes = band.low_bytes, band.high_bytes
        notice = band.notice
        if notice is None:
            return
        if not notice.is_over:
            connection.spared_until_us = now + self._grace_us
            self._behind[connection] = None
            self._look_us = max(self._look_us, now + client_limits.LOOK_US)
        else:
            self._behind.pop(connection, None)
        self._notices.tell_lag(connection.name, notice, waiting_bytes)
        if band.is_wanted:
            connection.queue_first(frames.encode_control(frames.SlowFrame(notice)))

    def _watch(self, connection: Connection) -> None:
        """Tell the loop what this connection waits for now; nothing at all takes it out of the loop."""
        phase = connection.phase
        interest = WRITABLE if connection.waiting_bytes and not connection.is_touched else 0
        if phase is not LEAVING and not connection.is_paused:
            interest |= READABLE
        if interest == connection.interest:
            return
        if not connection.interest:
            self._loop.register(connection.fileno(), partial(self._on_event, connection), interest)
        elif interest:
            self._loop.change(connection.fileno(), interest)
        else:
            self._loop.unregister(connection.fileno())
        connection.interest = interest

    # Going out --------------------------------------------------------------------------------------------

    def _reject(self, connection: Connection, reason: str, now: int) -> None:
        self.counters.bad_frames += 1
        self._notices.warn("bad-frame", "a client sent bad bytes and is cut off: %s", reason)
        self._lose(connection, now)
        self._farewell(connection, frames.Goodbye("bad-frame", reason), now)

    def _own_up(self, connection: Connection, now: int) -> None:
        """We made a mistake while serving this client: it alone is cut off, and the others go on."""
        self.counters.mistakes += 1
        self._notices.error("mistake", "a client is cut off because of a mistake of the daemon's own")
        if connection.phase is CLOSED:
            return
        if connection.phase is Phase.FAREWELL:
            self._close(connection)
            return
        if connection.phase is LEAVING:  # the node ends the session by itself
            self._sessions.pop(connection.session, None)
        else:
            self._lose(connection, now)
        reason = "the daemon made a mistake while it served this client; its log has the details"
        self._farewell(connection, frames.Goodbye("internal", reason), now)

    def _cut_off_slow(self, connection: Connection, now: int) -> None:
        self.counters.slow_receivers += 1
        waiting_bytes = connection.waiting_bytes
        self._notices.warn(
            "cut-off",
            "%s does not read and is cut off: %d bytes wait for it",
            connection.name or "a client",
            waiting_bytes,
        )
        self._lose(connection, now)
        connection.drop_output()
        reason = f"{waiting_bytes} bytes waited for this client, which did not read them"
        self._farewell(connection, frames.Goodbye("slow-receiver", reason), now)

    def _cut_off_stalled(self, connection: Connection, now: int) -> None:
        self.counters.stalled_frames += 1
        whose = connection.name or "a client"
        self._notices.warn("stalled", "%s does not go on with its frame and is cut off: others wait", whose)
        self._lose(connection, now)
        reason = "this client began to send a frame and did not go on, while others waited for room"
        self._farewell(connection, frames.Goodbye("stalled-frame", reason), now)

    def _relieve(self, now: int) -> None:
        """Too much waits for all clients together: cut off those for whom most does."""
        everyone = [*self._sessions.values(), *self._greetings, *self.farewells]
        for connection in self.output.heaviest(everyone):
            self.counters.over_budget += 1
            if connection.phase in (OPEN, Phase.GREETING):
                self._cut_off_slow(connection, now)
            else:  # on its way out, or about to be
                connection.drop_output()

    def _lose(self, connection: Connection, now: int) -> None:
        if self._sessions.pop(connection.session, None) is not None:
            self._node.lost(connection.session, now)

    def _farewell(self, connection: Connection, last_word: frames.Goodbye | frames.Refuse, now: int) -> None:
        """Let what waits and the last word go out, then close.

        The client's own bytes are read on and thrown away meanwhile: closing a TCP socket with unread input
        would reset it and destroy the last word on its way.
        """
        self._greetings.pop(connection, None)
        self._forget_input(connection)
        self._make_room(self.farewells, client_limits.FAREWELLS_MAX)
        self.farewells[connection] = None
        self._paused.pop(connection, None)
        connection.is_paused = False
        connection.phase = Phase.FAREWELL
        connection.deadline_us = now + client_limits.FAREWELL_TIMEOUT_US
        self._send_control(connection, last_word)
        self._watch(connection)

    def _forget_input(self, connection: Connection) -> None:
        """What this client sent, and is not taken yet, is of no interest any more."""
        self.answers.forget(connection)
        self.successors.forget(connection)
        self.input.release(connection)
        connection.forget_input()

    def _close(self, connection: Connection) -> None:
        self._forget_input(connection)
        for crowd in (self._greetings, self.farewells, self._paused, self._behind):
            crowd.pop(connection, None)
        if connection.interest:
            self._loop.unregister(connection.fileno())
            connection.interest = 0
        connection.close()
