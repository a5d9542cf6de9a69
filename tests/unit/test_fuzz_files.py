"""The fuzzer's doors of files: readers keep the rule, who does not is found, and findings stay mended."""

from pathlib import Path
from random import Random

import pytest

from antiphon.config import parse, parse_access
from antiphon.errors import BadFrame, ConfigError, UsageError
from antiphon.journal.errors import JournalError
from antiphon.journal.folder import Folder
from antiphon.lab.fuzz.choices_read import config_readers
from antiphon.lab.fuzz.journals_read import journal_readers
from antiphon.lab.fuzz.mutate import Mutant
from antiphon.lab.fuzz.plan import KINDS
from antiphon.lab.fuzz.readers import Finding, is_accepted
from antiphon.lab.fuzz.reading import readers_of
from antiphon.lab.fuzz.texts import mutate_text
from antiphon.service import Service
from antiphon.trace.merging import merge
from antiphon.trace.runs import read
from antiphon.wire import bundle
from antiphon.wire.events import parse_event

FEW = {"config": 60, "journal": 6, "traces": 40}


@pytest.mark.parametrize("door", FEW)
def test_readers_keep_the_rule(door: str, tmp_path: Path) -> None:
    readers = readers_of(door, tmp_path)
    assert set(readers) == set(KINDS[door])
    for kind, reader in readers.items():
        refused = 0
        for number in range(FEW[door]):
            mutant = reader.mutant(Random(f"{kind} {number}"))
            refused += not is_accepted(reader, mutant.data)
        assert refused or kind in ("index", "last-segment"), kind  # these are made anew, or cut off


def test_what_is_genuine_is_accepted(tmp_path: Path) -> None:
    """Otherwise all mutants would be refused for the same reason."""
    (tmp_path / "config").mkdir()
    (tmp_path / "journal").mkdir()
    for reader in config_readers(tmp_path / "config").values():
        assert is_accepted(reader, reader._genuine)  # type: ignore[attr-defined]
    for reader in journal_readers(tmp_path / "journal").values():
        assert is_accepted(reader, reader._data)  # type: ignore[attr-defined]


class Broken:
    """A reader that does what it must not."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def mutant(self, random: Random) -> Mutant:
        return Mutant(b"", "")

    def read(self, data: bytes) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), UsageError("two\nlines"), UsageError("")])
def test_a_reader_that_does_what_it_must_not_is_found(error: Exception) -> None:
    with pytest.raises(Finding):
        is_accepted(Broken(error), b"")
    assert not is_accepted(Broken(UsageError("one line")), b"")
    assert is_accepted(Broken(None), b"")


def test_texts_change_and_the_same_seed_makes_the_same() -> None:
    text = b"[cluster]\nname = 'x'\n\n[[site]]\nname = 'y'\n"
    first = [mutate_text(Random(number), text) for number in range(200)]
    assert first == [mutate_text(Random(number), text) for number in range(200)]
    assert sum(mutant.data == text for mutant in first) < 30
    assert {mutant.what.split()[0] for mutant in first} >= {"line", "lines", "bits", "cut"}


# What was found ---------------------------------------------------------------------------------------------


def trace_file(tmp_path: Path) -> Path:
    [path] = [one for one in _live(tmp_path) if one.name == "0.jsonl"]
    return path


def _live(tmp_path: Path) -> list[Path]:
    readers_of("traces", tmp_path)
    return sorted((tmp_path / "live").glob("*.jsonl"))


def test_a_trace_that_is_not_text_is_a_clear_error(tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    data = path.read_bytes()
    for place in (data.index(b"live"), data.rindex(b"event")):
        path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
        with pytest.raises(UsageError, match="not a"):
            merge(path.parent)
        with pytest.raises(UsageError, match="not a"):
            read(path)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ('"event":"sdeliver","message":[1,2,3,4],"count":22324209016554477', "no bundle"),
        ('"event":"join"', "there is no group"),
        ('"event":"view","groups":["g"]', "there is no view"),
        ('"event":"sview","members":["d0"],"incarnations":[]', "not as many as members"),
    ],
)
def test_a_record_that_nobody_writes_is_a_clear_error(tmp_path: Path, fields: str, words: str) -> None:
    """A count of messages that was believed made ten gigabytes of one line."""
    path = trace_file(tmp_path)
    line = f'{{"run":"live-fuzz","position":1,"time_us":1,"daemon":"d0",{fields}}}'
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n" + line.encode() + b"\n")
    with pytest.raises(UsageError, match=words):
        merge(path.parent)


def test_the_name_of_a_run_is_one_line(tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"run":"live-fuzz"', b'"run":"\\n"', 1))
    with pytest.raises(UsageError, match="not a trace"):
        merge(path.parent)


def test_the_identity_of_a_journal_that_is_not_text_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_bytes(b'{"format":1,"journal":"\xff"}')
    folder = Folder(tmp_path)
    with pytest.raises(JournalError, match="cannot be read"):
        folder.identity()
    folder.release()


def test_a_group_event_that_is_nested_too_deeply_is_refused() -> None:
    """A member that sent one ended every daemon that got it, with a RecursionError."""
    names = bundle.names_area("#a#d1", ["g"])
    nested = b"\x81\xa1x" + b"\x91" * 60_000 + b"\x00"
    draft = bundle.draft(names, 1, Service.AGREED, nested, flags=bundle.Flag.EVENT)
    with pytest.raises(BadFrame, match="group event: RecursionError"):
        parse_event(draft.data, draft.header)


@pytest.mark.parametrize("key", ["key_file", "access_file", "tls = {certificate = 'a', key"])
def test_a_name_that_no_file_can_have_is_a_clear_error(key: str) -> None:
    end = "}" if "{" in key else ""
    site = '[[site]]\nname = "oslo"\n[[site.daemon]]\nname = "o1"\naddress = "127.0.0.1:4810"\n'
    with pytest.raises(ConfigError, match="expected the name of a file"):
        parse(f'[security]\n{key} = "a\\u0000b"{end}\n{site}')


def test_a_token_file_that_cannot_be_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="expected the name of a file"):
        parse_access('[[user]]\nname = "a"\ntoken_file = "\\u0000"\n')
