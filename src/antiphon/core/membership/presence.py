"""Which other daemons are present: what was heard of each, and what keeps some out of views all the same.

Follows: thesis 6.1.5 to 6.1.8, where a daemon that is heard is there.
Deviations:
- evidence works in both directions: a pair of daemons counts only if each hears that the other hears it
  (`peers`)
- what was heard before the round began is no evidence, and evidence of regular beats expires (`pace`)
- daemons because of which views stand still again and again are left out for a while (`exclusions`), and
  what is lost again and again is kept out until it holds (`flapping`, `damping`)
- a daemon that announced its planned stop is in no further view (`leaving`)
- representatives exchange stations with one another and with the daemons that they represent, as in 6.1.8,
  unless the only path leads past a representative
Checked by: tests/unit/test_presence.py, tests/paper/test_daemon_paths.py.
"""

from antiphon.config import Config
from antiphon.core.membership.exclusions import Exclusions
from antiphon.core.membership.flapping import Flapping
from antiphon.core.membership.gathering import Gathering
from antiphon.core.membership.leaving import Leaving
from antiphon.core.membership.pace import Pace
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State
from antiphon.core.overlay.topology import missing_links


class Presence:
    """What one daemon knows of all others that it may exchange packets with."""

    def __init__(self, config: Config, me: int, incarnation: int, standing: Standing, now_us: int) -> None:
        self.peers = {number: Peer(number, now_us) for number in config.neighbours_of(me)}
        self.site_mates = frozenset(config.daemons_of(config.site_of(me))) - {me}
        self.timing = Pace(config.settings.timing(), self.peers, self.site_mates, now_us)
        self.exclusions = Exclusions(me, incarnation)
        """The daemons that this one leaves out of views for a while."""
        self.flapping = Flapping(config, me, self.peers)
        """The daemons that are lost again and again, and kept out for a while."""
        self.leaving = Leaving(me)
        """The daemons that have announced their planned stop."""
        self.gathering = Gathering(config.are_neighbours)
        """The stations of this round."""
        self.missed: frozenset[int] = frozenset()
        """Members of the installed view to which there should be a link and is none."""
        self.vacant: frozenset[int] = frozenset()
        """Numbers that no daemon bears: in a cluster without a file (`config.discovered`)."""
        self._config = config
        self._me = me
        self._standing = standing

    def reconfigure(self, config: Config, vacant: frozenset[int], now_us: int) -> None:
        """Daemons bear other numbers than before; those that are new are asked for at once."""
        for number in self.vacant - vacant:
            if number in self.peers:
                self.peers[number].ask_soon(self.timing.join_us, now_us)
        self._config, self.vacant = config, vacant

    def name(self, number: int) -> str:
        """A daemon's name, for people."""
        return self._config.daemon_names[number]

    def is_live(self, number: int, now_us: int) -> bool:
        """Whether this daemon and another one hear each other, by the evidence of this round, and may be in
        one view."""
        standing, timing = self._standing, self.timing
        working = standing.working_view
        if working is not None and number in working.members and number not in self.missed:
            return number in working.neighbours(self._me)
        peer = self.peers[number]
        if self.exclusions.is_apart(number, peer.incarnation, now_us):
            return False
        if self.leaving.is_leaving(number, peer.incarnation, now_us):
            return False
        fresh_us = timing.fresh_us(peer, is_gathering=working is None)
        since_us = timing.began_us if working is None else max(standing.since_us, now_us - fresh_us)
        is_merging = standing.is_active and standing.state is State.GATHER
        if not peer.is_live(since_us, now_us, nearly=is_merging):
            return False
        return not self.exchanges_stations_with(peer) or peer.heard_us >= now_us - fresh_us

    def exchanges_stations_with(self, peer: Peer) -> bool:
        """Whether this daemon and a peer send each other their stations. Members of one view: if they are
        neighbours, which pass stations on. Otherwise representatives do, with one another and with the
        daemons that they represent; and daemons whose representatives do not hear each other."""
        working = self._standing.working_view
        if working is not None and peer.number in working.members:
            return peer.number in working.neighbours(self._me)
        own, other = self._standing.representative, peer.representative
        if own == self._me:
            return other in (peer.number, self._me) or not self._hears(other)
        if peer.number == own:
            return True
        if self.gathering.vouches(own, peer.number):
            return False
        return other == peer.number or not self.gathering.vouches(own, other)

    def _hears(self, number: int) -> bool:
        """Whether a peer and this daemon have heard each other in this round."""
        peer = self.peers.get(number)
        return peer is not None and peer.echoed_us >= self.timing.began_us

    def absent(self) -> list[Peer]:
        """The peers to which this daemon has no link and should have one."""
        working = self._standing.working_view
        return [
            peer
            for peer in self.peers.values()
            if working is None or peer.number not in working.members or peer.number in self.missed
            if peer.number not in self.vacant
        ]

    def find_missed(self, now_us: int) -> None:
        """Find the members of the installed view to which there should be a link and is none, once the
        members that leave are gone."""
        view = self._standing.view
        leavers = self.leaving.of(view, now_us)
        stay = [member for member in view.members if member not in leavers]
        self.missed = missing_links(self._config, stay, view.neighbours(self._me), self._me)

    @property
    def is_on_leave(self) -> bool:
        """Whether this daemon leaves the view that works."""
        return self.leaving.is_announced and self._standing.is_active
