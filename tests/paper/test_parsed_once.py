"""A bundle's header is parsed once per daemon: the cost of a message is not paid again at each step of its
way. No sentence of the papers; DESIGN, rules that hold everywhere, 2."""

import sys
from collections import Counter

import pytest
from small_worlds import Cluster

from antiphon.core.node import Node
from antiphon.service import Service
from antiphon.wire import bundle, packet
from antiphon.wire.packet import Data, Fragment


class Readings:
    """How often headers are read, in whole or in part, but for what the tests read as clients."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count: Counter[str] = Counter()
        parse, look = bundle.parse, bundle.look

        def counted_parse(data: bytes) -> bundle.Header:
            if sys._getframe(1).f_code.co_name != "decode":
                self.count["parsed"] += 1
            return parse(data)

        def counted_look(start: bytes, total_bytes: int) -> bundle.Start:
            self.count["looked"] += 1
            return look(start, total_bytes)

        monkeypatch.setattr(bundle, "parse", counted_parse)
        monkeypatch.setattr(packet, "look", counted_look)


@pytest.mark.parametrize("service", list(Service))
def test_a_bundle_that_comes_whole_is_parsed_once_by_each_daemon(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    cluster = Cluster(3)
    clients = cluster.members()
    readings = Readings(monkeypatch)
    cluster.send(clients[0], "g", b"hello", service=service)
    cluster.run(100_000)
    assert all(cluster.payloads(client) == [b"hello"] for client in clients)
    assert readings.count == {"parsed": 3, "looked": 2}


def test_what_a_daemon_makes_itself_it_need_not_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2)
    (client, *_) = cluster.members()
    readings = Readings(monkeypatch)
    cluster.join(client, "another")
    cluster.settle()
    assert readings.count == {"parsed": 1, "looked": 1}


def test_a_bundle_of_several_packets_is_looked_at_and_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it stands in the order is known from its first packet, the rest when all of it is here."""
    cluster = Cluster(2)
    clients = cluster.members()
    readings = Readings(monkeypatch)
    cluster.send(clients[0], "g", bytes(5_000))
    cluster.settle()
    assert cluster.payloads(clients[1]) == [bytes(5_000)]
    assert readings.count == {"parsed": 2, "looked": 1}


def test_whole_bundles_that_are_no_good_are_refused_by_their_receivers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are read again then, to learn what is wrong; the link has counted the packet."""
    cluster = Cluster(2)
    clients = cluster.members()
    receive = Node.receive

    def damaged(node: Node, data: memoryview, *others: int) -> None:
        parsed = packet.parse(data)
        if isinstance(parsed, Data) and any(
            isinstance(item, Fragment) and b"spoilt" in bytes(item.body) for item in parsed.items
        ):
            changed = bytearray(data)
            at = changed.index(b"spoilt") - 4
            changed[at : at + 4] = (7).to_bytes(4)
            data = memoryview(bytes(changed[:-4]) + packet.check([bytes(changed[:-4])]))
        receive(node, data, *others)

    monkeypatch.setattr(Node, "receive", damaged)
    cluster.send(clients[0], "g", b"spoilt")
    cluster.run(100_000)
    assert cluster.nodes[1].counters["bundle: payloads do not fill it"] == 1
    assert cluster.nodes[1].working_links[0].is_quiet
