"""What happened in a run: one record per event, in one global order.

The events are those of the thesis, of clients (2.2.1) and of daemons (2.2.5), and some of our own that speak
of daemons: `hold` (a daemon has all bytes of a bundle), `state` (its membership changed its state), `buffers`
(how full a daemon is), and `restored` (the network's faults are over). The file format is described in
docs/reference/trace.md.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.simulator.bearers import private_name

Answer = TypeVar("Answer")

FORMAT = "antiphon-trace"
VERSION = 2

Identity = tuple[int, int, int, int]
"""A message: daemon, incarnation of that daemon, session, sequence."""
ViewNumber = tuple[int, int, int, int]
"""A view's identifier: epoch, branch, lts, daemon."""
Bundle = tuple[int, int, int]
"""A bundle: the daemon view in which it was sent, number of its source daemon, its number there."""

RELIABLE_SERVICES = frozenset(("reliable", "fifo", "causal", "agreed", "safe"))
FIFO_SERVICES = frozenset(("fifo", "causal", "agreed", "safe"))
ORDERED_SERVICES = frozenset(("causal", "agreed", "safe"))


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
    RECOVER = "recover"
    CRASH = "crash"
    SVIEW = "sview"
    STRANSSIG = "stranssig"
    SSEND = "ssend"
    HOLD = "hold"
    SDELIVER = "sdeliver"
    STATE = "state"
    BUFFERS = "buffers"
    RESTORED = "restored"


class Record(Struct, omit_defaults=True, gc=False):
    """One event; fields that do not apply keep their defaults and are left out of the file."""

    position: int
    """Place in the run: of two events, the one with the smaller position happened first."""
    time_us: int
    event: Event
    daemon: str
    """Empty for `restored` alone."""
    process: str = ""
    """The session at which it happened, see `bearers`; empty for events of a daemon."""
    groups: tuple[str, ...] = ()
    """Stranssig: none for the one signal of the view that ends, else the groups that it comes early for."""
    views: tuple[ViewNumber | None, ...] = ()
    """For each of `groups`, the view in which it happened at this process; for a view event the new one, for
    a transsig the one that is ending. Not told of events of daemons."""
    message: Identity | None = None
    """Ssend, hold and sdeliver: the first message of the bundle; None if it carries none of a client."""
    count: int = 1
    """Ssend, hold and sdeliver: how many messages from `message` on the bundle has."""
    service: str = ""
    checksum: int = 0
    """CRC-32 of the payload as it was sent, or as it was delivered."""
    self_discard: bool = False
    views_wanted: bool = True
    """Connect: whether it is told of the joins and leaves of others."""
    members: tuple[str, ...] = ()
    """Processes; sview: names of daemons."""
    transitional: tuple[str, ...] = ()
    """As `members`; in a stranssig those who are known to come along into the next view."""
    changed: tuple[str, ...] = ()
    cause: str = ""
    """Of a disconnect: "crash" if its daemon crashed."""
    buffers: dict[str, tuple[int, int]] = {}
    """Name: (used, limit)."""
    incarnation: int = 0
    """Recover and crash: of the daemon that begins or ends."""
    daemon_view: int = 0
    """Sview: the new one; stranssig: the one that ends."""
    incarnations: tuple[int, ...] = ()
    """Sview: of `members`, in their order."""
    links: tuple[tuple[str, str], ...] = ()
    """Sview: pairs of members."""
    bundle: Bundle | None = None
    """Ssend, hold and sdeliver."""
    lts: int = 0
    destinations: tuple[str, ...] = ()
    """Ssend and sdeliver: the daemons of the bundle's view that are at its destination sites."""
    state: str = ""
    reason: str = ""
    """State: why it was entered."""
    parts: tuple[tuple[str, ...], ...] = ()
    """Restored: the sets of living daemons that can reach one another from now on."""
    bound_us: int = 0
    """Restored: within this time each of `parts` is to be one daemon view, for good."""


class Header(Struct):
    """The first line of a trace file."""

    format: str
    version: int
    run: str
    scenario: str
    seed: int
    daemons: tuple[str, ...]


