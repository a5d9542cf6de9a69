"""The verb `chat`: talk in a group from a terminal."""

import asyncio
from collections.abc import Iterator
from typing import Annotated

import typer

import antiphon
from antiphon.cli.desk import Desk, open_desk
from antiphon.cli.options import (
    Address,
    Cluster,
    DeliveryWord,
    Name,
    PriorityWord,
    Reconnect,
    ServiceWord,
    TraceFolder,
    address_of,
    choice,
)
from antiphon.cli.screen import joining
from antiphon.client import DEFAULT_ADDRESS, Reconnected, Unsure
from antiphon.client.connecting import Connecting
from antiphon.errors import UsageError
from antiphon.service import Service
from antiphon.types import Choice, Gap, Left, Message, SlowReceiver, TransitionalSignal, View, check_group
from antiphon.words import lagging, listed, missed, receivers_of, returned, unsure

LEAVE_TIMEOUT_S = 5.0
"""A leave waits while the daemons change their view; the user who wants to leave waits no longer than
this."""
HELP = """\
  a line        goes to the group
  /to NAME ...  goes to one member only: bob, or #bob#oslo1 where there are several
  /who          who is here
  /help         this text
  /quit         leave (so does Ctrl-D)"""
COMMANDS = ("/to", "/who", "/help", "/quit")


def chat(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to talk in.")],
    name: Name = "",
    service: ServiceWord = "agreed",
    delivery: DeliveryWord = None,
    address: Address = None,
    cluster: Cluster = None,
    priority: PriorityWord = "low",
    reconnect: Reconnect = False,
    trace: TraceFolder = None,
) -> None:
    """Join GROUP, send what you type, and show the messages of all members and who joins and leaves.

    Without --address and --cluster, and if there is no daemon at unix:/tmp/antiphon.sock, it looks for a
    cluster with the name of the group.

    \b
    Example:
      antiphon chat tea --name alice
    """
    found = address_of(address, cluster) or f"{DEFAULT_ADDRESS},cluster:{check_group(group)}"
    connecting = antiphon.connect(found, name=name, priority=priority, reconnect=reconnect, trace=trace)
    asyncio.run(_converse(group, Service.parse(service), choice(delivery), connecting))


async def _converse(group: str, service: Service, delivery: Choice | None, connecting: Connecting) -> None:
    async with connecting as session:
        with joining(group):
            await session.join(group, delivery=delivery)
        room = _Room(session, group, service)
        with open_desk(room.words) as desk:
            await _talk(room, desk)


async def _talk(room: "_Room", desk: Desk) -> None:
    desk.tell(f"You are {room.name} in {room.group}. /help tells what you can type.")
    listening = asyncio.create_task(room.listen(desk))
    speaking = asyncio.create_task(room.speak(desk))
    try:
        await asyncio.wait((listening, speaking), return_when=asyncio.FIRST_COMPLETED)
        if listening.done() or speaking.result():
            await listening  # what was said before the leave is seen before the end
    finally:
        for task in (listening, speaking):
            task.cancel()
        await asyncio.gather(listening, speaking, return_exceptions=True)


class _Room:
    """One session in one group, with a person behind it."""

    def __init__(self, session: "antiphon.Session", group: str, service: Service) -> None:
        self.group = group
        self._session = session
        self._service = service
        self._members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How others see this session."""
        return self._session.name

    def words(self) -> Iterator[str]:
        """What can be completed: commands and members, whose short names do where they are unique."""
        yield from COMMANDS
        yield from sorted({_short(member) for member in self._members})
        yield from self._members

    async def listen(self, desk: Desk) -> None:
        """Show what is delivered until the session ends."""
        async for event in self._session:
            match event:
                case View():
                    self._members = event.members
                    who = listed(event.changed)
                    desk.tell(
                        f"* {event.cause.value}: {who} ({len(event.members)} here{receivers_of(event)})"
                    )
                case TransitionalSignal():
                    desk.tell("* some members cannot be reached; the next view lists those that are left")
                case Reconnected():
                    desk.tell(f"* reconnected: {returned(event)}")
                case Gap():
                    desk.tell(f"* {missed(event)}")
                case Unsure():
                    desk.tell(f"* {unsure(event)}")
                case SlowReceiver():
                    desk.tell(f"* {lagging(event)}")
                case Message():
                    mark = "" if event.group == self.group else " (to you only)"
                    text = event.payload.decode("utf-8", "backslashreplace")
                    desk.tell(text, "said", speaker=f"{event.sender}{mark}")
                case Left():
                    return

    async def speak(self, desk: Desk) -> bool:
        """Carry out each typed line and leave on the last; whether the leave took effect."""
        while (line := await desk.line()) is not None and line.strip() != "/quit":
            try:
                await self._obey(line, desk)
            except UsageError as error:
                desk.tell(f"! {error}", "wrong")
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._session.leave(self.group)
        except TimeoutError:
            desk.tell(
                "! the daemons do not agree in time; `antiphon status` tells what they wait for", "wrong"
            )
            return False
        return True

    async def _obey(self, line: str, desk: Desk) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "":
                return
            case "/who":
                desk.tell("* " + ", ".join(self._members))
            case "/to":
                name, _, text = rest.strip().partition(" ")
                receiver = self._called(name)
                await self._session.send(receiver, text.encode(), service=self._service)
                if receiver != self.name:
                    desk.tell(text, "said", speaker=f"{self.name} (to {receiver} only)")
            case "/help":
                for help_line in HELP.splitlines():
                    desk.tell(help_line)
            case _ if word.startswith("/"):
                raise UsageError(f"unknown command {word}; /help lists them")
            case _:
                await self._session.send(self.group, line.encode(), service=self._service)

    def _called(self, name: str) -> str:
        """The private name of the member that is meant."""
        if not name:
            raise UsageError("/to needs the name of a member; /who lists them")
        found = [member for member in self._members if name in (member, _short(member))]
        if not found:
            raise UsageError(f"no member is called {name}; /who lists the members")
        if len(found) > 1:
            raise UsageError(f"several are called {name}: {', '.join(found)}")
        return found[0]


def _short(member: str) -> str:
    """What a member called itself.

    >>> _short("#bob#oslo1")
    'bob'
    """
    return member.split("#")[1]
