"""Messages that some daemons, or all, never get before their view ends."""

from collections.abc import Callable

from meshes import DELAY_US, with_members
from packets_seen import carries
from small_worlds import Cluster

from antiphon.service import Service
from antiphon.wire.bundle import Flag

WEAK = [Service.RELIABLE, Service.FIFO]
STRONG = [Service.CAUSAL, Service.AGREED, Service.SAFE]
HOLE = b"<hole>"


def keeps_from(*receivers: int, texts: tuple[bytes, ...]) -> Callable[[int, bytes], bool]:
    """Lose every packet with one of these texts on its way to these daemons, unless it was sent again because
    the view has ended."""

    def lose(receiver: int, data: bytes) -> bool:
        return (
            receiver in receivers
            and any(text in data for text in texts)
            and not carries(data, Flag.RECOVERED)
        )

    return lose


def world_with_a_hole(*afterwards: tuple[int, bytes, Service]) -> tuple[Cluster, list[str]]:
    """Daemon 3 sends a message that nobody gets, and others send `afterwards`; then daemon 3 crashes."""
    cluster, clients = with_members(4)
    cluster.lose = keeps_from(0, 1, 2, texts=(HOLE,))
    cluster.send(clients[3], "g", HOLE)
    for sender, text, service in afterwards:
        cluster.send(clients[sender], "g", text, service=service)
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    return cluster, clients
