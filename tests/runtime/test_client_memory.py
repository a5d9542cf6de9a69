"""All clients of a daemon together take a bounded amount of its memory; honest ones notice nothing."""

import contextlib
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from local_cluster import Cluster
from process_cluster import ProcessCluster
from raw_client import RawClient, status, wait_until

from antiphon import limits
from antiphon.config import Settings
from antiphon.runtime import quotas
from antiphon.runtime.connection import Connection
from antiphon.runtime.local import local_config
from antiphon.runtime.quotas import Output
from antiphon.wire import frames

LARGEST = bytes(limits.MESSAGE_MAX_BYTES)
LEAST = 4 * limits.FRAME_MAX_BYTES
"""The smallest budget for input: room for two of the largest frames at once."""


def test_half_sent_frames_take_bounded_memory_and_hold_nobody_up(tmp_path: Path) -> None:
    """100 clients send 15 of 16 MiB and no more: that would be 1.5 GB."""
    with ExitStack() as stack:
        config = local_config(1, tmp_path, settings=Settings(frame_patience_ms=300))
        cluster = ProcessCluster(config, tmp_path, stack)
        place = cluster.places[0]
        ada = stack.enter_context(RawClient(place, "ada"))
        ada.join("tea")
        before_bytes = cluster.resident_bytes(0)
        crowd = [stack.enter_context(RawClient(place, f"half{number}")) for number in range(100)]
        half = crowd[0].bundle("tea", [LARGEST])[: 15 * 2**20]
        most_bytes = 0
        sent = dict.fromkeys(crowd, 0)
        for _ in range(40):
            for client in crowd:
                client.socket.setblocking(False)
                with contextlib.suppress(OSError):  # no room, or cut off already
                    sent[client] += client.socket.send(half[sent[client] :])
            most_bytes = max(most_bytes, cluster.resident_bytes(0))
        for number in range(100):  # small messages go on at once
            ada.send("tea", b"%d" % number)
            assert ada.messages(1)[0].payload == b"%d" % number
            most_bytes = max(most_bytes, cluster.resident_bytes(0))
        ada.send("tea", LARGEST)  # and a large one gets its turn
        assert ada.messages(1)[0].payload == LARGEST
        most_bytes = max(most_bytes, cluster.resident_bytes(0))
        assert most_bytes - before_bytes < 400 * 2**20
        told = status(place)["runtime"]
        assert told["clients"]["stalled_frames"] > 0
        assert told["memory"]["input"]["bytes"] < told["memory"]["input"]["limit"]
        cluster.assert_well()


def test_many_send_large_messages_at_once_and_all_arrive(cluster: Cluster) -> None:
    settings = Settings(input_total_bytes=LEAST)
    (daemon,) = cluster.start(local_config(1, cluster.directory, settings=settings))
    place = daemon.places[0]
    with ExitStack() as stack:
        ada = stack.enter_context(RawClient(place, "ada"))
        ada.join("tea")
        crowd = [stack.enter_context(RawClient(place, f"c{number}")) for number in range(8)]
        frame = [client.bundle("tea", [bytes([number]) * 4_000_000]) for number, client in enumerate(crowd)]
        sent = [0] * len(crowd)
        while any(count < len(frame[number]) for number, count in enumerate(sent)):
            for number, client in enumerate(crowd):  # a piece each, so that all of them are under way
                client.socket.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    sent[number] += client.socket.send(frame[number][sent[number] : sent[number] + 500_000])
        assert {message.payload[0] for message in ada.messages(8)} == set(range(8))
        assert status(place)["runtime"]["clients"]["stalled_frames"] == 0
        wait_until(lambda: status(place)["runtime"]["memory"]["input"]["bytes"] == 0)


def test_a_frame_without_an_end_is_left_alone_while_nobody_waits(cluster: Cluster) -> None:
    settings = Settings(input_total_bytes=LEAST, frame_patience_ms=1)
    (daemon,) = cluster.start(local_config(1, cluster.directory, settings=settings))
    with RawClient(daemon.places[0], "slow") as slow, RawClient(daemon.places[0], "ada") as ada:
        slow.join("tea")
        frame = slow.bundle("tea", [LARGEST])
        slow.send_bytes(frame[:1_000_000])
        for number in range(50):
            ada.send(ada.name, b"%d" % number)
            ada.messages(1)
        slow.send_bytes(frame[1_000_000:])
        assert slow.messages(1)[0].payload == LARGEST


def test_who_stalls_while_others_wait_is_told_why(cluster: Cluster) -> None:
    settings = Settings(input_total_bytes=LEAST, frame_patience_ms=50)
    (daemon,) = cluster.start(local_config(1, cluster.directory, settings=settings))
    with ExitStack() as stack:
        crowd = [stack.enter_context(RawClient(daemon.places[0], f"half{number}")) for number in range(3)]
        for client in crowd:
            client.send_bytes(client.bundle("tea", [LARGEST])[:2_000_000])
        assert crowd[0].hear(frames.Goodbye).code == "stalled-frame"
        assert crowd[0].is_closed()


