"""What the two kinds of session share: identity, the groups asked for, and how a session ends."""

import os
from collections import Counter
from collections.abc import Callable
from weakref import WeakSet

from antiphon import limits
from antiphon.client._incoming import Incoming
from antiphon.client._opening import Opened
from antiphon.client._outgoing import Outgoing
from antiphon.errors import BadFrame, Disconnected, UsageError
from antiphon.types import check_group
from antiphon.wire import frames

GOODBYE_CODE = "bye"
"""The daemon's word when it has carried out our Disconnect."""
CLOSED = "closed by this program"
FORKED = "this process was forked; the session stays with its parent"
CLOSE_TIMEOUT_S = 10.0
"""How long `close` waits for the daemon to confirm that everything sent before it was taken."""


_open_sessions: WeakSet["SessionBase"] = WeakSet()


class SessionBase:
    """A session, whatever does its input and output."""

    def __init__(self, opened: Opened, *, bundle: bool, release: Callable[[], None] | None) -> None:
        welcome = opened.welcome
        self._socket = opened.socket
        self._address = opened.address
        self._welcome = welcome
        self._incoming: Incoming = opened.incoming
        self._ready = opened.incoming.ready
        self._outgoing = Outgoing(
            welcome.name,
            gathers=bundle,
            message_max_bytes=min(welcome.message_max_bytes, limits.MESSAGE_MAX_BYTES),
        )
        self._groups: set[str] = set()
        self._asked: Counter[str] = Counter()
        """Joins and leaves asked for, by group."""
        self._release = release
        """Stops the embedded daemon, if this session brought its own."""
        self._end_reason: str | None = None
        self._end_told = False
        self._closed = False
        _open_sessions.add(self)

    @property
    def name(self) -> str:
        """The private name, `#alice#d1`: messages sent to it reach this session alone."""
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
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def _is_over(self) -> bool:
        return self._closed or self._end_reason is not None

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._end_reason or "open"
        return f"<{type(self).__module__}.Session {self.name} at {self.address}: {state}>"

    def _ask_join(self, group: str) -> None:
        check_group(group)
        if group in self._groups:
            raise UsageError(f"this session has already joined {group!r}")
        if len(self._groups) >= limits.GROUPS_PER_SESSION_MAX:
            raise UsageError(f"a session may be in at most {limits.GROUPS_PER_SESSION_MAX:,} groups")
        self._outgoing.control(frames.Join(group))
        self._groups.add(group)
        self._asked[group] += 1

    def _ask_leave(self, group: str) -> None:
        check_group(group)
        if group not in self._groups:
            raise UsageError(f"this session has not joined {group!r}")
        self._outgoing.control(frames.Leave(group))
        self._groups.discard(group)
        self._asked[group] += 1

    def _over(self, reason: str) -> None:
        """The connection has ended; kinds of session that have more to let go of do so here."""
        self._ended(reason)

    def _read(self) -> bool:
        """Read once; whether there was something. Ends the session at the end of the stream."""
        incoming = self._incoming
        try:
            count = self._socket.recv_into(incoming.space())
            if count:
                incoming.filled(count)
        except (BlockingIOError, InterruptedError):
            return False
        except BadFrame as error:
            self._over(f"the daemon sent what cannot be read: {error.reason}")
            return False
        except OSError as error:
            self._over(error.strerror or str(error))
            return False
        if incoming.goodbye is not None or not count:
            self._over("the daemon closed the connection")
            return False
        return True

    def _ended(self, reason: str) -> None:
        """The connection is over; the daemon's own last word counts for more than what the socket says.

        That word cannot reach a library that has stopped reading because nobody takes its events: then this
        is told instead, being the likely reason.
        """
        if self._end_reason is None:
            goodbye = self._incoming.goodbye
            if goodbye is not None:
                reason = f"{goodbye.reason} ({goodbye.code})"
            elif self._incoming.is_full:
                reason = f"{reason} while this program did not take its events"
            self._end_reason = reason

    def _forked(self) -> None:
        """In a forked child: two processes cannot share a session, so this copy is over.

        Only our copy of the descriptor is closed, and no event loop is touched: it may share its selector
        with the parent's.
        """
        self._socket.close()
        self._release = None
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
        return Disconnected(reason, self._outgoing.unaccepted(self._incoming.accepted_sequence))

    def _close_error(self) -> Disconnected | None:
        """What `close` must raise: None if the daemon confirmed, no fate is open, or it was told before."""
        confirmed = self._incoming.goodbye is not None and self._incoming.goodbye.code == GOODBYE_CODE
        if confirmed or self._end_told:
            return None
        error = self._unconfirmed(self._end_reason or CLOSED)
        return error if error.unknown_fate else None


def _after_fork() -> None:
    for session in list(_open_sessions):
        session._forked()


os.register_at_fork(after_in_child=_after_fork)
