"""What a daemon knows of each other one it may talk to: whether both hear each other, and how far away it is.

Follows: NAVTECH's split into a suspector that watches and a detector that decides (here `loss`), and the
probing of thesis 6.1.5. Deviations: hearing a peer is not enough, because a link that works in one direction
only would make views come and go for ever: a peer counts as live only when its beats echo ours. Peers that
are not in the view are probed for ever, with back-off in seconds. A peer that is lost again and again counts
as live only when it has answered for a while without a break (`damping`); until then it is asked as often as
a link gives signs of life, so that a break is noticed. A process with which there was no link yet, or whose
link failed although it was heard, must also prove that full packets get through: a path may carry small beats
and lose whatever is larger, and a view over such a path would fail with its first traffic. The proof is an
answer to a beat that was as large as a full packet. Few beats are: on a path of 64 kbit/s a full
packet takes as long as ten small ones, and beats that were all full would fill it for good.
"""

from collections import deque

from antiphon import limits
from antiphon.core.membership.damping import Damping
from antiphon.core.membership.pace import Pace
from antiphon.core.membership.patience import BETTER_AFTER_US
from antiphon.wire.membership import Beat

_RTT_UNKNOWN_US = 0
PROOF_LASTS_US = 6_000_000
"""For how long a path on which a full packet got through counts as one that carries such packets."""
PROOF_EVERY_US = 2_000_000
"""When the next full packet after a proof is due: a path that carries one in two seconds has room for beats,
and two of them may get lost while the last proof still counts."""
FULL_RUN = 5
"""So many beats in a row are full when a proof is wanted. One would not do: an answer echoes the newest beat
that has come, which may be a small one that was sent right after it."""
FULL_UNDER_WAY = 8
"""Full beats whose answers are recognised; they wait in the queue of a slow path for seconds."""


