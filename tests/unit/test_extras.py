"""Hints at what is not installed name commands that work: Antiphon is in no package index."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from antiphon import extras

REPOSITORY = Path(__file__).parents[2]


def told(monkeypatch: pytest.MonkeyPatch, origin: object) -> str:
    monkeypatch.setattr(extras, "_origin", lambda: None if origin is None else json.dumps(origin))
    return extras.how_to_get("spark")


def test_the_clone_from_which_it_was_installed_is_named() -> None:
    command = shlex.split(extras.how_to_get("spark"))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert f"{REPOSITORY}[spark]" in command


@pytest.mark.parametrize("is_editable", [True, False])
def test_a_clone_whose_name_needs_quotes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_editable: bool
) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    command = told(monkeypatch, {"url": clone.as_uri(), "dir_info": {"editable": is_editable}})
    assert shlex.split(command)[-1] == f"{clone}[spark]"
    assert ("--editable" in command) == is_editable


@pytest.mark.parametrize(
    "origin",
    [
        None,
        {"url": "file:///nowhere/at/all", "dir_info": {}},
        {"url": "file:///tmp/antiphon-0.1.0-py3-none-any.whl", "archive_info": {}},
        {"url": "ssh://somewhere/antiphon.git", "vcs_info": {"vcs": "git"}},
    ],
)
def test_without_a_clone_a_clone_is_asked_for(monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    assert told(monkeypatch, origin).startswith("in a clone of Antiphon, ")
    assert told(monkeypatch, origin).endswith(" -m pip install '.[spark]'")


def test_no_hint_and_no_page_names_a_package_that_is_not_published() -> None:
    files = [
        REPOSITORY / "README.md",
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "src").rglob("*.py"),
    ]
    named = re.compile(r"pip install[^`\n]*?['\" ]antiphon\b")
    assert [str(file) for file in files if named.search(file.read_text())] == []
