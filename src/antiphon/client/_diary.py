"""A session's trace: what it asked for and what it got, written down where the library does it.

What is sent is on its way to the file before it is on its way to the daemon, so nothing that others can have
seen of this session is missing when the program is killed. What is received is written down when the
application reaches it, a bundle at a time, and is in the file a moment later.
"""

import atexit
import logging
import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakSet

import msgspec

from antiphon.client._ledger import BundleKey
from antiphon.trace import Event, LockState, Record, ViewNumber, chosen, delivered_as
from antiphon.trace.scrolls import Scroll, session_scroll, wall_us
from antiphon.trace.watcher import SERVICE_WORDS
from antiphon.types import DELIVERIES, Left, Lock, LockChanged, Message, TransitionalSignal, View, ViewId
from antiphon.wire import frames

FLUSH_EVERY_S = 0.2
"""What was received is in the file after this time at the latest."""
FLUSH_BYTES = 256 * 1024
"""Received payload after which it is written at once."""
ASKED = "disconnect"
"""The cause of an end that the session asked for and its daemon confirmed."""

_DELIVERY_WORDS = {int(service): word for word, service in DELIVERIES.items()}
_logger = logging.getLogger("antiphon.trace")
_encode = msgspec.json.encode
_open_diaries: WeakSet["Diary"] = WeakSet()
_flusher: threading.Thread | None = None


def open_diary(
    folder: Path, welcome: frames.Welcome, views: bool, cluster: str, daemons: Sequence[str], incarnation: int
) -> "Diary | None":
    """The diary of a session that was just welcomed; None, and a warning, if it cannot be written."""
    try:
        scroll, process = session_scroll(folder, welcome.name, cluster, tuple(daemons))
    except OSError as error:
        _logger.warning("no trace of session %s: %s", welcome.name, error.strerror)
        return None
    return Diary(scroll, process, welcome, views, incarnation)