class Trace:
    """The records of one run and the questions that several properties ask of them."""

    def __init__(
        self, scenario: str, seed: int, daemons: tuple[str, ...], records: Iterable[Record] = ()
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.daemons = daemons
        self.records: list[Record] = list(records)
        self._known: dict[Callable[[Trace], object], object] = {}

    def known(self, question: Callable[["Trace"], Answer]) -> Answer:
        """What `question` finds in this trace, worked out once however many properties ask."""
        if question not in self._known:
            self._known[question] = question(self)
        return cast(Answer, self._known[question])

    @property
    def run(self) -> str:
        return f"{self.scenario}-{self.seed}"

    @cached_property
    def _by_event(self) -> dict[Event, list[Record]]:
        found: dict[Event, list[Record]] = {event: [] for event in Event}
        for record in self.records:
            found[record.event].append(record)
        return found

    def of(self, event: Event) -> list[Record]:
        """All records of one event, in order."""
        return self._by_event[event]

    @cached_property
    def sends(self) -> dict[Identity, Record]:
        """Every message that was sent."""
        return {record.message: record for record in self.of(Event.SEND) if record.message is not None}

    @cached_property
    def by_process(self) -> dict[str, list[Record]]:
        """The events of each process, in order."""
        histories: dict[str, list[Record]] = {}
        for record in self.records:
            if record.process:
                histories.setdefault(record.process, []).append(record)
        return histories

    @cached_property
    def delivered(self) -> dict[str, set[Identity]]:
        """The messages that each process delivered."""
        return {
            process: {
                record.message
                for record in history
                if record.event is Event.DELIVER and record.message is not None
            }
            for process, history in self.by_process.items()
        }

    @cached_property
    def without_views(self) -> frozenset[str]:
        """The processes that are told of their own joins and leaves only: the views in their events are those
        that they joined with, however old."""
        return frozenset(record.process for record in self.of(Event.CONNECT) if not record.views_wanted)

    @cached_property
    def bearers(self) -> dict[str, str]:
        """For each private name, the last process that bore it."""
        return {private_name(process): process for process in self.by_process}

    @cached_property
    def _wishes(self) -> dict[tuple[str, str], list[Record]]:
        """The joins and leaves of a process for a group, and when its leaves took effect; its disconnect
        counts for every group ("")."""
        wishes: dict[tuple[str, str], list[Record]] = {}
        for record in self.records:
            if record.event in (Event.JOIN, Event.LEAVE, Event.LEFT):
                wishes.setdefault((record.process, record.groups[0]), []).append(record)
            elif record.event is Event.DISCONNECT:
                wishes.setdefault((record.process, ""), []).append(record)
        return wishes

    def stays(self, process: str, group: str, position: int) -> bool:
        """Whether `process` wants to be in `group` at `position` and for the rest of the run."""
        if (process, "") in self._wishes:
            return False
        wishes = [wish for wish in self._wishes.get((process, group), ()) if wish.event is not Event.LEFT]
        before = [wish.event for wish in wishes if wish.position < position]
        if before[-1:] == [Event.LEAVE] or len(before) < len(wishes):
            return False
        left = [
            wish
            for wish in self._wishes.get((process, group), ())
            if wish.event is Event.LEFT and wish.position < position
        ]
        return len(left) == before.count(Event.LEAVE)  # none is still to take effect

    def is_leaving(self, process: str, group: str, position: int) -> bool:
        """Whether a leave that `process` asked for before `position` was still to take effect then."""
        pending = 0
        for wish in self._wishes.get((process, group), ()):
            if wish.position < position:
                pending += (wish.event is Event.LEAVE) - (wish.event is Event.LEFT)
        return pending > 0

    def joined_once(self, process: str, group: str) -> bool:
        """Whether `process` asked to join `group` at most once, and stays."""
        wishes = [wish.event for wish in self._wishes.get((process, group), ())]
        return wishes in ([], [Event.JOIN]) and (process, "") not in self._wishes

    @cached_property
    def members(self) -> dict[tuple[str, ViewNumber], tuple[str, ...]]:
        """The members of each view, as the first process that installed it was told."""
        views: dict[tuple[str, ViewNumber], tuple[str, ...]] = {}
        for record in self.of(Event.VIEW):
            if record.views[0] is not None:
                views.setdefault((record.groups[0], record.views[0]), record.members)
        return views

    def digest(self) -> str:
        """A short name for exactly these records: equal runs have equal digests."""
        encode = msgspec.msgpack.Encoder().encode
        return blake2b(encode(self.records), digest_size=12).hexdigest()

    def write(self, folder: Path) -> Path:
        """Write the trace as `folder`/RUN.jsonl and return that path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.run}.jsonl"
        encode = msgspec.json.Encoder().encode
        start = b'{"run":%s,' % encode(self.run)
        with path.open("wb") as file:
            file.write(
                encode(Header(FORMAT, VERSION, self.run, self.scenario, self.seed, self.daemons)) + b"\n"
            )
            file.writelines(start + encode(record)[1:] + b"\n" for record in self.records)
        return path


def read(path: Path) -> Trace:
    """The trace in a file that `Trace.write` wrote."""
    with path.open("rb") as file:
        try:
            header = msgspec.json.decode(file.readline(), type=Header)
            if header.format != FORMAT or header.version != VERSION:
                raise UsageError(f"{path}: not a trace of format version {VERSION}")
            decode = msgspec.json.Decoder(Record).decode
            records = [decode(line) for line in file]
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}: not a trace: {error}") from None
    return Trace(header.scenario, header.seed, header.daemons, records)
