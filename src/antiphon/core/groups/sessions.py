"""Sessions: the clients of this daemon, their requests, and which session may send next."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from antiphon import limits
from antiphon.core.access.rights import Rights
from antiphon.core.groups.backlog import Lag
from antiphon.service import Service
from antiphon.types import PRIORITY_MAX, SlowPolicy, private_name
from antiphon.wire import bundle
from antiphon.wire.bundle import Header
from antiphon.wire.events import GroupEvent
from antiphon.wire.gathering import Gathering, are_alike


class Denial(Struct, frozen=True):
    """Why messages of a session are not sent: the access list does not allow it."""

    name: str
    """The group or the private name to which the session may not send; empty for what was told already."""
    reason: str = ""


NOTHING = GroupEvent("unlock")
"""What stands in the place of a request that is not carried out: it has its number, and no effect."""


class Pending(Struct):
    """A bundle of a session that waits for its turn to be ordered, and those that will travel with it."""

    bundle: bytearray
    header: Header
    event: GroupEvent | None = None
    gathering: Gathering | None = None
    """What it has become one with, once there is something."""
    denial: Denial | None = None
    """With the event NOTHING: why it is not sent."""

    @property
    def size_bytes(self) -> int:
        """The bytes of all that waits here."""
        return len(self.bundle) if self.gathering is None else self.gathering.came_bytes

    def joined(self) -> "Pending":
        """The one bundle that travels."""
        return self if self.gathering is None else Pending(*self.gathering.join())


class Session:
    """One client of this daemon."""

    def __init__(
        self,
        number: int,
        name: str,
        daemon: str,
        *,
        priority: int,
        views: bool,
        accepts: bool,
        slow: SlowPolicy,
        warnings: bool,
        refusals: bool,
        sponsor: int = 0,
        rights: Rights | None = None,
    ) -> None:
        self.number = number
        self.speaker = sponsor or number
        """The connection over which it is told something: its own, or that of the edge where it is."""
        self.sponsored_number = number if sponsor else 0
        """How an edge's connection is told whom something is for."""
        self.name = name
        self.private_name = private_name(name, daemon)
        self.sender_area = bundle.names_area(self.private_name, ())
        self.priority = priority
        self.views = views
        self.accepts = accepts
        """Whether it is told which of its messages are at every daemon that must have them."""
        self.slow = slow
        """The policy that applies if it does not keep up."""
        self.refusals = refusals
        """Whether what it sends to a group without quorum is refused; otherwise it waits."""
        self.warnings = warnings
        """Whether it is warned when it does not keep up."""
        self.lag = Lag.NONE
        """How well it keeps up with its output."""
        self.warned = 0
        """How often it fell behind."""
        self.dropped_messages = 0
        """How many unreliable messages were not delivered to it because it was behind."""
        self.sequence = 1
        """The sequence of its next message."""
        self.last_number = 0
        """The number of its last bundle in this daemon view."""
        self.input: deque[Pending] = deque()
        self.input_bytes = 0
        self.groups: dict[str, int] = {}
        """Groups it asked to join and did not ask to leave -> which of its joins that was."""
        self.wished: set[Service] = set()
        """The services that it has chosen with its joins."""
        self.ceilings: dict[str, Service] = {}
        """The service that it wants at the most in each group where it chose one, as its last join there that
        has taken effect says."""
        self.locks: set[tuple[str, str]] = set()
        """Group and name of the locks that it has asked for and not given back."""
        self.joins_asked = 0
        self.joins_done = 0
        """How many of its joins have taken effect; they do so in the order of asking."""
        self.is_leaving = False
        """Whether its end is ordered or about to be: nothing more is delivered to it."""
        self.is_connected = True
        self.rights = rights
        """What it may do; None: everything."""
        self.rights_seen = 0
        """Which state of its rights was looked at last."""

    def is_staying_in(self, group: str) -> bool:
        """Whether it is a member of `group` and has not asked to leave it."""
        return 0 < self.groups.get(group, 0) <= self.joins_done


