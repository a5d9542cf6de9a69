"""The words, quoted strings and marks of a spread.conf, each with its line."""

import re
from typing import Literal

from msgspec import Struct

from antiphon.spreadwire.config.remarks import fault, shown

MARKS = "{}=;"
_TOKEN = re.compile(
    r"""(?P<space> [^\S\n]+ | \#[^\n]* )
      | (?P<line> \n )
      | (?P<mark> [{}=;] )
      | "(?P<double> [^"\n]* )" | '(?P<single> [^'\n]* )'
      | (?P<word> [^\s{}=;"'\#]+ )""",
    re.VERBOSE,
)
"""Whatever it does not match is a quotation mark without its partner."""


class Token(Struct, frozen=True):
    """A piece of the file. Only a word can be a keyword: a quoted one is always a value."""

    kind: Literal["word", "string", "mark", "end"]
    text: str
    line: int

    def __str__(self) -> str:
        return "the end of the file" if self.kind == "end" else shown(self.text)

    def is_mark(self, mark: str) -> bool:
        """Whether it is this one of the MARKS."""
        return self.kind == "mark" and self.text == mark


def tokens(text: str, source: str) -> list[Token]:
    """Every token of the text and one that marks its end; a ConfigError if a quotation mark is missing."""
    found: list[Token] = []
    line = 1
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            expected = f"another {text[at]} on the same line"
            raise fault(source, line, expected, "the end of the line")
        at = match.end()
        match match.lastgroup:
            case "line":
                line += 1
            case "double" | "single" as quotation:
                found.append(Token("string", match[quotation], line))
            case "word" | "mark" as kind:
                found.append(Token(kind, match[kind], line))
    return [*found, Token("end", "", line)]
