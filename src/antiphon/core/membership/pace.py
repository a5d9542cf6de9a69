"""How long the membership waits, as the measured network suggests, between floors and ceilings of a preset.

Follows: thesis 6.1 names the timeouts and leaves their values to the network.
Deviation: those that wait for answers of other daemons are derived from measured round trips and what these
vary by, so that one setting suits a LAN and a path of half a second. Each property gives its formula.
Suspicion of single neighbours is in `suspicion`.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from antiphon.config import Timing
from antiphon.core.view import DaemonView

if TYPE_CHECKING:
    from antiphon.core.membership.peers import Peer

JOINS_PER_GATHER = 4
NEW_SHARE = 4
"""A daemon that was just started waits for so large a part of the way from the floor to the ceiling."""


class Pace:
    """The waits of one daemon. What is not derived is as configured."""

    def __init__(
        self, timing: Timing, peers: Mapping[int, "Peer"], site_mates: Collection[int], now_us: int
    ) -> None:
        self.began_us = now_us
        """When the round began: what was heard before does not count as evidence."""
        self._timing = timing
        self._peers = peers
        self._site_mates = site_mates
        self._members: tuple[int, ...] = ()  # of the newest view
        self.is_new = True
        """Whether this daemon was just started and knows nothing of the network."""
        self.suspect_us = timing.suspect_us
        self.suspect_max_us = max(timing.suspect_us, timing.suspect_max_us)
        self.hello_us = timing.hello_us
        self.ask_us = timing.ask_us
        self.probe_us = timing.probe_us
        self.probe_max_us = timing.probe_max_us
        self.recovery_us = timing.recovery_us
        self.damp_us = timing.damp_us
        self.damp_max_us = timing.damp_max_us
        self.stall_us = timing.stall_us

    def installed(self, view: DaemonView) -> None:
        """A view was installed: its members are expected in the next one."""
        self._members = view.members
        self.is_new = self.is_new and len(view.members) == 1

    @property
    def segment_us(self) -> int:
        """Twice the longest round trip in the site, from `segment_ms` to `gather_max_ms`."""
        timing = self._timing
        round_trip_us = max((self._peers[mate].round_trip_us for mate in self._site_mates), default=0)
        return min(max(timing.segment_us, 2 * round_trip_us), self._gather_max_us)

    @property
    def gather_us(self) -> int:
        """`gather_ms` and the longest round trip, up to `gather_max_ms`; at the start, when no round trip is
        known, a fixed value between the two."""
        if self.is_new:
            return self._timing.gather_us + (self._gather_max_us - self._timing.gather_us) // NEW_SHARE
        return min(self._timing.gather_us + self.slowest_us, self._gather_max_us)

    @property
    def join_us(self) -> int:
        """Half of the longest round trip, from `join_ms` up to a quarter of `gather_max_ms`."""
        timing = self._timing
        most_us = max(timing.join_us, self._gather_max_us // JOINS_PER_GATHER)
        return min(max(timing.join_us, self.slowest_us // 2), most_us)

    @property
    def slowest_us(self) -> int:
        """The longest round trip, with what it varies by, to any daemon that was heard in this round or was a
        member of the last view: those that are near are heard first, and must not go on without the far."""
        return max(
            (
                peer.round_trip_us
                for number, peer in self._peers.items()
                if peer.heard_us >= self.began_us or number in self._members
            ),
            default=0,
        )

    @property
    def station_lasts_us(self) -> int:
        """For how long a station counts that is not heard of again: twelve repetitions, at least the floor
        of suspicion, and four times the longest round trip."""
        return max(12 * self.join_us, self.suspect_us) + 4 * self.slowest_us

    def fresh_us(self, peer: "Peer", *, is_gathering: bool) -> int:
        """For how long evidence of a peer that we beat regularly is good: five beats, at least half of the
        floor of suspicion, and two round trips."""
        regular_us = self.join_us if is_gathering else self.probe_max_us
        return max(5 * regular_us, self.suspect_us // 2) + 2 * peer.round_trip_us

    @property
    def _gather_max_us(self) -> int:
        return max(self._timing.gather_us, self._timing.gather_max_us)
