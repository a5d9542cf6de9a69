"""What happened in a run: one record per event.

The events are those of the thesis, of clients (2.2.1) and of daemons (2.2.5), and some of our own that speak
of daemons: `hold` (a daemon has all bytes of a bundle), `state` (its membership changed its state), `buffers`
(how full a daemon is), `link` (how a link does), `stop` (a daemon is told to stop, and takes leave), `steady`
(faults last, and some daemons are well), `clock` (what a daemon says the time is), and
`restored` (the network's faults are over); and of clients: `lock` (a lock of a group has changed), `unsent`
(a message was not sent, because its group has no quorum), and of calls `called`, `executed`, `answered` and
`finished`; of clients at edges `handed`, `unsure` and `gap`, and of edges `attach`, `detach`, `part`, `base`,
`gap` (see `wire.edges`), `request` and `repair` (see `wire.casts`). The file format is described in
docs/reference/trace.md.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

FORMAT = "antiphon-trace"
VERSION = 3

Identity = tuple[int, int, int, int]
"""A message: daemon, incarnation of that daemon, session, sequence."""
ViewNumber = tuple[int, int, int, int]
"""A view's identifier: epoch, branch, lts, daemon."""
LockState = tuple[str, str, int, tuple[str, ...]]
"""A lock of a group: its name, the process that holds it or nothing, the number of the grant, the processes
that wait for it."""
Bundle = tuple[int, int, int]
"""A bundle: the daemon view in which it was sent, number of its source daemon, its number there."""

RELIABLE_SERVICES = frozenset(("reliable", "fifo", "causal", "agreed", "safe"))
FIFO_SERVICES = frozenset(("fifo", "causal", "agreed", "safe"))
CAUSAL_SERVICES = frozenset(("causal", "agreed", "safe"))
ORDERED_SERVICES = frozenset(("agreed", "safe"))


class Event(StrEnum):
    """What a record tells of."""

    CONNECT = "connect"
    DISCONNECT = "disconnect"
    JOIN = "join"
    LEAVE = "leave"
    SEND = "send"
    DELIVER = "deliver"
    VIEW = "view"
    TRANSSIG = "transsig"
    LEFT = "left"
    LOCK = "lock"
    UNSENT = "unsent"
    SLOW = "slow"
    RECOVER = "recover"
    CRASH = "crash"
    STOP = "stop"
    SVIEW = "sview"
    STRANSSIG = "stranssig"
    SSEND = "ssend"
    HOLD = "hold"
    SDELIVER = "sdeliver"
    STATE = "state"
    BUFFERS = "buffers"
    LINK = "link"
    CLOCK = "clock"
    CALLED = "called"
    EXECUTED = "executed"
    ANSWERED = "answered"
    FINISHED = "finished"
    HANDED = "handed"
    UNSURE = "unsure"
    GAP = "gap"
    ATTACH = "attach"
    DETACH = "detach"
    PART = "part"
    BASE = "base"
    REQUEST = "request"
    REPAIR = "repair"
    FORGED = "forged"
    BREACH = "breach"
    NONSENSE = "nonsense"
    STEADY = "steady"
    RESTORED = "restored"


REFUSED = "refused"
"""The state of a call that is over: its group had no quorum, and no message with it was sent."""
GIVEN_UP = "given up"
"""The same: its caller does not wait any more, and does not know whether it was executed."""
DELIVERED_AS = {"agreed": "agreed", "fifo": "fifo", "arrival": "reliable"}
"""What a member may choose, and the service as which it gets messages then, at the most."""
_STRENGTH = {
    service: place
    for place, service in enumerate(("unreliable", "reliable", "fifo", "causal", "agreed", "safe"))
}


