"""What one member of a group does with the calls that are delivered to it.

Every member gets every call, in one order with views and changes of locks. So all of them know which calls
wait and who is to answer: with mode ONE its *assignee*, who held the handler when the call was delivered, or
was the first to hold it afterwards. It stays the assignee while it is a member; then the present holder is.
With mode ALL every member of that view is to answer.

**At most once.** The first answer in the agreed order is the one; it is remembered (`memory`), and a call
that is repeated is answered with it by the holder of its handler. The application gets a call once; and once
more if it has not answered it and has become the assignee.

**Members that come later** do not know what was answered before. One that holds a handler, or waits for it,
asks the others (ASK), and does not hand calls to its application as its own before it knows: until one of
every *part* that it comes to has told all that its part knew, or all of them have told what they know, or are
gone. Members of a merged group are in parts, too. A member that is silent although it is there (a program
that knows nothing of calls) is waited for until the driver says `waited`.

**Who speaks for the group** where one member should: each one that knows of no member before it, in the order
of the view, that takes part in calls. At first that may be several; what they say is the same.

The memory lives as long as one of the members that have it. A part of a group that is cut off answers, too,
unless its members joined with a `minimum`: then it has no holder, nothing can be sent, and what was to be
answered, asked or told there waits for the quorum. Who was to answer a call before that does not begin to
work at it in such a part either: the part with the quorum has another one for it.
"""

from collections.abc import Iterable

from antiphon import limits
from antiphon.calls.memory import Memory
from antiphon.calls.open_calls import OpenCall, OpenCalls, Prepared, learned
from antiphon.calls.values import Call, CallId, Effect, Hand, Send
from antiphon.errors import BadFrame
from antiphon.types import HANDLERS_MAX, Cause, Lock, LockChanged, Message, View, ViewId, handler_lock
from antiphon.wire.calls import (
    Answered,
    CallKind,
    CallMark,
    CallMode,
    CallStatus,
    Owed,
    Roster,
    encode_body,
    parse_memory,
)
from antiphon.wire.calls import Memory as ToldMemory

_HANDLERS = {handler_lock(handler): handler for handler in range(HANDLERS_MAX)}
_STATUSES = frozenset(CallStatus)
_FORGOTTEN = b"the call was answered before, and the answer is not known any more"
NO_VIEW = ViewId(0, 0, 0, 0)
_BUSY = b"too many calls wait for their answers"


def is_handler(lock: str) -> bool:
    """Whether a lock is that of a handler."""
    return lock in _HANDLERS


