"""Every error that a user of Antiphon can see, in one tree.

    AntiphonError
     ├── UsageError             the call is wrong: name, size, option; nothing was sent
     │    └── MessageTooLarge   longer than a message may be; nothing was sent
     ├── ConfigError            the configuration file is wrong; says line, key and what was expected
     ├── ConnectError           no daemon answered, or it refused this session
     │    └── Refused           the daemon's own words: why it does not take this session
     ├── Disconnected           the session ended; `reason` says why, `unknown` which sends hang
     ├── NoTime                 the daemon does not know the time yet
     ├── NoQuorum               too few members of the group are here: nothing was sent
     ├── NotAllowed             the daemon's access list does not allow it, or a limit of the user is reached
     ├── LockLost               the lock is not held any more
     ├── CallFailed             a call was answered with an error, or refused
     ├── CallTimeout            no answer came in time; says what is known of the call
     ├── BadPacket              a datagram that is not ours; counted and dropped by daemons
     │    └── Nonsense          its contents are such as no daemon makes
     └── BadFrame               bytes of a client that are not ours; the connection ends

UsageError leaves the session as it was. After Disconnected, connect again; `connect(reconnect=True)` does
that by itself.
"""

from typing import Any


class AntiphonError(Exception):
    """The root: catch this to catch everything that Antiphon raises on purpose."""


class UsageError(AntiphonError, ValueError):
    """The call cannot be carried out as made; nothing was sent."""


class MessageTooLarge(UsageError):
    """The message is longer than a message may be; nothing was sent."""


class ConfigError(AntiphonError):
    """The configuration is wrong; the text names the place and what was expected."""


class ConnectError(AntiphonError, OSError):
    """No session could be had."""


class Refused(ConnectError):
    """A daemon answered and declined the session."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{reason} ({code})")
        self.code = code
        self.reason = reason


class NoTime(AntiphonError):
    """The daemon does not know the time: it has not heard yet from a daemon that does. Ask again later."""


class NoQuorum(AntiphonError):
    """Fewer members of the group are here than one of them wished (`join(minimum=...)`); nothing was sent."""


class NotAllowed(AntiphonError):
    """The access list of the daemon does not allow this user to do that, or all sessions of the user take as
    much as they may; nothing was done. `code` is "not-allowed" or "user-limit"."""

    def __init__(self, reason: str, code: str = "not-allowed") -> None:
        super().__init__(f"{reason} ({code})")
        self.reason = reason
        self.code = code


class LockLost(AntiphonError):
    """The lock is not held any more: its holder was cut off, or another one keeps it after a merge."""


class CallFailed(AntiphonError):
    """A call was answered, and the answer is an error.

    `code` is "error" for one of the application, "forgotten" if the call was repeated after its answer had
    been forgotten, "busy" if too many calls wait; `answerer` is the private name of the member that says so.
    """

    def __init__(self, reason: str, code: str = "error", answerer: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.answerer = answerer


class CallTimeout(AntiphonError, TimeoutError):
    """No answer came in time. The call may have been executed, or may still be.

    With `answers="all"`, `answers` has those that came, and `missing` names the members that have not
    answered.
    """

    def __init__(self, reason: str, answers: Any = None, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.answers = answers
        self.missing = missing


class Disconnected(AntiphonError, ConnectionError):
    """The session is over.

    `reason` is the daemon's word for it, or what the socket said. `unknown_fate` counts the messages that
    were handed over and may or may not have been ordered before the end; `unknown` has the newest of them as
    `antiphon.Sent`, oldest first, as many as are kept.
    """

    def __init__(self, reason: str, unknown_fate: int = 0, unknown: tuple[Any, ...] = ()) -> None:
        fate = f"; {unknown_fate} sent messages have an unknown fate" if unknown_fate else ""
        super().__init__(f"disconnected: {reason}{fate}")
        self.reason = reason
        self.unknown_fate = unknown_fate
        self.unknown = unknown


class BadPacket(AntiphonError):
    """A datagram that is not a packet of ours. `reason` is short and stable: it labels a counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Nonsense(BadPacket):
    """Contents of a packet that no daemon of this version makes, whatever its network, its clocks or other
    daemons do: under a valid seal they are held against its sender."""


class BadFrame(AntiphonError):
    """Bytes on a client connection that are not a frame of ours."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
