"""The verb `chat`: talk in a group from a terminal."""

import asyncio
import sys
from threading import Thread
from typing import Annotated

import typer

import antiphon
from antiphon.cli.options import (
    Address,
    Cluster,
    Name,
    PriorityWord,
    Reconnect,
    ServiceWord,
    TraceFolder,
    address_of,
)
from antiphon.cli.screen import joining
from antiphon.client import DEFAULT_ADDRESS, Reconnected
from antiphon.client.connecting import Connecting
from antiphon.errors import UsageError
from antiphon.service import Service
from antiphon.types import Left, Message, SlowReceiver, TransitionalSignal, View, check_group
from antiphon.words import lagging, listed, printable, returned

LEAVE_TIMEOUT_S = 5.0
"""A leave waits while the daemons change their view; the user who wants to leave waits no longer than
this."""
HELP = """\
  a line        goes to the group
  /to NAME ...  goes to one session only: use its private name, such as #bob#oslo1
  /who          who is here
  /help         this text
  /quit         leave (so does Ctrl-D)"""


def chat(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to talk in.")],
    name: Name = "",
    service: ServiceWord = "agreed",
    address: Address = None,
    cluster: Cluster = None,
    priority: PriorityWord = "low",
    reconnect: Reconnect = False,
    trace: TraceFolder = None,
) -> None:
    """Join GROUP, send what you type, and show the messages of all members and who joins and leaves.

    With neither --address nor --cluster, and no daemon at unix:/tmp/antiphon.sock, a cluster that is called
    like the group is looked for.

    \b
    Example:
      antiphon chat tea --name alice
    """
    found = address_of(address, cluster) or f"{DEFAULT_ADDRESS},cluster:{check_group(group)}"
    connecting = antiphon.connect(found, name=name, priority=priority, reconnect=reconnect, trace=trace)
    asyncio.run(_converse(group, Service.parse(service), connecting))


async def _converse(group: str, service: Service, connecting: Connecting) -> None:
    lines = _lines_of_stdin()
    async with connecting as session:
        with joining(group):
            await session.join(group)
        tell(f"You are {session.name} in {group}. /help tells what you can type.")
        room = _Room(session, group, service)
        listening = asyncio.create_task(room.listen())
        speaking = asyncio.create_task(room.speak(lines))
        try:
            await asyncio.wait((listening, speaking), return_when=asyncio.FIRST_COMPLETED)
            if listening.done() or speaking.result():
                await listening  # what was said before the leave is seen before the end
        finally:
            for task in (listening, speaking):
                task.cancel()
            await asyncio.gather(listening, speaking, return_exceptions=True)


def _lines_of_stdin() -> "asyncio.Queue[str | None]":
    """Lines as they are typed, then None. A thread reads: no event loop can watch a file."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line.rstrip("\r\n"))
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except RuntimeError:
            pass  # the loop has ended; so may this thread

    Thread(target=read, name="chat-stdin", daemon=True).start()
    return lines


def tell(line: str) -> None:
    """Print a line; text of others never gives commands to the terminal."""
    print(printable(line), flush=True)


class _Room:
    """One session in one group, with a person behind it."""

    def __init__(self, session: "antiphon.Session", group: str, service: Service) -> None:
        self._session = session
        self._group = group
        self._service = service
        self._members: tuple[str, ...] = ()

    async def listen(self) -> None:
        """Print what is delivered until the session ends."""
        async for event in self._session:
            match event:
                case View():
                    self._members = event.members
                    who = listed(event.changed)
                    tell(f"* {event.cause.value}: {who} ({len(event.members)} here)")
                case TransitionalSignal():
                    tell("* some members are out of reach; the next view tells who is left")
                case Reconnected():
                    tell(f"* reconnected: {returned(event)}")
                case SlowReceiver():
                    tell(f"* {lagging(event)}")
                case Message():
                    mark = "" if event.group == self._group else " (to you only)"
                    text = event.payload.decode("utf-8", "backslashreplace")
                    tell(f"{event.sender}{mark}: {text}")
                case Left():
                    return

    async def speak(self, lines: "asyncio.Queue[str | None]") -> bool:
        """Carry out each typed line and leave on the last; whether the leave took effect."""
        while (line := await lines.get()) is not None and line.strip() != "/quit":
            try:
                await self._obey(line)
            except UsageError as error:
                tell(f"! {error}")
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._session.leave(self._group)
        except TimeoutError:
            tell("! the daemons do not agree in time; `antiphon status` tells what they wait for")
            return False
        return True

    async def _obey(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "":
                return
            case "/who":
                tell("* " + ", ".join(self._members))
            case "/to":
                name, _, text = rest.partition(" ")
                await self._session.send(name, text.encode(), service=self._service)
            case "/help":
                print(HELP, flush=True)
            case _ if word.startswith("/"):
                raise UsageError(f"unknown command {word}; /help lists them")
            case _:
                await self._session.send(self._group, line.encode(), service=self._service)
