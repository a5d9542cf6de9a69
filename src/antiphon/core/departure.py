"""A planned stop: how a daemon that is told to end takes leave of its clients and of the other daemons.

1. It takes no more from clients, and waits until what they have sent is at every daemon that must have it;
   they are told so, so that they know what has become of their messages.
2. It ends their sessions, in the agreed order as any disconnect: other members see them depart.
3. It announces that it leaves the view of daemons (`membership.leaving`), and waits until its neighbours have
   gone on without it.

Each of these waits has a bound: a slow receiver, a view that does not come, and neighbours that never answer
do not keep a process alive. What is not done by then ends as in a crash.
"""

from enum import Enum
from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.membership.patience import GATHERS_MAX
from antiphon.wire import frames

if TYPE_CHECKING:
    from antiphon.core.node import Node


class DeparturePhase(Enum):
    """How far a planned stop has come."""

    NONE = "none"
    """The daemon is not told to stop."""
    DRAINING = "draining"
    """What clients have sent is on its way."""
    ENDING = "ending"
    """The ends of their sessions are on their way."""
    LEAVING = "leaving"
    """The daemon has announced that it leaves, and waits for the other daemons."""
    GONE = "gone"
    """The process may end."""


class Departure:
    """The planned stop of one daemon."""

    def __init__(self, node: "Node") -> None:
        self.phase = DeparturePhase.NONE
        self._node = node
        self._due_us: int | None = None  # when the phase is over, done or not
        self._view = 0  # the view that is left

    def begin(self, now_us: int) -> None:
        """An event: the daemon is told to stop. When `is_over`, the driver ends it."""
        if self.phase is DeparturePhase.NONE:
            self._node.sessions.is_closed = True
            self._enter(DeparturePhase.DRAINING, self._drain_us, now_us)
            self._node.is_settled = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done."""
        return self.phase is DeparturePhase.GONE

    def next_deadline_us(self) -> int | None:
        """When to look at the latest."""
        return self._due_us

    def go_on(self, now_us: int) -> None:
        """Take the next step, if it is time."""
        node = self._node
        is_late = self._due_us is not None and now_us >= self._due_us
        if self.phase is DeparturePhase.DRAINING and (is_late or self._is_everywhere):
            self._end_sessions()
            self._enter(DeparturePhase.ENDING, self._drain_us, now_us)
        elif self.phase is DeparturePhase.ENDING and (is_late or (not node.sessions and self._has_sent)):
            timing = node.membership.timing
            self._enter(DeparturePhase.LEAVING, GATHERS_MAX * timing.gather_us + limits.STOP_LEAVE_US, now_us)
            self._announce(now_us)
        elif self.phase is DeparturePhase.LEAVING:
            self._leave(is_late, now_us)

    def _leave(self, is_late: bool, now_us: int) -> None:
        membership = self._node.membership
        working = membership.standing.working_view
        if is_late or working is None or not membership.leaving.waits_for(working, now_us):
            membership.part(now_us)
            self.phase = DeparturePhase.GONE
            self._due_us = None
        elif membership.is_active and working.id != self._view:
            self._announce(now_us)  # a view that was proposed before has taken us along once more

    def _announce(self, now_us: int) -> None:
        self._view = self._node.view.id
        self._node.membership.leave(now_us)

    def _end_sessions(self) -> None:
        """End the sessions of the clients; for other members each end has its place in the order."""
        node = self._node
        goodbye = frames.Goodbye(frames.STOPPING, frames.STOPPING_REASON)
        for session in node.sessions:
            if not session.is_leaving:
                session.is_connected = False
                node.requests.end(session)
                node.stop_listening(session)
                node.endings.append((session.number, goodbye))

    @property
    def _drain_us(self) -> int:
        return self._node.membership.timing.suspect_us + limits.STOP_DRAIN_US

    @property
    def _has_sent(self) -> bool:
        """Whether the ends of the sessions have come everywhere, if the view works."""
        node = self._node
        return not node.membership.is_active or not node.order.own_unstable_bytes

    @property
    def _is_everywhere(self) -> bool:
        """Whether the view works, and has all that this daemon and its clients have sent. Without clients
        there is nothing that would matter."""
        node = self._node
        if not node.sessions:
            return True
        is_flowing = node.membership.is_active and node.group_state == "gop"
        return is_flowing and not node.sessions.waiting and not node.order.own_unstable_bytes

    def _enter(self, phase: DeparturePhase, for_us: int, now_us: int) -> None:
        self.phase = phase
        self._due_us = now_us + for_us
        self._node.is_settled = False
