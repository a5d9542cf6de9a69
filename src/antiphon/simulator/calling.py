"""A simulated client that calls and answers: the machines of `calls`, and an application that writes down
what it does.

One of these is one session object: it goes on, with its identity and its memory, in the session that takes
the place of one that has ended, as a library that reconnects does. Some of its work is done when a call is
delivered, whoever is to answer it, as by a replicated service; the rest when it is its own. Answers take
their time.

In a group that keeps a quorum a call may be refused. A caller may also have the patience to wait for so long
and no longer. So each of its calls ends in one of three ways: with an answer, as refused (it was never sent),
or given up (then nobody knows whether it was executed).
"""

import zlib
from random import Random
from typing import TYPE_CHECKING

from antiphon.calls import Call, CallDesk, CallId, Effect, Hand, Result, Send
from antiphon.trace import GIVEN_UP, REFUSED, Event
from antiphon.types import LockChanged, Message, View, handler_lock
from antiphon.wire.calls import CallKind, CallMark, CallMode, CallStatus

if TYPE_CHECKING:
    from antiphon.simulator.client import Client

HANDLERS = 2
TIMEOUT_MS = 60_000
PREPARES = 0.3
"""How many of the calls that others are to answer a member works at all the same."""
REPEATS = 0.05
"""How often a caller repeats what waits although its connection works."""
AT_ONCE = 0.5
"""How many calls are answered as soon as they are delivered."""


