"""`send`, `listen` and `chat` on real clusters, also when daemons are lost."""

import io
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from command_line import TIMEOUT_S, Run, Start, is_one_line

from antiphon import Cause, Left, Reconnected, TransitionalSignal, View, ViewId
from antiphon.cli import screen
from antiphon.cli.listen import as_json
from antiphon.client import ask_status
from antiphon.load.cluster import daemons
from antiphon.words import described


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


def test_a_resilient_line_says_so(antiphon: Run, start: Start, addresses: list[str]) -> None:
    listener = start("listen", "tea", "--count", "2", "--name", "lily", "--json", "--address", addresses[1])
    assert json.loads(first_line(listener))["event"] == "view"
    for asked in ("2", "majority"):
        words = ("send", "tea", "--resilience", asked, "--name", "sam", "--address", addresses[0])
        sent = antiphon(*words, stdin=f"{asked}\n")
        assert (sent.returncode, sent.stdout, sent.stderr) == (0, "", "")
    out, _ = listener.communicate(timeout=TIMEOUT_S)
    told = [json.loads(line) for line in out.splitlines()]
    assert [(one["payload"], one["resilience"]) for one in told] == [("2", 2), ("majority", "majority")]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--resilience", "some"), "resilience must be majority, total or a whole number from 0 to 512"),
        (("--resilience", "2", "--service", "safe"), "which waits for all daemons anyway"),
    ],
)
def test_a_resilience_that_cannot_be_had_is_one_line(
    antiphon: Run, addresses: list[str], words: tuple[str, ...], complaint: str
) -> None:
    sent = antiphon("send", "tea", *words, "--address", addresses[0], stdin="x\n")
    assert sent.returncode == 2 and complaint in sent.stderr and sent.stderr.count("\n") == 1


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


def test_a_message_may_stand_on_the_command_line(antiphon: Run, start: Start, addresses: list[str]) -> None:
    listener = start("listen", "tea", "--count", "2", "--json", "--address", addresses[0])
    assert "view" in first_line(listener)
    for words in (["two", "words"], ["--", "--not-an-option"]):
        assert antiphon("send", "tea", "--address", addresses[1], *words, stdin="not read\n").returncode == 0
    out, _ = listener.communicate(timeout=TIMEOUT_S)
    payloads = [json.loads(line)["payload"] for line in out.splitlines() if "payload" in line]
    assert payloads == ["two words", "--not-an-option"]


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
    assert "! no member is called nobody!" in bob.stdout
    heard = [first_line(ann) for _ in range(4)]
    assert heard == [
        "* join: #bob#d2 (2 here)\n",
        "#bob#d2 (to you only): psst\n",
        "#bob#d2: hello all\n",
        "* leave: #bob#d2 (1 here)\n",
    ]
    ann.communicate("/quit\n", timeout=TIMEOUT_S)
    assert ann.returncode == 0


def test_a_killed_daemon_is_one_line_for_everybody(start: Start) -> None:
    with daemons(2) as (here, there):
        listener = start("listen", "tea", "flood", "--address", there)
        assert "tea view" in first_line(listener)
        assert "flood view" in first_line(listener)
        words = ("--rate", "200", "--seconds", "1000", "--address", here, "--member-address", there)
        flooder = start("flood", *words)
        chatter = start("chat", "tea", "--address", there)
        sender = start("send", "tea", "--name", "sam", "--address", there)
        assert sender.stdin is not None
        print("hello", file=sender.stdin, flush=True)
        assert "You are" in first_line(chatter)
        waits_for = {"#sam#", "flood #"}
        while waits_for:
            line = first_line(listener)
            waits_for = {word for word in waits_for if word not in line}
        os.kill(ask_status(there)["runtime"]["pid"], signal.SIGKILL)
        for process in (listener, flooder, chatter, sender):
            _, err = process.communicate("more\n" if process is sender else None, timeout=TIMEOUT_S)
            assert process.returncode == 1
            assert is_one_line(err), err
            assert "disconnected" in err


def test_a_person_is_told_what_a_join_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def flush(self) -> None:
            told.set()

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(screen, "PATIENCE_S", 0.001)
    with screen.joining("tea"):
        assert told.wait(TIMEOUT_S)
    assert "still joining tea" in terminal.getvalue()


def test_chat_can_be_left_when_a_site_is_gone(start: Start) -> None:
    with daemons(2) as (here, there):
        chatter = start("chat", "tea", "--address", here)
        assert "You are" in first_line(chatter)
        os.kill(ask_status(there)["runtime"]["pid"], signal.SIGKILL)
        _, err = chatter.communicate("/quit\n", timeout=TIMEOUT_S)
    assert (chatter.returncode, err) == (0, "")


def test_a_crash_is_seen_by_those_who_stay_and_survived_by_those_who_come_back(start: Start) -> None:
    with daemons(3) as (here, there, elsewhere):
        listener = start("listen", "tea", "--name", "lily", "--address", here)
        assert "(join: #lily#d1): #lily#d1" in first_line(listener)
        programs = start("listen", "tea", "--json", "--name", "jason", "--address", here)
        assert "#jason#d1" in first_line(listener)
        assert json.loads(first_line(programs))["cause"] == "join"
        chatter = start("chat", "tea", "--name", "charly", "--reconnect", "--address", f"{there},{elsewhere}")
        assert "You are #charly#d2" in first_line(chatter)
        assert "3 here" in first_line(chatter)
        assert "#charly#d2" in first_line(listener)
        assert json.loads(first_line(programs))["changed"] == ["#charly#d2"]
        os.kill(ask_status(there)["runtime"]["pid"], signal.SIGKILL)

        assert "* reconnected: #charly#d2 is now #charly#d3 (" in first_line(chatter)
        seen = [json.loads(first_line(programs))]
        while (latest := seen[-1]).get("members") != ["#lily#d1", "#jason#d1", "#charly#d3"]:
            seen.append(json.loads(first_line(programs)))
        assert {view["cause"] for view in seen if view["event"] == "view"} == {"network", "join"}
        assert seen[0]["event"] == "signal" and seen[0]["group"] == "tea"
        assert "#charly#d3" in latest["members"]
        words = [first_line(listener) for _ in seen]
        assert words[0].startswith("tea signal: some members of view ")
        assert any("(network: #charly#d2): " in line for line in words)

        print("still here", file=chatter.stdin, flush=True)
        assert "tea #charly#d3 agreed: still here" in first_line(listener)


def test_every_event_has_words_and_json() -> None:
    identity = ViewId(1826384838276352001, 0, 1826384838377914002, 2)
    view = View("tea", identity, ("#a#d1",), ("#a#d1",), Cause.NETWORK, ("#b#d2", "#c#d2"))
    returned = Reconnected("#a#d1", "#a#d2", "d2", "unix:x", ("tea",), "gone", unknown_fate=2)
    events = (view, TransitionalSignal("tea", identity), Left("tea", identity), returned)
    assert [described(event) for event in events] == [
        "tea view 914002 (network: #b#d2, #c#d2): #a#d1",
        "tea signal: some members of view 914002 cannot be reached",
        "tea left (view 914002)",
        "reconnected: #a#d1 is now #a#d2 (gone); joining again: tea; 2 sent messages of unknown fate",
    ]
    fields = [json.loads(as_json(event)) for event in events]
    assert [one["event"] for one in fields] == ["view", "signal", "left", "reconnected"]
    assert fields[0]["cause"] == "network"
    assert fields[1] == {"event": "signal", "group": "tea", "id": str(identity)}
    assert (fields[3]["old_name"], fields[3]["unknown_fate"]) == ("#a#d1", 2)
