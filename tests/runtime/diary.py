"""What real sessions and daemons did and got, written down as a trace that the simulator's oracle can judge.

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

from antiphon import Left, Message, Service, TransitionalSignal, View
from antiphon.client import Event as Received
from antiphon.config import Config
from antiphon.core.view import DaemonView
from antiphon.trace import Event, Record, Trace, ViewNumber
from antiphon.trace.bearers import process_name, tell_apart
from antiphon.trace.watcher import Watcher
from antiphon.types import ViewId

Entry = tuple[int, int, Record]
"""When, in nanoseconds; a number that keeps the order of those at the same time; what."""

_order = count()


def entry(record: Record) -> Entry:
    return time.monotonic_ns(), next(_order), record


def _number(view: ViewId) -> ViewNumber:
    return (view.epoch, view.branch, view.lts, view.daemon)


class Diary:
    """One session's events; any thread may write, one at a time may send."""

    def __init__(
        self, name: str, daemon: str, daemon_number: int, daemon_incarnation: int, session: int
    ) -> None:
        self.name = name
        """The private name, which another session may have had before."""
        self.entries: list[Entry] = []
        self.is_over = False
        self._daemon = daemon
        self._identity = (daemon_number, daemon_incarnation, session)
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
                    message=msgspec.structs.astuple(event.id),
                    service=event.service.name.lower(),
                    checksum=zlib.crc32(event.payload),
                    lts=event.envelope.lts,
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
            elif isinstance(event, TransitionalSignal):
                assert self._views[event.group] == _number(event.id), "a signal in another view"
                self._write(Event.TRANSSIG, (event.group,))
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
    tell_apart(records)
    return Trace("real", seed, daemons, records, live=True)


# Daemons --------------------------------------------------------------------------------------------------


class Witness(list[Record]):
    """What a watcher notes, with the times at which it did."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def append(self, record: Record) -> None:
        super().append(record)
        self.entries.append(entry(record))


class DaemonWatcher(Watcher):
    """Watches a daemon in this process, from its start on; it has no clock: its witness does."""

    def __init__(self, config: Config, name: str, witness: Witness) -> None:
        super().__init__(config, config.daemon_number(name), witness, lambda: 0, lambda number, state: None)
        self._witness = witness
        self._daemon = name
        self._incarnation = 0

    def installed(self, view: DaemonView, transitional: tuple[int, ...]) -> None:
        if not self._incarnation:
            (self._incarnation,) = view.incarnations
            self._note(Event.RECOVER)
        super().installed(view, transitional)

    def crashed(self) -> None:
        """The daemon has stopped, which for its peers is the same."""
        self._note(Event.CRASH)

    def _note(self, event: Event) -> None:
        self._witness.append(Record(0, 0, event, self._daemon, incarnation=self._incarnation))
