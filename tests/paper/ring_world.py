"""A ring alone, for tests that read as stories: its members, time, losses and what each one vouches for."""

import heapq
from collections import Counter
from collections.abc import Callable

from passing_time import PassingTime
from small_worlds import SIGNS, VIEW, packets_of

from antiphon.core.effects import Outbox
from antiphon.core.links.ring import Ring
from antiphon.wire import packet, token
from antiphon.wire.packet import EVERYBODY, Data, Fragment, Loose, Packet, PacketKind
from antiphon.wire.token import Token

LAN_US = 100
"""How long a packet takes to another member."""
SUSPECT_US = 3_000_000
DIGEST = 7

Lose = Callable[[int, int, Packet], bool]


class Owner:
    """What a member's order tells the ring (`site.Numbering`): where it stands with the segment's bundles."""

    def __init__(self) -> None:
        self.is_turn = False
        self.number = 0
        """Of the newest bundle that it gave a number to or knows of."""
        self.lts = VIEW
        self.aru = VIEW
        """It has every bundle up to this."""
        self.wants = False
        self.matters = True
        """Whether another daemon waits for a higher aru of the segment."""

    @property
    def issued(self) -> int:
        return self.number

    @property
    def clock(self) -> int:
        return self.lts

    @property
    def highest_lts(self) -> int:
        return 1 if self.matters else 0

    @property
    def own_aru(self) -> int:
        return 0

    def turn(self, number: int, lts: int) -> None:
        self.number, self.lts = max(self.number, number), max(self.lts, lts)
        self.wants = False

    def vouched(self, aru: int) -> None:
        pass


class RingWorld(PassingTime):
    """A segment of `count` daemons and the network between them. `lose` decides what does not arrive."""

    def __init__(self, count: int, packet_bytes: int = 1_400) -> None:
        self.now_us = 0
        self.lose: Lose = lambda sender, receiver, incoming: False
        self.copies = 1
        """How often each packet arrives."""
        self.alive = set(range(count))
        self.seen: list[tuple[int, int, int, Packet]] = []
        """(time, sender, receiver, packet) of what was sent, lost or not."""
        self.received: list[list[bytes]] = [[] for _ in range(count)]
        self.owners = [Owner() for _ in range(count)]
        self.refused: Counter[str] = Counter()
        self._out = [Outbox() for _ in range(count)]
        self._flying: list[tuple[int, int, int, int, Packet]] = []
        self._serial = 0
        self._sent: Counter[int] = Counter()
        self.members = [
            Ring(
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
                datagrams=self._out[me],
                now_us=0,
            )
            for me in range(count)
        ]
        for me in self.alive:
            self.conclude(me)

    # Events -----------------------------------------------------------------------------------------------

    def send(self, member: int, *bodies: bytes) -> None:
        """Give bundles to a member, which numbers them as if it had the token already."""
        for body in bodies:
            self._sent[member] += 1
            self.members[member].send(Fragment(0, self._sent[member], 1, len(body), 0, body))
        self.conclude(member)

    def hand(
        self, sender: int, receiver: int, kind: PacketKind, body: bytes, addressed_to: int | None = None
    ) -> None:
        """A packet arrives as if one had sent it to the other, whoever made it."""
        addressee = receiver if addressed_to is None else addressed_to
        prefix = packet.prefix(
            kind, digest=DIGEST, sender=sender, receiver=addressee, incarnation=100 + sender, view=VIEW
        )
        self.arrive(sender, receiver, packet.parse(memoryview(packet.whole(prefix, body, counter=1))))

    def arrive(self, sender: int, receiver: int, incoming: Packet) -> None:
        """A packet came to one member; BadPacket if it will not have it."""
        for news in self.members[receiver].receive(incoming, self.now_us):
            self.received[receiver] += [bytes(item.body) for item in news.items if isinstance(item, Fragment)]

    def conclude(self, member: int) -> None:
        """What a daemon does after each event."""
        self.members[member].conclude(self.owners[member].wants, self.now_us)
        self._fly(member)

    def _fly(self, member: int) -> None:
        for datagram in self._out[member]:
            for data in packets_of(datagram):
                for receiver in datagram.receivers or (datagram.receiver,):
                    incoming = packet.parse(memoryview(data))
                    assert incoming.head.receiver in (receiver, EVERYBODY)
                    self.seen.append((self.now_us, member, receiver, incoming))
                    for _ in range(0 if self.lose(member, receiver, incoming) else self.copies):
                        self._serial += 1
                        flight = (self.now_us + LAN_US, self._serial, member, receiver, incoming)
                        heapq.heappush(self._flying, flight)
        self._out[member].clear()

    # Time -------------------------------------------------------------------------------------------------

    def step(self, end_us: int) -> bool:
        """The next arrival or deadline; False if there is none before `end_us`."""
        due_us, member = min(
            ((self.members[member].next_deadline_us(), member) for member in self.alive),
            default=(end_us, -1),
        )
        arrival_us = self._flying[0][0] if self._flying else end_us
        if min(due_us, arrival_us) >= end_us:
            return False
        if arrival_us <= due_us:
            self.now_us, _, sender, member, incoming = heapq.heappop(self._flying)
            if member not in self.alive:
                return True
            self.arrive(sender, member, incoming)
        else:
            self.now_us = max(self.now_us, due_us)
            self.members[member].timeout(self.now_us)
        self.conclude(member)
        return True

    # Looking ----------------------------------------------------------------------------------------------

    @property
    def holder(self) -> int | None:
        """Who has the token; None while it is on its way."""
        holders = [member for member in sorted(self.alive) if self.members[member].has_turn]
        assert len(holders) < 2, "two tokens"
        return holders[0] if holders else None

    def words(self, kind: PacketKind, since_us: int = 0) -> list[tuple[int, int]]:
        """(sender, receiver) of the packets of one kind that were sent."""
        return [
            (sender, receiver)
            for when_us, sender, receiver, incoming in self.seen
            if incoming.head.kind == kind and when_us >= since_us
        ]

    def tokens(self, since_us: int = 0) -> list[tuple[int, Token]]:
        """(receiver, token) of each that was passed on, copies left out."""
        passed = {
            value.serial: (receiver, value)
            for when_us, _, receiver, incoming in self.seen
            if when_us >= since_us and isinstance(incoming, Loose) and incoming.head.kind == PacketKind.TOKEN
            if (value := token.parse_token(incoming.body))
        }
        return list(passed.values())

    def data(self, since_us: int = 0) -> list[tuple[int, int, int]]:
        """(sender, receiver, number) of the reliable packets that were sent."""
        return [
            (sender, receiver, incoming.head.number)
            for when_us, sender, receiver, incoming in self.seen
            if when_us >= since_us and isinstance(incoming, Data) and incoming.head.kind == PacketKind.DATA
        ]
