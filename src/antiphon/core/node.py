"""One daemon's machines wired together: events in, effects out.

The driver (the real daemon in `runtime/`, or the simulator) calls the methods under "events" with the time
and afterwards takes what the node left behind:

- `datagrams`: packets to send to other daemons, in order; the driver sends and clears them
- `frames`: (session numbers, frame) pairs to write to clients, in order; the driver writes and clears them
- `endings`: (session number, Goodbye) pairs: sessions that the node has ended; the driver writes the
  Goodbye, closes the connection and clears them; no further event may name these sessions
- `next_deadline_us()`: when to call `timeout` at the latest
- `reads(session)`: whether the driver should read this client's connection now (back-pressure)

The node never sleeps, never reads a clock and never draws a random number: the same events give the same
effects, byte for byte.
"""

from msgspec import Struct

from antiphon.config import Config
from antiphon.wire import frames


class Datagram(Struct, frozen=True):
    """One send: a packet, or a train of packets of `segment_bytes` each (the last may be shorter)."""

    receiver: int
    """Daemon number."""
    buffers: list[bytes | memoryview]
    """In order, for a scatter-gather write."""
    segment_bytes: int
    size_bytes: int


class Node:
    """A daemon without its sockets."""

    def __init__(self, config: Config, name: str, *, incarnation: int, now_us: int) -> None:
        self.datagrams: list[Datagram] = []
        self.frames: list[tuple[tuple[int, ...], bytes | memoryview]] = []
        self.endings: list[tuple[int, frames.Goodbye]] = []

    # Events -----------------------------------------------------------------------------------------------

    def receive(self, data: memoryview, segment_bytes: int, now_us: int) -> None:
        """A datagram came in, or (`segment_bytes` < its size) a train of them read in one call.

        The buffer may be used again after the call. Bad bytes are counted, never raised.
        """

    def timeout(self, now_us: int) -> None:
        """The deadline has passed."""

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called, or None if only other events matter."""

    def connect(self, request: frames.Connect, now_us: int) -> frames.Welcome | frames.Refuse:
        """A client asks for a session; a Welcome carries its number. The driver writes the answer."""

    def control(self, session: int, request: frames.FromClient, now_us: int) -> None:
        """A control frame other than Connect came from this session.

        After Disconnect the node ends the session by itself, through `endings`.
        """

    def submit(self, session: int, bundle: bytearray, now_us: int) -> None:
        """A bundle frame came from this session. The node keeps the buffer: hand over a fresh copy.

        Raises BadFrame, and nothing happened, if the bundle is not what a client may send: the driver
        says Goodbye with the reason and calls `lost`.
        """

    def lost(self, session: int, now_us: int) -> None:
        """The client's connection broke, or the driver closed it: the session leaves its groups."""

    def backlog(self, session: int, waiting_bytes: int, now_us: int) -> None:
        """How much output waits for this session in the driver, told whenever it crosses
        `settings.output_soft_bytes` in either direction. At the hard limit the driver gives up by itself:
        it says Goodbye with code "slow-receiver" and calls `lost`."""

    # Questions --------------------------------------------------------------------------------------------

    def reads(self, session: int) -> bool:
        """Whether the driver should read this client's connection now. Ask again after each event."""

    def status(self, now_us: int) -> dict[str, object]:
        """What `antiphon status` shows, ready for JSON: daemon, sites, links, groups, sessions, ordering,
        counters."""
