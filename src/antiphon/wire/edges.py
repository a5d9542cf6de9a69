"""The connection of an edge to its attachment: frames beside those of clients, on the same sockets.

An *edge* is a daemon in no view; its *attachment* is a daemon of the core, or another edge. What the edge
gets is a *feed*: the messages, views and signals of the groups that it listens to, all in one order. Every
item of a feed has a `Position`, which is the same at every daemon: so an edge whose attachment is lost goes
on at another.

A conversation: the edge sends Attach, its attachment answers Attached or Refuse. The edge sends Listen for
each group that is wanted, then Go; then Listen, Unlisten, Receivers, Beat, Sponsor, Unsponsor and bundles in
any order. The attachment sends what belongs to the feed:

- Part: from here on, positions belong to this daemon view (and branch)
- Base: from here on, everything of a group comes; its view as it is here
- bundles as clients get them (their lts is their place), ViewFrame and SignalFrame
- Gap: of one group, what stands after a position is missing, up to its next Base
- Reached: the feed has come so far, and there is nothing for this edge up to here

and, out of the feed's order: unreliable bundles, Sponsored, Problem, Goodbye, and Accepted and NotSent with
the number of a sponsored session.

What several edges of one attachment get they may get together, by multicast (`wire.casts`). Then the feed has
two roads, and the connection tells where it goes: the attachment says Cast; an edge that hears its multicasts
says Heard; after OnCast the feed goes on there, from a piece on, up to a Parting of this edge in the cast,
and after OffCast here again. Pieces that nobody has repaired the edge asks for with Lack, and gets as
CastPiece; or Anew, when they are forgotten: then it says Listen for all its groups once more, and Go.

Follows: InterGroup 6: receivers are in no membership that anybody waits for, and run their own repair
(RMRA): an edge tells the place of the last message that it has delivered, and goes on with what precedes the
new membership, or is told that it cannot.
Deviations: a message that describes the new membership is not waited for: it is one of the feed's views.
"""

from msgspec import Struct

from antiphon.types import View


class Position(Struct, frozen=True, array_like=True, order=True):
    """Where an item stands in a feed."""

    view: int
    """The daemon view to which it belongs."""
    branch: int
    """0, or the daemon view that followed: what is delivered after the certain part of a view has ended is
    only the same at daemons that went on to the same next one."""
    place: int
    """Its place in the agreed order; of what has none, the lts with which it was born."""
    group: str = ""
    """Of a view or signal, the group: one event may change several, in the order of their names. Of messages
    empty, which come first."""

    @property
    def key(self) -> tuple[int, str]:
        """Where it stands among what belongs to the same daemon view."""
        return self.place, self.group


class Held(Struct, frozen=True, array_like=True):
    """What an edge has told its members of a group last."""

    view: tuple[int, int, int, int]
    """Identifier of the view."""
    is_signalled: bool = False
    """Whether its transitional signal was given."""


class Neighbour(Struct, frozen=True, array_like=True):
    """A coordinator: an edge that is attached to a daemon of the core, and takes other edges."""

    name: str
    places: tuple[str, ...]
    """Where other edges reach it."""
    room: int
    """How many more edges it takes."""


# What an edge says ------------------------------------------------------------------------------------------


class Attach(Struct, frozen=True, tag="attach", omit_defaults=True):
    """The first frame of an edge."""

    version: int
    name: str
    incarnation: int
    """Of the edge's process: a newer connection of the same process takes the place of an older one."""
    is_standby: bool = False
    """Whether it only wants that what it listens to is kept, so that it can go on here at once; after Go it
    is like any other."""
    places: tuple[str, ...] = ()
    """Where other edges reach it, if it takes some."""
    hears: bool = False
    """Whether it can be told of multicasts."""


class Listen(Struct, frozen=True, tag="listen", omit_defaults=True):
    """The edge wants everything that is sent to `group`: a group's name, or `#edge` for what is sent to the
    private names of sessions at that edge."""

    group: str
    held: Held | None = None
    """With what it goes on in this group, if it has had it before."""


class Unlisten(Struct, frozen=True, tag="unlisten"):
    """The edge wants nothing more of `group`."""

    group: str


class Go(Struct, frozen=True, tag="go", omit_defaults=True):
    """Send what follows `after`; without it, what comes from now on. The edge has told what it listens to."""

    after: Position | None = None


class Receivers(Struct, frozen=True, tag="receivers"):
    """How many members there are at this edge and behind it, by group; those that have changed, 0 for
    none."""

    counts: dict[str, int]


class Probe(Struct, frozen=True, tag="probe", omit_defaults=True):
    """Who is there? Allowed before Attach, too; answered by Probed at once."""

    number: int = 0
    """Of the question; the answer has the same."""


class Report(Struct, frozen=True, tag="report", omit_defaults=True):
    """What an edge knows of those behind it, put together."""

    behind: int = 0
    """How many edges there are behind it."""
    room: int = 0
    """How many more it takes."""
    needs: Position | None = None
    """The lowest position that one of them still needs."""
    gaps: int = 0
    """How often one of them had to be told that something is missing."""


