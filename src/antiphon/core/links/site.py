"""`SiteLink`: what the rest of a daemon knows of the link among the daemons of its segment.

Follows: thesis 3.2 and 4.1, Spread paper 3.2: one protocol inside a site, another one between sites.
Deviation: the papers have one site protocol, Ring. Here it is a contract, because a site may choose another
(`ring`, `token_site`).

Besides carrying packets, a site link decides who of the segment may number bundles, because its daemons
number theirs together. The order of its daemon (`core.ordering`) is asked and told through `Numbering`; a
site link knows nothing else of it. A daemon that is alone in its segment has no site link, and always has the
turn.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

from antiphon.core.effects import Datagram, Outbox
from antiphon.core.links.carrier import Carrier
from antiphon.core.links.link import LinkState, slowest
from antiphon.core.links.packing import Train
from antiphon.wire import packet
from antiphon.wire.packet import EVERYBODY, Data, Hello, Loose, Packet, PacketKind

CheckNumbering = Callable[[int, int, int, int], None]
"""Given a number, an lts, an aru and the time: BadPacket if no daemon of the segment can announce these."""
CheckData = Callable[[Data, bool, int], None]
"""Given data, whether it came over the site link, and the time: BadPacket if no member can have sent it."""


class Numbering(Protocol):
    """What a site link tells the order of its daemon, and asks it."""

    is_turn: bool
    """Whether this daemon may number bundles; the site link writes it."""
    issued: int
    """The number of the segment's newest bundle that this daemon knows of."""
    highest_lts: int
    """The greatest lts of any bundle that is known to exist."""
    needs_lts: int
    """The greatest lts of a bundle that no daemon delivers before it knows the lts of every source."""
    needs_aru: int
    """The greatest lts of a bundle that some daemon delivers only once it knows the aru of every source."""

    @property
    def clock(self) -> int:
        """This daemon's next bundle is born with a greater lts."""

    @property
    def aru(self) -> int:
        """This daemon has everything up to this lts."""

    @property
    def own_lts(self) -> int:
        """The lts of this daemon's newest bundle, as long as that is not known to be everywhere."""

    @property
    def own_aru(self) -> int:
        """Every daemon of the segment is known to have everything up to this lts."""

    def turn(self, number: int, lts: int) -> None:
        """It is our turn: the segment's bundles up to `number` are out, the next one is later than `lts`."""

    def passed(self, number: int, lts: int) -> None:
        """It is another's turn: the segment's bundles up to `number` are out, the next one is later than
        `lts`."""

    def vouched(self, aru: int) -> None:
        """Every daemon of the segment has everything up to this lts."""


class Mate:
    """Another daemon of the segment, as a site link sees it."""

    __slots__ = ("heard_us", "reason", "slowest_us", "state")

    def __init__(self, now_us: int) -> None:
        self.state = LinkState.CLOSED
        self.reason = "no answer yet"
        self.heard_us = now_us
        """When it was last known to be alive."""
        self.slowest_us = 0
        """The longest time that its answer took lately, as on other links."""


class SiteMate(Mate):
    """A mate from which packets come, and to which some are sent again."""

    __slots__ = ("asked_us", "direct_us", "questioned_us")

    def __init__(self, now_us: int) -> None:
        super().__init__(now_us)
        self.direct_us = now_us
        """When a packet of its own last came in."""
        self.asked_us: dict[int, int] = {}
        """Packets of ours that it requested, each with the time of its first request."""
        self.questioned_us: int | None = None
        """When the first hello since its last packet was sent to it."""

    def heard(self, now_us: int) -> None:
        """A packet of its own came in."""
        self.heard_us = self.direct_us = now_us
        if self.questioned_us is not None:
            self.slowest_us = slowest(now_us - self.questioned_us, self.slowest_us)
            self.questioned_us = None
        if self.state is LinkState.CLOSED:
            self.state = LinkState.OPEN
            self.reason = "spoke"


