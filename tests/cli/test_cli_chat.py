"""`chat` as a person has it: at a terminal, with a line that is being typed while others speak."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator

import pyte
import pytest
from command_line import COMMAND, TIMEOUT_S, Run, Start, environment

COLUMNS, LINES = 100, 30
ENTER, LEFT, UP, TAB, END, INTERRUPT = b"\r", b"\x1b[D", b"\x1b[A", b"\t", b"\x04", b"\x03"


class Person:
    """Types at a terminal, and sees its screen."""

    def __init__(self, *words: str, **variables: str) -> None:
        self._ours, theirs = pty.openpty()
        where = environment() | {"TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": str(LINES)} | variables
        self.process = subprocess.Popen(
            [*COMMAND, "chat", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=where,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._screen.write_process_input = self._answer
        self._stream = pyte.ByteStream(self._screen)

    def _answer(self, data: str) -> None:
        """The terminal is asked something, for example where its cursor is."""
        self.type(data.encode())

    def type(self, *keys: bytes) -> None:
        for key in keys:
            os.write(self._ours, key)

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def colours(self, line: str) -> list[str]:
        """The colours of the characters of a line on the screen."""
        row = next(row for row, shown in enumerate(self._screen.display) if shown.rstrip() == line)
        return [self._screen.buffer[row][column].fg for column in range(len(line))]

    def sees(self, *lines: str) -> None:
        """Wait until these are the last lines on the screen."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.lines[-len(lines) :] != list(lines):
            assert time.monotonic() < deadline and self._read(), self.lines

    def sees_the_end(self) -> None:
        """Wait until the program has left the terminal."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read():
            assert time.monotonic() < deadline, self.lines

    def _read(self) -> bool:
        """Take what is written, if something is soon; whether there may be more."""
        if not select.select([self._ours], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # how the end of a terminal is told
            return False
        self._stream.feed(data)
        return bool(data)

    def leave(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def ann(addresses: list[str]) -> Iterator[Person]:
    person = Person("tea", "--name", "ann", "--address", addresses[0])
    try:
        person.sees("* join: #ann#d1 (1 here)", ">")
        yield person
    finally:
        person.leave()


def test_a_half_typed_line_survives_an_incoming_message(
    ann: Person, antiphon: Run, addresses: list[str]
) -> None:
    ann.type(b"hllo", LEFT, LEFT, LEFT)
    ann.sees("> hllo")
    antiphon("send", "tea", "from", "outside", "--address", addresses[0], "--name", "bob")
    ann.sees("#bob#d1: from outside", "> hllo")
    ann.type(b"e", ENTER)
    ann.sees("#bob#d1: from outside", "#ann#d1: hello", ">")


def test_speakers_have_colours_and_what_they_say_has_none(ann: Person) -> None:
    ann.type(b"hello", ENTER)
    ann.sees("#ann#d1: hello", ">")
    colours = ann.colours("#ann#d1: hello")
    assert set(colours[:7]) & {"default"} == set() and set(colours[7:]) == {"default"}
    ann.type(b"/sing", ENTER)
    ann.sees("! unknown command /sing; /help lists them", ">")
    assert set(ann.colours("! unknown command /sing; /help lists them")) == {"red"}


def test_who_wants_no_colours_gets_none(addresses: list[str]) -> None:
    person = Person("tea", "--name", "ann", "--address", addresses[0], NO_COLOR="1")
    try:
        person.sees("* join: #ann#d1 (1 here)", ">")
        person.type(b"hello", ENTER)
        person.sees("#ann#d1: hello", ">")
        assert set(person.colours("#ann#d1: hello")) == {"default"}
    finally:
        person.leave()


def test_own_lines_are_shown_once_and_come_back_with_an_arrow_key(ann: Person) -> None:
    ann.type(b"only once", ENTER)
    ann.sees("* join: #ann#d1 (1 here)", "#ann#d1: only once", ">")
    ann.type(UP, b" more")
    ann.sees("> only once more")
    ann.type(ENTER)
    ann.sees("#ann#d1: only once", "#ann#d1: only once more", ">")


def test_a_member_is_found_by_its_short_name(ann: Person, start: Start, addresses: list[str]) -> None:
    bob = start("chat", "tea", "--name", "bob", "--address", addresses[1])
    assert "You are #bob#" in first_line(bob)
    assert "2 here" in first_line(bob)
    ann.sees("* join: #bob#d2 (2 here)", ">")
    ann.type(b"/to bo", TAB)
    ann.sees("> /to bob")
    ann.type(b" psst", ENTER)
    ann.sees("#ann#d1 (to #bob#d2 only): psst", ">")
    assert first_line(bob) == "#ann#d1 (to you only): psst\n"
    ann.type(b"/to carol hello", ENTER)
    ann.sees("! no member is called carol; /who lists the members", ">")
    ann.type(b"/to", ENTER)
    ann.sees("! /to needs the name of a member; /who lists them", ">")


def test_two_of_one_name_are_told_apart(ann: Person, start: Start, addresses: list[str]) -> None:
    other = start("chat", "tea", "--name", "ann", "--address", addresses[1])
    assert "You are #ann#d2" in first_line(other)
    ann.sees("* join: #ann#d2 (2 here)", ">")
    ann.type(b"/to ann which?", ENTER)
    ann.sees("! several are called ann: #ann#d1, #ann#d2", ">")
    ann.type(b"/to #ann#d2 you", ENTER)
    ann.sees("#ann#d1 (to #ann#d2 only): you", ">")


@pytest.mark.parametrize(("keys", "code"), [((END,), 0), ((b"half a li", INTERRUPT), 130)])
def test_it_ends_as_every_verb_does(ann: Person, keys: tuple[bytes, ...], code: int) -> None:
    ann.type(*keys)
    ann.sees_the_end()
    assert ann.process.wait(TIMEOUT_S) == code
    assert not any("Traceback" in line for line in ann.lines)
