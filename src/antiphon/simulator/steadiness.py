"""How often daemons that are well may change their view while damage lasts, by the damping's own formula.

An *episode* is what one loss of something that flaps costs: a view without it, and a view with it again.
After its n-th loss, from the second one on, it stays out until it has held for a term of `damp_us` * 2^(n-1),
at most `damp_max_us`. If it never holds for that long, it is out for `TRIED_AFTER_TERMS` such terms. So the
number of episodes grows with the logarithm of time at first, and then by one for each longest term, or for
each eight of them.
"""

from collections.abc import Iterable

from msgspec import Struct, structs

from antiphon.config import Timing
from antiphon.core.membership.damping import TRIED_AFTER_TERMS

VIEWS_PER_EPISODE = 2
UNDAMPED = 1
"""Episodes before the damping begins: the first loss is no habit."""
SILENT_SHARE = 6
"""At most one part in so many of any time may pass without a view that works: ten seconds of a minute."""


class Steady(Struct, frozen=True):
    """What is asked of daemons that are well, from a time of the working phase on until all is restored."""

    daemons: tuple[str, ...]
    from_us: int
    views: int
    """How many daemon views each of them may install."""
    silent_us: int
    """How long each daemon may be without a view that works, all times added up."""

    def without(self, daemon: str) -> "Steady":
        """This rule for a cluster that never had this daemon."""
        return structs.replace(self, daemons=tuple(name for name in self.daemons if name != daemon))


def episodes(timing: Timing, holds_us: int, span_us: int) -> int:
    """How often something that flaps may be lost in the time after it begins to; `holds_us` is the longest
    time for which it holds. The trial at another member may be over a quarter earlier.

    >>> from antiphon.config.timing import PRESETS
    >>> [episodes(PRESETS["lan"], 6_000_000, minutes * 60_000_000) for minutes in (1, 2, 4, 8)]
    [5, 5, 6, 7]
    """
    losses = UNDAMPED + 1
    lost_us = 0
    while lost_us < span_us:
        term_us = min(timing.damp_max_us, timing.damp_us << min(losses - 1, 10))
        lost_us += term_us if term_us * 3 // 4 <= holds_us else TRIED_AFTER_TERMS * term_us
        losses += 1
    return losses - 1


def steady(
    timing: Timing,
    daemons: Iterable[str],
    holds_us: Iterable[int],
    latency_us: int,
    from_us: int,
    until_us: int,
) -> Steady:
    """The bounds for these daemons; for each thing that is damaged from `from_us` on, `holds_us` has the
    longest time for which it works, 0 if it never does.

    Each may need one view more, when not all of its links came back at once. A change of view is silent for a
    search and an exchange of state, and once for a suspicion: a member that was taken in may be lost before
    the view has formed.
    """
    span_us = until_us - from_us
    views = sum(
        VIEWS_PER_EPISODE * (episodes(timing, each_us, span_us) if each_us else UNDAMPED) + 1
        for each_us in holds_us
    )
    change_us = timing.suspect_us + timing.segment_us + 2 * timing.gather_us + 8 * latency_us
    silent_us = min(views * change_us, span_us // SILENT_SHARE)
    return Steady(tuple(daemons), from_us, views, silent_us)
