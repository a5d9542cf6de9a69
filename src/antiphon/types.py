"""The vocabulary: names, identifiers, views and messages, as values."""

import re
from enum import Enum
from typing import Literal

from msgspec import Struct

from antiphon import limits
from antiphon.errors import UsageError
from antiphon.service import Service

_NAME_BYTES = re.compile(r"[$-~]+")  # Spread's rule: from '$' to '~', so no space, '#', quote or '!'


def check_name(name: str, what: str, max_bytes: int) -> str:
    """`name` if it may be used as the name of a `what`; otherwise a UsageError that says why not.

    >>> check_name("chat", "group", 31)
    'chat'
    """
    if not name:
        raise UsageError(f"a {what} name may not be empty")
    if len(name) > max_bytes:
        raise UsageError(
            f"{what} name {name[:40]!r} has {len(name)} characters; at most {max_bytes} are allowed"
        )
    if not _NAME_BYTES.fullmatch(name):
        bad = next(character for character in name if not _NAME_BYTES.fullmatch(character))
        raise UsageError(
            f"{what} name {name!r} has the character {bad!r}; allowed are the visible ASCII characters "
            "from '$' to '~' (no space, '#', '!' or '\"')"
        )
    return name


def check_group(name: str) -> str:
    """`name` if it may be joined as a group."""
    return check_name(name, "group", limits.GROUP_NAME_MAX_BYTES)


def check_destination(name: str) -> str:
    """`name` if a message may be sent to it: a group, or a session's private name `#session#daemon`."""
    if not name.startswith("#"):
        return check_group(name)
    session, _, daemon = name[1:].partition("#")
    check_name(session, "session", limits.SESSION_NAME_MAX_BYTES)
    check_name(daemon, "daemon", limits.DAEMON_NAME_MAX_BYTES)
    return name


def private_name(session: str, daemon: str) -> str:
    """The name under which one session can be addressed: `#session#daemon`."""
    return f"#{session}#{daemon}"


def listened_name(name: str) -> str:
    """The group to which a daemon listens that is to get what is sent to this name: for a private name, that
    of all private names at its edge.

    >>> listened_name("#bob#e1"), listened_name("prices")
    ('#e1', 'prices')
    """
    return f"#{name.rpartition('#')[2]}" if name[0] == "#" else name


PRIORITY_WORDS = {"low": 0, "medium": 5, "high": 9}
"""Names for priorities; any whole number from 0 to `PRIORITY_MAX` will do as well."""
PRIORITY_MAX = 9


def check_priority(priority: int | str) -> int:
    """A session's priority as a number; otherwise a UsageError that says what was expected.

    >>> check_priority("high"), check_priority(3), check_priority("3")
    (9, 3, 3)
    """
    if isinstance(priority, str):
        number = PRIORITY_WORDS.get(priority.lower(), int(priority) if priority.isdecimal() else -1)
    else:
        number = priority if isinstance(priority, int) and not isinstance(priority, bool) else -1
    if not 0 <= number <= PRIORITY_MAX:
        words = ", ".join(PRIORITY_WORDS)
        raise UsageError(
            f"priority must be {words} or a whole number from 0 to {PRIORITY_MAX}, not {priority!r}"
        )
    return number


SlowPolicy = Literal["disconnect", "drop-unreliable"]
"""What a daemon does for a session that does not keep up; `docs/how-to/slow-receivers.md` says when."""
SLOW_POLICIES: tuple[SlowPolicy, ...] = ("disconnect", "drop-unreliable")


Resilience = int | Literal["majority", "total"]
"""How many daemons must be known to hold a message before it is delivered: a number, or a word for one that
depends on the daemons that are together then."""
RESILIENCE_WORDS: tuple[Literal["majority", "total"], ...] = ("majority", "total")


def check_resilience(resilience: int | str | None, service: Service) -> Resilience | None:
    """What was asked for, None for nothing; a UsageError if that cannot be had with a service.

    >>> check_resilience("3", Service.AGREED), check_resilience("majority", Service.AGREED)
    (3, 'majority')
    >>> check_resilience(0, Service.SAFE) is None
    True
    """
    if resilience is None or resilience is False or resilience in (0, "0"):
        return None
    asked: Resilience | None = None
    for word in RESILIENCE_WORDS:
        asked = word if resilience == word else asked
    is_number = isinstance(resilience, int) or (
        isinstance(resilience, str) and resilience.isascii() and resilience.isdecimal()
    )
    if is_number and resilience is not True and 1 <= int(resilience) <= limits.DAEMONS_MAX:
        asked = int(resilience)
    if asked is None:
        raise UsageError(
            f"resilience must be majority, total or a whole number from 0 to {limits.DAEMONS_MAX}, "
            f"not {resilience!r}"
        )
    if service is not Service.AGREED:
        hint = ", which waits for all daemons anyway" if service is Service.SAFE else ""
        raise UsageError(f"resilience goes with the service agreed, not with {service.name.lower()}{hint}")
    return asked


