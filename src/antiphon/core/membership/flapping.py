"""What flaps: pairs of daemons, single daemons, whole sites; and how all members of a view treat it alike.

A view that is lost takes with it not only the link whose failure was noticed first: every neighbour that had
been silent for half of its patience by then counts as lost, too, and so does every daemon that is not in the
view that comes next. So all who go on together count the same losses of the same daemons (`damping`).

A daemon that one member alone keeps out would be brought back by the next one that still hears it. As with
exclusions (`exclusions`), each tells in its station whom it keeps out by its own experience, and members of
its view follow: when two of them tell of the same daemon, or when their own site tells of two daemons of one
other site, which then stand for the path to it. Experience goes before: a daemon whose link to another one
has held does not believe others that this one flaps.
"""

from collections.abc import Collection, Iterable, Mapping

from antiphon import limits
from antiphon.config import Config
from antiphon.core.membership.pace import Pace
from antiphon.core.membership.peers import Peer
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Exclusion, Station

WITNESSES_MIN = 2
"""So many members must tell of a daemon, or so many daemons of a site be told of, before others follow."""


class Flapping:
    """What one daemon makes of losses, its own and those that others tell of."""

    def __init__(self, config: Config, me: int, peers: Mapping[int, Peer]) -> None:
        self.fading: frozenset[int] = frozenset()
        """The neighbours that had been silent for half of our patience when the links were last looked at."""
        self._me = me
        self._peers = peers
        self._site_of = {number: config.site_of(number) for number in (me, *peers)}

    def lost(self, timing: Pace, now_us: int, *, is_forming: bool) -> None:
        """The view, installed or being formed, is lost, and those who were fading with it."""
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
        """A view has come after another one, which stopped then; without a link to those who are `missed`."""
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
        """Those who are kept out by our own experience, for our station."""
        words = [
            (number, peer.incarnation, remaining_us)
            for number, peer in self._peers.items()
            if (remaining_us := peer.damping.own_us(now_us))
        ]
        return tuple(words[: limits.DAMPED_TOLD_MAX])

    def follow(
        self, stations: Iterable[Station], view: DaemonView, stopped_us: int | None, now_us: int
    ) -> None:
        """Keep out those whom other members of `view`, which works or stopped then, keep out."""
        words: dict[
            int, dict[int, int]
        ] = {}  # daemon -> who tells of it -> for how much longer it is kept out
        for number, peer in self._peers.items():
            if remaining_us := peer.damping.own_us(now_us):
                words[number] = {self._me: remaining_us}
        own = frozenset(words)
        for station in stations:
            if station.daemon in view.members and station.daemon not in own and station.daemon != self._me:
                for daemon, incarnation, remaining_us in station.damped:
                    if daemon in self._peers and self._peers[daemon].incarnation == incarnation:
                        words.setdefault(daemon, {})[station.daemon] = remaining_us
        for daemon, remaining_us in self._flapping(words).items():
            peer = self._peers[daemon]
            has_held = daemon in view.neighbours(self._me) and peer.damping.lost_us < (stopped_us or now_us)
            is_member = stopped_us is None and daemon in view.members
            if not has_held and not is_member:
                peer.damping.follow(remaining_us, now_us)

    def _flapping(self, words: Mapping[int, Mapping[int, int]]) -> dict[int, int]:
        """Daemons that flap by what is told -> for how much longer they are kept out."""
        found = {daemon: max(told.values()) for daemon, told in words.items() if len(told) >= WITNESSES_MIN}
        home = self._site_of[self._me]
        sites: dict[int, list[int]] = {}  # another site -> the daemons there of which our own site tells
        for daemon, told in words.items():
            near = [
                remaining_us for teller, remaining_us in told.items() if self._site_of.get(teller) == home
            ]
            if near and self._site_of[daemon] != home:
                sites.setdefault(self._site_of[daemon], []).append(max(near))
        for daemon in self._peers:
            times_us = sites.get(self._site_of[daemon], [])
            if len(times_us) >= WITNESSES_MIN:
                found[daemon] = max(found.get(daemon, 0), *times_us)
        return found