def chosen(deliveries: Iterable[str]) -> str:
    """What counts for a message that reaches a member in several ways: the greatest of its choices, each ""
    where it has made none.

    >>> chosen(["fifo", "agreed"]), chosen(["fifo", ""])
    ('agreed', '')
    """
    return max(
        deliveries, key=lambda one: _STRENGTH[DELIVERED_AS[one]] if one else len(_STRENGTH), default=""
    )


def delivered_as(service: str, delivery: str) -> str:
    """The service as which a member gets a message.

    >>> delivered_as("safe", "fifo"), delivered_as("reliable", "fifo"), delivered_as("safe", "")
    ('fifo', 'reliable', 'safe')
    """
    return min(service, DELIVERED_AS[delivery], key=_STRENGTH.__getitem__) if delivery else service


OF_LOCKS_AND_CALLS = frozenset(
    (Event.LOCK, Event.UNSENT, Event.CALLED, Event.EXECUTED, Event.ANSWERED, Event.FINISHED)
)
"""What happens only where programs use locks, quorums or calls."""

OF_EDGES = frozenset(
    (
        Event.HANDED, Event.UNSURE, Event.GAP, Event.ATTACH, Event.DETACH, Event.PART, Event.BASE,
        Event.REQUEST, Event.REPAIR,
    )
)  # fmt: skip
"""Events that only edges and their clients cause."""


