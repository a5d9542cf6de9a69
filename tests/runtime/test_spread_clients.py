"""Programs that speak Spread's protocol at a real daemon, alone and beside programs that speak ours."""

import contextlib
import socket
import struct
import threading
from pathlib import Path
from random import Random

import pytest
from local_cluster import Cluster, with_spread
from raw_client import RawClient, status, wait_until
from spread_client import (
    AGREED,
    BY_DISCONNECT,
    BY_JOIN,
    BY_LEAVE,
    BY_NETWORK,
    CAUSAL,
    FIFO,
    JOIN,
    RELIABLE,
    SAFE,
    SELF_DISCARD,
    TRANSITION,
    UNRELIABLE,
    VIEW,
    Frame,
    Rejected,
    SpreadClient,
    dial,
)

import antiphon
import antiphon.blocking
from antiphon import Message, Service
from antiphon.config import Settings
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.types import Cause, View
from antiphon.wire import frames

LARGEST_BODY = 143_952 - 32
PATIENCE_S = 30.0


def started(cluster: Cluster, sites: int = 1) -> list[Daemon]:
    settings = Settings(membership="lan", suspect_ms=700.0)
    return cluster.start(
        with_spread(local_config(sites, cluster.directory, settings=settings), cluster.directory)
    )


@pytest.fixture
def daemon(cluster: Cluster) -> Daemon:
    (only,) = started(cluster)
    return only


@pytest.fixture
def place(daemon: Daemon) -> str:
    return daemon.spread_places[0]


# Coming in ------------------------------------------------------------------------------------------------


def test_both_places_take_clients(daemon: Daemon) -> None:
    for number, place in enumerate(daemon.spread_places):
        with SpreadClient(place, f"c{number}") as client:
            assert client.private_group == f"#c{number}#d1"
            assert client.offered == b"NULL "
            assert client.daemon_version == (5, 0, 1)


def test_the_unix_socket_is_open_to_everybody(daemon: Daemon) -> None:
    path = Path(daemon.spread_places[0].removeprefix("unix:"))
    assert path.stat().st_mode & 0o777 == 0o666


def test_a_client_without_a_name_gets_one(place: str) -> None:
    with SpreadClient(place) as one, SpreadClient(place) as other:
        assert one.private_group != other.private_group
        assert one.private_group.endswith("#d1")


@pytest.mark.parametrize(("name", "code"), [("elevenchars", -5), ("a b", -5), ("a#b", -5)])
def test_names_that_cannot_be(place: str, name: str, code: int) -> None:
    with pytest.raises(Rejected) as rejected:
        SpreadClient(place, name)
    assert rejected.value.code == code


def test_a_name_is_taken_until_its_session_is_over(place: str, daemon: Daemon) -> None:
    with SpreadClient(place, "ann"):
        with pytest.raises(Rejected) as rejected:
            SpreadClient(place, "ann")
        assert rejected.value.code == -6
        counters = status(daemon.places[0])["runtime"]["clients"]
        assert (counters["refused"], counters["bad_frames"]) == (1, 0)
    wait_until(lambda: not status(daemon.places[0])["sessions"])
    with SpreadClient(place, "ann"), pytest.raises(antiphon.errors.Refused):
        antiphon.blocking.connect(daemon.places[0], name="ann")


def test_of_two_who_come_with_one_name_at_once_one_gets_it(place: str) -> None:
    """Both have said hello before either has its session."""
    callers = [dial(place), dial(place)]
    for caller in callers:
        caller.sendall(b"\x05\x00\x01\x01\x03ann")
        assert caller.recv(6, socket.MSG_WAITALL) == b"\x05NULL "
    answers = []
    for caller in callers:
        caller.sendall(b"NULL".ljust(90, b"\0"))
        answers.append(caller.recv(1))
    for caller in callers:
        caller.close()
    assert sorted(answers) == [b"\x01", b"\xfa"]


@pytest.mark.parametrize("methods", [("IP",), (), ("NULL", "PWORD")])
def test_other_ways_to_prove_who_one_is(place: str, methods: tuple[str, ...]) -> None:
    with pytest.raises(Rejected) as rejected:
        SpreadClient(place, "ann", methods=methods)
    assert rejected.value.code == -9


