"""Questions about a daemon: answered in pages and in slices, one at a time for each client."""

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from local_cluster import Cluster
from process_cluster import ProcessCluster
from raw_client import RawClient, status, wait_until

from antiphon.client import ask_status
from antiphon.config import Config
from antiphon.core.groups.group import Group
from antiphon.core.node import Node
from antiphon.runtime import answers, client_limits, listener
from antiphon.runtime.answers import Answers
from antiphon.runtime.connection import Connection
from antiphon.runtime.local import local_config
from antiphon.runtime.status import PAGE_BYTES, Place, Steps, page
from antiphon.wire import frames
from antiphon.wire.frames import AskStatus


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with sessions and groups of many sizes, made by hand."""
    node = Node(local_config(1, tmp_path), "d1", incarnation=1, now_us=0, wall_us=0)
    for number in range(300):
        node.connect(frames.Connect(frames.PROTOCOL_VERSION, f"s{number}"), 0)
    groups = node.delivery.membership.groups
    for number in range(5_000):
        groups[f"g{number * 7919 % 5_000:04d}"] = some_group(number % 3 + 1)
    groups["crowd"] = some_group(9_000)
    return node


def some_group(size: int) -> Group:
    group = Group.__new__(Group)
    group.members = {(0, number): f"#s{number}#d1" for number in range(size)}
    return group


def made(node: Node, request: AskStatus) -> tuple[dict[str, Any], int]:
    """A page, and in how many steps it was made."""
    steps: Steps = page(
        node.delivery.membership.groups,
        node.sessions,
        request,
        lambda: {"daemon": "d1", "runtime": {}},
        lambda numbers: {},
    )
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            assert len(done.value) < 2 * PAGE_BYTES
            return msgspec.json.decode(done.value), count
        count += 1


def pages(node: Node, **limits: int) -> list[dict[str, Any]]:
    found = [made(node, AskStatus(**limits))[0]]
    while after := found[-1]["next"]:
        found.append(made(node, AskStatus(after, **limits))[0])
    return found


def test_pages_are_small_and_have_everything_once(node: Node) -> None:
    found = pages(node)
    assert len(found) > 5
    assert ["daemon" in one for one in found] == [True] + [False] * (len(found) - 1)
    told: dict[str, list[str]] = {}
    for one in found:
        for group, members in one["groups"].items():
            told.setdefault(group, []).extend(members)
    groups = node.delivery.membership.groups
    assert told == {name: list(groups[name].members.values()) for name in sorted(groups)}
    sessions = [session["number"] for one in found for session in one["sessions"]]
    assert sessions == [session.number for session in node.sessions]
    assert "not_shown" not in found[-1]


def test_each_page_tells_how_much_is_left(node: Node) -> None:
    told = 0
    for one in pages(node)[:3]:
        told += sum(group != "crowd" for group in one["groups"])
        assert one["not_shown"]["groups"] == 5_000 - told
        assert one["not_shown"]["sessions"] == 300


def test_as_much_comes_as_is_wanted(node: Node) -> None:
    (one,) = pages(node, groups=3, members=2, sessions=5)
    assert list(one["groups"]) == ["crowd", "g0000", "g0001"]
    assert one["groups"]["crowd"] == ["#s0#d1", "#s1#d1"]
    assert one["group_sizes"]["crowd"] == 9_000
    assert len(one["sessions"]) == 5
    assert (one["not_shown"]["groups"], one["not_shown"]["sessions"]) == (4_998, 295)
    (nothing,) = pages(node, groups=0, sessions=0)
    assert (nothing["groups"], nothing["sessions"]) == ({}, [])


def test_a_page_is_made_in_many_steps(node: Node) -> None:
    _, steps = made(node, AskStatus())
    assert steps > 10


def test_what_changes_while_a_page_is_made_is_no_mistake(node: Node) -> None:
    groups = node.delivery.membership.groups
    steps = page(
        node.delivery.membership.groups,
        node.sessions,
        AskStatus(),
        lambda: {"runtime": {}},
        lambda numbers: {},
    )
    told = None
    with contextlib.suppress(KeyError):
        while told is None:
            try:
                next(steps)
            except StopIteration as done:
                told = msgspec.json.decode(done.value)
            for _ in range(100):
                if groups:
                    groups.popitem()
    assert told is not None


@pytest.mark.parametrize("text", ["x", "g tea", "g tea x", "g tea -1", "s x", "s 1 2", "s "])
def test_a_place_that_is_none_ends_the_connection(cluster: Cluster, text: str) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0]) as eve:
        eve.say(AskStatus(text))
        assert eve.hear(frames.Goodbye).reason == "control frame: no place in a status"


@pytest.mark.parametrize("place", [Place("tea"), Place("tea", 7), Place(session=0), Place(session=12)])
def test_places_travel_as_text(place: Place) -> None:
    assert Place.parse(str(place)) == place


def joined(client: RawClient, count: int, prefix: str = "g") -> None:
    for number in range(count):
        client.say(frames.Join(f"{prefix}{number}"))
    while client.hear(frames.ViewFrame).view.group != f"{prefix}{count - 1}":
        pass


def test_the_library_pages_through_all_and_a_program_can_ask_for_less(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.runtime.status.PAGE_BYTES", 500)
    (daemon,) = cluster.start()
    place = daemon.places[0]
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(RawClient(place, f"c{number}")) for number in range(30)]
        for client in crowd:
            client.say(frames.Join("all"))
        joined(crowd[0], 60)
        wait_until(lambda: len(ask_status(place)["groups"]["all"]) == 30)
        told = ask_status(place)
        assert sorted(told["groups"]) == sorted(["all", *(f"g{number}" for number in range(60))])
        assert [session["name"] for session in told["sessions"]] == [f"#c{number}#d1" for number in range(30)]
        assert not {"next", "not_shown", "group_sizes"} & told.keys()
        some = ask_status(place, groups=20, members=4, sessions=7)
        assert (len(some["groups"]), len(some["groups"]["all"]), len(some["sessions"])) == (20, 4, 7)
        assert some["group_sizes"] == {"all": 30}
        assert some["not_shown"] == {"groups": 41, "members": 26, "sessions": 23}


@pytest.mark.parametrize("name", [None, "ada"], ids=["without a session", "in a session"])
def test_questions_are_answered_one_by_one_and_all_of_them(cluster: Cluster, name: str | None) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], name) as curious:
        question = frames.encode_control(AskStatus())
        curious.send_bytes(question * 300)
        for _ in range(300):
            assert b'"daemon":"d1"' in curious.hear(frames.Status).json
        if name:  # what came behind the questions is not lost
            curious.send_bytes(question * 3 + curious.bundle(curious.name, [b"behind"]) + question)
            assert curious.messages(1)[0].payload == b"behind"


def test_one_answer_is_under_way_to_a_client_that_does_not_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Connection] = []
    work = Answers.ask

    def ask(self: Answers, connection: Connection, request: AskStatus, now: int) -> None:
        made.append(connection)
        assert connection.waiting_bytes < PAGE_BYTES
        work(self, connection, request, now)

    monkeypatch.setattr(Answers, "ask", ask)
    monkeypatch.setattr(client_limits, "GREETING_TIMEOUT_US", 60_000_000)
    monkeypatch.setattr(listener, "CLIENT_BUFFER_BYTES", 4_096)  # so that the kernel keeps no answers
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada, RawClient(daemon.places[0]) as deaf:
        joined(ada, 1_000)
        deaf.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(10_000):
                deaf.socket.send(frames.encode_control(AskStatus()) * 1_000)
        for _ in range(50):  # others are answered meanwhile
            told = status(daemon.places[1])
            assert told["runtime"]["memory"]["answers"]["bytes"] < 4 * PAGE_BYTES
    # The kernel holds the first answers; behind them the daemon holds one, and takes no question more.
    assert len(made) < 100


def test_those_who_leave_answers_unread_give_way_to_those_who_wait(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "CLIENT_BUFFER_BYTES", 4_096)  # so that the kernel keeps no answers
    monkeypatch.setattr(answers, "UNREAD_MAX_BYTES", 100_000)
    monkeypatch.setattr(answers, "PATIENCE_US", 50_000)
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada, contextlib.ExitStack() as stack:
        joined(ada, 1_000)
        crowd = [stack.enter_context(RawClient(daemon.places[0], f"deaf{number}")) for number in range(8)]
        for deaf in crowd:
            deaf.send_bytes(frames.encode_control(AskStatus()) * 100)
        for last in (frames.encode_control(frames.Disconnect()), b"\0"):  # also from one who is leaving
            with RawClient(daemon.places[0], "leaving") as leaving:
                leaving.send_bytes(frames.encode_control(AskStatus()) + last)
        for _ in range(20):
            assert status(daemon.places[1])["daemon"] == "d1"
        wait_until(lambda: status(daemon.places[1])["runtime"]["clients"]["slow_receivers"] > 0)


def test_a_flood_of_questions_costs_no_memory_and_no_view(tmp_path: Path) -> None:
    """200 KB of questions to a daemon with 5,000 groups, by ten clients that do not read: the answers would
    take more than a gigabyte."""
    config: Config = local_config(2, tmp_path)
    with contextlib.ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        for start in range(5):
            joined(stack.enter_context(RawClient(cluster.places[0], f"m{start}")), 1_000, f"g{start}-")
        before = ask_status(cluster.places[0], groups=0, sessions=0)
        resident_bytes = cluster.resident_bytes(0)
        crowd = [stack.enter_context(RawClient(cluster.places[0], f"deaf{number}")) for number in range(10)]
        for deaf in crowd:
            deaf.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                deaf.socket.send(frames.encode_control(AskStatus()) * 10_000)
        with RawClient(cluster.places[0], "ada") as ada, RawClient(cluster.places[1], "bob") as bob:
            bob.join("calm")
            for number in range(200):
                ada.send("calm", b"%d" % number)
                assert bob.messages(1)[0].payload == b"%d" % number
        after = ask_status(cluster.places[0], groups=0, sessions=0)
        assert after["view"]["id"] == before["view"]["id"]
        assert cluster.resident_bytes(0) - resident_bytes < 100 * 2**20
        cluster.assert_well()
