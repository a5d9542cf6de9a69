"""What the core asks of the world around it."""

from msgspec import Struct


class Datagram(Struct, frozen=True):
    """One send: a packet, or a train of packets of `segment_bytes` each (the last may be shorter)."""

    receiver: int
    """Daemon number; where there are several, EVERYBODY."""
    buffers: list[bytes | memoryview]
    """In order, for a scatter-gather write."""
    segment_bytes: int
    size_bytes: int
    receivers: tuple[int, ...] = ()
    """Several daemons of one site that are all to get it: by one multicast, or one copy each."""
