"""Progress where no person watches: lines in a log, so that long work is known to go on."""

import re
import time

import pytest

from antiphon.cli import screen

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "LINE_EVERY_S", 0.01)


def read_until(pattern: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed on stderr, once the pattern is in it; nothing is printed on stdout."""
    deadline_s = time.monotonic() + PATIENCE_S
    text = ""
    while not re.search(pattern, text):
        assert time.monotonic() < deadline_s, text
        time.sleep(0.01)
        told = capsys.readouterr()
        text += told.err
        assert told.out == ""
    return text


def test_a_log_tells_how_far_work_has_come(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.progress("checking traces", 49, in_logs=True) as advance:
        advance(12)
        read_until(r"^checking traces: 12 of 49, \d+ s so far\n", capsys)
        advance(1)
        read_until(r"^checking traces: 13 of 49, ", capsys)


def test_a_log_tells_that_work_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.working("starting Spark", 15, in_logs=True):
        read_until(r"^starting Spark \(about 15 s\), \d+ s so far\n", capsys)


def test_other_verbs_print_nothing_but_their_results(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.progress("simulating", 9) as advance, screen.working("flooding", 3):
        advance(1)
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_no_line_comes_after_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.progress("checking traces", 49, in_logs=True):
        read_until("checking", capsys)
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
