"""Proposals of views: making one from what was gathered, and checking those of other daemons.

Follows: Create_Send_NewMemb (thesis, figure 6.11) and the check at the head of ProcessNewMemb (figure 6.4).
Deviations:
- a proposal has the links to use, too, so that a pair that does not work is routed around
- view identifiers are Lamport stamps instead of seconds; a proposal is accepted only if its stamp is greater
  than that of any proposal accepted before, so identifiers grow at every daemon (theorem 6.4)
- a proposal counts only for the process that it names, and from a neighbour in the proposed view
Checked by: tests/unit/test_daemon_rounds.py, the oracle's properties 2.3, 2.4 and 2.20.
"""

from collections.abc import Mapping

from antiphon.config import Config
from antiphon.core.membership.formation import Formation
from antiphon.core.membership.gathering import Gathering, Pair
from antiphon.core.membership.host import MembershipHost
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import FORMING
from antiphon.core.overlay.topology import choose_links
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Proposal, Station


class Proposals:
    """The proposals that one daemon makes and gets."""

    def __init__(
        self,
        config: Config,
        me: int,
        incarnation: int,
        host: MembershipHost,
        standing: Standing,
        gathering: Gathering,
        formation: Formation,
    ) -> None:
        self._config = config
        self._me = me
        self._incarnation = incarnation
        self._host = host
        self._standing = standing
        self._gathering = gathering
        self._formation = formation

    def propose(self, members: frozenset[int], pairs: set[Pair], now_us: int) -> None:
        """Propose a view of these daemons, of which these pairs work with each other."""
        stations = self._gathering.stations
        view = view_of(self._config, self._host.tick(), members, pairs, stations)
        self._formation.accept(view, now_us)

    def receive(self, sender: int, proposal: Proposal, now_us: int) -> None:
        """A neighbour sends a proposal: accept it, or ignore it."""
        if proposal.id <= self._standing.promised:
            return  # a newer one was accepted, or it is a copy
        view = DaemonView(proposal.id, proposal.members, proposal.incarnations, proposal.pairs)
        if view.incarnation(self._me) != self._incarnation or self._standing.state in FORMING:
            return
        if sender not in view.neighbours(self._me):
            return
        self._formation.accept(view, now_us)


def view_of(
    config: Config, id: int, members: frozenset[int], pairs: set[Pair], stations: Mapping[int, Station]
) -> DaemonView:
    """The view to propose for daemons of which these pairs work with each other."""
    ordered = tuple(sorted(members))
    incarnations = tuple(stations[number].incarnation for number in ordered)
    return DaemonView(id, ordered, incarnations, choose_links(config, ordered, pairs))


def is_better(
    config: Config,
    view: DaemonView,
    members: frozenset[int],
    pairs: set[Pair],
    leavers: frozenset[int] = frozenset(),
) -> bool:
    """Whether what was gathered makes a better view than one that works: one with more daemons or links, or
    without the members that leave."""
    if not members <= frozenset(view.members) or not leavers.isdisjoint(view.members):
        return True
    if len(members) < len(view.members) or pairs <= set(view.links):
        return False
    return bool(set(choose_links(config, sorted(members), pairs)) - set(view.links))
