"""What a packet carries, for tests that lose exactly this one or count exactly those."""

from collections.abc import Iterator

from msgspec import Struct
from small_worlds import Cluster

from antiphon.wire import bundle, membership, packet
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.membership import Beat, Proposal
from antiphon.wire.packet import Data, Fragment, Loose, PacketKind

DAEMONS = 64


class Carried(Struct, frozen=True):
    """A bundle in a packet: in which daemon view it travels, and its header and body."""

    view: int
    header: Header
    body: bytes

    @property
    def place(self) -> tuple[int, int, int]:
        """What makes it one bundle, however often it is sent."""
        return self.view, self.header.daemon, self.header.number


def bundles_in(data: bytes) -> Iterator[Carried]:
    """The whole bundles in a packet."""
    parsed = packet.parse(memoryview(data))
    if isinstance(parsed, Data):
        for item in parsed.items:
            if isinstance(item, Fragment) and len(item.body) == item.total:
                header = bundle.parse(item.body)
                yield Carried(parsed.head.view, header, bundle.payloads(bytes(item.body), header)[0])


def carries(data: bytes, flag: int, body: bytes | None = None, source: int | None = None) -> bool:
    """Whether a packet has a bundle with this flag (and body, and source)."""
    return any(
        carried.header.flags & flag
        and (body is None or carried.body == body)
        and (source is None or carried.header.daemon == source)
        for carried in bundles_in(data)
    )


def bundles_sent(cluster: Cluster, flag: int) -> list[Carried]:
    """The bundles with a flag that were sent, each once."""
    found = {
        carried.place: carried
        for _, _, data in cluster.crossed
        for carried in bundles_in(data)
        if carried.header.flags & flag
    }
    return list(found.values())


def recovered(cluster: Cluster) -> list[tuple[int, int, int, int]]:
    """(who sent it again, source, number, destinations) of every bundle that was sent again."""
    found = []
    for carried in bundles_sent(cluster, Flag.RECOVERED):
        original = bundle.parse(carried.body)
        found.append((carried.header.daemon, original.daemon, original.number, carried.header.destinations))
    return sorted(found)


def beat_in(data: bytes) -> Beat | None:
    parsed = packet.parse(memoryview(data))
    if isinstance(parsed, Loose) and parsed.head.kind == PacketKind.BEAT:
        return membership.parse_beat(parsed.body, DAEMONS)
    return None


def proposal_in(data: bytes) -> Proposal | None:
    parsed = packet.parse(memoryview(data))
    if isinstance(parsed, Loose) and parsed.head.kind == PacketKind.PROPOSAL:
        return membership.parse_proposal(parsed.body, DAEMONS)
    return None
