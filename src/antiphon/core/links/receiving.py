"""The receiving side of a link or a ring: what has come, what is missing, what to request."""

from msgspec import Struct

from antiphon import limits
from antiphon.wire import trains
from antiphon.wire.packet import Data

NACK_DELAY_MIN_US = 1_000
NACK_DELAY_MAX_US = 50_000
NACK_WAIT_MAX_US = 1_000_000
NACK_BACKOFF_MAX_US = 250_000
"""Requests for one packet do not get rarer than this, unless a round trip takes longer: after `hop.NACKS_MAX`
of them the link has failed, and that must be detected well before the view counts as standing still."""


class _Gap(Struct):
    """One missing packet."""

    noticed_us: int
    ask_us: int
    asked: int = 0


class Reception:
    """Numbers received on one link, and the gaps among them.

    Follows: thesis figure 4.2 (lazy selective retransmits, duplicate elimination by the list of missing
    packets). Deviation: the delay before a nack follows the reordering that was seen.
    """

    def __init__(self) -> None:
        self.aru = 0
        """All packets up to this number have come."""
        self.highest = 0
        self.nack_delay_us = NACK_DELAY_MIN_US
        self._gaps: dict[int, _Gap] = {}
        self.ask_us: int | None = None
        """When to request missing packets, if any are missing."""

    @property
    def missing(self) -> int:
        return len(self._gaps)

    def lacks(self, number: int) -> bool:
        """Whether the packet with this number has not come."""
        return number > self.highest or number in self._gaps

    def take(self, data: Data, now_us: int) -> tuple[list[Data], int]:
        """What is new of a packet or of a train, and how many of its packets are not."""
        number, count = data.head.number, data.count
        if number > self.highest and self.accept(number, count, now_us):
            return [data], 0
        news = [part for part in trains.split(data) if self.accept(part.head.number, 1, now_us)]
        return news, count - len(news)

    def accept(self, number: int, count: int, now_us: int) -> bool:
        """Whether `number` and the `count - 1` after it are all new; notes them if so.

        For `count` > 1 they must continue right after the highest: a train that does not is taken apart.
        """
        if number == self.highest + 1:
            self.highest += count
            if not self._gaps:
                self.aru = self.highest
            return True
        if number > self.highest:
            if not self._note_gap(number, now_us):
                return False
            self.highest = number + count - 1
            return True
        if count > 1 or number not in self._gaps:
            return False
        self._fill(number, now_us)
        return True

    def announced(self, highest_sent: int, now_us: int) -> None:
        """The sender announces its highest number: what has not come up to there is missing. What is too
        much to be tracked at once is left for the next announcement."""
        known = min(highest_sent, self.highest + limits.LINK_MISSING_MAX - len(self._gaps))
        if known > self.highest and self._note_gap(known + 1, now_us):
            self.highest = known

    def _note_gap(self, before: int, now_us: int) -> bool:
        if before - self.highest - 1 + len(self._gaps) > limits.LINK_MISSING_MAX:
            return False
        ask_us = now_us + self.nack_delay_us
        for number in range(self.highest + 1, before):
            self._gaps[number] = _Gap(now_us, ask_us)
        if self.ask_us is None or ask_us < self.ask_us:
            self.ask_us = ask_us
        return True

    def _fill(self, number: int, now_us: int) -> None:
        gap = self._gaps.pop(number)
        if not gap.asked:  # it was only late: wait as long next time
            late_us = now_us - gap.noticed_us
            wanted_us = min(NACK_DELAY_MAX_US, max(NACK_DELAY_MIN_US, late_us * 3 // 2))
            self.nack_delay_us += (wanted_us - self.nack_delay_us) // (
                2 if wanted_us > self.nack_delay_us else 16
            )
        if not self._gaps:
            self.aru = self.highest
            self.ask_us = None
        while self.aru < self.highest and self.aru + 1 not in self._gaps:
            self.aru += 1

    def ask(self, now_us: int, retry_us: int) -> tuple[list[tuple[int, int]], int]:
        """Ranges (first, how many) to request now, and how often one of them was requested at most.

        Each is due again after `retry_us`, half as long again with every request, up to a limit.
        """
        due = sorted(number for number, gap in self._gaps.items() if gap.ask_us <= now_us)
        ranges: list[tuple[int, int]] = []
        asked_most = 0
        for number in due:
            if ranges and number == ranges[-1][0] + ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
            elif len(ranges) == limits.NACK_RANGES_MAX:
                break
            else:
                ranges.append((number, 1))
            gap = self._gaps[number]
            gap.asked += 1
            asked_most = max(asked_most, gap.asked)
            wait_us = retry_us
            for _ in range(min(gap.asked - 1, 12)):
                wait_us = wait_us * 3 // 2
            wait_us = max(retry_us, min(NACK_BACKOFF_MAX_US, wait_us))
            gap.ask_us = now_us + min(NACK_WAIT_MAX_US, wait_us)
        self.ask_us = min((gap.ask_us for gap in self._gaps.values()), default=None)
        return ranges, asked_most

    def oldest_us(self) -> int | None:
        """When the gap was noticed that has been there for longest; None if nothing is missing."""
        return min((gap.noticed_us for gap in self._gaps.values()), default=None)

    def forgive(self) -> None:
        """Start counting requests anew."""
        for gap in self._gaps.values():
            gap.asked = 0
