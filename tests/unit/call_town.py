"""Sessions with the machines of calls, a group in one total order, and locks: what daemons do, in one object.

Messages, views and changes of locks are put into one order and delivered to every session that gets them, one
by one, when a test lets it: so any crash can come between any two of them.
"""

from collections import Counter

from antiphon.calls import Call, CallDesk, CallId, Hand, Result, Send
from antiphon.service import Service
from antiphon.types import Cause, Envelope, Lock, LockCause, LockChanged, Message, View, ViewId, handler_lock
from antiphon.wire.calls import CallKind, CallMark, CallMode, CallStatus

GROUP = "service"


class Person:
    """A session object: a desk, what its application has got, and its name now."""

    def __init__(self, town: "Town", caller: int, name: str) -> None:
        self.town = town
        self.name = name
        self.desk = CallDesk(caller, name)
        self.calls: list[Call] = []
        self.results: list[Result] = []
        self.plain: list[Message] = []
        self.refused: list[CallId] = []
        self.is_open = True

    def do(self, effects: list) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.town.send(self.name, effect.groups, effect.mark, effect.payload)
            else:
                assert isinstance(effect, Hand)
                self.calls.append(effect.call)
                if effect.call.is_mine and effect.call.id in self.town.answered:
                    self.town.wrongs.append(f"{self.name} got {effect.call.id}, which was answered")

    def call(self, payload: bytes = b"?", handler: int = 0, mode: CallMode = CallMode.ONE) -> CallId:
        id, send = self.desk.caller.call(GROUP, payload, handler=handler, mode=mode, timeout_ms=60_000)
        self.do([send])
        return id

    def answer(self, call: Call, payload: bytes, status: CallStatus = CallStatus.DONE) -> bool:
        is_taken, effects = self.desk.answer(GROUP, call.id, status, payload)
        self.do(effects)
        return is_taken

    def wants(self, handler: int = 0) -> None:
        self.town.lock(self.name, handler)

    @property
    def mine(self) -> list[Call]:
        return [call for call in self.calls if call.is_mine]


class Town:
    """One group, and all sessions."""

    def __init__(self) -> None:
        self.people: dict[str, Person] = {}
        self.members: tuple[str, ...] = ()
        self.locks: dict[str, Lock] = {}
        self.queue: list[tuple[frozenset[str], object]] = []
        self.answered: set[CallId] = set()
        self.wrongs: list[str] = []
        self.now_us = 0
        self.has_quorum = True
        self._sequence = 0
        self._numbers: Counter[str] = Counter()

    def person(self, name: str, caller: int | None = None) -> Person:
        self._numbers[name] += 1
        return self.people.setdefault(
            name, Person(self, caller if caller is not None else 1_000 + len(self.people), name)
        )

    # What daemons do --------------------------------------------------------------------------------------

    def send(self, sender: str, groups: tuple[str, ...], mark: CallMark, payload: bytes) -> None:
        self._sequence += 1
        envelope = Envelope(sender, groups, Service.AGREED, 0, 0, 0, 0, self._sequence, self._sequence, 0)
        if GROUP in groups and not self.has_quorum:
            self.queue.append((frozenset((sender,)), mark))
            return
        receivers = {name for group in groups for name in (self.members if group == GROUP else (group,))}
        self.queue.append((frozenset(receivers), (mark, Message(payload, envelope, 0))))

    def join(self, person: Person) -> None:
        before = self.members
        self.members = (*before, person.name)
        self._view(Cause.JOIN, (person.name,), before)

    def lose(self, *people: Person) -> None:
        """They are gone, with what they have not got."""
        gone = {person.name for person in people}
        for person in people:
            person.is_open = False
            self.people.pop(person.name, None)
        for name, lock in self.locks.items():
            self.locks[name] = self._without(lock, gone)
        self.members = tuple(member for member in self.members if member not in gone)
        self._view(Cause.DISCONNECT, tuple(gone), self.members)

    def reconnect(self, person: Person, name: str) -> None:
        """The session has another connection: its old self is gone, and it joins the group again."""
        was_member = person.name in self.members
        self.lose(person)
        person.name, person.is_open = name, True
        self.people[name] = person
        sends = person.desk.reconnected(name)
        if was_member:
            self.join(person)
        person.do(sends)

    def decide(self, has_quorum: bool) -> None:
        """Whether the group may go on from here; nobody holds a lock while it may not."""
        self.has_quorum = has_quorum
        for name, lock in self.locks.items():
            if not has_quorum:
                self.locks[name] = Lock(name, "", lock.fence, lock.waiting)
            else:
                self.locks[name] = self._without(lock, set())
        self._view(Cause.QUORUM, (), self.members)

    def lock(self, name: str, handler: int) -> None:
        lock = self.locks.get(handler_lock(handler), Lock(handler_lock(handler)))
        if lock.holder:
            lock = Lock(lock.name, lock.holder, lock.fence, (*lock.waiting, name))
        else:
            lock = Lock(lock.name, name, lock.fence + 1)
        self.locks[lock.name] = lock
        self._put(LockChanged(GROUP, ViewId(1, 0, 1, 0), lock, LockCause.ASKED, name))

    def unlock(self, name: str, handler: int = 0) -> None:
        lock = self.locks[handler_lock(handler)] = self._without(self.locks[handler_lock(handler)], {name})
        self._put(LockChanged(GROUP, ViewId(1, 0, 1, 0), lock, LockCause.RELEASED, name))

    def _without(self, lock: Lock, gone: set[str]) -> Lock:
        waiting = tuple(name for name in lock.waiting if name not in gone)
        if lock.holder and lock.holder not in gone:
            return Lock(lock.name, lock.holder, lock.fence, waiting)
        if not waiting:
            return Lock(lock.name, "", lock.fence)
        return Lock(lock.name, waiting[0], lock.fence + 1, waiting[1:])

    def _view(self, cause: Cause, changed: tuple[str, ...], along: tuple[str, ...]) -> None:
        self._sequence += 1
        id = ViewId(1, 0, self._sequence, 0)
        locks = tuple(lock for lock in self.locks.values() if lock.holder or lock.waiting)
        self._put(
            View(GROUP, id, self.members, along, cause, changed, has_quorum=self.has_quorum, locks=locks)
        )

    def _put(self, event: object) -> None:
        self.queue.append((frozenset(self.members), event))

    # Time passes ------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Deliver the next event of the order; False if there is none."""
        if not self.queue:
            return False
        receivers, event = self.queue.pop(0)
        self.now_us += 1
        if isinstance(event, tuple) and event[0].kind is CallKind.ANSWER and event[0].mode is CallMode.ONE:
            self.answered.add(CallId(event[0].caller, event[0].number))
        for name in sorted(receivers):
            person = self.people.get(name)
            if person is None or not person.is_open:
                continue
            if isinstance(event, View):
                person.do(person.desk.view(event, self.now_us))
            elif isinstance(event, LockChanged):
                person.do(person.desk.lock(event, self.now_us))
            elif isinstance(event, CallMark):
                over = person.desk.not_sent(GROUP, event)
                person.refused += [] if over is None else [over]
            else:
                assert isinstance(event, tuple)
                mark, message = event
                taken = person.desk.message(mark, message, self.now_us)
                if taken.is_plain:
                    person.plain.append(message)
                if taken.result is not None:
                    person.results.append(taken.result)
                person.do(taken.effects)
        return True

    def run(self) -> None:
        """Deliver everything."""
        while self.step():
            pass
