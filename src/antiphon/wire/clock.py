"""What daemons tell one another of the time: the body of a CLOCK packet.

    offset size  field
     0     8    low            the time at which it was made is not less than this; microseconds since 1970
     8     8    high           nor greater than this
    16     8    estimate       the sender's best guess
    24     1    basis          0: the sender knows no time, 1: time of a reference, 2: internal time
    25     1    flags          1: asks for an answer, 2: begins a round
    26     2    root           daemon number of the reference, or of whose clock is the internal time
    28     8    since          of internal time: when it began, on that daemon's clock; otherwise 0
    36     4    incarnation    of internal time: of that daemon's process; otherwise 0
    40     1    wanted         for so many seconds the time is wanted at the sender
    41     1                   0
    42     2    count          of arrivals
    44          count x (daemon (2), incarnation (4), counter (8) of a CLOCK packet that came to the sender,
                and how long ago that was, in microseconds (4))

Follows: NAVTECH 3.1, which leaves the layout open.
Checked by: tests/unit/test_clock_vectors.py.
"""

from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket, Nonsense

NO_TIME = 0
OF_A_REFERENCE = 1
INTERNAL = 2

QUESTION = 1
"""The receiver answers at once."""
ROUND = 2
"""Begins a round of the sender's site: all who receive it note when."""
_FLAGS = QUESTION | ROUND

_HEAD = Layout("!QQQBBHQIBBH")
_ARRIVAL = Layout("!HIQI")
HEAD_BYTES = _HEAD.size
ARRIVAL_BYTES = _ARRIVAL.size
assert (HEAD_BYTES, ARRIVAL_BYTES) == (44, 18)
WANTED_MAX_S = 255


class Arrival(Struct, frozen=True, gc=False):
    """A CLOCK packet that has come to the sender of this one: which, and how long ago."""

    daemon: int
    incarnation: int
    counter: int
    ago_us: int


class ClockPacket(Struct, frozen=True):
    """What a CLOCK packet says."""

    low_us: int = 0
    high_us: int = 0
    estimate_us: int = 0
    basis: int = NO_TIME
    flags: int = 0
    root: int = 0
    since_us: int = 0
    incarnation: int = 0
    wanted_s: int = 0
    arrivals: tuple[Arrival, ...] = ()


def encode(packet: ClockPacket) -> bytes:
    """The body of a CLOCK packet."""
    head = _HEAD.pack(
        packet.low_us, packet.high_us, packet.estimate_us, packet.basis, packet.flags, packet.root,
        packet.since_us, packet.incarnation, packet.wanted_s, 0, len(packet.arrivals),
    )  # fmt: skip
    return head + b"".join(
        _ARRIVAL.pack(one.daemon, one.incarnation, one.counter, one.ago_us) for one in packet.arrivals
    )


def parse(body: bytes, daemons: int) -> ClockPacket:
    """What the body of a CLOCK packet says, if it can come from a cluster of so many daemons; BadPacket
    otherwise."""
    if len(body) < HEAD_BYTES:
        raise Nonsense("clock: too short")
    (
        low_us, high_us, estimate_us, basis, flags, root, since_us, incarnation, wanted_s, _zero, count,
    ) = _HEAD.unpack_from(body)  # fmt: skip
    if count > daemons or len(body) != HEAD_BYTES + count * ARRIVAL_BYTES:
        raise Nonsense("clock: wrong size")
    if basis > INTERNAL or flags & ~_FLAGS:
        raise Nonsense("clock: unknown basis or flag")
    if root >= daemons:
        raise Nonsense("clock: no such daemon")
    if max(high_us, since_us) > limits.COUNTER_MAX or not low_us <= estimate_us <= high_us:
        raise BadPacket("clock: impossible time")
    if high_us - low_us > 2 * limits.CLOCK_ERROR_MAX_US:
        raise BadPacket("clock: impossible error")
    arrivals = []
    for place in range(count):
        arrival = Arrival(*_ARRIVAL.unpack_from(body, HEAD_BYTES + place * ARRIVAL_BYTES))
        if arrival.daemon >= daemons:
            raise Nonsense("clock: no such daemon")
        arrivals.append(arrival)
    return ClockPacket(
        low_us, high_us, estimate_us, basis, flags, root, since_us, incarnation, wanted_s, tuple(arrivals)
    )
