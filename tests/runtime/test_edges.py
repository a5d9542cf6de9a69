"""Edges in processes of their own, with real daemons: what clients get there, and what an attachment's death
changes about it."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
from edge_cluster import PATIENCE_S, EdgeCluster, Flood, events_until, numbers
from raw_client import RawClient, status, wait_until

from antiphon import Call, Cause, Event, Gap, Message, Reconnected, Service, Unsure, View, blocking, limits
from antiphon.config import Settings
from antiphon.errors import UsageError
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.edge import EdgeDaemon
from antiphon.runtime.local import local_config
from antiphon.wire import edges, frames

ALL = ("d1", "d2", "d3")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeCluster]:
    with ExitStack() as stack:
        yield EdgeCluster(tmp_path_factory.mktemp("edges"), stack, {"e1": ALL})


def is_message(payload: bytes) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Message) and event.payload == payload


def test_clients_at_an_edge_get_what_members_get_in_the_same_order(
    cluster: EdgeCluster, stack: ExitStack
) -> None:
    member, sender = (stack.enter_context(blocking.connect(cluster.place(name))) for name in ("d3", "d2"))
    client = stack.enter_context(blocking.connect(cluster.place("e1"), name="bob"))
    assert (client.name, client.daemon) == ("#bob#e1", "e1")
    member.join("tea")
    client.join("tea")
    first = client.receive(timeout_s=PATIENCE_S)
    assert isinstance(first, View)
    assert (first.cause, first.changed, first.members) == (Cause.JOIN, ("#bob#e1",), (member.name,))
    services = (Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)
    for number in range(400):
        sender.send("tea", b"%d" % number, services[number % 4])
    client.send("tea", b"from the edge", Service.SAFE)
    client.wait_accepted()
    sender.join("tea")
    sender.send("tea", b"last", Service.SAFE)
    heard = [events_until(session, is_message(b"last")) for session in (member, client)]
    texts = [[event.payload for event in events if isinstance(event, Message)] for events in heard]
    assert sorted(texts[0]) == sorted(texts[1])
    ordered = [
        [event.payload for event in events if isinstance(event, Message) and event.service >= Service.AGREED]
        for events in heard
    ]
    assert ordered[0] == ordered[1]
    views = [[event.id for event in events if isinstance(event, View)] for events in heard]
    assert views[0][-1] == views[1][-1]
    own = next(event for event in heard[0] if isinstance(event, Message) and event.sender == "#bob#e1")
    member.send(own.sender, b"to bob alone")
    assert events_until(client, is_message(b"to bob alone"))
    client.leave("tea")
    cluster.assert_edges_are_well()


@pytest.mark.parametrize(
    "service",
    [
        pytest.param(Service.AGREED, id="agreed"),
        pytest.param(Service.SAFE, id="safe", marks=pytest.mark.long),
    ],
)
def test_a_killed_attachment_costs_its_clients_nothing(
    tmp_path: Path, stack: ExitStack, service: Service
) -> None:
    cluster = EdgeCluster(tmp_path, stack, {"e1": ALL})
    client = stack.enter_context(blocking.connect(cluster.place("e1")))
    client.join("tea")
    flood = Flood(cluster.place("d2"), "tea", service)
    flood.wait(500)
    assert cluster.attachment("e1") == "d1"
    cluster.kill(0)
    flood.wait(500)
    count = flood.end()
    assert numbers(client) == list(range(count))
    told = cluster.status("e1")
    assert told is not None
    assert (told["attachment"]["name"], told["losses"], told["flow"]["gaps"]) == ("d2", 1, 0)
    assert [record["event"] for record in told["history"]] == ["attached", "lost", "attached"]
    cluster.assert_edges_are_well()


def test_a_killed_attachment_of_idle_groups_is_no_gap(tmp_path: Path, stack: ExitStack) -> None:
    cluster = EdgeCluster(tmp_path, stack, {"e1": ALL})
    member = stack.enter_context(blocking.connect(cluster.place("d3")))
    client = stack.enter_context(blocking.connect(cluster.place("e1")))
    member.join("tea")
    client.join("tea")
    time.sleep(3 * limits.EDGE_BEAT_US / 1e6)  # until the edge has heard that it is beyond the join
    cluster.kill(0)
    wait_until(lambda: cluster.attachment("e1") == "d2")
    member.send("tea", b"last")
    heard = events_until(client, is_message(b"last"))
    assert not [event for event in heard if isinstance(event, Gap)]


@pytest.mark.long
def test_an_edge_behind_a_killed_edge_goes_on_elsewhere(tmp_path: Path, stack: ExitStack) -> None:
    cluster = EdgeCluster(tmp_path, stack, {"e1": ALL, "e2": ("e1", "d3")})
    if cluster.attachment("e2") != "e1":  # it was there before e1 had an attachment itself
        cluster.edges["e2"].kill()
        cluster.edges["e2"].wait()
        cluster.edges["e2"] = cluster.start_edge("e2")
        wait_until(lambda: cluster.attachment("e2") == "e1")
    client = stack.enter_context(blocking.connect(cluster.place("e2"), name="carl"))
    client.join("tea")
    flood = Flood(cluster.place("d2"), "tea")
    flood.wait(500)
    client.send("tea", b"0")
    client.wait_accepted()
    cluster.edges["e1"].kill()
    flood.wait(500)
    client.send("tea", b"1")
    client.wait_accepted()
    count = flood.end()
    heard = events_until(client, is_message(b"end"))
    assert not [event for event in heard if isinstance(event, Gap | Unsure)]
    messages = [event for event in heard if isinstance(event, Message)]
    from_others = [int(event.payload) for event in messages[:-1] if event.sender != "#carl#e2"]
    assert from_others == list(range(count))
    assert [event.payload for event in messages if event.sender == "#carl#e2"] == [b"0", b"1"]
    told = cluster.status("e2")
    assert told is not None and told["attachment"]["name"] == "d3"
    cluster.assert_edges_are_well()


@pytest.mark.long
def test_what_a_client_sends_comes_once_or_its_fate_is_unknown(tmp_path: Path, stack: ExitStack) -> None:
    cluster = EdgeCluster(tmp_path, stack, {"e1": ALL})
    member = stack.enter_context(blocking.connect(cluster.place("d3")))
    client = stack.enter_context(blocking.connect(cluster.place("e1")))
    member.join("tea")
    for number in range(2_000):
        client.send("tea", b"%d" % number)
        if number == 1_000:
            client.flush()
            cluster.kill(0)
    client.wait_accepted()
    client.send("tea", b"end", Service.SAFE)
    client.wait_accepted()
    got = [
        int(event.payload)
        for event in events_until(member, is_message(b"end"))
        if isinstance(event, Message) and event.payload != b"end"
    ]
    assert got == sorted(set(got)), "in the order of sending, none twice"
    unsure: set[int] = set()
    while True:
        try:
            event = client.receive(timeout_s=0.5)
        except TimeoutError:
            break
        if isinstance(event, Unsure):
            assert event.count == len(event.messages)
            unsure |= {int(sent.payload) for sent in event.messages}
    assert set(range(2_000)) - set(got) <= unsure
    cluster.assert_edges_are_well()


def test_an_edge_without_an_attachment_waits_and_says_why(tmp_path: Path, stack: ExitStack) -> None:
    cluster = EdgeCluster(tmp_path, stack, {"e1": ("d1", "d2")})
    for index in (0, 1):
        cluster.kill(index)
    wait_until(lambda: (told := cluster.status("e1")) is not None and told["attachment"] is None)
    told = cluster.status("e1")
    assert told is not None
    assert told["state"] == "unattached"
    wait_until(lambda: all(place["reason"] for place in (cluster.status("e1") or {})["attachments"]))
    client = stack.enter_context(blocking.connect(cluster.place("e1")))
    client.join("tea", wait=False)
    client.send("tea", b"patience")
    with pytest.raises(TimeoutError):
        client.receive(timeout_s=1)
    cluster.restart(1)
    assert isinstance(client.receive(timeout_s=PATIENCE_S), View)
    client.wait_accepted()
    cluster.assert_edges_are_well()


def test_clients_of_a_stopped_edge_are_told_and_go_on_elsewhere(tmp_path: Path, stack: ExitStack) -> None:
    cluster = EdgeCluster(tmp_path, stack, {"e1": ALL})
    places = [cluster.place("e1"), cluster.place("d3")]
    client = stack.enter_context(blocking.connect(places, reconnect=True))
    client.join("tea")
    client.send_many("tea", [b"%d" % number for number in range(1_000)])
    cluster.edges["e1"].send_signal(signal.SIGTERM)
    event = events_until(client, lambda event: isinstance(event, Reconnected))[-1]
    assert isinstance(event, Reconnected)
    assert (event.daemon, event.unknown_fate) == ("d3", 0)
    assert "stopping" in event.reason
    assert cluster.edges["e1"].wait(PATIENCE_S) == 0
    assert not os.path.exists(tmp_path / "e1.sock")
    cluster.assert_edges_are_well()


def test_what_is_only_for_members_is_refused(cluster: EdgeCluster) -> None:
    with blocking.connect(cluster.place("e1")) as client:
        client.join("tea")
        for refused in (
            lambda: client.join("milk", minimum=2),
            lambda: client.lock("tea", "pot"),
            lambda: client.handle("tea", 0),
        ):
            with pytest.raises(UsageError, match="is for members, and sessions at edge e1"):
                refused()
    with RawClient(cluster.place("e1"), "raw") as raw:
        for request in (frames.Join("tea", minimum=2), frames.AskLock("tea", "pot")):
            raw.say(request)
            assert raw.hear(frames.Problem).code == "at-an-edge"


def test_a_client_at_an_edge_may_call_members(cluster: EdgeCluster, stack: ExitStack) -> None:
    member, client = (stack.enter_context(blocking.connect(cluster.place(name))) for name in ("d3", "e1"))
    member.join("prices")
    with member.handle("prices", 0):
        asking = Thread(target=lambda: got.append(client.call("prices", b"how much?", timeout_s=PATIENCE_S)))
        got: list[object] = []
        asking.start()
        call = events_until(member, lambda event: isinstance(event, Call))[-1]
        assert isinstance(call, Call)
        member.answer(call, b"42")
        asking.join()
    assert got == [b"42"]


def test_a_group_may_be_wanted_again_after_it_was_forgotten(tmp_path: Path, stack: ExitStack) -> None:
    settings = Settings(feed_retain_ms=200.0)
    daemon = stack.enter_context(Daemon(local_config(1, tmp_path, settings=settings), "d1"))
    edge = stack.enter_context(
        EdgeDaemon("e1", daemon.places, [f"unix:{tmp_path}/e1.sock"], settings=settings)
    )
    for _ in range(3):
        with blocking.connect(edge.places[0], name="bob") as client:
            client.join("tea")
            client.send("tea", b"again")
            assert events_until(client, is_message(b"again"))
        wait_until(lambda: status(daemon.places[0])["feed"]["groups"] == 0)


def test_hosts_are_looked_for_and_what_is_no_daemon_is_told(tmp_path: Path, stack: ExitStack) -> None:
    stranger = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    daemon = stack.enter_context(Daemon(local_config(1, tmp_path, tcp=True), "d1"))
    port = next(place for place in daemon.places if place.startswith("tcp:")).rpartition(":")[2]
    attach = [
        "tcp:nowhere.invalid:4811",
        f"tcp:127.0.0.1:{stranger.getsockname()[1]}",
        f"unix:{tmp_path}/nobody.sock",
        f"tcp:localhost:{port}",
    ]
    edge = stack.enter_context(EdgeDaemon("e1", attach, [f"unix:{tmp_path}/e1.sock"]))
    talking, _ = stranger.accept()
    talking.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    wait_until(lambda: status(edge.places[0])["attachment"] is not None)
    told = status(edge.places[0])
    assert told["attachment"]["name"] == "d1"
    unknown, strange, missing, good = told["attachments"]
    assert "nowhere.invalid cannot be resolved" in unknown["reason"]
    assert "not a daemon of ours" in strange["reason"]
    assert missing["reason"] == "No such file or directory"
    assert (good["state"], good["reason"]) == ("attached", "")
    talking.close()


# Words at the wrong place ---------------------------------------------------------------------------------

ATTACH = edges.Attach(frames.PROTOCOL_VERSION, "raw", 7)
CONNECT = frames.Connect(frames.PROTOCOL_VERSION, "raw")


@pytest.mark.parametrize("where", ["d1", "e1"])
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([ATTACH, ATTACH], "a second attach"),
        ([ATTACH, CONNECT], "a second connect"),
        ([CONNECT, ATTACH], "a second attach"),
        ([CONNECT, edges.Go()], "of an edge"),
        ([ATTACH, frames.Join("tea")], "of a client"),
        ([edges.Beat()], "before connect"),
    ],
    ids=lambda part: part.replace(" ", "-") if isinstance(part, str) else "",
)
def test_who_mixes_up_edges_and_clients_is_cut_off(
    cluster: EdgeCluster, where: str, words: list[frames.FromClient], reason: str
) -> None:
    last: frames.ToEdge | None = None

    def is_cut_off() -> bool:
        nonlocal last
        with RawClient(cluster.place(where)) as client:
            for word in words:
                client.say(word)
            while (frame := client.next_frame()) is not None:
                last = frames.decode_to_edge(frame[1])
        # An edge that is between two attachments refuses every edge, before it looks at what else it sends.
        return not (isinstance(last, frames.Refuse) and last.code == "unattached")

    wait_until(is_cut_off)
    assert isinstance(last, frames.Goodbye)
    assert (last.code, reason in last.reason) == ("bad-frame", True)


def test_a_newer_connection_of_an_edge_takes_the_place_of_the_older(cluster: EdgeCluster) -> None:
    def attach(incarnation: int) -> tuple[RawClient, frames.ToEdge]:
        client = RawClient(cluster.place("d1"))
        client.say(edges.Attach(frames.PROTOCOL_VERSION, "same", incarnation))
        frame = client.next_frame()
        assert frame is not None
        return client, frames.decode_to_edge(frame[1])

    older, answer = attach(7)
    assert isinstance(answer, edges.Attached)
    assert (answer.name, answer.daemon, answer.path) == ("d1", "d1", ())
    other, answer = attach(8)
    assert isinstance(answer, frames.Refuse)
    assert answer.code == "name-taken"
    newer, answer = attach(7)
    assert isinstance(answer, edges.Attached)
    with older, other, newer:
        while (frame := older.next_frame()) is not None:
            last = frames.decode_to_edge(frame[1])
        assert isinstance(last, frames.Goodbye)
        assert last.code == "replaced"


def test_status_of_a_daemon_names_its_edges(cluster: EdgeCluster) -> None:
    with blocking.connect(cluster.place("e1")) as client:
        client.join("milk")
        told = {name: (cluster.status(name) or {})["edges"] for name in ("d1", "d2")}
        fed = next(row for row in told["d1"] if row["name"] == "e1")
        assert (fed["state"], fed["groups"], fed["gaps"]) == ("fed", 2, 0)
        spare = next(row for row in told["d2"] if row["name"] == "e1")
        assert spare["state"] == "standby"
