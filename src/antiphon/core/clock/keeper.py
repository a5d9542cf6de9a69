"""What a daemon knows of the time: the intersection of all that it was told, aged since then.

Every reading is a span that contains the time if its sender's assumptions hold, so their intersection
contains it, too, and short round trips count by themselves. The guess inside it follows the readings slowly
and runs at an estimated rate. The bound does not rely on that rate: it grows with the greatest drift that an
oscillator may have.

`say` never goes back. When the guess is behind what was said before, time runs at half speed until the guess
has caught up; the bound is computed for what is said, so it is greater meanwhile.

Follows: NAVTECH 3.1 (internal and external synchronisation of one clock).
Deviations: the document gives no algorithm; spans need no assumption about the distribution of delays.
Checked by: tests/unit/test_clock.py, the oracle's property "time".
"""

from collections import deque

from msgspec import structs

from antiphon import limits
from antiphon.core.clock.reading import BILLION, Basis, Reading, Said, internal

GAIN = 4
"""The guess moves by one part in so many towards that of a reading."""
WORSE = 3
"""A reading that is so many times as wide as what is known says nothing about where in it the time is."""
CONFLICTS_MAX = 3
"""After so many readings in a row that contradict what is known, the next one is believed instead: the clock
of a reference was wrong, and has been put right."""
ANCHORS = 32
ANCHOR_EVERY_US = 500_000
RATE_AFTER_US = 4_000_000
"""The rate is estimated over at least this time: with guesses that are 50 us off, to 25 millionths."""
SLOW = 2
"""Time that is ahead runs so many times slower."""


class Keeper:
    """The time at one daemon."""

    def __init__(self) -> None:
        self.conflicts = 0
        """Readings that contradicted what was known."""
        self.read_us = 0
        """When a reading was taken last."""
        self.rate_ppb = 0
        """By how many billionths time runs faster than the monotonic clock here, estimated."""
        self._held: Reading | None = None
        self._is_root = False  # whether our own clock is the internal time
        self._in_a_row = 0
        self._anchors: deque[tuple[int, int]] = deque(maxlen=ANCHORS)
        self._said_us = 0
        self._said_at_us: int | None = None

    def at(self, now_us: int) -> Reading | None:
        """What is known now; None if nothing, or too little."""
        held = self._held
        if held is None:
            return None
        if self._is_root:
            time_us = held.estimate_us + now_us - held.at_us
            return Reading(now_us, time_us, time_us, time_us, held.basis)
        aged = held.aged(now_us, self.rate_ppb)
        return None if aged.width_us > 2 * limits.CLOCK_ERROR_MAX_US else aged

    @property
    def basis(self) -> Basis | None:
        """Whose time it is."""
        return None if self._held is None else self._held.basis

    def is_external(self, now_us: int) -> bool:
        """Whether the time of a reference is known."""
        known = self.at(now_us)
        return known is not None and known.basis.is_external

    def be_root(self, me: int, incarnation: int, start_us: int, now_us: int) -> None:
        """From now on our own clock is the internal time: it goes on from what was known, or `start_us`."""
        if self._is_root:
            return
        known = self.at(now_us)
        time_us = start_us if known is None else known.estimate_us
        self.rate_ppb = 0
        self._replace(Reading(now_us, time_us, time_us, time_us, internal(me, now_us, incarnation)))
        self._is_root = True

    def take(self, reading: Reading, now_us: int, gain: int = GAIN) -> bool:
        """Something was read; False if it contradicts what is known."""
        reading = reading.aged(now_us)
        known = self.at(now_us)
        if known is None or not known.basis.is_comparable(reading.basis):
            self.rate_ppb = 0
            self._replace(reading)
            return True
        low_us, high_us = max(known.low_us, reading.low_us), min(known.high_us, reading.high_us)
        if low_us > high_us:
            self.conflicts += 1
            self._in_a_row += 1
            if self._in_a_row > CONFLICTS_MAX:
                self._replace(reading)
            return False
        self._in_a_row = 0
        guess_us = known.estimate_us
        if reading.width_us <= WORSE * known.width_us or gain == 1:
            guess_us += (reading.estimate_us - guess_us) // gain
        basis = reading.basis if reading.width_us <= known.width_us else known.basis
        self._hold(Reading(now_us, low_us, high_us, min(max(guess_us, low_us), high_us), basis))
        return True

    def _replace(self, reading: Reading) -> None:
        self._anchors.clear()
        self._in_a_row = 0
        self._hold(reading)

    def _hold(self, reading: Reading) -> None:
        self._held = reading
        self._is_root = False
        self.read_us = reading.at_us
        anchors = self._anchors
        if not anchors or reading.at_us - anchors[-1][0] >= ANCHOR_EVERY_US:
            anchors.append((reading.at_us, reading.estimate_us))
            span_us = reading.at_us - anchors[0][0]
            if span_us >= RATE_AFTER_US:
                rate_ppb = (reading.estimate_us - anchors[0][1] - span_us) * BILLION // span_us
                most_ppb = limits.CLOCK_DRIFT_MAX_PPM * 1_000
                self.rate_ppb = min(max(rate_ppb, -most_ppb), most_ppb)

    def say(self, now_us: int) -> Said | None:
        """The time, which is never before what was said earlier; None if it is not known."""
        known = self.at(now_us)
        if known is None:
            return None
        time_us = self._steady(known.estimate_us, now_us)
        self._said_us, self._said_at_us = time_us, now_us
        return Said(time_us, structs.replace(known, estimate_us=time_us).error_us, known.basis)

    def _steady(self, time_us: int, now_us: int) -> int:
        """What to say if `time_us` is our guess."""
        if self._said_at_us is None:
            return time_us
        return max(time_us, self._said_us + max(0, now_us - self._said_at_us) // SLOW)
