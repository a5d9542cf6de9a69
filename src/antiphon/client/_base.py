"""What the two kinds of session share: identity, the groups asked for, and how a session ends."""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from weakref import WeakSet

from antiphon import limits
from antiphon.client._calls import ClientCalls
from antiphon.client._incoming import GOODBYE_CODE, Incoming
from antiphon.client._locks import LockTable, OwnLock
from antiphon.client._opening import Opened
from antiphon.client._reconnecting import ReconnectPlan, Search
from antiphon.client._send_queue import SendQueue
from antiphon.client.batches import BatchMemory
from antiphon.client.events import Reconnected
from antiphon.errors import BadFrame, Disconnected, UsageError
from antiphon.runtime.tls import TlsSocket
from antiphon.types import Choice, Minimum, check_delivery, check_group, check_lock, check_minimum
from antiphon.wire import frames

CLOSED = "closed by this program"
FORKED = "this process was forked; the session stays with its parent"
CLOSE_TIMEOUT_S = 10.0
"""How long `close` waits for the daemon to confirm that everything sent before it was taken."""


_open_sessions: WeakSet["SessionBase"] = WeakSet()


class SessionBase(ABC):
    """A session, whatever does its input and output."""

    def __init__(
        self,
        opened: Opened,
        *,
        bundle: bool,
        release: Callable[[], None] | None,
        reconnect_plan: ReconnectPlan | None,
        batches: BatchMemory | None,
    ) -> None:
        welcome = opened.welcome
        self._socket = opened.socket
        self._address = opened.address
        self._welcome = welcome
        self._incoming: Incoming = opened.incoming
        self._ready = opened.incoming.ready
        if batches is not None:
            self._incoming.batches = batches
        self._send_queue = SendQueue(
            welcome.name,
            gathers=bundle,
            message_max_bytes=min(welcome.message_max_bytes, limits.MESSAGE_MAX_BYTES),
            ledger=opened.incoming.ledger,
            diary=opened.incoming.diary,
            without_quorum=opened.incoming.without_quorum,
            denied=opened.incoming.denied,
        )
        self._credentials = opened.credentials
        self._incoming.on_join_denied = self._join_denied
        self._calls = self._incoming.calls = ClientCalls(welcome.name, self._incoming.shows_views)
        self._locks = self._incoming.locks = LockTable(welcome.name)
        self._groups: dict[str, frames.Join] = {}  # how it joined each, in the order of joining
        self._asked: Counter[str] = Counter()
        """Joins and leaves asked for, by group."""
        self._release = release
        """Stops the embedded daemon, if this session brought its own."""
        self._reconnect_plan = reconnect_plan
        """How to come back after a loss; None: the session ends with its connection."""
        self._loss: str | None = None
        """Why there is no connection now, while the session is trying to get another."""
        self._search: Search | None = None
        """Looks for another connection."""
        self._end_reason: str | None = None
        self._end_told = False
        self._closed = False
        _open_sessions.add(self)

    @property
    def name(self) -> str:
        """The private name, `#alice#d1`: messages sent to it reach this session alone.

        A session that reconnects gets a new one, because the daemon is part of it.
        """
        return self._welcome.name

    @property
    def daemon(self) -> str:
        """The name of the daemon that this session is connected to."""
        return self._welcome.daemon

    @property
    def number(self) -> int:
        """The session's number at its daemon, part of the identity of each message it sends."""
        return self._welcome.session

    @property
    def address(self) -> str:
        """Where the daemon listens: another session can connect to the same place."""
        return self._address

    @property
    def groups(self) -> frozenset[str]:
        """The groups that this session has asked to join and has not asked to leave."""
        return frozenset(self._groups)

    @property
    def denied(self) -> dict[str, str]:
        """Groups and private names to which this session has sent something that the access list of its
        daemon does not allow, each with the daemon's words; empty again when the list has changed."""
        return dict(self._incoming.denied)

    @property
    def batches(self) -> BatchMemory:
        """What this session has had of batches that may be sent again."""
        return self._incoming.batches

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def loss(self) -> str | None:
        """Why there is no connection, while a session with `reconnect` looks for another; else None."""
        return self._loss

    @property
    def _is_over(self) -> bool:
        return self._closed or self._end_reason is not None

    def __repr__(self) -> str:
        away = f"reconnecting: {self._loss}" if self._loss is not None else None
        state = "closed" if self._closed else self._end_reason or away or "open"
        return f"<{type(self).__module__}.Session {self.name} at {self.address}: {state}>"

    def _ask_join(self, group: str, minimum: Minimum | None = None, delivery: Choice | None = None) -> None:
        request = frames.Join(check_group(group), check_minimum(minimum), check_delivery(delivery))
        if group in self._groups:
            raise UsageError(f"this session has already joined {group!r}")
        if len(self._groups) >= limits.GROUPS_PER_SESSION_MAX:
            raise UsageError(f"a session may be in at most {limits.GROUPS_PER_SESSION_MAX:,} groups")
        if minimum is not None:
            self._check_is_counted("a join with a minimum")
        self._send_queue.control(request)
        self._groups[group] = request
        self._asked[group] += 1

    def _join_denied(self, group: str) -> None:
        """The daemon does not let this session join a group."""
        self._groups.pop(group, None)

    def _check_joined(self, group: str) -> None:
        """Raise NotAllowed if the join that was waited for is refused."""
        error = self._incoming.denied_joins.pop(group, None)
        if error is not None:
            raise error

    def _ask_leave(self, group: str) -> None:
        check_group(group)
        if group not in self._groups:
            raise UsageError(f"this session has not joined {group!r}")
        self._send_queue.control(frames.Leave(group))
        del self._groups[group]
        self._asked[group] += 1

    def _ask_lock(self, group: str, name: str, wait: bool) -> OwnLock:
        check_group(group)
        check_lock(name)
        if group not in self._groups:
            raise UsageError(f"this session has not joined {group!r}")
        if not self._calls.views:
            raise UsageError("a session that wants locks needs views, which tell it of them")
        self._check_is_counted("a lock")
        own = self._locks.ask(group, name)
        self._send_queue.control(frames.AskLock(group, name, wait))
        return own

    def _check_is_counted(self, what: str) -> None:
        """UsageError at an edge, where sessions are in no view."""
        if self._welcome.daemon_number == frames.AT_AN_EDGE:
            raise UsageError(f"{what} is for members, and sessions at edge {self.daemon} are in no view")

    def _lost(self, reason: str) -> None:
        """The connection has ended without our wish: look for another if that is wanted, or else end."""
        if self._reconnect_plan is None or self._is_over:
            self._over(reason)
        elif self._loss is None:
            search = self._search = self._begin_search(self._reconnect_plan)
            self._cut()
            self._loss = self._in_words(reason)
            self._incoming.lose_locks(self._loss)
            search.start()  # last: another thread may have ended the session, and the search, meanwhile

    def _begin_search(self, reconnect_plan: ReconnectPlan) -> Search:
        return Search(
            reconnect_plan, self._address, may_try=self._may_try, found=self._found, failed=self._not_found
        )

    def _may_try(self) -> bool:
        """Whether to ask for a connection: with much waiting here the next daemon would soon cut us off."""
        return not self._incoming.is_full

    def _over(self, reason: str) -> None:
        """The session has ended."""
        self._ended(reason)
        self._loss = None
        if self._search is not None:
            self._search.stop()

    @abstractmethod
    def _cut(self) -> None:
        """The connection is lost: close it, and wake every call that waits for it."""

    @abstractmethod
    def _found(self, opened: Opened) -> None:
        """In the thread of the search: here is another connection."""

    @abstractmethod
    def _not_found(self, failure: str) -> None:
        """In the thread of the search: there is none, and we look no longer."""

    def _come_back(self, opened: Opened) -> None:
        """Go on over another connection: a new session for the daemon, the same for the application.

        The caller makes sure that no other thread writes or reads meanwhile. What was asked for before and
        has not taken effect has now, since the old memberships are over; except for the groups that are
        joined again.
        """
        assert self._loss is not None
        welcome = opened.welcome
        event = Reconnected(
            old_name=self.name,
            name=welcome.name,
            daemon=welcome.daemon,
            address=opened.address,
            groups=tuple(self._groups),
            reason=self._loss,
        )
        self._socket.close()
        self._send_queue.begin_again(
            welcome.name,
            min(welcome.message_max_bytes, limits.MESSAGE_MAX_BYTES),
            opened.incoming.ledger,
            opened.incoming.diary,
        )
        self._incoming.go_on(opened.incoming, event)
        for group, asked in self._asked.items():
            self._incoming.effects[group] = asked - (group in self._groups)
        for request in self._groups.values():
            self._send_queue.control(request)
        self._locks.reconnected(welcome.name)
        self._calls.reconnected(welcome.name, self._send_queue)
        self._socket, self._address, self._welcome = opened.socket, opened.address, welcome
        self._socket.setblocking(False)
        self._search = None
        self._loss = None

    def _read(self) -> bool:
        """Read once; whether there was something. Ends the session at the end of the stream."""
        incoming, wire = self._incoming, self._socket
        try:
            count = wire.recv_into(incoming.space())
            if count:
                incoming.filled(count)
            while isinstance(wire, TlsSocket) and wire.has_unread and (more := _more(wire, incoming.space())):
                incoming.filled(more)
        except (BlockingIOError, InterruptedError):
            return False
        except BadFrame as error:
            self._lost(f"the daemon sent what cannot be read: {error.reason}")
            return False
        except OSError as error:
            self._lost(error.strerror or str(error))
            return False
        if incoming.goodbye is not None or not count:
            self._lost("the daemon closed the connection")
            return False
        return True

    def _in_words(self, reason: str) -> str:
        """Why the connection is over; the daemon's goodbye takes precedence over the error of the socket.

        The goodbye cannot reach a library that has stopped reading because the application takes no events:
        then that is given instead, as the likely reason.
        """
        goodbye = self._incoming.goodbye
        if goodbye is not None:
            return f"{goodbye.reason} ({goodbye.code})"
        if self._incoming.is_full:
            return f"{reason} while this program did not take its events"
        return reason

    def _ended(self, reason: str) -> None:
        """The session is over."""
        if self._end_reason is None:
            # While away, the reason has the last word of the daemon that is gone already.
            self._end_reason = reason if self._loss is not None else self._in_words(reason)

    def _forked(self) -> None:
        """In a forked child: two processes cannot share a session, so this copy is over.

        Only our copy of the descriptor is closed, and no event loop is touched: it may share its selector
        with the parent's.
        """
        self._socket.close()
        self._release = None
        self._search = None
        self._loss = None
        self._ended(FORKED)
        self._incoming.drop()
        self._end_told = True  # what was sent before is the parent's to worry about

    def _disconnected(self) -> Disconnected:
        """The error that tells the application; a fresh one each time, since it collects a traceback."""
        if self._closed:
            return Disconnected(CLOSED)
        self._end_told = True
        return self._unconfirmed(self._end_reason or CLOSED)

    def _unconfirmed(self, reason: str) -> Disconnected:
        incoming, send_queue = self._incoming, self._send_queue
        count = incoming.untold_count + send_queue.unaccepted()
        return Disconnected(reason, count, (*incoming.untold, *send_queue.unknown()))

    def _close_error(self) -> Disconnected | None:
        """What `close` must raise: None if the daemon confirmed, no fate is open, or it was told before."""
        confirmed = self._incoming.goodbye is not None and self._incoming.goodbye.code == GOODBYE_CODE
        incoming = self._incoming
        if confirmed or self._end_told:  # then only an earlier connection can have left a fate open
            error = Disconnected(
                "an earlier connection was lost", incoming.untold_count, tuple(incoming.untold)
            )
        else:
            error = self._unconfirmed(self._end_reason or CLOSED)
        return error if error.unknown_fate else None


def _more(wire: TlsSocket, space: memoryview) -> int:
    """What TLS has already, besides what was read: no descriptor tells of it."""
    try:
        return wire.recv_into(space)
    except (BlockingIOError, InterruptedError):
        return 0


def _after_fork() -> None:
    for session in list(_open_sessions):
        session._forked()


os.register_at_fork(after_in_child=_after_fork)
