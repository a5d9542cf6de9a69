"""A session's diary: what it writes in bulk is what records say one by one, and it belongs to one process."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from antiphon import Left, Message, Service, TransitionalSignal, View
from antiphon.client._diary import Diary, open_diary
from antiphon.client._ledger import BundleKey
from antiphon.trace import Event, Record
from antiphon.trace.files import read_records
from antiphon.types import MAJORITY, Cause, Envelope, Lock, LockCause, LockChanged, ViewId
from antiphon.wire import frames

WELCOME = frames.Welcome(2, 3, '#a"b#d1', "d1", 1, 1_000)
IDENTITY = (1, 99, 3)
VIEW = ViewId(5, 0, 6, 1)
NUMBER = (5, 0, 6, 1)
PAYLOADS = [b"one", b"", b"three"]
EXITING = """
import sys, antiphon
session = antiphon.blocking.connect(embedded=True, name="ada", trace=sys.argv[1])
session.join("tea")
session.send("tea", b"x")
while not isinstance(session.receive(), antiphon.Message):
    pass
sys.exit()  # without a word
"""


def begin(folder: Path, views: bool = True) -> Diary:
    diary = open_diary(folder, WELCOME, views, "tea", ["d0", "d1"], 99)
    assert diary is not None
    return diary


def told(folder: Path) -> list[Record]:
    (path,) = folder.glob("client.*.jsonl")
    return read_records(path)[1]


def test_lines_made_in_bulk_are_records(tmp_path: Path) -> None:
    diary = begin(tmp_path, views=False)
    diary.asked(frames.Join("tea"))
    diary.took(View("tea", VIEW, ('#a"b#d1',), (), Cause.JOIN, ('#a"b#d1',)))
    diary.stamped()
    diary.sent(BundleKey(("tea", "milk"), b"", Service.SAFE, 0, 0, True), PAYLOADS)
    envelope = Envelope('#a"b#d1', ("tea",), Service.FIFO, 0, *IDENTITY, 17, 4_711, 0)
    diary.took_bundle([Message(payload, envelope, index) for index, payload in enumerate(PAYLOADS)])
    diary.took(TransitionalSignal("tea", VIEW))
    diary.asked(frames.Leave("tea"))
    diary.took(Left("tea", VIEW))
    diary.sent(BundleKey(("tea",), b"", Service.AGREED, 0, 0, False), [b"last"])
    diary.ended("disconnect")
    diary.ended("broken")
    records = told(tmp_path)
    first = records[0]

    def record(place: int, event: Event, *groups: str, **fields: object) -> Record:
        return Record(
            first.position + place, records[place].time_us, event, "d1", '#a"b#d1', groups,
            **{"views": (NUMBER, None)[: len(groups)], **fields},  # type: ignore[arg-type]
        )  # fmt: skip

    def message(place: int, event: Event, *groups: str, payload: bytes, **fields: object) -> Record:
        return record(place, event, *groups, checksum=zlib.crc32(payload), **fields)

    assert records == [
        record(0, Event.CONNECT, views_wanted=False, incarnation=99),
        record(1, Event.JOIN, "tea", views=(None,)),
        record(2, Event.VIEW, "tea", members=('#a"b#d1',), changed=('#a"b#d1',), cause="join"),
        *(
            message(
                3 + place,
                Event.SEND,
                "tea",
                "milk",
                message=(*IDENTITY, 3 + place),
                service="safe",
                payload=payload,
                self_discard=True,
            )
            for place, payload in enumerate(PAYLOADS)
        ),
        *(
            message(
                6 + place,
                Event.DELIVER,
                "tea",
                message=(*IDENTITY, 17 + place),
                service="fifo",
                payload=payload,
                lts=4_711,
            )
            for place, payload in enumerate(PAYLOADS)
        ),
        record(9, Event.TRANSSIG, "tea"),
        record(10, Event.LEAVE, "tea"),
        record(11, Event.LEFT, "tea"),
        message(
            12,
            Event.SEND,
            "tea",
            views=(None,),
            message=(*IDENTITY, 7),
            service="agreed",
            payload=b"last",
        ),
        record(13, Event.DISCONNECT, cause="disconnect"),
    ]


def test_locks_and_quorum_are_written_down_and_requests_are_counted(tmp_path: Path) -> None:
    diary = begin(tmp_path, views=False)
    diary.asked(frames.Join("tea", MAJORITY))
    held = Lock("pot", "#bob#d2", 7, ('#a"b#d1',))
    names = ("#bob#d2", '#a"b#d1')
    diary.took(
        View("tea", VIEW, names, (), Cause.JOIN, ('#a"b#d1',), has_quorum=False, locks=(Lock("cup"), held))
    )
    diary.asked(frames.AskLock("tea", "cup"))
    later = ViewId(5, 0, 9, 0)
    diary.took(LockChanged("tea", later, Lock("cup", '#a"b#d1', 8), LockCause.ASKED, '#a"b#d1'))
    diary.asked(frames.Unlock("tea", "cup"))
    diary.sent(BundleKey(("tea",), b"", Service.AGREED, 0, 0, False), [b"x"])
    diary.ended("disconnect")
    _, join, view, lock, sent, _ = told(tmp_path)
    assert (join.event, join.minimum) == (Event.JOIN, MAJORITY)
    assert (view.has_quorum, view.locks) == (
        False, (("cup", "", 0, ()), ("pot", "#bob#d2", 7, ('#a"b#d1',))),
    )  # fmt: skip
    assert (lock.event, lock.groups, lock.views) == (Event.LOCK, ("tea",), ((5, 0, 9, 0),))
    assert (lock.locks, lock.changed, lock.cause) == (
        (("cup", '#a"b#d1', 8, ()),), ('#a"b#d1',), "asked",
    )  # fmt: skip
    assert sent.message == (*IDENTITY, 4), "the join and both requests are numbered, too"
    assert sent.views == (NUMBER,), "a session that is not told of views is in the one that it joined with"


def test_a_forked_child_leaves_the_file_alone(tmp_path: Path) -> None:
    diary = begin(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            diary.asked(frames.Join("tea"))
            diary.flush()
            diary.ended("disconnect")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    diary.ended("disconnect")
    assert [record.event for record in told(tmp_path)] == [Event.CONNECT, Event.DISCONNECT]


def test_a_program_that_just_exits_has_written_everything(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", EXITING, str(tmp_path)], check=True)
    assert [record.event for record in told(tmp_path)] == [
        Event.CONNECT, Event.JOIN, Event.SEND, Event.VIEW, Event.DELIVER
    ]  # fmt: skip


def test_a_diary_that_cannot_be_written_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """When a session reconnects, the folder may be gone: the session goes on."""
    assert open_diary(tmp_path / "gone", WELCOME, True, "tea", ["d1"], 99) is None
    assert caplog.records[0].getMessage() == 'no trace of session #a"b#d1: No such file or directory'
