"""`bench peers`: what is measured, how it is told, and what is said of a peer that is not installed."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from command_line import Run, Start

from antiphon.errors import AntiphonError
from antiphon.load.peers import peer as peers
from antiphon.load.peers import turns
from antiphon.load.peers.figures import Spread, spread, summaries
from antiphon.load.peers.known import OURS, PEERS
from antiphon.load.peers.peer import Peer
from antiphon.load.peers.servers import running
from antiphon.load.peers.turns import FLAT_OUT, PACED, Fault, Season, Turn, play
from antiphon.load.peers.work import Count, Stream, Work
from antiphon.load.plan import Received, Sent

OTHERS = [name for name in PEERS if name != OURS]
QUICK = ("--seconds", "0.3", "--rounds", "1", "--size", "100")


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def part(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["part"] == name]


# Real runs ------------------------------------------------------------------------------------------------


def test_ours_alone(antiphon: Run) -> None:
    done = antiphon("bench", "peers", "--peer", "antiphon", *QUICK, "--receivers", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = rows_of(done.stdout)
    assert [row["peer"] for row in part(rows, "peers")] == ["antiphon"]
    assert [(row["size_bytes"], row["load"]) for row in part(rows, "turns")] == [
        (100, "flat-out"),
        (100, "paced"),
    ]
    for row in part(rows, "turns"):
        assert row["received"] == row["sent"] > 0
        assert (row["lost"], row["out_of_order"]) == (0, 0)
    for row in part(rows, "summary"):
        assert row["messages_per_s"]["median"] > 0
        assert row["of_ours"] == {"median": 1.0, "min": 1.0, "max": 1.0}
        assert 0 < row["p50_us"]["median"] <= row["p99_us"]["median"]
    assert not part(rows, "faults")


@pytest.mark.parametrize("name", OTHERS)
def test_a_peer_beside_ours(antiphon: Run, name: str) -> None:
    if lacks := PEERS[name].missing():
        pytest.skip(lacks)
    done = antiphon("bench", "peers", "--peer", name, *QUICK, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = rows_of(done.stdout)
    assert not part(rows, "faults")
    assert [row["peer"] for row in part(rows, "turns")] == ["antiphon", "antiphon", name, name]
    assert all(row["received"] > 0 for row in part(rows, "turns"))
    ours, theirs = part(rows, "summary")
    assert (ours["peer"], theirs["peer"]) == ("antiphon", name)
    assert theirs["messages_per_s"]["median"] > 0 and theirs["of_ours"]["median"] > 0
    assert 0 < theirs["p50_us"]["median"] <= theirs["p99_us"]["median"]
    assert theirs["out_of_order"] == 0
    versions = next(row["versions"] for row in part(rows, "peers") if row["peer"] == name)
    assert versions and all(versions.values())


def test_people_get_tables(antiphon: Run) -> None:
    done = antiphon("bench", "peers", "--peer", "antiphon", *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Messages a second, median of 1 round" in done.stdout
    assert "One-way latency" in done.stdout
    assert "1.00 (1.00-1.00)" in done.stdout


def test_an_interrupted_run_leaves_nothing_behind(start: Start) -> None:
    running = start("bench", "peers", "--peer", "antiphon", "--seconds", "30", "--size", "100", "--json")
    assert running.stdout is not None
    assert json.loads(running.stdout.readline())["part"] == "peers"
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 130


@pytest.mark.parametrize("words", [("--peer", "pigeon"), ("--size", "15"), ("--rounds", "0")])
def test_wrong_use(antiphon: Run, words: tuple[str, ...]) -> None:
    done = antiphon("bench", "peers", *words)
    assert (done.returncode, done.stdout) == (2, "")


# What is not installed ------------------------------------------------------------------------------------


class Absent(Peer):
    """A peer that nobody has."""

    name = "absent"
    programs: ClassVar[dict[str, str]] = {"absentd": "absent-server", "absentctl": "absent-server"}
    packages = ("antiphon-absent",)

    def server(self, folder: Path) -> Any:
        raise AssertionError("what is not installed is not started")

    def send(self, work: Work, address: str) -> Sent:
        raise AssertionError

    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        raise AssertionError


def test_what_is_missing_is_told_with_the_command_that_installs_it() -> None:
    assert Absent().missing() == (
        "no absentd, no absentctl, no antiphon-absent; "
        "apt-get install absent-server; pip install antiphon-absent"
    )


def test_only_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_program", lambda name: "/bin/true" if name != "absentctl" else None)
    monkeypatch.setattr(peers, "_package_version", lambda _name: "1.0")
    assert Absent().missing() == "no absentctl; apt-get install absent-server"


def test_what_is_missing_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from antiphon.cli.main import exit_code

    played: list[list[str]] = []
    monkeypatch.setitem(PEERS, "absent", Absent())
    monkeypatch.setattr(
        "antiphon.cli.peers.play",
        lambda _season, chosen, _tell, _advance: played.append([peer.name for peer in chosen]),
    )
    assert exit_code(["bench", "peers", "--peer", "absent", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "absent is not installed: no absentd, no absentctl, no antiphon-absent; apt-get" in out
    assert exit_code(["bench", "peers", "--peer", "absent", *QUICK, "--json"]) == 0
    rows = rows_of(capsys.readouterr().out)
    told = part(rows, "peers")[1]
    assert told["peer"] == "absent" and told["missing"].startswith("no absentd")
    assert played == [["antiphon"], ["antiphon"]]


# A peer that fails ----------------------------------------------------------------------------------------


class Failing(Absent):
    """A peer whose server ends at once."""

    name = "failing"

    def server(self, folder: Path) -> Any:
        return running(["sh", "-c", "echo no room; exit 3"], folder, lambda _: False)


def test_a_peer_that_fails_is_told_of_and_the_others_go_on() -> None:
    told: list[Turn | Fault] = []
    advanced: list[float] = []
    play(Season(2, 0.1, (100, 200), 1), [Failing()], told.append, advanced.append)
    assert told == [Fault("failing", number, "sh ended early: no room") for number in (1, 2)]
    assert sum(advanced) == 2 * 4


def test_we_must_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "OURS", "failing")
    with pytest.raises(AntiphonError, match="no room"):
        play(Season(1, 0.1, (100,), 1), [Failing()], lambda _: None, lambda _: None)


def test_a_server_is_gone_afterwards(tmp_path: Path) -> None:
    with suppress(KeyError), running(["sleep", "60"], tmp_path, lambda _: True) as process:
        raise KeyError
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


# The work -------------------------------------------------------------------------------------------------


def payloads(work: Work) -> list[bytes]:
    return [payload for burst in Stream(work) for payload in burst]


def test_all_that_is_sent_is_counted_without_probes_and_end_mark() -> None:
    work = Work(64, 0.0, 0.01)
    stream, count = Stream(work), Count(work)
    for burst in stream:
        count.take_many(burst)
    report = count.report()
    assert count.is_over
    assert report.messages == stream.report().messages > 0
    assert report.payload_bytes == 64 * report.messages
    assert report.out_of_order == report.p50_us == 0


def test_a_paced_stream_keeps_its_rate_and_has_latencies() -> None:
    work = Work(16, 20_000.0, 0.02)
    stream, count = Stream(work), Count(work)
    for burst in stream:
        count.take_many(burst)
    assert 1 <= stream.report().messages <= 401
    assert count.report().p99_us > 0


def test_gaps_are_losses_and_what_was_overtaken_is_out_of_order() -> None:
    work = Work(16, 0.0, 0.01)
    *_, first, second, third, fourth, end = payloads(work)
    base = Count(work)
    base.take_many([first, third, second, fourth, end])
    assert (base.report().messages, base.report().out_of_order) == (4, 1)
    lossy = Count(work)
    lossy.take_many([first, fourth, end])
    assert (lossy.report().messages, lossy.report().out_of_order) == (2, 0)


def test_silence_ends_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("antiphon.load.peers.work.time.monotonic", lambda: now_s)
    count = Count(Work(16, 0.0, 1.0))
    count.take((0).to_bytes(16, "little"))
    count.look()
    now_s += 2.9
    count.look()
    assert not count.is_over
    now_s += 0.2
    count.look()
    assert count.is_over


# Figures --------------------------------------------------------------------------------------------------


def turn(peer: str, number: int, load: str, figure: float, lost: int = 0) -> Turn:
    p50_us = int(figure) if load == PACED else None
    return Turn(peer, number, load, 100, figure, 0.0, p50_us, p50_us, 10, 10 - lost, lost, 0, 1.0)


def test_ratios_are_taken_within_a_round() -> None:
    played = [
        turn(OURS, 1, FLAT_OUT, 100.0),
        turn("nats", 1, FLAT_OUT, 50.0, lost=2),
        turn(OURS, 2, FLAT_OUT, 10.0),
        turn("nats", 2, FLAT_OUT, 20.0),
        turn(OURS, 2, PACED, 200.0),
        turn("nats", 2, PACED, 300.0, lost=1),
    ]
    ours, theirs = summaries(played)
    assert ours.of_ours == Spread(1.0, 1.0, 1.0)
    assert theirs.messages_per_s == Spread(35.0, 20.0, 50.0)
    assert theirs.of_ours == Spread(1.25, 0.5, 2.0)
    assert theirs.p50_of_ours == Spread(1.5, 1.5, 1.5)
    assert (theirs.rounds, theirs.lost) == (2, 3)


def test_what_never_came_has_no_figures() -> None:
    (theirs,) = summaries([turn("nats", 1, FLAT_OUT, 0.0, lost=10)])
    assert theirs.messages_per_s is theirs.of_ours is theirs.p50_us is None
    assert (theirs.rounds, theirs.lost) == (0, 10)
    assert spread([]) is None
