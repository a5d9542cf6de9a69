"""Faults on real sockets: daemons stopped, clients killed, strangers on the wire, crowds, and bad manners."""

import contextlib
import os
import random
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from local_cluster import Cluster
from msgspec import structs
from process_cluster import ProcessCluster
from raw_client import RawClient, status, wait_until

import antiphon
from antiphon import Message, Service, errors, limits
from antiphon.client import ask_status
from antiphon.config import Config, Settings, address
from antiphon.core.effects import Datagram
from antiphon.runtime.local import local_config
from antiphon.runtime.udp import UdpSocket
from antiphon.types import Cause
from antiphon.wire import frames
from antiphon.wire import packet as wire

PATIENCE_S = 60.0


def numbered(session: antiphon.blocking.Session, count: int, sender: str) -> list[int]:
    """The numbers in the next `count` messages from `sender`, in the order of their delivery."""
    found: list[int] = []
    while len(found) < count:
        for event in session.receive_many(PATIENCE_S):
            if isinstance(event, Message) and event.sender == sender:
                found.append(int.from_bytes(event.payload[:4], "big"))
    return found


def flood(session: antiphon.blocking.Session, count: int, size: int, pause_s: float = 0.0) -> None:
    for number in range(count):
        session.send("flood", number.to_bytes(4, "big") + bytes(size))
        if pause_s:
            time.sleep(pause_s)


# Daemons ----------------------------------------------------------------------------------------------------


PATIENT = Settings(membership="lan", suspect_ms=20_000.0, recovery_ms=30_000.0)
"""A daemon that is stopped for seconds is not given up."""
HASTY = Settings(membership="lan")


