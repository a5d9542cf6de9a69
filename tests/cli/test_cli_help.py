"""Help that a person can read whole in a terminal of 80 columns, for every verb that there is."""

import re
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from antiphon.cli.main import _VERB_GROUPS, _VERBS, command_line

COLUMNS = 80
APP = command_line()


def commands() -> Iterator[tuple[str, ...]]:
    """The words before `--help`, for each page of help."""
    yield ()
    yield from ((word,) for word in (*_VERBS, *_VERB_GROUPS))
    yield from ((word, second) for word, verbs in _VERB_GROUPS.items() for second in verbs)


def verbs_of(words: tuple[str, ...]) -> Iterator[str]:
    yield from _VERB_GROUPS[words[0]] if words else (*_VERBS, *_VERB_GROUPS)


def help_of(words: tuple[str, ...]) -> list[str]:
    done = CliRunner().invoke(APP, [*words, "--help"], env={"COLUMNS": str(COLUMNS)}, prog_name="antiphon")
    assert done.exit_code == 0, done.output
    return [line.rstrip() for line in done.output.splitlines()]


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_no_description_is_cut_off_and_no_line_is_too_long(words: tuple[str, ...]) -> None:
    lines = help_of(words)
    assert lines[0].startswith(" ".join(["Usage: antiphon", *words]))
    assert [line for line in lines if len(line) > COLUMNS] == []
    # Dots belong to what may be repeated, and stand behind a word in capitals.
    cut = [line for line in lines if "…" in line or re.search(r"(?<![A-Z\]}])\.\.\.", line)]
    assert cut == []


@pytest.mark.parametrize("words", [(), *((word,) for word in _VERB_GROUPS)], ids=" ".join)
def test_lists_of_verbs_have_whole_sentences(words: tuple[str, ...]) -> None:
    lines = help_of(words)
    listed = "\n".join(lines[lines.index("Commands:") + 1 :])
    told = re.split(r"^  (?=[a-z])", listed, flags=re.MULTILINE)[1:]
    assert [entry.split()[0] for entry in told] == list(verbs_of(words))
    assert [entry for entry in told if not entry.rstrip().endswith(".")] == []