class MessageId(Struct, frozen=True, order=True):
    """The identity of a message: its sender and its place among the sender's messages."""

    daemon: int
    incarnation: int
    """The incarnation of the daemon's process: a restarted one counts its sessions anew."""
    session: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.daemon}.{self.incarnation:x}.{self.session}.{self.sequence}"


class ViewId(Struct, frozen=True, order=True):
    """Identifies a view of a group; at one member, later views are greater.

    Follows: thesis, definition 6.1. Deviation: instead of an index that turns negative there are `branch` and
    `lts`, so that views which daemons install on the two sides of a cut never share an identifier.
    """

    epoch: int
    """Identifier of the daemon view in which it was made."""
    branch: int
    """0, or the daemon view that was about to follow: such a view was made after the cut."""
    lts: int
    """The lts of the agreed message that made the view."""
    daemon: int
    """The sender of that message."""

    def __str__(self) -> str:
        return f"{self.epoch}.{self.branch}.{self.lts}.{self.daemon}"


class Cause(Enum):
    """Why a view was delivered."""

    JOIN = "join"
    LEAVE = "leave"
    DISCONNECT = "disconnect"
    NETWORK = "network"
    """Daemons of members crashed, or were cut off."""
    MERGE = "merge"
    """Daemons with members came, or came back."""
    QUORUM = "quorum"
    """The same members as before, who are known to be enough now."""


Minimum = int | Literal["majority", "all"]
"""The least size of a part of a group that may go on, as a member that joins wishes it: so many members, more
than half of them, or all."""
MAJORITY, ALL = -1, -2
"""How the two words stand in messages."""


def check_minimum(minimum: Minimum | None) -> int:
    """A wish for a quorum as a number, 0 for none; otherwise a UsageError that says what was expected.

    >>> check_minimum("majority"), check_minimum(3), check_minimum(None)
    (-1, 3, 0)
    """
    if minimum is None:
        return 0
    words = {"majority": MAJORITY, "all": ALL}
    if isinstance(minimum, str) and minimum in words:
        return words[minimum]
    if isinstance(minimum, int) and not isinstance(minimum, bool) and 0 < minimum <= limits.MINIMUM_MAX:
        return minimum
    raise UsageError(
        f"minimum must be 'majority', 'all' or a whole number from 1 to {limits.MINIMUM_MAX:,}, "
        f"not {minimum!r}"
    )


Choice = Literal["agreed", "fifo", "arrival"]
"""The order in which a member wants messages at the most, whatever their senders asked for."""
DELIVERIES: dict[str, Service] = {
    "agreed": Service.AGREED,
    "fifo": Service.FIFO,
    "arrival": Service.RELIABLE,
}
"""The services as which they come then."""


def check_delivery(delivery: Choice | None) -> int:
    """A choice as a number, 0 for none; otherwise a UsageError that says what was expected.

    >>> check_delivery("fifo"), check_delivery(None)
    (2, 0)
    """
    if delivery is None:
        return 0
    if isinstance(delivery, str) and delivery in DELIVERIES:
        return int(DELIVERIES[delivery])
    known = ", ".join(map(repr, DELIVERIES))
    raise UsageError(f"delivery must be one of {known}, not {delivery!r}")


def check_lock(name: str) -> str:
    """`name` if a lock may be called so."""
    return check_name(name, "lock", limits.LOCK_NAME_MAX_BYTES)


HANDLERS_MAX = 256
"""Handlers are numbered from 0."""


def handler_lock(handler: int) -> str:
    """The lock that who answers the calls for a handler holds.

    >>> handler_lock(2)
    'handler/2'
    """
    if not isinstance(handler, int) or isinstance(handler, bool) or not 0 <= handler < HANDLERS_MAX:
        raise UsageError(f"handlers are numbered from 0 to {HANDLERS_MAX - 1}, not {handler!r}")
    return f"handler/{handler}"


class Lock(Struct, frozen=True, omit_defaults=True):
    """One lock of a group: who holds it, and who waits for it."""

    name: str
    holder: str = ""
    """Its private name; empty: nobody holds it."""
    fence: int = 0
    """The number of the grant: every later grant of this lock has a greater one."""
    waiting: tuple[str, ...] = ()
    """Private names, next first."""


