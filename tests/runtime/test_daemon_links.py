"""Daemons joined by their links, on every UDP path and through bad weather."""

import pytest
from local_cluster import Cluster, needs_offload
from raw_client import RawClient, exchange_the_largest, status

from antiphon.runtime.local import local_config
from antiphon.runtime.udp import PLAIN, Offload
from antiphon.service import Service

OFFLOADS = [
    pytest.param(PLAIN, id="plain"),
    pytest.param(Offload(gso=True, gro=False), id="gso", marks=needs_offload),
    pytest.param(Offload(gso=True, gro=True), id="gso-gro", marks=needs_offload),
]


def exchange(cluster: Cluster, count: int, size: int, services: list[Service]) -> None:
    """Clients at the first and the last site send at once; each gets everything, ordered services alike."""
    first, *_, last = cluster.daemons
    with RawClient(first.places[0], "ada") as ada, RawClient(last.places[0], "bob") as bob:
        ada.join("chat")
        bob.join("chat")
        for number in range(count):
            for client in (ada, bob):
                client.send(
                    "chat", number.to_bytes(4, "big") + bytes(size), service=services[number % len(services)]
                )
        heard = [client.messages(2 * count) for client in (ada, bob)]
        for messages in heard:
            assert len({message.id for message in messages}) == 2 * count
        ordered = [[message.id for message in messages if message.service.is_ordered] for messages in heard]
        assert ordered[0] == ordered[1]


@pytest.mark.parametrize("offload", OFFLOADS)
def test_trains_carry_bundles_between_sites(cluster: Cluster, offload: Offload) -> None:
    first, _second = cluster.start(local_config(2, cluster.directory), offload=offload)
    exchange(cluster, 40, 50_000, [Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE])
    runtime = status(first.places[0])["runtime"]
    assert (runtime["gso"], runtime["gro"]) == (offload.gso, offload.gro)
    assert runtime["udp"]["send_errors"] == 0


def test_loss_and_jitter_on_the_way_are_repaired(cluster: Cluster) -> None:
    config = local_config(3, cluster.directory, delay_ms=1, jitter_ms=1, loss=0.05, chain=True)
    first, *_ = cluster.start(config)
    exchange(cluster, 30, 10_000, [Service.AGREED, Service.RELIABLE])
    assert status(first.places[0])["runtime"]["emulated_losses"] > 0


def test_the_largest_messages_cross_between_sites_both_ways(cluster: Cluster) -> None:
    first, second = cluster.start(local_config(2, cluster.directory))
    exchange_the_largest(first.places[0], second.places[0])
