"""Daemons whose sites are joined by TCP: broken connections, killed daemons, floods, strangers."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from local_cluster import Cluster, is_formed
from process_cluster import ProcessCluster
from raw_client import RawClient, exchange_the_largest, status, wait_until

from antiphon import limits
from antiphon.config import Config, Settings, address
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.service import Service
from antiphon.wire import packet, streams
from antiphon.wire.packet import PacketKind
from antiphon.wire.streams import Answer, Greeting

HASTY = Settings(membership="lan", recovery_ms=3_000.0)
SERVICES = [Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE]


def protocols(place: str) -> set[str]:
    return {link["protocol"] for link in status(place)["links"]}


def lines(place: str) -> dict[str, dict[str, Any]]:
    """What a daemon says of its connections, by their other ends."""
    told: dict[str, dict[str, Any]] = status(place)["runtime"]["streams"]
    return told


def reasons(place: str) -> list[str]:
    return [f"{record['reason']} {record['detail']}" for record in status(place)["rounds"]]


def break_connection(daemon: Daemon) -> None:
    """As a box on the way may: both ends see the end of it, neither has asked for it."""
    sockets = daemon._streams
    assert sockets is not None
    for channel, wire in list(sockets._wires.items()):
        if channel.phase.value == "open":
            wire._socket.shutdown(socket.SHUT_RDWR)


def talk(clients: list[RawClient], count: int, size: int) -> None:
    """All send at once; each gets everything once, in one order."""
    for number in range(count):
        for client in clients:
            client.send("chat", number.to_bytes(4, "big") + bytes(size), service=SERVICES[number % 4])
    heard = [client.messages(len(clients) * count) for client in clients]
    for messages in heard:
        assert len({message.id for message in messages}) == len(clients) * count
    ordered = [[message.id for message in messages if message.service.is_ordered] for messages in heard]
    assert all(order == ordered[0] for order in ordered)


@pytest.mark.parametrize("chain", [False, True])
def test_messages_of_every_service_cross_connections(cluster: Cluster, chain: bool) -> None:
    daemons = cluster.start(local_config(3, cluster.directory, protocol="tcp", chain=chain))
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(daemon.places[0], "one")) for daemon in daemons]
        for client in clients:
            client.join("chat")
        talk(clients, 40, 20_000)
    for daemon in daemons:
        assert protocols(daemon.places[0]) == {"tcp"}
        assert {line["state"] for line in lines(daemon.places[0]).values()} == {"open"}
        assert not status(daemon.places[0])["counters"]


def test_the_largest_messages_cross_connections_both_ways(cluster: Cluster) -> None:
    first, second = cluster.start(local_config(2, cluster.directory, protocol="tcp"))
    exchange_the_largest(first.places[0], second.places[0])


def test_there_is_one_connection_for_a_pair_whoever_dials(cluster: Cluster) -> None:
    """Both start at the same time, and both have something to say at once."""
    config = local_config(4, cluster.directory, protocol="tcp")
    daemons = cluster.start(config)
    told = {daemon.name: lines(daemon.places[0]) for daemon in daemons}
    for daemon, others in told.items():
        for other, line in others.items():
            assert line["state"] == "open"
            assert line["dialled"] != told[other][daemon]["dialled"], "the two mean different connections"
    for daemon in daemons:
        sockets = daemon._streams
        assert sockets is not None
        wait_until(lambda sockets=sockets: len(sockets._wires) == 3)


def words(client: RawClient, last: bytes) -> list[bytes]:
    """What each message begins with, up to a last one."""
    found: list[bytes] = []
    while not found or found[-1] != last:
        found.append(client.messages(1)[0].payload.split(b"\0")[0])
    return found


def test_a_broken_connection_costs_a_view_and_nothing_else(cluster: Cluster) -> None:
    """While they are apart, a daemon goes on alone: the other one then lacks that part, and no other."""
    config = local_config(2, cluster.directory, protocol="tcp", settings=HASTY)
    first, second = cluster.start(config)
    with RawClient(first.places[0], "ada") as ada, RawClient(second.places[0], "bob") as bob:
        ada.join("chat")
        bob.join("chat")
        for turn in range(3):
            view = status(first.places[0])["view"]["id"]
            for number in range(20):
                ada.send("chat", b"%d %d" % (turn, number) + bytes(50_000))
            break_connection(second if turn % 2 else first)
            wait_until(lambda view=view: status(first.places[0])["view"]["id"] > view)
            places = [first.places[0], second.places[0]]
            wait_until(lambda places=places: is_formed(places, config.daemon_names))
            ada.send("chat", b"%d end" % turn)
            heard = [words(client, b"%d end" % turn) for client in (ada, bob)]
            assert heard[0] == [b"%d %d" % (turn, number) for number in range(20)] + [b"%d end" % turn]
            assert heard[1] == [word for word in heard[0] if word in heard[1]]
    for daemon in (first, second):
        assert any(reason.startswith("link-failed") for reason in reasons(daemon.places[0]))


def test_killed_and_restarted_daemons_are_found_again_and_leave_no_descriptors(tmp_path: Path) -> None:
    config = local_config(2, tmp_path, daemons=2, protocol="tcp", settings=HASTY)
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        before = [cluster.descriptors(index) for index in (0, 1)]
        for index in (3, 2, 3):
            cluster.kill(index)
            cluster.wait_formed([other for other in range(4) if other != index])
            cluster.restart(index)
            cluster.wait_formed()
        for index in (0, 1):
            wait_until(lambda index=index: cluster.descriptors(index) <= before[index])
        with (
            RawClient(cluster.places[0], "ada") as ada,
            RawClient(cluster.places[3], "bob") as bob,
        ):
            ada.join("chat")
            bob.join("chat")
            talk([ada, bob], 10, 1_000)
        cluster.assert_well()


def test_a_stopped_daemon_is_noticed_by_its_silence(tmp_path: Path) -> None:
    """Its kernel still takes everything, and TCP has nothing to complain about."""
    config = local_config(2, tmp_path, protocol="tcp", settings=HASTY)
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        os.kill(cluster.processes[1].pid, signal.SIGSTOP)
        cluster.wait_formed([0])
        assert any(reason.startswith("silence") for reason in reasons(cluster.places[0]))
        os.kill(cluster.processes[1].pid, signal.SIGCONT)
        cluster.wait_formed()
        cluster.assert_well()


def test_a_flood_is_held_back_by_a_daemon_that_does_not_read(tmp_path: Path) -> None:
    """What waits is bounded, and nothing of it is lost."""
    settings = Settings(membership="wan", suspect_ms=20_000.0, recovery_ms=20_000.0)
    config = local_config(2, tmp_path, protocol="tcp", settings=settings)
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        ada = stack.enter_context(RawClient(cluster.places[0], "ada"))
        bob = stack.enter_context(RawClient(cluster.places[1], "bob"))
        bob.join("chat")
        os.kill(cluster.processes[1].pid, signal.SIGSTOP)
        pool = stack.enter_context(ThreadPoolExecutor())
        bundles = [ada.bundle("chat", [number.to_bytes(4, "big") + bytes(99_996)]) for number in range(400)]
        sent = pool.submit(lambda: [ada.send_bytes(bundle) for bundle in bundles])
        wait_until(lambda: not status(cluster.places[0])["accepting"])
        for name, gauge in status(cluster.places[0])["buffers"].items():
            assert gauge["bytes"] <= gauge["limit"], name
        (line,) = lines(cluster.places[0]).values()
        assert line["waiting_bytes"] <= limits.STREAM_OUTPUT_MAX_BYTES
        assert not sent.done()
        os.kill(cluster.processes[1].pid, signal.SIGCONT)
        numbers = [int.from_bytes(message.payload[:4], "big") for message in bob.messages(400)]
        assert numbers == list(range(400))
        sent.result(30)
        cluster.assert_well()


# Strangers --------------------------------------------------------------------------------------------------


def call(config: Config, number: int = 0) -> socket.socket:
    """A connection to where a daemon listens for others."""
    made = socket.create_connection(address(config.daemons()[number][1].stream_address))
    made.settimeout(30)
    return made


def answer_of(caller: socket.socket) -> Answer:
    """What the daemon says before it hangs up."""
    data = b""
    while more := caller.recv(1_000):
        data += more
    return streams.parse_greeting(memoryview(data[4:])).answer


@pytest.mark.parametrize(
    ("digest", "sender", "receiver", "answer"),
    [
        (1, 1, 0, Answer.OTHER_CONFIGURATION),
        (0, 7, 0, Answer.NOT_A_NEIGHBOUR),
        (0, 1, 1, Answer.NOT_A_NEIGHBOUR),
        (0, 0, 0, Answer.NOT_A_NEIGHBOUR),
    ],
)
def test_a_wrong_caller_is_told_why_it_is_refused(
    cluster: Cluster, digest: int, sender: int, receiver: int, answer: Answer
) -> None:
    config = local_config(2, cluster.directory, protocol="tcp")
    first, _ = cluster.start(config)
    with call(config) as caller:
        caller.sendall(streams.greeting(Greeting(config.digest ^ digest, sender, receiver, 5)))
        assert answer_of(caller) is answer
    counters = status(first.places[0])["runtime"]["stream_counters"]
    assert counters[f"stream: refused a caller, {answer.words}"] == 1
    assert is_formed([daemon.places[0] for daemon in cluster.daemons], config.daemon_names)


def test_bad_bytes_end_a_connection_and_nothing_else(cluster: Cluster) -> None:
    config = local_config(2, cluster.directory, protocol="tcp")
    first, _ = cluster.start(config)
    for data in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 100,
        streams.length(16) + bytes(16),
        bytes(1_000) + b"\1",
    ):
        with call(config) as caller:
            caller.sendall(data)
            if data[:4] != bytes(4):
                assert caller.recv(1_000) == b""
    silent = [call(config) for _ in range(limits.STREAM_STRANGERS_MAX + 5)]
    assert [caller.recv(1) for caller in silent[:5]] == [b""] * 5, "the oldest have to go"
    for caller in silent:
        caller.close()
    sockets = first._streams
    assert sockets is not None
    wait_until(lambda: len(sockets._wires) == 1)
    assert is_formed([daemon.places[0] for daemon in cluster.daemons], config.daemon_names)


def test_a_packet_that_is_none_ends_the_connection_of_a_neighbour(cluster: Cluster) -> None:
    """A neighbour that has become a stranger: its connection ends, with a reason and a counter."""
    config = local_config(2, cluster.directory, protocol="tcp")
    first = cluster.add(config, "d1")
    with call(config) as caller:
        caller.sendall(streams.greeting(Greeting(config.digest, 1, 0, 5)))
        assert streams.parse_greeting(memoryview(caller.recv(20)[4:])).answer is Answer.WELCOME
        prefix = packet.prefix(PacketKind.BEAT, digest=config.digest, sender=0, receiver=0, incarnation=5)
        stray = packet.whole(prefix, counter=1)
        caller.sendall(streams.length(len(stray)) + stray)
        while caller.recv(10_000):
            pass
    assert status(first.places[0])["counters"]["packet: over another one's connection"] == 1
    assert "bad input" in lines(first.places[0])["d2"]["reason"]


def test_datagrams_of_a_neighbour_over_udp_are_refused(cluster: Cluster) -> None:
    config = local_config(2, cluster.directory, protocol="tcp")
    first, _ = cluster.start(config)
    prefix = packet.prefix(PacketKind.ACK, digest=config.digest, sender=1, receiver=0, incarnation=7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        attacker.sendto(packet.ack(prefix, 0, 0, 0, counter=1), address(config.daemons()[0][1].address))
    wait_until(lambda: "packet: not over its connection" in status(first.places[0])["counters"])


def test_a_daemon_says_that_its_tcp_address_is_taken(cluster: Cluster) -> None:
    config = local_config(2, cluster.directory, protocol="tcp")
    with socket.socket() as other:
        other.bind(address(config.daemons()[0][1].stream_address))
        other.listen()
        with pytest.raises(OSError, match=r"TCP address 127.0.0.1:.* cannot be used"):
            Daemon(config, "d1").start()
    with Daemon(config, "d1"):  # what was taken before the error is free again
        time.sleep(0)


def test_unreachable_daemons_are_cut_off_and_come_back(cluster: Cluster) -> None:
    config = local_config(2, cluster.directory, protocol="tcp", settings=HASTY)
    first, second = cluster.start(config)
    first.unreachable, second.unreachable = frozenset((1,)), frozenset((0,))
    wait_until(lambda: is_formed([first.places[0]], ["d1"]) and is_formed([second.places[0]], ["d2"]))
    first.unreachable = second.unreachable = frozenset()
    wait_until(lambda: is_formed([first.places[0], second.places[0]], config.daemon_names))
