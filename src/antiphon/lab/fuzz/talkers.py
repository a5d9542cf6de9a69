"""Honest clients beside the mutants: a session at each daemon, all in one group, each numbering its messages.

They show whether messages flow, and find out what a client may never see: an end of its session, a broken
frame, a message that is lost, repeated, altered or in another order than elsewhere.
"""

import asyncio
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct as Layout

from msgspec import Struct

from antiphon.client import connect
from antiphon.client.session import Session
from antiphon.errors import AntiphonError, Disconnected
from antiphon.service import Service
from antiphon.types import Message, TransitionalSignal, View

GROUP = "talk"
BETWEEN_S = 0.05
"""The time between two agreed messages of one session."""
SIZES = (20, 20, 20, 20, 3_000, 20, 20, 20, 20, 90_000)
"""The sizes of bodies, in turn: within a packet, of a few packets, of a train."""
SIDE_SERVICES = (Service.UNRELIABLE, Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.SAFE)
"""The services of further messages, in turn, beside the agreed ones."""
ORDER_KEPT = 2_000_000
START_WITHIN_S = 60.0
AGAIN_S = 0.5
_BODY = Layout("!4sHHQdI")
_MARK = b"true"

Said = tuple[int, int, int]
"""A message: its talker, the talker's session, and its place among what that session said."""


def body(talker: int, session: int, place: int, sent_s: float, size: int) -> bytes:
    """What a talker says."""
    filling = bytes(max(0, size - _BODY.size))
    plain = _BODY.pack(_MARK, talker, session, place, sent_s, 0)
    return _BODY.pack(_MARK, talker, session, place, sent_s, zlib.crc32(plain + filling)) + filling


def read_body(payload: bytes) -> tuple[Said, float] | None:
    """What was said and when; None if no talker said that."""
    if len(payload) < _BODY.size:
        return None
    mark, talker, session, place, sent_s, check = _BODY.unpack_from(payload)
    plain = _BODY.pack(mark, talker, session, place, sent_s, 0) + payload[_BODY.size :]
    if mark != _MARK or zlib.crc32(plain) != check:
        return None
    return (talker, session, place), sent_s


class Heard(Struct):
    """What one talker has got."""

    newest_s: dict[int, float]
    """By talker: when the newest message of it was sent."""
    places: dict[tuple[int, int], int]
    """By talker and session: the place of its newest message."""
    order: list[Said]
    excused: set[int]
    """Talkers that were away, by a view or a signal, since their last message: some of theirs may be lost."""


