"""A bundle on its way to delivery."""

from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.history import History

if TYPE_CHECKING:
    from antiphon.core.ordering.fifo import Chain


class Entry(Struct, eq=False):
    """A complete bundle that this daemon has, until it is delivered and known to be everywhere."""

    source: int
    """The source that has numbered it: the first daemon of its sender's segment."""
    header: Header
    bundle: bytes | bytearray | memoryview
    place: int = 0
    """Its place in the agreed order; 0 as long as the order has given it none. Only an order writes it."""
    delivered: bool = False
    waits_for_others: bool = False
    """Whether it is delivered here only once every other site has it: a site's first join to a group."""
    chain: "Chain | None" = None
    """The bundles of its session, while it waits to be delivered. Only an order writes it."""
    kept_until: int = 0
    """It is not forgotten before the stable line has passed this, even if it is delivered. Only an order
    writes it."""
    history: History | None = None
    """What comes before it in its sender's past, where that is told."""
    reached: int = 0
    """The greatest service whose promises it keeps here already, though it is not delivered (`early`)."""
    is_shown: bool = False
    """Whether it was offered in its place of the agreed order: then it is not dropped at the end of the view,
    as if it were delivered."""
    handed: tuple[int, ...] = ()
    """Sessions of this daemon that have got it, because they chose less."""
    resent: int = 0
    """Mask of the daemons to which it was retransmitted because they joined its group meanwhile."""

    @property
    def daemon(self) -> int:
        """The daemon that sent it."""
        return self.header.daemon

    def __lt__(self, other: "Entry") -> bool:
        """Decides between bundles of equal lts, which only a broken or hostile peer can make."""
        return (self.source, self.header.number) < (other.source, other.header.number)


def read_late(source: int, data: bytes, header: Header) -> Entry:
    """The bundle inside one with the LATE flag, which has messages for clients."""
    original = bundles.payloads(data, header)[0]
    inner = bundles.parse_from_daemon(original)
    if inner.flags & ~Flag.CLIENT or inner.service is Service.UNRELIABLE:
        raise BadFrame("late bundle: not of a client")
    return Entry(source, inner, original)
