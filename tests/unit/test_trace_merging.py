"""The files of a live run as one trace: whatever clocks say, and whoever was killed."""

from pathlib import Path

import msgspec
import pytest

from antiphon import trace
from antiphon.errors import UsageError
from antiphon.trace import Event, Header, Record, merge

NUMBER = iter(range(1_000_000))


class File:
    """A file of a live run, written by hand; times are in microseconds."""

    def __init__(self, path: Path, daemon: str = "d1", process: str = "", run: str = "live-tea") -> None:
        self._path = path
        self._daemon = daemon
        self._process = process
        header = Header(trace.FORMAT, trace.VERSION, run, "live", 0, ("d1", "d2"), live=True)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.encode(header) + b"\n")

    def note(self, time_us: int, event: Event, **fields: object) -> "File":
        record = Record(
            next(NUMBER), time_us, event, self._daemon, self._process,
            **fields,  # type: ignore[arg-type]
        )  # fmt: skip
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")
        return self


def session(path: Path, process: str, time_us: int, incarnation: int = 7) -> File:
    file = File(path, process.rpartition("#")[2], process)
    return file.note(time_us, Event.CONNECT, incarnation=incarnation)


def message(number: int) -> dict[str, object]:
    return {"groups": ("tea",), "views": (None,), "message": (0, 7, 1, number), "service": "agreed"}


def told(folder: Path) -> list[tuple[str, str, int]]:
    """Who, what, when; in the order of the merged trace."""
    found = merge(folder)
    assert [record.position for record in found.records] == list(range(len(found.records)))
    return [(record.process or record.daemon, record.event.value, record.time_us) for record in found.records]


def test_clocks_decide_between_files_unless_they_cannot_be_right(tmp_path: Path) -> None:
    ada = session(tmp_path / "ada.jsonl", "#ada#d1", 10)
    bob = session(tmp_path / "bob.jsonl", "#bob#d2", 20)
    ada.note(100, Event.SEND, **message(1)).note(110, Event.DISCONNECT, cause="disconnect")
    bob.note(60, Event.DELIVER, **message(1)).note(61, Event.DISCONNECT, cause="disconnect")
    assert told(tmp_path) == [
        ("#ada#d1", "connect", 10),
        ("#bob#d2", "connect", 20),
        ("#ada#d1", "send", 100),
        ("#bob#d2", "deliver", 60),
        ("#bob#d2", "disconnect", 61),
        ("#ada#d1", "disconnect", 110),
    ]


def test_a_circle_of_causes_is_shown_and_does_not_hang(tmp_path: Path) -> None:
    ada = session(tmp_path / "ada.jsonl", "#ada#d1", 10)
    ada.note(50, Event.DELIVER, **message(1)).note(60, Event.SEND, **message(1))
    assert [event for _, event, _ in told(tmp_path)] == ["connect", "deliver", "send", "disconnect"]


def test_who_was_killed_ends_with_its_file(tmp_path: Path) -> None:
    daemon = File(tmp_path / "d1.jsonl").note(1, Event.RECOVER, incarnation=7)
    daemon.note(500, Event.STATE, state="op")
    ada = session(tmp_path / "ada.jsonl", "#ada#d1", 10)
    ada.note(900, Event.SEND, **message(1)).note(1_000, Event.DELIVER, **message(1))
    assert told(tmp_path) == [
        ("d1", "recover", 1),
        ("#ada#d1", "connect", 10),
        ("d1", "state", 500),
        ("#ada#d1", "send", 900),
        ("#ada#d1", "deliver", 1_000),
        ("#ada#d1", "disconnect", 1_000),
        ("d1", "crash", 500),
    ]


