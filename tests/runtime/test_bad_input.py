"""Any bytes on any socket: counted, answered with a reason where somebody is there, and survived."""

import logging
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from local_cluster import Cluster
from raw_client import RawClient, status, wait_until

from antiphon import limits
from antiphon.config import address
from antiphon.runtime.local import local_config
from antiphon.service import Service
from antiphon.wire import bundle, frames, packet
from antiphon.wire.extensions import SKIPPABLE, Extension
from antiphon.wire.packet import PacketKind

LISTENERS = pytest.mark.parametrize("listener", [0, 1], ids=["unix", "tcp"])


@contextmanager
def others_go_on(daemon_places: tuple[str, ...]) -> Iterator[None]:
    """A session from before the trouble can still talk afterwards, and a new one can connect."""
    with RawClient(daemon_places[0], "witness") as witness:
        witness.join("calm")
        yield
        with RawClient(daemon_places[1], "newcomer") as newcomer:
            newcomer.send("calm", b"all well?")
            assert witness.messages(1)[0].payload == b"all well?"


def garbage(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def frame(kind: int, body: bytes, length: int | None = None) -> bytes:
    return frames.HEAD.pack(frames.HEAD_BYTES + len(body) if length is None else length, kind) + body


def sent_as(sender: str, group: str, *extensions: Extension) -> bytes:
    names = bundle.names_area(sender, [group])
    return b"".join(bundle.encode(names, 1, Service.AGREED, [b"payload"], extensions=extensions))


BEFORE_CONNECT = {
    "noise": garbage(1, 5_000),
    "unknown kind": frame(99, b"x"),
    "length zero": frame(frames.FrameKind.CONTROL, b"", 0),
    "length of the moon": frame(frames.FrameKind.BUNDLE, b"", 0xFFFF_FFFF),
    "control too long": frame(frames.FrameKind.CONTROL, b"", limits.CONTROL_FRAME_MAX_BYTES + 1),
    "bundle too long": frame(frames.FrameKind.BUNDLE, b"", limits.FRAME_MAX_BYTES + 1),
    "long greeting": frame(frames.FrameKind.CONTROL, b"", 100_000),
    "not MessagePack": frame(frames.FrameKind.CONTROL, garbage(2, 100)),
    "an unknown word": frame(frames.FrameKind.CONTROL, b"\x81\xa4type\xa5dance"),
    "join first": frames.encode_control(frames.Join("chat")),
    "bundle first": sent_as("#ada#d1", "chat"),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@LISTENERS
@pytest.mark.parametrize("what", BEFORE_CONNECT)
def test_bad_bytes_from_a_stranger(cluster: Cluster, listener: int, what: str) -> None:
    (daemon,) = cluster.start()
    with others_go_on(daemon.places), RawClient(daemon.places[listener]) as stranger:
        stranger.send_bytes(BEFORE_CONNECT[what])
        goodbye = stranger.hear(frames.Goodbye)
        assert goodbye.code == "bad-frame"
        assert goodbye.reason
        assert stranger.is_closed()
    assert status(daemon.places[0])["runtime"]["clients"]["bad_frames"] == 1


IN_SESSION = {
    "noise": garbage(3, 5_000),
    "a second connect": frames.encode_control(frames.Connect(frames.PROTOCOL_VERSION, "again")),
    "another's name": sent_as("#witness#d1", "calm"),
    "a group with a space": sent_as("#ada#d1", "no such"),
    "a bundle of nothing": frame(frames.FrameKind.BUNDLE, b""),
    "a bundle of noise": frame(frames.FrameKind.BUNDLE, garbage(4, 500)),
    "flags of daemons": struct.pack("!B", 2).join(
        (sent_as("#ada#d1", "calm")[:7], sent_as("#ada#d1", "calm")[8:])
    ),
    "an extension": sent_as("#ada#d1", "calm", Extension(SKIPPABLE, b"x")),
}


@LISTENERS
@pytest.mark.parametrize("what", IN_SESSION)
def test_bad_bytes_from_a_session(cluster: Cluster, listener: int, what: str) -> None:
    (daemon,) = cluster.start()
    with others_go_on(daemon.places), RawClient(daemon.places[listener], "ada") as ada:
        ada.send_bytes(IN_SESSION[what])
        assert ada.hear(frames.Goodbye).code == "bad-frame"
        assert ada.is_closed()
        assert "#ada#d1" not in str(status(daemon.places[0])["sessions"])


@LISTENERS
@pytest.mark.parametrize("size", [1, 4, 5, 40, 400_000, 900_000])
def test_a_truncated_frame_ends_with_its_connection(cluster: Cluster, listener: int, size: int) -> None:
    (daemon,) = cluster.start()
    with others_go_on(daemon.places):
        with RawClient(daemon.places[listener], "ada") as ada:
            ada.send_bytes(ada.bundle("calm", [bytes(1_000_000)])[:size])
        wait_until(lambda: "#ada#d1" not in str(status(daemon.places[0])["sessions"]))


def test_repeated_bad_bytes_do_not_fill_the_log(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "antiphon.daemon")
    (daemon,) = cluster.start()
    for _ in range(20):
        with RawClient(daemon.places[0]) as stranger:
            stranger.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
            assert stranger.is_closed()
    assert status(daemon.places[0])["runtime"]["clients"]["bad_frames"] == 20
    assert 1 <= len([record for record in caplog.records if "bad bytes" in record.message]) < 20


def foreign_packets(digest: int) -> dict[str, bytes]:
    """Datagrams that no peer would send, by the reason under which they are counted."""
    ours = packet.prefix(PacketKind.ACK, digest=digest, sender=1, receiver=0, incarnation=7)
    other_cluster = packet.prefix(PacketKind.ACK, digest=digest ^ 1, sender=1, receiver=0, incarnation=7)
    stranger = packet.prefix(PacketKind.ACK, digest=digest, sender=9, receiver=0, incarnation=7)
    return {
        "packet: too short": b"hello",
        "packet: not ours": garbage(5, 1_400),
        "packet: unknown version": ours[:1] + b"\xff" + ours[2:] + bytes(30),
        "packet: checksum": packet.ack(ours, 0, 0, 0, counter=1)[:-1] + b"?",
        "packet: unknown kind or wrong size": packet.whole(ours, b"odd", counter=1),
        "packet: other configuration": packet.ack(other_cluster, 0, 0, 0, counter=1),
        "packet: not from a neighbour": packet.ack(stranger, 0, 0, 0, counter=1),
    }


def test_bad_datagrams_are_counted_by_reason_and_the_links_go_on(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "antiphon.daemon")
    config = local_config(2, cluster.directory)
    first, second = cluster.start(config)
    bad = foreign_packets(config.digest)
    target = address(config.sites[0].daemon[0].address)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker,
        RawClient(first.places[0], "ada") as ada,
        RawClient(second.places[0], "bob") as bob,
    ):
        ada.join("chat")
        bob.join("chat")
        for data in (*bad.values(), b"", garbage(6, 60_000)):
            attacker.sendto(data, target)
        for seed in range(300):
            attacker.sendto(b"\xa7\x01" + garbage(seed, seed * 4), target)
        wait_until(lambda: bad.keys() <= status(first.places[0])["counters"].keys())
        ada.send("chat", b"from d1")
        bob.send("chat", b"from d2")
        assert {message.payload for message in ada.messages(2)} == {b"from d1", b"from d2"}
        assert {message.payload for message in bob.messages(2)} == {b"from d1", b"from d2"}