@pytest.mark.parametrize("version", [(3, 14, 0), (3, 15, 2), (3, 17, 4), (4, 4, 0), (9, 9, 9)])
def test_libraries_of_all_ages(place: str, version: tuple[int, int, int]) -> None:
    with SpreadClient(place, "ann", version=version) as client:
        assert client.private_group == "#ann#d1"
        client.join("tea")
        assert client.receive().groups == ("#ann#d1",)


def test_a_library_that_is_too_old(place: str) -> None:
    with pytest.raises(Rejected) as rejected:
        SpreadClient(place, "ann", version=(3, 0, 0))
    assert rejected.value.code == -7


def test_an_introduction_may_come_byte_by_byte(place: str) -> None:
    with dial(place) as slow:
        for byte in b"\x05\x00\x01\x01\x05alice":
            slow.sendall(bytes((byte,)))
        assert slow.recv(6, socket.MSG_WAITALL) == b"\x05NULL "
        for byte in b"NULL".ljust(90, b"\0"):
            slow.sendall(bytes((byte,)))
        assert slow.recv(14, socket.MSG_WAITALL) == b"\x01\x05\x00\x01\x09#alice#d1"


def test_priorities_count(daemon: Daemon) -> None:
    with SpreadClient(daemon.spread_places[0], "urgent", priority=9):
        (session,) = status(daemon.places[0])["sessions"]
        assert session["priority"] == 9


# Groups ---------------------------------------------------------------------------------------------------


def test_joins_leaves_and_ends_as_views(place: str) -> None:
    with SpreadClient(place, "ann") as ann, SpreadClient(place, "bob") as bob:
        ann.join("tea")
        first = ann.receive()
        assert (first.kind, first.sender, first.groups) == (VIEW | BY_JOIN, "tea", ("#ann#d1",))
        assert first.sets == [("#ann#d1",)]
        bob.join("tea")
        at_bob, at_ann = bob.receive(), ann.receive()
        assert at_bob == at_ann
        assert at_ann.groups == ("#ann#d1", "#bob#d1")
        assert at_ann.sets == [("#bob#d1",)]
        assert at_ann.view_id != first.view_id
        bob.leave("tea")
        assert bob.receive() == Frame(BY_LEAVE, "tea", (), 0, False, b"")
        left = ann.receive()
        assert (left.kind, left.groups, left.sets) == (VIEW | BY_LEAVE, ("#ann#d1",), [("#bob#d1",)])
        bob.join("tea")
        ann.hear(VIEW | BY_JOIN)
        bob.disconnect()
        gone = ann.receive()
        assert (gone.kind, gone.groups, gone.sets) == (VIEW | BY_DISCONNECT, ("#ann#d1",), [("#bob#d1",)])
        assert bob.is_closed()
    with SpreadClient(place, "bob") as bob:  # its name is free again
        bob.join("tea")


def test_a_connection_that_breaks_is_a_disconnect(place: str) -> None:
    with SpreadClient(place, "ann") as ann:
        with SpreadClient(place, "bob") as bob:
            ann.join("tea")
            assert ann.hear(VIEW | BY_JOIN).groups == ("#ann#d1",)
            bob.join("tea")
            assert ann.hear(VIEW | BY_JOIN).groups == ("#ann#d1", "#bob#d1")
        assert ann.receive().sets == [("#bob#d1",)]


def test_who_does_not_want_views_gets_none(place: str) -> None:
    with SpreadClient(place, "deaf", membership=False) as deaf, SpreadClient(place, "ann") as ann:
        deaf.join("tea")
        ann.join("tea")
        ann.receive()
        deaf.leave("tea")
        ann.hear(VIEW | BY_LEAVE)
        deaf.join("tea")
        ann.hear(VIEW | BY_JOIN)
        ann.multicast(AGREED, "tea", body=b"hello")
        assert deaf.receive().body == b"hello"


