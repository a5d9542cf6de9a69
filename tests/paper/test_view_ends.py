"""Nothing of a daemon view outlives it, not even for a while: a daemon looks for cyclic garbage rarely."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from small_worlds import Cluster

DELAY_US = 1_000


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
    terms = [weakref.ref(node.term) for node in cluster.nodes]
    cluster.send(clients[0], "g", bytes(50_000))
    cluster.run(2 * DELAY_US)
    cluster.crash(cluster.config.daemon_count - 1)
    cluster.send(clients[0], "g", bytes(50_000))
    cluster.settle()
    assert [number for number in cluster.alive if terms[number]() is not None] == []
