"""Any spread.conf of its grammar is read and becomes a configuration; any other text is one sentence."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon import config
from antiphon.errors import ConfigError
from antiphon.spreadwire.config import import_file
from antiphon.spreadwire.config.options import KEYWORDS

often = settings(deadline=None, max_examples=200)

MARKS = ["{", "}", "=", ";"]
SPACES = [" ", "\t", "\n", " # a note: { } = ; ' \"\n", "\r\n", "\n\n   "]
LETTERS = st.text("abcXYZ019_.-$/\\", min_size=1, max_size=25)

ports = st.integers(1, 65_535)
bits = st.integers(1, 254)
flags = st.lists(st.sampled_from(["ALL", "!PRINT", "EXIT", "FLOW_CONTROL", "OTHER"]), max_size=3)
values = {
    "text": st.sampled_from(["NULL", "IP", '"NULL IP"', "'x y'", "/var/log/%h", '""', "Spread_Segment"]).map(
        lambda word: ["=", word]
    ),
    "number": st.integers(0, 999_999_999).map(lambda number: ["=", str(number)]),
    "yes or no": st.sampled_from(["true", "YES", "off", '"no"']).map(lambda word: ["=", word]),
    "flags": flags.map(lambda words: ["=", "{", *words, "}"]),
    "nothing": st.just([]),
    "text or nothing": st.sampled_from([[], ["=", '"[%a %H:%M]"']]),
    "anything": st.sampled_from([[], ["=", "HOP"], ["=", "{", "1", "2", "}"], ["{", "3", "}"]]),
}


class Choices:
    """A file in the making: what was chosen, and what must come of it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.tokens: list[str] = []
        self.sites: list[int] = []
        """How many daemons each has; segments without any become none."""
        self.options: list[tuple[str, int]] = []
        """Keyword, and which of the tokens it is."""
        self.version = draw(st.sampled_from([4, 6]))
        self.count = 0

    def address(self) -> str:
        one, other = self.draw(bits), self.draw(bits)
        if self.version == 4:
            return f"192.168.{one}.{other}"
        return self.draw(st.sampled_from([f"fd00:{one:x}::{other:x}", f"[fe80::{other:x}%eth0]"]))

    def segment(self) -> None:
        address = self.draw(st.sampled_from(["225.0.1.1", "10.255.255.255", "[ff02::1%eth0]"]))
        colon = self.draw(st.sampled_from([":", ""]))
        self.tokens += ["Spread_Segment", f"{address}:{self.draw(ports)}" if colon else address]
        self.tokens += [self.address() for _ in range(self.draw(st.integers(0, 5)))]
        self.tokens += ["{"]
        daemons = self.draw(st.integers(0, 5))
        for _ in range(daemons):
            self.daemon()
        self.tokens += ["}"]
        if daemons:
            self.sites.append(daemons)

    def daemon(self) -> None:
        self.count += 1
        unique = f"10.0.0.{self.count}" if self.version == 4 else f"2001:db8::{self.count:x}"
        kind = self.draw(st.sampled_from(["host", "address", "both"]))
        # A name, not an address: with a letter before all else.
        name = self.draw(
            LETTERS.map(lambda text: f"n{text}") | st.sampled_from(["D", "VirtualID", '"a b"', "'é'"])
        )
        self.tokens += {"host": [f"host{self.count}"], "address": [unique], "both": [name, unique]}[kind]
        if self.draw(st.booleans()):
            self.tokens += ["VirtualID", "=", str(self.draw(st.integers(0, 999_999_999)))]
        if self.draw(st.booleans()):
            self.tokens += ["{"]
            for _ in range(self.draw(st.integers(0, 3))):
                self.tokens += [*self.draw(st.lists(st.sampled_from("DCM"), max_size=3)), self.address()]
            self.tokens += ["}"]
        if kind == "host" or self.draw(st.booleans()):  # an address alone may follow
            self.tokens += [";"]

    def option(self) -> None:
        keyword = self.draw(st.sampled_from([*KEYWORDS, "Unheard"]))
        shape = KEYWORDS[keyword].shape if keyword in KEYWORDS else "text"
        value = self.draw(values[shape])
        self.options.append((keyword, len(self.tokens)))
        self.tokens += [keyword, *value]

    def text(self) -> tuple[str, list[tuple[str, int]]]:
        """The tokens with space where there must or may be some, and the options with their lines."""
        text = ""
        lines: list[int] = []
        before = "{"
        for token in self.tokens:
            may_touch = before in MARKS or token in MARKS
            text += self.draw(st.sampled_from([*([""] if may_touch else []), *SPACES]))
            lines.append(1 + text.count("\n"))
            text += token
            before = token
        return text, [(keyword, lines[place]) for keyword, place in self.options]


@st.composite
def files(draw: st.DrawFn) -> tuple[str, list[int], list[tuple[str, int]]]:
    """A file with at least one daemon, the size of each site, and the options with their lines."""
    choices = Choices(draw)
    for part in draw(st.lists(st.sampled_from(["segment", "option"]), max_size=6)):
        choices.segment() if part == "segment" else choices.option()
    choices.tokens += ["Spread_Segment", "225.0.1.9", "{", "last.example.net", "}"]
    text, options = choices.text()
    return text, [*choices.sites, 1], options


def told(text: str) -> str:
    """What is said about a text that cannot be imported; nothing if it can."""
    try:
        imported = import_file(text, "x.conf")
    except ConfigError as error:
        message = str(error)
        assert re.match(r"x\.conf:[0-9]+: expected ", message) and message.isprintable() and message.isascii()
        return message
    config.parse(imported.text)
    for remark in imported.remarks:
        assert remark.told("x.conf").isprintable()
        assert 0 <= remark.line <= 1 + text.count("\n")
    return ""


@often
@given(files())
def test_any_file_of_the_grammar_becomes_a_configuration(
    file: tuple[str, list[int], list[tuple[str, int]]],
) -> None:
    text, sites, options = file
    imported = import_file(text, "x.conf")
    result = config.parse(imported.text)
    assert [len(site.daemon) for site in result.sites] == sites
    remarks = {(remark.subject.strip("'"), remark.line) for remark in imported.remarks}
    assert {option for option in options if option[0] != "WideAreaNetwork"} <= remarks
    places = [
        place for _, daemon in result.daemons() for place in daemon.clients if place.startswith("unix:")
    ]
    assert len(set(places)) == len(places) == result.daemon_count


@often
@given(files(), st.data())
def test_a_damaged_file_is_read_or_told(
    file: tuple[str, list[int], list[tuple[str, int]]], data: st.DataObject
) -> None:
    text = file[0]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 10)))
    told(text[:start] + data.draw(st.text(max_size=3) | st.sampled_from([*MARKS, "'", "\n"])) + text[end:])


WORDS = [
    *MARKS, "Spread_Segment", "225.0.1.1:4803", "10.0.0.1", "::1", "[::1]:5", "a", "b.example", "D", "C",
    "VirtualID", "1", "99999999999", '"', "'x y'", "#", "\n", "true", "10.0.0", "é", "\x00", "\x1b", "\u2028",
    *KEYWORDS,
]  # fmt: skip


@often
@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join) | st.text(max_size=200))
def test_any_text_is_read_or_told(text: str) -> None:
    told(text)


@often
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_told(data: bytes) -> None:
    told(data.decode("utf-8", "replace"))