class SiteLink(Carrier):
    """One daemon's end of the link of its segment."""

    protocol: ClassVar[str]
    """Its name in the configuration."""
    members: tuple[int, ...]
    """The daemons of the segment, ascending; the first one is the representative."""
    mates: Mapping[int, SiteMate]
    """The other members."""

    def __init__(
        self,
        *,
        me: int,
        members: tuple[int, ...],
        digest: int,
        view: int,
        incarnations: Mapping[int, int],
        packet_bytes: int,
        kinds: tuple[PacketKind, ...],
        datagrams: Outbox,
    ) -> None:
        """`kinds` are those of the packets that go to all members."""
        self._me, self._digest, self._view = me, digest, view
        self._incarnations = incarnations
        self._seal = datagrams.seal
        self.members = members
        self._others = tuple(member for member in members if member != me)
        super().__init__(packet_bytes, {kind: self._prefix(kind, EVERYBODY) for kind in kinds}, datagrams)

    def _prefix(self, kind: PacketKind, receiver: int) -> bytes:
        return packet.prefix(
            kind,
            digest=self._digest,
            sender=self._me,
            receiver=receiver,
            incarnation=self._incarnations[self._me],
            view=self._view,
            seal=self._seal,
        )

    def _emit(self, train: Train) -> None:
        """Send a train to all: by one multicast where the driver's probe has shown that it is heard, or else
        a copy to each."""
        self._datagrams.append(
            Datagram(EVERYBODY, train.buffers, train.stride_bytes, train.size_bytes, self._others)
        )

    def _emit_to_all(self, data: bytes) -> None:
        """Send one packet to all at once, in the same way."""
        self._datagrams.append(Datagram(EVERYBODY, [data], len(data), len(data), self._others))

    def _say_hello(self, receiver: int, now_us: int, echo_us: int) -> None:
        prefix = self._prefix(PacketKind.HELLO, receiver)
        self._emit_alone(receiver, packet.hello(prefix, now_us, echo_us, counter=self._counter.take()))

    def _question(self, number: int, mate: SiteMate, now_us: int) -> None:
        """Ask a mate that has been silent for a sign of life."""
        if mate.questioned_us is None:
            mate.questioned_us = now_us
        self._say_hello(number, now_us, 0)

    def _fail(self, mate: SiteMate, reason: str) -> None:
        mate.asked_us.clear()
        if mate.state is LinkState.OPEN:
            self.counters["failures"] += 1
            mate.state = LinkState.FAILED
            mate.reason = reason

    # Events -----------------------------------------------------------------------------------------------

    def receive(self, incoming: Packet, now_us: int) -> list[Data]:
        """A packet of a mate came in. What is new of it, to be handed upwards."""
        head = incoming.head
        if head.incarnation != self._incarnations[head.sender]:
            return []  # the membership detects the restart
        self.mates[head.sender].heard(now_us)
        if isinstance(incoming, Data):
            return [incoming] if head.kind == PacketKind.UNRELIABLE else self._receive_data(incoming, now_us)
        if isinstance(incoming, Hello):
            if not incoming.echo_us:
                self._say_hello(head.sender, now_us, incoming.clock_us)
        elif isinstance(incoming, Loose):
            return self._receive_control(incoming, now_us)
        return []

    @abstractmethod
    def _receive_data(self, data: Data, now_us: int) -> list[Data]:
        """Data packets came in: those that are new."""

    @abstractmethod
    def _receive_control(self, incoming: Loose, now_us: int) -> list[Data]:
        """A packet of the protocol itself came in: the data in it that is new."""

    # Numbering --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def has_turn(self) -> bool:
        """Whether this daemon may number bundles now."""

    @property
    @abstractmethod
    def turns(self) -> int:
        """How often this daemon has had the turn."""

    @property
    @abstractmethod
    def newest(self) -> tuple[int, int]:
        """As of this daemon's last turn: the segment's bundles up to this number are out, and the next one is
        later than this lts."""

    # Sending ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether more may be given to the link now than already waits."""

    @abstractmethod
    def conclude(self, is_wanted: bool, now_us: int) -> None:
        """Everything that follows from the events so far is done: send what waits, and pass the turn on.
        `is_wanted`: something waits for the turn that the link does not know of."""

    # Status -----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def round_us(self) -> int:
        """How long it takes until every daemon of the segment has had the turn, while all want it."""

    def figures(self) -> dict[str, int]:
        """What `antiphon status` shows of this protocol, besides what all have."""
        return {}