@pytest.mark.parametrize("stopped", [0, 1, 2], ids=["of the sender", "on the way", "of the receiver"])
def test_a_daemon_stopped_for_a_while_loses_nothing(tmp_path: Path, stopped: int) -> None:
    config = local_config(3, tmp_path, chain=True, settings=PATIENT)
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        ada = stack.enter_context(antiphon.blocking.connect(cluster.places[0], name="ada"))
        bob = stack.enter_context(antiphon.blocking.connect(cluster.places[2], name="bob"))
        bob.join("flood")
        pool = stack.enter_context(ThreadPoolExecutor())
        heard = pool.submit(numbered, bob, 20_000, ada.name)
        sent = pool.submit(flood, ada, 20_000, 1_000)
        time.sleep(0.1)
        os.kill(cluster.processes[stopped].pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(cluster.processes[stopped].pid, signal.SIGCONT)
        sent.result(PATIENCE_S)
        assert heard.result(PATIENCE_S) == list(range(20_000))
        for place in cluster.places:
            wait_until(lambda place=place: {link["state"] for link in status(place)["links"]} == {"open"})
        cluster.assert_well()


def causes(client: RawClient, members: int) -> list[Cause]:
    """Why the views changed that come up to the next one with so many members."""
    found = []
    while True:
        view = client.hear(frames.ViewFrame).view
        found.append(view.cause)
        if len(view.members) == members:
            return found


def test_a_daemon_stopped_for_too_long_is_left_out_and_taken_in_again(tmp_path: Path) -> None:
    config = local_config(3, tmp_path, settings=HASTY)
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        crowd = [stack.enter_context(RawClient(place, "one")) for place in cluster.places]
        for client in crowd:
            client.join("chat")
        for place, client in enumerate(crowd[:2]):
            assert causes(client, 3) == [Cause.JOIN] * (2 - place)
        os.kill(cluster.processes[2].pid, signal.SIGSTOP)
        for client in crowd[:2]:
            assert client.hear(frames.SignalFrame).signal.id == client.views[-1].id
            view = client.hear(frames.ViewFrame).view
            assert (view.cause, view.changed) == (Cause.NETWORK, ("#one#d3",))
            assert view.members == view.transitional == ("#one#d1", "#one#d2")
        crowd[0].send("chat", b"without you", service=Service.SAFE)
        for client in crowd[:2]:
            assert client.messages(1)[0].payload == b"without you"
        os.kill(cluster.processes[2].pid, signal.SIGCONT)
        for client in crowd:
            while (view := client.hear(frames.ViewFrame).view).cause is not Cause.MERGE:
                assert client is crowd[2] and view.cause is Cause.NETWORK
        assert len({client.views[-1].id for client in crowd}) == 1
        assert {len(client.views[-1].members) for client in crowd} == {3}
        assert [client.views[-1].transitional for client in crowd] == [
            ("#one#d1", "#one#d2"), ("#one#d1", "#one#d2"), ("#one#d3",),
        ]  # fmt: skip
        crowd[2].send("chat", b"here again", service=Service.SAFE)
        for client in crowd:
            assert client.messages(1)[0].payload == b"here again"
        cluster.assert_well()


def test_a_killed_daemon_comes_back_as_a_new_one(tmp_path: Path) -> None:
    config = local_config(2, tmp_path, daemons=2, settings=HASTY)
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        witness = stack.enter_context(RawClient(cluster.places[3], "witness"))
        witness.join("chat")
        for round_number in range(3):
            with RawClient(cluster.places[0], "ada") as ada:
                ada.join("chat")
                assert causes(witness, 2) == [Cause.JOIN]
                before = status(cluster.places[0])["incarnation"]
                cluster.kill(0)
                assert ada.is_closed()
            assert causes(witness, 1) == [Cause.NETWORK]
            cluster.wait_formed([1, 2, 3])
            witness.send("chat", bytes([round_number]), service=Service.SAFE)
            assert witness.messages(1)[0].payload == bytes([round_number])
            cluster.restart(0)
            cluster.wait_formed()
            assert status(cluster.places[0])["incarnation"] != before
        cluster.assert_well()


# Clients that die -------------------------------------------------------------------------------------------


def killed_client(place: str, mid_flood: bool) -> None:
    """A process that connects and joins, sends a little or a lot, and is killed with SIGKILL."""
    pid = os.fork()
    if pid == 0:
        try:
            client = RawClient(place, f"k{os.getpid() % 1_000_000}")
            client.join("doomed")
            if mid_flood:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, 0.05)  # ends it just as dead, at any point
                while True:
                    client.send("flood", bytes(50_000))
            client.send_bytes(client.bundle("flood", [bytes(9_000)])[:5_000])
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def test_killed_clients_disturb_nobody_and_leave_nothing_behind(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = ProcessCluster(local_config(2, tmp_path), tmp_path, stack)
        witness = stack.enter_context(RawClient(cluster.places[1], "witness"))
        witness.join("doomed")
        place = cluster.places[0]
        before = cluster.descriptors(0)
        for number in range(200):
            killed_client(place, mid_flood=number % 50 == 0)
        endings = 0
        while endings < 200:
            endings += witness.hear(frames.ViewFrame).view.cause is Cause.DISCONNECT
        assert witness.views[-1].members == (witness.name,)
        wait_until(lambda: status(place)["sessions"] == [])
        wait_until(lambda: cluster.descriptors(0) == before)
        witness.send("doomed", b"still here")
        assert witness.messages(1)[0].payload == b"still here"
        cluster.assert_well()


# Strangers on the wire --------------------------------------------------------------------------------------


class Wiretap:
    """Everything that the daemons of this process sent, for a stranger to send again."""

    def __init__(self, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
        self._targets = [address(daemon.address) for _, daemon in config.daemons()]
        self.packets: list[tuple[tuple[str, int], bytes]] = []
        send = UdpSocket.send

        def tapped(udp: UdpSocket, datagram: Datagram) -> None:
            if len(self.packets) < 20_000:
                train = b"".join(datagram.buffers)
                for at in range(0, len(train), datagram.stride_bytes):
                    packet = train[at : at + datagram.stride_bytes]
                    self.packets.append((self._targets[datagram.receiver], packet))
            send(udp, datagram)

        monkeypatch.setattr(UdpSocket, "send", tapped)


def mutated(chance: random.Random, packet: bytes) -> bytes:
    """A packet that looks right at first sight: its head is untouched, something behind it is not, and mostly
    its checksum fits."""
    changed = bytearray(packet[: -wire.CHECK_BYTES])
    for _ in range(chance.randrange(1, 5)):
        changed[chance.randrange(min(16, len(changed) - 1), len(changed))] = chance.randrange(256)
    body = bytes(changed[: chance.randrange(1, len(changed) + 1)] if chance.random() < 0.2 else changed)
    return body + (wire.check([body]) if chance.random() < 0.9 else bytes(wire.CHECK_BYTES))


def trusting(config: Config) -> Config:
    """The same for a network where a stranger can send from any address."""
    return structs.replace(config, settings=structs.replace(config.settings, check_addresses=False))


@contextlib.contextmanager
def storm(wiretap: Wiretap, *, mutates: bool) -> Iterator[None]:
    """For as long as the block lasts, a stranger sends what was on the wire before, as it was or changed."""
    over = threading.Event()
    chance = random.Random(7)

    def blow() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            while not over.is_set():
                for target, packet in chance.sample(wiretap.packets, min(50, len(wiretap.packets))):
                    stranger.sendto(mutated(chance, packet) if mutates else packet, target)
                time.sleep(0.002)

    blowing = threading.Thread(target=blow)
    blowing.start()
    try:
        yield
    finally:
        over.set()
        blowing.join()


def test_replayed_packets_change_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    config = trusting(local_config(3, cluster.directory, chain=True))
    wiretap = Wiretap(config, monkeypatch)
    first, _, last = cluster.start(config)
    with RawClient(first.places[0], "ada") as ada, RawClient(last.places[0], "bob") as bob:
        bob.join("chat")
        ada.join("chat")
        services = list(Service)[1:]
        with storm(wiretap, mutates=False):
            for number in range(600):
                body = number.to_bytes(4, "big") + bytes(5_000)
                ada.send("chat", body, service=services[number % len(services)])
                time.sleep(0.001)
            heard = bob.messages(600)
        ada.send("chat", b"last")
        assert bob.messages(1)[0].payload == b"last", "nothing came twice"
        assert len({message.id for message in heard}) == 600
        ordered = [int.from_bytes(m.payload[:4], "big") for m in heard if m.service >= Service.FIFO]
        assert ordered == sorted(ordered)
    assert sum(link["duplicates"] for link in status(first.places[0])["links"]) > 0


def test_mutated_packets_bring_nobody_down(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets are not sealed: a stranger who knows the incarnations can confuse links and so hold up what
    they carry. The daemons go on all the same, and so does what needs no link."""
    config = trusting(local_config(3, cluster.directory, chain=True))
    wiretap = Wiretap(config, monkeypatch)
    daemons = cluster.start(config)
    with RawClient(daemons[0].places[0], "ada") as ada, RawClient(daemons[2].places[0], "bob") as bob:
        bob.join("chat")
        with storm(wiretap, mutates=True):
            for _ in range(200):
                ada.send("chat", bytes(3_000))
                ada.send(ada.name, b"needs no order", service=Service.UNRELIABLE)
                time.sleep(0.003)
        assert {message.payload for message in ada.messages(200)} == {b"needs no order"}
        for daemon in daemons:
            told = status(daemon.places[0])
            expected = {"packet: too short", "packet: checksum", "item: longer than its packet"}
            assert told["counters"].keys() >= expected
            assert all(gauge["bytes"] <= gauge["limit"] for gauge in told["buffers"].values())


# Crowds -----------------------------------------------------------------------------------------------------


def test_five_hundred_clients_at_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = ProcessCluster(local_config(1, tmp_path), tmp_path, stack)
        (place,) = cluster.places
        before = cluster.descriptors(0)
        # All of them connect before any of them says a word.
        clients = [stack.enter_context(RawClient(place)) for _ in range(500)]
        for number, client in enumerate(clients):
            client.say(frames.Connect(frames.PROTOCOL_VERSION, f"c{number}"))
        for client in clients:
            client.name = client.hear(frames.Welcome).name
        clients[0].join("crowd")
        for client in clients:
            client.send("crowd", b"here")
        assert {message.sender for message in clients[0].messages(500)} == {client.name for client in clients}
        for client in clients:
            client.say(frames.Disconnect())
        for client in clients:
            assert client.hear(frames.Goodbye).code == "bye"
            client.socket.close()
        wait_until(lambda: cluster.descriptors(0) == before)
        cluster.assert_well()


def test_newcomers_wait_while_no_descriptor_is_left(tmp_path: Path) -> None:

    with ExitStack() as stack:
        cluster = ProcessCluster(local_config(1, tmp_path), tmp_path, stack)
        (place,) = cluster.places
        room = cluster.descriptors(0) + 10
        resource.prlimit(cluster.processes[0].pid, resource.RLIMIT_NOFILE, (room, room))
        inside = [stack.enter_context(RawClient(place, f"c{number}")) for number in range(10)]
        pool = stack.enter_context(ThreadPoolExecutor())
        outside = pool.submit(antiphon.blocking.connect, place, name="late", timeout_s=PATIENCE_S)
        inside[0].join("calm")
        inside[1].send("calm", b"those inside do not notice")
        assert inside[0].messages(1)[0].payload == b"those inside do not notice"
        assert not outside.done()
        inside[9].socket.close()
        outside.result(PATIENCE_S).close()
        cluster.assert_well()


# Clients without manners ------------------------------------------------------------------------------------


def test_a_member_that_floods_without_reading_is_cut_off(cluster: Cluster) -> None:
    settings = Settings(
        membership="lan", output_soft_bytes=2**20, output_hard_bytes=2**23, slow_patience_ms=100
    )
    first, second = cluster.start(local_config(2, cluster.directory, settings=settings))
    with RawClient(first.places[0], "boor") as boor, RawClient(second.places[0], "ada") as ada:
        boor.join("flood")
        ada.join("flood")
        body = boor.bundle("flood", [bytes(50_000)])

        def flood() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    boor.send_bytes(body)

        flooding = threading.Thread(target=flood)
        flooding.start()
        while (view := ada.hear(frames.ViewFrame).view).cause is not Cause.DISCONNECT:
            pass
        assert view.changed == ("#boor#d1",)
        flooding.join(PATIENCE_S)
        assert boor.is_closed()  # its last word is behind what it never read, and may be lost with that
        assert status(first.places[0])["runtime"]["clients"]["slow_receivers"] == 1
        ada.send("flood", b"peace")
        assert ada.messages(1)[0].payload == b"peace"


def test_one_thread_that_only_sends_to_its_own_group_hears_why_it_is_over(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLIENT_EVENTS_MAX_BYTES", 2**20)
    settings = Settings(output_soft_bytes=2**20, output_hard_bytes=2**22, slow_patience_ms=100)
    (daemon,) = cluster.start(local_config(1, cluster.directory, settings=settings))
    session = antiphon.blocking.connect(daemon.places[0])
    session.join("flood")
    with pytest.raises(errors.Disconnected, match=r"did not take its events|slow-receiver"):
        flood(session, 1_000_000, 10_000)
    session.close()


def test_status_is_told_under_load(cluster: Cluster) -> None:
    first, second = cluster.start(local_config(2, cluster.directory))
    with (
        antiphon.blocking.connect(first.places[0], name="ada") as ada,
        antiphon.blocking.connect(second.places[0], name="bob") as bob,
        ThreadPoolExecutor() as pool,
    ):
        bob.join("flood")
        heard = pool.submit(numbered, bob, 30_000, ada.name)
        sent = pool.submit(flood, ada, 30_000, 1_000)
        asked = 0
        while not heard.done():
            for daemon in (first, second):
                assert ask_status(daemon.places[0])["daemon"] == daemon.name
                asked += 1
        sent.result()
        assert heard.result() == list(range(30_000))
        assert asked > 0


# A long time ------------------------------------------------------------------------------------------------

SOAK_S = 30
WARM_UP_S = 10
GROWTH_MAX_BYTES = 8 * 1024 * 1024
"""Of a daemon's resident memory after the warm-up; the daemon keeps freed memory, so floods of one size find
their room there already."""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_memory_and_descriptors_stay_flat(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = ProcessCluster(local_config(3, tmp_path), tmp_path, stack)
        until_s = time.monotonic() + SOAK_S + WARM_UP_S
        before = [cluster.descriptors(index) for index in range(3)]

        def soak(index: int) -> None:
            """Clients that come, join, flood, listen and go, again and again."""
            round_number = 0
            while time.monotonic() < until_s:
                round_number += 1
                with antiphon.blocking.connect(cluster.places[index]) as session:
                    group = f"g{round_number % 50}"
                    session.join(group)
                    session.send_many(group, [bytes(1_000)] * 2_000)
                    got = 0
                    while got < 2_000:
                        got += sum(
                            isinstance(event, Message) and event.sender == session.name
                            for event in session.receive_many(PATIENCE_S)
                        )

        pool = stack.enter_context(ThreadPoolExecutor())
        soaking = [pool.submit(soak, index % 3) for index in range(6)]
        time.sleep(WARM_UP_S)
        warm = [cluster.resident_bytes(index) for index in range(3)]
        for one in soaking:
            one.result(SOAK_S + PATIENCE_S)
        grown = [cluster.resident_bytes(index) - warm[index] for index in range(3)]
        assert max(grown) < GROWTH_MAX_BYTES, [f"{bytes_ / 2**20:.1f} MiB" for bytes_ in grown]
        for index in range(3):
            wait_until(lambda index=index: cluster.descriptors(index) == before[index])
        cluster.assert_well()
