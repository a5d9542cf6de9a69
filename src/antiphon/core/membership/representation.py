"""Representatives: the smallest daemon of a site that is there speaks for the others until a view is formed.

Follows: thesis 6.1.6 (Segment Timeout, figure 6.7) and 6.1.7 (REP, figure 6.8).
Deviations:
- the site's daemons are those that hear each other in both directions (`presence`)
- a represented daemon looks around anew also when its representative is heard, but has formed a view for so
  long that this daemon cannot be in it, and when its representative proposes no view at all
Checked by: tests/paper/test_daemon_membership.py, tests/paper/test_daemon_gathering.py.
"""

from antiphon.core.membership.loss import Loss
from antiphon.core.membership.patience import PATIENCE_GATHERS
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.search import Search
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State

FORSAKEN_JOINS = 5
"""A representative that works in a view for so many repetitions of what is gathered, while this daemon has
none, has gone on without it."""


class Representation:
    """Which daemon represents one daemon, and whether it still does."""

    def __init__(
        self, me: int, standing: Standing, presence: Presence, search: Search, loss: Loss, now_us: int
    ) -> None:
        self._me = me
        self._standing = standing
        self._presence = presence
        self._search = search
        self._loss = loss
        self._idle_us = now_us  # when the representative was last seen without a view

    @property
    def due_us(self) -> int:
        """When the search in the site is over."""
        return self._standing.entered_us + self._presence.timing.segment_us

    def end_segment(self, now_us: int) -> None:
        """Segment Timeout: this daemon gathers for its site, or is represented by a smaller one."""
        standing, presence = self._standing, self._presence
        present = [
            number
            for number in presence.site_mates
            if presence.is_live(number, now_us) and presence.peers[number].engaged == 0
        ]
        standing.representative = min([self._me, *present])
        self._search.changed_us = now_us
        if standing.representative == self._me:
            standing.change(State.GATHER, Reason.ALONE, now_us)
        else:
            self._idle_us = now_us
            standing.change(State.REP, Reason.REPRESENTED, now_us)
        self._search.tell(now_us)

    def watch(self, now_us: int) -> None:
        """Rep Timeout: does the representative still act for this daemon?"""
        standing, presence = self._standing, self._presence
        if self._is_gone(now_us):
            name = presence.name(standing.representative)
            detail = f"{name} no longer represents this site"
            self._loss.lose(Reason.SILENCE, standing.representative, detail, now_us)
        elif now_us - standing.entered_us > PATIENCE_GATHERS * presence.timing.gather_us:
            self._loss.unanswered(standing.representative, now_us)

    def _is_gone(self, now_us: int) -> bool:
        """Whether the representative is silent, or has worked in a view for so long that this daemon cannot
        be in it."""
        timing = self._presence.timing
        peer = self._presence.peers[self._standing.representative]
        if peer.engaged == 0:
            self._idle_us = now_us
        return (
            now_us - self._idle_us > FORSAKEN_JOINS * timing.join_us
            or peer.heard_us < now_us - timing.fresh_us(peer, is_gathering=True)
        )
