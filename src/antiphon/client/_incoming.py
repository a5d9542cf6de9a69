"""What comes from the daemon: bytes cut into frames, bundles kept whole until the application takes them.

Shared by the asyncio and the blocking session. `space` and `filled` bracket a `recv_into`; `refill` decodes
the next queued item into `ready`, from which events are popped one by one. Between the two a bundle is one
buffer, so that its cost does not depend on how many messages it holds.
"""

from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from antiphon import limits
from antiphon.calls import Call
from antiphon.client._calls import ClientCalls
from antiphon.client._diary import ASKED, Diary
from antiphon.client._ledger import Ledger
from antiphon.client._locks import LockTable
from antiphon.client._time import TimeQuestions
from antiphon.client.batches import BatchMemory
from antiphon.client.events import Event, LockGone, LockGranted, NotSent, Reconnected, Sent, Unsure
from antiphon.errors import BadFrame, NotAllowed, UsageError
from antiphon.service import Service
from antiphon.types import Cause, Gap, Left, LockChanged, Message, SlowReceiver, TransitionalSignal, View
from antiphon.wire import bundle, frames
from antiphon.wire.calls import mark_of

GOODBYE_CODE = "bye"
"""The daemon's word when it has carried out our Disconnect."""
BUFFER_BYTES = 256 * 1024
"""Read in one call: a few bundles. It grows while a larger frame arrives and shrinks back after it."""


class _Return(Struct, frozen=True):
    """The place in the stream at which a new connection begins."""

    event: Reconnected
    lost: Ledger
    fresh: Ledger
    cause: str
    """Why the old session ended, as one word."""
    diary: Diary | None


class _Unshown(Struct, frozen=True):
    """What the application does not want to hear of, and the trace does."""

    event: View | TransitionalSignal | Left


class _Marked(Struct, frozen=True):
    """A message that belongs to a call, and what the application gets in its place."""

    messages: list[Message]
    shown: list[Message] | list[Call]


_Shown = SlowReceiver | NotSent | Gap | Unsure | LockGranted | LockGone | Call
"""Events of which a trace does not tell, or not here: of what is not sent, daemons do."""
_Item = (
    bytes
    | View
    | LockChanged
    | TransitionalSignal
    | Left
    | _Unshown
    | _Marked
    | _Shown
    | frames.Problem
    | NotAllowed
    | _Return
)
"""What waits in the queue: a bundle as bytes, an event, or what is raised or done in its place."""


