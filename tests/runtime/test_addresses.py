"""From which addresses the word of a daemon is believed."""

import logging
import socket
import threading

import pytest
from local_cluster import Cluster
from msgspec import structs
from raw_client import RawClient, status, wait_until

from antiphon import limits
from antiphon.config import address
from antiphon.runtime import addresses
from antiphon.runtime.addresses import RESOLVE_INTERVAL_US, STRANGER, Addresses
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.wire import membership, packet
from antiphon.wire.membership import Beat
from antiphon.wire.packet import PacketKind

ELSEWHERE = "packet: from an address that is not its sender's"


def test_addresses_are_those_of_the_configuration() -> None:
    known = Addresses(("127.0.0.1", 4800), {1: ("127.0.0.1", 4801), 2: ("127.0.0.2", 4801)})
    assert known.origin(("127.0.0.1", 4801)) == 1
    assert known.origin(("127.0.0.2", 4801)) == 2
    assert known.origin(("127.0.0.2", 4802)) == STRANGER
    assert known.origin(("127.0.0.3", 4801)) == STRANGER
    known.is_checked = False
    assert known.origin(("127.0.0.3", 4801)) is None


def test_an_address_of_version_6() -> None:
    known = Addresses(("::1", 4800), {1: ("::1", 4801)})
    assert known.origin(("::1", 4801, 0, 0)) == 1
    assert known.origin(("::1", 4802, 0, 0)) == STRANGER


def test_an_address_that_names_no_host_is_not_checked() -> None:
    known = Addresses(("127.0.0.1", 4800), {1: ("0.0.0.0", 4801), 2: ("127.0.0.2", 4801)})
    assert known.origin(("127.0.0.1", 4801)) is None
    assert known.origin(("127.0.0.2", 4801)) == 2


def test_two_daemons_behind_one_address_are_not_told_apart() -> None:
    known = Addresses(("127.0.0.1", 4800), {1: ("127.0.0.1", 4801), 2: ("localhost", 4801)})
    assert known.origin(("127.0.0.1", 4801)) is None


def test_a_daemon_that_has_moved_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another thread, and not at every packet of a stranger."""
    book = {"one.example": "127.0.0.5"}
    threads = []

    def look_up(host: str, port: int, *_: object) -> list[tuple[object, ...]]:
        threads.append(threading.current_thread())
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", (book.get(host, host), port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", look_up)
    known = Addresses(("127.0.0.1", 4800), {1: ("one.example", 4801), 2: ("127.0.0.2", 4801)})
    targets = known.targets
    assert (known.origin(("127.0.0.5", 4801)), targets[1]) == (1, ("127.0.0.5", 4801))
    book["one.example"] = "127.0.0.6"
    before = len(threads)
    calls: list[object] = []
    done = threading.Event()
    for turn in range(100):
        known.find_out(lambda call: (calls.append(call), done.set()), 1_000_000 + turn)
    assert done.wait(30)
    assert known.origin(("127.0.0.6", 4801)) == STRANGER, "before the thread that uses it was told"
    assert len(calls) == 1
    assert threading.current_thread() not in threads[before:]
    calls[0]()  # type: ignore[operator]
    assert known.origin(("127.0.0.6", 4801)) == 1
    assert known.origin(("127.0.0.5", 4801)) == STRANGER
    assert targets == {1: ("127.0.0.6", 4801), 2: ("127.0.0.2", 4801)}
    done.clear()
    known.find_out(lambda call: done.set(), 1_000_000 + RESOLVE_INTERVAL_US)
    assert done.wait(30)


def test_addresses_without_a_name_are_never_looked_up_again() -> None:
    known = Addresses(("127.0.0.1", 4800), {1: ("127.0.0.1", 4801)})
    known.find_out(lambda call: pytest.fail("it was looked up"), 1_000_000)
    assert not [thread for thread in threading.enumerate() if thread.name == "antiphon-resolver"]


def forged(digest: int, sender: int, receiver: int, incarnation: int, lts: int) -> bytes:
    prefix = packet.prefix(
        PacketKind.BEAT, digest=digest, sender=sender, receiver=receiver, incarnation=incarnation
    )
    beat = Beat(limits.COUNTER_MAX, 0, True, 1, 0, 0, lts, sender)
    return packet.whole(prefix, membership.encode(beat), counter=1)


@pytest.mark.parametrize("is_checked", [True, False])
def test_beats_of_a_stranger_in_the_name_of_a_daemon_change_nothing_and_are_told(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, is_checked: bool
) -> None:
    """Even where addresses are not checked: clocks at the end of the range are believed of nobody."""
    caplog.set_level(logging.WARNING, "antiphon.daemon")
    config = local_config(3, cluster.directory)
    settings = structs.replace(config.settings, check_addresses=is_checked)
    daemons = cluster.start(structs.replace(config, settings=settings))
    targets = [address(daemon.address) for _, daemon in config.daemons()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        for receiver, target in enumerate(targets):
            for sender in {0, 1, 2} - {receiver}:
                incarnation = daemons[sender]._node.incarnation
                for lts in (limits.COUNTER_MAX, limits.LTS_CEILING, 5):
                    attacker.sendto(forged(config.digest, sender, receiver, incarnation, lts), target)
        reason = ELSEWHERE if is_checked else "beat: stamp that no clock can have reached"
        for daemon in daemons:
            wait_until(lambda places=daemon.places: status(places[0])["counters"].get(reason, 0) >= 2)
    wait_until(lambda: any(reason in record.message for record in caplog.records))
    with RawClient(daemons[0].places[0], "ada") as ada, RawClient(daemons[1].places[0], "bob") as bob:
        ada.join("chat")
        bob.join("chat")
        daemons[2].stop()
        ada.send("chat", b"still here")
        assert bob.messages(1)[0].payload == b"still here"
        wait_until(lambda: len(status(daemons[0].places[0])["view"]["members"]) == 2)
        bob.send("chat", b"and now")
        assert [message.payload for message in ada.messages(2)] == [b"still here", b"and now"]


def test_a_daemon_of_another_version_is_named_in_the_status_and_in_the_log(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """As long as its packets come from its own address."""
    caplog.set_level(logging.WARNING, "antiphon.daemon")
    config = local_config(2, cluster.directory)
    (_, first), (_, second) = config.daemons()
    beat = forged(config.digest, 1, 0, 7, 5)
    old = beat[:1] + b"\x04" + beat[2:]
    with (
        Daemon(config, "d1") as daemon,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(address(second.address))
        place = daemon.places[0]
        for _ in range(3):
            stranger.sendto(old, address(first.address))
        wait_until(lambda: status(place)["counters"].get("packet: unknown version", 0) == 3)
        assert status(place)["other_versions"] == []
        for _ in range(3):
            other.sendto(old, address(first.address))
        told = [{"daemon": "d2", "of": "packet", "version": 4, "ours": packet.VERSION}]
        wait_until(lambda: status(place)["other_versions"] == told)
        line = f"daemon d1: d2 speaks version 4, we speak {packet.VERSION}"
        wait_until(lambda: line in [record.getMessage() for record in caplog.records])