class Diary:
    """One session's events; any thread may write."""

    def __init__(
        self, scroll: Scroll, process: str, welcome: frames.Welcome, views: bool, incarnation: int
    ) -> None:
        self._scroll = scroll
        self._process = process
        self._name = welcome.name
        self._daemon = welcome.daemon
        self._identity = b"%d,%d,%d," % (welcome.daemon_number, incarnation, welcome.session)
        self._sequence = 0
        """The number that the daemon will give to the last message, join, leave or request for a lock."""
        self._views: dict[str, ViewNumber] = {}
        self._asked: dict[str, deque[str]] = {}  # by group, what was chosen with joins under way
        self._chosen: dict[str, str] = {}  # by group, where that is something
        self._is_over = False
        self._unwritten_bytes = 0
        self._pen = threading.Lock()
        record = self._record(Event.CONNECT)
        record.views_wanted = views
        record.incarnation = incarnation
        scroll.append(record)
        scroll.flush()
        _open_diaries.add(self)
        _see_to_flusher()

    # What the session asks for ----------------------------------------------------------------------------

    def asked(self, request: frames.Join | frames.Leave | frames.AskLock | frames.Unlock) -> None:
        """A request is about to go to the daemon. Of requests for locks only the answers are written down."""
        with self._pen:
            self._sequence += 1  # requests have their place among a session's messages
            if isinstance(request, frames.Join):
                record = self._record(Event.JOIN, (request.group,))
                record.minimum = request.minimum
                record.delivery = _DELIVERY_WORDS.get(request.delivery, "")
                self._asked.setdefault(request.group, deque()).append(record.delivery)
                self._scroll.append(record)
            elif isinstance(request, frames.Leave):
                self._scroll.append(self._record(Event.LEAVE, (request.group,)))

    def stamped(self) -> None:
        """The bundle that is sent next begins with the stamp of a batch, which is numbered and no message."""
        with self._pen:
            self._sequence += 1

    def sent(self, key: BundleKey, payloads: Sequence[bytes]) -> None:
        """A bundle is about to go to the daemon."""
        with self._pen:
            first = self._sequence + 1
            self._sequence += len(payloads)
            tail = b',"self_discard":true}\n' if key.self_discard else b"}\n"
            word = SERVICE_WORDS[key.service]
            self._write_many(Event.SEND, key.groups, word, self._identity, first, payloads, tail)

    # What it gets -----------------------------------------------------------------------------------------

    def took_bundle(self, messages: Sequence[Message]) -> None:
        """The application has reached a bundle, some of which it may have had before as part of a batch."""
        envelope = messages[0].envelope
        identity = b"%d,%d,%d," % (envelope.daemon, envelope.incarnation, envelope.session)
        payloads = [message.payload for message in messages]
        word = SERVICE_WORDS[envelope.service]
        tail = b',"lts":%d}\n' % envelope.lts
        if self._chosen:
            word, tail = self._as_it_came(envelope.groups, word, envelope.lts)
        with self._pen:
            if self._is_over:
                return
            self._write_many(
                Event.DELIVER, envelope.groups, word, identity, envelope.sequence, payloads, tail
            )
            self._unwritten_bytes += sum(map(len, payloads))
            if self._unwritten_bytes > FLUSH_BYTES:
                self._flush()

    def _as_it_came(self, groups: tuple[str, ...], word: str, lts: int) -> tuple[str, bytes]:
        """The service as which a message came, and the end of its line, where this session has chosen."""
        ways = [self._chosen.get(group, "") for group in groups if group in self._views]
        delivery = "" if self._name in groups else chosen(ways)
        came_as = delivered_as(word, delivery)
        told = b',"delivery":"%b"' % delivery.encode() if delivery else b""
        return came_as, b',"lts":%d%b}\n' % (lts, told)

    def took(self, event: View | LockChanged | TransitionalSignal | Left) -> None:
        """The application has reached a view, the change of a lock, a signal or the end of a membership."""
        with self._pen:
            if self._is_over:
                return
            if isinstance(event, LockChanged):
                self._scroll.append(self._lock_record(event))
                return
            if event.group not in self._views:
                asked = self._asked.get(event.group)
                if asked and (delivery := asked.popleft()):
                    self._chosen[event.group] = delivery
            self._views[event.group] = _number(event.id)
            if isinstance(event, View):
                record = self._record(Event.VIEW, (event.group,))
                record.members = event.members
                record.transitional = event.transitional
                record.changed = event.changed
                record.cause = event.cause.value
                record.delivery = self._chosen.get(event.group, "")
                record.has_quorum = event.has_quorum
                record.locks = tuple(map(_lock_state, event.locks))
            elif isinstance(event, TransitionalSignal):
                record = self._record(Event.TRANSSIG, (event.group,))
            else:
                record = self._record(Event.LEFT, (event.group,))
                del self._views[event.group]
                self._chosen.pop(event.group, None)
            self._scroll.append(record)

    def _lock_record(self, event: LockChanged) -> Record:
        record = self._record(Event.LOCK, (event.group,))
        # A session that is not told of views is in the one that it joined with, whatever this one is.
        record.views = (_number(event.id),)
        record.changed = (event.session,)
        record.cause = event.cause.value
        record.locks = (_lock_state(event.lock),)
        return record

    def ended(self, cause: str) -> None:
        """Nothing happens at this process any more. Only the first end counts."""
        with self._pen:
            if self._is_over:
                return
            self._is_over = True
            _open_diaries.discard(self)
            record = self._record(Event.DISCONNECT)
            record.cause = cause
            self._scroll.append(record)
            self._scroll.close()

    # The file ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """See to it that nothing that was written down is lost with this program."""
        with self._pen:
            self._flush()

    def _flush(self) -> None:
        self._unwritten_bytes = 0
        if not self._is_over and self._scroll.has_news:
            self._scroll.flush()

    def forget(self) -> None:
        """In a forked child: the file is the parent's."""
        self._pen = threading.Lock()  # a thread that is not in this process may have held the old one
        self._is_over = True
        self._scroll.forget()

    def _record(self, event: Event, groups: tuple[str, ...] = ()) -> Record:
        views = tuple(map(self._views.get, groups))
        return Record(0, wall_us(), event, self._daemon, self._process, groups, views)

    def _write_many(
        self,
        event: Event,
        groups: tuple[str, ...],
        service: str,
        identity: bytes,
        first: int,
        payloads: Sequence[bytes],
        tail: bytes,
    ) -> None:
        """A record for each message of a bundle, of which few bytes differ: so the lines are put together
        here instead of encoded, at a fifth of the cost."""
        head = self._scroll.start
        middle = b',"time_us":%d,"event":"%b","daemon":%b,"process":%b,"groups":%b,"views":%b,"message":[' % (
            wall_us(), event.value.encode(), _encode(self._daemon), _encode(self._process), _encode(groups),
            _encode(tuple(map(self._views.get, groups))),
        )  # fmt: skip
        middle += identity
        end = b'],"service":"%b","checksum":' % service.encode()
        crc32 = zlib.crc32
        self._scroll.extend(
            lambda position: [
                b"%b%d%b%d%b%d%b" % (head, position + index, middle, first + index, end, crc32(payload), tail)
                for index, payload in enumerate(payloads)
            ]
        )


def _number(view: ViewId) -> ViewNumber:
    return (view.epoch, view.branch, view.lts, view.daemon)


def _lock_state(lock: Lock) -> LockState:
    return (lock.name, lock.holder, lock.fence, lock.waiting)


def _see_to_flusher() -> None:
    """Start the one thread of this process that flushes diaries, unless it runs."""
    global _flusher
    if _flusher is None or not _flusher.is_alive():
        _flusher = threading.Thread(target=_flush_for_ever, name="antiphon-trace", daemon=True)
        _flusher.start()


def _flush_for_ever() -> None:
    while True:
        time.sleep(FLUSH_EVERY_S)
        _flush_all()


def _flush_all() -> None:
    for diary in list(_open_diaries):
        diary.flush()


def _after_fork() -> None:
    for diary in list(_open_diaries):
        diary.forget()
    _open_diaries.clear()


atexit.register(_flush_all)
os.register_at_fork(after_in_child=_after_fork)
