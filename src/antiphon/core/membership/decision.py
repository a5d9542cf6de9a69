"""Deciding what a search has come to: propose a view, wait for another daemon's proposal, or go on as before.

Follows: thesis 6.1.8, Gather Timeout (figure 6.9) and the four steps that it may lead to.
Deviations:
- the smallest daemon of the connected component proposes, not the smallest representative: daemons may reach
  one another only through a third
- while a view works, a proposal is made only for a better view: one with more daemons or links, or without
  the members that leave
- a proposal waits until nothing new has come for `gather`, or a quarter of it when all daemons are there, and
  until every view that still works is there as a whole; but not for ever
Checked by: tests/paper/test_daemon_gathering.py, tests/paper/test_daemon_views.py.
"""

from antiphon.config import Config
from antiphon.core.membership.loss import Loss
from antiphon.core.membership.patience import GATHERS_MAX, PATIENCE_GATHERS
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.proposals import Proposals, is_better
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.search import Search
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State


class Decision:
    """What one daemon makes of what it has gathered."""

    def __init__(
        self,
        config: Config,
        me: int,
        standing: Standing,
        presence: Presence,
        search: Search,
        proposals: Proposals,
        loss: Loss,
    ) -> None:
        self._config = config
        self._me = me
        self._standing = standing
        self._presence = presence
        self._search = search
        self._proposals = proposals
        self._loss = loss
        self._all_daemons = frozenset(range(config.daemon_count))

    def decide(self, now_us: int) -> None:
        """Is it time to propose a view, and is it ours to propose?"""
        standing, presence = self._standing, self._presence
        self._search.refresh(now_us)
        if presence.is_on_leave:
            return  # the members that stay decide
        gathering, gather_us = presence.gathering, presence.timing.gather_us
        leavers = presence.leaving.among(gathering.stations, now_us)
        out = leavers | presence.exclusions.among(gathering.stations, now_us)
        members, pairs = gathering.component(self._me, out)
        waited_us = now_us - standing.entered_us
        quiet_us = now_us - self._search.changed_us
        is_worth_it = not standing.is_active or is_better(
            self._config, standing.view, members, pairs, leavers
        )
        if quiet_us >= gather_us and not is_worth_it:
            self._back_to_work(now_us)
            return
        if min(members) != self._me:
            if waited_us > PATIENCE_GATHERS * gather_us:
                if standing.is_active:
                    self._back_to_work(now_us)
                else:
                    self._loss.unanswered(min(members), now_us)
            return
        if waited_us <= GATHERS_MAX * gather_us:
            # When all daemons are there, only links could still be found.
            enough_us = gather_us // 4 if members == self._all_daemons - presence.vacant else gather_us
            if quiet_us < enough_us or not gathering.is_whole(members, leavers):
                return
        if is_worth_it:
            self._proposals.propose(members, pairs, now_us)

    def _back_to_work(self, now_us: int) -> None:
        """The search has led to no better view: the view goes on, and the next attempt waits a little."""
        standing, presence = self._standing, self._presence
        number = standing.rounds.current.peer if standing.rounds.current is not None else None
        peer = None if number is None else presence.peers.get(number)  # who asked may be no neighbour
        if peer is not None and number not in standing.view.members:
            peer.refused_until_us = now_us + presence.timing.probe_max_us
        self._search.finished = standing.search_stamp
        presence.find_missed(now_us)
        standing.change(State.OP, Reason.NOTHING_NEW, now_us)
        standing.rounds.end("nothing new", now_us)
