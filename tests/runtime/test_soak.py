"""The soak itself, short: everything is done once, every rule is looked at, and nothing is left behind."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.lab.experiment import parts_of
from antiphon.lab.soak import EXPERIMENT
from antiphon.lab.soak.plan import QUICK_SECONDS

SECONDS = 12
PATIENCE_S = 110
"""Only to keep a failing test from hanging."""


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    """The command, with a folder of its own for everything that it makes."""
    return subprocess.Popen(
        [sys.executable, "-m", "antiphon", "lab", "soak", "--out", str(folder / "results"), *words],
        env={"TMPDIR": str(folder), "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_with(word: str) -> list[str]:
    """The command lines of all processes that name `word`."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            lines.append(line)
    return lines


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: the paths of sockets have a limit."""
    with tempfile.TemporaryDirectory(prefix="soak-") as path:
        yield Path(path)


@pytest.mark.long
def test_a_short_soak_keeps_every_rule_and_leaves_nothing(folder: Path) -> None:
    soaking = start(folder, "--seconds", str(SECONDS), "--json")
    out, err = soaking.communicate(timeout=PATIENCE_S)
    assert (soaking.returncode, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert EXPERIMENT.lasting is not None
    assert len(rows) == EXPERIMENT.lasting(SECONDS).steps(False)
    parts = parts_of(rows)
    assert [row["verdict"] for row in parts["rules"]] == ["kept"] * 5
    (traffic,) = parts["traffic"]
    assert min(traffic["sent"], traffic["received"], traffic["records"]) > 0
    happened = " ".join(words for row in parts["looks"] for words in row["happened"])
    for words in ("act 3 begins", "d3 paused for 3 s", "restless clients killed", "d1 killed", "d1 started"):
        assert words in happened
    assert sum(row["at_rest"] for row in parts["looks"]) == 3
    assert "Every rule was kept." in (folder / "results" / "soak.html").read_text()
    assert [path.name for path in folder.iterdir()] == ["results"]
    assert processes_with(str(folder)) == []


@pytest.mark.long
def test_an_interrupted_soak_leaves_nothing(folder: Path) -> None:
    soaking = start(folder, "--json")
    assert soaking.stdout is not None
    assert json.loads(soaking.stdout.readline())["part"] == "looks"
    assert len(processes_with(str(folder))) > 10
    soaking.send_signal(signal.SIGINT)
    out, err = soaking.communicate(timeout=PATIENCE_S)
    assert (soaking.returncode, err) == (130, "")
    assert '"rules"' not in out
    deadline_s = time.monotonic() + PATIENCE_S
    while processes_with(str(folder)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert processes_with(str(folder)) == []
    assert [path.name for path in folder.iterdir()] == ["results"]


def test_the_quick_one_is_short() -> None:
    assert EXPERIMENT.steps(True) < EXPERIMENT.steps(False)
    assert QUICK_SECONDS <= 15
