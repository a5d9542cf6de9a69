"""Where a person types lines while others' lines come in: a terminal, or anything else that has lines."""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Literal

from antiphon.words import printable

Tone = Literal["said", "noted", "wrong"]
"""What a line is: somebody's words, what has happened, or what cannot be done."""
Words = Callable[[], Iterable[str]]


class Desk(ABC):
    """Lines that a person types, and lines for the person to read."""

    @abstractmethod
    async def line(self) -> str | None:
        """The next line that is typed; None after the last one."""

    @abstractmethod
    def tell(self, text: str, tone: Tone = "noted", *, speaker: str = "") -> None:
        """Show a line; text of others never gives commands to the terminal."""


@contextmanager
def open_desk(words: Words) -> Iterator[Desk]:
    """The terminal, if both ends of the program are at it, or standard input and output as they are. `words`
    are those that the tabulator key completes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Pipes()
        return
    from antiphon.cli.terminal import terminal  # what it needs takes time to load

    with terminal(words) as desk:
        yield desk


class Pipes(Desk):
    """Standard input and output."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        Thread(target=self._read, name="desk-stdin", daemon=True).start()

    def _read(self) -> None:
        """In a thread, because no event loop can watch a file."""
        try:
            for line in sys.stdin:
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\r\n"))
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)
        except RuntimeError:
            pass  # the loop has ended; so may this thread

    async def line(self) -> str | None:
        return await self._lines.get()

    def tell(self, text: str, tone: Tone = "noted", *, speaker: str = "") -> None:
        print(printable(f"{speaker}: {text}" if speaker else text), flush=True)
