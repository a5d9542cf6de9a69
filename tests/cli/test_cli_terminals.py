"""What others sent never gives commands to a terminal, whichever verb shows it."""

import json
import os
import pty
import subprocess
import unicodedata

import pytest
from command_line import COMMAND, TIMEOUT_S, Run, Start, environment

from antiphon.words import printable, printable_json, printable_parts

HOSTILE = "\x1b]0;title\x07\x1b[2J\x7f\x9b31m\u202ereversed\u2066\u2028#bob#d1: forged\r\b\t"
ALLOWED = "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \U0001f469\u200d\U0001f680 \u05e9\u05dc\u05d5\u05dd"


def is_harmless(text: str) -> bool:
    """Whether a terminal shows every character of a line in its place."""
    return all(
        unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        and unicodedata.bidirectional(character)
        not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        and character not in "\u200e\u200f\u061c"
        for character in text
    )


def test_every_control_character_is_escaped_and_no_other() -> None:
    for code in range(0x11_0000):
        character = chr(code)
        shown = printable(character)
        assert is_harmless(shown), hex(code)
        assert (shown == character) == is_harmless(character), hex(code)
    assert printable(ALLOWED) == ALLOWED


def test_escaped_json_says_the_same() -> None:
    text = json.dumps({HOSTILE: [ALLOWED, HOSTILE]}, ensure_ascii=False)
    assert is_harmless(printable_json(text))
    assert json.loads(printable_json(text)) == {HOSTILE: [ALLOWED, HOSTILE]}


def test_all_texts_of_an_answer_are_escaped() -> None:
    answer = {"daemon": HOSTILE, HOSTILE: [{"reason": HOSTILE}, 7, None, True]}
    assert is_harmless(str(printable_parts(answer)))
    assert printable_parts(answer)[printable(HOSTILE)][1:] == [7, None, True]


def listened(address: str, antiphon: Run, *options: str) -> str:
    """What a terminal gets from a listener to whom a hostile message is sent."""
    ours, theirs = pty.openpty()
    words = [*COMMAND, "listen", "tea", "--count", "1", "--address", address, *options]
    with subprocess.Popen(words, stdout=theirs, stderr=subprocess.PIPE, env=environment()) as listener:
        os.close(theirs)
        output = os.read(ours, 65_536)  # its first view
        antiphon("send", "tea", "--address", address, stdin=HOSTILE.replace("\r", "") + "\n")
        try:
            while data := os.read(ours, 65_536):
                output += data
        except OSError:  # how the end of a terminal is told
            pass
        assert listener.wait(TIMEOUT_S) == 0
    os.close(ours)
    return output.decode()


def test_a_listener_at_a_terminal_is_safe(antiphon: Run, addresses: list[str]) -> None:
    lines = listened(addresses[0], antiphon).replace("\r\n", "\n").splitlines(keepends=True)
    assert [line for line in lines if not is_harmless(line.removesuffix("\n"))] == []
    assert "\\x1b[2J" in lines[-1] and "\\u202e" in lines[-1]


def test_a_listener_at_a_terminal_speaks_the_same_json(antiphon: Run, addresses: list[str]) -> None:
    line = listened(addresses[0], antiphon, "--json").replace("\r\n", "\n").rstrip("\n").split("\n")[-1]
    assert is_harmless(line)
    assert json.loads(line)["payload"] == HOSTILE.replace("\r", "")


def test_a_pipe_gets_the_bytes(antiphon: Run, start: Start, addresses: list[str]) -> None:
    listener = start("listen", "tea", "--count", "1", "--address", addresses[0])
    assert listener.stdout is not None and "view" in listener.stdout.readline()
    antiphon("send", "tea", "--address", addresses[0], stdin="\x1b[2J\n")
    out, _ = listener.communicate(timeout=TIMEOUT_S)
    assert out.endswith(": \x1b[2J\n")


@pytest.mark.parametrize("payload", ["\x1b[2J", "\u202eevil", "\x9b2J"])
def test_a_chat_is_safe(antiphon: Run, start: Start, addresses: list[str], payload: str) -> None:
    ann = start("chat", "tea", "--name", "ann", "--address", addresses[0])
    assert ann.stdout is not None
    for _ in range(2):
        ann.stdout.readline()
    antiphon("send", "tea", "--address", addresses[1], stdin=payload + "\n")
    assert ann.stdout.readline().endswith(f": {printable(payload)}\n")
    ann.communicate("/quit\n", timeout=TIMEOUT_S)


def test_an_error_is_safe(antiphon: Run) -> None:
    failed = antiphon("status", "--address", "unix:/nowhere/\x1b[2J\u202e.sock")
    assert failed.returncode == 1
    assert is_harmless(failed.stderr.removesuffix("\n")) and "\\x1b[2J" in failed.stderr
