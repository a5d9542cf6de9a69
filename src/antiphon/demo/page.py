"""How the demo looks: chapters, sentences and columns; plain text where no terminal is."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from antiphon.errors import AntiphonError

_WIDTH_MAX = 100


class Page:
    """Writes the story."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, _WIDTH_MAX)
        self._chapter = 0

    def title(self, text: str) -> None:
        self._console.print()
        self._console.print(Text(text, style="bold reverse"), width=self._width)

    def chapter(self, text: str) -> None:
        """Begin a new idea."""
        self._chapter += 1
        self._console.print()
        self._console.print(Text(f"{self._chapter}. {text}", style="bold cyan"), width=self._width)

    def say(self, text: str) -> None:
        """A sentence or two."""
        self._console.print(Text(text), width=self._width)

    def event(self, text: str) -> None:
        """Something that happens now."""
        self._console.print(Text(f"   > {text}", style="dim"), width=self._width)

    def command(self, text: str) -> None:
        """Something to type; never wrapped, so that it can be copied."""
        self._console.print(Text(f"      {text}", style="green"), soft_wrap=True)

    def columns(self, heads: Sequence[str], columns: Sequence[Sequence[str]]) -> None:
        """What each saw, side by side, earliest at the top."""
        height = max(map(len, columns))
        rows = [[column[row] if row < len(column) else "" for column in columns] for row in range(height)]
        self.table(heads, rows)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        table = Table(*heads, box=box.SIMPLE, show_edge=False, pad_edge=True, header_style="bold")
        for row in rows:
            table.add_row(*row)
        self._console.print(table, width=self._width)

    def check(self, promise: str, kept: bool, evidence: Mapping[str, object]) -> None:
        """Say that a promise was kept; a broken one ends the demo with what was seen."""
        if not kept:
            raise AntiphonError(f"broken promise: {promise}: {dict(evidence)}")
        self._console.print(Text(f"   checked: {promise}", style="bold green"), width=self._width)
