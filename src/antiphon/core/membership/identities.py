"""Two processes of one daemon at the same time: a mistake of operators that would keep all others busy.

Both bear the name of one daemon. A daemon that hears both takes each for a restart of the other, and ends its
view for it, again and again. A restart is different: the process before it is never heard again, but for
packets that are late.

- Proof: a process answers something that we sent after another process of the same daemon had answered
  something that we sent after the first one was heard. Lives that follow one another cannot do that.
- Only one of the two may hear us. So it counts, too, if they are heard in turns for longer than any packet is
  under way.

The thesis has nothing like it. What follows is decided by `exclusions` and `loss`: neither of the two
processes is taken into a view as long as both are heard.
Checked by: tests/unit/test_identities.py, the scenario `twins` and its mutants.
"""

from msgspec import Struct

from antiphon import limits


class _Pair(Struct):
    """The two newest processes of a daemon that were heard."""

    newer: int
    """Incarnation; 0 is none."""
    older: int = 0
    newer_clock_us: int = -1
    """The newest clock value that it has shown."""
    older_clock_us: int = -1
    since_us: int = 0
    """When the newer one was heard first."""
    answered_us: int | None = None
    """When the newer one had answered something that was sent since then."""
    last: int = 0
    """The one that was heard last."""
    returns: int = 0
    first_return_us: int = 0
    last_return_us: int = -(10**15)


class Identities:
    """Which processes one daemon has heard of each other daemon."""

    def __init__(self) -> None:
        self._pairs: dict[int, _Pair] = {}

    def hear(self, daemon: int, incarnation: int, clock_us: int, echo_us: int, now_us: int) -> bool:
        """A beat came in; whether it shows that the daemon runs twice."""
        pair = self._pairs.get(daemon)
        if pair is None:
            pair = self._pairs[daemon] = _Pair(incarnation)
        if incarnation not in (pair.newer, pair.older):
            self._pairs[daemon] = _Pair(
                incarnation, pair.newer, clock_us, pair.newer_clock_us, now_us, last=incarnation
            )
            return False
        if not _is_news(pair, incarnation, clock_us):
            return False
        if incarnation == pair.newer:
            if pair.answered_us is None and pair.since_us < echo_us <= now_us:
                pair.answered_us = now_us
            is_proven = False
        else:
            is_proven = pair.answered_us is not None and pair.answered_us < echo_us <= now_us
        if incarnation == pair.last:
            return is_proven
        pair.last = incarnation
        return _has_returned(pair, now_us) or is_proven


def _is_news(pair: _Pair, incarnation: int, clock_us: int) -> bool:
    """Whether a beat is not a copy and was not overtaken; notes its clock."""
    if incarnation == pair.newer:
        if clock_us <= pair.newer_clock_us:
            return False
        pair.newer_clock_us = clock_us
    else:
        if clock_us <= pair.older_clock_us:
            return False
        pair.older_clock_us = clock_us
    return True


def _has_returned(pair: _Pair, now_us: int) -> bool:
    """A process is heard again after the other one; whether that goes on for too long."""
    if now_us - pair.last_return_us > limits.TWIN_AFTER_US:
        pair.returns, pair.first_return_us = 0, now_us
    pair.returns += 1
    pair.last_return_us = now_us
    return pair.returns >= limits.TWIN_RETURNS and now_us - pair.first_return_us >= limits.TWIN_AFTER_US
