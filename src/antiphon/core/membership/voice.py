"""How a daemon speaks to others beside the links of a view: packets that belong to none."""

from antiphon.core.effects import Datagram
from antiphon.wire import packet
from antiphon.wire.packet import PacketKind


class Voice:
    """Sends the beats and proposals of one daemon."""

    def __init__(self, digest: int, me: int, incarnation: int, datagrams: list[Datagram]) -> None:
        self._digest = digest
        self._me = me
        self._incarnation = incarnation
        self._datagrams = datagrams

    def send(self, receiver: int, kind: PacketKind, body: bytes) -> None:
        """One packet, which may get lost."""
        prefix = packet.prefix(
            kind, digest=self._digest, sender=self._me, receiver=receiver, incarnation=self._incarnation
        )
        data = packet.whole(prefix, body)
        self._datagrams.append(Datagram(receiver, [data], len(data), len(data)))
