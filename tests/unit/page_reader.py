"""Pages and pictures as a browser reads them, for tests."""

from html.parser import HTMLParser

LOADING = {"src", "srcset", "data", "action", "onload", "onclick", "onerror"}
"""Attributes that fetch something, or run it."""
EMPTY = {"meta", "br"}
"""Elements that are never closed."""


class Reader(HTMLParser):
    """Every element that is opened is closed, and nothing is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, int] = {}
        """How often each kind of element occurs."""
        self.texts: list[tuple[str, str]] = []
        """The kinds of elements with text in them, and their text."""
        self.places: list[tuple[str, dict[str, str | None]]] = []
        """All elements with their attributes."""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.places.append((tag, dict(attrs)))
        assert not LOADING & {name for name, _ in attrs}
        assert all((value or "").startswith("#") for name, value in attrs if name == "href")

    def handle_data(self, data: str) -> None:
        if data.strip() and self._open:
            self.texts.append((self._open[-1], data))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def close(self) -> None:
        super().close()
        assert self._open == []

    def texts_of(self, tag: str) -> list[str]:
        """The texts of one kind of element, in order."""
        return [text for kind, text in self.texts if kind == tag]


def looked_at(page: str) -> Reader:
    """Read a page, which needs nothing from anywhere else, or a part of it."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert "http" not in page
    assert "@import" not in page
    return reader