class Record(Struct, omit_defaults=True, gc=False):
    """One event; fields that do not apply keep their defaults and are left out of the file."""

    position: int
    """Place in the run: of two events, the one with the smaller position happened first. In the files of a
    live run that holds for the events of one process, or of one daemon, and for no others."""
    time_us: int
    event: Event
    daemon: str
    """Empty for `steady` and `restored` alone."""
    process: str = ""
    """The session at which it happened, see `bearers`; empty for events of a daemon."""
    groups: tuple[str, ...] = ()
    """Connect: those that the process may neither join nor send to. Stranssig: none for the one signal of the
    view that ends, else the groups that it comes early for."""
    views: tuple[ViewNumber | None, ...] = ()
    """For each of `groups`, the view in which it happened at this process; for a view event the new one, for
    a transsig the one that is ending. Not told of events of daemons."""
    message: Identity | None = None
    """Ssend, hold and sdeliver: the first message of the bundle; None if it carries none of a client."""
    count: int = 1
    """Ssend, hold and sdeliver: how many messages from `message` on the bundle has; steady: how many daemon
    views each of `parts` may install until all is restored."""
    service: str = ""
    checksum: int = 0
    """CRC-32 of the payload as it was sent, or as it was delivered."""
    self_discard: bool = False
    views_wanted: bool = True
    """Connect: whether it is told of the joins and leaves of others."""
    members: tuple[str, ...] = ()
    """Processes; sview: names of daemons; nonsense: the daemon under whose seal it came."""
    transitional: tuple[str, ...] = ()
    """Names as in `members`; in a stranssig the daemons that are known to come along into the next view."""
    changed: tuple[str, ...] = ()
    """View: who came or went; lock: who asked."""
    minimum: int = 0
    """Join: the least size of a part that may go on, as the process wishes it: -1 a majority, -2 all."""
    delivery: str = ""
    """Join: the order in which the process wants messages at the most: "agreed", "fifo" or "arrival". View:
    the same, as it was when the process joined. Deliver: the same, if the message came by such a choice; then
    `service` is the one as which it came."""
    has_quorum: bool = True
    """View: whether the group may go on."""
    locks: tuple[LockState, ...] = ()
    """View: all locks of the group; lock: the one that has changed, as it is now."""
    cause: str = ""
    """The cause of a disconnect: "crash" if its daemon crashed; of a view; of a lock: "asked", "refused" or
    "released"."""
    buffers: dict[str, tuple[int, int]] = {}
    """Name: (used, limit)."""
    incarnation: int = 0
    """Recover, stop and crash: of the daemon that begins or ends; connect: of the process's daemon."""
    daemon_view: int = 0
    """Sview: the new one; stranssig: the one that ends; link: the one for which the link was made; part, base
    and attach: the one to which the feed of an edge has come."""
    incarnations: tuple[int, ...] = ()
    """Sview: of `members`, in their order."""
    links: tuple[tuple[str, str], ...] = ()
    """Sview: pairs of members."""
    bundle: Bundle | None = None
    """Ssend, hold and sdeliver."""
    lts: int = 0
    """The lts of the bundle in ssend, sdeliver and hold, and of the bundle that brought the message in
    deliver."""
    resilience: str = ""
    """Ssend, hold and sdeliver: how many daemons must hold the bundle before it is delivered, as its sender
    asked: a number, "majority" or "total"."""
    causes: int = 0
    """Ssend: how many causes the history of the bundle names."""
    floor: int = 0
    """Ssend: everything up to this lts counts as its past, too, because no more is known of it."""
    stable: int = 0
    """Ssend: the same, and it had come to all daemons for which it was."""
    place: int = 0
    """Sdeliver: where the bundle stands in the agreed order; 0: at its lts. Base and attach: how far the feed
    has come in its daemon view. Gap: up to where something may be missing, after `lts`. Request and repair:
    the number of the piece."""
    is_loose: bool = False
    """Sdeliver: the bundle is of a source for which nobody waits, and has no place in the agreed order; it is
    not ordered, and what comes after it names it."""
    destinations: tuple[str, ...] = ()
    """Ssend and sdeliver: the daemons of the bundle's view that are at its destination sites."""
    state: str = ""
    """The state of the membership in `state`, of the link in `link`; "behind" or "caught up" in `slow`;
    "own" in `executed` if the member was to answer the call; `REFUSED` or `GIVEN_UP` in `finished` if
    the call ended without an answer."""
    reason: str = ""
    """Why a `state` was entered; request and repair: the number of the stream, in hexadecimal; what was wrong
    with the packet of a `breach`."""
    parts: tuple[tuple[str, ...], ...] = ()
    """Restored: the sets of living daemons that can reach one another from now on; steady: one set, of the
    daemons that are well although others are not."""
    bound_us: int = 0
    """Restored: within this time each of `parts` is to be one daemon view, for good. Steady: the longest time
    without a daemon view that works, until then. Stop: the others are without a view for this time at most; 0
    if there are other troubles that may stop them."""
    peer: str = ""
    """Link: the daemon at its other end; finished: the member that answered, if all were asked; connect and
    send: the process at an edge for which it was done; attach: the attachment; request and repair: the edge
    itself if it was the one that multicast it."""
    link: dict[str, int] = {}
    """Link: name: what was counted since the daemon view began, or measured now."""
    clock: dict[str, int] = {}
    """Clock: `time_us` and `error_us` as it was said, and `since_us`, when the internal time of `peer` began
    on the clock of that daemon; `state` is "reference" or "internal"."""
    true_us: int = 0
    """Clock: the time of the world; 0 where that is not known."""
    call: str = ""
    """Called, executed, answered and finished: the identity of the call. `checksum` is that of the answer,
    and `service` the mode: "one" or "all"."""
    person: str = ""
    """The same four: the session object, which may have one session after another."""

    @property
    def rank(self) -> int:
        """Where a bundle stands in the agreed order, as far as this record tells."""
        return self.place or self.lts


class Header(Struct):
    """The first line of a trace file.

    Of a simulated run there is one file. A live one has many, one for each life of a daemon and for each
    session; they belong together by `run`.
    """

    format: str
    version: int
    run: str
    scenario: str
    seed: int
    daemons: tuple[str, ...]
    live: bool = False
    sites: tuple[str, ...] = ()
    """The site of each of `daemons`, in their order; none where they are not known."""
    order: str = "symmetric"
    """How the cluster orders its messages."""
    edges: tuple[str, ...] | UnsetType = UNSET
    """The names of edges, if there are any."""