def test_what_spread_ignores_is_ignored(place: str) -> None:
    with SpreadClient(place, "ann") as ann:
        ann.join("tea")
        ann.join("tea")
        ann.leave("coffee")
        ann.multicast(AGREED, "nobody", body=b"x")
        ann.multicast(AGREED, "no group", body=b"x")
        ann.say(AGREED, (), b"x")
        ann.multicast(AGREED, "tea", body=b"that was all")
        assert ann.receive().kind == VIEW | BY_JOIN
        assert ann.receive().body == b"that was all"


# Messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_service_in_both_byte_orders(place: str, service: int, order: str) -> None:
    with SpreadClient(place, "ann", order=order) as ann, SpreadClient(place, "bob") as bob:
        bob.join("tea")
        bob.receive()
        ann.multicast(service, "tea", body=b"hello", number=-258)
        assert bob.receive() == Frame(service, "#ann#d1", ("tea",), -258, order == ">", b"hello")


def test_one_copy_however_often_one_is_addressed(place: str) -> None:
    with SpreadClient(place, "ann") as ann, SpreadClient(place, "bob") as bob:
        for group in ("tea", "coffee"):
            bob.join(group)
            bob.receive()
        destinations = ("tea", "#bob#d1", "coffee", "nobody")
        ann.multicast(FIFO, *destinations, body=b"hello")
        ann.multicast(FIFO, "#bob#d1", body=b"to you")
        assert bob.receive() == Frame(FIFO, "#ann#d1", destinations, 0, False, b"hello")
        assert bob.receive().body == b"to you"


def test_a_message_to_a_hundred_groups(place: str) -> None:
    groups = tuple(f"g{number}" for number in range(100))
    with SpreadClient(place, "ann") as ann:
        ann.join(groups[-1])
        ann.receive()
        ann.multicast(AGREED, *groups, body=bytes(143_952 - 3_200))
        assert ann.receive().groups == groups


def test_ones_own_message_can_be_discarded(place: str) -> None:
    with SpreadClient(place, "ann") as ann, SpreadClient(place, "bob") as bob:
        for client in (ann, bob):
            client.join("tea")
            client.hear(VIEW | BY_JOIN)
        ann.multicast(AGREED | SELF_DISCARD, "tea", "#ann#d1", body=b"not to me")
        ann.multicast(AGREED, "tea", body=b"to all")
        assert bob.message().kind == AGREED | SELF_DISCARD
        assert bob.message().body == ann.message().body == b"to all"


def test_the_largest_message_and_one_byte_more(place: str, daemon: Daemon) -> None:
    """Spread's own daemon dies of the largest that its check lets through."""
    with SpreadClient(place, "ann") as ann, SpreadClient(place, "bob") as bob:
        bob.join("tea")
        bob.receive()
        ann.multicast(SAFE, "tea", body=bytes(LARGEST_BODY))
        assert bob.receive().body == bytes(LARGEST_BODY)
        ann.multicast(SAFE, "tea", body=bytes(LARGEST_BODY + 1))
        assert ann.is_closed()
        assert status(daemon.places[0])["runtime"]["clients"]["bad_frames"] == 1
        bob.multicast(SAFE, "tea", body=b"we go on")
        assert bob.receive().body == b"we go on"


def test_a_client_may_send_much_before_it_reads(place: str) -> None:
    """As Spread's flooder does; a daemon that reads nothing while its output waits would stand still."""
    with SpreadClient(place, "ann") as ann:
        ann.join("tea")
        ann.receive()
        body = bytes(10_000)
        for number in range(1_000):
            ann.multicast(AGREED, "tea", body=body, number=number)
        assert [ann.receive().number for _ in range(1_000)] == list(range(1_000))


# Beside our own clients -----------------------------------------------------------------------------------


