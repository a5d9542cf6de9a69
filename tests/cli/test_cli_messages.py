"""`send`, `listen`, `chat` and `status` on a real cluster of two sites."""

import json
import os
import pty
import signal
import subprocess

import pytest
from command_line import TIMEOUT_S, Run, Start, is_one_line

from antiphon.cli._load.cluster import daemons
from antiphon.cli.status import SILENCE_MAX_US, _links_down
from antiphon.client import ask_status


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


def test_a_person_is_told_what_a_join_waits_for(start: Start, lonely: str) -> None:
    terminal, stderr = pty.openpty()
    try:
        start("listen", "tea", "--address", lonely, stderr=stderr)
        assert "still joining tea" in os.read(terminal, 1000).decode()
    finally:
        os.close(stderr)
        os.close(terminal)


def test_chat_can_be_left_when_a_site_is_gone(start: Start) -> None:
    with daemons(2) as (here, there):
        chatter = start("chat", "tea", "--address", here)
        assert "You are" in first_line(chatter)
        os.kill(ask_status(there)["runtime"]["pid"], signal.SIGKILL)
        out, err = chatter.communicate("/quit\n", timeout=TIMEOUT_S)
    assert (chatter.returncode, err) == (0, "")
    assert "! some site does not answer" in out


def test_status_of_a_whole_cluster(antiphon: Run, start: Start, addresses: list[str]) -> None:
    listener = start("listen", "tea", "--name", "lily", "--address", addresses[0])
    first_line(listener)
    people = antiphon("status", "--address", addresses[0])
    assert (people.returncode, people.stderr) == (0, "")
    for words in ("daemon d1 at site site1", "whole: 1 of 1 link open", "ordering: ", "#lily#d1"):
        assert words in people.stdout
    programs = antiphon("status", "--address", addresses[0], "--json")
    assert programs.returncode == 0
    answer = json.loads(programs.stdout)
    assert answer["runtime"]["pid"] > 0
    assert answer["links"][0]["silent_us"] < SILENCE_MAX_US
    assert answer["slow_sessions"] == []


def test_status_of_a_cluster_that_has_not_formed(antiphon: Run, lonely: str) -> None:
    people = antiphon("status", "--address", lonely)
    assert (people.returncode, people.stderr) == (1, "")
    assert "NOT WHOLE: 0 of 1 link open\n  link to site2 is closed: no answer yet" in people.stdout
    programs = antiphon("status", "--address", lonely, "--json")
    assert programs.returncode == 1
    assert json.loads(programs.stdout)["links"][0]["state"] == "closed"


def test_a_link_that_says_nothing_is_down() -> None:
    link = {"to": "oslo", "state": "open", "reason": "answered", "silent_us": SILENCE_MAX_US}
    assert list(_links_down({"links": [link]})) == []
    link["silent_us"] = 7_900_000
    assert list(_links_down({"links": [link]})) == ["link to oslo is silent: nothing came for 7 s"]
