"""All clients of a daemon: who is let in, who is read, who is written to, and who is cut off.

What they are told when they are cut off stands in `last_words`.

Bounds (`client_limits`): so many clients without a session (`greetings`); beyond that the oldest of them is
closed if it had its time, since an honest client is through in milliseconds, or else newcomers wait in the
listeners' queues. At most FAREWELLS_MAX clients on their way out; beyond that the oldest gets what its socket
takes and is closed.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import get_args

from antiphon import limits
from antiphon.config import Security, Settings
from antiphon.core.membership.engine import earliest_us
from antiphon.errors import BadFrame
from antiphon.runtime import client_limits, last_words
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
from antiphon.runtime.doors import Doors
from antiphon.runtime.entrance import Entrance
from antiphon.runtime.greetings import Greetings
from antiphon.runtime.lagging import Lagging
from antiphon.runtime.listener import Listener
from antiphon.runtime.loop import READABLE, WRITABLE, Loop, now_us
from antiphon.runtime.notices import Notices
from antiphon.runtime.quotas import Input, Output
from antiphon.runtime.serving import Served
from antiphon.runtime.status import Steps
from antiphon.runtime.successors import Successors
from antiphon.spreadwire.greeting import Declined
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.wire import edges, frames

FROM_EDGE = get_args(edges.FromEdge)
Request = frames.FromClient | edges.FromEdge


class Clients:
    """The connections of a daemon and their sessions in its node; edges are among them."""

    def __init__(
        self,
        loop: Loop,
        node: Served,
        settings: Settings,
        notices: Notices,
        status: Callable[[frames.AskStatus, int], Steps],
        daemon_names: Sequence[str] = (),
        security: Security | None = None,
    ) -> None:
        """`daemon_names` are those of the cluster, by number, for Spread's clients. ConfigError for files of
        `security` that cannot be used."""
        self.counters = ClientCounters()
        self._loop = loop
        self._node = node
        self._soft_bytes = settings.output_soft_bytes
        self._hard_bytes = settings.output_hard_bytes
        self._notices = notices
        self.entrance = Entrance(security or Security(), self.counters, notices, now_us())
        self.answers = Answers(status, self.entrance.limit)
        self.input = Input(
            node.sessions, settings.input_total_bytes, round(settings.frame_patience_ms * 1_000)
        )
        self.output = Output(settings.output_total_bytes)
        self._to_spread = ToSpread(daemon_names, self.output.share)
        self._sessions: dict[int, Connection] = {}
        self.successors = Successors(node.sessions, self._sessions, lambda: node.is_operational)
        self._greetings = Greetings()
        self.doors = Doors(loop, notices, self.counters, self._greetings, self._come_in)
        self.farewells: dict[Connection, None] = {}
        """Clients that have not read their last output yet."""
        self._paused: dict[Connection, None] = {}
        self._unread: dict[Connection, None] = {}
        """Clients of which something may be there to read, though their sockets do not tell."""
        self._lagging = Lagging(node, settings, notices)
        self._touched: list[Connection] = []
        self._shared = memoryview(bytearray(READ_BYTES))
        self._has_priorities = False
        """Whether any session has had one."""

    # The daemon's turn ------------------------------------------------------------------------------------

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
        if not self._paused and not self.doors.is_crowded:
            return
        node = self._node
        now = now_us()
        for connection in list(self._paused):
            if (
                node.reads(connection.session)
                and not self.answers.is_postponed(connection)
                and self.input.room(connection, 1, now)
                and self.entrance.is_free(connection, now)
            ):
                del self._paused[connection]
                connection.is_paused = False
                self._watch(connection)
        self.doors.resume()

    def next_deadline_us(self) -> int | None:
        """Asked every turn: most of the time nothing is due."""
        due_us = earliest_us(self.doors.next_deadline_us(), self._lagging.next_deadline_us())
        due_us = 0 if self._unread else earliest_us(due_us, self.entrance.next_deadline_us())
        for late in (self._greetings.next_late(), next(iter(self.farewells), None)):
            if late is not None:
                due_us = earliest_us(due_us, late.deadline_us)
        for part in (self.answers, self.input, self.successors):
            if part:
                due_us = earliest_us(due_us, part.next_deadline_us())
        return due_us

    def timeout(self, now: int) -> None:
        """Give up on those who took too long; accept again after a pause."""
        while (late := self._greetings.next_late()) is not None and late.deadline_us <= now:
            if self.successors.is_waiting(late):
                self._grant_time(late, now)
                continue
            self.counters.greeting_timeouts += 1
            self._farewell(late, last_words.NO_GREETING, now)
        while self.farewells and (slow := next(iter(self.farewells))).deadline_us <= now:
            self._close(slow)
        self.doors.timeout(now)
        for stalled in self.answers.stalled(now):
            if stalled.phase is LEAVING:  # the node ends its session by itself
                stalled.drop_output()
            else:
                self._cut_off_slow(stalled, now)
        for stalled in self.input.stalled(now):
            self._cut_off_stalled(stalled, now)
        for slow in self._lagging.due(now):
            self._lagging.tell(slow, slow.waiting_bytes, now)
            self._after_write(slow, now)
        self.entrance.timeout(now)
        unread, self._unread = self._unread, {}
        for connection in unread:
            if connection.interest & READABLE:
                self._on_event(connection, READABLE)

    def dismiss(self, now: int) -> None:
        """End all sessions because the daemon stops: what waits for their clients goes out first."""
        for connection in list(self._sessions.values()):
            if connection.phase is OPEN:
                self._lose(connection, now)
                self._farewell(connection, last_words.STOPS, now)

    def reload(self, now: int) -> frames.Reloaded:
        """Read the access list again: sessions of users who are not what they were, or are members of groups
        that they may not join any more, are over."""
        reloaded = self.entrance.reload(now)
        for connection in list(self._sessions.values()) if reloaded.is_changed else ():
            session = self._node.sessions.get(connection.session)
            news = self.entrance.changed(connection, () if session is None else session.groups)
            if isinstance(news, frames.Goodbye):
                self._lose(connection, now)
                self._farewell(connection, news, now)
            elif news is not None:
                self._send_control(connection, news)
        return reloaded

    def stop(self) -> None:
        """Send a goodbye to all clients, as far as their sockets take it at once, and disconnect them."""
        last_word = frames.encode_control(last_words.STOPS)
        for connection in [*self._sessions.values(), *self._greetings]:
            connection.queue(last_word)
        for connection in [*self._sessions.values(), *self._greetings, *self.farewells]:
            connection.flush()
            connection.finish()
            self._close(connection)
        self._sessions.clear()
        self.doors.close()

    def forget(self) -> None:
        """Close only this process's copies of the descriptors, and say nothing."""
        for connection in [*self._sessions.values(), *self._greetings, *self.farewells]:
            connection.close()
        self.doors.forget()

    # Coming in --------------------------------------------------------------------------------------------

    def _come_in(self, listener: Listener, client: socket.socket, now: int) -> None:
        connection = self.entrance.connection(client, listener, self._to_spread, self.successors.is_taken)
        connection.deadline_us = now + client_limits.GREETING_TIMEOUT_US
        if (oldest := self._greetings.in_the_way(connection.is_tls)) is not None:
            self._make_room(oldest)
        self._greetings.add(connection)
        self._watch(connection)

    def _make_room(self, oldest: Connection) -> None:
        self.counters.crowded_out += 1
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
                if connection.has_unread:
                    self._unread[connection] = None
                if connection.waiting_bytes and phase is Phase.GREETING:
                    self._touch(connection)  # some protocols answer before there is a session
                if received is None:
                    self._lose(connection, now)
                    self._close(connection)
                    return
                if phase is OPEN:
                    self.input.was_read(connection, bool(received), now)
                    self.entrance.was_read(connection, received, now)
                self._handle(connection, received, now)
            except Declined as error:
                self._decline(connection, error.reason, now)
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
        if connection.is_edge:
            wanted_bytes = client_limits.EDGE_READ_BYTES
        else:
            wanted_bytes = self._node.sessions.input_room(connection.session)
        return self.entrance.room(connection, self.input.room(connection, wanted_bytes, now), now)

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

    def _postpones(self, client: Connection, request: Request, rest: Frames, now: int) -> bool:
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
        connection.deadline_us = now + client_limits.GREETING_TIMEOUT_US
        self._greetings.add(connection)

    def _control(self, connection: Connection, request: Request, now: int) -> None:
        refusal = self.entrance.refusal(connection, request)
        if refusal is not None and connection.phase is Phase.GREETING:
            self._refuse(connection, refusal, now)
        elif refusal is not None:
            self._send_control(connection, frames.Problem(refusal.code, refusal.reason))
        elif isinstance(request, frames.AskStatus):
            self.answers.ask(connection, request, now)
            if connection.phase is Phase.GREETING:
                self._grant_time(connection, now)
        elif isinstance(request, frames.Credential):
            pass  # the entrance has taken it
        elif isinstance(request, frames.ReloadAccess):
            reloaded = self.reload(now)
            say = self._notices.info if reloaded.is_changed else self._notices.warn
            say("reload", "as a client asked: %s", reloaded)
            self._send_control(connection, reloaded)
        elif isinstance(request, frames.Connect):
            self._connect(connection, request, now)
        elif isinstance(request, edges.Attach):
            self._attach(connection, request, now)
        elif isinstance(request, edges.Probe) and connection.phase is Phase.GREETING:
            self._send_control(connection, self._node.probe(request))
            self._grant_time(connection, now)
        elif connection.phase is Phase.GREETING:
            raise BadFrame("control frame: before connect")
        elif connection.is_edge is not isinstance(request, FROM_EDGE):
            raise BadFrame(
                "control frame: of an edge" if not connection.is_edge else "control frame: of a client"
            )
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
        connection.rights = self.entrance.rights(connection)
        answer = self._node.connect(request, now, connection.rights)
        if isinstance(answer, frames.Refuse):
            self._refuse(connection, answer, now)
            return
        connection.name = answer.name
        connection.priority = request.priority
        connection.high_bytes = self._soft_bytes
        self._has_priorities = self._has_priorities or request.priority > 0
        self._open(connection, answer.session, answer)

    def _attach(self, connection: Connection, request: edges.Attach, now: int) -> None:
        if connection.phase is not Phase.GREETING:
            raise BadFrame("control frame: a second attach")
        answer = self._node.attach(request, now)
        if isinstance(answer, frames.Refuse):
            self._notices.warn("refused-edge", "edge %s is refused: %s", request.name, answer.reason)
            self._refuse(connection, answer, now)
            return
        self.counters.edges += 1
        connection.rights = self.entrance.rights(connection)
        if connection.rights is not None:
            self._node.sessions.sponsor_rights[answer[0]] = connection.rights
        connection.is_edge = True
        connection.name = f"edge {request.name}"
        connection.high_bytes = limits.EDGE_OUTPUT_BYTES
        self._open(connection, *answer)

    def _open(self, connection: Connection, number: int, answer: frames.Welcome | edges.Attached) -> None:
        """The client, or the edge, has a session."""
        self._greetings.discard(connection)
        self.successors.forget(connection)
        connection.phase = OPEN
        connection.session = number
        self._sessions[number] = connection
        self._send_control(connection, answer)

    def _refuse(self, connection: Connection, answer: frames.Refuse, now: int) -> None:
        self.counters.refused += 1
        self._farewell(connection, answer, now)

    # Writing ----------------------------------------------------------------------------------------------

    def _send_control(self, connection: Connection, value: frames.ToEdge) -> memoryview:
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
            if waiting_bytes >= self._hard_bytes and not self._lagging.is_spared(connection, now):
                self._cut_off_slow(connection, now)
                return
            if not connection.low_bytes < waiting_bytes <= connection.high_bytes:
                self._lagging.tell(connection, waiting_bytes, now)
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

    def _watch(self, connection: Connection) -> None:
        """Tell the loop what this connection waits for now; nothing at all takes it out of the loop."""
        phase = connection.phase
        interest = WRITABLE if connection.waiting_bytes and not connection.is_touched else 0
        if phase is not LEAVING and not connection.is_paused:
            interest |= READABLE
            if connection.has_unread:
                self._unread[connection] = None
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
        if reason.startswith("tls: "):
            self.counters.tls_failures += 1
        else:
            self.counters.bad_frames += 1
        self._notices.warn("bad-frame", "a client sent bad bytes and is cut off: %s", reason)
        self._lose(connection, now)
        self._farewell(connection, frames.Goodbye("bad-frame", reason), now)

    def _decline(self, connection: Connection, reason: str, now: int) -> None:
        """It speaks as it should, and gets no session."""
        self.counters.refused += 1
        self._notices.warn("refused", "a client is refused: %s", reason)
        self._lose(connection, now)
        self._farewell(connection, frames.Goodbye("refused", reason), now)

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
        self._farewell(connection, last_words.OUR_MISTAKE, now)

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
        self._farewell(connection, last_words.slow(waiting_bytes), now)

    def _cut_off_stalled(self, connection: Connection, now: int) -> None:
        self.counters.stalled_frames += 1
        whose = connection.name or "a client"
        self._notices.warn("stalled", "%s does not go on with its frame and is cut off: others wait", whose)
        self._lose(connection, now)
        self._farewell(connection, last_words.STALLED, now)

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
        self._greetings.discard(connection)
        self._forget_input(connection)
        if len(self.farewells) >= client_limits.FAREWELLS_MAX:
            self._make_room(next(iter(self.farewells)))
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
        self._greetings.discard(connection)
        for crowd in (self.farewells, self._paused, self._unread):
            crowd.pop(connection, None)
        self._lagging.forget(connection)
        if connection.interest:
            self._loop.unregister(connection.fileno())
            connection.interest = 0
        connection.close()
