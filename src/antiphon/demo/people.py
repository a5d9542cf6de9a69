"""The people of the demo: each is a session and a memory of everything delivered to it."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

import antiphon
from antiphon.client import Event
from antiphon.errors import AntiphonError, Disconnected
from antiphon.types import Message, View, ViewId

PATIENCE_S = 20.0
"""Far longer than any promise of the demo's little world; only a fault gets here."""


class Seen(Struct, frozen=True):
    """An event and when it was delivered, by this process's clock."""

    event: Event
    at_s: float


class Person:
    """A session that listens all the time, and goes on at another daemon if its own is lost."""

    def __init__(self, name: str, session: "antiphon.Session") -> None:
        self.name = name
        self.session = session
        self.seen: list[Seen] = []
        self.on_event: Callable[[Event], None] | None = None
        """Told of each event as it is delivered."""
        self._news = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen(), name=f"demo-{name}")

    @classmethod
    async def arrive(cls, name: str, addresses: list[str], trace: Path | None) -> "Person":
        """Connect to the first of the daemons."""
        return cls(name, await antiphon.connect(addresses, name=name, reconnect=True, trace=trace))

    async def _listen(self) -> None:
        try:
            async for event in self.session:
                self.seen.append(Seen(event, time.monotonic()))
                if self.on_event is not None:
                    self.on_event(event)
                async with self._news:
                    self._news.notify_all()
        except Disconnected:
            async with self._news:
                self._news.notify_all()

    async def until(self, satisfied: Callable[["Person"], bool], what: str) -> None:
        """Wait until this person has seen enough."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._news:
                await self._news.wait_for(lambda: satisfied(self) or self._listening.done())
        except TimeoutError:
            raise AntiphonError(f"{self.name} waited {PATIENCE_S:.0f} s in vain for {what}") from None
        if not satisfied(self):
            raise AntiphonError(f"{self.name} lost the connection while waiting for {what}")

    async def until_messages(self, since: int, count: int) -> None:
        """Wait for `count` messages after the first `since` events."""
        await self.until(lambda one: len(one.messages(since)) >= count, f"{count} messages")

    async def until_events(self, since: int, count: int) -> None:
        """Wait for `count` messages and views after the first `since` events."""
        await self.until(lambda one: len(one.seen) - since >= count, f"{count} messages and views")

    def messages(self, since: int = 0) -> list[Message]:
        """The messages seen after the first `since` events."""
        return [seen.event for seen in self.seen[since:] if isinstance(seen.event, Message)]

    def texts(self, since: int = 0) -> list[str]:
        """The messages as "sender: text"."""
        return [f"{speaker(message)}: {message.payload.decode()}" for message in self.messages(since)]

    def view(self, group: str) -> View | None:
        """The latest view of the group."""
        views = (seen.event for seen in reversed(self.seen))
        return next((event for event in views if isinstance(event, View) and event.group == group), None)

    def view_ids(self) -> set[ViewId]:
        """The identifiers of all views seen."""
        return {seen.event.id for seen in self.seen if isinstance(seen.event, View)}

    async def depart(self) -> None:
        """Disconnect."""
        await self.session.close()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)


def first_name(private_name: str) -> str:
    """The person behind a private name: `alice` for `#alice#lisbon`."""
    return private_name.split("#")[1]


def speaker(message: Message) -> str:
    """The name of the sender."""
    return first_name(message.sender)
