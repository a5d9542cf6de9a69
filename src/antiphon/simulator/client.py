"""A simulated client: a session that speaks frames to its node, as a real client and the driver would.

The driver's part of the contract in `core.node` is here, too: frames are handed over only while the node
reads this session, output that a slow reader has not taken is told as backlog, and a reader that is too slow
for the hard limit is cut off.
"""

import zlib
from collections import deque
from collections.abc import Sequence
from functools import lru_cache, partial
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.trace import Event, Identity, LockState, Record, ViewNumber, chosen, delivered_as
from antiphon.trace.bearers import Bearers
from antiphon.trace.feeds import number_of
from antiphon.trace.watcher import SERVICE_WORDS
from antiphon.types import DELIVERIES, Lock, LockCause, LockChanged, Message, Resilience, View
from antiphon.wire import bundle, frames
from antiphon.wire.calls import CallMark, encode_mark, mark_of
from antiphon.wire.extensions import CALL, Extension
from antiphon.wire.resilience import extension

if TYPE_CHECKING:
    from antiphon.simulator.calling import Calling
    from antiphon.simulator.machine import Driven

Delivery = tuple[Identity, str, tuple[str, ...], int, int]
"""One message of a bundle as the trace tells it: identity, service, groups, checksum, lts."""


class MarkedDelivery(Struct, frozen=True):
    """A message that belongs to a call."""

    deliveries: list[Delivery]
    mark: CallMark
    message: Message


Output = list[Delivery] | MarkedDelivery | frames.FromDaemon
Request = frames.Join | frames.Leave | frames.AskLock | frames.Unlock | bytearray
POOL_BYTES = 1 << 20
MARKED_MAX = 65_536
"""Messages of calls that the daemon may still refuse to send."""


@lru_cache(maxsize=1)
def _pool() -> bytes:
    return Random("payloads").randbytes(POOL_BYTES)


