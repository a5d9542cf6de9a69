"""No two datagrams of a process have the same counter, whatever is in them; the papers know no seal."""

from random import Random

import pytest
from small_worlds import Cluster

from antiphon.service import Service
from antiphon.wire import packet
from antiphon.wire.packet import PacketKind

Sent = dict[tuple[int, int, int], tuple[bytes, set[int]]]


def datagrams(cluster: Cluster) -> Sent:
    """By sender, incarnation and counter: the bytes, and who got a copy; fails if two have the same."""
    found: Sent = {}
    for sender, receiver, data in cluster.crossed:
        head = packet.parse(memoryview(data)).head
        assert head.sender == sender
        bytes_before, receivers = found.setdefault((sender, head.incarnation, head.counter), (data, set()))
        assert data == bytes_before, f"{PacketKind(head.kind).name} has the counter of another datagram"
        assert receiver not in receivers, f"{PacketKind(head.kind).name} is sent again under its counter"
        receivers.add(receiver)
    return found


@pytest.mark.parametrize(("daemons", "protocol"), [(1, "hop"), (3, "hop"), (1, "tcp")])
def test_every_datagram_has_a_counter_of_its_own(daemons: int, protocol: str) -> None:
    """Also those that are sent again, tokens too, and those of the membership and of the next view."""
    chance = Random(daemons)
    cluster = Cluster(2, daemons=daemons, protocol=protocol)  # type: ignore[arg-type]
    clients = cluster.members()
    if protocol == "hop":
        cluster.lose = lambda receiver, data: chance.random() < 0.1
    for turn in range(20):
        for client in clients:
            cluster.send(client, "g", bytes(5_000), service=Service(turn % 6))
        cluster.run(20_000)
    cluster.crash(0)
    cluster.run(3_000_000)
    cluster.restart(0)
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    found = datagrams(cluster)
    kinds = {packet.parse(memoryview(data)).head.kind for data, _ in found.values()}
    assert {PacketKind.HELLO, PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.BEAT} <= kinds
    assert PacketKind.TOKEN in kinds or daemons == 1
    for sender, incarnation in {key[:2] for key in found}:
        counters = sorted(key[2] for key in found if key[:2] == (sender, incarnation))
        assert counters[0] == 1


def test_the_same_run_has_the_same_counters() -> None:
    def run() -> list[bytes]:
        cluster = Cluster(2)
        (client, _) = cluster.members()
        cluster.send(client, "g", bytes(9_000))
        cluster.settle()
        return [data for _, _, data in cluster.crossed]

    assert run() == run()
