"""`Order`: what the rest of a daemon knows of the agreed order of one daemon view.

Follows: thesis 5.1 for what an order does, 6.1.9 and 6.1.10 for what it tells at the end of its view.
Deviation: the thesis has one order, the symmetric one. Here it is a contract, so that another order may give
a bundle its place after the bundle has arrived. Three rules make that possible:

- A bundle's *place* is one integer, `Entry.place`. Only an order writes it; all others read it from a bundle
  that is delivered, and never use the lts of a header in its stead.
- Everything that members tell of the agreed order at the end of a view (`Ending`) is told in places.
- Whether a bundle may come after another one, before both have their places, `may_follow` answers.

An order numbers the bundles of its own daemon, too, because daemons of one segment number theirs together:
the site link of the segment decides when it is this daemon's turn (`core.links.site`).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple, Protocol

from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import Lines
from antiphon.core.overlay.topology import Segment
from antiphon.wire.bundle import Header
from antiphon.wire.extensions import Extension
from antiphon.wire.packet import Skip, Update

if TYPE_CHECKING:
    from antiphon.core.ordering.causal import CausalQueue
    from antiphon.core.ordering.early import EarlyQueue, Offer
    from antiphon.core.ordering.resilience import Resilience

Sender = tuple[int, int]
"""A daemon and its session."""
Duties = dict[int, list[int]]
"""Number of a source's bundle -> the daemons that lack it."""


class Ending(Protocol):
    """What the members of a view that ends know of its order, worked out from what all of them have told.

    Every member that goes on computes the same, but for `duties`. Lines are places.
    """

    delivered_line: int
    """Some member has delivered everything up to here in the agreed order."""
    stable_line: int
    """Some member knows that everything up to here has come everywhere."""
    hole_line: int
    """Up to here no bundle is lost to all of the members, and none is unknown to all of them."""
    last_line: int
    """No bundle of the view has a place after this."""

    def duties(self, source: int) -> Duties:
        """The bundles of a source that this daemon must retransmit."""

    def retaining(self, source: int, number: int) -> list[int]:
        """The members that retain a bundle, the one first that retransmits it."""

    def has_delivered(self, daemon: int, place: int) -> bool:
        """Whether a member had delivered everything up to this place when its view stopped."""

    def is_delivered(self, source: int, number: int, place: int) -> bool:
        """Whether a member that retains a bundle had delivered it when its view stopped, in its place or
        ahead of it."""

    def line_of(self, hosts: Iterable[int]) -> int:
        """What is delivered up to this place, to a group with members at these daemons, comes before the
        group's transitional signal."""


class RoleNow(NamedTuple):
    """What one source is in the agreed order, and why."""

    source: int
    is_active: bool
    number: int
    """How often it has changed its role in this view."""
    sequencer: int | None
    """The source that gives the places of its bundles, unless it does so itself."""
    since_us: int
    reason: str


class Telling(Protocol):
    """Bodies that wait to be sent, one after another."""

    def __len__(self) -> int: ...

    def popleft(self) -> bytes:
        """The next one: it is sent at once, before anything else of this daemon gets a stamp."""


