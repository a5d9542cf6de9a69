"""`antiphon demo`: the story is told, its promises hold, and nothing stays behind."""

import signal
import subprocess
from pathlib import Path

import pytest
from command_line import COMMAND, TIMEOUT_S, Run, environment


@pytest.mark.parametrize(("sites", "daemons"), [(3, 2), pytest.param(5, 1, marks=pytest.mark.long)])
def test_the_abridged_story(
    antiphon: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sites: int, daemons: int
) -> None:
    scratch = tmp_path / "t"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    done = antiphon("demo", "--seconds", "19", "--sites", str(sites), "--daemons", str(daemons))
    assert (done.returncode, done.stderr) == (0, "")
    for promise in (
        "every column is the same",
        "the same view at the same place",
        "each side saw one story",
        "all who stayed saw the same",
    ):
        assert f"checked: {promise}" in done.stdout
    assert done.stdout.count("The time is up") == 1
    assert done.stdout.endswith("all sessions disconnect and the daemons stop.\n")
    for word in (
        "RELIABLE",
        "FIFO",
        "AGREED",
        "SAFE",
        "2D + delta",
        "3D + 2 delta",
        ": one,",
    ):
        assert word in done.stdout
    assert not list(scratch.iterdir())


def test_it_ends_on_time_even_in_mid_sentence(antiphon: Run) -> None:
    done = antiphon("demo", "--seconds", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("The time is up before the end of the story") == 1


def test_ctrl_c_ends_it_quietly() -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo", "--seconds", "19"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        while "connects in lisbon" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (130, "")