class Sessions:
    """The sessions of one daemon, and the queues between them and the order.

    Follows: Spread paper, section 2 (one queue a session, priorities): sessions with a higher priority go
    first; among equals, they take turns bundle by bundle. What one session sent stays in its order.
    Deviations:
    - no session starves: after `limits.PRIORITY_TURNS` bundles of higher priority the lower one that has
      waited so long has a turn; so each of P priorities in use gets at least one turn in PRIORITY_TURNS + P
    - turns alone would not expedite much, since what is under way cannot be overtaken: while a session of
      higher priority is active, lower ones must leave room (`limits.PRIORITY_SHARE`)
    """

    def __init__(self, daemon: str) -> None:
        self.is_closed = False
        """Whether the daemon stops: no session comes, and nothing more is taken from those that are there."""
        self.input_bytes = 0
        self.waiting = 0
        """Bundles that wait for their turn."""
        self.warned = 0
        self.dropped_messages = 0
        self.dropped_bytes = 0
        """The size of the messages that were not delivered to slow sessions, since the start."""
        self.dropping: set[int] = set()
        """The sessions that get no unreliable messages now."""
        self.viewers: set[int] = set()
        """The sessions that want to be told of views."""
        self._daemon = daemon
        self._sessions: dict[int, Session] = {}
        self._names: dict[str, Session] = {}
        self._newest = 0
        self.sponsor_rights: dict[int, Rights] = {}
        """What edges may do, by the number of each, where there is an access list."""
        self._sponsored: dict[int, dict[int, Session]] = {}  # by the connection of their edge
        self._turns: dict[int, deque[Session]] = {}  # by priority, highest first; only those in use
        self._passed: dict[int, int] = {}  # by priority: how many turns of higher ones it has waited for
        self._parked: dict[int, Session] = {}  # by number: the first bundle of each waits for a slow receiver
        self._active_us: dict[int, int] = {}  # by priority above 0: when a session has last sent something

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, number: int) -> Session | None:
        return self._sessions.get(number)

    def bearer(self, name: str) -> Session | None:
        """The session that has taken this name, until its end is delivered."""
        return self._names.get(name)

    def named(self, name: str) -> Session | None:
        """The session with this private name."""
        session = self._names.get(name[1:].partition("#")[0])
        return session if session is not None and session.private_name == name else None

    def free_name(self) -> str:
        """A name for a client that does not care."""
        number = self._newest + 1
        while f"s{number}" in self._names:
            number += 1
        return f"s{number}"

    def add(
        self,
        name: str,
        *,
        priority: int,
        views: bool,
        accepts: bool = False,
        slow: SlowPolicy = "disconnect",
        warnings: bool = False,
        refusals: bool = False,
        edge: str = "",
        sponsor: int = 0,
        rights: Rights | None = None,
    ) -> Session:
        """With `sponsor`, a session at an edge, which is connected there: it may send, and nothing comes to
        it."""
        assert 0 <= priority <= PRIORITY_MAX
        session = Session(
            self.take_number(),
            name,
            edge or self._daemon,
            priority=priority,
            views=views,
            accepts=accepts,
            slow=slow,
            warnings=warnings,
            refusals=refusals,
            sponsor=sponsor,
            rights=rights,
        )
        self._sessions[session.number] = session
        if sponsor:
            self._sponsored.setdefault(sponsor, {})[session.number] = session
            return session
        self._names[name] = session
        if views:
            self.viewers.add(session.number)
        return session

    def take_number(self) -> int:
        """The number of a new session, or of an edge."""
        self._newest += 1
        return self._newest

    def sponsored(self, sponsor: int) -> dict[int, Session]:
        """The sessions at one edge, by number."""
        return self._sponsored.get(sponsor, {})

    def remove(self, session: Session) -> None:
        if session.sponsored_number:
            self._sponsored[session.speaker].pop(session.number, None)
            if not self._sponsored[session.speaker]:
                del self._sponsored[session.speaker]
        else:
            self._names.pop(session.name, None)
        self._sessions.pop(session.number, None)
        self.viewers.discard(session.number)

    @property
    def wished(self) -> frozenset[Service]:
        """The services that sessions here have chosen with their joins."""
        staying = (session.wished for session in self._sessions.values() if not session.is_leaving)
        return frozenset[Service]().union(*staying)

    def drop(self, number: int, messages: int, size_bytes: int) -> None:
        """An unreliable bundle is not given to a session that is behind."""
        session = self._sessions.get(number)
        if session is not None:
            session.dropped_messages += messages
        self.dropped_messages += messages
        self.dropped_bytes += size_bytes

    def sent(self, session: Session, now_us: int) -> None:
        """A session with a priority has sent something."""
        self._active_us[session.priority] = now_us

    def active_priority(self, now_us: int) -> int:
        """The highest priority of the sessions that have sent something lately."""
        if not self._active_us:
            return 0
        return max(
            (
                priority
                for priority, sent_us in self._active_us.items()
                if now_us - sent_us < limits.PRIORITY_ACTIVE_US
            ),
            default=0,
        )

    def put(self, session: Session, pending: Pending) -> None:
        """Queue a bundle behind what the session sent before."""
        if not session.input:
            self._queue(session)
        session.input.append(pending)
        self._grew(session, len(pending.bundle))
        self.waiting += 1

    def gather(self, session: Session, bundle: bytearray, header: Header) -> bool:
        """Let a bundle travel with the one that the session sent before it, if that still waits and the two
        differ in nothing but their messages."""
        if not session.input:
            return False
        last = session.input[-1]
        if last.event is not None or not are_alike(last.header, header):
            return False
        if last.gathering is None:
            last.gathering = Gathering(last.bundle, last.header)
        if not last.gathering.add(bundle, header):
            return False
        self._grew(session, header.length)
        return True

    def gather_run(self, session: Session, bundles: Sequence[bytearray | memoryview], at: int) -> int:
        """As `gather`, for as many of these unchecked bundles, from `at` on, as have the header of those that
        are being gathered already; how many."""
        if not session.input or (gathering := session.input[-1].gathering) is None:
            return 0
        before_bytes = gathering.came_bytes
        taken = gathering.add_run(bundles, at)
        self._grew(session, gathering.came_bytes - before_bytes)
        return taken

    def _grew(self, session: Session, size_bytes: int) -> None:
        session.input_bytes += size_bytes
        self.input_bytes += size_bytes

    def _queue(self, session: Session) -> None:
        """Let a session wait for its turn among those of its priority."""
        turns = self._turns.get(session.priority)
        if turns is None:
            turns = self._begin_turns(session.priority)
        turns.append(session)

    @property
    def has_parked(self) -> bool:
        return bool(self._parked)

    @property
    def parked(self) -> list[Session]:
        """The sessions whose next bundle waits for a slow receiver."""
        return list(self._parked.values())

    def unpark(self) -> None:
        """Parked sessions may not have to wait for slow receivers any more: each has its turn again."""
        parked, self._parked = self._parked, {}
        for session in parked.values():
            self._queue(session)

    def has_turn(self, lowest: int = 0) -> bool:
        """Whether a bundle waits that has this priority at least, or has waited too long."""
        return any(
            priority >= lowest or self._passed[priority] >= limits.PRIORITY_TURNS for priority in self._turns
        )

    def take(
        self, lowest: int = 0, must_wait: Callable[[Session, Pending], bool] | None = None
    ) -> tuple[Session, Pending] | None:
        """The bundle whose turn it is among those of this priority at least; None if none waits. A session
        whose first bundle `must_wait` stops is parked until `unpark`."""
        while self._turns and not (lowest and not self.has_turn(lowest)):
            priority = next(iter(self._turns))
            if len(self._turns) > 1:
                priority = self._pass(priority)
            session = self._turns[priority].popleft()
            if must_wait is None or not must_wait(session, session.input[0]):
                self._passed[priority] = 0
                return session, self._take_first(session)
            self._parked[session.number] = session
            self._end_turns(priority)
        return None

    def _take_first(self, session: Session) -> Pending:
        """The first bundle of the session that has the turn."""
        pending = session.input.popleft()
        self._grew(session, -pending.size_bytes)
        self.waiting -= 1
        if session.input:
            self._turns[session.priority].append(session)
        else:
            self._end_turns(session.priority)
        return pending.joined()

    def _end_turns(self, priority: int) -> None:
        """A priority is out of use when none of its sessions waits."""
        if not self._turns[priority]:
            del self._turns[priority], self._passed[priority]

    def _begin_turns(self, priority: int) -> deque[Session]:
        """A priority comes into use: its place is among the others, which are few."""
        turns: deque[Session] = deque()
        self._passed[priority] = 0
        self._turns[priority] = turns
        self._turns = dict(sorted(self._turns.items(), reverse=True))
        return turns

    def _pass(self, highest: int) -> int:
        """The priority whose turn it is where several wait: the highest, unless one has waited too long."""
        passed = self._passed
        chosen = next(
            (priority for priority in self._turns if passed[priority] >= limits.PRIORITY_TURNS), highest
        )
        for priority in self._turns:
            if priority < chosen:
                passed[priority] += 1
        return chosen

    def input_room(self, number: int) -> int:
        """How many bytes there is room for in its queue; of an edge, in the fullest queue of a session
        there."""
        most = limits.SESSION_INPUT_MAX_BYTES
        session = self._sessions.get(number)
        if session is not None:
            return max(0, most - session.input_bytes)
        full = max((session.input_bytes for session in self.sponsored(number).values()), default=0)
        return max(0, most - full)

    def wants_input(self, session: Session) -> bool:
        """Whether its queue has room."""
        has_room = session.input_bytes < limits.SESSION_INPUT_MAX_BYTES
        return has_room and not session.is_leaving and not self.is_closed