class Beat(Struct, frozen=True, tag="beat"):
    """A sign of life, when there is nothing else to say; both sides send it."""


class Sponsor(Struct, frozen=True, tag="sponsor", omit_defaults=True):
    """A client of an edge wants to send: its attachment sends in its name. Answered by Sponsored."""

    client: int
    """The edge's number for it."""
    name: str
    edge: str
    """The edge where the client is: its private name is `#name#edge`."""
    priority: int = 0
    accepts: bool = False
    refusals: bool = False


class Unsponsor(Struct, frozen=True, tag="unsponsor"):
    """A session that is sponsored is over: what it has sent is ordered before that."""

    session: int


class Heard(Struct, frozen=True, tag="heard"):
    """News that ask for an answer have come by multicast."""

    stream: int
    serial: int
    """Of the news."""


class Lack(Struct, frozen=True, tag="lack", omit_defaults=True):
    """Pieces of the cast have not come, and nobody has repaired them."""

    ranges: tuple[tuple[int, int], ...] = ()
    """The number of a piece, and how many from it on. None: what came cannot be read, send it anew."""


# What an attachment says ------------------------------------------------------------------------------------


class Attached(Struct, frozen=True, tag="attached"):
    """The attachment takes the edge; said again when its own way to the core has changed."""

    version: int
    name: str
    """The attachment's."""
    daemon: str
    """The daemon of the core where the feed comes from."""
    path: tuple[str, ...]
    """The edges between the attachment and the core, the attachment first if it is one."""
    message_max_bytes: int
    beat_us: int
    """Each side says something at least so often; who hears nothing for three times as long hangs up."""


class Part(Struct, frozen=True, tag="part", omit_defaults=True):
    """What follows belongs to a daemon view, or to one that follows it."""

    view: int
    branch: int = 0


class Base(Struct, frozen=True, tag="base"):
    """From here on everything of a group comes. For a group that comes already, without a Gap before it: a
    view that was made elsewhere, before the attachment came to those who made it."""

    view: View
    """As it is here; without members, if nobody has joined the group."""
    position: Position


class Gap(Struct, frozen=True, tag="gap"):
    """Something of a group may be missing: nothing of it comes until Base, which tells where it goes on."""

    group: str
    after: Position
    """The last position up to which nothing is missing."""
    until: Position
    """Something is missing at least up to here, as far as the attachment knows when it says so."""
    reason: str


class Reached(Struct, frozen=True, tag="reached"):
    """The feed has come so far."""

    position: Position


class Cast(Struct, frozen=True, tag="cast"):
    """The attachment multicasts to its edges."""

    place: str
    """Where; the address and port of the group."""
    stream: int
    key: bytes
    """With which packets are sealed there."""

    def __repr__(self) -> str:
        return f"Cast({self.place!r}, {self.stream})"


class OnCast(Struct, frozen=True, tag="on-cast"):
    """From here on the feed goes on in the cast."""

    first: int
    """The number of the first piece."""
    distance_us: int
    """How far it is to this edge: half of the time that its answer to news took."""


class OffCast(Struct, frozen=True, tag="off-cast"):
    """From here on the feed goes on here."""

    until: int
    """The pieces before this one come first; the last one ends with Parting."""


class Parting(Struct, frozen=True, tag="parting"):
    """In the cast: from here on the feed of one edge goes on over its connection. Pieces may come long before
    OffCast does."""

    edge: str
    """The name of the edge."""


class CastPiece(Struct, frozen=True, tag="cast-piece"):
    """A piece of the cast that the edge has asked for; in no order."""

    number: int
    data: bytes


class Anew(Struct, frozen=True, tag="anew"):
    """The feed ends here: the edge is to say where it goes on."""


class Sponsored(Struct, frozen=True, tag="sponsored", omit_defaults=True):
    """A client of the edge may send: its bundles carry this number in the field for the session. Said again,
    with the same number, when the attachment is an edge and another daemon sends them from now on."""

    client: int
    session: int
    daemon: int
    """The daemon of the core that sends them, in whose name receivers know the session."""
    incarnation: int
    known_as: int = 0
    """The session's number at that daemon, if it is another one."""
    before: int = 0
    """How many messages the attachment has had from this session that the daemon does not count."""


class Probed(Struct, frozen=True, tag="probed", omit_defaults=True):
    """Somebody is there."""

    number: int
    name: str
    room: int
    """How many more edges it takes."""
    children: int = 0
    """How many are attached to it."""
    path: tuple[str, ...] = ()
    """The edges between it and the core, itself first if it is one; empty for a daemon of the core."""
    few: int = 0
    """How many coordinators the daemon of the core wants to have; 0 if that is not known."""
    coordinators: tuple[Neighbour, ...] = ()
    """Those that it knows."""


FromEdge = (
    Attach | Listen | Unlisten | Go | Receivers | Report | Probe | Beat | Sponsor | Unsponsor | Heard | Lack
)
OfCast = Cast | OnCast | OffCast | CastPiece | Anew
"""What an attachment says of the road that the feed takes."""
OnlyToEdge = Attached | Part | Base | Gap | Reached | Sponsored | Probed | Beat | Parting | OfCast
"""What an attachment says beside the frames of clients."""
