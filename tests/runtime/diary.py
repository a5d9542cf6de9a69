"""What real sessions did and got, written down as a trace that the simulator's oracle can judge.

Every session keeps a diary. Its own order is exact; between sessions, and between a session and a daemon,
the machine's one monotonic clock decides. What is asked for (join, leave, send, disconnect) is written down
before the library is called and what is received after it was taken, so an event in the trace is never
earlier than what caused it.
"""

import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from itertools import count

import msgspec

from antiphon import Left, Message, Service, View
from antiphon.client import Event as Received
from antiphon.simulator.bearers import private_name, process_name
from antiphon.simulator.trace import Event, Record, Trace, ViewNumber
from antiphon.types import ViewId

Entry = tuple[int, int, Record]
"""When, in nanoseconds; a number that keeps the order of those at the same time; what."""

_order = count()


def entry(record: Record) -> Entry:
    return time.monotonic_ns(), next(_order), record


def _number(view: ViewId) -> ViewNumber:
    return (view.epoch, view.lts, view.daemon)


class Diary:
    """One session's events; any thread may write, one at a time may send."""

    def __init__(self, name: str, daemon: str, daemon_number: int, session: int) -> None:
        self.name = name
        """The private name, which another session may have had before."""
        self.entries: list[Entry] = []
        self.is_over = False
        self._daemon = daemon
        self._identity = (daemon_number, session)
        self._sequence = 0
        self._views: dict[str, ViewNumber] = {}
        self._pen = threading.Lock()
        with self._pen:
            self._write(Event.CONNECT)

    def join(self, group: str) -> None:
        with self._pen:
            self._sequence += 1
            self._write(Event.JOIN, (group,))

    def leave(self, group: str) -> None:
        with self._pen:
            self._sequence += 1
            self._write(Event.LEAVE, (group,))

    def send(self, groups: Sequence[str], payload: bytes, service: Service, self_discard: bool) -> None:
        with self._pen:
            self._sequence += 1  # joins and leaves have their place among a session's messages
            self._write(
                Event.SEND,
                tuple(groups),
                message=(*self._identity, self._sequence),
                service=service.name.lower(),
                checksum=zlib.crc32(payload),
                self_discard=self_discard,
            )

    def took(self, event: Received) -> None:
        """The application was handed `event`; after its disconnect it does not look any more."""
        with self._pen:
            if self.is_over:
                return
            if isinstance(event, Message):
                self._write(
                    Event.DELIVER,
                    event.groups,
                    message=(event.id.daemon, event.id.session, event.id.sequence),
                    service=event.service.name.lower(),
                    checksum=zlib.crc32(event.payload),
                )
            elif isinstance(event, View):
                self._views[event.group] = _number(event.id)
                self._write(
                    Event.VIEW,
                    (event.group,),
                    members=event.members,
                    transitional=event.transitional,
                    changed=event.changed,
                    cause=event.cause.value,
                )
            else:
                assert isinstance(event, Left)
                self._views[event.group] = _number(event.id)
                self._write(Event.LEFT, (event.group,))
                del self._views[event.group]

    def disconnect(self) -> None:
        with self._pen:
            self.is_over = True
            self._write(Event.DISCONNECT)

    def _write(self, event: Event, groups: tuple[str, ...] = (), **more: object) -> None:
        views = tuple(map(self._views.get, groups))
        record = Record(0, 0, event, self._daemon, self.name, groups, views)
        self.entries.append(entry(msgspec.structs.replace(record, **more)))


def merge(
    seed: int, daemons: tuple[str, ...], diaries: Sequence[Diary], witnessed: Iterable[Entry] = ()
) -> Trace:
    """One trace of all diaries and of what was witnessed of the daemons."""
    births = sorted((diary.entries[0], diary) for diary in diaries)
    places: dict[str, int] = {}
    entries: list[Entry] = list(witnessed)
    for _, diary in births:
        places[diary.name] = places.get(diary.name, 0) + 1
        for _, _, record in diary.entries:
            record.process = process_name(diary.name, places[diary.name])
        entries += diary.entries
    entries.sort(key=lambda one: one[:2])
    for position, (time_ns, _, record) in enumerate(entries):
        record.position = position
        record.time_us = time_ns // 1_000
    records = [record for _, _, record in entries]
    _tell_bearers_apart(records)
    return Trace("real", seed, daemons, records)


def _tell_bearers_apart(records: list[Record]) -> None:
    """Name the processes that views mean by private names that were used more than once.

    The view of a join is the joiner's own first word about itself in that group, so the joiner's record of it
    says which process joined; in the views that follow, the name means that process until the next join.
    """
    joiners: dict[tuple[str, ViewNumber], str] = {}
    views: dict[tuple[str, ViewNumber], list[Record]] = {}
    for record in records:
        if record.event is Event.VIEW and record.views[0] is not None:
            views.setdefault((record.groups[0], record.views[0]), []).append(record)
            if record.cause == "join" and private_name(record.process) in record.changed:
                joiners[record.groups[0], record.views[0]] = record.process
    bearers: dict[tuple[str, str], str] = {}
    for (group, view), told in sorted(views.items(), key=lambda item: item[0]):
        if (group, view) in joiners:
            process = joiners[group, view]
            bearers[group, private_name(process)] = process
        for record in told:
            for field in ("members", "transitional", "changed"):
                names = tuple(bearers.get((group, name), name) for name in getattr(record, field))
                setattr(record, field, names)