class Incoming:
    """The receive buffer, the queue of undecoded frames, and the events decoded from its head."""

    def __init__(self) -> None:
        self.ready: deque[Event] = deque()
        """Decoded events, next first."""
        self.queued_bytes = 0
        """Bytes of frames that the application has not reached yet."""
        self.answer: frames.Welcome | frames.Refuse | None = None
        self.goodbye: frames.Goodbye | None = None
        self.status: frames.Status | None = None
        self.reloaded: frames.Reloaded | None = None
        self.times = TimeQuestions()
        self.calls: ClientCalls | None = None
        self.locks: LockTable | None = None
        """Both are set by the session that reads from here."""
        self.ledger = Ledger()
        """The ledger of the connection that is being read."""
        self.untold: list[Sent] = []
        self.untold_count = 0
        """Messages whose unknown fate was told in an event that `drop` threw away, and how many."""
        self.effects: Counter[str] = Counter()
        """Own joins and leaves that have taken effect, by group."""
        self.shows_views = True
        """Whether the application wants views; our own joins and leaves are confirmed by one in any case."""
        self.without_quorum: set[str] = set()
        """The groups of which the last view said that they have no quorum, and that this is decided."""
        self.denied: dict[str, str] = {}
        """Groups and private names to which this session may not send, and why."""
        self.denied_joins: dict[str, NotAllowed] = {}
        """Groups that somebody waits to join, and may not."""
        self.joining: set[str] = set()
        """Groups that somebody waits to join."""
        self.on_join_denied: Callable[[str], object] = lambda group: None
        """Told that the session is not going to be a member of a group."""
        self.batches = BatchMemory()
        """What has been handed out of batches that may come again."""
        self.diary: Diary | None = None
        """The trace of the session that brought what is decoded now, if one is kept."""
        self._reached = self.ledger
        """The ledger of the connection that brought what is decoded now; behind `ledger` while a `_Return`
        waits."""
        self._events: deque[tuple[_Item, int]] = deque()
        self._drops = False
        self._buffer = bytearray(BUFFER_BYTES)
        self._filled = 0
        self._handlers: dict[type, Callable[[frames.FromDaemon, int], None]] = {
            frames.Welcome: self._on_answer,
            frames.Refuse: self._on_answer,
            frames.ViewFrame: self._on_view,
            frames.SignalFrame: self._on_signal,
            frames.Accepted: self._on_accepted,
            frames.LeftFrame: self._on_left,
            frames.NotSent: self._on_not_sent,
            frames.Denied: self._on_denied,
            frames.RightsChanged: self._on_rights_changed,
            frames.Reloaded: self._on_reloaded,
            frames.GapFrame: self._on_gap,
            frames.Unsure: self._on_unsure,
            frames.LockFrame: self._on_lock,
            frames.SlowFrame: self._on_slow,
            frames.Problem: self._on_problem,
            frames.Status: self._on_status,
            frames.Time: self._on_time,
            frames.Goodbye: self._on_goodbye,
        }

    @property
    def has_answer(self) -> bool:
        """Whether the daemon has answered the first question, one way or another."""
        return bool(self.answer or self.status or self.reloaded or self.goodbye or self.complains)

    @property
    def is_full(self) -> bool:
        """Whether the library should stop reading until the application has taken more."""
        return self.queued_bytes > limits.CLIENT_EVENTS_MAX_BYTES

    @property
    def has_room(self) -> bool:
        """Whether the application has taken enough to start reading again."""
        return self.queued_bytes <= limits.CLIENT_EVENTS_MAX_BYTES // 2

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return memoryview(self._buffer)[self._filled :]

    def filled(self, count: int) -> None:
        """`count` bytes arrived in `space()`. BadFrame if they are not what a daemon says."""
        self._filled += count
        found, used, needed = frames.split(memoryview(self._buffer)[: self._filled])
        for kind, frame in found:
            if kind == frames.FrameKind.BUNDLE:
                if bundle.has_extensions(frame) and self.calls is not None:
                    self._take_extended(bytes(frame), self.calls)
                else:
                    self._queue(bytes(frame), len(frame))
            else:
                value = frames.decode_from_daemon(frame)
                self._handlers[type(value)](value, len(frame))
        self._make_room(used, needed)

    @property
    def is_queued(self) -> bool:
        """Whether something waits for `refill`."""
        return bool(self._events)

    @property
    def complains(self) -> bool:
        """Whether the next queued item is not an event but a daemon's complaint, which `refill` raises."""
        try:
            return isinstance(self._events[0][0], frames.Problem | NotAllowed)
        except IndexError:
            return False

    def refill(self) -> bool:
        """Decode the next queued item into `ready`; False if none is queued.

        Raises UsageError for a request that the daemon could not carry out, and BadFrame for a broken
        bundle: nothing of that connection is handed out after it, so that the application never meets a gap.
        """
        try:
            item, size = self._events.popleft()
        except IndexError:
            return False
        self.queued_bytes -= size
        if type(item) is bytes:
            try:
                messages = bundle.decode(item)
            except BadFrame:
                if self._skip_to_return():
                    return True
                raise
            self._note_own(messages)
            if self.diary is not None:
                self.diary.took_bundle(messages)
            if messages[0].envelope.batch is not None:
                messages = self._new_of(messages)
            self.ready.extend(messages)
        elif isinstance(item, frames.Problem):
            raise UsageError(f"{item.reason} ({item.code})")
        elif isinstance(item, NotAllowed):
            raise item
        elif isinstance(item, _Return):
            self._reached = item.fresh
            self._turn_page(item)
            self.ready.append(self._told(item))
        elif isinstance(item, _Unshown):
            assert self.diary is not None
            self.diary.took(item.event)
        elif isinstance(item, _Marked):
            self._note_own(item.messages)
            if self.diary is not None:
                self.diary.took_bundle(item.messages)
            self.ready.extend(item.shown)
        elif isinstance(item, _Shown):  # nothing for a trace
            self.ready.append(item)
        else:
            assert isinstance(item, View | LockChanged | TransitionalSignal | Left)
            if self.diary is not None:
                self.diary.took(item)
            self.ready.append(item)
        return True

    def go_on(self, fresh: "Incoming", event: Reconnected) -> None:
        """What comes from here on comes over a new connection, which `fresh` has greeted.

        May be called while another thread takes events: it only adds to the queue. What came together with
        the greeting does not count as waiting, because another thread may be counting.
        """
        self._buffer, self._filled = fresh._buffer, fresh._filled
        cause = self._cause()
        self.answer, self.goodbye = fresh.answer, fresh.goodbye
        lost, self.ledger = self.ledger, fresh.ledger
        self.without_quorum.clear()  # the new session joins anew
        self.denied.clear()
        self._events.append((_Return(event, lost, fresh.ledger, cause, fresh.diary), 0))
        self._events.extend((item, 0) for item, _ in fresh._events)

    def drop(self) -> None:
        """From here on events are thrown away: the application does not want them any more."""
        self._drops = True
        waiting = [self._told(item) if isinstance(item, _Return) else item for item, _ in self._events]
        for event in (*self.ready, *waiting):
            if isinstance(event, Reconnected):
                self._keep_untold(event.unknown, event.unknown_fate)
            elif isinstance(event, Unsure):
                self._keep_untold(event.messages, event.count)
        for item, _ in self._events:
            if isinstance(item, _Return):
                self._turn_page(item)
        self._events.clear()
        self.ready.clear()
        self.queued_bytes = 0

    def _keep_untold(self, messages: tuple[Sent, ...], count: int) -> None:
        self.untold += messages
        self.untold_count += count

    def end_diary(self) -> None:
        """The application gets nothing more: so ends the trace of the session."""
        if self.diary is not None:
            self.diary.ended(self._cause())

    def _turn_page(self, item: _Return) -> None:
        """What follows happens to a new session, which has a diary of its own."""
        if self.diary is not None:
            self.diary.ended(item.cause)
        self.diary = item.diary

    def _cause(self) -> str:
        """Why the session that is being read has ended, in a word."""
        if self.goodbye is None:
            return "broken"
        return ASKED if self.goodbye.code == GOODBYE_CODE else self.goodbye.code

    def _queue_unshown(self, event: View | TransitionalSignal | Left) -> None:
        if self.diary is not None:
            self._queue(_Unshown(event), 0)

    def _queue(self, item: _Item, size: int) -> None:
        if not self._drops:
            self._events.append((item, size))
            self.queued_bytes += size

    def _take_extended(self, frame: bytes, calls: ClientCalls) -> None:
        """A bundle with extensions: a call is looked at now, so that answers need nobody who takes events."""
        try:
            mark = mark_of(bundle.parse(frame).extensions)
            messages = bundle.decode(frame) if mark is not None else []
        except BadFrame:
            mark, messages = None, []  # found out in its place
        if mark is None or len(messages) != 1:
            self._queue(frame, len(frame))
            return
        is_plain, shown = calls.message(mark, messages[0])
        self._queue(_Marked(messages, messages if is_plain else shown), len(frame))

    def queue_calls(self, calls: list[Call]) -> None:
        """Calls that have become this session's to answer."""
        for call in calls:
            self._queue(call, len(call.payload))

    def lose_locks(self, reason: str) -> None:
        """The connection is lost."""
        if self.locks is not None:
            for event in self.locks.lost(reason):
                self._queue(event, 0)

    def _skip_to_return(self) -> bool:
        """Throw away what is left of a connection; whether another one follows in the queue."""
        while self._events:
            if isinstance(self._events[0][0], _Return):
                return True
            self.queued_bytes -= self._events.popleft()[1]
        return False

    def _told(self, item: _Return) -> Reconnected:
        """The event, made when it is reached: what came back before the end is known to be accepted then."""
        return replace(item.event, unknown=item.lost.unknown(), unknown_fate=item.lost.unaccepted())

    def _note_own(self, messages: list[Message]) -> None:
        """A safe message of our own that came back was accepted, and so was everything sent before it.

        Of other services that would say too much: our daemon delivers them before it knows that others have
        them, and may crash then.
        """
        welcome = self._reached.welcome
        last = messages[-1]
        envelope = last.envelope
        if (
            welcome is not None
            and envelope.service is Service.SAFE
            and envelope.session == welcome.session
            and envelope.daemon == welcome.daemon_number
        ):
            self._reached.accept(envelope.sequence + last.index)

    def _new_of(self, messages: list[Message]) -> list[Message]:
        """The messages of a bundle of a batch that were not handed out before."""
        stamp = messages[0].envelope.batch
        assert stamp is not None
        return [
            message
            for start, end in self.batches.take(stamp, len(messages))
            for message in messages[start:end]
        ]

    def _make_room(self, used: int, needed: int) -> None:
        """Move the unfinished frame to the front of a buffer in which more of it fits.

        The buffer doubles as data arrives: a length alone never makes it allocate.
        """
        left = self._filled - used
        capacity = len(self._buffer)
        if left == capacity:
            wanted = min(2 * capacity, needed)
        elif needed <= BUFFER_BYTES:
            wanted = BUFFER_BYTES
        else:
            wanted = capacity
        if wanted != capacity:
            fresh = bytearray(wanted)
            fresh[:left] = self._buffer[used : self._filled]
            self._buffer = fresh
        elif used and left:
            self._buffer[:left] = self._buffer[used : self._filled]
        self._filled = left

    # Control frames ---------------------------------------------------------------------------------------

    def _on_answer(self, value: frames.FromDaemon, size: int) -> None:
        if self.answer is not None:
            raise BadFrame("control frame: a second answer")
        assert isinstance(value, frames.Welcome | frames.Refuse)
        self.answer = value
        if isinstance(value, frames.Welcome):
            self.ledger.welcome = value

    def _on_view(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.ViewFrame)
        view = value.view
        if (
            view.cause is Cause.JOIN
            and isinstance(self.answer, frames.Welcome)
            and self.answer.name in view.changed
        ):
            self.effects[view.group] += 1
        if view.has_quorum or view.is_deciding:
            self.without_quorum.discard(view.group)
        else:
            self.without_quorum.add(view.group)
        if self.shows_views:
            self._queue(view, size)
        else:
            self._queue_unshown(view)
        if self.locks is not None and self.calls is not None:
            for event in self.locks.view(view):
                self._queue(event, 0)
            self.queue_calls(self.calls.view(view))

    def _on_signal(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.SignalFrame)
        if self.shows_views:
            self._queue(value.signal, size)
        else:
            self._queue_unshown(value.signal)

    def _on_accepted(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.Accepted)
        self.ledger.accept(value.sequence)

    def _on_left(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.LeftFrame)
        self.effects[value.left.group] += 1
        self.without_quorum.discard(value.left.group)
        if self.shows_views:
            self._queue(value.left, size)
        else:
            self._queue_unshown(value.left)
        if self.locks is not None and self.calls is not None:
            for event in self.locks.left(value.left.group):
                self._queue(event, 0)
            self.calls.left(value.left.group)

    def _on_lock(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.LockFrame)
        change = value.change
        self._queue(change, size)
        if self.locks is not None and self.calls is not None:
            self.locks.change(change)
            self.queue_calls(self.calls.lock(change))

    def _on_not_sent(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.NotSent)
        messages = self.ledger.refuse(value.sequence, value.count)
        error: NotAllowed | None = None
        if value.reason:
            error = NotAllowed(value.reason)
        if self.calls is not None and self.calls.not_sent(value.sequence, value.count, value.group, error):
            return  # whoever made the call is told
        if value.reason:
            self.denied[value.group] = value.reason
        self._queue(NotSent(value.group, messages, value.count, value.reason), size)

    def _on_denied(self, value: frames.FromDaemon, size: int) -> None:
        """A join or a lock is refused. Whoever waits for it is told, or else whoever takes events."""
        assert isinstance(value, frames.Denied)
        error = NotAllowed(value.reason, value.code)
        if value.verb == "lock":
            if self.locks is not None:
                self.locks.deny(value.group, value.lock, error)
            return
        self.effects[value.group] += 1
        self.on_join_denied(value.group)
        if value.group in self.joining:
            self.denied_joins[value.group] = error
        else:
            self._queue(error, size)

    def _on_rights_changed(self, value: frames.FromDaemon, size: int) -> None:
        self.denied.clear()

    def _on_reloaded(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.Reloaded)
        self.reloaded = value

    def _on_gap(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.GapFrame)
        self._queue(value.gap, size)

    def _on_unsure(self, value: frames.FromDaemon, size: int) -> None:
        """A call among these is repeated by who made it, and members recognise it."""
        assert isinstance(value, frames.Unsure)
        messages, count = self.ledger.doubt(value.sequence, value.count)
        if not count:
            return
        event = Unsure(messages, count, value.sequence, value.sequence + value.count - 1)
        if self._drops:
            self._keep_untold(event.messages, event.count)
        self._queue(event, size)

    def _on_slow(self, value: frames.FromDaemon, size: int) -> None:
        """The application is to hear of it before it takes what has made it slow; but not before it hears
        that the connection is another one."""
        assert isinstance(value, frames.SlowFrame)
        if self._drops:
            return
        if self._reached is self.ledger:
            self._events.appendleft((value.slow, 0))
        else:
            self._queue(value.slow, 0)

    def _on_problem(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.Problem)
        self._queue(value, size)

    def _on_status(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.Status)
        self.status = value

    def _on_time(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.Time)
        self.times.take(value)

    def _on_goodbye(self, value: frames.FromDaemon, size: int) -> None:
        assert isinstance(value, frames.Goodbye)
        self.goodbye = value
