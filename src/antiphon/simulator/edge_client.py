"""A simulated client of an edge.

What it gives to its edge is sent later, by a session of an attachment, and the trace tells that of the
attachment (`simulator.guests`). Here it is *handed*, and told apart from all else that any client of an edge
hands over by the last bytes of each payload.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from antiphon.service import Service
from antiphon.simulator.client import Client, Output
from antiphon.trace import Event, Record
from antiphon.trace.feeds import number_of
from antiphon.types import Resilience, View
from antiphon.wire import frames

if TYPE_CHECKING:
    from antiphon.types import Gap

HARMLESS = frozenset(("at-an-edge",))
"""Problems that a client at an edge may be told of: it asked for what an edge has not."""


class EdgeClient(Client):
    """One session at an edge."""

    _handed = 0
    """How many messages it has made."""

    def send(
        self,
        groups: tuple[str, ...],
        service: Service,
        payloads: Sequence[bytes],
        self_discard: bool = False,
        resilience: Resilience | None = None,
    ) -> None:
        """Queue one bundle; it counts as handed over when the edge reads it."""
        marked = []
        for body in payloads:
            self._handed += 1
            marked.append(body + f" {self._node.incarnation:x}.{self.session}.{self._handed}".encode())
        super().send(groups, service, marked, self_discard, resilience)

    def _note(self, record: Record, now_us: int) -> None:
        super()._note(record, now_us)
        if record.event is Event.SEND:
            record.event = Event.HANDED

    def take(self, output: Output, now_us: int) -> None:
        """The application reads one frame."""
        if isinstance(output, frames.GapFrame):
            self._take_gap(output.gap, now_us)
        elif isinstance(output, frames.Unsure):
            self._note_fate(Event.UNSURE, output.sequence, output.count, now_us)
        elif isinstance(output, frames.NotSent):
            self._note_fate(Event.UNSENT, output.sequence, output.count, now_us)
        elif isinstance(output, frames.Problem):
            assert output.code in HARMLESS, f"{self.process} was told {output}"
        else:
            super().take(output, now_us)

    def _meant(self, view: View, names: tuple[str, ...]) -> tuple[str, ...]:
        return self._bearers.meant_by_any(view, names)

    def _choice(self, groups: tuple[str, ...]) -> str:
        """Everything comes in the one order, whatever it chose."""
        return ""

    def _take_gap(self, gap: "Gap", now_us: int) -> None:
        record = self._record(Event.GAP, (gap.group,))
        record.position, record.time_us = len(self._records), now_us
        record.views = (None if gap.after is None else number_of(gap.after),)
        record.lts, record.place, record.reason = gap.after_lts, gap.until_lts, gap.reason
        self._records.append(record)

    def _note_fate(self, event: Event, sequence: int, count: int, now_us: int) -> None:
        """Put into the trace what it is told of messages that it has handed over."""
        record = self._record(event, ())
        record.position, record.time_us = len(self._records), now_us
        record.message, record.count = self._identity(sequence), count
        self._records.append(record)
