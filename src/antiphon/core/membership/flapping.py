"""Flapping pairs, daemons and sites, and how all members of a view treat them alike.

A view that is lost takes with it not only the link whose failure was noticed first: every neighbour that had
owed a sign of life for half of its patience by then counts as lost, too, and so does every daemon that is not
in the view that comes next. So all members that go on together count the same losses of the same daemons
(`damping`).

A daemon that one member alone keeps out would be brought back by the next one that still hears it. As with
exclusions (`exclusions`), each daemon announces in its station the daemons that it keeps out by its own
experience, and members of its view follow: when two of them announce the same daemon, or when their own site
announces two daemons of one other site, which then stand for the path to it. Own experience goes
first: a daemon whose link to another one has lasted does not follow an announcement that this one flaps.

The thesis has nothing like it.
Checked by: tests/unit/test_flapping.py, tests/paper/test_daemon_flapping.py.
"""

from collections.abc import Collection, Iterable, Mapping

from antiphon import limits
from antiphon.config import Config
from antiphon.core.membership.pace import Pace
from antiphon.core.membership.peers import Peer
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Exclusion, Station

WITNESSES_MIN = 2
"""So many members must announce a daemon, or so many daemons of a site be announced, before others follow."""


class Flapping:
    """Decides what one daemon does about losses, its own and those that others announce."""

    def __init__(self, config: Config, me: int, peers: Mapping[int, Peer]) -> None:
        self.fading: frozenset[int] = frozenset()
        """The neighbours that had owed a sign of life for half of our patience, when links were looked at."""
        self._me = me
        self._peers = peers
        self._site_of = {number: config.site_of(number) for number in (me, *peers)}

    def lost(self, timing: Pace, now_us: int, *, is_forming: bool) -> None:
        """The view, installed or being formed, is lost, and the neighbours that were fading with it."""
        for number in self.fading:
            self._peers[number].damping.lost(timing, now_us, is_forming=is_forming)
        self.fading = frozenset()

    def installed(
        self,
        before: DaemonView,
        view: DaemonView,
        missed: Collection[int],
        stopped_us: int,
        timing: Pace,
        now_us: int,
    ) -> None:
        """A view has come after another one, which stopped then; without a link to the members `missed`."""
        self.fading = frozenset()
        for number, peer in self._peers.items():
            is_lost = number in before.members and number not in view.members
            if (
                is_lost
                and before.incarnation(number) == peer.incarnation
                and peer.damping.lost_us < stopped_us
            ):
                peer.damping.lost(timing, now_us)
            peer.is_missed = number in missed
            peer.damping.installed(number in view.members and not peer.is_missed, now_us)

    def told(self, now_us: int) -> tuple[Exclusion, ...]:
        """The daemons that are kept out by our own experience, for our station."""
        kept_out = [
            (number, peer.incarnation, remaining_us)
            for number, peer in self._peers.items()
            if (remaining_us := peer.damping.own_us(now_us))
        ]
        return tuple(kept_out[: limits.DAMPED_TOLD_MAX])

    def follow(
        self, stations: Iterable[Station], view: DaemonView, stopped_us: int | None, now_us: int
    ) -> None:
        """Keep out the daemons that other members of `view`, which works or stopped then, keep out."""
        announced: dict[int, dict[int, int]] = {}  # daemon: the members that keep it out, for how much longer
        for number, peer in self._peers.items():
            if remaining_us := peer.damping.own_us(now_us):
                announced[number] = {self._me: remaining_us}
        own = frozenset(announced)
        for station in stations:
            if station.daemon in view.members and station.daemon not in own and station.daemon != self._me:
                for daemon, incarnation, remaining_us in station.damped:
                    if daemon in self._peers and self._peers[daemon].incarnation == incarnation:
                        announced.setdefault(daemon, {})[station.daemon] = remaining_us
        for daemon, remaining_us in self._flapping(announced).items():
            peer = self._peers[daemon]
            has_lasted = daemon in view.neighbours(self._me) and peer.damping.lost_us < (stopped_us or now_us)
            is_member = stopped_us is None and daemon in view.members
            if not has_lasted and not is_member:
                peer.damping.follow(remaining_us, now_us)

    def _flapping(self, announced: Mapping[int, Mapping[int, int]]) -> dict[int, int]:
        """The daemons that flap by what members announce, and for how much longer they are kept out."""
        found = {
            daemon: max(members.values())
            for daemon, members in announced.items()
            if len(members) >= WITNESSES_MIN
        }
        home = self._site_of[self._me]
        sites: dict[int, list[int]] = {}  # another site: the daemons there that our own site announces
        for daemon, members in announced.items():
            near = [
                remaining_us for member, remaining_us in members.items() if self._site_of.get(member) == home
            ]
            if near and self._site_of[daemon] != home:
                sites.setdefault(self._site_of[daemon], []).append(max(near))
        for daemon in self._peers:
            times_us = sites.get(self._site_of[daemon], [])
            if len(times_us) >= WITNESSES_MIN:
                found[daemon] = max(found.get(daemon, 0), *times_us)
        return found
