"""Every field of a client's bundle is checked, or corrected, before anything is ordered."""

import struct

import pytest
from local_cluster import Cluster
from raw_client import RawClient

from antiphon import limits
from antiphon.service import Service
from antiphon.spreadwire import layout
from antiphon.types import BatchStamp
from antiphon.wire import bundle, frames
from antiphon.wire.bundle import Flag


def made(sender: str, payloads: list[bytes], *, flags: int = 0, sent_us: int = 0, marks: int = 0) -> bytes:
    names = bundle.names_area(sender, ["tea"])
    parts = bundle.encode(names, 1, Service.AGREED, payloads, flags=flags, sent_us=sent_us, marks=marks)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("clock_us", "shown_us"),
    [
        (0, 0),
        (1_700_000_000_000_000, 1_700_000_000_000_000),
        (limits.SENT_MAX_US, limits.SENT_MAX_US),
        (limits.SENT_MAX_US + 1, limits.SENT_MAX_US),
        (2**63 - 1, limits.SENT_MAX_US),
        (2**63, 0),
        (2**64 - 1, 0),
    ],
)
def test_a_wrong_clock_is_corrected_to_the_nearest_time_that_can_be(
    cluster: Cluster, clock_us: int, shown_us: int
) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada, RawClient(daemon.places[0], "eve") as eve:
        ada.join("tea")
        eve.send_bytes(made(eve.name, [b"late"], sent_us=clock_us))
        (message,) = ada.messages(1)
        assert (message.payload, message.sent_us) == (b"late", shown_us)


@pytest.mark.parametrize(
    "marks",
    [
        layout.AGREED | layout.REGULAR_VIEW | layout.BY_JOIN,
        layout.AGREED | layout.KILL,
        layout.AGREED | 0x40_0000,
        layout.SAFE,
        layout.AGREED | layout.SAFE,
        layout.LITTLE,
    ],
)
def test_marks_that_would_make_another_message_for_a_spread_client_are_refused(
    cluster: Cluster, marks: int
) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "eve") as eve:
        eve.send_bytes(made(eve.name, [b"forged"], marks=marks))
        goodbye = eve.hear(frames.Goodbye)
        assert (goodbye.code, goodbye.reason) == ("bad-frame", "bundle: impossible marks")


def test_marks_are_forbidden_where_spread_forbids_them_to_its_clients() -> None:
    forbidden = layout.DAEMONS_ONLY | layout.JOIN | layout.LEAVE | layout.KILL
    for bit in (1 << number for number in range(32)):
        data = made("#eve#d1", [b""], marks=layout.AGREED | bit)
        if bit & forbidden or (bit & layout.SERVICES and bit != layout.AGREED):
            with pytest.raises(frames.BadFrame, match="marks"):
                bundle.parse_from_client(data)
        else:
            assert bundle.parse_from_client(data).marks == layout.AGREED | bit


def test_a_batch_that_counts_beyond_its_last_number_is_refused(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    last = str(BatchStamp("q", 1, 0, 1, limits.BATCH_NUMBER_MAX)).encode()
    with RawClient(daemon.places[0], "ada") as ada, RawClient(daemon.places[0], "eve") as eve:
        ada.join("tea")
        ada.send_bytes(made(ada.name, [last, b"the last"], flags=Flag.BATCH))
        assert ada.messages(1)[0].payload == b"the last"
        eve.send_bytes(made(eve.name, [last, b"the last", b"one more"], flags=Flag.BATCH))
        assert eve.hear(frames.Goodbye).reason == "bundle: not the stamp of a batch"


def test_what_the_daemon_stamps_is_no_matter_of_the_client(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "ada") as ada:
        ada.join("tea")
        data = bytearray(made(ada.name, [b"hello"]))
        struct.pack_into("!HIIQQQQQQ", data, 14, 9, 9, 9, 9, 9, 9, 9, 9, 2**64 - 1)
        ada.send_bytes(bytes(data))
        (message,) = ada.messages(1)
        assert (message.payload, message.id.daemon, message.envelope.lts > 9) == (b"hello", 0, True)


def test_an_answer_never_repeats_more_than_a_name(cluster: Cluster) -> None:
    (daemon,) = cluster.start()
    with RawClient(daemon.places[0], "eve") as eve:
        for request in (frames.Leave, frames.Join):
            eve.say(request("\0" * 500_000))
            assert len(eve.hear(frames.Problem).reason) < 400
