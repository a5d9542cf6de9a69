"""What the check must know of traces before it can judge quorum and locks: which messages were refused, and
which session is meant where several bore one name, one after the other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checked_runs import truth_about_locks
from doctoring import as_live

from antiphon.spark.conformance import Model, check
from antiphon.spark.conformance.quorum import GroupView, apart
from antiphon.spark.conformance.source import tables_source
from antiphon.spark.report.job import report_of
from antiphon.spark.traces import ingest_traces, read_traces
from antiphon.trace import Event, Record, Trace, ViewNumber, promises
from antiphon.trace.unsent import take_back

pytestmark = pytest.mark.timeout(900)

RUN = "live-locks"
TEA = "tea"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a run in which daemons refused messages."""
    truth = truth_about_locks()
    traces = tmp_path_factory.mktemp("locks")
    as_live(Trace(truth.scenario, truth.seed, truth.daemons, truth.records, run=RUN), traces)
    return traces


@pytest.fixture(scope="module")
def tables(spark: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tables")
    ingest_traces(spark, folder, out)
    return out


def test_locks_and_quorum_are_columns(spark: Any, tables: Path) -> None:
    truth = truth_about_locks()
    events = read_traces(spark, tables)
    for event in (Event.VIEW, Event.LOCK):
        rows = events.where(f"event = '{event.value}'").collect()
        told = [
            (
                row.process, row.has_quorum,
                tuple((one.name, one.holder, one.fence, tuple(one.waiting)) for one in row.locks),
            )
            for row in rows
        ]  # fmt: skip
        wanted = [(record.process, record.has_quorum, record.locks) for record in truth.of(event)]
        assert sorted(told) == sorted(wanted)
        assert any(locks and locks[0][3] for _, _, locks in told), "some wait for a lock"
    wishes = [row.minimum for row in events.where("event = 'join'").collect()]
    assert sorted(wishes) == sorted(record.minimum for record in truth.of(Event.JOIN))
    assert any(wishes)


@pytest.mark.long
def test_what_daemons_refused_was_not_sent(spark: Any, folder: Path, tables: Path, tmp_path: Path) -> None:
    """The file of a session says that it was sent, that of its daemon says that it was not."""
    records = [record for record in truth_about_locks().records if record.event in (Event.SEND, Event.UNSENT)]
    asked = {record.message for record in records if record.event is Event.SEND}
    copies = [
        Record(0, 0, one.event, "", one.process, message=one.message, count=one.count) for one in records
    ]
    take_back(copies)
    sent = {record.message for record in copies if record.event is Event.SEND}
    assert sent < asked
    model = Model(spark, tables_source(spark, str(tables)), str(tmp_path))
    found = {tuple(row.message) for row in model.sent.select("message").collect()}
    assert found == sent
    report = report_of(spark, folder)
    assert report.runs[0].sent == len(sent)
    assert sum(talker.sent for talker in report.talkers) == len(sent)


# Names that several sessions bore -------------------------------------------------------------------------


class Room:
    """The files of a live run, in the making; times are in microseconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, list[Record]] = {}

    def note(self, time_us: int, process: str, event: Event, **fields: Any) -> None:
        mine = self._files.setdefault(process, [])
        mine.append(Record(1_000 + len(mine), time_us, event, process.rpartition("#")[2], process, **fields))

    def write(self) -> None:
        for process, records in self._files.items():
            name = process.strip("#").replace("#", "-")
            Trace("live", 0, ("d1", "d2"), records, run=RUN, live=True).write(self._folder / name)


@pytest.fixture
def heirs(tmp_path: Path) -> Iterator[Path]:
    """Bob holds a lock that Ada waits for, who is followed by a second Ada, to whom it is given."""
    room = Room(tmp_path / "traces")
    bob, locks = "#bob#d2", (("pot", "#bob#d2", 3, ("#ada#d1",)),)
    room.note(1, bob, Event.CONNECT)
    for begins_us, ada in ((10, "#ada#d1"), (500, "#ada!2#d1")):
        joined = {"groups": (TEA,), "views": ((1, 0, begins_us, 0),)}
        gone = {"groups": (TEA,), "views": ((1, 0, begins_us + 20, 0),)}
        room.note(begins_us, ada, Event.CONNECT)
        for process in (ada, bob):
            room.note(
                begins_us + 5, process, Event.VIEW, **joined, members=(bob, "#ada#d1"), cause="join",
                changed=("#ada#d1",), transitional=(bob,) if process == bob and begins_us > 10 else (),
                locks=locks,
            )  # fmt: skip
        room.note(begins_us + 20, ada, Event.DISCONNECT, cause="disconnect")
        if begins_us == 10:
            room.note(
                begins_us + 20, bob, Event.VIEW, **gone, members=(bob,), cause="disconnect",
                changed=("#ada#d1",), transitional=(bob,), locks=(("pot", bob, 3, ()),),
            )  # fmt: skip
        else:
            room.note(
                begins_us + 10, bob, Event.LOCK, **joined, changed=(bob,), cause="released",
                locks=(("pot", "#ada#d1", 4, ()),),
            )  # fmt: skip
    room.write()
    yield tmp_path / "traces"


def test_views_and_locks_name_processes(spark: Any, heirs: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    ingest_traces(spark, heirs, out)
    model = Model(spark, tables_source(spark, str(out)), str(tmp_path / "work"))
    rows = model.lock_marks.where("process = '#bob#d2'").orderBy("position").collect()
    told = [(row.event, row.members, row.changed, row.locks[0].holder, row.locks[0].waiting) for row in rows]
    assert told == [
        ("view", ["#bob#d2", "#ada#d1"], ["#ada#d1"], "#bob#d2", ["#ada#d1"]),
        ("view", ["#bob#d2"], ["#ada#d1"], "#bob#d2", []),
        ("view", ["#bob#d2", "#ada!2#d1"], ["#ada!2#d1"], "#bob#d2", ["#ada!2#d1"]),
        ("lock", [], ["#bob#d2"], "#ada!2#d1", []),
    ]


# The past of views ----------------------------------------------------------------------------------------

FIRST: ViewNumber = (1, 0, 1, 0)
ALL = ("#a#d0", "#b#d0", "#c#d1", "#d#d1")


def view(number: int, before: tuple[ViewNumber, ...], members: tuple[str, ...]) -> GroupView:
    return GroupView((1, 0, number, 0), before, members[0], number, members, True, True, number, number)


def test_two_halves_cannot_both_go_on() -> None:
    whole, one, other = view(1, (), ALL), view(2, (FIRST,), ALL[:2]), view(3, (FIRST,), ALL[2:])
    assert list(apart([whole, one, other], {})) == [(one, other)]
    later = view(4, (one.number, other.number), ALL)
    assert list(apart([whole, one, later], {})) == []


def test_parts_that_never_were_one_group_are_two() -> None:
    assert list(apart([view(2, (), ALL[:2]), view(3, (), ALL[2:])], {})) == []


def test_who_came_after_the_last_common_view_does_not_count() -> None:
    """A member of both parts never was in the first: so nothing was decided there, with the newcomer."""
    whole, grown = view(1, (), ALL[:3]), view(2, (FIRST,), ALL)
    most, few = view(3, (FIRST,), (*ALL[1:3], "#e#d2")), view(3, (FIRST,), (ALL[2], "#e#d2"))
    assert list(apart([whole, grown, most], {})) == []
    assert list(apart([whole, grown, few], {})) == [(grown, few)]


@pytest.mark.parametrize(
    ("gone_us", "is_broken"), [(2, False), (3, False), (1, True), (4, True), (None, False)]
)
def test_who_left_in_time_does_not_count(gone_us: int | None, is_broken: bool) -> None:
    """Who was in the first part and left it in time does not count for its half."""
    whole, one, other = view(1, (), ALL), view(2, (FIRST,), ALL[:2]), view(3, (FIRST,), (ALL[1], ALL[2]))
    found = list(apart([whole, one, other], {ALL[0]: [gone_us]}))
    assert found == ([(one, other)] if is_broken else [])


def test_a_run_with_wishes_and_two_quorums_is_found(spark: Any, tmp_path: Path) -> None:
    """By the job as well, in a live run of clients alone."""
    room = Room(tmp_path / "traces")
    bob, ada = "#bob#d2", "#ada#d1"
    both = {"groups": (TEA,), "views": ((1, 0, 2, 0),), "members": (ada, bob), "cause": "join"}
    for process in (ada, bob):
        room.note(1, process, Event.CONNECT)
        room.note(2, process, Event.JOIN, groups=(TEA,), views=(None,), minimum=-1)
        room.note(3, process, Event.VIEW, **both, changed=(process,))
        room.note(
            5, process, Event.VIEW, groups=(TEA,), views=((1, 0, 5, int(process == bob)),),
            members=(process,), transitional=(process,), cause="network",
            changed=(ada if process == bob else bob,),
        )  # fmt: skip
        room.note(9, process, Event.DISCONNECT, cause="disconnect")
    room.write()
    from antiphon.spark.conformance import PROPERTIES

    wanted = [prop for prop in PROPERTIES if prop.promise == promises.QUORUM]
    (outcome,) = check(spark, str(tmp_path / "traces"), str(tmp_path / "work"), wanted)
    (violation,) = outcome.told
    assert (violation.group, violation.processes) == (TEA, (ada, bob))
