"""Which losses decrease the window: one decrease for those of one window of data, taken back if they were
none.

Follows: RFC 9438 4.9 and RFC 4015 (the state before a decrease that was spurious comes back), RFC 5682 (all
that was sent before a timeout is acknowledged without a retransmission: the timeout was spurious).
Deviations: the evidence is Hop's own. A packet that is acknowledged before its second copy can have arrived
was late, not lost. A silence after which everything is acknowledged without a nack was a pause of one of the
two processes, or of the path.
Checked by: tests/paper/test_congestion.py.
"""

from typing import Any

from msgspec import Struct

from antiphon.core.links.congestion.controller import Controller
from antiphon.core.links.congestion.evidence import Evidence


class _Episode(Struct):
    """One decrease of the window, until it is known whether there was reason for it."""

    before: dict[str, Any]
    began_us: int
    last_number: int
    """The highest number sent when it began."""
    suspects: set[int]
    """Packets that were requested and of which it is not known whether they were lost."""
    is_collapse: bool = False


class Losses:
    """The decreases of one window."""

    def __init__(self, controller: Controller, evidence: Evidence) -> None:
        self.taken_back = 0
        """Decreases for losses that were none."""
        self._controller = controller
        self._evidence = evidence
        self._recovery_number = 0
        self._episode: _Episode | None = None

    def is_recovering(self, number: int) -> bool:
        """Whether packet `number` was sent before the last decrease."""
        return number <= self._recovery_number

    def lost(self, number: int, highest_sent: int, now_us: int) -> None:
        """Packet `number` is requested for the first time."""
        episode = self._episode
        if number <= self._recovery_number:
            if episode is None:
                return
            if episode.is_collapse:
                self._episode = None  # the silence had a reason
            else:
                episode.suspects.add(number)
            return
        self._evidence.lost()
        before = self._controller.state()
        if self._controller.lost(self._evidence, now_us):
            self._evidence.answered()
            self._recovery_number = highest_sent
            self._episode = _Episode(before, now_us, highest_sent, {number})

    def collapsed(self, highest_sent: int, now_us: int) -> None:
        """Nothing has come through for so long that congestion is persistent."""
        if self._episode is None or not self._episode.is_collapse:
            self._episode = _Episode(self._controller.state(), now_us, highest_sent, set(), True)
        self._recovery_number = highest_sent
        self._controller.collapse(now_us)

    def resolved(self, number: int, was_lost: bool, now_us: int) -> None:
        """Packet `number`, which was requested, is acknowledged: its first copy, or a later one."""
        episode = self._episode
        if episode is None or number not in episode.suspects:
            return
        episode.suspects.discard(number)
        if was_lost:
            self._episode = None
        elif not episode.suspects:
            self._take_back(episode, now_us)

    def acknowledged(self, aru: int, now_us: int) -> None:
        """All packets up to `aru` have arrived."""
        episode = self._episode
        if episode is not None and episode.is_collapse and aru >= episode.last_number:
            self._take_back(episode, now_us)

    def _take_back(self, episode: _Episode, now_us: int) -> None:
        self._controller.restore(episode.before, now_us - episode.began_us)
        self._episode = None
        self._recovery_number = 0
        self.taken_back += 1
