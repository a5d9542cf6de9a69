"""The size of the packets that get through to the other end of a link.

A padded hello of the size in question is sent, marked so that nothing on the way cuts it, and the other end
answers how large it was. Data is sent in packets of a size only after an answer has proved it.

Follows: RFC 8899 (DPLPMTUD): a base size that needs no proof (5.1.2), probes of which three must stay without
an answer before a size counts as too large (5.1.2), a search that goes on from time to time (5.1.1), a
confirmation of the size in use, and the base again when that fails: the path has become a black hole (4.3).
Figure 4.2 of RMP bounds probes as it bounds packets: none is larger than half of the window.
Deviations:
- messages of routers (ICMP) are not looked at: whoever can send packets could make them up
- the time to wait for an answer follows the round trip, where the RFC has a second or more: a probe that was
  only late costs no more than a size that is too small for a while
- a small hello goes with each probe. A probe counts as lost only if the other end was heard since: a path
  that is cut for a while says nothing about sizes
- the search begins when there is something to send for which it matters: most links of most views have not
- the base is not probed by the link: the membership does so before there is a link (`Peer.must_prove`)
- the RFC leaves to the protocol how a black hole is noticed: here, when a packet above the base is requested
  a second time, which takes a nack that got through
Checked by: tests/unit/test_path_size.py, tests/paper/test_hop.py, the simulator's scenario `narrow`.
"""

from enum import Enum

from antiphon import limits

STEPS_BYTES = (1_400, 1_452, 1_472, 2_900, 4_052, 8_952, 16_000, 32_000)
"""What is tried on the way up: the size that was fixed before, UDP in IPv6 and in IPv4 on Ethernet, jumbo
frames, and some between. Above the last one it is the largest that is allowed."""
NEAR_BYTES = 64
NEAR_SHARE = 8
"""The search ends when what fails is no more than this, or than this part of what gets through, above it."""
WAIT_MIN_US = 50_000
"""A probe has at least so long to be answered."""
WAIT_MAX_US = 2_000_000
SILENCES_MAX = 5
"""While the other end is not heard, it has longer and longer, up to this."""
CONFIRM_US = 60_000_000
"""So long after the last answer the size in use is confirmed: unreliable packets are not requested again."""
RAISE_US = 600_000_000
"""So long after a search the next one begins (PMTU_RAISE_TIMER): the path may have become wider."""


class PathState(Enum):
    """What a path is asked."""

    UNASKED = "unasked"
    """Nothing yet: all that was sent fits packets of the base size."""
    SEARCHING = "searching"
    """Whether larger packets get through."""
    SETTLED = "settled"
    """Nothing for now."""
    CONFIRMING = "confirming"
    """Whether packets of the size in use still get through."""


class PathSize:
    """The largest packet that is known to get through a path in one direction."""

    def __init__(self, base_bytes: int, max_bytes: int, now_us: int) -> None:
        self.base_bytes = base_bytes
        self.size_bytes = base_bytes
        """Packets of up to this size may be sent."""
        self.state = PathState.UNASKED
        self.due_us: int | None = None
        """When to ask `probe` again; None: never."""
        self.waits_for_window = False
        """Whether the next probe is larger than the window allows."""
        self.falls = 0
        """How often the path became a black hole."""
        self._max_bytes = max_bytes
        self._too_large = max_bytes + 1  # the smallest size that is known to fail
        self._trying = 0  # the size of the probes under way; 0: none
        self._tries = 0
        self._silences = 0  # probes in a row after which the other end was not heard at all
        self._sent_us = now_us
        self._raise_us = 0

    @property
    def is_unasked(self) -> bool:
        """Whether the search has not begun."""
        return self.state is PathState.UNASKED

    def begin(self, now_us: int) -> None:
        """More is to be sent than fits a packet: see how large packets may be."""
        self._raise_us = now_us + RAISE_US
        self._seek(now_us)

    def probe(self, now_us: int, patience_us: int, allowed_bytes: int, heard_us: int) -> int:
        """It is time: the size of the probe to send now, or 0. None may be larger than `allowed_bytes`, an
        answer takes `patience_us` at most, and the other end was last heard at `heard_us`."""
        if self._tries:
            self._missed(heard_us, now_us)
        elif self.state is PathState.SETTLED or self.waits_for_window:
            self._look_again(now_us)
        if not self._trying:
            return 0
        if self.state is PathState.SEARCHING and self._trying > allowed_bytes:
            self.waits_for_window = True
            self.due_us = now_us + CONFIRM_US
            return 0
        self._tries += 1
        self._sent_us = now_us
        self.due_us = now_us + min(WAIT_MAX_US, max(WAIT_MIN_US, 2 * patience_us) << self._silences)
        return self._trying

    def window_is(self, allowed_bytes: int, now_us: int) -> None:
        """Probes may have this size now."""
        if self.waits_for_window and self._trying <= allowed_bytes:
            self.waits_for_window = False
            self.due_us = now_us

    def answered(self, size_bytes: int, now_us: int) -> None:
        """A probe of this size has arrived. One that was not sent, or was given up, counts for nothing."""
        if size_bytes != self._trying or not self._tries:
            return
        self.size_bytes = size_bytes
        self._seek(now_us)

    def suspect(self, now_us: int) -> None:
        """A packet above the base was lost twice: confirm that such packets get through."""
        if self.size_bytes > self.base_bytes and self.state is not PathState.CONFIRMING:
            self._confirm(now_us)

    def _missed(self, heard_us: int, now_us: int) -> None:
        """The last probe was not answered in time."""
        if heard_us < self._sent_us:
            self._tries -= 1
            self._silences = min(self._silences + 1, SILENCES_MAX)
        elif self._tries >= limits.PACKET_PROBES_MAX:
            self._failed(now_us)

    def _seek(self, now_us: int) -> None:
        """Try the next size, if any is worth it."""
        self._tries = self._silences = 0
        self.waits_for_window = False
        self._trying = self._next_size()
        if self._trying:
            self.state = PathState.SEARCHING
            self.due_us = now_us
            return
        self.state = PathState.SETTLED
        is_wider = self.size_bytes < self._max_bytes
        self.due_us = None
        if self.size_bytes > self.base_bytes:
            self.due_us = now_us + CONFIRM_US
        if is_wider and (self.due_us is None or self._raise_us < self.due_us):
            self.due_us = max(now_us + 1, self._raise_us)

    def _next_size(self) -> int:
        low, high = self.size_bytes, self._too_large
        for step in (*STEPS_BYTES, self._max_bytes):
            if low < step < high and step <= self._max_bytes:
                return step
        if high > self._max_bytes or high - low <= max(NEAR_BYTES, low // NEAR_SHARE):
            return 0
        return (low + high) // 2

    def _look_again(self, now_us: int) -> None:
        """Nothing was asked for a long time."""
        if now_us >= self._raise_us:
            self._raise_us = now_us + RAISE_US
            self._too_large = self._max_bytes + 1
            self._seek(now_us)
        elif self.size_bytes > self.base_bytes:
            self._confirm(now_us)

    def _confirm(self, now_us: int) -> None:
        self.state = PathState.CONFIRMING
        self._trying = self.size_bytes
        self._tries = self._silences = 0
        self.waits_for_window = False
        self.due_us = now_us

    def _failed(self, now_us: int) -> None:
        """No probe of a size was answered."""
        self._too_large = self._trying
        if self.state is PathState.CONFIRMING:
            self.size_bytes = self.base_bytes
            self.falls += 1
            self._raise_us = now_us + RAISE_US
        self._seek(now_us)
