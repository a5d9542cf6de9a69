"""Nothing of a daemon view outlives it, not even for a while: a daemon looks for cyclic garbage rarely."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from small_worlds import Cluster

from antiphon.core.status import buffers

DELAY_US = 1_000
WITHIN_US = 60_000_000
"""Only to keep a failing test from hanging."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only what nothing refers to goes."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("daemons", "protocol"), [(1, "hop"), (1, "tcp"), (3, "hop")])
def test_a_view_that_has_ended_is_gone_with_all_that_it_held(
    no_collector: None, daemons: int, protocol: str
) -> None:
    """(ours; docs/track-record.md)"""
    cluster = Cluster(2, DELAY_US, daemons=daemons, protocol=protocol, membership="lan")  # type: ignore[arg-type]
    clients = cluster.members()
    engines = [weakref.ref(node.engine) for node in cluster.nodes]
    cluster.send(clients[0], "g", bytes(50_000))
    cluster.run(2 * DELAY_US)
    cluster.crash(cluster.config.daemon_count - 1)
    cluster.send(clients[0], "g", bytes(50_000))
    cluster.settle()
    assert [number for number in cluster.alive if engines[number]() is not None] == []


def test_what_is_sent_again_to_form_a_view_is_no_debt_of_its_sender() -> None:
    """The representative of one site sends to another what that lacks of six daemons, four of which are gone:
    more than back-pressure allows it for its own clients. (ours; docs/track-record.md)"""
    cluster = Cluster(4, DELAY_US, daemons=2, mesh=True, membership="lan", unstable_bytes=65_536)
    clients = cluster.members()
    cluster.lose = lambda receiver, data: receiver in (2, 3) and b"flood" in data
    for _ in range(100):
        for daemon in (0, 1, 4, 5, 6, 7):
            cluster.send(clients[daemon], "g", b"flood" + bytes(1_000))
    cluster.run(60 * DELAY_US)
    for daemon in (4, 5, 6, 7):
        cluster.crash(daemon)
    cluster.until(lambda: all(cluster.nodes[daemon].state == "statetrans" for daemon in cluster.alive))
    cluster.lose = lambda receiver, data: False
    most = 0
    while not cluster.is_whole(cluster.alive):
        assert cluster.step(cluster.now_us + WITHIN_US)
        most = max(most, cluster.nodes[0].order.own_unstable_bytes)
        tables = [buffers(cluster.nodes[daemon]) for daemon in sorted(cluster.alive)]
        assert not [
            (name, row) for table in tables for name, row in table.items() if row["bytes"] > row["limit"]
        ]
    assert most > tables[0]["own_unstable"]["limit"]
    assert not any(table["recovery"]["bytes"] for table in tables)