class View(Struct, frozen=True, omit_defaults=True):
    """The members of a group from here on, delivered at the same point of the stream at every member."""

    group: str
    id: ViewId
    members: tuple[str, ...]
    """Private names in the order in which they joined."""
    transitional: tuple[str, ...]
    """The members who come with the receiver from the same previous view; empty in a member's first view."""
    cause: Cause
    changed: tuple[str, ...]
    """The members that joined, left, disconnected, were lost or came with a merge."""
    parts: tuple[tuple[str, ...], ...] = ()
    """With cause MERGE: the members by the view that they come from; one part is `transitional`."""
    has_quorum: bool = True
    """Whether the group may go on; False: fewer members are here than somebody wished with its join."""
    is_deciding: bool = False
    """Without a quorum: the members that are here would be enough, and make sure of it. Sends wait."""
    locks: tuple[Lock, ...] = ()
    """The locks that somebody holds or waits for, by name."""
    receivers: int = 0
    """About how many sessions at edges get what is sent to the group: they are no members, nobody waits for
    them, and they are counted now and then."""


class Gap(Struct, frozen=True):
    """At an edge: messages to a group may be missing here, because the edge lost its attachment and found
    none that still had them. A view follows, and from there on the stream is whole again."""

    group: str
    after: ViewId | None
    """The view up to which the stream was whole: what is missing was sent in it or later; None: unknown."""
    after_lts: int
    until_lts: int
    """What is missing has its place in the agreed order after the first and up to the second, where both
    belong to one line of daemon views."""
    reason: str


class LockCause(Enum):
    """What has changed a lock."""

    ASKED = "asked"
    """A session asked for it, and has it now or waits for it."""
    REFUSED = "refused"
    """A session that does not want to wait asked for it, and somebody else has it, or nobody may."""
    RELEASED = "released"
    """A session gave it back, or waits no longer."""


class LockChanged(Struct, frozen=True, omit_defaults=True):
    """A lock of a group has changed; at the same point of the stream at every member. What a new view does to
    locks (a holder has left or is lost, parts merge) stands in that view."""

    group: str
    id: ViewId
    """The view in which it happened."""
    lock: Lock
    """The lock as it is from here on."""
    cause: LockCause
    session: str
    """The private name of the session that asked."""


class TransitionalSignal(Struct, frozen=True):
    """Some members of the view are lost: from here to the next view, the guarantees hold for those who come
    along (its transitional set) and are unknown for the others."""

    group: str
    id: ViewId
    """The view that is ending."""


class Left(Struct, frozen=True):
    """The receiver's own leave took effect: nothing more comes from this group."""

    group: str
    id: ViewId


class SlowReceiver(Struct, frozen=True):
    """The receiver does not take its events as fast as they come; or, with `is_over`, it does so again.

    No part of any group's stream: it overtakes the events that wait, and says nothing about them.
    """

    waiting_bytes: int
    """Output that waited for this session at its daemon, without what is under way in sockets."""
    soft_bytes: int
    """Beyond this a session is warned."""
    hard_bytes: int
    """Here its daemon ends it, with the code "slow-receiver"."""
    policy: str
    """What its daemon does until then: "disconnect" or "drop-unreliable"."""
    dropped_messages: int = 0
    """Unreliable messages that this session was not given so far, since it began."""
    is_over: bool = False


class Time(Struct, frozen=True):
    """What time it is, and by how much that may be wrong."""

    time_ns: int
    """Nanoseconds since 1970. Of internal time, by the clock of the daemon that `source` names."""
    error_ns: int
    """The time is at most so much earlier or later."""
    basis: str
    """"reference": the time of the world, by a reference; "internal": that on which the daemons agree."""
    source: str
    """The reference, or the daemon whose clock is the internal time."""

    @property
    def seconds(self) -> float:
        """Since 1970; a float is exact to half a microsecond."""
        return self.time_ns / 1e9

    @property
    def error_s(self) -> float:
        """The bound in seconds."""
        return self.error_ns / 1e9


