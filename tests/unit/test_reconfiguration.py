"""A node in a cluster without a file learns who bears which number."""

from antiphon.config import SLOTS, discovered, named
from antiphon.core.node import Node
from antiphon.core.reconfiguration import reconfigure

START_US = 10**9


def node_of(names: dict[int, str], me: int) -> Node:
    config = named(discovered("tea"), names)
    node = Node(config, names[me], incarnation=7, now_us=START_US, wall_us=10**15)
    reconfigure(node, config, frozenset(range(SLOTS)) - names.keys(), START_US)
    node.settle(START_US)
    node.datagrams.clear()
    return node


def asked(node: Node, now_us: int) -> set[int]:
    """Whom the node asks whether they are there within two seconds."""
    found: set[int] = set()
    for _ in range(200):
        now_us += 10_000
        node.timeout(now_us)
        node.settle(now_us)
        found |= {datagram.receiver for datagram in node.datagrams}
        node.datagrams.clear()
    return found


def test_only_numbers_that_are_borne_are_asked() -> None:
    node = node_of({1: "lima", 4: "oslo"}, me=1)
    assert asked(node, START_US) == {4}


def test_a_newcomer_is_asked_and_called_by_its_name() -> None:
    node = node_of({1: "lima"}, me=1)
    assert asked(node, START_US) == set()
    now_us = START_US + 2_000_000
    config = named(node.config, {1: "lima", 9: "rome"})
    reconfigure(node, config, frozenset(range(SLOTS)) - {1, 9}, now_us)
    assert asked(node, now_us) == {9}
    status = node.status(now_us)
    assert status["daemons"] == ["lima", "rome"]
    assert node.membership.presence.name(9) == node.suspicion.names[9] == "rome"


def test_all_daemons_of_a_cluster_have_one_digest() -> None:
    config = discovered("tea")
    assert named(config, {3: "oslo"}).digest == config.digest
    assert discovered("coffee").digest != config.digest
    assert config.daemon_count == SLOTS
