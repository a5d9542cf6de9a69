"""`send`, `listen`, `chat` and `status` on a real cluster of two sites."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import COMMAND, TIMEOUT_S, Run, environment

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `antiphon` in the background; whatever still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def run(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment(),
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("service", ["reliable", "fifo", "causal", "agreed", "safe"])
def test_lines_travel_from_send_to_listen(
    antiphon: Run, start: Start, addresses: list[str], service: str
) -> None:
    listener = start("listen", "tea", "--count", "3", "--name", "lily", "--address", addresses[1])
    assert "view" in first_line(listener)
    words = ("send", "tea", "--service", service, "--name", "sam", "--address", addresses[0])
    sent = antiphon(
        *words, stdin="green\nblack\r\n\nm\N{LATIN SMALL LETTER I WITH DIAERESIS}nt\n".replace("\n\n", "\n")
    )
    assert (sent.returncode, sent.stdout, sent.stderr) == (0, "", "")
    out, err = listener.communicate(timeout=TIMEOUT_S)
    assert (listener.returncode, err) == (0, "")
    lines = [f"tea #sam#d1 {service}: {word}" for word in ("green", "black", "m\u00efnt")]
    assert sorted(out.splitlines()) == sorted(lines)
    if service != "reliable":
        assert out.splitlines() == lines


def test_listen_speaks_json(antiphon: Run, start: Start, addresses: list[str]) -> None:
    listener = start(
        "listen", "tea", "news", "--json", "--count", "1", "--name", "lily", "--address", addresses[0]
    )
    views = [json.loads(first_line(listener)) for _ in range(2)]
    assert [(view["event"], view["group"]) for view in views] == [("view", "tea"), ("view", "news")]
    assert views[0]["members"] == ["#lily#d1"]
    assert views[0]["cause"] == "join"
    antiphon("send", "#lily#d1", "--name", "sam", "--address", addresses[1], stdin="only you\n")
    out, _ = listener.communicate(timeout=TIMEOUT_S)
    message = json.loads(out)
    assert message["event"] == "message"
    assert message["payload"] == "only you"
    assert message["sender"] == "#sam#d2"
    assert message["groups"] == ["#lily#d1"]
    assert message["service"] == "agreed"


def test_ctrl_c_ends_a_listener_quietly(start: Start, addresses: list[str]) -> None:
    listener = start("listen", "tea", "--address", addresses[0])
    first_line(listener)
    listener.send_signal(signal.SIGINT)
    _, err = listener.communicate(timeout=TIMEOUT_S)
    assert (listener.returncode, err) == (130, "")


def test_two_people_chat(antiphon: Run, start: Start, addresses: list[str]) -> None:
    ann = start("chat", "tea", "--name", "ann", "--address", addresses[0])
    assert ann.stdin is not None and ann.stdout is not None
    assert "You are #ann#d1 in tea" in first_line(ann)
    assert first_line(ann) == "* join: #ann#d1 (1 here)\n"
    talk = "/who\n/to #ann#d1 psst\nhello all\n/dance\n/to nobody! x\n/quit\n"
    bob = antiphon("chat", "tea", "--name", "bob", "--address", addresses[1], stdin=talk)
    assert bob.returncode == 0
    assert "#bob#d2: hello all" in bob.stdout
    assert "! unknown command /dance; /help lists them" in bob.stdout
    assert "! group name 'nobody!'" in bob.stdout
    heard = [first_line(ann) for _ in range(4)]
    assert heard == [
        "* join: #bob#d2 (2 here)\n",
        "#bob#d2 (to you only): psst\n",
        "#bob#d2: hello all\n",
        "* leave: #bob#d2 (1 here)\n",
    ]
    ann.communicate("/quit\n", timeout=TIMEOUT_S)
    assert ann.returncode == 0


def test_status_for_people_and_for_programs(antiphon: Run, addresses: list[str]) -> None:
    people = antiphon("status", "--address", addresses[0])
    assert (people.returncode, people.stderr) == (0, "")
    assert "d1" in people.stdout and "site2" in people.stdout
    programs = antiphon("status", "--address", addresses[0], "--json")
    assert programs.returncode == 0
    assert json.loads(programs.stdout)["runtime"]["pid"] > 0
