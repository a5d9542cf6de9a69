"""`SiteLink`: what the rest of a daemon knows of the link among the daemons of its segment.

Follows: thesis 3.2 and 4.1, Spread paper 3.2: one protocol inside a site, another one between sites.
Deviation: the papers have one site protocol, Ring. Here it is a contract, because a site may choose another.

Besides carrying packets, a site link decides who of the segment may number bundles, because its daemons
number theirs together. The order of its daemon (`core.ordering`) is asked and told through `Numbering`; a
site link knows nothing else of it. A daemon that is alone in its segment has no site link, and always has the
turn.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

from antiphon.core.links.carrier import Carrier
from antiphon.core.links.link import LinkState

CheckNumbering = Callable[[int, int, int, int], None]
"""Given a number, an lts, an aru and the time: BadPacket if no daemon of the segment can announce these."""


class Numbering(Protocol):
    """What a site link tells the order of its daemon, and asks it."""

    is_turn: bool
    """Whether this daemon may number bundles; the site link writes it."""
    issued: int
    """The number of the segment's newest bundle that this daemon knows of."""
    highest_lts: int
    """The greatest lts of any bundle that is known to exist."""

    @property
    def clock(self) -> int:
        """This daemon's next bundle is born with a greater lts."""

    @property
    def aru(self) -> int:
        """This daemon has everything up to this lts."""

    @property
    def own_aru(self) -> int:
        """Every daemon of the segment is known to have everything up to this lts."""

    def turn(self, number: int, lts: int) -> None:
        """It is our turn: the segment's bundles up to `number` are out, the next one is later than `lts`."""

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


class SiteLink(Carrier):
    """One daemon's end of the link of its segment."""

    protocol: ClassVar[str]
    """Its name in the configuration."""
    members: tuple[int, ...]
    """The daemons of the segment, ascending; the first one is the representative."""
    mates: Mapping[int, Mate]
    """The other members."""

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
