"""A person at a terminal.

The line that is being typed stays whole below what comes in. It can be edited, and earlier ones come back
with the arrow keys. A line that was typed is not left on the screen: what it leads to is shown when it takes
place.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle

from antiphon.cli.desk import Desk, Tone, Words
from antiphon.words import printable

PROMPT = "> "
_PLAIN = 0
_TONES: dict[Tone, int] = {"said": _PLAIN, "noted": 90, "wrong": 31}
"""Colours, as terminals number them."""
_SPEAKERS = (36, 32, 33, 35, 34)
"""Colours of speakers, who keep theirs from one conversation to the next."""


class _Completer(Completer):
    """Completes the word before the cursor."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        begun = document.get_word_before_cursor(WORD=True)
        for word in self._words():
            if begun and word.startswith(begun):
                yield Completion(word, -len(begun))


class Terminal(Desk):
    """Lines with an editor below them."""

    def __init__(self, words: Words) -> None:
        self._has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._session: PromptSession[str] = PromptSession(
            PROMPT, completer=_Completer(words), complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE, reserve_space_for_menu=0, erase_when_done=True,
        )  # fmt: skip

    async def line(self) -> str | None:
        try:
            return await self._session.prompt_async()
        except EOFError:
            return None

    def tell(self, text: str, tone: Tone = "noted", *, speaker: str = "") -> None:
        told = self._coloured(printable(text), _TONES[tone])
        if speaker:
            colour = _SPEAKERS[crc32(speaker.encode()) % len(_SPEAKERS)]
            told = f"{self._coloured(printable(speaker), colour)}: {told}"
        print(told)

    def _coloured(self, text: str, colour: int) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._has_colours and colour != _PLAIN else text


@contextmanager
def terminal(words: Words) -> Iterator[Terminal]:
    """The terminal at standard input and output. What is printed meanwhile stands above what is typed."""
    with patch_stdout(raw=True):
        yield Terminal(words)
