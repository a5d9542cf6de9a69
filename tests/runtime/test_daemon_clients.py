"""Clients of a daemon: both kinds of listener, large frames, slow ones, silent ones, and those who vanish."""

import contextlib
import errno
import logging
import socket
import struct
import threading
from pathlib import Path

import pytest
from local_cluster import Cluster
from raw_client import RawClient, status, wait_until

from antiphon import limits
from antiphon.config import Settings
from antiphon.core.node import Node
from antiphon.errors import Refused
from antiphon.runtime import client_limits
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.listener import Listener
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed
from antiphon.types import Cause
from antiphon.wire import frames


@pytest.mark.parametrize("listener", [0, 1], ids=["unix", "tcp"])
def test_a_conversation(cluster: Cluster, listener: int) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[listener], "ada") as ada, RawClient(daemon.places[listener], "bob") as bob:
        assert ada.name == "#ada#d1"
        assert ada.join("chat").members == ("#ada#d1",)
        assert bob.join("chat").members == ("#ada#d1", "#bob#d1")
        ada.send("chat", b"one", b"two")
        assert [message.payload for message in bob.messages(2)] == [b"one", b"two"]
        bob.send("chat", b"three")
        assert [message.payload for message in ada.messages(3)] == [b"one", b"two", b"three"]
        assert [message.payload for message in bob.messages(1)] == [b"three"]
        bob.say(frames.Disconnect())
        assert bob.hear(frames.Goodbye).code == "bye"
        assert bob.is_closed()
        assert ada.views[1].members == ("#ada#d1", "#bob#d1")
        assert ada.hear(frames.ViewFrame).view.members == ("#ada#d1",)


def test_a_refused_session_hears_why_and_is_closed(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0]) as client:
        client.say(frames.Connect(frames.PROTOCOL_VERSION, "a name with spaces"))
        refusal = client.hear(frames.Refuse)
        assert "character" in str(Refused(refusal.code, refusal.reason))
        assert client.is_closed()
    assert status(daemon.places[0])["runtime"]["clients"]["refused"] == 1