class Calling:
    """What one session object has to do with calls."""

    def __init__(
        self, person: str, random: Random, *, serves: bool, views: bool, patience_us: int = 0
    ) -> None:
        """`patience_us`: how long its calls may wait for their answers; 0: for ever."""
        self._person = person
        self._random = random
        self._serves = serves
        self._views = views
        self._patience_us = patience_us
        self._impatient: dict[CallId, tuple[int, str, CallMode]] = {}
        """Calls that it may give up, in their order: when, group and mode."""
        self._stopped: set[str] = set()
        """Groups that had no quorum: their handlers were lost."""
        self._desk: CallDesk | None = None
        self._client: Client | None = None
        self._works: dict[CallId, tuple[str, bytes]] = {}
        """Calls that the application has worked at and not answered: group and answer."""

    def begin(self, client: "Client") -> None:
        """A session begins; its joins have been asked for."""
        self._client = client
        client.calling = self
        if self._desk is None:
            self._desk = CallDesk(self._random.getrandbits(64), client.name, takes_part=self._views)
        else:
            for send in self._desk.reconnected(client.name):
                self._send(send)
        if self._serves and self._views:
            for group in sorted(client.wanted):
                for handler in range(HANDLERS):
                    client.lock(group, handler_lock(handler), True)

    # What the application does ----------------------------------------------------------------------------

    def call(self, group: str, now_us: int) -> None:
        """Call a group."""
        assert self._client is not None and self._desk is not None
        random = self._random
        mode = random.choice((CallMode.ONE, CallMode.ONE, CallMode.ONE, CallMode.ALL, CallMode.DELIVERED))
        payload = random.randbytes(8)
        handler = random.randrange(HANDLERS)
        if len(self._desk.caller) > 100:
            return
        id, send = self._desk.caller.call(group, payload, handler=handler, mode=mode, timeout_ms=TIMEOUT_MS)
        self._note(Event.CALLED, group, id)
        if self._patience_us:
            self._impatient[id] = now_us + self._patience_us, group, mode
        self._send(send)

    def work(self, now_us: int) -> None:
        """Answer some of the calls that it has worked at, and repeat those that wait for long; or give them
        up."""
        assert self._desk is not None
        for id, (until_us, group, mode) in list(self._impatient.items()):
            if until_us > now_us:
                break
            del self._impatient[id]
            self._desk.caller.give_up(id)
            self._note(Event.FINISHED, group, id, mode=mode, state=GIVEN_UP)
        if len(self._desk.caller) and self._random.random() < REPEATS:
            for send in self._desk.caller.again():
                self._send(send)
        for id, (group, payload) in list(self._works.items()):
            if self._random.random() < AT_ONCE:
                del self._works[id]
                self._answer(group, id, payload)

    def _handed(self, call: Call) -> None:
        if call.id in self._works:
            return  # it comes again, to be answered: the work has been done
        if call.mode is CallMode.DELIVERED or (not call.is_mine and self._random.random() >= PREPARES):
            return
        payload = f"{self._person} {call.id} {self._random.getrandbits(32)}".encode()
        self._note(
            Event.EXECUTED, call.group, call.id, payload, call.mode, state="own" if call.is_mine else ""
        )
        if self._random.random() < AT_ONCE:
            self._answer(call.group, call.id, payload)
        else:
            self._works[call.id] = (call.group, payload)

    def _answer(self, group: str, id: CallId, payload: bytes) -> None:
        assert self._desk is not None
        self._do(self._desk.answer(group, id, CallStatus.DONE, payload)[1])

    # What comes -------------------------------------------------------------------------------------------

    def view(self, view: View, now_us: int) -> None:
        assert self._desk is not None
        self._do(self._desk.view(view, now_us))
        if not view.has_quorum:
            self._stopped.add(view.group)
        elif view.group in self._stopped:
            self._stopped.discard(view.group)
            self._serve_again(view)

    def _serve_again(self, view: View) -> None:
        """Ask for the handlers that were lost with the quorum."""
        client = self._client
        assert client is not None
        if not self._serves or view.group not in client.wanted:
            return
        has = {lock.name for lock in view.locks if client.name in (lock.holder, *lock.waiting)}
        for name in map(handler_lock, range(HANDLERS)):
            if name not in has:
                client.lock(view.group, name, True)

    def lock(self, change: LockChanged, now_us: int) -> None:
        assert self._desk is not None
        self._do(self._desk.lock(change, now_us))

    def left(self, group: str) -> None:
        assert self._desk is not None
        self._stopped.discard(group)
        self._desk.left(group)

    def message(self, mark: CallMark, message: Message, now_us: int) -> None:
        """A message that belongs to a call was delivered."""
        assert self._desk is not None
        id = CallId(mark.caller, mark.number)
        if mark.kind is CallKind.ANSWER and mark.mode is CallMode.ONE and mark.status is CallStatus.DONE:
            self._note(Event.ANSWERED, message.group, id, message.payload, mark.mode)
        taken = self._desk.message(mark, message, now_us)
        if taken.result is not None:
            self._finished(message.group, taken.result)
        self._do(taken.effects)

    def not_sent(self, group: str, mark: CallMark) -> None:
        """A message that belongs to a call was refused."""
        assert self._desk is not None
        id = self._desk.not_sent(group, mark)
        if id is not None:
            self._impatient.pop(id, None)
            self._note(Event.FINISHED, group, id, mode=mark.mode, state=REFUSED)

    def _finished(self, group: str, result: Result) -> None:
        self._impatient.pop(result.id, None)
        if result.status is CallStatus.DONE and result.answers is not None:
            for member, payload in result.answers.items():
                self._note(Event.FINISHED, group, result.id, payload, CallMode.ALL, member)
        elif result.status is CallStatus.DONE and not result.members:
            self._note(Event.FINISHED, group, result.id, result.payload, CallMode.ONE)

    # What is done -----------------------------------------------------------------------------------------

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Hand):
                self._handed(effect.call)
            else:
                self._send(effect)

    def _send(self, send: Send) -> None:
        assert self._client is not None
        if self._client.open:
            self._client.send_marked(send.groups, send.mark, send.payload, send.service)

    def _note(
        self,
        event: Event,
        group: str,
        id: CallId,
        payload: bytes = b"",
        mode: CallMode = CallMode.ONE,
        peer: str = "",
        state: str = "",
    ) -> None:
        assert self._client is not None
        checksum = zlib.crc32(payload) if payload else 0
        self._client.note_call(event, group, str(id), self._person, checksum, mode.name.lower(), peer, state)