class Peer:
    """Another daemon, as this one hears it."""

    def __init__(self, number: int, now_us: int) -> None:
        self.number = number
        self.incarnation = 0
        """The incarnation of its newest beat; 0: it was never heard."""
        self.heard_us = -(10**15)
        self.echoed_us = -(10**15)
        """The newest clock value of ours that it has heard."""
        self.clock_us = 0
        """The newest clock value that we had from it."""
        self.rtt_us = _RTT_UNKNOWN_US
        self.rtt_variance_us = 0
        self.state = 0
        self.engaged = 0
        self.promised = 0
        self.representative = number
        self.welcome = False
        """Whether it would take us into its view."""
        self.refused_until_us = -(10**15)
        """Nothing came of the last attempt to merge with it: no further one before this."""
        self.probe_us = now_us
        """When to ask whether it is there."""
        self.probe_wait_us = 0
        self.asked_us = -(10**15)
        self._has_followed_up = False
        self.is_missed = False
        """Whether it is a member of the view to which a link should be and is not."""
        self.damping = Damping()
        self.must_prove = True
        """Whether it is in doubt that full packets get through to it."""
        self.proven_us = -(10**15)
        """When the newest answer to a full beat came in."""
        self._beat_us = -(10**15)  # when the last beat was sent to it
        self._is_beat_full = False
        self._full_due_us = now_us
        self._full_wait_us = 0
        self._full_run = FULL_RUN  # how many beats in a row are still to be full
        self._full_asked: deque[int] = deque(maxlen=FULL_UNDER_WAY)  # our clock in each full beat

    def hear(
        self, incarnation: int, beat: Beat, now_us: int, timing: Pace, *, is_linked: bool = False
    ) -> None:
        """A beat came in; `is_linked` if there is a link of a view that works, which is proof enough."""
        if incarnation != self.incarnation:
            self.incarnation = incarnation
            self.clock_us = 0
            self.echoed_us = -(10**15)
            self.damping = Damping()  # those of another process are no habits of this one
            self._ask_for_proof(now_us)  # what this process echoes has come to it
        elif beat.clock_us < self.clock_us:
            return  # overtaken by a newer one
        self.heard_us = now_us
        self.clock_us = beat.clock_us
        self.state = beat.state
        self.engaged = beat.engaged
        self.promised = beat.promised
        self.representative = beat.representative
        self.welcome = beat.welcome
        if beat.padding and not self.must_prove and not is_linked:
            self.doubt(now_us)
        if beat.echo_us in self._full_asked:
            self._full_asked.clear()
            self.proven_us = now_us
            self._full_run = 0
            self._full_due_us, self._full_wait_us = now_us + PROOF_EVERY_US, 0
        if beat.echo_us and self.echoed_us < beat.echo_us <= now_us:
            self.echoed_us = beat.echo_us
            self.damping.answered(now_us, self._break_us(timing))
            if self._is_watched(now_us):  # it may have been given up before, and asked seldom
                self.probe_us = min(self.probe_us, now_us + timing.hello_us // 2)
            is_answer = not beat.question  # then it was sent at once
            if is_answer and now_us - beat.echo_us <= limits.ROUND_TRIP_MAX_US:
                self._measure(now_us - beat.echo_us)

    def doubt(self, now_us: int) -> None:
        """It is in doubt, from now on, that full packets get through to it; what was asked before proves
        nothing."""
        self._full_asked.clear()
        self._ask_for_proof(now_us)

    def _ask_for_proof(self, now_us: int) -> None:
        self.must_prove = True
        self.proven_us = -(10**15)
        self._full_run = FULL_RUN
        self._full_due_us, self._full_wait_us = now_us, 0

    def is_next_full(self, timing: Pace, now_us: int) -> bool:
        """Whether the beat that is sent to it now is to be as large as a full packet: a question, or an
        answer, which the next beat of the other daemon echoes. All beats of one instant have the size of the
        first: an echo names the instant only."""
        if now_us != self._beat_us:
            self._beat_us = now_us
            self._is_beat_full = self._is_full_due(timing, now_us)
        return self._is_beat_full

    def _is_full_due(self, timing: Pace, now_us: int) -> bool:
        """Whether a beat is to be full: the first few, then one after `join_us`, or two round trips, and
        then ever later."""
        if not self.must_prove:
            return False
        if self._full_run:
            self._full_run -= 1
            self._full_asked.append(now_us)
            return True
        if now_us < self._full_due_us:
            return False
        wait_us = max(self._full_wait_us, timing.join_us, 2 * self.round_trip_us)
        self._full_wait_us = 2 * wait_us
        self._full_due_us = now_us + min(wait_us, timing.probe_max_us)
        self._full_asked.append(now_us)
        return True

    def _measure(self, sample_us: int) -> None:
        if self.rtt_us == _RTT_UNKNOWN_US:
            self.rtt_us, self.rtt_variance_us = sample_us, sample_us // 2
            return
        error_us = sample_us - self.rtt_us
        self.rtt_us += error_us // 8
        self.rtt_variance_us += (abs(error_us) - self.rtt_variance_us) // 4

    @property
    def round_trip_us(self) -> int:
        """How long an answer may take: the measured round trip and what it varies by."""
        return self.rtt_us + 4 * self.rtt_variance_us

    def _break_us(self, timing: Pace) -> int:
        """A silence that could have cost it a link: an answer is due twice per `hello_us` and is asked for
        again and again when it is late, whereas on a link the last sign of life may have come `hello_us`
        before the path failed."""
        return timing.hello_us // 2 + 5 * max(timing.ask_us, self.round_trip_us)

    def is_live(self, since_us: int, now_us: int, *, nearly: bool = False) -> bool:
        """Whether it has heard something that we sent since then, full packets get through to it, and it is
        not kept out; see `Damping`."""
        if self.must_prove and now_us - self.proven_us > PROOF_LASTS_US:
            return False
        return self.echoed_us >= since_us and self.damping.is_trusted(now_us, nearly=nearly)

    def is_steady(self, since_us: int, now_us: int) -> bool:
        """Whether the path to it has worked since `since_us`, for long enough to have a link again."""
        return min(now_us - since_us, self.damping.whole_us(now_us)) > BETTER_AFTER_US

    def _is_watched(self, now_us: int) -> bool:
        return self.is_missed or self.damping.is_watched(now_us)

    def asked(self, timing: Pace, now_us: int) -> None:
        """It was probed: the next probe comes later."""
        self.asked_us = now_us
        self._has_followed_up = False
        wait_us = self.probe_wait_us
        self.probe_wait_us = min(timing.probe_max_us, wait_us * 3 // 2)
        if self._is_watched(now_us):
            wait_us = min(wait_us, self.damping.pace_us(timing, self.round_trip_us, now_us) or wait_us)
        self.probe_us = now_us + wait_us

    def may_follow_up(self, timing: Pace, now_us: int) -> bool:
        """Whether to ask a peer that hears us once more, because it did not know that we hear it, too: once
        at once after each probe, and then now and then."""
        if self._has_followed_up and now_us - self.asked_us < timing.join_us:
            return False
        self.asked(timing, now_us)
        self._has_followed_up = True
        return True

    def ask_soon(self, first_wait_us: int, now_us: int) -> None:
        """Probe it at once, and then as often as at first."""
        self.probe_us = now_us
        self.probe_wait_us = first_wait_us
