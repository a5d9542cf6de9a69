"""How far a session is behind with its output, and what follows from that.

The driver keeps the output; the node is told how much waits when that leaves the band that it last named.
Three marks make the bands, with room between rising and falling so that a session is not warned again and
again:

    more than soft       it is behind, and warned: with the policy "disconnect" its senders are stopped,
                         with "drop-unreliable" unreliable messages are no longer queued for it
    more than 2 x soft   it is far behind: now its senders are stopped in any case
    at most soft / 2     it keeps up again

A session that is far behind and has come down to the soft limit is behind. The driver ends a session for
which more than the hard limit waits, whatever its policy.
"""

import sys
from enum import IntEnum

from msgspec import Struct

from antiphon.types import SlowPolicy, SlowReceiver


class Lag(IntEnum):
    """How well a session keeps up."""

    NONE = 0
    BEHIND = 1
    FAR_BEHIND = 2


class Band(Struct, frozen=True):
    """The driver tells the node again when at most `low_bytes` wait, or more than `high_bytes`."""

    low_bytes: int
    high_bytes: int
    notice: SlowReceiver | None = None
    """The notice that the session has fallen behind, or keeps up again; None if neither is new."""
    is_wanted: bool = False
    """Whether the session wants the notice: then the driver writes it before the output that waits."""


def lag_after(lag: Lag, waiting_bytes: int, soft_bytes: int) -> Lag:
    """How well a session keeps up that was at `lag` and for which so much waits now."""
    if waiting_bytes > 2 * soft_bytes:
        return Lag.FAR_BEHIND
    if waiting_bytes > soft_bytes:
        return max(lag, Lag.BEHIND)
    if waiting_bytes > soft_bytes // 2:
        return min(lag, Lag.BEHIND)
    return Lag.NONE


def marks_of(lag: Lag, soft_bytes: int) -> tuple[int, int]:
    """How little and how much may wait before something follows from it."""
    if lag is Lag.NONE:
        return -1, soft_bytes
    if lag is Lag.BEHIND:
        return soft_bytes // 2, 2 * soft_bytes
    return soft_bytes, sys.maxsize


def stops_senders(lag: Lag, policy: SlowPolicy) -> bool:
    """Whether such a session stops its senders."""
    return lag >= (Lag.BEHIND if policy == "disconnect" else Lag.FAR_BEHIND)
