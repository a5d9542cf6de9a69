"""`antiphon demo`: the story is told, its promises hold, and nothing stays behind."""

import os
import pty
import re
import select
import signal
import subprocess
import time
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
        "each side saw the same events",
        "all remaining members saw the same",
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


@pytest.mark.long
def test_it_is_a_persons_turn_for_as_long_as_the_person_likes() -> None:
    """At a terminal the cluster outlives the seconds that the story has."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "demo", "--seconds", "19", "--sites", "2", "--daemons", "1"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment() | {"TERM": "dumb"},
        start_new_session=True,
    )  # fmt: skip
    begin_s = time.monotonic()
    os.close(theirs)
    try:
        told = read_until(ours, b"tells what happens in")
        assert b"They run until you press Ctrl-C" in told
        while time.monotonic() < begin_s + 20:
            assert process.poll() is None
            time.sleep(0.1)
        address = re.search(rb"--address (\S+)", told)
        assert address is not None
        words = ("send", "tea", "still there?", "--address", address[1].decode())
        sent = subprocess.run([*COMMAND, *words], capture_output=True, timeout=TIMEOUT_S, env=environment())
        assert sent.returncode == 0, sent.stderr
        read_until(ours, b"still there?")
        process.send_signal(signal.SIGINT)
        read_until(ours, b"All sessions disconnect and the daemons stop.")
        assert process.wait(TIMEOUT_S) == 130
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: bytes) -> bytes:
    """What comes on a terminal up to some text."""
    seen = b""
    deadline_s = time.monotonic() + TIMEOUT_S
    while text not in seen:
        assert time.monotonic() < deadline_s, seen
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65_536)
    return seen