def test_both_kinds_in_one_group(cluster: Cluster) -> None:
    first, second = started(cluster, 2)
    with (
        SpreadClient(first.spread_places[0], "ann") as ann,
        antiphon.blocking.connect(second.places[0], name="bob") as bob,
    ):
        ann.join("tea")
        ann.receive()
        bob.join("tea")
        view = next(bob)
        assert isinstance(view, View) and view.members == ("#ann#d1", "#bob#d2")
        assert ann.receive().groups == view.members
        bob.send("tea", b"from ours", Service.SAFE, tag=77)
        ann.multicast(CAUSAL, "tea", "#bob#d2", body=b"from theirs", number=-3)
        theirs, ours = sorted((ann.message(), ann.message()), key=lambda frame: frame.sender)
        assert ours == Frame(SAFE, "#bob#d2", ("tea",), 77, False, b"from ours")
        assert theirs == Frame(CAUSAL, "#ann#d1", ("tea", "#bob#d2"), -3, False, b"from theirs")
        heard = {event.payload: event for event in (next(bob), next(bob)) if isinstance(event, Message)}
        message = heard[b"from theirs"]
        assert (message.sender, message.groups, message.tag) == ("#ann#d1", ("tea", "#bob#d2"), -3)
        assert message.service is Service.CAUSAL
        large = bytes(1_000_000)  # larger than any of Spread's own
        bob.send("tea", large)
        assert ann.message().body == large


def test_a_cut_and_a_merge_as_views_of_the_network(cluster: Cluster) -> None:
    """As captured from Spread's own daemons: a signal and a view with one set on each side of the cut, a view
    with two sets, and each side's own, when they are together again."""
    daemons = started(cluster, 3)
    with (
        SpreadClient(daemons[0].spread_places[0], "c1") as c1,
        SpreadClient(daemons[1].spread_places[0], "c2") as c2,
        SpreadClient(daemons[2].spread_places[0], "c3") as c3,
    ):
        clients = (c1, c2, c3)
        for number, client in enumerate(clients):
            client.join("tea")
            for member in clients[: number + 1]:
                last = member.receive()
        assert last.groups == ("#c1#d1", "#c2#d2", "#c3#d3")
        daemons[0].unreachable = daemons[1].unreachable = frozenset((2,))
        daemons[2].unreachable = frozenset((0, 1))
        for client, rest in ((c1, last.groups[:2]), (c2, last.groups[:2]), (c3, last.groups[2:])):
            signal, view = client.receive(), client.receive()
            assert (signal.kind, signal.sender, signal.view_id) == (TRANSITION, "tea", last.view_id)
            assert (view.kind, view.groups, view.sets) == (VIEW | BY_NETWORK, rest, [rest])
        for daemon in daemons:
            daemon.unreachable = frozenset()
        merged = [client.receive() for client in clients]
        assert {view.kind for view in merged} == {VIEW | BY_NETWORK}
        assert {view.groups for view in merged} == {last.groups}
        assert len({view.view_id for view in merged}) == 1
        assert sorted(merged[0].sets) == [last.groups[:2], last.groups[2:]]
        assert merged[0].sets == merged[1].sets == merged[2].sets
        assert [view.own_set for view in merged] == [last.groups[:2], last.groups[:2], last.groups[2:]]


def test_our_clients_learn_who_came_with_whom(cluster: Cluster) -> None:
    daemons = started(cluster, 2)
    with RawClient(daemons[0].places[0], "ann") as ann, RawClient(daemons[1].places[0], "bob") as bob:
        ann.join("tea")
        bob.join("tea")
        daemons[0].unreachable, daemons[1].unreachable = frozenset((1,)), frozenset((0,))
        while (view := bob.hear(frames.ViewFrame).view).cause is not Cause.NETWORK:
            pass
        assert view.parts == ()
        for daemon in daemons:
            daemon.unreachable = frozenset()
        for client in (ann, bob):
            while (view := client.hear(frames.ViewFrame).view).cause is not Cause.MERGE:
                pass
            assert sorted(view.parts) == [("#ann#d1",), ("#bob#d2",)]


