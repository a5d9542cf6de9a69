"""What a daemon knows of each other one it may talk to: whether both hear each other, and how far away it is.

Follows: NAVTECH's split into a suspector that watches and a detector that decides (here `daemons`), and the
probing of thesis 6.1.5. Deviations: hearing a peer is not enough, because a link that works in one direction
only would make views come and go for ever: a peer counts as live only when its beats echo ours. Peers that
are not in the view are probed for ever, with back-off in seconds. A peer whose link was lost counts as live
again only after a time that doubles with each loss (damping), and is forgiven after a quiet while. After a
link on which packets did not get through although its other end was heard, both ends make their beats as
large as full packets until they have a link again: a path may carry beats and lose whatever is larger.
"""

from antiphon import limits
from antiphon.config import Timing
from antiphon.core.membership.patience import BETTER_AFTER_US
from antiphon.wire.membership import Beat

FORGIVEN_AFTER_US = 60_000_000
"""A link that held for so long has its losses forgiven."""
_RTT_UNKNOWN_US = 0


class Peer:
    """Another daemon, as this one hears it."""

    def __init__(self, number: int, now_us: int) -> None:
        self.number = number
        self.incarnation = 0
        """Of its newest beat; 0: it was never heard."""
        self.heard_us = -(10**15)
        self.heard_since_us = now_us
        """Since when there was no long silence."""
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
        self.losses = 0
        self.lost_us = -(10**15)
        self.damped_until_us = -(10**15)
        self.must_prove = False
        """Whether beats between the two are as large as full packets, because such ones may not get through:
        then an echo proves that they do."""

    def hear(self, incarnation: int, beat: Beat, now_us: int, break_us: int) -> None:
        """A beat came in; after a silence of `break_us` it begins anew."""
        if incarnation != self.incarnation:
            self.incarnation = incarnation
            self.clock_us = 0
            self.echoed_us = -(10**15)
            self.losses = 0  # of another process: no habit of this one
            self.damped_until_us = -(10**15)
        elif beat.clock_us < self.clock_us:
            return  # overtaken by a newer one
        if now_us - self.heard_us > break_us:
            self.heard_since_us = now_us
        self.heard_us = now_us
        self.clock_us = beat.clock_us
        self.state = beat.state
        self.engaged = beat.engaged
        self.promised = beat.promised
        self.representative = beat.representative
        self.welcome = beat.welcome
        self.must_prove |= bool(beat.padding)
        if beat.echo_us and self.echoed_us < beat.echo_us <= now_us:
            self.echoed_us = beat.echo_us
            is_answer = not beat.question  # then it was sent at once
            if is_answer and now_us - beat.echo_us <= limits.ROUND_TRIP_MAX_US:
                self._measure(now_us - beat.echo_us)

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

    def is_live(self, since_us: int, now_us: int) -> bool:
        """Whether it has heard something that we sent since then, and its link is not damped."""
        return self.echoed_us >= since_us and now_us >= self.damped_until_us

    def is_steady(self, since_us: int, now_us: int) -> bool:
        """Whether the path to it has worked since `since_us`, for long enough to have a link again."""
        return min(now_us - since_us, now_us - self.heard_since_us) > BETTER_AFTER_US

    def lost(self, timing: Timing, now_us: int) -> None:
        """A link to it, over which a view was working or being formed, was lost."""
        if now_us - self.lost_us > FORGIVEN_AFTER_US:
            self.losses = 0
        self.losses += 1
        self.lost_us = now_us
        wait_us = min(timing.damp_max_us, timing.damp_us << min(self.losses - 1, 10))
        if self.losses > 1:  # the first time is no habit
            self.damped_until_us = now_us + wait_us

    def asked(self, timing: Timing, now_us: int) -> None:
        """It was probed: the next probe comes later."""
        self.asked_us = now_us
        self.probe_us = now_us + self.probe_wait_us
        self.probe_wait_us = min(timing.probe_max_us, self.probe_wait_us * 3 // 2)

    def ask_soon(self, first_wait_us: int, now_us: int) -> None:
        """Probe it at once, and then as often as at first."""
        self.probe_us = now_us
        self.probe_wait_us = first_wait_us
