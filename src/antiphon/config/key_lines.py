"""Finds the line of a TOML text on which a key stands."""

import re
import tomllib

from antiphon.config.faults import Key

_TOKEN = re.compile(
    r'''(?P<skip>[ \t\r]+|\#[^\n]*)
    |(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')
    |(?P<word>[^\s\[\]{}=,."\'\#]+)
    |(?P<mark>[\[\]{}=,.\n])''',
    re.VERBOSE | re.DOTALL,
)


class KeyLines:
    """The line of every key of a TOML text that tomllib has accepted (tomllib itself does not tell)."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup != "skip":
                self._tokens.append((match[0], line))
            line += match[0].count("\n")
        self._tokens.append(("", line))
        self._at = 0
        self._lines: dict[Key, int] = {}
        self._sizes: dict[Key, int] = {}
        self._read_document()

    def of(self, key: Key) -> int:
        """The line of the value at `key`, or of the nearest thing around it that the file has."""
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)

    def _read_document(self) -> None:
        table: Key = ()
        while token := self._tokens[self._at][0]:
            if token == "\n":
                self._at += 1
            elif token == "[":
                table = self._read_header()
            else:
                self._read_entry(table)

    def _read_header(self) -> Key:
        """The table that `[a.b]` or `[[a.b]]` opens; of an array of tables, the last so far."""
        brackets = 2 if self._tokens[self._at + 1][0] == "[" else 1
        self._at += brackets
        line = self._tokens[self._at][1]
        key: Key = ()
        parts = self._read_key()
        for left, part in enumerate(parts, start=1 - len(parts)):
            key = (*key, part)
            self._lines.setdefault(key, line)
            if left == 0 and brackets == 2:
                self._sizes[key] = self._sizes.get(key, 0) + 1
            if key in self._sizes:
                key = (*key, self._sizes[key] - 1)
                self._lines.setdefault(key, line)
        self._at += brackets
        return key

    def _read_entry(self, key: Key) -> None:
        line = self._tokens[self._at][1]
        for part in self._read_key():
            key = (*key, part)
            self._lines.setdefault(key, line)
        self._at += 1
        self._read_value(key)

    def _read_key(self) -> list[str]:
        parts = [self._read_part()]
        while self._tokens[self._at][0] == ".":
            self._at += 1
            parts.append(self._read_part())
        return parts

    def _read_part(self) -> str:
        part = self._tokens[self._at][0]
        self._at += 1
        return str(tomllib.loads(f"part = {part}")["part"]) if part[0] in "\"'" else part

    def _read_value(self, key: Key) -> None:
        opening = self._tokens[self._at][0]
        self._at += 1
        if opening == "[":
            place = 0
            while self._next_in("]"):
                self._lines[(*key, place)] = self._tokens[self._at][1]
                self._read_value((*key, place))
                place += 1
        elif opening == "{":
            while self._next_in("}"):
                self._read_entry(key)
        else:
            while self._tokens[self._at][0] not in (",", "]", "}", "\n", ""):
                self._at += 1

    def _next_in(self, closing: str) -> bool:
        """Go to the next value or entry of an array or a table; False, and behind it, at its end."""
        while self._tokens[self._at][0] in (",", "\n"):
            self._at += 1
        if self._tokens[self._at][0] != closing:
            return True
        self._at += 1
        return False
