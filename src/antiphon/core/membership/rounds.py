"""Why views change: each round of the daemon membership leaves a record.

A round begins when a daemon loses its view or finds a reason to look for a larger one, and ends with a view,
with nothing new, or by giving way to the next round. "Why did this view happen?" always has an answer.
"""

from collections import deque
from enum import Enum

from msgspec import Struct

from antiphon import limits
from antiphon.core.view import DaemonView


class Reason(Enum):
    """Why a round began, or why a state was entered."""

    STARTED = "started"
    """This daemon has just been started."""
    SILENCE = "silence"
    """A neighbour was not heard for too long."""
    LINK_FAILED = "link-failed"
    """A packet did not get through, however often it was sent."""
    RESTARTED = "restarted"
    """A member is another process than it was."""
    ABANDONED = "abandoned"
    """A member told us that it has given up the view."""
    FOUND = "found"
    """A daemon outside of the view hears us, and we hear it."""
    BETTER_LINK = "better-link"
    """Two members that should have a link to each other, and had none, hear each other again."""
    LEAVING = "leaving"
    """A member of the view, or this daemon itself, was told to stop and has announced that."""
    ASKED = "asked"
    """A member of the view gathers."""
    STUCK = "stuck"
    """A view that was being formed made no progress."""
    STALLED = "stalled"
    """In a view that works, something waited for too long although all neighbours were heard."""
    IMPOSSIBLE = "impossible-state"
    """The state that a member told at the end of its view cannot be true."""
    NONSENSE = "nonsense"
    """Under the seal of a member came too much of what no daemon sends."""
    TWINS = "twins"
    """A member turned out to run twice, as two processes at the same time."""
    UNANSWERED = "unanswered"
    """No proposal came."""
    ALONE = "alone"
    """The search in this site is over and this daemon represents it."""
    REPRESENTED = "represented"
    """The search in this site is over and another daemon represents this one."""
    PROPOSED = "proposed"
    """A view is being formed."""
    STATE_KNOWN = "state-known"
    """The state of every member is known."""
    INSTALLED = "installed"
    """A view is complete."""
    NOTHING_NEW = "nothing-new"
    """The search has led to no better view."""


class Round(Struct):
    """One attempt to find out who is there."""

    started_us: int
    reason: Reason
    peer: int | None
    detail: str
    states: list[tuple[str, int]] = []
    """(state, microseconds spent in it), in order."""
    ended_us: int | None = None
    ended: str = ""
    """How the round ended, for people and scripts."""
    view: int | None = None
    members: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    recovered_bundles: int = 0
    """Bundles of the old view that were missing here and came."""
    recovered_bytes: int = 0
    resent_bundles: int = 0
    """Bundles of the old view that this daemon sent to others."""
    resent_bytes: int = 0


class Rounds:
    """The newest rounds of one daemon, and the one that is under way."""

    def __init__(self) -> None:
        self.past: deque[Round] = deque(maxlen=limits.ROUNDS_KEPT)
        self.current: Round | None = None
        self._state_since_us = 0

    def begin(self, reason: Reason, peer: int | None, detail: str, now_us: int) -> None:
        """A round begins; one that is under way has led to nothing else."""
        if self.current is not None:
            self.end("given up", now_us)
        self.current = Round(now_us, reason, peer, detail)
        self._state_since_us = now_us

    def add(self, reason: Reason, peer: int, detail: str) -> None:
        """A reason comes to light in the round that is under way: for a member that was only asked to gather
        the reason of the round, for others a further one."""
        record = self.current
        if record is not None and record.reason is Reason.ASKED:
            record.reason, record.peer, record.detail = reason, peer, detail
        elif record is not None and (record.reason, record.peer) != (reason, peer):
            record.detail += f"; {detail}"

    def left(self, state: str, now_us: int) -> None:
        """The membership leaves a state."""
        if self.current is not None:
            self.current.states.append((state, now_us - self._state_since_us))
            self._state_since_us = now_us

    def installed(
        self, before: DaemonView, view: DaemonView, transitional: frozenset[int], now_us: int
    ) -> None:
        """A round has led from one view to another, together with the daemons of the transitional set."""
        record = self.current
        if record is not None:
            record.view = view.id
            record.members = view.members
            record.joined = tuple(sorted(set(view.members) - transitional))
            record.lost = tuple(sorted(set(before.members) - set(view.members)))
            self.end("installed", now_us)

    def end(self, how: str, now_us: int) -> None:
        if self.current is not None:
            self.current.ended_us = now_us
            self.current.ended = how
            self.past.append(self.current)
            self.current = None
