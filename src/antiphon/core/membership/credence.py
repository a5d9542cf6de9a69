"""Which stamps and clocks of other daemons are believed.

Every beat shows its sender's Lamport clock and its monotonic clock, and every proposal a stamp. All of them
are taken over, and none is ever taken back: a Lamport clock that has followed a false one to the end of the
range stops its cluster for good, and a peer whose clock was believed to be years ahead looks silent for
years. So what jumps further than time explains is refused at first. The daemon is asked for
proof: if it answers `limits.PROOF_ROUNDS` questions in a row, each with an echo of the question, and repeats
its claim, it is believed: it was suspended, set back to a snapshot, or its wall clock was wrong by
years. No daemon repeats what a forged or damaged packet claimed.

- A stamp is plausible up to where our own clock was when we started or last believed a jump, and from there
  on at `limits.LTS_PER_US`, plus `limits.LTS_LEAD`. No proof counts beyond `limits.LTS_CEILING`.
- A monotonic clock is plausible if it has advanced as ours has, give or take `limits.CLOCK_LEAD_US`.
- All other stamps in a beat (of views, proposals, searches and stations) are not ahead of its Lamport clock
  by more than `limits.LTS_LEAD`: a daemon that took them over has set its clock by them.

Checked by: tests/unit/test_credence.py, tests/paper/test_implausible.py.
"""

from msgspec import Struct

from antiphon import limits
from antiphon.core.membership.peers import Peer
from antiphon.core.ordering.order import Order
from antiphon.core.ordering.stability import stamp_after
from antiphon.errors import BadPacket
from antiphon.wire.membership import Beat

DRIFT = 1_000
"""A clock is taken to lose at most one part in so many."""
AHEAD = "beat: stamp far ahead of ours"
CLOCK = "beat: clock that jumps"
PROPOSED = "proposal: stamp far ahead of ours"
DOUBTS = (AHEAD, CLOCK, PROPOSED)
"""Why a packet was refused for now: a restart or a suspended machine brings some, and only many are news."""


class _Clock(Struct):
    """What one process has shown of its monotonic clock."""

    incarnation: int
    shown_us: int
    ahead_us: int
    """By how much it is ahead of ours; less by up to the longest delay of its beats."""
    at_us: int


class _Claim(Struct):
    """A claim of another daemon that is not believed yet."""

    incarnation: int
    lts: int
    ahead_us: int
    clock_us: int
    """The clock value of the newest beat with this claim, for our question to echo."""
    asked_us: int | None = None
    """When the question of this round was first sent; None: it is still to be sent. An answer to any of its
    repetitions counts, and one that is under way when the question is repeated counts, too: otherwise no
    answer would ever count over a path whose round trip is longer than the time between repetitions."""
    rounds: int = 0


