"""What `Clients` serves: the node of a daemon, or that of an edge.

Both are driven in the same way: events in, then `settle`, then their effects out (`core.node`).
"""

from collections.abc import Collection, Sequence, Sized
from typing import Protocol

from antiphon.core.access.rights import Rights
from antiphon.core.groups.backlog import Band
from antiphon.core.groups.delivery import Endings, Frames
from antiphon.wire import edges
from antiphon.wire.frames import Connect, FromClient, Refuse, Welcome


class ServedSession(Protocol):
    """One session, as far as its connection is concerned."""

    @property
    def number(self) -> int: ...
    @property
    def is_leaving(self) -> bool: ...
    @property
    def input(self) -> Sized:
        """The bundles that wait for their turn."""

    @property
    def groups(self) -> Collection[str]:
        """Those that it has joined."""


class ServedSessions(Protocol):
    """The sessions of clients."""

    @property
    def input_bytes(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def sponsor_rights(self) -> dict[int, Rights]:
        """What edges may do, by the number of each."""

    def get(self, number: int) -> ServedSession | None: ...
    def bearer(self, name: str) -> ServedSession | None: ...
    def input_room(self, number: int) -> int: ...


class ServedPressure(Protocol):
    """Who waits for slow receivers."""

    def bounds(self, session: int) -> bool:
        """Whether others wait for this session."""


class Served(Protocol):
    """A node with clients, and with edges behind it."""

    @property
    def frames(self) -> Frames: ...
    @property
    def endings(self) -> Endings: ...
    @property
    def sessions(self) -> ServedSessions: ...
    @property
    def backpressure(self) -> ServedPressure: ...
    @property
    def is_operational(self) -> bool: ...

    def connect(self, request: Connect, now_us: int, rights: Rights | None = None) -> Welcome | Refuse: ...
    def attach(self, request: edges.Attach, now_us: int) -> tuple[int, edges.Attached] | Refuse: ...
    def probe(self, request: edges.Probe) -> edges.Probed: ...
    def control(self, session: int, request: FromClient | edges.FromEdge, now_us: int) -> None: ...
    def submit(self, session: int, bundles: Sequence[bytearray | memoryview], now_us: int) -> None: ...
    def lost(self, session: int, now_us: int) -> None: ...
    def backlog(self, session: int, waiting_bytes: int, read_bytes: int, now_us: int) -> Band: ...
    def reads(self, session: int) -> bool: ...