class Talker:
    """One honest client; lives in the loop of `Talkers`."""

    def __init__(self, number: int, daemon: str, place: str, count: int) -> None:
        self.number = number
        self.daemon = daemon
        self.heard = Heard({}, {}, [], set())
        self.ends: list[str] = []
        """Why sessions ended that should not have."""
        self.views: list[str] = []
        """Changes of the group's view that came from the network."""
        self.altered = 0
        """Messages of talkers that no talker can have sent."""
        self.repeated: list[str] = []
        """Messages that came again, or too late."""
        self.missed: list[str] = []
        """Messages that did not come although their talker was never away."""
        self.sessions = 0
        self.is_ready = False
        self._place = place
        self._count = count

    async def live(self) -> None:
        """Talk and listen for ever, with a new session whenever one has ended."""
        while True:
            self.sessions += 1
            try:
                async with connect(self._place, name=f"t{self.number}x{self.sessions}") as session:
                    await session.join(GROUP)
                    self.is_ready = True
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._talk(session))
                        tasks.create_task(self._listen(session))
            except* AntiphonError as group:
                self.is_ready = False
                if self.sessions > 1 or self.heard.order or not _is_refusal(group):
                    self.ends.append(f"the session at {self.daemon} ended: {_reason(group)}")
            self.heard.excused.update(range(self._count))
            await asyncio.sleep(AGAIN_S)

    async def _talk(self, session: Session) -> None:
        place = 0
        while True:
            size = SIZES[place % len(SIZES)]
            await session.send(GROUP, body(self.number, self.sessions, place, time.monotonic(), size))
            aside = SIDE_SERVICES[place % len(SIDE_SERVICES)]
            await session.send(
                (f"side{self.number}", f"side{(self.number + 1) % self._count}"), b"aside", aside
            )
            await session.send(f"side{(self.number + 2) % self._count}", b"one place only", aside)
            place += 1
            await asyncio.sleep(BETWEEN_S)

    async def _listen(self, session: Session) -> None:
        await session.join(f"side{self.number}", wait=False)
        while True:
            for event in await session.receive_many():
                match event:
                    case Message() if GROUP in event.groups:
                        self._took(event)
                    case View(group=group) if group == GROUP:
                        self._saw(event)
                    case TransitionalSignal(group=group) if group == GROUP:
                        self.heard.excused.update(range(self._count))

    def _saw(self, view: View) -> None:
        present = {name.split("x")[0].lstrip("#t") for name in view.members if name.startswith("#t")}
        self.heard.excused.update(number for number in range(self._count) if str(number) not in present)
        if view.cause.value in ("network", "merge"):
            self.heard.excused.update(range(self._count))
            self.views.append(f"{view.cause.value} at {self.daemon}: {', '.join(view.changed)}")

    def _took(self, message: Message) -> None:
        if not message.sender.startswith("#t"):
            return
        found = read_body(message.payload)
        if found is None:
            self.altered += 1
            return
        (talker, session, place), sent_s = found
        heard = self.heard
        before = heard.places.get((talker, session))
        if before is not None and place <= before:
            self._note(self.repeated, f"{place} of talker {talker} after {before}")
        elif before is not None and place > before + 1 and talker not in heard.excused:
            self._note(self.missed, f"{before + 1} to {place - 1} of talker {talker}")
        heard.excused.discard(talker)
        heard.places[talker, session] = place
        heard.newest_s[talker] = max(sent_s, heard.newest_s.get(talker, 0.0))
        if len(heard.order) < ORDER_KEPT:
            heard.order.append((talker, session, place))

    def _note(self, where: list[str], words: str) -> None:
        if len(where) < _NOTES_MAX:
            where.append(f"{words}, at {self.daemon}")


_NOTES_MAX = 20


def _is_refusal(group: BaseExceptionGroup[AntiphonError]) -> bool:
    """Whether a session could not even begin: a daemon that is just starting has no place yet."""
    return not any(isinstance(error, Disconnected) for error in group.exceptions)


def _reason(group: BaseExceptionGroup[AntiphonError]) -> str:
    return "; ".join(str(error) for error in group.exceptions)


class Talkers:
    """All honest clients, in a thread of their own. Gone when the block is left."""

    def __init__(self, places: dict[str, str]) -> None:
        self.all = [
            Talker(number, daemon, place, len(places))
            for number, (daemon, place) in enumerate(places.items())
        ]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="antiphon-fuzz-talkers", daemon=True)
        self._life: asyncio.Task[None] | None = None

    def _run(self) -> None:
        self._life = self._loop.create_task(self._live())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._life)

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for talker in self.all:
                tasks.create_task(talker.live())

    def __enter__(self) -> "Talkers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        def cancel() -> None:
            if self._life is not None:
                self._life.cancel()

        self._loop.call_soon_threadsafe(cancel)
        self._thread.join(START_WITHIN_S)

    def unheard(self, since_s: float) -> Iterator[tuple[str, str]]:
        """Pairs of daemons: nothing that was said at the first after this time has come to the second."""
        for listener in self.all:
            for talker in self.all:
                if listener.heard.newest_s.get(talker.number, 0.0) <= since_s:
                    yield talker.daemon, listener.daemon

    def disorder(self) -> list[str]:
        """Pairs of talkers that got the same messages in different orders, in words."""
        found = []
        first = self.all[0]
        for other in self.all[1:]:
            common = set(first.heard.order) & set(other.heard.order)
            ours = [said for said in first.heard.order if said in common]
            theirs = [said for said in other.heard.order if said in common]
            place = next(
                (at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None
            )
            if place is not None:
                found.append(f"{first.daemon} got {ours[place]} where {other.daemon} got {theirs[place]}")
        return found
