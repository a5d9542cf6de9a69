"""Sessions: the clients of this daemon, what they have asked for, and whose turn it is."""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from antiphon import limits
from antiphon.core.groups.events import GroupEvent
from antiphon.types import private_name
from antiphon.wire import bundle
from antiphon.wire.bundle import Header

PRIORITIES = 10


class Pending(Struct):
    """A bundle of a session that waits for its turn to be ordered."""

    bundle: bytearray
    header: Header
    event: GroupEvent | None = None


class Session:
    """One client of this daemon."""

    def __init__(
        self, number: int, name: str, daemon: str, *, priority: int, views: bool, accepts: bool
    ) -> None:
        self.number = number
        self.name = name
        self.private_name = private_name(name, daemon)
        self.sender_area = bundle.names_area(self.private_name, ())
        self.priority = priority
        self.views = views
        self.accepts = accepts
        """Whether it is told which of its messages are at every daemon that must have them."""
        self.sequence = 1
        """Of its next message."""
        self.last_number = 0
        """Of its last bundle among the daemon's in this daemon view."""
        self.input: deque[Pending] = deque()
        self.input_bytes = 0
        self.groups: dict[str, int] = {}
        """Groups it asked to join and did not ask to leave -> which of its joins that was."""
        self.joins_asked = 0
        self.joins_done = 0
        """How many of its joins have taken effect; they do so in the order of asking."""
        self.is_leaving = False
        """Its end is ordered or about to be: nothing more goes to it."""
        self.is_connected = True

    def is_settled_in(self, group: str) -> bool:
        """Whether it is a member of `group` and has not asked to leave it."""
        return 0 < self.groups.get(group, 0) <= self.joins_done


class Sessions:
    """The sessions of one daemon, and the queues between them and the order.

    Follows: Spread paper, section 2 (one queue a session, priorities): sessions with a higher priority go
    first; among equals, they take turns bundle by bundle.
    """

    def __init__(self, daemon: str) -> None:
        self.input_bytes = 0
        self.waiting = 0
        """Bundles that wait for their turn."""
        self._daemon = daemon
        self._sessions: dict[int, Session] = {}
        self._names: set[str] = set()
        self._newest = 0
        self._turns: list[deque[Session]] = [deque() for _ in range(PRIORITIES)]

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, number: int) -> Session | None:
        return self._sessions.get(number)

    def is_taken(self, name: str) -> bool:
        return name in self._names

    def free_name(self) -> str:
        """A name for a client that does not care."""
        number = self._newest + 1
        while f"s{number}" in self._names:
            number += 1
        return f"s{number}"

    def add(self, name: str, *, priority: int, views: bool, accepts: bool = False) -> Session:
        self._newest += 1
        session = Session(self._newest, name, self._daemon, priority=priority, views=views, accepts=accepts)
        self._sessions[session.number] = session
        self._names.add(name)
        return session

    def remove(self, session: Session) -> None:
        self._names.discard(session.name)
        self._sessions.pop(session.number, None)

    def put(self, session: Session, pending: Pending) -> None:
        """Queue a bundle behind what the session sent before."""
        if not session.input:
            self._turns[session.priority].append(session)
        session.input.append(pending)
        session.input_bytes += len(pending.bundle)
        self.input_bytes += len(pending.bundle)
        self.waiting += 1

    def take(self) -> tuple[Session, Pending] | None:
        """The bundle whose turn it is."""
        for turns in reversed(self._turns):
            if turns:
                session = turns.popleft()
                pending = session.input.popleft()
                session.input_bytes -= len(pending.bundle)
                self.input_bytes -= len(pending.bundle)
                self.waiting -= 1
                if session.input:
                    turns.append(session)
                return session, pending
        return None

    def wants_input(self, session: Session) -> bool:
        """Whether its queue has room."""
        return session.input_bytes < limits.SESSION_INPUT_MAX_BYTES and not session.is_leaving
