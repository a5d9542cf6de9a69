"""How much of its own a daemon may have under way: what its paths carry, and no standing queue behind that.

Whatever is ordered and not yet everywhere is on a path or waits in front of one, and everything that is
ordered later comes after it. So a daemon that orders more than its paths hold makes every session wait for
the surplus, and gains nothing. Two figures say what the paths hold, as in BBR (Cardwell and others, 2016):
the greatest rate at which bundles became stable of late, and the least time that one took from its order to
its stability. Their product is under way when the paths are full and no queue stands. A daemon may have half
as much again: then its links always have the next packets at hand, and a path that carries more than was
thought shows it. While the rate grows by a quarter at least once in three rounds it may have twice the
product, so that the allowance doubles with each round for as long as the paths follow. This one rule is the
start-up of a view, and the way up again after a pause, a loss or a change of the path.

A *round* begins when bundles are ordered, and ends when all of them are stable. What became stable meanwhile
is a sample of the rate, and the time until the first of them was stable is one of the time.
- A rate counts in full if three quarters of the allowance were in use, and the links did not run dry
  meanwhile. Otherwise it is what the sessions sent, or what the allowance let through, and counts only if it
  is greater than what is known. So idle times change nothing, and the allowance does not shrink where it is
  itself what limits the rate: where losses, say, keep the stable line back.
- The greatest rate of the last `limits.ALLOWANCE_RATE_ROUNDS` rounds, and at least of the last second, is in
  force: a member that stands still for less does not lower it. Where rounds take long, two of them suffice.
- To the least time, `slack_us` is added, unmeasured: idle sources announce at once under light load and up to
  delta later under a flood.
- The least time of the last 10 to 20 s is in force. If the allowance is in use at the end of such 10 s, a
  queue of our own may have been in every sample. Then only half of what the paths hold is allowed until
  the queue is gone and one round has shown their true time.

A view begins with the floor, and what was measured in the one before is forgotten: its paths were others. A
standstill of stability ends no round and changes nothing. A daemon that is alone in its view has no paths,
and its allowance is the ceiling.

Follows: nothing in the papers, which leave flow control between daemons open (Spread paper 2).
Checked by: tests/unit/test_allowance.py, tests/paper/test_flow.py, bench/standing_queue.py, the oracle's rule
on bounded buffers.
"""

from antiphon import limits

GAIN_PERCENT = 150
GROWING_PERCENT = 200
GROWTH_PERCENT = 125
"""A rate that is so much of the greatest one so far is growing."""
FLAT_ROUNDS = 3
"""After so many rounds in which it did not grow, the paths are full."""


class Allowance:
    """What one daemon may have under way in one view."""

    def __init__(self, ceiling_bytes: int, slack_us: int, *, is_alone: bool, now_us: int) -> None:
        self.ceiling_bytes = ceiling_bytes
        self.bytes = ceiling_bytes if is_alone else min(limits.ALLOWANCE_MIN_BYTES, ceiling_bytes)
        """Bundles are ordered as long as less than this is under way."""
        self._slack_us = slack_us
        self._ordered_bytes = 1 << 62  # what was ordered before the first sample brings no round
        self._mark_bytes: int | None = None  # all that was ordered when the round began; None: there is none
        self._first_bytes: int | None = None  # all that was ordered before that; None: the time is known
        self._began_us = now_us
        self._began_stable_bytes = 0
        self._was_used = False
        self._ran_dry = False
        # Of this window and the one before it.
        self._rates = [0, 0]
        self._rate_rounds = 0
        self._rate_since_us = now_us
        self._times_us = [limits.NEVER_US, limits.NEVER_US]
        self._times_since_us = now_us
        self._is_draining = False
        self._flat_rounds = 0

    @property
    def rate_bytes_per_s(self) -> int:
        """The greatest rate of late at which bundles became stable; 0: nothing is known."""
        return max(self._rates)

    @property
    def least_us(self) -> int | None:
        """The least time of late that a bundle took to become stable; None: nothing is known."""
        least_us = min(self._times_us)
        return None if least_us == limits.NEVER_US else least_us

    @property
    def used_from_bytes(self) -> int:
        """From here on most of the allowance is in use: the rest is for sessions of higher priority."""
        return self.bytes - self.bytes // 4

    def sample(self, ordered_bytes: int, stable_bytes: int, now_us: int, *, is_dry: bool = False) -> None:
        """So much was ordered here in this view, of which so much is stable. `is_dry`: most of the allowance
        is in use, and nothing waits for any link. To be called after each step that changes one of the
        figures; the cost is that of a few comparisons."""
        is_used = ordered_bytes - stable_bytes >= self.used_from_bytes
        mark_bytes = self._mark_bytes
        if mark_bytes is not None:
            self._was_used = self._was_used or is_used
            self._ran_dry = self._ran_dry or is_dry
            if self._first_bytes is not None and stable_bytes > self._first_bytes:
                self._first_bytes = None
                self._times_us[0] = min(self._times_us[0], max(1, now_us - self._began_us))
            if stable_bytes >= mark_bytes and self._end_round(stable_bytes, now_us):
                self._ordered_bytes = ordered_bytes  # the next round begins when the queue is gone
                return
        if self._mark_bytes is None and ordered_bytes > self._ordered_bytes and ordered_bytes > stable_bytes:
            self._mark_bytes = ordered_bytes
            self._first_bytes = max(self._ordered_bytes, stable_bytes)
            self._began_us, self._began_stable_bytes = now_us, stable_bytes
            self._was_used, self._ran_dry = is_used, is_dry
        self._ordered_bytes = ordered_bytes

    def _end_round(self, stable_bytes: int, now_us: int) -> bool:
        """Take the samples of a round; whether the queue is to be emptied now."""
        self._mark_bytes = None
        took_us = max(1, now_us - self._began_us)
        rate = (stable_bytes - self._began_stable_bytes) * 1_000_000 // took_us
        if rate * 100 >= max(self._rates) * GROWTH_PERCENT:
            self._flat_rounds = 0
        elif self._was_used:
            self._flat_rounds += 1
        if self._is_draining:
            self._is_draining = False
        elif self._was_used and not self._ran_dry:
            self._count_round(now_us)
            self._rates[0] = max(self._rates[0], rate)
        elif rate > max(self._rates):
            self._rates[0] = rate
        if now_us - self._times_since_us >= limits.ALLOWANCE_TIME_US:
            self._times_us = [limits.NEVER_US, self._times_us[0]]
            self._times_since_us = now_us
            self._is_draining = self._was_used
        self.bytes = self._worth()
        return self._is_draining

    def _count_round(self, now_us: int) -> None:
        self._rate_rounds += 1
        least_us = (
            limits.ALLOWANCE_RATE_US
            if self._rate_rounds > limits.ALLOWANCE_RATE_ROUNDS
            else limits.ALLOWANCE_RATE_MAX_US
        )
        if self._rate_rounds > 2 and now_us - self._rate_since_us >= least_us:
            self._rates = [0, self._rates[0]]
            self._rate_rounds, self._rate_since_us = 0, now_us

    def _worth(self) -> int:
        """The allowance that follows from what is known."""
        held_bytes = max(self._rates) * (min(self._times_us) + self._slack_us) // 1_000_000
        percent = GROWING_PERCENT if self._flat_rounds < FLAT_ROUNDS else GAIN_PERCENT
        allowed_bytes = held_bytes // 2 if self._is_draining else held_bytes * percent // 100
        return min(max(allowed_bytes, limits.ALLOWANCE_MIN_BYTES), self.ceiling_bytes)
