"""What is known of the time at a moment of a daemon's monotonic clock: a span that contains it, and a guess.

A span ages: the daemon's oscillator is wrong by at most `limits.CLOCK_DRIFT_MAX_PPM`, so after a while the
span has moved with the monotonic clock and has become wider by that; of internal time by twice that, because
the clock that makes this time drifts, too. Everything else is intersection of spans.

Follows: NAVTECH 3, which names precision and accuracy; bounds as spans are those of Marzullo and Owicki.
Checked by: tests/unit/test_clock.py, the oracle's property "time".
"""

from msgspec import Struct, structs

from antiphon import limits
from antiphon.wire.clock import INTERNAL, OF_A_REFERENCE

MILLION = 1_000_000
BILLION = 1_000_000_000


class Basis(Struct, frozen=True, gc=False):
    """Whose time it is. Times of different bases cannot be compared."""

    kind: int
    """`wire.clock.OF_A_REFERENCE` or `INTERNAL`."""
    root: int
    """The reference, or the daemon whose clock is the internal time."""
    since_us: int = 0
    """When that daemon's internal time began, on its monotonic clock."""
    incarnation: int = 0
    """Of that daemon's process: what the process before it told is a time that has ended."""

    @property
    def is_external(self) -> bool:
        """Whether it is the time of the world, by a reference."""
        return self.kind == OF_A_REFERENCE

    @property
    def drifting(self) -> int:
        """How many clocks drift while a reading ages: ours, and that which makes the internal time."""
        return 1 if self.kind == OF_A_REFERENCE else 2

    def is_internal_of(self, root: int, incarnation: int) -> bool:
        """Whether it is the internal time of this process of a daemon."""
        return not self.is_external and (self.root, self.incarnation) == (root, incarnation)

    def is_comparable(self, other: "Basis") -> bool:
        """Whether both speak of the same time: that of the world, or one internal time."""
        return self == other or (self.is_external and other.is_external)


def external(root: int) -> Basis:
    """The time of the world, by this reference."""
    return Basis(OF_A_REFERENCE, root)


def internal(root: int, since_us: int, incarnation: int = 0) -> Basis:
    """The internal time of this process of a daemon."""
    return Basis(INTERNAL, root, since_us, incarnation)


def drift_us(elapsed_us: int) -> int:
    """By how much a monotonic clock may be wrong about a duration, rounded up."""
    return -(-elapsed_us * limits.CLOCK_DRIFT_MAX_PPM // MILLION)


class Reading(Struct, frozen=True, gc=False):
    """At `at_us` of the monotonic clock the time is from `low_us` to `high_us`, most likely `estimate_us`."""

    at_us: int
    low_us: int
    high_us: int
    estimate_us: int
    basis: Basis

    def aged(self, now_us: int, rate_ppb: int = 0) -> "Reading":
        """What follows from it for `now_us`; the guess assumes that time runs by `rate_ppb` billionths faster
        than the monotonic clock."""
        elapsed_us = now_us - self.at_us
        if elapsed_us <= 0:
            return self
        slack_us = self.basis.drifting * drift_us(elapsed_us) + 1  # one for what is less than a microsecond
        low_us = self.low_us + elapsed_us - slack_us
        high_us = self.high_us + elapsed_us + slack_us
        guess_us = self.estimate_us + elapsed_us + elapsed_us * rate_ppb // BILLION
        return Reading(now_us, low_us, high_us, min(max(guess_us, low_us), high_us), self.basis)

    def widened(self, by_us: int) -> "Reading":
        """The same with a greater error."""
        return structs.replace(self, low_us=self.low_us - by_us, high_us=self.high_us + by_us)

    @property
    def width_us(self) -> int:
        """How long the span is."""
        return self.high_us - self.low_us

    @property
    def error_us(self) -> int:
        """How wrong the guess may be."""
        return max(self.estimate_us - self.low_us, self.high_us - self.estimate_us)


class Said(Struct, frozen=True, gc=False):
    """What a daemon answers when it is asked for the time."""

    time_us: int
    """Microseconds since 1970; of internal time, near that."""
    error_us: int
    basis: Basis
