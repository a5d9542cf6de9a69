"""Damping: a daemon that is lost again and again is kept out of views until it has proved to be stable.

A single loss has no consequence. From the second on, and from the first if it interrupted the forming of a
view, the other daemon is *on trial*: it counts as live again when it has answered for a term without a break.
A break is a silence that would have cost it a link. The term doubles with each loss, up to `damp_max_us`.
Until a view has it again and while it answers, it is asked twice as often as a link gives signs of life. A
daemon whose path never works for so long is taken in all the same after `TRIED_AFTER_TERMS` terms. A minute
in the same view forgives everything, and so does a new incarnation.

The thesis has nothing like it. The losses of another daemon are counted here; `flapping` decides what counts
as a loss, and how other members follow.
"""

from antiphon.core.membership.pace import Pace

FORGIVEN_AFTER_US = 60_000_000
"""A daemon that was in one view with us for so long, and its link with it, has its losses forgiven."""
TRIED_AFTER_TERMS = 8
"""A path that never works for its term is tried again after so many of them: what works now and then is
better than what never does, if there is no other way."""
_NEVER_US = -(10**15)


class Damping:
    """The losses of a daemon as another one counts them, and for how long it has answered without a break."""

    def __init__(self) -> None:
        self.losses = 0
        self.term_us = 0
        """For how long it must answer without a break; 0: it is not on trial."""
        self.lost_us = _NEVER_US
        self.break_us = 0
        """Without an answer for longer than this, it begins anew."""
        self._answered_us = _NEVER_US
        self._whole_since_us = _NEVER_US
        self._back_us = _NEVER_US
        self._is_with_us = False
        self._told_until_us = _NEVER_US

    # Evidence -------------------------------------------------------------------------------------------

    def answered(self, now_us: int, break_us: int) -> None:
        """It has answered: it has received something new from us."""
        self.break_us = break_us
        if now_us - self._answered_us > break_us:
            self._whole_since_us = now_us
        self._answered_us = now_us

    def excuse(self, pause_us: int) -> None:
        """This daemon itself was not running for so long."""
        self._answered_us += pause_us

    def lost(self, timing: Pace, now_us: int, *, is_forming: bool = False) -> None:
        """A view that had it was lost because of it, or one came without it."""
        if self._is_with_us and now_us - self._back_us > FORGIVEN_AFTER_US:
            self.losses = 0
        self._is_with_us = False
        self.losses += 1
        self.lost_us = now_us
        self._answered_us = _NEVER_US
        self.term_us = 0
        if self.losses > 1 or is_forming:
            self.term_us = min(timing.damp_max_us, timing.damp_us << min(self.losses - 1, 10))

    def installed(self, is_with_us: bool, now_us: int) -> None:
        """A view was installed in which it is, with its link if it should have one, or not."""
        if is_with_us and not self._is_with_us:
            self._back_us = now_us
        self._is_with_us = is_with_us

    def follow(self, remaining_us: int, now_us: int) -> None:
        """Other members keep it out for so much longer."""
        self._told_until_us = now_us + remaining_us

    # Questions ------------------------------------------------------------------------------------------

    def whole_us(self, now_us: int) -> int:
        """For how long it has answered without a break."""
        is_silent = now_us - self._answered_us > self.break_us
        return 0 if is_silent else now_us - self._whole_since_us

    def own_us(self, now_us: int) -> int:
        """For how much longer at least it is kept out by our own experience."""
        if now_us - self.lost_us >= TRIED_AFTER_TERMS * self.term_us:
            return 0
        return max(0, self.term_us - self.whole_us(now_us))

    def is_watched(self, now_us: int) -> bool:
        """Whether it is asked as often as a trial needs: also when the trial is over and no view has it yet.
        If it were asked seldom then, its answers would have a break, and the trial would begin anew."""
        return not self._is_with_us and now_us - self.lost_us < TRIED_AFTER_TERMS * self.term_us

    def remaining_us(self, now_us: int) -> int:
        """For how much longer at least it is kept out; 0: it is trusted."""
        return max(self.own_us(now_us), self._told_until_us - now_us, 0)

    def is_trusted(self, now_us: int, *, nearly: bool = False) -> bool:
        """Whether it may be in views; `nearly`: if another member's trial of it has ended a bit earlier."""
        return self.remaining_us(now_us) <= (self.term_us // 4 if nearly else 0)

    def pace_us(self, timing: Pace, round_trip_us: int, now_us: int) -> int | None:
        """When to ask it next if it answers: twice per `hello_us`, more often when an answer is late."""
        late_us = now_us - self._answered_us
        if late_us > self.break_us:
            return None
        usual_us = timing.hello_us // 2
        return usual_us if late_us <= usual_us + round_trip_us else timing.ask_us