def test_what_a_session_read_after_its_daemon_came_back_was_there_before(tmp_path: Path) -> None:
    File(tmp_path / "1.jsonl").note(1, Event.RECOVER, incarnation=7)
    File(tmp_path / "2.jsonl").note(600, Event.RECOVER, incarnation=8).note(700, Event.STATE, state="op")
    ada = session(tmp_path / "ada.jsonl", "#ada#d1", 10)
    ada.note(90, Event.SEND, **message(1)).note(1_000, Event.DELIVER, **message(1))
    assert [(who, what) for who, what, _ in told(tmp_path)] == [
        ("d1", "recover"),
        ("#ada#d1", "connect"),
        ("#ada#d1", "send"),
        ("#ada#d1", "deliver"),
        ("#ada#d1", "disconnect"),
        ("d1", "crash"),
        ("d1", "recover"),
        ("d1", "state"),
        ("d1", "crash"),
    ]


@pytest.mark.parametrize(
    ("cause", "kept"), [("disconnect", [1, 2, 3]), ("broken", [1, 2]), ("slow-receiver", [1, 2])]
)
def test_what_no_daemon_read_was_not_sent(tmp_path: Path, cause: str, kept: list[int]) -> None:
    File(tmp_path / "d1.jsonl").note(1, Event.SSEND, **{**message(1), "views": ()}, bundle=(5, 0, 1), count=2)
    ada = session(tmp_path / "ada.jsonl", "#ada#d1", 10)
    for number in (1, 2, 3):
        ada.note(90, Event.SEND, **message(number))
    ada.note(95, Event.SEND, **{**message(4), "service": "unreliable"})
    ada.note(100, Event.DISCONNECT, cause=cause)
    sent = [record.message for record in merge(tmp_path).of(Event.SEND)]
    assert sent == [(0, 7, 1, number) for number in [*kept, 4]]


def test_files_of_several_folders_are_one_run_with_names_told_apart(tmp_path: Path) -> None:
    """Each of two machines has a first #ada#d1."""
    view = {"groups": ("tea",), "members": ("#ada#d1",), "changed": ("#ada#d1",), "cause": "join"}
    for place, begins_us in (("east", 10), ("west", 500)):
        ada = session(tmp_path / place / "ada.jsonl", "#ada#d1", begins_us)
        ada.note(begins_us + 5, Event.VIEW, **view, views=((1, 0, begins_us, 0),))
        ada.note(begins_us + 10, Event.DISCONNECT, cause="disconnect")
    views = merge(tmp_path).of(Event.VIEW)
    assert [(record.process, record.members, record.changed) for record in views] == [
        ("#ada#d1", ("#ada#d1",), ("#ada#d1",)),
        ("#ada!2#d1", ("#ada!2#d1",), ("#ada!2#d1",)),
    ]


def test_locks_name_the_sessions_that_the_view_means(tmp_path: Path) -> None:
    bob = session(tmp_path / "bob.jsonl", "#bob#d2", 1)
    tea = {"groups": ("tea",)}
    locks = {"locks": (("pot", "#bob#d2", 3, ("#ada#d1",)),)}
    for begins_us in (10, 500):
        ada = session(tmp_path / f"ada{begins_us}.jsonl", "#ada#d1", begins_us)
        view = {**tea, "views": ((1, 0, begins_us, 0),), "cause": "join", "members": ("#bob#d2", "#ada#d1")}
        for file in (ada, bob):
            file.note(begins_us + 5, Event.VIEW, **view, **locks, changed=("#ada#d1",))
        for file in (ada, bob):
            file.note(
                begins_us + 10, Event.LOCK, **tea, views=view["views"], cause="released",
                changed=("#ada#d1",), locks=(("pot", "#ada#d1", 4, ()),),
            )  # fmt: skip
        ada.note(begins_us + 20, Event.DISCONNECT, cause="disconnect")
    found = merge(tmp_path)
    for event, locked in (
        (Event.VIEW, lambda ada: (("pot", "#bob#d2", 3, (ada,)),)),
        (Event.LOCK, lambda ada: (("pot", ada, 4, ()),)),
    ):
        told = [(record.locks, record.changed) for record in found.of(event)]
        assert told == [(locked(ada), (ada,)) for ada in ("#ada#d1", "#ada#d1", "#ada!2#d1", "#ada!2#d1")]


