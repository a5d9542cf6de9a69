"""The requests of clients, checked and queued in the order in which they come."""

from collections.abc import Sequence

from antiphon import limits
from antiphon.core.access.rights import AT_LIMIT, NOT_ALLOWED, Rights
from antiphon.core.groups.delivery import Frames
from antiphon.core.groups.sessions import NOTHING, Denial, Pending, Session, Sessions
from antiphon.errors import BadFrame, UsageError
from antiphon.service import Service
from antiphon.types import (
    ALL,
    DELIVERIES,
    PRIORITY_MAX,
    SLOW_POLICIES,
    SlowPolicy,
    check_destination,
    check_group,
    check_lock,
    check_name,
)
from antiphon.wire import bundle as bundles
from antiphon.wire import frames
from antiphon.wire.bundle import Header
from antiphon.wire.calls import CallKind, mark_of
from antiphon.wire.edges import FromEdge
from antiphon.wire.events import GroupEvent, event_bundle

_CHECKED_MAX = 4_096


class Requests:
    """Turns a session's requests into bundles that wait for their turn, or into a clear refusal."""

    def __init__(
        self, daemon: str, daemon_number: int, sessions: Sessions, output: Frames, slow_policy: SlowPolicy
    ) -> None:
        self._daemon = daemon
        self._slow_policy: SlowPolicy = slow_policy
        self._daemon_number = daemon_number
        self._sessions = sessions
        self._output = output
        self._checked: set[bytes] = set()  # names areas whose groups may exist

    def connect(
        self, request: frames.Connect, rights: Rights | None = None
    ) -> frames.Welcome | frames.Refuse:
        """A session with these rights, or the reason why not."""
        if request.version != frames.PROTOCOL_VERSION:
            return frames.Refuse(
                "version", f"this daemon speaks version {frames.PROTOCOL_VERSION}, not {request.version}"
            )
        if self._sessions.is_closed:
            return frames.Refuse(frames.STOPPING, frames.STOPPING_REASON)
        if len(self._sessions) >= limits.SESSIONS_MAX:
            return frames.Refuse("full", f"this daemon has its {limits.SESSIONS_MAX} sessions")
        if not 0 <= request.priority <= PRIORITY_MAX:
            return frames.Refuse("priority", f"priority {request.priority} is not from 0 to {PRIORITY_MAX}")
        if rights is not None and (refusal := _refused(request, rights)) is not None:
            return refusal
        slow = next((policy for policy in SLOW_POLICIES if policy == request.slow), self._slow_policy)
        if request.slow and slow != request.slow:
            known = ", ".join(SLOW_POLICIES)
            return frames.Refuse(
                "slow", f"no policy for slow receivers is called {request.slow[:40]!r}; known: {known}"
            )
        name = request.name or self._sessions.free_name()
        try:
            check_name(name, "session", limits.SESSION_NAME_MAX_BYTES)
        except UsageError as error:
            return frames.Refuse("name", str(error))
        bearer = self._sessions.bearer(name)
        if bearer is not None:
            state = "is leaving" if bearer.is_leaving else "is connected to"
            return frames.Refuse("name-taken", f"a session called {name!r} {state} daemon {self._daemon!r}")
        session = self._sessions.add(
            name,
            priority=request.priority,
            views=request.views,
            accepts=request.accepts,
            slow=slow,
            warnings=request.warnings,
            refusals=request.refusals,
            rights=rights,
        )
        if rights is not None:
            rights.usage.sessions += 1
        return frames.Welcome(
            version=frames.PROTOCOL_VERSION,
            session=session.number,
            name=session.private_name,
            daemon=self._daemon,
            daemon_number=self._daemon_number,
            message_max_bytes=limits.MESSAGE_MAX_BYTES,
        )

    def submit(self, session: Session, data: Sequence[bytearray | memoryview]) -> None:
        """Queue a client's bundles; BadFrame for the first one that is not what a client may send.

        One that waits is joined by those behind it that differ from it in their messages alone
        (`wire.gathering`): they have one turn and travel as one.
        """
        sessions, rights = self._sessions, session.rights
        at = 0
        while at < len(data):
            if rights is not None and session.rights_seen != rights.renewals:
                session.rights_seen, taken = rights.renewals, 0  # what waits was allowed by another list
            else:
                taken = sessions.gather_run(session, data, at)
            if taken:
                at += taken
                continue
            bundle = data[at]
            if type(bundle) is not bytearray:
                bundle = bytearray(bundle)
            header = bundles.parse_from_client(bundle)
            self._check_names(header.names, session)
            if rights is not None and (header.extensions or header.names not in rights.allowed):
                denial = _denial(header, rights)
                if denial is not None:
                    self._deny(session, Pending(bundle, header, NOTHING, denial=denial))
                    at += 1
                    continue
            header = bundles.correct_sent_us(bundle, header)
            if not sessions.gather(session, bundle, header):
                sessions.put(session, Pending(bundle, header))
            at += 1

    def _check_names(self, area: bytes, session: Session) -> None:
        """Clients send as themselves only, and to names that can exist."""
        if not area.startswith(session.sender_area):
            raise BadFrame("bundle: sent under another name")
        if area in self._checked:
            return
        try:
            for name in bundles.parse_names(area)[1:]:
                check_destination(name)
        except UsageError as error:
            raise BadFrame(str(error)) from None
        if len(self._checked) >= _CHECKED_MAX:
            self._checked.clear()
        self._checked.add(area)

    def control(self, session: Session, request: frames.FromClient | FromEdge) -> None:
        """Queue what a control frame asks for, or tell the session why not."""
        if isinstance(request, frames.Join):
            self._join(session, request)
        elif isinstance(request, frames.Leave):
            self._leave(session, request.group)
        elif isinstance(request, frames.AskLock):
            self._lock(session, request.group, request.name, request.wait)
        elif isinstance(request, frames.Unlock):
            self._unlock(session, request.group, request.name)
        elif isinstance(request, frames.Disconnect):
            self.end(session)
        else:
            self._problem(session, "unexpected", f"{type(request).__name__} is not possible now")

    def _join(self, session: Session, request: frames.Join) -> None:
        group, minimum, delivery = request.group, request.minimum, request.delivery
        try:
            check_group(group)
        except UsageError as error:
            self._problem(session, "group-name", str(error))
            return
        if not ALL <= minimum <= limits.MINIMUM_MAX:
            self._problem(session, "minimum", f"no group has a quorum of {minimum}")
        elif delivery and delivery not in DELIVERIES.values():
            self._problem(session, "delivery", f"a member cannot choose the service {delivery}")
        elif session.rights is not None and (refusal := _cannot_join(session.rights, group)) is not None:
            self._deny_request(session, "join", group, *refusal)
        elif group in session.groups:
            self._problem(session, "already-joined", f"this session has joined {group!r} already")
        elif len(session.groups) >= limits.GROUPS_PER_SESSION_MAX:
            most = limits.GROUPS_PER_SESSION_MAX
            self._problem(session, "too-many-groups", f"a session joins {most:,} groups at most")
        else:
            if session.rights is not None:
                session.rights.usage.groups += 1
            session.joins_asked += 1
            session.groups[group] = session.joins_asked
            if delivery:
                session.wished.add(Service(delivery))
            self._put(session, GroupEvent("join", group, minimum=minimum, delivery=delivery))

    def _leave(self, session: Session, group: str) -> None:
        if group not in session.groups:
            name = group[: limits.GROUP_NAME_MAX_BYTES + 1]  # an answer is no longer than a name can be
            self._problem(session, "not-joined", f"this session has not joined {name!r}")
            return
        del session.groups[group]
        if session.rights is not None:
            session.rights.usage.groups -= 1
        session.locks -= {lock for lock in session.locks if lock[0] == group}
        self._put(session, GroupEvent("leave", group))

    def _lock(self, session: Session, group: str, name: str, waits: bool) -> None:
        if not self._may_lock(session, group, name):
            return
        if session.rights is not None and (reason := session.rights.missing("lock", group)):
            self._deny_request(session, "lock", group, NOT_ALLOWED, reason, name)
            return
        if (group, name) not in session.locks and len(session.locks) >= limits.LOCKS_PER_SESSION_MAX:
            most = limits.LOCKS_PER_SESSION_MAX
            self._problem(session, "too-many-locks", f"a session holds or waits for {most:,} locks at most")
            return
        session.locks.add((group, name))
        self._put(session, GroupEvent("lock", group, lock=name, wait=waits))

    def _unlock(self, session: Session, group: str, name: str) -> None:
        if self._may_lock(session, group, name):
            session.locks.discard((group, name))
            self._put(session, GroupEvent("unlock", group, lock=name))

    def _may_lock(self, session: Session, group: str, name: str) -> bool:
        """Whether the request is one for a lock of a group that the session has joined; it is told if not."""
        try:
            check_group(group)
            check_lock(name)
        except UsageError as error:
            self._problem(session, "lock-name", str(error))
            return False
        if group not in session.groups:
            self._problem(session, "not-joined", f"this session has not joined {group!r}")
            return False
        return True

    def end(self, session: Session) -> None:
        """The session is over: everything that it sent is ordered before its end."""
        if session.rights is not None and not session.is_leaving and not session.sponsored_number:
            session.rights.usage.sessions -= 1
            session.rights.usage.groups -= len(session.groups)
        session.is_leaving = True
        session.groups.clear()
        self._put(session, GroupEvent("disconnect"))

    def _deny(self, session: Session, pending: Pending) -> None:
        """Something of a session is not sent: it is told when the numbers before it have had their turn."""
        assert session.rights is not None
        session.rights.has_refused = True
        self._sessions.put(session, pending)

    def _deny_request(
        self, session: Session, verb: str, group: str, code: str, reason: str, lock: str = ""
    ) -> None:
        """A join or a lock is refused. It has its number all the same: the library has counted it."""
        denied = frames.Denied(verb, group, code, reason, lock)
        self._output.append(((session.speaker,), frames.encode_control(denied), None))
        draft = event_bundle(session.private_name, NOTHING)
        self._deny(session, Pending(draft.data, draft.header, NOTHING, denial=Denial("")))

    def _put(self, session: Session, event: GroupEvent) -> None:
        draft = event_bundle(session.private_name, event)
        self._sessions.put(session, Pending(draft.data, draft.header, event))

    def _problem(self, session: Session, code: str, reason: str) -> None:
        frame = frames.encode_control(frames.Problem(code, reason, session.sponsored_number))
        self._output.append(((session.speaker,), frame, None))


