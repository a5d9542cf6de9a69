"""Beats and proposals as packets: they are sent beside the links of a view and belong to none."""

from antiphon.config import Config
from antiphon.core.effects import Datagram, Outbox
from antiphon.wire import membership as words
from antiphon.wire import packet
from antiphon.wire.membership import Beat
from antiphon.wire.packet import PacketKind


class Voice:
    """Sends the beats and proposals of one daemon."""

    def __init__(self, config: Config, me: int, incarnation: int, datagrams: Outbox) -> None:
        self._config = config
        self._digest = config.digest
        self._me = me
        self._incarnation = incarnation
        self._datagrams = datagrams

    def beat(self, receiver: int, beat: Beat, *, is_full: bool) -> None:
        """One beat; a full one is as large as any packet that is sent to the same daemon unproved."""
        body = words.encode(beat)
        if is_full:
            size_bytes = packet.capacity(self._config.link_between(self._me, receiver).packet_base_bytes)
            body = words.encode_full(beat, size_bytes)
        self.send(receiver, PacketKind.BEAT, body)

    def send(self, receiver: int, kind: PacketKind, body: bytes) -> None:
        """One packet, which may get lost."""
        prefix = packet.prefix(
            kind,
            digest=self._digest,
            sender=self._me,
            receiver=receiver,
            incarnation=self._incarnation,
            seal=self._datagrams.seal,
        )
        data = packet.whole(prefix, body, counter=self._datagrams.counter.take())
        self._datagrams.append(Datagram(receiver, [data], len(data), len(data)))