class BatchStamp(Struct, frozen=True, order=True):
    """The identity of a message that belongs to a batch: the same when the batch is sent again.

    A batch is what a program sends as one piece of work and may have to repeat, such as a micro-batch of
    Spark. Receivers drop what they have had; see `antiphon.client.batches`.
    """

    query: str
    """The query whose batches these are."""
    batch: int
    """Number of the batch among those of its query, which may be sent in any order."""
    partition: int
    """A batch is sent in parts, each in an order of its own; this message belongs to that one."""
    shape: int
    """Any number that is the same when the sender cuts the batch into the same parts again, such as how many
    there are: what comes in another shape cannot be compared."""
    index: int
    """Place in its part, from 0."""

    def __str__(self) -> str:
        return f"{self.query}/{self.batch}/{self.partition}/{self.shape}/{self.index}"

    def moved(self, count: int) -> "BatchStamp":
        """The stamp of the message `count` places further on."""
        return BatchStamp(self.query, self.batch, self.partition, self.shape, self.index + count)

    @classmethod
    def parse(cls, text: str) -> "BatchStamp":
        """The stamp that `str` made; UsageError for anything else.

        >>> BatchStamp.parse("daily/7/0/2/1500").moved(1)
        BatchStamp(query='daily', batch=7, partition=0, shape=2, index=1501)
        """
        found = _BATCH_STAMP.fullmatch(text)
        if found is None:
            raise UsageError(f"not the stamp of a batch: {text[:80]!r}")
        return check_stamp(cls(found[1], *map(int, found.groups()[1:])))


_BATCH_STAMP = re.compile(r"([!-~]+)/([0-9]{1,18})/([0-9]{1,9})/([0-9]{1,10})/([0-9]{1,18})")
_QUERY_BYTES = re.compile(r"[!-~]+")


def check_stamp(stamp: BatchStamp) -> BatchStamp:
    """`stamp` if it may be sent; otherwise a UsageError that says why not."""
    if not _QUERY_BYTES.fullmatch(stamp.query) or len(stamp.query) > limits.BATCH_QUERY_MAX_BYTES:
        raise UsageError(
            f"the query of a batch needs 1 to {limits.BATCH_QUERY_MAX_BYTES} visible ASCII characters, "
            f"not {stamp.query[:40]!r}"
        )
    if not 0 <= stamp.partition < limits.BATCH_PARTITIONS_MAX:
        raise UsageError(
            f"part {stamp.partition} of a batch: they count from 0, and there may be "
            f"{limits.BATCH_PARTITIONS_MAX:,}"
        )
    if not 0 <= stamp.shape < 1 << 32:
        raise UsageError(f"the shape of a batch is a number of 32 bits, not {stamp.shape}")
    if not (0 <= stamp.batch <= limits.BATCH_NUMBER_MAX and 0 <= stamp.index <= limits.BATCH_NUMBER_MAX):
        raise UsageError(f"batches and their messages count from 0 to {limits.BATCH_NUMBER_MAX:,}: {stamp}")
    return stamp


class Envelope(Struct, frozen=True, gc=False):
    """What all messages of one bundle share."""

    sender: str
    groups: tuple[str, ...]
    service: Service
    tag: int
    daemon: int
    incarnation: int
    session: int
    sequence: int
    """The number of the bundle's first message."""
    lts: int
    """Where the bundle stands in the agreed order: of two ordered ones, the smaller is delivered
    first, at all members."""
    sent_us: int
    batch: BatchStamp | None = None
    """The stamp of the bundle's first message, if it belongs to a batch."""
    resilience: Resilience | None = None
    """How many daemons had to hold the bundle before it was delivered; None if its sender did not ask."""


class Message(Struct, frozen=True, gc=False):
    """One delivered message: its payload, and through its envelope everything else about it."""

    payload: bytes
    envelope: Envelope
    index: int
    """Place in its bundle."""

    @property
    def sender(self) -> str:
        """The private name of the sending session: a message sent to it reaches the sender alone."""
        return self.envelope.sender

    @property
    def groups(self) -> tuple[str, ...]:
        """Every destination the sender named, in its order."""
        return self.envelope.groups

    @property
    def group(self) -> str:
        """The first destination: all there is unless the message was sent to several groups."""
        return self.envelope.groups[0]

    @property
    def service(self) -> Service:
        return self.envelope.service

    @property
    def resilience(self) -> Resilience | None:
        """How many daemons had to hold it before it was delivered; None if its sender did not ask."""
        return self.envelope.resilience

    @property
    def tag(self) -> int:
        """A small number of the application's own, from -32768 to 32767."""
        return self.envelope.tag

    @property
    def id(self) -> MessageId:
        envelope = self.envelope
        return MessageId(
            envelope.daemon, envelope.incarnation, envelope.session, envelope.sequence + self.index
        )

    @property
    def batch(self) -> BatchStamp | None:
        """What tells it from the other messages of a batch that may be sent again; None outside of one."""
        stamp = self.envelope.batch
        return stamp if stamp is None else stamp.moved(self.index)

    @property
    def sent_us(self) -> int:
        """When the sender's library took the bundle's first message: Unix time in microseconds."""
        return self.envelope.sent_us