# The access list ------------------------------------------------------------------------------------------


def denial_of(session: Session, pending: Pending, denial: Denial) -> frames.NotSent | None:
    """How a session is told that its messages are not sent; None if it was told already."""
    if not denial.name:
        return None
    count, number = pending.header.message_count, session.sponsored_number
    return frames.NotSent(denial.name, session.sequence, count, number, denial.reason)


def _refused(request: frames.Connect, rights: Rights) -> frames.Refuse | None:
    """Why a user gets no session of this kind."""
    user, usage = rights.user, rights.usage
    if request.priority > user.priority_max:
        reason = f"user {user.name!r} may have priority {user.priority_max} at most, not {request.priority}"
        return frames.Refuse(NOT_ALLOWED, reason)
    if not usage.has_room_for_session:
        reason = f"user {user.name!r} has its {usage.limits.sessions:,} sessions at this daemon"
        return frames.Refuse(AT_LIMIT, reason)
    return None


def _cannot_join(rights: Rights, group: str) -> tuple[str, str] | None:
    """Code and reason if a session may not join a group."""
    if reason := rights.missing("join", group):
        return NOT_ALLOWED, reason
    if not rights.usage.has_room_for_group:
        most = rights.usage.limits.groups
        reason = f"the sessions of user {rights.user.name!r} are in {most:,} groups, as many as they may"
        return AT_LIMIT, reason
    return None


def _denial(header: Header, rights: Rights) -> Denial | None:
    """Why a bundle may not be sent; what may is remembered, unless it belongs to a call.

    Who may join a group that answers calls may take part in its answers: they go to members, and to the
    private name of the caller.
    """
    names = bundles.parse_names(header.names)[1:]
    mark = mark_of(header.extensions)
    for name in names:
        if mark is None:
            reason = rights.missing("send", name)
        elif mark.kind is CallKind.REQUEST:
            reason = rights.missing("call", name)
        elif mark.kind is CallKind.ANSWER and name.startswith("#"):
            reason = ""
        else:
            reason = rights.missing("join", name)
        if reason:
            return Denial(name, reason)
    if mark is None:
        rights.remember(header.names)
    return None
