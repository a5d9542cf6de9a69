"""Edges on the command line: how one is started, what is said of wrong words, what its status shows."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import COMMAND, TIMEOUT_S, Run, Start, environment, is_one_line

from antiphon.cli.edge_status import edge_told
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.edge import EdgeDaemon
from antiphon.runtime.local import local_config

FILE = """\
[[site]]
name = "here"
[[site.daemon]]
name = "d1"
address = "127.0.0.1:4810"
clients = ["unix:d1.sock"]
[[edge]]
name = "hall"
clients = ["unix:hall.sock"]
attach = ["d1"]
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--edge", "--edge needs --attach"),
        ("--edge --attach d1", "address 'd1' is not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ("--edge --attach tcp:10.0.0.7", "address '10.0.0.7' is not HOST:PORT"),
        ("--edge --attach unix:a --attach unix:a", "unix:a appears more than once"),
        ("--edge --attach unix:a --clients unix:a", "cannot attach to itself"),
        ("--edge --attach unix:a --clients here", "'here' is not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ("--edge --attach unix:a --name two~words#", "has the character '#'"),
        (
            "--edge --attach unix:a --config cluster.toml",
            "--edge goes with --attach, --name, --clients, --reach, --stay, --multicast, --insecure only",
        ),
        (
            "--edge --attach unix:a --cluster tea",
            "--edge goes with --attach, --name, --clients, --reach, --stay, --multicast, --insecure only",
        ),
        (
            "--edge --attach unix:a --trace t",
            "--edge goes with --attach, --name, --clients, --reach, --stay, --multicast, --insecure only",
        ),
        ("--edge " + " ".join(f"--attach unix:{n}" for n in range(17)), "1 to 16 addresses"),
        ("--attach unix:a", "--attach, --reach, --stay and --multicast are for --edge"),
        (
            "--config cluster.toml --name hall --clients unix:a",
            "--clients is for --edge, or one daemon alone",
        ),
        ("--config cluster.toml --name attic", "known: d1, hall"),
    ],
)
def test_wrong_words_are_answered_with_one_line(
    antiphon: Run, tmp_path: Path, words: str, expected: str
) -> None:
    (tmp_path / "cluster.toml").write_text(FILE)
    done = antiphon("daemon", *words.split())
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert expected in done.stderr


def test_the_check_of_a_file_names_its_edges(antiphon: Run, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(FILE)
    assert antiphon("config", "check", "cluster.toml").stdout.endswith("here (d1); edges: hall\n")


def test_an_edge_without_a_file(antiphon: Run, tmp_path: Path) -> None:
    words = ["--edge", "--attach", "unix:nowhere.sock", "--name", "hall", "--clients", "unix:hall.sock"]
    process = subprocess.Popen(
        [*COMMAND, "daemon", *words], stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()
    )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not (tmp_path / "hall.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        done = antiphon("status", "--address", "unix:hall.sock")
        assert (done.returncode, done.stderr) == (1, "")
        for said in ("edge hall, in no view", "NOT ATTACHED", "unix:nowhere.sock: No such file or directory"):
            assert said in done.stdout
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Traceback" not in log
    assert "edge hall has stopped" in log
    assert not (tmp_path / "hall.sock").exists()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A daemon, and an edge that is attached to it."""
    folder = tmp_path_factory.mktemp("edge")
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(local_config(1, folder), "d1"))
        place = f"unix:{folder}/hall.sock"
        stack.enter_context(EdgeDaemon("hall", daemon.places, [place]))
        yield [daemon.places[0], place]


def test_status_of_an_edge_and_of_its_attachment(antiphon: Run, start: Start, places: list[str]) -> None:
    listener = start("listen", "tea", "--name", "lily", "--json", "--address", places[1])
    assert listener.stdout is not None
    first = json.loads(listener.stdout.readline())
    assert (first["event"], first["changed"]) == ("view", ["#lily#hall"])
    assert first["receivers"] in (0, 1), "they are counted now and then"
    people = antiphon("status", "--address", places[1])
    assert (people.returncode, people.stderr) == (0, "")
    for words in (
        "edge hall, in no view",
        "attached, all groups flow",
        f"attached to d1 ({places[0]})",
        "place in the feed: ",
        "groups: 2 of 2 flow",
        "#lily#hall",
    ):
        assert words in people.stdout
    answer = json.loads(antiphon("status", "--address", places[1], "--json").stdout)
    assert (answer["edge"], answer["attachment"]["name"]) == ("hall", "d1")
    assert answer["groups"]["tea"] == ["#lily#hall"]
    assert answer["attachments"][0]["address"] == places[0]
    core = antiphon("status", "--address", places[0])
    row = next(line.split() for line in core.stdout.splitlines() if line.strip().startswith("hall"))
    assert row[:3] == ["hall", "fed", "2"]
    told = antiphon("explain", "--address", places[1])
    assert f"ago: attached to d1 ({places[0]}), a daemon of the core.\n" in told.stdout
    record = json.loads(antiphon("explain", "--address", places[1], "--json", "--last", "1").stdout)
    assert record["event"] == "attached"


def test_explain_tells_losses_gaps_and_why_a_better_attachment_is_not_used() -> None:
    history = [
        {"ago_us": 90_000_000, "event": "attached", "name": "d1 (unix:a)", "detail": "a daemon of the core"},
        {
            "ago_us": 4_000_000,
            "event": "lost",
            "name": "d1 (unix:a)",
            "detail": "nothing was heard for 1500 ms",
        },
        {"ago_us": 3_000_000, "event": "gap", "name": "tea", "detail": "forgotten"},
    ]
    preferred = {"address": "unix:a", "reason": "Connection refused", "again_us": 2_000_000}
    answer = {"history": history, "attachment": {"place": 1}, "attachments": [preferred, preferred]}
    assert list(edge_told(answer)) == [
        "90.0 s ago: attached to d1 (unix:a), a daemon of the core.",
        "4.0 s ago: lost d1 (unix:a): nothing was heard for 1500 ms.",
        "3.0 s ago: something of tea may be missing: forgotten.",
        "Not unix:a now: Connection refused; tried again in 2.0 s.",
    ]
