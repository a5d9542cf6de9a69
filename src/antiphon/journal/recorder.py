"""The member that writes: takes what the client hands out and appends it to the log, in the order of
delivery.

What the client has ready is taken in one turn and becomes one batch, up to a bound; under light load a turn
waits a moment for more, because each batch costs the same however many rows it has.

A membership that begins when the journal has rows already (a restart, or another connection after one was
lost) begins with a gap. It tells which views the journal is in again, so the first events are retained
until it is a member of every group, or until they become too many.

At an edge messages may be missing in the middle of a membership. Then the journal ends and says so, because
rows that follow one another stand for a stream without holes.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import cast

import msgspec
from msgspec import Struct

from antiphon.calls import Call
from antiphon.client.blocking import Session
from antiphon.client.events import Event, Reconnected
from antiphon.errors import AntiphonError, Disconnected
from antiphon.journal.errors import JournalError
from antiphon.journal.log import Log
from antiphon.journal.rows import Rows
from antiphon.journal.state import Gap, JournalState
from antiphon.types import Cause, Left, Message, SlowReceiver, TransitionalSignal, View
from antiphon.types import Gap as StreamGap

BATCH_ROWS = 16_384
BATCH_BYTES = 8 * 1024 * 1024
"""A batch is written when it has one of these."""
TICK_S = 0.25
"""How often the recorder looks up when nothing comes: for retention, and for the wish to end."""
RETAINED_MAX = 100_000
RETAINED_MAX_BYTES = 64 * 1024 * 1024
"""Events that wait for the views after a gap; more are not worth the wait."""
FAREWELL_S = 5.0
"""How long an ending journal waits until it has left its groups."""


class Missed(Struct, frozen=True):
    """A gap that is known and not yet written."""

    cause: str
    why: str
    before: JournalState
    last_us: int


class Recorder:
    """Records groups into a log until it is told to stop or the session ends."""

    def __init__(
        self,
        log: Log,
        session: Session,
        groups: Sequence[str],
        *,
        linger_ms: int = 10,
        told: Callable[[Gap], None] | None = None,
        noted: Callable[[str | Reconnected], None] | None = None,
    ) -> None:
        """`told` hears of each gap once it is written; `noted` hears why the connection is lost, and then
        of the next one."""
        self._journal = log
        self._session = session
        self._groups = tuple(groups)
        self._own = frozenset(groups)
        self._refusal: AntiphonError | None = None
        self._linger_s = linger_ms / 1_000
        self._told = told
        self._noted = noted
        self._is_away = False
        self._rows = Rows()
        self._state = JournalState(session.name, self._groups)
        self._last_us = log.last_us
        self._left: set[str] = set()
        self._next_tick_s = 0.0
        self._missed: Missed | None = None
        self._expected: set[str] = set()
        """Groups whose first view of this membership has not come."""
        self._retained: list[tuple[Sequence[Event], int]] = []
        self._retained_count = self._retained_bytes = 0
        self._untold: list[Gap] = []
        """Gaps that are about to be written."""
        if log.latest:
            why = "the journal was stopped" if log.was_clean else "the journal was killed, or its machine was"
            self._miss("restart", why, log.before)

    # The life of a recorder -------------------------------------------------------------------------------

    def join(self) -> None:
        """Ask for membership of every group; the views come with the other events."""
        self._ask(self._session.join, self._groups)

    def _ask(self, request: Callable[..., None], groups: Iterable[str]) -> threading.Thread:
        """Make a request for each group, in a thread: it waits while there is no connection, we do not."""

        def ask() -> None:
            try:
                for group in groups:
                    request(group, wait=False)
            except AntiphonError as error:
                self._refusal = error

        asking = threading.Thread(target=ask, name="antiphon-journal-ask", daemon=True)
        asking.start()
        return asking

    def run(self, is_over: Callable[[], bool]) -> None:
        """Record until `is_over`, then leave the groups. Disconnected if the session ends before that."""
        try:
            while not is_over():
                self._turn(TICK_S)
            with suppress(Disconnected):  # the end was wanted, whoever brings it
                self._leave()
        finally:
            self._release()
            self._write()

    def _leave(self) -> None:
        """Leave all groups and record what comes before the end of each, so that the journal has an end."""
        self._release()
        deadline_s = time.monotonic() + FAREWELL_S
        asking = self._ask(self._session.leave, sorted(self._session.groups))
        asking.join(TICK_S)
        if asking.is_alive():  # there is no connection: nothing will come
            return
        while len(self._left) < len(self._groups) and time.monotonic() < deadline_s:
            self._turn(TICK_S)

    def _turn(self, patience_s: float) -> None:
        """Take what is there, wait a moment for more, and write it."""
        if self._refusal is not None:
            raise self._refusal
        deadline_s = time.monotonic() + patience_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                events = self._session.receive_many(left_s)
            except TimeoutError:
                self._note_loss(self._session.loss)
                break
            had_rows = self._rows.count > 0
            self._take(events)
            if not had_rows and self._rows.count:
                deadline_s = min(deadline_s, time.monotonic() + self._linger_s)
        self._write()
        if time.monotonic() >= self._next_tick_s:
            self._next_tick_s = time.monotonic() + TICK_S
            self._journal.tick()

    # Events -----------------------------------------------------------------------------------------------

    def _take(self, events: list[Event]) -> None:
        now_us = time.time_ns() // 1_000
        for run in bundles(events):
            first = run[0]
            if isinstance(first, SlowReceiver):
                continue  # about us, and no matter of the groups
            if isinstance(first, StreamGap) and first.group in self._own:
                raise JournalError(
                    f"messages to {first.group} may be missing: the edge of this journal lost its attachment "
                    f"({first.reason}). The journal ends here rather than go on with a hole; started again, "
                    "it begins with a gap, as after any stop"
                )
            if isinstance(first, Reconnected):
                self._come_back(first)
            elif self._missed is None:
                self._record(run, now_us)
            else:
                self._retain(run, now_us)

    def _record(self, run: Sequence[Event], now_us: int) -> None:
        """Make rows of a bundle, or of one other event."""
        self._last_us = now_us
        match run[0]:
            case Message(envelope=envelope):
                group = next((group for group in envelope.groups if group in self._own), None)
                if group is None:  # to this session alone: no matter of the groups
                    return
                self._rows.add_messages(
                    cast(Sequence[Message], run), group, self._state.views.get(group), now_us
                )
            case Call(is_again=False) as call:
                # What was asked is part of the group's stream; answers are between the libraries.
                view_id = self._state.views.get(call.group)
                self._rows.add_messages([call.message], call.group, view_id, now_us)
            case View() as view:
                self._state = self._state.with_view(view.group, str(view.id))
                self._journal.state = self._state
                self._rows.add_view(view, now_us)
            case TransitionalSignal() as signal:
                self._rows.add_signal(signal, now_us)
            case Left(group=group):
                self._left.add(group)
        if self._rows.count >= BATCH_ROWS or self._rows.size_bytes >= BATCH_BYTES:
            self._write()

    def _write(self) -> None:
        if self._rows.count:
            self._journal.append(self._rows)
        while self._untold:
            gap = self._untold.pop(0)
            if self._told is not None:
                self._told(gap)

    # Gaps -------------------------------------------------------------------------------------------------

    def _miss(self, cause: str, why: str, before: JournalState) -> None:
        self._missed = Missed(cause, why, before, self._last_us)
        self._expected = set(self._groups)

    def _come_back(self, event: Reconnected) -> None:
        """Another connection: whatever was sent between the two is missing."""
        self._note_loss(event.reason)  # it may have been too short to be seen
        self._is_away = False
        if self._noted is not None:
            self._noted(event)
        self._release()
        self._miss("reconnect", event.reason, self._state)
        self._state = JournalState(event.name, self._groups)

    def _note_loss(self, loss: str | None) -> None:
        if loss is not None and not self._is_away:
            self._is_away = True
            if self._noted is not None:
                self._noted(loss)

    def _retain(self, run: Sequence[Event], now_us: int) -> None:
        """Keep events until it is known in which views the journal is again."""
        self._retained.append((run, now_us))
        self._retained_count += len(run)
        self._retained_bytes += sum(len(event.payload) for event in run if isinstance(event, Message))
        event = run[0]
        if isinstance(event, View) and event.cause is Cause.JOIN and self._state.name in event.changed:
            self._expected.discard(event.group)
        if (
            not self._expected
            or self._retained_count >= RETAINED_MAX
            or self._retained_bytes >= RETAINED_MAX_BYTES
        ):
            self._release()

    def _release(self) -> None:
        """Write the gap, then what was retained for it."""
        missed = self._missed
        if missed is None:
            return
        retained, self._retained = self._retained, []
        self._retained_count = self._retained_bytes = 0
        self._missed = None
        events = [run[0] for run, _ in retained]
        views = {event.group: str(event.id) for event in reversed(events) if isinstance(event, View)}
        log = self._journal
        gap = Gap(
            missed.why,
            log.latest + self._rows.count - 1,
            missed.last_us,
            missed.before,
            JournalState(self._state.name, self._groups, views),
            log.journal_before if missed.cause == "restart" else "",
            log.cut if missed.cause == "restart" else (),
            may_be_incomplete=bool(self._expected),
        )
        now_us = retained[0][1] if retained else time.time_ns() // 1_000
        self._rows.add_gap(self._groups, missed.cause, msgspec.json.encode(gap), now_us)
        self._untold.append(gap)
        for run, retained_us in retained:
            self._record(run, retained_us)


def bundles(events: list[Event]) -> Iterator[list[Event]]:
    """The events in order, messages of one bundle together, everything else alone."""
    at, count = 0, len(events)
    while at < count:
        end = at + 1
        first = events[at]
        if type(first) is Message:
            envelope = first.envelope
            while end < count and getattr(events[end], "envelope", None) is envelope:
                end += 1
        yield events[at:end]
        at = end