class Order(Protocol):
    """The order of one daemon in one view: bundles, skips and updates in; deliverable bundles out."""

    me: int
    source: int
    """The source of this daemon's bundles: the first daemon of its segment."""
    lines: Lines
    """How far each source has come."""
    ready: deque["Entry | Offer"]
    """Bundles in the order of their delivery, each with its place, and offers to members that chose less; the
    owner takes them."""
    own_stable: dict[int, int]
    """Sessions of this daemon -> sequence of their newest message that has come to be everywhere; the owner
    takes them."""
    to_tell: Telling
    """What the order wants to tell the orders of the other members, one body after another: the owner sends
    each as a bundle with `Flag.ORDER` when it is our turn, and `receive` gets it everywhere, here too."""
    moved: bool
    """Whether anything came in since `advance`."""
    observer: Callable[[Header], None] | None
    """Called with the header of each bundle when it comes in."""
    causal: "CausalQueue"
    """The bundles that have histories: those whose past is done are delivered ahead of their places."""
    early: "EarlyQueue"
    """What members that chose less are offered before it is delivered."""
    resilience: "Resilience"
    """The bundles that wait, in their places, until enough daemons hold them."""

    # Numbering: these are read, and the turn is given and taken, by the site link of our segment -------

    is_turn: bool
    """Whether this daemon may number bundles now: it is alone in its segment, or has the site link's turn."""
    issued: int
    """The greatest number that our source is known to have given to a bundle; all, if it is our turn."""
    highest_lts: int
    """The greatest lts of any bundle known to exist."""

    loose_lts: int
    """The greatest lts that came with an unreliable bundle: its past may not have come."""

    def turn(self, number: int, lts: int) -> None:
        """It is our turn: our source's bundles up to `number` are out, the next one is later than `lts`."""

    def passed(self, number: int, lts: int) -> None:
        """It is the turn of another daemon of our segment: its bundles up to `number` are out, the next one
        is later than `lts`."""

    def vouched(self, aru: int) -> None:
        """Every daemon of our segment has everything up to this lts."""

    # The Lamport clock of the view ---------------------------------------------------------------------

    @property
    def aru(self) -> int:
        """This daemon has everything up to this lts."""

    @property
    def own_aru(self) -> int:
        """Every daemon of our segment is known to have everything up to this lts."""

    @property
    def own_lts(self) -> int:
        """The lts of this daemon's newest bundle, as long as that is not known to be everywhere."""

    @property
    def clock(self) -> int:
        """This daemon's next bundle is born with a greater lts."""

    def tick(self) -> int:
        """A new stamp."""

    def witness(self, lts: int) -> None:
        """Another daemon's clock shows `lts`."""

    # Bundles of this daemon ----------------------------------------------------------------------------

    def stamp(self) -> tuple[int, int, int]:
        """Number, lts and aru of this daemon's next bundle; it must be its turn."""

    @property
    def is_holding(self) -> bool:
        """Whether no bundle that members will hear of may be stamped now, although it may be our turn."""

    def extensions(self, header: Header, session: int) -> tuple[Extension, ...]:
        """What the next bundle of a session must carry; 0 stands for this daemon itself."""

    def told_before(self, header: Header) -> bytes | None:
        """What must be told to the orders of the other members before the next bundle is sent: as `to_tell`,
        and only then."""

    def has_places(self, session: int) -> bool:
        """Whether all that a session of this daemon has sent so far has its place."""

    def own_after(self, lts: int) -> list[Entry]:
        """The unstable bundles of this daemon that may follow a bundle with this lts, in their order."""

    def wait_for_others(self, entry: Entry) -> None:
        """Deliver a bundle of ours only once every other site has it, and acknowledge nothing from it on
        before: what other sites retransmit because of it counts as missing until then."""

    # What comes in -------------------------------------------------------------------------------------

    def receive(self, entry: Entry, in_order: bool = False) -> bool:
        """A complete bundle, from here or elsewhere; False for a duplicate. `in_order` delivers it in the
        agreed order even if its service would allow more haste."""

    def receive_late(self, entry: Entry) -> None:
        """A bundle whose number was skipped here, retransmitted because this site has joined its group."""

    def skip(self, skip: Skip, is_urgent: bool = True) -> None:
        """Bundles that have no receiver at this site; unless they are known, they may be urgent."""

    def update(self, update: Update) -> None:
        """A source announces where it stands."""

    def saw_unreliable(self, header: Header) -> None:
        """An unreliable bundle came in: what its receivers send next comes after what its sender had seen."""

    def forget_sessions(self, source: int, senders: Collection[Sender]) -> None:
        """Sessions are over: their last bundles are delivered."""

    def may_follow(self, header: Header, earlier_lts: int) -> bool:
        """Whether a bundle may have its place after one that was born with `earlier_lts`."""

    def advance(self) -> None:
        """Draw the lines again from what came in: `ready` and `own_stable` get what they allow."""

    @property
    def done_line(self) -> int:
        """Everything that was born up to here has come and is delivered: in its place, or without waiting
        for it; a FIFO bundle waits for nothing but earlier ones of its session."""

    # What this daemon's source announces ---------------------------------------------------------------

    needs_lts: int
    """The greatest lts of a bundle that no daemon delivers before it knows the lts of every source."""
    needs_aru: int
    """The greatest lts of a bundle that some daemon delivers only once it knows the aru of every source."""
    came: int
    """What has come in from other daemons: the bundles, and the full packets in each."""

    def look(self, delays_us: Mapping[int, int], now_us: int) -> None:
        """Time passes in a view that works: the representative of a source may decide something. `delays_us`
        are those to other sources, as far as they are known."""

    @property
    def look_due_us(self) -> int | None:
        """When `look` must be called although nothing happens."""

    def roles_now(self) -> Sequence[RoleNow]:
        """The roles of the sources, where sources have different ones."""

    # What is waited for --------------------------------------------------------------------------------

    def contiguous(self, source: int) -> int:
        """The number up to which every bundle of a source has come or was skipped."""

    def waited_for(self) -> list[tuple[int, int, int, int]]:
        """The sources for which something that has come must wait, each with the number up to which its
        bundles have come, the greatest that is known to exist, and the lts up to which it is known."""

    def has_all_of(self, number: int, other: int) -> bool:
        """Whether a source, by what it has announced, has every bundle of another one that is known here."""

    def unacknowledged(self) -> list[tuple[int, int]]:
        """The sources that have not acknowledged the oldest retained bundle, each with its aru."""

    def first_waiting_source(self) -> int | None:
        """The source of the oldest bundle that waits for its place, or else for all to have it."""

    def has_later(self, number: int) -> bool:
        """Whether a bundle of a source has come although an earlier one has not."""

    # Memory --------------------------------------------------------------------------------------------

    retained_bytes: int
    """The size of the bundles that are not known to be everywhere."""
    largest_bytes: int
    """The size of the largest bundle so far: limits may be overshot by one."""
    own_unstable_bytes: int
    """The size of the bundles of this daemon that are not stable."""
    own_stable_bytes: int
    """The size of all bundles of this daemon that became stable in this view."""

    @property
    def retained_count(self) -> int:
        """Bundles that are not known to be everywhere."""

    @property
    def ahead_count(self) -> int:
        """Bundles and ranges that wait for an earlier number of their source."""

    def flagged_bytes(self, flags: int, daemon: int | None = None) -> int:
        """The size of retained bundles with any of these flags, of one daemon or of all."""

    # The end of the view -------------------------------------------------------------------------------

    def stop(self) -> None:
        """The view has stopped: whatever comes now is delivered at its end, in the agreed order."""

    def tell(self) -> bytes:
        """What this daemon knows of the order, for its STATETRANS message: one value in msgpack."""

    def ending(self, told: Mapping[int, bytes]) -> Ending:
        """What follows from what the members that go on together have told; `told` was checked."""

    def check_told(self, told: bytes) -> None:
        """BadFrame for what no daemon can have told, of this view or of another one."""

    def has(self, source: int, number: int) -> bool:
        """Whether a bundle has come, or is known to be for other sites."""

    def recover(self, entry: Entry) -> bool:
        """A bundle that was missing here came from another daemon, after the view has stopped; False for one
        that is here already. It keeps to the agreed order whatever its service."""

    def retained(self) -> list[Entry]:
        """Everything that is not known to be everywhere."""

    def undelivered_now(self) -> list[Entry]:
        """What has come and is not delivered, while the view works."""

    def undelivered(self, promised: Set[int]) -> list[Entry]:
        """Everything that was not delivered, in the agreed order: after the recovery each has its place. No
        bundle of the daemons in `promised` is dropped."""


class MakeOrder(Protocol):
    """How the order of a view is made: one with `segments`, of `daemons` in all, that began at `start`, for a
    daemon at `site`; `sites` has that of each segment."""

    def __call__(
        self,
        daemons: int,
        me: int,
        segments: tuple[Segment, ...],
        start: int,
        clock: int,
        site: int,
        sites: Sequence[int],
    ) -> Order: ...
