"""Daemons of another version are named. The papers know one version only."""

import logging

import pytest
from small_worlds import Cluster

from antiphon.core.node import Node
from antiphon.runtime.notices import Notices
from antiphon.runtime.view_log import ViewLog
from antiphon.wire import packet, streams
from antiphon.wire.packet import VERSION, PacketKind
from antiphon.wire.streams import Greeting

OLD = VERSION - 1


def said(
    node: Node, version: int = OLD, *, sender: int = 1, receiver: int = 0, digest: int | None = None
) -> bytes:
    """A beat whose version is another one, as long as one of version 5."""
    prefix = packet.prefix(
        PacketKind.BEAT,
        digest=node.config.digest if digest is None else digest,
        sender=sender,
        receiver=receiver,
        incarnation=7,
    )
    return prefix[:1] + bytes((version,)) + prefix[2:] + bytes(12)


def hear(node: Node, *packets: bytes, origin: int | None = None) -> None:
    for data in packets:
        node.receive(memoryview(data), len(data), 2_000_000, origin)


def told(node: Node) -> object:
    return node.status(2_000_000)["other_versions"]


def of(name: str, version: int) -> dict[str, object]:
    return {"daemon": name, "of": "packet", "version": version, "ours": VERSION}


@pytest.fixture
def node() -> Node:
    return Cluster(3, mesh=True, formed=False).nodes[0]


def test_a_daemon_of_another_version_is_named(node: Node) -> None:
    hear(node, said(node), said(node), origin=1)
    assert told(node) == [of("d1", OLD)]
    assert node.counters["packet: unknown version"] == 2
    hear(node, *[said(node, 9, sender=2)] * 3, origin=2)
    assert told(node) == [of("d1", OLD), of("d2", 9)]


def test_one_packet_proves_nothing(node: Node) -> None:
    """A bit of the version may have been flipped on the way."""
    hear(node, said(node), said(node, OLD - 1), said(node))
    assert told(node) == []
    hear(node, said(node))
    assert told(node) == [of("d1", OLD)]


def test_a_train_of_another_version(node: Node) -> None:
    data = said(node) * 3
    node.receive(memoryview(data), len(data) // 3, 2_000_000, 1)
    assert told(node) == [of("d1", OLD)]


@pytest.mark.parametrize(
    ("changes", "origin"),
    [
        ({"digest": 5}, 1),
        ({}, 2),
        ({"sender": 0}, 0),
        ({"sender": 3}, 3),
        ({"sender": 65535}, None),
        ({"receiver": 2}, 1),
    ],
)
def test_who_is_none_of_us_is_not_believed(node: Node, changes: dict[str, int], origin: int | None) -> None:
    hear(node, *[said(node, **changes)] * 3, origin=origin)
    assert told(node) == [] and not node.gate.other_versions.heard
    assert node.counters["packet: unknown version"] == 3


def test_it_is_forgotten_when_the_daemon_speaks_our_version() -> None:
    cluster = Cluster(2)
    node = cluster.nodes[0]
    hear(node, said(node), said(node))
    assert told(node) == [of("d1", OLD)]
    cluster.run(2_000_000)
    assert told(node) == []


def test_over_a_connection_too() -> None:
    node = Cluster(2, protocol="tcp", formed=False).nodes[0]
    hear(node, said(node), said(node))
    assert told(node) == [], "what should come over the connection is not believed from elsewhere"
    for _ in range(2):
        assert node.streams.receive_stream(1, memoryview(said(node)), 0) == "packet: unknown version"
    assert told(node) == [of("d1", OLD)]
    node.gate.other_versions.forget(1)
    for _ in range(2):
        node.streams.receive_stream(1, memoryview(said(node, sender=2)), 0)
    assert told(node) == []


def test_greetings_count() -> None:
    node = Cluster(2, protocol="tcp", formed=False).nodes[0]
    data = bytearray(streams.greeting(Greeting(node.config.digest, 1, 0, 5))[4:])
    data[1] = 9
    for _ in range(2):
        with pytest.raises(streams.versions.OtherVersion) as raised:
            streams.parse_greeting(memoryview(data))
        node.streams.greeted_otherwise(raised.value)
    assert told(node) == [{"daemon": "d1", "of": "greeting", "version": 9, "ours": streams.VERSION}]


def test_the_log_says_it_once_for_each_daemon_and_version(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("antiphon.test")
    log = ViewLog(logger, Notices(logger))
    caplog.set_level(logging.WARNING, "antiphon.test")
    now_us = 0

    def lines() -> list[str]:
        nonlocal now_us
        caplog.clear()
        for _ in range(5):
            now_us += 60_000_000
            log.follow(node, now_us)
        return [record.getMessage() for record in caplog.records if "version" in record.getMessage()]

    hear(node, said(node))
    assert lines() == []
    hear(node, said(node))
    assert lines() == [f"daemon d0: d1 speaks version {OLD}, we speak {VERSION}"]
    node.gate.other_versions.forget(1)
    hear(node, said(node), said(node))
    assert lines() == []
    hear(node, said(node, 9), said(node, 9), said(node, 4, sender=2), said(node, 4, sender=2))
    assert sorted(lines()) == [
        f"daemon d0: d1 speaks version 9, we speak {VERSION}",
        f"daemon d0: d2 speaks version 4, we speak {VERSION}",
    ]
