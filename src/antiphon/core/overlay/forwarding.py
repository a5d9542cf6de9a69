"""Where a daemon sends and forwards packets: along the branches of their source's tree that have receivers.

Follows: Spread paper 3.2 (non-blocking forwarding, pruning), thesis 3.4.2.
Deviations: a branch without receivers is told of skipped bundles in ranges, at once but never more often than
delta, rather than in one meta-packet per message. The rule stays that whatever a branch gets next of the same
source is preceded by what it skipped.
"""

from collections.abc import Mapping
from typing import Protocol

from antiphon.core.overlay.delta import Delta
from antiphon.core.overlay.routing import SITE, Branch
from antiphon.wire.bundle import Start
from antiphon.wire.packet import Fragment, Pressure, Skip, Update


class _Skipped:
    """Bundles of one source that one branch was not sent and not yet told about."""

    __slots__ = ("due_us", "is_urgent", "pending", "told_us")

    def __init__(self) -> None:
        self.pending: Skip | None = None
        self.told_us = -(10**15)
        self.due_us: int | None = None
        self.is_urgent = False
        """Whether a bundle among them waits until every source has been heard."""


class Way(Protocol):
    """Where a branch begins: a link, or the site link."""

    def send(self, fragment: Fragment) -> None: ...

    def send_unreliable(self, fragment: Fragment) -> None: ...

    def send_update(self, update: Update) -> None: ...

    def send_skip(self, skip: Skip) -> None: ...

    def send_pressure(self, pressure: Pressure) -> None: ...


class Forwarder:
    """Sends what starts at this daemon, and passes on what comes through.

    What came over the site link, all others of the segment have received, too.
    """

    def __init__(
        self,
        branches: dict[int, tuple[Branch, ...]],
        links: Mapping[int, Way],
        site: Way | None,
        delta: Delta,
    ) -> None:
        self._all = branches
        self._outward = {
            source: tuple(branch for branch in some if branch.neighbour != SITE)
            for source, some in branches.items()
        }
        self._ways: dict[int, Way] = dict(links)
        if site is not None:
            self._ways[SITE] = site
        self._delta = delta
        self._skipped: dict[tuple[int, int], _Skipped] = {}
        self.due_us: int | None = None
        """When a branch must be told of what it skipped."""
        self.touched: dict[int, None] = {}
        """Neighbours for which there is something to send since the owner last cleared this, in order."""

    def bundle(self, fragment: Fragment, *, lts: int, aru: int, is_urgent: bool, now_us: int) -> None:
        """A whole bundle starts here. One that is not urgent is delivered without an announcement of the
        sites that skip it."""
        for branch in self._all[fragment.source]:
            if branch.below & fragment.destinations:
                self._send(branch.neighbour, fragment)
            else:
                skip = Skip(fragment.source, fragment.number, fragment.number, lts, aru)
                self._skip(branch.neighbour, skip, now_us, is_urgent)

    def _branches(self, source: int, from_site: bool) -> tuple[Branch, ...]:
        return self._outward[source] if from_site else self._all[source]

    def fragment(self, fragment: Fragment, start: Start | None, now_us: int, from_site: bool) -> None:
        """Bytes of a bundle pass through, whatever else of it is still missing. With its `start`, the
        branches without receivers skip the bundle."""
        branches = self._branches(fragment.source, from_site)
        if not branches:
            return
        for branch in branches:
            if branch.below & fragment.destinations:
                self._send(branch.neighbour, fragment)
        if start is not None:
            skip = Skip(fragment.source, fragment.number, fragment.number, start.lts, start.aru)
            for branch in branches:
                if not branch.below & fragment.destinations:
                    self._skip(branch.neighbour, skip, now_us, start.is_urgent)

    def unreliable(self, fragment: Fragment, from_site: bool = False) -> None:
        for branch in self._branches(fragment.source, from_site):
            if branch.below & fragment.destinations:
                self._ways[branch.neighbour].send_unreliable(fragment)
                self.touched[branch.neighbour] = None

    def announce(self, update: Update) -> None:
        """An update of our own segment. Its members know from the token, unless they are to pass it on."""
        for branch in self._all[update.source]:
            if branch.is_through:
                self._update(branch.neighbour, update)

    def update(self, update: Update, from_site: bool) -> None:
        """An update goes to every site."""
        for branch in self._branches(update.source, from_site):
            self._update(branch.neighbour, update)

    def _update(self, neighbour: int, update: Update) -> None:
        self._tell(neighbour, update.source)
        self._ways[neighbour].send_update(update)
        self.touched[neighbour] = None

    def pressure(self, pressure: Pressure, from_site: bool = False) -> None:
        """A daemon's list of slow sessions goes to every daemon."""
        for branch in self._branches(pressure.source, from_site):
            link = self._ways[branch.neighbour]
            link.send_pressure(pressure)
            self.touched[branch.neighbour] = None

    def skip(self, skip: Skip, now_us: int, from_site: bool) -> None:
        """What a branch skipped, everything behind it skips."""
        for branch in self._branches(skip.source, from_site):
            self._skip(branch.neighbour, skip, now_us)

    def _send(self, neighbour: int, fragment: Fragment) -> None:
        if self._skipped:
            self._tell(neighbour, fragment.source)
        self._ways[neighbour].send(fragment)
        self.touched[neighbour] = None

    def _skip(self, neighbour: int, skip: Skip, now_us: int, is_urgent: bool = True) -> None:
        skipped = self._skipped.setdefault((neighbour, skip.source), _Skipped())
        pending = skipped.pending
        if pending is not None and skip.first == pending.last + 1:
            skip = Skip(skip.source, pending.first, skip.last, skip.lts, skip.aru)
        elif pending is not None:
            self._tell(neighbour, skip.source)
        is_earlier_urgent = skipped.pending is not None and skipped.is_urgent
        skipped.pending = skip
        skipped.is_urgent = is_urgent or is_earlier_urgent
        wait_us = self._delta.wait_us(skip.last - skip.first, skipped.is_urgent)
        skipped.due_us = max(now_us, skipped.told_us + wait_us)
        if self.due_us is None or skipped.due_us < self.due_us:
            self.due_us = skipped.due_us

    def _tell(self, neighbour: int, source: int) -> None:
        skipped = self._skipped.get((neighbour, source))
        if skipped is not None and skipped.pending is not None:
            self._ways[neighbour].send_skip(skipped.pending)
            self.touched[neighbour] = None
            skipped.pending = None

    # Time -----------------------------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        return all(skipped.pending is None for skipped in self._skipped.values())

    def timeout(self, now_us: int) -> None:
        if self.due_us is None or self.due_us > now_us:
            return
        self.due_us = None
        for (neighbour, source), skipped in self._skipped.items():
            if skipped.pending is None or skipped.due_us is None:
                continue
            if skipped.due_us <= now_us:
                self._tell(neighbour, source)
                skipped.told_us = now_us
            elif self.due_us is None or skipped.due_us < self.due_us:
                self.due_us = skipped.due_us
