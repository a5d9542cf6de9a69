"""Causal delivery at the receiver: a bundle is delivered as soon as its past is, ahead of its place.

A bundle is *resolved* at a daemon when it was delivered there and everything in its past that is for this
daemon's site is resolved, too. Reliable bundles may be delivered before their past, so the two are not the
same. A causal bundle whose past is resolved is delivered at once. One whose past is not waits; at the latest
it is delivered in its place in the agreed order, where all of its past comes before it anyway. That is what
makes everything else simple: whatever is not known exactly (a history that was cut short, a bundle from
before histories were told, a copy that a late join needs) is told as a line, and the bundle waits until the
agreed order has passed it.

Follows: NAVTECH 4.2, the rules R3 (causal delivery) and R5 (one number for each sender suffices).
Deviations:
- the processes are sessions when a past is put together (`histories`) and daemons when it is waited for: a
  daemon delivers a bundle to all of its sessions at once
- bundles of all services take part in the past of a causal one, so all of them are resolved at some time
Checked by: tests/paper/test_causal.py, tests/unit/test_histories.py, the oracle's properties 2.12 and
"no needless waiting".
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Sender
from antiphon.wire.history import Cause, History


class _Waiter:
    """A bundle that is not resolved."""

    __slots__ = ("entry", "is_past_done", "may_overtake", "needs", "watched")

    def __init__(self, entry: Entry, needs: list[Cause], may_overtake: bool) -> None:
        self.entry = entry
        self.needs = needs
        """Causes that are not resolved, as far as it was looked at; the last one is watched."""
        self.may_overtake = may_overtake
        """Whether it is delivered as soon as its past is done."""
        self.watched: Cause | None = None
        self.is_past_done = False


class CausalQueue:
    """The bundles of one daemon in one view that have histories, until they are resolved."""

    def __init__(self, site: int, deliver: Callable[[Entry], None]) -> None:
        """`deliver` hands a bundle up ahead of its place, and reports back through `handed_up`."""
        self.is_active = False
        """Whether a bundle with a history has come in this view."""
        self.line = 0
        """Everything that was born up to here has come and is delivered."""
        self.overtook = 0
        """How many bundles were delivered ahead of their places."""
        self._site = site
        self._deliver = deliver
        self._is_stopped = False
        self._resolved: dict[Sender, int] = {}
        self._waiters: dict[tuple[int, int], _Waiter] = {}  # by source and number
        self._by_sender: dict[Sender, dict[_Waiter, None]] = {}
        self._by_line: list[tuple[int, int, _Waiter]] = []
        self._pushed = 0  # decides between equal lines
        self._late: list[int] = []  # lts values of late copies, ascending, as far as beyond the line
        self._woken: deque[tuple[_Waiter, Sender | None]] = deque()
        self._is_waking = False

    @property
    def waiting_count(self) -> int:
        """Bundles that have come and are not resolved."""
        return len(self._waiters)

    # What comes in ----------------------------------------------------------------------------------------

    def came(self, entry: Entry, history: History, may_overtake: bool) -> None:
        """A bundle with a history has come; it may have been delivered already. `may_overtake`: it is causal,
        and nothing binds it to its place."""
        self.is_active = True
        site = self._site
        needs = [cause for cause in history.causes if cause.sites >> site & 1 and not self._is_met(cause)]
        line = max(history.floor, history.stable, self._late_before(entry.header.lts))
        if line > self.line:
            needs.append(_everything_up_to(line))
        waiter = _Waiter(entry, needs, may_overtake)
        self._waiters[entry.source, entry.header.number] = waiter
        self._wake(waiter)

    def came_late(self, lts: int) -> None:
        """A late copy has come: no history says that it was for this site, so what is born after it waits."""
        insort(self._late, lts)

    def _late_before(self, lts: int) -> int:
        """The newest late copy that was born before `lts`; 0: there is none."""
        place = bisect_left(self._late, lts)
        return self._late[place - 1] if place else 0

    def handed_up(self, entry: Entry) -> None:
        """A bundle was delivered, in its place or ahead of it."""
        waiter = self._waiters.get((entry.source, entry.header.number))
        if waiter is not None and waiter.is_past_done:
            self._resolve(waiter)

    def reach(self, line: int) -> None:
        """Everything that was born up to `line` has come and is delivered."""
        if line <= self.line:
            return
        self.line = line
        del self._late[: bisect_left(self._late, line + 1)]
        by_line = self._by_line
        while by_line and by_line[0][0] <= line:
            self._wake(heappop(by_line)[2])

    def forget(self, senders: Iterable[Sender]) -> None:
        """Sessions are over: everything that they sent is behind the line."""
        for sender in senders:
            self._resolved.pop(sender, None)

    def stop(self) -> None:
        """The view has stopped: what is left is delivered in the agreed order."""
        self._is_stopped = True

    # Questions --------------------------------------------------------------------------------------------

    def is_resolved(self, sender: Sender, number: int, lts: int) -> bool:
        """Whether a bundle that was for this site is resolved here."""
        return lts <= self.line or self._resolved.get(sender, 0) >= number

    def _is_met(self, cause: Cause) -> bool:
        return cause.lts <= self.line or (
            cause.number > 0 and self._resolved.get((cause.daemon, cause.session), 0) >= cause.number
        )

    # Waiting ----------------------------------------------------------------------------------------------

    def _wake(self, waiter: _Waiter, sender: Sender | None = None) -> None:
        """Look again at a bundle because of news, or because of a sender's. What follows from that may wake
        others, which have their turn afterwards: chains of causes are long."""
        self._woken.append((waiter, sender))
        if self._is_waking:
            return
        self._is_waking = True
        while self._woken:
            self._look(*self._woken.popleft())
        self._is_waking = False

    def _look(self, waiter: _Waiter, sender: Sender | None) -> None:
        if waiter.is_past_done:
            return
        needs = waiter.needs
        while needs and self._is_met(needs[-1]):
            needs.pop()
        if not needs:
            self._past_is_done(waiter)
            return
        cause = needs[-1]
        by = (cause.daemon, cause.session)
        if cause is not waiter.watched:
            waiter.watched = cause
            self._pushed += 1
            heappush(self._by_line, (cause.lts, self._pushed, waiter))
        elif by != sender:
            return
        if cause.number:
            self._by_sender.setdefault(by, {})[waiter] = None

    def _past_is_done(self, waiter: _Waiter) -> None:
        waiter.is_past_done = True
        if waiter.entry.delivered:
            self._resolve(waiter)
        elif waiter.may_overtake and not self._is_stopped:
            self.overtook += 1
            self._deliver(waiter.entry)

    def _resolve(self, waiter: _Waiter) -> None:
        header = waiter.entry.header
        del self._waiters[waiter.entry.source, header.number]
        sender = (header.daemon, header.session)
        if header.number > self._resolved.get(sender, 0):
            self._resolved[sender] = header.number
        for woken in self._by_sender.pop(sender, ()):
            self._wake(woken, sender)


def _everything_up_to(line: int) -> Cause:
    """No bundle has the number 0."""
    return Cause(0, 0, 0, line, 0)