class Credence:
    """Decides which stamps and clocks one daemon believes."""

    def __init__(self, start: int, now_us: int) -> None:
        """`start` is the stamp with which our Lamport clock begins."""
        self.ahead = start
        """The greatest stamp of another daemon that was believed, or of our own since then."""
        self._base, self._since_us = start, now_us
        self._clocks: dict[int, _Clock] = {}
        self._claims: dict[int, _Claim] = {}
        self._asked_us: dict[int, int] = {}

    # The stamps of the membership follow every clock that is believed. The clock of a view follows only those
    # that its other members would find plausible, too: the rest of the way it goes with the next view.

    def tick(self, order: Order, me: int) -> int:
        """A stamp of this daemon's Lamport clock; `order` is that of its newest view."""
        if self.ahead <= order.clock:
            return order.tick()
        self.ahead = stamp_after(self.ahead, me)
        return self.ahead

    def witness(self, lts: int, order: Order, view: int) -> None:
        """Another daemon's Lamport clock shows `lts`, and is believed; `view` identifies our newest view."""
        if lts <= view + limits.LTS_LEAD // 2:
            order.witness(lts)
        else:
            self.ahead = max(self.ahead, lts)

    def limit(self, now_us: int) -> int:
        """The greatest stamp that is plausible now."""
        return self._base + (now_us - self._since_us) * limits.LTS_PER_US + limits.LTS_LEAD

    def hear(self, peer: Peer, incarnation: int, beat: Beat, now_us: int) -> None:
        """A beat came in; BadPacket if it is not believed, or not yet."""
        stamps = [beat.promised, beat.engaged, beat.round]
        for station in beat.stations:
            stamps += (station.serial, station.view)
        if max(stamps) > beat.lts + limits.LTS_LEAD:
            raise BadPacket("beat: stamps ahead of its own clock")
        doubt = self._doubt(peer.number, incarnation, beat, now_us)
        if doubt:
            if beat.lts > max(self.limit(now_us), limits.LTS_CEILING):
                raise BadPacket("beat: stamp that no clock can have reached")
            if not self._is_proven(peer.number, incarnation, beat, now_us):
                raise BadPacket(doubt)
            self._believe(peer, beat, now_us)
        self._claims.pop(peer.number, None)
        self._note(peer.number, incarnation, beat.clock_us, now_us)

    def check_proposal(self, proposed: int, clock: int, now_us: int) -> None:
        """BadPacket for the stamp of a proposal that cannot be right, or cannot be right yet. `clock` is that
        of the view that we would leave: with a clock far ahead of a view's start, others would doubt us."""
        if proposed > self.limit(now_us):
            raise BadPacket(PROPOSED)
        if proposed + limits.LTS_LEAD // 2 < clock:
            raise BadPacket("proposal: stamp far behind our clock")

    def question(self, sender: int, now_us: int) -> int | None:
        """Whether a daemon from which something was refused is to be asked for a beat now: which clock value
        of its own the question echoes; None: not now."""
        claim = self._claims.get(sender)
        is_due = claim is not None and claim.rounds and claim.asked_us is None
        if not is_due and now_us - self._asked_us.get(sender, -(10**15)) < limits.PROOF_RETRY_US:
            return None
        self._asked_us[sender] = now_us
        if claim is None:
            return 0
        if claim.asked_us is None:
            claim.asked_us = now_us
        return claim.clock_us

    # Doubts -----------------------------------------------------------------------------------------------

    def _doubt(self, sender: int, incarnation: int, beat: Beat, now_us: int) -> str:
        """Why a beat is not plausible, or nothing."""
        if beat.lts > self.limit(now_us):
            return AHEAD
        known = self._clocks.get(sender)
        if known is None or known.incarnation != incarnation:
            return ""  # it may show anything at first; if that was false, the true one will be proven
        if beat.clock_us > now_us + known.ahead_us + limits.CLOCK_LEAD_US:
            return CLOCK
        return CLOCK if beat.clock_us < known.shown_us - limits.CLOCK_LEAD_US else ""

    def _note(self, sender: int, incarnation: int, clock_us: int, now_us: int) -> None:
        known = self._clocks.get(sender)
        ahead_us = clock_us - now_us
        if known is not None and known.incarnation == incarnation:
            ahead_us = max(ahead_us, known.ahead_us - (now_us - known.at_us) // DRIFT)
            clock_us = max(clock_us, known.shown_us)
        self._clocks[sender] = _Clock(incarnation, clock_us, ahead_us, now_us)

    def _is_proven(self, sender: int, incarnation: int, beat: Beat, now_us: int) -> bool:
        """Whether a beat is the last that it takes to believe what it claims."""
        claim = self._claims.get(sender)
        ahead_us = beat.clock_us - now_us
        if (
            claim is None
            or claim.incarnation != incarnation
            or abs(claim.lts - beat.lts) > limits.LTS_LEAD
            or abs(claim.ahead_us - ahead_us) > limits.CLOCK_LEAD_US
        ):
            self._claims[sender] = _Claim(incarnation, beat.lts, ahead_us, beat.clock_us)
            return False
        claim.clock_us = beat.clock_us
        if claim.asked_us is not None and claim.asked_us <= beat.echo_us <= now_us:
            claim.rounds += 1
            claim.asked_us = None
        return claim.rounds >= limits.PROOF_ROUNDS

    def _believe(self, peer: Peer, beat: Beat, now_us: int) -> None:
        if beat.lts > self.limit(now_us):
            self._base, self._since_us = beat.lts, now_us
        self._clocks.pop(peer.number, None)
        peer.clock_us = 0  # or it would take this beat for one that was overtaken
