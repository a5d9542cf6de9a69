"""A token-site segment alone, for tests that read as stories."""

from collections import Counter

from passing_time import PassingTime
from ring_world import DIGEST, SUSPECT_US, Owner, RingWorld
from small_worlds import SIGNS, VIEW

from antiphon.core.effects import Outbox
from antiphon.core.links.token_site import TokenSite
from antiphon.wire import token_site
from antiphon.wire.packet import Loose, PacketKind
from antiphon.wire.token_site import Confirm, SiteAck, SiteNack


class SiteOwner(Owner):
    """What a member's order tells the token site. Nothing is numbered but by `number_bundles`."""

    def __init__(self) -> None:
        super().__init__()
        self.matters = False
        self.needs_lts = VIEW
        self.needs_aru = VIEW
        self.vouched_aru = VIEW

    @property
    def own_lts(self) -> int:
        return 0

    @property
    def highest_lts(self) -> int:
        return self.aru if self.matters else VIEW

    @property
    def own_aru(self) -> int:
        return self.vouched_aru

    def passed(self, number: int, lts: int) -> None:
        self.number, self.lts = max(self.number, number), max(self.lts, lts)

    def vouched(self, aru: int) -> None:
        self.vouched_aru = max(self.vouched_aru, aru)


class TokenSiteWorld(RingWorld):
    """A segment of `count` daemons and the network between them."""

    def __init__(self, count: int, packet_bytes: int = 1_400) -> None:
        PassingTime.__init__(self)
        self.now_us = 0
        self.lose = lambda sender, receiver, incoming: False
        self.copies = 1
        self.alive = set(range(count))
        self.seen = []
        self.received = [[] for _ in range(count)]
        self.owners = [SiteOwner() for _ in range(count)]
        self.refused = Counter()
        self._out = [Outbox() for _ in range(count)]
        self._flying = []
        self._serial = 0
        self._sent = Counter()
        self.members = [
            TokenSite(
                me=me,
                members=tuple(range(count)),
                digest=DIGEST,
                view=VIEW,
                incarnations={member: 100 + member for member in range(count)},
                signs=SIGNS,
                suspect_us=SUSPECT_US,
                packet_bytes=packet_bytes,
                numbering=self.owners[me],
                check_numbering=lambda number, lts, aru, now_us: None,
                check_data=lambda data, from_site, now_us: None,
                datagrams=self._out[me],
                now_us=0,
            )
            for me in range(count)
        ]
        for me in self.alive:
            self.conclude(me)

    def number_bundles(self, member: int, count: int) -> None:
        """The token site gives numbers to so many bundles."""
        assert self.members[member].has_turn
        owner = self.owners[member]
        owner.number += count
        owner.lts += count

    def acks(self, since_us: int = 0) -> list[tuple[int, SiteAck]]:
        """(sender, acknowledgement) of each, copies left out."""
        found = {
            ack.serial: (sender, ack)
            for when_us, sender, _, incoming in self.seen
            if when_us >= since_us
            and isinstance(incoming, Loose)
            and incoming.head.kind == PacketKind.SITE_ACK
            if (ack := token_site.parse_ack(incoming.body))
        }
        return list(found.values())

    def nacks(self) -> list[tuple[int, SiteNack]]:
        """(sender, request) of each copy that was sent to the first of the others."""
        return [
            (sender, token_site.parse_nack(incoming.body))
            for _, sender, receiver, incoming in self.seen
            if isinstance(incoming, Loose)
            and incoming.head.kind == PacketKind.SITE_NACK
            and receiver == min(set(range(len(self.members))) - {sender})
        ]

    def confirms(self, since_us: int = 0) -> list[tuple[int, int, Confirm]]:
        """(sender, receiver, what it says) of each confirmation."""
        return [
            (sender, receiver, token_site.parse_confirm(incoming.body))
            for when_us, sender, receiver, incoming in self.seen
            if when_us >= since_us
            and isinstance(incoming, Loose)
            and incoming.head.kind == PacketKind.CONFIRM
        ]