class Answerer:
    """One member's part in the calls of one group."""

    def __init__(self, group: str, me: str) -> None:
        self.group = group
        self.memory = Memory()
        self.open = OpenCalls()
        self._former: dict[CallId, OpenCall] = {}
        """What the application got in an earlier membership and that was not answered there."""
        self._effects: list[Effect] = []
        self._begin(me)

    def _begin(self, me: str) -> None:
        self._me = me
        self._members: tuple[str, ...] = ()
        self._locks: dict[int, Lock] = {}  # by handler
        self._speakers: set[str] = set()
        """Members that are known to take part in calls."""
        self._whole: set[str] = set()
        """Members that are known to know all that their part of the group knew."""
        self._covers = False
        """Whether this member knows all that its own part of the group knew."""
        self._parts: list[set[str]] = []
        """Other parts, as the members that have not told what they know."""
        self._has_asked = False
        self._told: set[str] = set()
        """Members that were there when this one told what it knows."""
        self._has_quorum = True
        self._view = NO_VIEW
        self._since = NO_VIEW
        """The view that this member came with, or that of the last merge: what was told before does not
        count."""
        self._owed: dict[CallId, tuple[CallMark, str]] = {}
        """Calls that were repeated after they had been answered, until all have seen that this was told to
        their callers: whoever was to do that may be lost."""

    # What happens in the group ----------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether it has asked what others remember, and waits for that."""
        return self._has_asked and bool(self._parts)

    def begin(self, view: View, since: ViewId, earlier: Iterable[str], now_us: int) -> list[Effect]:
        """The view in which this member begins to take part in calls, and the one that it came with, or that
        of the last merge; `earlier` are those of the members that may know of calls from before that."""
        self._members = view.members
        self._has_quorum = view.has_quorum
        self._view, self._since = view.id, since
        self._take_locks(view)
        others = set(earlier)
        self._parts = [others] if others else []
        self._note_whole()
        return self._settle(now_us)

    def view(self, view: View, now_us: int) -> list[Effect]:
        """The next view of the group."""
        before, self._members = self._members, view.members
        self._has_quorum = view.has_quorum
        self._view = view.id
        self._take_locks(view)
        # A name that is still there may be that of another session: those who came along are the same.
        along = set(view.transitional)
        for known in (self._speakers, self._whole, self._told, *self._parts):
            known &= along
        lost = [member for member in before if member not in along]
        if lost:
            self._has_asked = False  # the one that was to tell may be among them
            self._lose(lost)
        if not view.has_quorum:
            self._has_asked = False  # whoever was to tell cannot
        if view.cause is Cause.MERGE:
            self._merged(view)
        self._note_whole()
        self._assign(now_us)
        return self._settle(now_us)

    def _take_locks(self, view: View) -> None:
        self._locks = {_HANDLERS[lock.name]: lock for lock in view.locks if lock.name in _HANDLERS}

    def _merged(self, view: View) -> None:
        mine = set(view.transitional)
        others = [set(part) for part in view.parts if self._me not in part] or [set(view.changed) - mine]
        if self._parts:
            # To others, those who had come together before are one part: it does not know all of that.
            self._covers = False
        self._parts += [part for part in others if part]
        self._has_asked = False
        self._since = view.id
        self._whole &= mine
        self._told.clear()

    def lock(self, change: LockChanged, now_us: int) -> list[Effect]:
        """A lock of the group has changed."""
        handler = _HANDLERS.get(change.lock.name)
        if handler is None:
            return []
        self._locks[handler] = change.lock
        self._assign(now_us)
        return self._settle(now_us)

    def rejoin(self, me: str) -> None:
        """The session has lost its connection, or has left the group; if it joins again, it is as a new
        member. What it remembers stays true, and what its application has got is not handed to it again."""
        for call in self.open:
            if call.is_handed:
                self._former[call.id] = call
        while len(self._former) > limits.CALLS_OPEN_MAX:
            del self._former[next(iter(self._former))]
        self.open = OpenCalls()
        self._begin(me)

    def waited(self, now_us: int) -> list[Effect]:
        """Those that have not told what they know have had the time to."""
        if not self.is_waiting:
            return []
        self._parts = []
        self._note_whole()
        return self._settle(now_us)

    def take(self, mark: CallMark, message: Message, now_us: int) -> list[Effect]:
        """A message with the mark of a call was delivered to the group."""
        sender = message.sender
        if mark.kind is CallKind.REQUEST:
            self._take_request(mark, message, now_us)
            return self._taken()
        if sender in self._members:
            self._speakers.add(sender)
        # The caller takes the first answer, and cannot know whether its sender is a member, or has just left:
        # so members take the first one, too. Who knows the caller's number has got the call.
        if mark.kind is CallKind.ANSWER:
            self._take_answer(mark, message, now_us)
        elif mark.kind is CallKind.ROSTER:
            self._take_roster(mark, message, now_us)
        elif sender not in self._members:
            return []
        elif mark.kind is CallKind.ASK:
            self._take_question(sender, now_us)
        else:
            return self._take_memory(sender, message.payload, now_us)
        return self._taken()

    # Calls ------------------------------------------------------------------------------------------------

    def _take_request(self, mark: CallMark, message: Message, now_us: int) -> None:
        id = CallId(mark.caller, mark.number)
        is_known_caller = self.memory.has_room_for(mark.caller, now_us)
        if is_known_caller:
            self.memory.saw(mark.caller, mark.oldest, now_us)
        for done in self.open.done_before(mark.caller, mark.oldest):
            self.open.remove(done)
        call = self.open.get(id)
        if call is not None:
            self._repeat(call, message.sender)
            return
        if self.memory.find(id) is not None or self.memory.is_forgotten(id):
            self._owe(mark, message.sender)
        elif not is_known_caller or not self._has_room(message, now_us):
            if self._is_responsible(mark):
                self._refuse(mark, message.sender, CallStatus.BUSY, _BUSY)
        else:
            self._open(mark, message, now_us)

    def _owe(self, mark: CallMark, sender: str) -> None:
        """The caller needs the answer of a call that was answered."""
        self._owed[CallId(mark.caller, mark.number)] = (mark, sender)
        if len(self._owed) > limits.CALLS_OWED_MAX:
            del self._owed[next(iter(self._owed))]
        self._answer_again(mark, sender)

    def _note_told(self, id: CallId, message: Message) -> None:
        """A call that was answered has been told to its caller; unless that has another name now."""
        owed = self._owed.get(id)
        if owed is not None and self._reaches(message, owed[1]):
            del self._owed[id]

    def _reaches(self, message: Message, name: str) -> bool:
        return name in message.groups or name in self._members

    def _open(self, mark: CallMark, message: Message, now_us: int) -> None:
        id = CallId(mark.caller, mark.number)
        call = OpenCall(id, mark.mode, mark.handler, message, now_us + mark.timeout_ms * 1_000)
        self._resume(call)
        self.open.add(call)
        if mark.mode is CallMode.ONE:
            call.assignee = self._holder(mark.handler)
            if not call.assignee and self._speaks_first():
                self._send_roster(call, self._members, is_held=False)
        else:
            call.roster = self._members
            if self._speaks_first():
                self._send_roster(call, self._members)
        self._consider(call, now_us)
        if not call.is_handed:
            self._hand(call, is_mine=False)

    def _resume(self, call: OpenCall) -> None:
        """What the application did with it in an earlier membership counts."""
        former = self._former.pop(call.id, None)
        if former is not None:
            call.is_handed, call.is_mine = former.is_handed, former.is_mine
            call.prepared = former.prepared

    def _repeat(self, call: OpenCall, sender: str) -> None:
        """The caller has another connection and calls again; its call waits, or its answer is under way."""
        call.sender = sender
        if call.mode is CallMode.ONE:
            return  # when its answer comes, all see whether that was sent to this name
        if call.is_sent and call.prepared is not None:
            self._send_answer(call, call.prepared, self._destinations(sender))
        if self._speaks_first():
            self._send_roster(call, call.roster)

    def _answer_again(self, mark: CallMark, sender: str) -> None:
        """A call that was answered is repeated: its caller has not got the answer.

        With mode ALL each member repeats its own, to the group, too: for members that have come since, the
        call is a new one, and they wait for the others.
        """
        answered = self.memory.find(CallId(mark.caller, mark.number))
        if mark.mode is CallMode.ALL and answered is not None:
            self._tell_again(answered, mark, sender)
        if not self._is_responsible(mark):
            return
        if mark.mode is CallMode.ONE or answered is None:
            self._tell_again(answered, mark, sender)
        else:
            body = encode_body(Roster(self._members))
            self._send(self._destinations(sender), _marked(mark, CallKind.ROSTER), body)

    def _tell_again(self, answered: Answered | None, mark: CallMark, sender: str) -> None:
        if answered is None or answered.payload is None:
            self._refuse(mark, sender, CallStatus.FORGOTTEN, _FORGOTTEN)
        else:
            self._refuse(mark, sender, CallStatus(answered.status), answered.payload)

    def _take_answer(self, mark: CallMark, message: Message, now_us: int) -> None:
        id = CallId(mark.caller, mark.number)
        call = self.open.get(id)
        if mark.mode is not CallMode.ALL:
            self._former.pop(id, None)
        if mark.mode is not CallMode.ALL or mark.status is CallStatus.FORGOTTEN:
            self._note_told(id, message)
        if mark.mode is not CallMode.ALL or mark.status is CallStatus.BUSY:
            self.open.remove(id)
            self.memory.keep(id, mark.mode, mark.status, message.payload, now_us)
            if call is not None and not self._reaches(message, call.sender):
                self._owe(_marked(mark, CallKind.REQUEST), call.sender)
        elif call is not None:
            call.answered.add(message.sender)
            self._close_if_complete(call, now_us)

    def _take_roster(self, mark: CallMark, message: Message, now_us: int) -> None:
        id = CallId(mark.caller, mark.number)
        self._note_told(id, message)
        if mark.mode is CallMode.DELIVERED:
            self.open.remove(id)
            self.memory.keep(id, mark.mode, CallStatus.DONE, b"", now_us)

    def _close_if_complete(self, call: OpenCall, now_us: int) -> None:
        if call.is_complete:
            self.open.remove(call.id)
            own = call.prepared if call.is_sent else None
            status = CallStatus.FORGOTTEN if own is None else own.status
            self.memory.keep(call.id, call.mode, status, None if own is None else own.payload, now_us)

    def _lose(self, lost: Iterable[str]) -> None:
        """Members are gone: calls that they were to answer have other assignees, or are told as missing."""
        gone = set(lost)
        for call in self.open:
            if call.mode is CallMode.ONE:
                if call.assignee in gone:
                    call.assignee = ""
                continue
            fresh = [
                member
                for member in call.roster
                if member in gone and member not in call.answered and member not in call.missing
            ]
            call.missing += fresh
            if (fresh or call.mode is CallMode.DELIVERED) and self._speaks_first():
                self._send_roster(call, call.roster)
        for mark, sender in [*self._owed.values()]:
            self._answer_again(mark, sender)

    def _assign(self, now_us: int) -> None:
        """Calls that nobody is to answer go to the holder of their handler."""
        for call in self.open:
            if call.mode is CallMode.ONE:
                if not call.assignee:
                    call.assignee = self._holder(call.handler)
            else:
                self._close_if_complete(call, now_us)

    # The application --------------------------------------------------------------------------------------

    def answer(self, id: CallId, status: CallStatus, payload: bytes) -> tuple[bool, list[Effect]]:
        """The application's answer to a call: sent if this member is to answer it, or else kept in case that
        it will be. False if there is no such call any more: it was answered by another one, or its caller
        does not wait for it."""
        call = self.open.get(id) or self._former.get(id)
        if call is None or call.is_sent or call.prepared is not None:
            return False, []
        is_due = self._is_due(call) and self.open.get(id) is not None
        if is_due or call.is_mine or self.open.has_room(len(payload)):
            self.open.prepare(call, Prepared(status, payload))
        if is_due:
            self._send_prepared(call)
        return True, self._taken()

    def not_sent(self, mark: CallMark) -> None:
        """A message of this member was not sent, because the group has no quorum: so it is sent after a view
        with which it has one."""
        if mark.kind is CallKind.ASK:
            self._has_asked = False
        elif mark.kind is CallKind.MEMORY:
            self._told.clear()
        elif mark.kind is CallKind.ANSWER:
            call = self.open.get(CallId(mark.caller, mark.number))
            if call is not None:
                call.is_sent = False

    def _settle(self, now_us: int) -> list[Effect]:
        """Ask if what others remember is needed; hand out, or answer, what has become this member's."""
        self._ask()
        for call in self.open:
            self._consider(call, now_us)
        return self._taken()

    def _consider(self, call: OpenCall, now_us: int) -> None:
        """Answer a call, or hand it to the application, if that is this member's to do now."""
        if call.is_sent or not self._is_due(call):
            return
        if call.prepared is not None:
            self._send_prepared(call)
        elif not call.is_mine and now_us <= call.deadline_us:
            self._hand(call, is_mine=True)

    def _taken(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _is_due(self, call: OpenCall) -> bool:
        """Whether this member may answer it now."""
        if call.mode is CallMode.ONE:
            return call.assignee == self._me and not self._parts and self._has_quorum
        return call.mode is CallMode.ALL and self._me in call.roster

    def _hand(self, call: OpenCall, *, is_mine: bool) -> None:
        self._effects.append(
            Hand(Call(call.message, call.id, call.handler, call.mode, is_mine, call.is_handed))
        )
        call.is_handed = True
        call.is_mine = is_mine

    def _send_prepared(self, call: OpenCall) -> None:
        assert call.prepared is not None
        call.is_sent = True
        self._send_answer(call, call.prepared, self._destinations(call.sender))

    # What others remember ---------------------------------------------------------------------------------

    def _ask(self) -> None:
        if self._parts and not self._has_asked and self._has_quorum and self._is_in_line():
            self._has_asked = True
            self._send((self.group,), CallMark(CallKind.ASK), b"")

    def _is_in_line(self) -> bool:
        return any(self._me == lock.holder or self._me in lock.waiting for lock in self._locks.values())

    def _take_question(self, sender: str, now_us: int) -> None:
        if sender == self._me or sender in self._told:
            return
        if self._covers and self._has_whole_before():
            return
        floors, answered = self.memory.told()
        left_bytes = limits.CALL_TOLD_MAX_BYTES
        unanswered = []
        for call in self.open:
            left_bytes -= call.size_bytes
            if left_bytes >= 0 and call.mode is CallMode.ONE:
                unanswered.append(call.told(now_us))
        view = self._view
        place = (view.epoch, view.branch, view.lts, view.daemon)
        owed = tuple(
            Owed(mark.caller, mark.number, mark.handler, sender)
            for mark, sender in self._owed.values()
            if mark.mode is CallMode.ONE
        )
        told = ToldMemory(self._covers, place, floors, answered, tuple(unanswered), owed)
        self._told = set(self._members)
        self._send((self.group,), CallMark(CallKind.MEMORY), encode_body(told))

    def _has_whole_before(self) -> bool:
        """Whether another one that knows as much comes before this member."""
        for member in self._members:
            if member == self._me:
                return False
            if member in self._whole and not any(member in part for part in self._parts):
                return True
        return False

    def _take_memory(self, sender: str, payload: bytes, now_us: int) -> list[Effect]:
        part = next((part for part in self._parts if sender in part), None)
        if len(payload) > limits.CALL_TELLING_MAX_BYTES:
            return []
        try:
            told = parse_memory(payload)
        except BadFrame:
            return []
        if told.is_whole:
            self._whole.add(sender)
        if part is None or ViewId(*told.view) < self._since:
            return []
        self._learn(told, now_us)
        part.discard(sender)
        if told.is_whole:
            part.clear()
        self._note_whole()
        return self._settle(now_us)

    def _learn(self, told: ToldMemory, now_us: int) -> None:
        self.memory.learn(told.floors, now_us)
        unanswered = {CallId(one.caller, one.number) for one in told.unanswered}
        for old in self.open:
            # It was answered where this member was not, and its caller does not wait for it any more.
            if old.mode is CallMode.ONE and old.id not in unanswered and self.memory.is_forgotten(old.id):
                self.open.remove(old.id)
        for answer in told.answered:
            id = CallId(answer.caller, answer.number)
            if answer.mode != CallMode.ONE or answer.status not in _STATUSES:
                continue
            self.memory.keep(id, CallMode.ONE, CallStatus(answer.status), answer.payload, now_us)
            call = self.open.remove(id)
            if call is not None and call.assignee == self._me:
                # It was repeated since this member came, which is why it seemed to be a new one.
                self._tell_again(answer, _request(id, call.handler), call.sender)
        for one in told.unanswered:
            call = learned(one, now_us)
            if call is None or call.mode is not CallMode.ONE or call.message.group != self.group:
                continue
            self._learn_open(call, now_us)
        for owed in told.owed:
            id = CallId(owed.caller, owed.number)
            if owed.handler in range(HANDLERS_MAX) and self.memory.find(id) is not None:
                self._owe(_request(id, owed.handler), owed.sender)

    def _learn_open(self, call: OpenCall, now_us: int) -> None:
        known = self.open.get(call.id)
        if known is not None:
            known.assignee = known.assignee or call.assignee
            return
        if self.memory.find(call.id) is not None:
            # Answered since that was told; perhaps to a name that the caller had before.
            self._owe(_request(call.id, call.handler), call.sender)
            return
        if self.memory.is_forgotten(call.id):
            return
        if self._has_room(call.message, now_us):
            if call.assignee not in self._members:
                call.assignee = self._holder(call.handler)
            self._resume(call)
            self.open.add(call)

    def _note_whole(self) -> None:
        self._parts = [part for part in self._parts if part]
        if not self._parts:
            self._covers = True

    # Small questions --------------------------------------------------------------------------------------

    def _holder(self, handler: int) -> str:
        lock = self._locks.get(handler)
        return "" if lock is None else lock.holder

    def _speaks_first(self) -> bool:
        """Whether this member knows of none before it that takes part in calls."""
        for member in self._members:
            if member == self._me:
                return True
            if member in self._speakers:
                return False
        return False

    def _is_responsible(self, mark: CallMark) -> bool:
        """Whether this member answers a call again, or refuses it."""
        holder = self._holder(mark.handler) if mark.mode is CallMode.ONE else ""
        return holder == self._me if holder else self._speaks_first()

    def _has_room(self, message: Message, now_us: int) -> bool:
        if self.open.has_room(len(message.payload)):
            return True
        for call in self.open:
            if call.deadline_us < now_us and not call.is_mine:
                self.open.remove(call.id)
                self.memory.keep(call.id, call.mode, CallStatus.FORGOTTEN, None, now_us)
        return self.open.has_room(len(message.payload))

    # Messages ---------------------------------------------------------------------------------------------

    def _send(self, groups: tuple[str, ...], mark: CallMark, payload: bytes) -> None:
        self._effects.append(Send(groups, mark, payload))

    def _send_answer(self, call: OpenCall, answer: Prepared, groups: tuple[str, ...]) -> None:
        mark = CallMark(
            CallKind.ANSWER, call.mode, call.handler, answer.status, 0, call.id.caller, call.id.number
        )
        self._send(groups, mark, answer.payload)

    def _send_roster(self, call: OpenCall, members: tuple[str, ...], *, is_held: bool = True) -> None:
        mark = CallMark(
            CallKind.ROSTER, call.mode, call.handler, caller=call.id.caller, number=call.id.number
        )
        body = encode_body(Roster(members, tuple(call.missing), is_held))
        self._send(self._destinations(call.sender), mark, body)

    def _destinations(self, sender: str) -> tuple[str, ...]:
        """The group and the caller, who may be a member."""
        return (self.group,) if sender in self._members else (self.group, sender)

    def _refuse(self, mark: CallMark, sender: str, status: CallStatus, payload: bytes) -> None:
        """Answer a call that is not open. The group hears it, too: so all know that this was done, and of a
        call that is refused as one too many, that this was its answer."""
        self._send(self._destinations(sender), _marked(mark, CallKind.ANSWER, status), payload)


def _marked(mark: CallMark, kind: CallKind, status: CallStatus = CallStatus.DONE) -> CallMark:
    return CallMark(kind, mark.mode, mark.handler, status, 0, mark.caller, mark.number)


def _request(id: CallId, handler: int) -> CallMark:
    return CallMark(CallKind.REQUEST, handler=handler, caller=id.caller, number=id.number)
