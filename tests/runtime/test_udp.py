"""The UDP socket: trains with and without the kernel's help, and errors that stay inside."""

import select
import socket
import subprocess
import sys

import pytest
from local_cluster import needs_offload
from raw_client import PATIENCE_S

from antiphon.core.effects import Datagram
from antiphon.errors import ConfigError, ConnectError
from antiphon.runtime.udp import PLAIN, Offload, UdpSocket

PATHS = [
    pytest.param((PLAIN, PLAIN), id="plain"),
    pytest.param((Offload(True, True), Offload(True, True)), id="gso-gro", marks=needs_offload),
    pytest.param((Offload(True, False), PLAIN), id="gso-plain", marks=needs_offload),
    pytest.param((PLAIN, Offload(True, True)), id="plain-gro", marks=needs_offload),
]


def free_address() -> tuple[str, int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        host, port = bound.getsockname()
        return host, port


def pair(offloads: tuple[Offload, Offload]) -> tuple[UdpSocket, UdpSocket]:
    one, other = free_address(), free_address()
    return UdpSocket(one, {1: other}, offloads[0]), UdpSocket(other, {0: one}, offloads[1])


def receive(receiver: UdpSocket, size_bytes: int) -> list[bytes]:
    """The packets that arrive, until they have `size_bytes` in all."""
    packets: list[bytes] = []

    def deliver(data: memoryview, stride_bytes: int, origin: int | None) -> None:
        packets.extend(bytes(data[at : at + stride_bytes]) for at in range(0, len(data), stride_bytes))

    while sum(map(len, packets)) < size_bytes:
        readable, _, _ = select.select([receiver], [], [], PATIENCE_S)
        assert readable, f"only {len(packets)} packets came"
        receiver.drain(deliver)
    return packets


def train(packets: list[bytes]) -> Datagram:
    """A train as the node makes it: each packet a head and a body."""
    buffers = [part for packet in packets for part in (packet[:10], memoryview(packet)[10:])]
    return Datagram(1, buffers, len(packets[0]), sum(map(len, packets)))


def numbered(count: int, size: int, last: int) -> list[bytes]:
    return [bytes([number]) * (size if number < count - 1 else last) for number in range(count)]


@pytest.mark.parametrize("offloads", PATHS)
def test_trains_arrive_packet_by_packet_in_order(offloads: tuple[Offload, Offload]) -> None:
    sender, receiver = pair(offloads)
    for packets in (numbered(1, 500, 500), numbered(46, 1_400, 77), numbered(64, 1_000, 1_000)):
        sender.send(train(packets))
        assert receive(receiver, sum(map(len, packets))) == packets
    assert sender.counters.trains_sent == 3
    assert sender.counters.send_errors == sender.counters.gso_refused == 0
    sender.close()
    receiver.close()


@needs_offload
def test_a_train_takes_one_read_with_gro() -> None:
    sender, receiver = pair((Offload(True, True), Offload(True, True)))
    packets = numbered(40, 1_400, 1_400)
    sender.send(train(packets))
    assert receive(receiver, 40 * 1_400) == packets
    assert receiver.counters.trains_received == 1
    sender.close()
    receiver.close()


@pytest.mark.parametrize("offloads", PATHS)
def test_more_buffers_than_the_kernel_takes_are_joined(offloads: tuple[Offload, Offload]) -> None:
    sender, receiver = pair(offloads)
    pieces: list[bytes | memoryview] = [bytes([index % 251]) for index in range(2_800)]
    sender.send(Datagram(1, pieces, 1_400, 2_800))
    assert b"".join(receive(receiver, 2_800)) == b"".join(pieces)
    sender.close()
    receiver.close()


@needs_offload
def test_a_path_that_refuses_segmentation_gets_single_packets() -> None:
    sender, receiver = pair((Offload(True, True), Offload(True, True)))
    packets = numbered(200, 20, 20)  # more than the kernel segments in one call
    for _ in range(2):
        sender.send(train(packets))
        assert receive(receiver, 4_000) == packets
    assert sender.counters.gso_refused == 1
    sender.close()
    receiver.close()


def test_what_the_network_refuses_is_counted() -> None:
    sender, receiver = pair((PLAIN, PLAIN))
    sender.send(Datagram(1, [bytes(70_000)], 70_000, 70_000))
    assert sender.counters.send_errors == 1
    assert "too long" in sender.counters.last_error.lower()
    sender.send(train([b"still alive, sir"]))
    assert receive(receiver, 16) == [b"still alive, sir"]
    sender.close()
    receiver.close()


def test_a_peer_that_is_not_there_does_no_harm() -> None:
    sender, receiver = pair((PLAIN, PLAIN))
    receiver.close()
    for _ in range(3):
        sender.send(train([b"is anybody there"]))
        sender.drain(lambda data, stride_bytes, origin: None)
    sender.close()


def test_an_address_in_use_is_one_clear_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        place = "{}:{}".format(*other.getsockname())
        with pytest.raises(ConnectError, match=f"UDP address {place} cannot be used: Address already in use"):
            UdpSocket(other.getsockname(), {}, PLAIN)


def test_an_address_that_cannot_be_resolved_is_one_clear_error() -> None:
    with pytest.raises(ConfigError, match="cannot be resolved"):
        UdpSocket(("no.such.host.invalid", 4810), {}, PLAIN)


def whole(size: int) -> Datagram:
    return Datagram(1, [bytes(size)], size, size, is_whole=True)


def test_a_probe_that_no_datagram_can_hold_is_counted_and_nothing_else() -> None:
    sender, receiver = pair((PLAIN, PLAIN))
    sender.send(whole(65_508))
    assert (sender.counters.too_large, sender.counters.send_errors) == (1, 0)
    sender.send(whole(61_440))
    assert receive(receiver, 61_440) == [bytes(61_440)]
    sender.close()
    receiver.close()


NARROW = """
import select, socket
from antiphon.core.effects import Datagram
from antiphon.runtime.udp import PLAIN, UdpSocket

def free():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()

one, other = free(), free()
sender, receiver = UdpSocket(one, {1: other}, PLAIN), UdpSocket(other, {0: one}, PLAIN)
for size in (1_472, 1_473, 9_000):
    for is_whole in (True, False):
        sender.send(Datagram(1, [bytes(size)], size, size, is_whole=is_whole))
        if select.select([receiver], [], [], 0.2)[0]:
            receiver.drain(lambda data, stride, origin: print(size, is_whole, len(data)))
print(sender.counters.too_large, sender.counters.send_errors)
"""
IN_NARROW_NETWORK = (
    "unshare",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    'ip link set lo mtu 1500 up && exec "$@"',
    "sh",
)


def test_probes_are_never_cut_and_other_packets_are() -> None:
    """In a network of its own, with the MTU of Ethernet."""
    try:
        subprocess.run((*IN_NARROW_NETWORK, "true"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network of its own can be made here")
    told = subprocess.run(
        (*IN_NARROW_NETWORK, sys.executable, "-c", NARROW), check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert told == ["1472 True 1472", "1472 False 1472", "1473 False 1473", "9000 False 9000", "2 0"]