def test_many_frames_in_one_write_and_one_frame_in_many(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada:
        ada.join("chat")
        payloads = [bytes([number % 256]) * 1_000 for number in range(500)]
        stream = b"".join(ada.bundle("chat", [payload]) for payload in payloads)
        for start in range(0, len(stream), 7_919):
            ada.send_bytes(stream[start : start + 7_919])
        assert [message.payload for message in ada.messages(500)] == payloads


def test_bundles_and_requests_of_one_read_keep_their_order(cluster: Cluster) -> None:
    """What a client sends by itself, message by message, is gathered by its daemon; never past a request."""
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada:
        ada.join("chat")
        parts = []
        for turn in range(50):
            parts += [ada.bundle("chat", [b"%d.%d" % (turn, place)]) for place in range(20)]
            parts.append(frames.encode_control(frames.Join(f"g{turn}")))
        ada.send_bytes(b"".join(parts))
        messages = ada.messages(1_000)
        assert [message.payload for message in messages] == [
            b"%d.%d" % (turn, place) for turn in range(50) for place in range(20)
        ]
        first = messages[0].id.sequence  # a request is numbered, too
        assert [message.id.sequence - first for message in messages] == [
            21 * turn + place for turn in range(50) for place in range(20)
        ]
        assert max(message.index for message in messages) == 19


def test_a_bad_bundle_ends_a_run_of_good_ones(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada, RawClient(daemon.places[0], "bob") as bob:
        ada.join("chat")
        good = bob.bundle("chat", [b"good"])
        bad = good[:-8] + b"\0\0\0\7" + good[-4:]
        bob.send_bytes(good * 10 + bad + good)
        assert bob.hear(frames.Goodbye).code == "bad-frame"
        assert [message.payload for message in ada.messages(10)] == [b"good"] * 10


@pytest.mark.parametrize("listener", [0, 1], ids=["unix", "tcp"])
def test_the_largest_message_arrives_whole(cluster: Cluster, listener: int) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[listener], "ada") as ada:
        ada.join("chat")
        payload = bytes(range(256)) * (limits.MESSAGE_MAX_BYTES // 256)
        ada.send("chat", b"before")
        ada.send("chat", payload)
        ada.send("chat", b"after")
        assert [message.payload for message in ada.messages(3)] == [b"before", payload, b"after"]


def test_status_is_told_without_a_session_and_within_one(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    told = status(daemon.places[1])
    assert told["daemon"] == "d1"
    assert told["runtime"]["places"] == list(daemon.places)
    assert {"pid", "gso", "gro", "udp", "udp_kernel_drops"} <= told["runtime"].keys()
    with RawClient(daemon.places[0], "ada") as ada:
        ada.say(frames.AskStatus())
        assert b"#ada#d1" in ada.hear(frames.Status).json


@pytest.mark.parametrize("hard_bytes", [2**20 + 1, 2**22], ids=["at once", "after holding the senders"])
def test_a_client_that_never_reads_is_cut_off_and_the_others_go_on(cluster: Cluster, hard_bytes: int) -> None:
    settings = Settings(output_soft_bytes=2**20, output_hard_bytes=hard_bytes, slow_patience_ms=100)
    (daemon,) = cluster.start(local_config(1, cluster.directory, settings=settings))
    place = daemon.places[0]
    with RawClient(place, "sloth") as sloth, RawClient(place, "ada") as ada, RawClient(place, "bob") as bob:
        sloth.join("chat")
        bob.join("chat")
        payload = bytes(50_000)
        for number in range(400):  # 20 MB: more than the kernel and the daemon keep for one client
            ada.send("chat", number.to_bytes(4, "big") + payload)
            assert bob.messages(1)[0].payload[:4] == number.to_bytes(4, "big")
        assert (bob.views[-1].cause, bob.views[-1].changed) == (Cause.DISCONNECT, ("#sloth#d1",))
        goodbye = sloth.hear(frames.Goodbye)
        assert goodbye.code == "slow-receiver"
        assert sloth.is_closed()
        assert status(place)["runtime"]["clients"]["slow_receivers"] == 1


def test_a_client_killed_in_the_middle_of_a_frame(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada:
        ada.join("chat")
        with RawClient(daemon.places[0], "eve") as eve:
            eve.join("chat")
            assert len(ada.hear(frames.ViewFrame).view.members) == 2
            whole = eve.bundle("chat", [b"complete"])
            half = eve.bundle("chat", [bytes(3_000_000)])[:2_000_000]
            eve.send_bytes(whole + half)
        assert ada.messages(1)[0].payload == b"complete"
        view = ada.hear(frames.ViewFrame).view
        assert (view.cause, view.members) == (Cause.DISCONNECT, ("#ada#d1",))
        ada.send("chat", b"life goes on")
        assert ada.messages(1)[0].payload == b"life goes on"


def test_a_reset_tcp_connection_ends_its_session_only(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada, RawClient(daemon.places[1], "eve") as eve:
        ada.join("chat")
        eve.join("chat")
        eve.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        eve.socket.close()
        while (view := ada.hear(frames.ViewFrame).view).cause is not Cause.DISCONNECT:
            pass
        assert view.changed == ("#eve#d1",)


def test_everything_sent_before_a_disconnect_is_delivered_even_if_nobody_waits(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada:
        ada.join("chat")
        with RawClient(daemon.places[0], "hasty") as hasty:
            for number in range(100):
                hasty.send("chat", number.to_bytes(4, "big") + bytes(20_000))
            hasty.say(frames.Disconnect())
        assert [int.from_bytes(message.payload[:4], "big") for message in ada.messages(100)] == [*range(100)]


def test_a_flood_is_held_back_at_its_own_socket(cluster: Cluster) -> None:
    """Two sites that cannot keep up with one sender: its socket fills, nothing is lost."""
    settings = Settings(membership="lan", unstable_bytes=65_536)
    first, second = cluster.start(local_config(2, cluster.directory, delay_ms=5, settings=settings))
    with RawClient(first.places[0], "ada") as ada, RawClient(second.places[0], "bob") as bob:
        bob.join("chat")
        count = 150
        stream = b"".join(
            ada.bundle("chat", [number.to_bytes(4, "big") + bytes(40_000)]) for number in range(count)
        )
        ada.socket.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(stream):
                sent += ada.socket.send(stream[sent : sent + 100_000])
        assert sent < len(stream)
        ada.socket.setblocking(True)
        ada.send_bytes(stream[sent:])
        assert [int.from_bytes(message.payload[:4], "big") for message in bob.messages(count)] == [
            *range(count)
        ]


def test_a_client_that_asks_for_nothing_is_closed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_limits, "GREETING_TIMEOUT_US", 50_000)
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0]) as silent:
        assert silent.hear(frames.Goodbye).code == "greeting-timeout"
        assert silent.is_closed()


def test_unfinished_greetings_make_room_for_new_ones(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_limits, "GREETINGS_MAX", 3)
    monkeypatch.setattr(client_limits, "GREETING_GRACE_US", 50_000)
    (daemon,) = cluster.start()
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(RawClient(daemon.places[0])) for _ in range(4)]
        assert crowd[0].is_closed()
        with RawClient(daemon.places[0], "ada") as ada:
            assert ada.join("chat").members == ("#ada#d1",)
        assert status(daemon.places[0])["runtime"]["clients"]["crowded_out"] >= 2


def test_a_full_table_of_descriptors_only_delays_new_clients(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_limits, "ACCEPT_PAUSE_US", 10_000)
    (daemon,) = cluster.start()
    accept, refusals = Listener.accept, [errno.EMFILE, errno.ENOBUFS]

    def accept_later(self: Listener) -> socket.socket | None:
        if refusals:
            raise OSError(refusals.pop(), "no room")
        return accept(self)

    with RawClient(daemon.places[0], "ada") as ada:
        monkeypatch.setattr(Listener, "accept", accept_later)
        with RawClient(daemon.places[1], "bob") as bob:
            bob.send(ada.name, b"patience")
            assert ada.messages(1)[0].payload == b"patience"
    assert status(daemon.places[0])["runtime"]["clients"]["accept_errors"] == 2


def test_a_client_that_does_not_take_its_last_word_is_closed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_limits, "FAREWELL_TIMEOUT_US", 50_000)
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "stubborn") as stubborn:
        stubborn.say(frames.Disconnect())
        assert stubborn.hear(frames.Goodbye).code == "bye"

        def is_refused() -> bool:
            try:
                stubborn.send_bytes(b"x")
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        wait_until(is_refused)