def test_what_a_daemon_refused_was_not_sent(tmp_path: Path) -> None:
    File(tmp_path / "d1.jsonl").note(1, Event.UNSENT, message=(0, 7, 1, 2), count=2)
    ada = session(tmp_path / "ada.jsonl", "#ada#d1", 10)
    for number in (1, 2, 3, 4):
        ada.note(90, Event.SEND, **message(number))
    ada.note(100, Event.DISCONNECT, cause="disconnect")
    found = merge(tmp_path)
    assert [record.message[3] for record in found.of(Event.SEND) if record.message] == [1, 4]
    assert [record.message[3] for record in found.of(Event.UNSENT) if record.process and record.message] == [
        2, 3
    ]  # fmt: skip


def test_an_heir_that_never_read_its_own_view_is_known_by_those_who_did(tmp_path: Path) -> None:
    bob = session(tmp_path / "bob.jsonl", "#bob#d2", 1)
    for begins_us in (10, 500):
        ada = session(tmp_path / f"ada{begins_us}.jsonl", "#ada#d1", begins_us)
        ada.note(begins_us + 20, Event.DISCONNECT, cause="disconnect")
        bob.note(
            begins_us + 5, Event.VIEW, groups=("tea",), views=((1, 0, begins_us, 0),), cause="join",
            members=("#bob#d2", "#ada#d1"), changed=("#ada#d1",),
        )  # fmt: skip
    views = merge(tmp_path).of(Event.VIEW)
    assert [record.changed for record in views] == [("#ada#d1",), ("#ada!2#d1",)]


def test_who_is_cut_off_means_and_loses_the_session_that_it_knew(tmp_path: Path) -> None:
    """Ada's daemon has taken a second Ada by the time at which Bob's, cut off from it, lets Carl join and
    then loses the first one, of whose end it has not heard."""
    bob = session(tmp_path / "bob.jsonl", "#bob#d2", 1)
    tea = {"groups": ("tea",)}
    for begins_us in (10, 60):
        ada = session(tmp_path / f"ada{begins_us}.jsonl", "#ada#d1", begins_us)
        members = ("#bob#d2", "#ada#d1")
        view = {**tea, "views": ((1, 0, begins_us, 0),), "members": members, "changed": ("#ada#d1",)}
        ada.note(begins_us + 5, Event.VIEW, **view, cause="join")
        if begins_us == 10:
            bob.note(begins_us + 6, Event.VIEW, **view, transitional=("#bob#d2",), cause="join")
            ada.note(begins_us + 20, Event.DISCONNECT, cause="disconnect")
    everybody = ("#bob#d2", "#ada#d1", "#carl#d2")
    bob.note(
        90, Event.VIEW, **tea, views=((1, 5, 90, 1),), cause="join",
        members=everybody, transitional=("#bob#d2",), changed=("#carl#d2",),
    )  # fmt: skip
    left = ("#bob#d2", "#carl#d2")
    bob.note(
        95, Event.VIEW, **tea, views=((1, 5, 95, 1),), cause="network",
        members=left, transitional=left, changed=("#ada#d1",),
    )  # fmt: skip
    views = [record for record in merge(tmp_path).of(Event.VIEW) if record.process == "#bob#d2"]
    assert [record.members for record in views] == [everybody[:2], everybody, left]
    assert [record.changed for record in views] == [("#ada#d1",), ("#carl#d2",), ("#ada#d1",)]


def test_of_several_runs_one_must_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no traces of a live run"):
        merge(tmp_path)
    for run in ("live-tea", "live-coffee"):
        File(tmp_path / f"{run}.jsonl", run=run).note(1, Event.RECOVER, incarnation=7)
    with pytest.raises(UsageError, match="chosen: live-coffee, live-tea"):
        merge(tmp_path)
    assert merge(tmp_path, "live-tea").run == "live-tea"
    with pytest.raises(UsageError, match="no traces of the run live-milk"):
        merge(tmp_path, "live-milk")