def payload(random: Random, size_bytes: int) -> bytes:
    """Bytes that are unlikely to be taken for any others of the same size."""
    pool = _pool()
    if size_bytes <= POOL_BYTES // 2:
        start = random.randrange(POOL_BYTES - size_bytes)
        return pool[start : start + size_bytes]
    start = random.randrange(POOL_BYTES)
    return (pool[start:] + pool * (size_bytes // POOL_BYTES + 1))[:size_bytes]


def read_frame(frame: bytes | bytearray | memoryview) -> Output:
    """What a frame from a daemon says; done once for all sessions that get it."""
    if frame[4] != bundle.FRAME_KIND_BUNDLE:
        return frames.decode_from_daemon(frame)
    messages = bundle.decode(memoryview(frame))
    envelope = messages[0].envelope
    service = SERVICE_WORDS[envelope.service]
    groups = envelope.groups
    deliveries = [
        (
            (envelope.daemon, envelope.incarnation, envelope.session, envelope.sequence + index),
            service,
            groups,
            zlib.crc32(message.payload),
            envelope.lts,
        )
        for index, message in enumerate(messages)
    ]
    if bundle.has_extensions(frame):
        mark = mark_of(bundle.parse(frame).extensions)
        if mark is not None:
            return MarkedDelivery(deliveries, mark, messages[0])
    return deliveries


class Client:
    """One session, from its connect to its end."""

    def __init__(
        self,
        node: "Driven",
        daemon: str,
        welcome: frames.Welcome,
        settings: Settings,
        records: list[Record],
        waiting: dict["Client", None],
        bearers: Bearers,
    ) -> None:
        self.name = welcome.name
        """Its private name, which another session may have after it."""
        self.process = bearers.born(welcome.name, (welcome.daemon_number, node.incarnation, welcome.session))
        self._bearers = bearers
        self.session = welcome.session
        self.open = True
        self.forbidden: frozenset[str] = frozenset()
        """Groups that it may neither join nor send to."""
        self.daemon = daemon
        self._daemon_number = welcome.daemon_number
        self._node = node
        self._settings = settings
        self._records = records
        self._sequence = 0
        self._now_us = 0
        """When it was last given something."""
        self._requests: deque[tuple[Request, list[Record]]] = deque()
        self._waiting = waiting
        self.unread: deque[tuple[int, Output]] = deque()
        """The frames that wait for a slow reader, as (bytes, value), oldest first."""
        self.unread_bytes = 0
        self._read_bytes = 0
        self._is_slow = False
        self._low_bytes, self._high_bytes = -1, settings.output_soft_bytes
        self.views: dict[str, ViewNumber] = {}
        self.wanted: set[str] = set()
        """Groups that it asked to join and did not ask to leave."""
        self.leaving: set[str] = set()
        self.locks: set[tuple[str, str]] = set()
        """Group and name of the locks that it asked for and did not give back."""
        self._processes: dict[
            str, dict[str, str]
        ] = {}  # by group and private name, as its last view means it
        self.joining: set[str] = set()
        self._views_of: dict[tuple[str, ...], tuple[ViewNumber | None, ...]] = {}
        self._chosen: dict[str, deque[str]] = {}  # by group, the choices of joins that have not taken effect
        self._choices: dict[str, str] = {}  # those that have
        self._names_of: dict[tuple[str, ...], bytes] = {}
        self.calling: Calling | None = None
        """What it has to do with calls, if anything."""
        self._marked: deque[tuple[Record, CallMark]] = deque(maxlen=MARKED_MAX)

    # What the application asks ----------------------------------------------------------------------------

    def join(self, group: str, minimum: int = 0, delivery: str = "") -> None:
        self._chosen.setdefault(group, deque()).append(delivery)
        if group in self.forbidden:
            self._ask(frames.Join(group, minimum, DELIVERIES[delivery] if delivery else 0), [])
            return
        self.joining.add(group)
        self.wanted.add(group)
        record = self._record(Event.JOIN, (group,))
        record.minimum = minimum
        record.delivery = delivery
        self._ask(frames.Join(group, minimum, DELIVERIES[delivery] if delivery else 0), [record])

    def lock(self, group: str, name: str, waits: bool) -> None:
        self.locks.add((group, name))
        self._ask(frames.AskLock(group, name, waits), [])

    def unlock(self, group: str, name: str) -> None:
        self.locks.discard((group, name))
        self._ask(frames.Unlock(group, name), [])

    def leave(self, group: str) -> None:
        self.leaving.add(group)
        self.wanted.discard(group)
        self.locks = {lock for lock in self.locks if lock[0] != group}
        self._ask(frames.Leave(group), [self._record(Event.LEAVE, (group,))])

    def send(
        self,
        groups: tuple[str, ...],
        service: Service,
        payloads: Sequence[bytes],
        self_discard: bool = False,
        resilience: Resilience | None = None,
    ) -> None:
        """Queue one bundle; it counts as sent when the daemon reads it."""
        names = self._names_of.get(groups)
        if names is None:
            names = self._names_of[groups] = bundle.names_area(self.name, groups)
        flags = int(bundle.Flag.SELF_DISCARD) if self_discard else 0
        asked = () if resilience is None else (extension(resilience),)
        frame = bytearray().join(
            bundle.encode(names, len(groups), service, payloads, flags=flags, extensions=asked)
        )
        records = []
        for body in payloads:
            record = self._record(Event.SEND, groups)
            record.service = SERVICE_WORDS[service]
            record.checksum = zlib.crc32(body)
            record.self_discard = self_discard
            records.append(record)
        self._ask(frame, records)

    def send_marked(self, groups: tuple[str, ...], mark: CallMark, body: bytes, service: Service) -> None:
        """Queue a message that belongs to a call."""
        names = bundle.names_area(self.name, groups)
        extension = Extension(CALL, encode_mark(mark))
        frame = bytearray().join(bundle.encode(names, len(groups), service, [body], extensions=[extension]))
        record = self._record(Event.SEND, groups)
        record.service = SERVICE_WORDS[service]
        record.checksum = zlib.crc32(body)
        self._marked.append((record, mark))
        self._ask(frame, [record])

    def note_call(
        self,
        event: Event,
        group: str,
        call: str,
        person: str,
        checksum: int,
        mode: str,
        peer: str,
        state: str,
    ) -> None:
        """Put into the trace what this client has done with a call."""
        record = self._record(event, (group,))
        record.views = self._views(record.groups)
        record.position, record.time_us = len(self._records), self._now_us
        record.call, record.person, record.checksum = call, person, checksum
        record.service, record.peer, record.state = mode, peer, state
        self._records.append(record)

    def _ask(self, request: Request, records: list[Record]) -> None:
        self._requests.append((request, records))
        self._waiting[self] = None

    @property
    def asks(self) -> str:
        """The kind of its next request."""
        if not self._requests:
            return "nothing"
        request = self._requests[0][0]
        return "submit" if isinstance(request, bytearray) else type(request).__name__.lower()

    @property
    def is_busy(self) -> bool:
        """Whether requests wait for the daemon to read them, or output for the application."""
        return self.open and bool(self._requests or self.unread)

    def _record(self, event: Event, groups: tuple[str, ...]) -> Record:
        return Record(0, 0, event, self.daemon, self.process, groups)

    # What passes between it and its node ------------------------------------------------------------------

    def hand_over(self, now_us: int, node_now_us: int) -> None:
        """Give the node its next requests while it reads."""
        while self._requests and self._node.reads(self.session):
            request, records = self._requests.popleft()
            for record in records:
                self._note(record, now_us)
            if not records:  # a lock, or a join that is going to be refused: they have a number, too
                self._sequence += 1
            if isinstance(request, bytearray):
                self._node.submit(self.session, (request,), node_now_us)
            else:
                self._node.control(self.session, request, node_now_us)
        if not self._requests:
            del self._waiting[self]

    def _note(self, record: Record, now_us: int) -> None:
        """Put a request into the trace at the moment at which the daemon reads it."""
        record.position = len(self._records)
        record.time_us = now_us
        record.views = self._views(record.groups)
        self._sequence += 1  # joins and leaves have their place among a session's messages
        if record.event is Event.SEND:
            record.message = self._identity(self._sequence)
        self._records.append(record)

    def _identity(self, sequence: int) -> Identity:
        """The message of this session with a number."""
        return (self._daemon_number, self._node.incarnation, self.session, sequence)

    def take(self, output: Output, now_us: int) -> None:
        """The application reads one frame."""
        self._now_us = now_us
        if isinstance(output, list):
            self._deliver(output, now_us)
        elif isinstance(output, MarkedDelivery):
            self._deliver(output.deliveries, now_us)
            if self.calling is not None:
                self.calling.message(output.mark, output.message, now_us)
        elif isinstance(output, frames.ViewFrame):
            view = output.view
            meant = partial(self._meant, view)
            if view.group not in self.views:
                self._choices[view.group] = self._chosen[view.group].popleft()
            self.views[view.group] = number_of(view.id)
            self.joining.discard(view.group)
            self._views_of.clear()
            self._processes[view.group] = dict(zip(view.members, meant(view.members), strict=True))
            self._records.append(
                Record(
                    len(self._records), now_us, Event.VIEW, self.daemon, self.process,
                    (view.group,), (number_of(view.id),),
                    members=meant(view.members),
                    transitional=meant(view.transitional),
                    changed=meant(view.changed), cause=view.cause.value,
                    delivery=self._choices[view.group],
                    has_quorum=view.has_quorum,
                    locks=tuple(self._lock_state(view.group, lock) for lock in view.locks),
                )
            )  # fmt: skip
            if self.calling is not None:
                self.calling.view(view, now_us)
        elif isinstance(output, frames.LockFrame):
            self._take_lock(output.change, now_us)
            if self.calling is not None:
                self.calling.lock(output.change, now_us)
        elif isinstance(output, frames.Denied):
            assert output.group in self.forbidden, f"{self.process} was denied {output}"
        elif isinstance(output, frames.NotSent):
            # Its daemon has written it down.
            assert not output.reason or output.group in self.forbidden, f"{self.process} was told {output}"
            if self.calling is not None:
                for group, mark in self._refused(output):
                    self.calling.not_sent(group, mark)
        elif isinstance(output, frames.SignalFrame):
            signal = output.signal
            self._records.append(
                Record(
                    len(self._records), now_us, Event.TRANSSIG, self.daemon, self.process,
                    (signal.group,), (number_of(signal.id),),
                )
            )  # fmt: skip
        elif isinstance(output, frames.LeftFrame):
            left = output.left
            self.views.pop(left.group, None)
            self.leaving.discard(left.group)
            self._views_of.clear()
            self._records.append(
                Record(
                    len(self._records), now_us, Event.LEFT, self.daemon, self.process,
                    (left.group,), (number_of(left.id),),
                )
            )  # fmt: skip
            if self.calling is not None:
                self.calling.left(left.group)
        else:
            raise AssertionError(f"{self.process} was told {output}")

    def _meant(self, view: View, names: tuple[str, ...]) -> tuple[str, ...]:
        """The processes that a view means by `names`."""
        return self._bearers.meant(self.daemon, view, names)

    def _refused(self, refusal: frames.NotSent) -> list[tuple[str, CallMark]]:
        """The messages of calls among those that were not sent, each with the group that it was for."""
        numbers = range(refusal.sequence, refusal.sequence + refusal.count)
        return [
            (record.groups[0], mark)
            for record, mark in self._marked
            if record.message is not None and record.message[3] in numbers
        ]

    def _take_lock(self, change: LockChanged, now_us: int) -> None:
        if change.cause is not LockCause.ASKED and change.session == self.name:
            self.locks.discard((change.group, change.lock.name))
        self._records.append(
            Record(
                len(self._records), now_us, Event.LOCK, self.daemon, self.process,
                (change.group,), (number_of(change.id),),
                changed=(self._processes[change.group].get(change.session, change.session),),
                cause=change.cause.value, locks=(self._lock_state(change.group, change.lock),),
            )
        )  # fmt: skip

    def _lock_state(self, group: str, lock: Lock) -> LockState:
        processes = self._processes[group]
        holder = processes.get(lock.holder, lock.holder)
        return lock.name, holder, lock.fence, tuple(processes.get(name, name) for name in lock.waiting)

    def _deliver(self, deliveries: list[Delivery], now_us: int) -> None:
        records = self._records
        views = self._views(deliveries[0][2])
        delivery = self._choice(deliveries[0][2])
        for message, service, groups, checksum, lts in deliveries:
            came_as = delivered_as(service, delivery)
            records.append(
                Record(
                    len(records), now_us, Event.DELIVER, self.daemon, self.process, groups, views, message, 1,
                    came_as, checksum, lts=lts, delivery=delivery,
                )
            )  # fmt: skip

    def _choice(self, groups: tuple[str, ...]) -> str:
        """What this client chose for messages to these groups."""
        if not any(self._choices.values()):
            return ""
        ways = [self._choices.get(group, "") for group in groups if group in self.views]
        return "" if self.name in groups else chosen(ways)

    def _views(self, groups: tuple[str, ...]) -> tuple[ViewNumber | None, ...]:
        views = self._views_of.get(groups)
        if views is None:
            views = self._views_of[groups] = tuple(map(self.views.get, groups))
        return views

    # A reader that takes its time -------------------------------------------------------------------------

    def queue(self, size_bytes: int, output: Output, now_us: int, node_now_us: int) -> bool:
        """Keep output for later; False when the hard limit is reached and the session must be cut off."""
        self.unread.append((size_bytes, output))
        self.unread_bytes += size_bytes
        self._note_lag(now_us)
        self._tell_backlog(node_now_us)
        return self.unread_bytes <= self._settings.output_hard_bytes

    def read_next(self, now_us: int, node_now_us: int) -> int:
        """The application reads the oldest waiting frame; returns its size."""
        size_bytes, output = self.unread.popleft()
        self.unread_bytes -= size_bytes
        self._read_bytes += size_bytes
        self.take(output, now_us)
        self._note_lag(now_us)
        self._tell_backlog(node_now_us)
        return size_bytes

    def _note_lag(self, now_us: int) -> None:
        """Put into the trace that the reader falls behind, or keeps up again."""
        soft_bytes = self._settings.output_soft_bytes
        is_slow = self.unread_bytes > (soft_bytes // 2 if self._is_slow else soft_bytes)
        if is_slow == self._is_slow:
            return
        self._is_slow = is_slow
        record = Record(len(self._records), now_us, Event.SLOW, self.daemon, self.process)
        record.state = "behind" if is_slow else "caught up"
        self._records.append(record)

    def _tell_backlog(self, node_now_us: int) -> None:
        is_behind = self._low_bytes >= 0
        if is_behind or not self._low_bytes < self.unread_bytes <= self._high_bytes:
            band = self._node.backlog(self.session, self.unread_bytes, self._read_bytes, node_now_us)
            self._low_bytes, self._high_bytes = band.low_bytes, band.high_bytes

    def close(self, now_us: int, cause: str) -> None:
        """The end: nothing happens at this process any more."""
        self.open = False
        self._requests.clear()
        self._waiting.pop(self, None)
        self.unread.clear()
        self._records.append(
            Record(len(self._records), now_us, Event.DISCONNECT, self.daemon, self.process, cause=cause)
        )