def test_a_stopping_daemon_says_goodbye_and_leaves_no_socket(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    path = Path(daemon.places[0].removeprefix("unix:"))
    assert path.is_socket()
    with RawClient(daemon.places[0], "ada") as ada, RawClient(daemon.places[1], "bob") as bob:
        daemon.stop()
        assert ada.hear(frames.Goodbye).code == "stopping"
        assert bob.hear(frames.Goodbye).code == "stopping"
    assert not path.exists()
    daemon.stop()


def test_last_words_come_through_however_many_leave_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the other site does not answer nobody can leave; when it does all of them leave in one turn."""
    monkeypatch.setattr(client_limits, "FAREWELLS_MAX", 3)
    patient = Settings(unstable_bytes=65_536, suspect_ms=30_000.0, recovery_ms=60_000.0)
    first, second = cluster.start(local_config(2, cluster.directory, settings=patient))
    is_over = threading.Event()
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(RawClient(first.places[0], f"c{number}")) for number in range(20)]
        assert second._loop is not None
        stack.callback(is_over.set)
        second._loop.call_soon_threadsafe(is_over.wait)
        for _ in range(3):
            crowd[0].send("#nobody#d2", bytes(50_000))
        wait_until(lambda: not status(first.places[0])["accepting"])
        for client in crowd:
            client.say(frames.Disconnect())
        wait_until(lambda: status(first.places[0])["buffers"]["session_input"]["bytes"] > 20 * 50)
        is_over.set()
        for client in crowd:
            assert client.hear(frames.Goodbye).code == "bye"


def test_a_mistake_of_the_daemon_costs_one_client_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    submit = Node.submit

    def mistaken(node: Node, session: int, bundles: list[memoryview], now_us: int) -> None:
        if any(b"poison" in bytes(bundle) for bundle in bundles):
            raise ZeroDivisionError
        submit(node, session, bundles, now_us)

    monkeypatch.setattr(Node, "submit", mistaken)
    with (
        Daemon(local_config(1, tmp_path), "d1") as daemon,
        RawClient(daemon.places[0], "ada") as ada,
        RawClient(daemon.places[0], "bob") as bob,
    ):
        ada.join("chat")
        bob.join("chat")
        bob.send("chat", b"poison")
        assert bob.hear(frames.Goodbye).code == "internal"
        while (view := ada.hear(frames.ViewFrame).view).cause is not Cause.DISCONNECT:
            pass
        assert view.changed == ("#bob#d1",)
        ada.send("chat", b"alive")
        assert ada.messages(1)[0].payload == b"alive"
        assert status(daemon.places[0])["runtime"]["clients"]["mistakes"] == 1
    (told,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert told.exc_info is not None and told.exc_info[0] is ZeroDivisionError


def test_a_cluster_has_formed_when_all_are_in_one_view_and_messages_flow() -> None:
    told = [
        {"view": {"id": 7, "members": ["d1", "d2"]}, "state": "op", "group_state": "gop"} for _ in range(2)
    ]
    assert has_formed(told, ["d2", "d1"])
    assert has_formed(told[:1], ["d1", "d2"])
    assert not has_formed([], [])
    assert not has_formed(told, ["d1"])
    assert not has_formed(told, ["d1", "d2", "d3"])
    assert not has_formed([told[0], {**told[1], "group_state": "ggather"}], ["d1", "d2"])
    assert not has_formed([told[0], {**told[1], "state": "evs"}], ["d1", "d2"])
    told[1]["view"] = {"id": 8, "members": ["d1", "d2"]}
    assert not has_formed(told, ["d1", "d2"])
