"""Asking other daemons whether they are there: the beats of a daemon, and when absent ones are asked.

Follows: the ALIVE messages of thesis 6.1.6, the probing for other servers of 6.1.5.
Deviations:
- every daemon probes, not only the representative; it never stops, and slows down to `probe_max`
- a beat tells which view its sender works in, so that a view that is given up ends at all members at once
- a beat that asks is answered with the asker's clock, which is the evidence in both directions
Checked by: tests/unit/test_daemon_rounds.py, tests/paper/test_daemon_membership.py.
"""

from antiphon.core.membership.host import MembershipHost
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.voice import Voice
from antiphon.wire.membership import Beat, Station


class Probing:
    """The beats that one daemon sends."""

    def __init__(
        self, standing: Standing, presence: Presence, host: MembershipHost, voice: Voice, now_us: int
    ) -> None:
        self.due_us: int | None = now_us
        """When the next absent daemon is to be asked."""
        self._standing = standing
        self._presence = presence
        self._host = host
        self._voice = voice

    def heard(self, peer: Peer) -> None:
        """A beat of this peer came in, after which it may be asked earlier."""
        if self.due_us is not None:
            self.due_us = min(self.due_us, peer.probe_us)

    def plan(self) -> None:
        """Find out when the next absent daemon is to be asked."""
        self.due_us = min((peer.probe_us for peer in self._presence.absent()), default=None)

    def probe(self, now_us: int) -> None:
        """Ask the absent daemons whose time it is."""
        for peer in self._presence.absent():
            if peer.probe_us <= now_us:
                self.ask(peer, now_us)
        self.plan()

    def ask(self, peer: Peer, now_us: int) -> None:
        """Ask a peer now, and again when its next time comes."""
        peer.asked(self._presence.timing, now_us)
        self.beat(peer, now_us, question=True)

    def inform(self, number: int, now_us: int) -> None:
        """Send a beat that was not asked for. It asks, because an answer would count as a round trip."""
        self.beat(self._presence.peers[number], now_us, question=True)

    def beat(
        self,
        peer: Peer,
        now_us: int,
        *,
        question: bool,
        stations: tuple[Station, ...] = (),
        echo_us: int = 0,
    ) -> None:
        """Send a beat; `echo_us` is the clock value to echo if not the peer's newest."""
        standing, presence = self._standing, self._presence
        working = standing.working_view
        beat = Beat(
            clock_us=now_us,
            echo_us=echo_us or peer.clock_us,
            question=question,
            state=int(standing.state),
            engaged=0 if working is None else working.id,
            promised=standing.promised,
            lts=self._host.clock,
            representative=standing.representative,
            welcome=presence.is_live(peer.number, now_us) and not presence.leaving.is_announced,
            round=standing.search_stamp if standing.is_active else 0,
            stations=stations,
        )
        is_full = peer.is_next_full(presence.timing, now_us)
        self._voice.beat(peer.number, beat, is_full=is_full)
