"""One run: its records in one global order, and the questions that several properties ask of them."""

from collections.abc import Callable, Iterable
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import UNSET

from antiphon.trace.bearers import private_name
from antiphon.trace.files import SUFFIX, read_records
from antiphon.trace.records import FORMAT, VERSION, Event, Header, Identity, Record, ViewNumber

Answer = TypeVar("Answer")


class Trace:
    """The records of one run and the questions that several properties ask of them."""

    def __init__(
        self,
        scenario: str,
        seed: int,
        daemons: tuple[str, ...],
        records: Iterable[Record] = (),
        *,
        run: str = "",
        live: bool = False,
        sites: tuple[str, ...] = (),
        order: str = "symmetric",
        edges: tuple[str, ...] = (),
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.daemons = daemons
        self.run = run or f"{scenario}-{seed}"
        """Its name."""
        self.live = live
        """Whether it happened on real sockets, rather than in the simulator."""
        self.sites = sites
        """The site of each of `daemons`; empty if the sites are not known."""
        self.order = order
        """How its cluster ordered messages, if it was simulated."""
        self.edges = edges
        """The names of its edges."""
        self.records: list[Record] = list(records)
        self._known: dict[Callable[[Trace], object], object] = {}

    def known(self, question: Callable[["Trace"], Answer]) -> Answer:
        """What `question` finds in this trace, worked out once however many properties ask."""
        if question not in self._known:
            self._known[question] = question(self)
        return cast(Answer, self._known[question])

    @cached_property
    def core(self) -> "Trace":
        """The same run without what happened at edges and at their clients. What these sent stays, as sent by
        sessions of their attachments. In the place of each event that is left out is one of which nobody
        asks, so that positions are what they were."""
        if not self.edges:
            return self
        edges = frozenset(self.edges)
        records = [
            Record(record.position, record.time_us, Event.PART, record.daemon)
            if record.daemon in edges
            else record
            for record in self.records
        ]
        return Trace(
            self.scenario, self.seed, self.daemons, records, run=self.run, live=self.live, sites=self.sites,
            order=self.order,
        )  # fmt: skip

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
        """The last process that had each private name."""
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
        path = folder / f"{self.run}{SUFFIX}"
        encode = msgspec.json.Encoder().encode
        start = b'{"run":%s,' % encode(self.run)
        header = Header(
            FORMAT, VERSION, self.run, self.scenario, self.seed, self.daemons, self.live, self.sites,
            self.order, self.edges or UNSET,
        )  # fmt: skip
        with path.open("wb") as file:
            file.write(encode(header) + b"\n")
            file.writelines(start + encode(record)[1:] + b"\n" for record in self.records)
        return path


def read(path: Path) -> Trace:
    """The trace in a file that `Trace.write` wrote. The files of a live run are for `merge`."""
    header, records = read_records(path)
    return Trace(
        header.scenario,
        header.seed,
        header.daemons,
        records,
        run=header.run,
        live=header.live,
        sites=header.sites,
        order=header.order,
        edges=header.edges or (),
    )
