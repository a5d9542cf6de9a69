"""Searching for other daemons: what this daemon tells of itself, what it learns of others and passes on.

Follows: thesis 6.1.8, the JOIN messages (figures 6.6, 6.9 and 6.10): repeated every `join`, until nothing new
comes for `gather`.
Deviations:
- what daemons tell is which of them work with which (`gathering`), not only who is there
- while a view works, a search has a stamp, so that members do not take part again in one that is over
- when a daemon announces its stop, the paths that the view without it needs are tried while the view with
  it still works (`leaving`)
Checked by: tests/paper/test_daemon_gathering.py, tests/paper/test_planned_stop.py.
"""

from antiphon.core.membership.peers import Peer
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.probing import Probing
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State
from antiphon.wire import membership as wire
from antiphon.wire.membership import Beat, Station


class Search:
    """One daemon's part in the gathering of stations."""

    def __init__(
        self, me: int, incarnation: int, standing: Standing, presence: Presence, probing: Probing, now_us: int
    ) -> None:
        self.changed_us = now_us
        """When the search last brought something new."""
        self.due_us = now_us
        """When to send all stations again."""
        self.finished = 0
        """Stamp of the newest search that ended without a proposal."""
        self._me = me
        self._incarnation = incarnation
        self._standing = standing
        self._presence = presence
        self._gathering = presence.gathering
        self._probing = probing
        self._serial = standing.view.id  # of our station

    def restart(self, now_us: int) -> None:
        """The view is lost: what was learnt before does not count."""
        timing = self._presence.timing
        timing.began_us = now_us
        self.changed_us = now_us
        self.due_us = now_us + timing.join_us
        self._gathering.clear()

    def begin(self, stamp: int, reason: Reason, peer: int | None, detail: str, now_us: int) -> None:
        """Look for a better view, while the one we have works."""
        standing, presence = self._standing, self._presence
        standing.search_stamp = stamp
        standing.rounds.begin(reason, peer, detail, now_us)
        self._gathering.clear()
        presence.timing.began_us = now_us
        self.changed_us = now_us
        standing.enter(State.GATHER, reason, now_us)
        for other in presence.absent():
            other.ask_soon(presence.timing.join_us, now_us)
        self._probing.probe(now_us)
        self.tell(now_us)

    def learn(self, peer: Peer, beat: Beat, now_us: int) -> None:
        """A peer that searches, too, tells the stations that it knows."""
        standing, presence = self._standing, self._presence
        if standing.is_active and peer.number in standing.view.members:
            standing.search_stamp = max(standing.search_stamp, beat.round)
        for station in beat.stations:
            if station.daemon == self._me:
                is_ours = (station.incarnation, station.serial) == (self._incarnation, self._serial)
                if station.serial >= self._serial and not is_ours:
                    self._serial = station.serial + 1  # of our former life, or in our name
                continue
            if self._gathering.learn(station, now_us):
                presence.exclusions.adopt(station.left_out, now_us)
                self.changed_us = now_us
                self.due_us = min(self.due_us, now_us + presence.timing.join_us // 8)
                if presence.leaving.adopt(station, now_us):
                    self._part_with(station.daemon, now_us)

    def _part_with(self, leaver: int, now_us: int) -> None:
        """A daemon announces that it leaves. While the view works, try the paths to the members with which
        there must be links when it is gone."""
        presence = self._presence
        self._standing.rounds.add(Reason.LEAVING, leaver, f"{presence.name(leaver)} announced its stop")
        if not self._standing.is_active or presence.leaving.is_announced:
            return
        presence.find_missed(now_us)
        for number in presence.missed:
            presence.peers[number].ask_soon(presence.timing.join_us, now_us)
        self._probing.probe(now_us)

    def refresh(self, now_us: int) -> None:
        """Bring our own station and the list of others up to date."""
        standing, presence = self._standing, self._presence
        presence.flapping.follow(
            self._gathering.stations.values(), standing.view, standing.stopped_us, now_us
        )
        live = {number for number in presence.peers if presence.is_live(number, now_us)}
        self._serial += 1
        view = standing.view if standing.is_active else None
        station = Station(
            self._me,
            self._incarnation,
            self._serial,
            0 if view is None else view.id,
            0 if view is None else len(view.members),
            wire.mask_bytes(live),
            presence.exclusions.told(now_us),
            presence.flapping.told(now_us),
            presence.leaving.is_announced,
        )
        if self._gathering.learn(station, now_us):
            self.changed_us = now_us
        if self._gathering.expire(now_us - presence.timing.station_lasts_us):
            self.changed_us = now_us

    def tell(self, now_us: int) -> None:
        """Send all stations to the peers with which they are exchanged."""
        self.refresh(now_us)
        presence = self._presence
        self.due_us = now_us + presence.timing.join_us
        parts = self._gathering.parts()
        for peer in presence.peers.values():
            if presence.exchanges_stations_with(peer) and presence.is_live(peer.number, now_us):
                for number, stations in enumerate(parts):
                    self._probing.beat(peer, now_us, question=number == 0, stations=stations)
