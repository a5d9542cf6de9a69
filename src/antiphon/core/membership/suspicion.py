"""Suspicion: which neighbours of a view are silent for too long, and whether this daemon was itself stopped.

Follows: thesis 6.1.3 ("locally detect a link failed").
Deviations: the patience with a neighbour follows the measured round trip, its variance and the slowest answer
of late, from a floor up to a ceiling; a neighbour that owes an answer is asked again and again, so that a few
lost packets do not look like a lost peer; a daemon that was itself stopped (its deadlines passed unserved)
excuses its peers for that time first.
Checked by: tests/paper/test_daemon_membership.py, tests/unit/test_suspicion.py.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from antiphon.core.links.link import Link, LinkState, Signs
from antiphon.core.links.site import Mate
from antiphon.core.membership.daemons import DaemonMembership
from antiphon.core.membership.rounds import Reason

PAUSE_SHARE = 8
"""A daemon whose deadline is late by the least suspicion, divided by this, was stopped."""
REPETITIONS = 5
"""A neighbour that owes a sign of life is asked so many times more, and has the time of an answer after the
last one, too."""
ANSWERS_SLOW = 3


class Linked(Protocol):
    """What has the links of a view."""

    def neighbours(self) -> Iterable[tuple[int, Link | Mate]]:
        """The daemons with which this one exchanges packets in the view, and what it knows of each path."""


class Suspicion:
    """Looks at the links of a daemon now and then: not after every event, because it is much work."""

    def __init__(
        self,
        membership: DaemonMembership,
        working: Callable[[], Linked | None],
        names: tuple[str, ...],
        now_us: int,
    ) -> None:
        """`working` gives the links of the view over which this daemon works, if there is one."""
        self.due_us = now_us
        """When to look next."""
        self.pauses = 0
        """How often this daemon was stopped itself."""
        self._membership = membership
        self._working = working
        self.names = names
        """By daemon number."""
        self._timing = membership.timing
        self._signs = Signs(self._timing.hello_us, self._timing.ask_us)
        self.awaited_us: int | None = None
        """When the driver was told to come back."""
        self._handled_us = now_us  # when the last event was handled

    def _neighbours(self) -> Iterable[tuple[int, Link | Mate]]:
        linked = self._working()
        return () if linked is None else linked.neighbours()

    def notice_pause(self, now_us: int) -> None:
        """Was this daemon itself stopped? Then no other one is late because of that."""
        before_us, self._handled_us = self._handled_us, now_us
        if self.awaited_us is None or now_us <= self.awaited_us:
            return
        pause_us = now_us - max(self.awaited_us, before_us)  # what waited meanwhile is handled one by one
        self.awaited_us = None
        if pause_us > self._timing.suspect_us // PAUSE_SHARE:
            self.pauses += 1
            self._membership.excuse(pause_us)
            for _, link in self._neighbours():
                link.heard_us += pause_us

    def look(self, is_forming: bool, now_us: int) -> None:
        """Suspect the neighbours that are silent for too long or do not get what we send; send the proposal
        again to neighbours that may not have got it, while its view is being formed."""
        self.due_us = now_us + (self._timing.join_us if is_forming else self._timing.ask_us)
        self._membership.presence.flapping.fading = frozenset(
            number
            for number, link in self._neighbours()
            if now_us - link.heard_us >= (self._asked_after_us(link) + self.patience_us(link)) // 2
        )
        for number, link in self._neighbours():
            limit_us = self.patience_us(link)
            silent_us = now_us - link.heard_us
            name = self.names[number]
            if silent_us >= limit_us:
                detail = f"{name} was silent for {silent_us / 1e6:.2f} s (limit {limit_us / 1e6:.2f} s)"
                self._membership.loss.lost_link(number, Reason.SILENCE, detail, now_us)
                return
            if link.state is LinkState.FAILED:
                detail = f"link to {name}: {link.reason}"
                self._membership.loss.lost_link(number, Reason.LINK_FAILED, detail, now_us)
                return
        if is_forming:
            for number, link in self._neighbours():
                if link.state is LinkState.CLOSED:
                    self._membership.formation.pass_on(number)

    def patience_us(self, link: Link | Mate) -> int:
        """How long a neighbour may be silent: from the floor to the ceiling, the time after which it is asked
        for a sign of life, and then as long as the answers to that question and its repetitions may take or
        three as slow as the slowest of late."""
        timing = self._timing
        if link.state is LinkState.CLOSED and not isinstance(link, Mate):
            return timing.suspect_us
        ask_us = timing.ask_us if isinstance(link, Mate) else link.ask_us
        answers_us = max((1 + REPETITIONS) * ask_us, ANSWERS_SLOW * link.slowest_us)
        return min(max(timing.suspect_us, self._asked_after_us(link) + answers_us), timing.suspect_max_us)

    def _asked_after_us(self, link: Link | Mate) -> int:
        """How long a neighbour may have nothing to say, before it owes us a sign of life."""
        if isinstance(link, Mate):
            return self._signs.round_us
        return 0 if link.state is LinkState.CLOSED else self._signs.latest_us
