"""The files of a live run as one trace, which the oracle can judge.

Order is known within each file; between files the clocks tell, and where they disagree with what must have
come first, that counts: a message is sent before it is delivered, and a daemon's sessions end with it. The
clocks of machines that take part must agree better than messages travel between them, or else what the oracle
says of *when* a safe message was delivered (2.14) means nothing.

A killed process cannot record its end: the end of its file is its end. What a session handed to its library
and its daemon never read was not sent.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from pathlib import Path

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.trace.bearers import private_name, process_name, tell_apart
from antiphon.trace.files import SUFFIX, read_header, read_records
from antiphon.trace.records import RELIABLE_SERVICES, Event, Header, Identity, Record
from antiphon.trace.runs import Trace
from antiphon.trace.unsent import take_back

ASKED = "disconnect"
"""The cause of an end that a daemon has confirmed, and with it everything that was sent before."""
KILLED = "killed"
_LIFE_ENDS = (Event.CRASH, Event.DISCONNECT)

Cause = tuple[str, object]
"""What must have happened before something else can."""


class Story(Struct, eq=False):
    """One file: a life of a daemon, or a session."""

    path: Path
    records: list[Record]
    daemon: str
    incarnation: int
    """The incarnation of the daemon."""
    is_session: bool
    times_us: list[int]
    """When each record counts as having happened."""


def merge(folder: Path, run: str = "") -> Trace:
    """The live run whose files are in `folder`; its name is needed only if they are of several."""
    headers = {path: read_header(path) for path in sorted(folder.rglob(f"*{SUFFIX}"))}
    live = {path: header for path, header in headers.items() if header.live}
    runs = sorted({header.run for header in live.values()})
    if not runs:
        raise UsageError(f"no traces of a live run in {folder}")
    if not run and len(runs) > 1:
        raise UsageError(f"several live runs in {folder}, of which one must be chosen: {', '.join(runs)}")
    wanted = run or runs[0]
    return merge_files({path: header for path, header in live.items() if header.run == wanted}, wanted)


def merge_files(files: dict[Path, Header], run: str) -> Trace:
    """Merge files that are known to be of one run."""
    if not files:
        raise UsageError(f"no traces of the run {run}")
    stories = [story for path in files if (story := _read(path)) is not None]
    _name_processes(stories)
    _leave_out_the_unread(stories)
    _end_with_their_daemons(stories)
    edges = tuple(sorted({name for header in files.values() for name in header.edges or ()}))
    records = _in_one_order(stories, frozenset(edges))
    take_back(records)
    for position, record in enumerate(records):
        record.position = position
    tell_apart(records)
    header = max(files.values(), key=lambda header: len(header.sites))
    return Trace(
        header.scenario, header.seed, header.daemons, records, run=run, live=True, sites=header.sites,
        edges=edges,
    )  # fmt: skip


def _read(path: Path) -> Story | None:
    """None if nothing was written down."""
    _, records = read_records(path)
    if not records:
        return None
    first, last = records[0], records[-1]
    is_session = bool(first.process)
    if last.event not in _LIFE_ENDS:
        event = Event.DISCONNECT if is_session else Event.CRASH
        end = Record(last.position + 1, last.time_us, event, last.daemon, last.process)
        if is_session:
            end.cause = KILLED
        else:
            _end_sessions(records, end)
            end.incarnation = first.incarnation
        records.append(end)
    times_us = []
    now_us = 0
    for record in records:
        now_us = max(now_us, record.time_us)  # a clock that is set back does not change the order
        times_us.append(now_us)
    return Story(path, records, first.daemon, first.incarnation, is_session, times_us)


def _end_sessions(records: list[Record], end: Record) -> None:
    """A daemon's file tells of sessions in the names of clients of edges, and an edge's of its own: they end
    with it."""
    here: dict[str, None] = {}
    for record in records:
        if record.event is Event.CONNECT:
            here[record.process] = None
        elif record.event is Event.DISCONNECT:
            here.pop(record.process, None)
    for process in here:
        gone = Record(end.position, end.time_us, Event.DISCONNECT, end.daemon, process, cause=KILLED)
        records.append(gone)
        end.position += 1


def _name_processes(stories: list[Story]) -> None:
    """Processes that were the first of their name in folders of their own need other names in one run."""
    places: dict[str, int] = {}
    for story in sorted(stories, key=lambda story: story.times_us[0]):
        if story.is_session:
            name = private_name(story.records[0].process)
            places[name] = places.get(name, 0) + 1
            process = process_name(name, places[name])
            for record in story.records:
                record.process = process


def _leave_out_the_unread(stories: list[Story]) -> None:
    """A message counts as sent when the daemon reads it. For a session that broke off, it is unknown which
    messages were read, except for those that were then sent on or delivered. Unreliable messages promise
    nothing."""
    carried: set[Identity] = set()
    for story in stories:
        for record in story.records:
            if record.message is not None and record.event is not Event.SEND:
                daemon, incarnation, session, first = record.message
                places = range(first, first + record.count)
                carried.update((daemon, incarnation, session, place) for place in places)
    for story in stories:
        if story.is_session and story.records[-1].cause != ASKED:
            kept = [
                (record, time_us)
                for record, time_us in zip(story.records, story.times_us, strict=True)
                if record.event is not Event.SEND
                or record.service not in RELIABLE_SERVICES
                or record.message in carried
            ]
            story.records = [record for record, _ in kept]
            story.times_us = [time_us for _, time_us in kept]


def _end_with_their_daemons(stories: list[Story]) -> None:
    """A session may read what its daemon wrote long after that has ended, and even started again. For the
    run, it did so at once: the end of a daemon comes after those of its sessions, and before its next start.
    """
    lives: dict[str, list[Story]] = {}
    for story in stories:
        if not story.is_session:
            lives.setdefault(story.daemon, []).append(story)
    sessions: dict[tuple[str, int], list[Story]] = {}
    for story in stories:
        if story.is_session:
            sessions.setdefault((story.daemon, story.incarnation), []).append(story)
    for successive in lives.values():
        successive.sort(key=lambda story: story.times_us[0])
        for number, life in enumerate(successive):
            is_last = number + 1 == len(successive)
            latest_us = None if is_last else successive[number + 1].times_us[0] - 2
            ends_us = life.times_us[-1]
            for session in sessions.get((life.daemon, life.incarnation), ()):
                if latest_us is not None:
                    session.times_us = [min(time_us, latest_us) for time_us in session.times_us]
                ends_us = max(ends_us, session.times_us[-1] + 1)
            life.times_us[-1] = ends_us


# One order ------------------------------------------------------------------------------------------------


def _in_one_order(stories: list[Story], edges: frozenset[str]) -> list[Record]:
    """All records, by their times, each after what must have come before it."""
    promised = {effect for story in stories for record in story.records for effect in _effects(record)}
    happened: set[Cause] = set()
    waiting: dict[Cause, list[int]] = {}
    next_of = [0] * len(stories)
    heads = [(story.times_us[0], number) for number, story in enumerate(stories)]
    heapify(heads)
    records: list[Record] = []
    patient = True
    while True:
        if not heads:
            if not waiting:
                return records
            # No order fits all causes, so clocks are not what is wrong here: the judge shall see it.
            patient = False
            stuck = {number for numbers in waiting.values() for number in numbers}
            heads = [(stories[number].times_us[next_of[number]], number) for number in stuck]
            heapify(heads)
            waiting.clear()
        _, number = heappop(heads)
        story = stories[number]
        record = story.records[next_of[number]]
        missing = [cause for cause in _causes(record, edges) if cause in promised and cause not in happened]
        if missing and patient:
            waiting.setdefault(missing[0], []).append(number)
            continue
        patient = True
        records.append(record)
        next_of[number] += 1
        if next_of[number] < len(story.records):
            heappush(heads, (story.times_us[next_of[number]], number))
        for effect in _effects(record):
            happened.add(effect)
            for other in waiting.pop(effect, ()):
                heappush(heads, (stories[other].times_us[next_of[other]], other))


def _effects(record: Record) -> Iterable[Cause]:
    """What a record causes, for which others wait."""
    if record.event is Event.SEND:
        return (("message", record.message),)
    if record.event is Event.SSEND:
        return (("bundle", record.bundle),)
    if record.event is Event.SDELIVER and record.message is not None:
        daemon, incarnation, session, first = record.message
        places = range(first, first + record.count)
        return [("taken", (daemon, incarnation, session, place)) for place in places]
    if record.event is Event.HANDED:
        return (("handed", (private_name(record.process), record.checksum, record.groups)),)
    return ()


def _causes(record: Record, edges: frozenset[str]) -> Iterable[Cause]:
    """What comes before it, if it comes at all."""
    if record.event is Event.DELIVER:
        sent = ("message", record.message)
        return (sent, ("taken", record.message)) if record.daemon in edges else (sent,)
    if record.event in (Event.SDELIVER, Event.HOLD):
        return (("bundle", record.bundle),)
    if record.event is Event.SEND and record.peer:
        return (("handed", (record.peer, record.checksum, record.groups)),)
    return ()