def test_beginnings_of_small_frames_have_a_bound_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(input_total_bytes=LEAST, frame_patience_ms=50)
    (daemon,) = cluster.start(local_config(1, cluster.directory, settings=settings))
    with ExitStack() as stack:
        ada = stack.enter_context(RawClient(daemon.places[0], "ada"))
        daemon._clients.input.most_bytes = 1_000_000  # as if there were thousands of clients
        crowd = [stack.enter_context(RawClient(daemon.places[0], f"half{number}")) for number in range(40)]
        for client in crowd:
            client.send_bytes(client.bundle("tea", [bytes(50_000)])[:10_000])
        ada.send(ada.name, b"still here")
        assert ada.messages(1)[0].payload == b"still here"
        wait_until(lambda: status(daemon.places[0])["runtime"]["clients"]["stalled_frames"] > 0)


def test_a_session_with_nothing_waiting_is_read_where_others_must_wait(cluster: Cluster) -> None:
    """Two sites of which one does not answer: what is sent waits, and its senders are not read."""
    settings = Settings(unstable_bytes=65_536, suspect_ms=30_000.0, recovery_ms=60_000.0)
    first, _ = cluster.start(local_config(2, cluster.directory, settings=settings))
    budget = first._clients.input
    with RawClient(first.places[0], "ada") as ada, RawClient(first.places[0], "bob") as bob:
        bob.join("tea")
        budget.most_bytes = 0
        ada.send("tea", b"waits")
        wait_until(lambda: budget._full_since_us is not None)
        budget.most_bytes = 1_000_000
        bob.say(frames.AskStatus(groups=0))  # any event makes the daemon look again
        assert bob.messages(1)[0].payload == b"waits"


def test_output_is_counted_once_however_many_wait() -> None:
    output = Output(1_000)
    frame = output.share(bytes(600))
    others = [frame, frame, frame]
    assert (output.bytes, output.is_over) == (600, False)
    more = output.share(bytes(600))
    assert output.is_over
    del frame
    assert output.bytes == 1_200
    others.clear()
    assert output.bytes == 600
    del more
    assert output.bytes == 0


def test_output_that_is_written_at_once_is_not_counted() -> None:
    output = Output(1_000)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        reader, blocked = Connection(ours), Connection(ours)
        reader.queue(output.lend(bytes(600)))
        reader.flush()
        output.count([reader])
        assert (reader.waiting_bytes, output.bytes) == (0, 0)
        for connection in (reader, blocked):
            connection.queue(output.lend(bytes(600)))
        reader.flush()
        output.count([reader, blocked])
        assert output.bytes == 600, "one of the two has to wait"
        blocked.drop_output()
        assert output.bytes == 0


def test_those_for_whom_most_waits_go_first(cluster: Cluster) -> None:
    megabyte = 2**20
    settings = Settings(
        output_soft_bytes=3 * megabyte,
        output_hard_bytes=4 * megabyte,
        output_total_bytes=5 * megabyte,
        slow_patience_ms=60_000,
    )
    (daemon,) = cluster.start(local_config(1, cluster.directory, settings=settings))
    place = daemon.places[0]
    with ExitStack() as stack:
        ada = stack.enter_context(RawClient(place, "ada"))
        deaf = [stack.enter_context(RawClient(place, f"deaf{number}")) for number in range(4)]
        for number, client in enumerate(deaf):  # groups of their own: nothing of it is shared
            client.join(f"tea{number}")
        loads = [2.9, 1.0, 1.0, 1.0]  # beyond what the kernel holds, in megabytes
        sent = [0.0] * 4

        def waiting() -> dict[str, int]:
            told = status(place)
            names = {str(session["number"]): session["name"] for session in told["sessions"]}
            return {names[number]: size for number, size in told["runtime"]["output_bytes"].items()}

        for number, load in enumerate(loads):
            while waiting().get(f"#deaf{number}#d1", 0) < load * megabyte - 60_000:
                ada.send(f"tea{number}", bytes(50_000))
                sent[number] += 1
                if status(place)["runtime"]["clients"]["over_budget"]:
                    break
        wait_until(lambda: status(place)["runtime"]["clients"]["over_budget"] == 1)
        assert deaf[0].hear(frames.Goodbye).code == "slow-receiver"
        assert set(waiting()) == {"#deaf1#d1", "#deaf2#d1", "#deaf3#d1"}
        assert status(place)["runtime"]["memory"]["output"]["bytes"] < 5 * megabyte


def test_the_figures_of_the_documentation_are_those_of_the_code() -> None:
    assert (quotas.LARGE_BYTES, quotas.PROGRESS_BYTES, quotas.ORDINARY) == (64 * 1024, 1024 * 1024, 0.75)
