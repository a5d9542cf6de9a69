"""What the documentation shows works: its programs run, its configurations parse, its commands exist."""

import doctest
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pages import FENCE, PAGES, Block, blocks_of, name_of

import antiphon
from antiphon import config
from antiphon.cli import main

PROGRAM_TIMEOUT_S = 60

BLOCKS = [block for path in PAGES for block in blocks_of(path.read_text(), name_of(path))]
LANGUAGES = {"ini", "json", "pycon", "python", "sh", "text", "toml", "yaml"}
MODULES = [module.name for module in pkgutil.walk_packages(antiphon.__path__, "antiphon.")]


def chosen(language: str, holding: str = "") -> list[Any]:
    """The blocks in a language, as parameters of a test."""
    return [
        pytest.param(block, id=block.place)
        for block in BLOCKS
        if block.language == language and holding in block.code
    ]


def programs_alone() -> list[Any]:
    """The programs that need nothing else of their page; test_pages_run.py runs those that a reader saves."""
    return [parameter for parameter in chosen("python") if not parameter.values[0].title]


def test_every_block_says_what_it_is() -> None:
    """Otherwise a block of shell commands could go unnoticed by the tests."""
    assert [block.place for block in BLOCKS if block.language not in LANGUAGES] == []
    fences = sum(len(re.findall("```", path.read_text())) for path in PAGES)
    assert fences == 2 * len(BLOCKS), "a block is indented, or does not end"


@pytest.mark.parametrize("block", programs_alone())
def test_programs_in_the_documentation_run(block: Block, tmp_path: Path) -> None:
    if block.reason:
        pytest.skip(block.reason)
    result = subprocess.run(
        [sys.executable, "-c", block.code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", chosen("toml", "[[site]]"))
def test_configurations_in_the_documentation_are_good(block: Block) -> None:
    assert config.parse(block.code, block.place).sites


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


# Commands -------------------------------------------------------------------------------------------------


def commands_in(page: str) -> set[tuple[str, ...]]:
    """The words after `antiphon` in the shell blocks and the code words of a page."""
    lines = [
        line for block in blocks_of(page, "") if block.language == "sh" for line in block.code.splitlines()
    ]
    lines += re.findall(r"`([^`\n]+)`", FENCE.sub("", page))
    found = set()
    for line in lines:
        for after in re.findall(r"(?:^|[\s/|;&(])antiphon((?: +[a-z][a-z-]*)+)(?=[ \t;|)]|$)", line):
            found.add(tuple(after.split()))
    return found


def is_command(words: tuple[str, ...]) -> bool:
    """Whether the words name a verb, and a verb of it if it has any."""
    command: Any = typer.main.get_command(main.command_line())
    for word in words:
        verbs = getattr(command, "commands", None)
        if verbs is None:
            return True
        if word not in verbs:
            return False
        command = verbs[word]
    return True


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_in_the_documentation_exist(path: Path) -> None:
    assert [shlex.join(words) for words in commands_in(path.read_text()) if not is_command(words)] == []


# The checks themselves can fail ---------------------------------------------------------------------------

PAGE = """\
# A page
```python
first()
```

<!-- not run: needs the network -->
```python
second()
```

Then `antiphon config check FILE`, `antiphon frobnicate` or `antiphon.connect()`:
```sh
$ .venv/bin/antiphon demo --seconds 5 | head
```
"""


def test_blocks_are_found_with_their_place_and_reason() -> None:
    assert blocks_of(PAGE, "page.md") == [
        Block("page.md:2", "python", "first()\n"),
        Block("page.md:7", "python", "second()\n", reason="needs the network"),
        Block("page.md:12", "sh", "$ .venv/bin/antiphon demo --seconds 5 | head\n"),
    ]


def test_commands_are_found_and_looked_up() -> None:
    assert commands_in(PAGE) == {("config", "check"), ("frobnicate",), ("demo",)}
    assert is_command(("config", "check"))
    assert is_command(("demo",))
    assert not is_command(("frobnicate",))
    assert not is_command(("config", "frobnicate"))
