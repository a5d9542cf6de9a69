"""The pages of the documentation, as the blocks of code in them."""

import re
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(
    r"(?:^<!--\s*not run:\s*(?P<reason>.*?)\s*-->\n+)?"
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"\n]+)")?[^\n]*\n(?P<code>.*?)^```\s*$',
    re.DOTALL | re.MULTILINE,
)


class Block(Struct, frozen=True):
    """A fenced block of a page."""

    place: str
    language: str
    code: str
    reason: str = ""
    """Why a program is not run by itself; empty if it is."""
    title: str = ""
    """The file in which a reader saves it; empty for all other blocks."""


def blocks_of(page: str, name: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(
            f"{name}:{page.count(chr(10), 0, found.start('code'))}",
            found["language"],
            found["code"],
            found["reason"] or "",
            found["title"] or "",
        )
        for found in FENCE.finditer(page)
    ]


def name_of(path: Path) -> str:
    """A page's path from the top of the repository."""
    return str(path.relative_to(ROOT))