# Bad manners ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 1_000,
        b"GET / HTTP/1.1\r\n\r\n" * 20,
        struct.pack("<I32siIi", AGREED | 0x80000080, b"#ann#d1", 2**31 - 1, 0x80000080, 2**31 - 1),
        struct.pack("<I32siIi", AGREED | 0x80000080, b"#bob#d1", 0, 0x80000080, 0),
        struct.pack("<I32siIi", JOIN | 0x80000080, b"#ann#d1", 1, 0x80000080, 0) + b"a" * 32,
    ],
)
def test_garbage_costs_its_sender_the_session_and_nobody_else(
    place: str, daemon: Daemon, garbage: bytes
) -> None:
    with SpreadClient(place, "ann") as ann, SpreadClient(place, "bob") as bob:
        for client in (bob, ann):
            client.join("tea")
            bob.hear(VIEW | BY_JOIN)
        ann.socket.sendall(garbage)
        assert ann.is_closed()
        assert bob.receive().kind == VIEW | BY_DISCONNECT
        assert status(daemon.places[0])["runtime"]["clients"]["bad_frames"] == 1


def test_more_before_there_is_a_session_is_refused(place: str) -> None:
    with dial(place) as hasty:
        hasty.sendall(b"\x05\x00\x01\x01\x03ann" + b"NULL".ljust(90, b"\0") + b"and more")
        while hasty.recv(100):
            pass


def test_half_an_introduction_is_no_obstacle_to_others(place: str) -> None:
    """Spread's own daemon takes nobody else meanwhile."""
    with dial(place) as slow, SpreadClient(place, "ann") as ann:
        slow.sendall(b"\x05")
        ann.join("tea")
        assert ann.receive().kind == VIEW | BY_JOIN


def test_a_reader_that_stops_is_cut_off(cluster: Cluster) -> None:
    settings = Settings(
        output_soft_bytes=2**18, output_hard_bytes=2**22, unstable_bytes=2**20, slow_patience_ms=200.0
    )
    config = with_spread(local_config(1, cluster.directory, settings=settings), cluster.directory)
    (daemon,) = cluster.start(config)
    place = daemon.spread_places[0]
    with SpreadClient(place, "sloth") as sloth, SpreadClient(place, "ann") as ann, \
            SpreadClient(place, "bob") as bob:  # fmt: skip
        for client in (sloth, bob):
            client.join("tea")
            client.hear(VIEW | BY_JOIN)
        count = 400
        body = bytes(100_000)

        def flood() -> None:
            for _ in range(count):
                ann.multicast(FIFO, "tea", body=body)

        flooding = threading.Thread(target=flood)
        flooding.start()
        heard = 0
        while heard < count:
            heard += bob.receive().kind == FIFO
        flooding.join(PATIENCE_S)
        wait_until(lambda: status(daemon.places[0])["runtime"]["clients"]["slow_receivers"] == 1)
        assert sloth.is_closed()


def test_a_storm_of_garbage_passes_by(place: str, daemon: Daemon) -> None:
    """Some of it is nearly right, some breaks off; two who talk meanwhile do not notice."""
    random = Random(7)
    with SpreadClient(place, "ann") as ann, SpreadClient(place, "bob") as bob:
        bob.join("tea")
        bob.receive()
        for number in range(150):
            with dial(place) as stranger, contextlib.suppress(OSError):
                if number % 3:  # past the introduction
                    stranger.sendall(b"\x05\x00\x01\x01\x00")
                    stranger.recv(6, socket.MSG_WAITALL)
                    stranger.sendall(b"NULL".ljust(90, b"\0"))
                    answer = stranger.recv(100)
                    frame = bytearray(
                        struct.pack("<I32siIi", random.choice((AGREED, JOIN)) | 0x80000080, answer[5:], 1,
                                    0x80000080, 40) + b"tea".ljust(32, b"\0") + bytes(40)
                    )  # fmt: skip
                    for _ in range(random.randrange(3)):
                        frame[random.randrange(len(frame))] = random.randrange(256)
                    stranger.sendall(frame[: random.randrange(len(frame) + 1)])
                else:
                    stranger.sendall(random.randbytes(random.randrange(1, 200)))
            ann.multicast(SAFE, "tea", body=str(number).encode(), number=1)
            while (heard := bob.message()).sender != "#ann#d1":
                pass
            assert heard.body == str(number).encode()
        told = status(daemon.places[0])["runtime"]["clients"]
        assert told["mistakes"] == 0
        assert told["bad_frames"] > 50
        assert told["spread"] == 152
