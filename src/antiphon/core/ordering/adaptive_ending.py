"""The end of a view in the adaptive order: places for what has no ticket, or one that is not confirmed.

Members tell, beside what `state` has, which tickets they had when the view stopped, and what they know of the
tickets that others had. So those who go on together agree on which bundles are *confirmed*: the daemon that
sent one had its ticket then. Tickets that come to it later do not count, because another part of the view
cannot know of them. The rest of the view is delivered like this:

- an ordered bundle that is confirmed has the place of its ticket
- any other one may have been delivered by no daemon. If its sender comes along it comes after everything that
  has a place, in the order of lts; its sender does the same wherever it goes on. Otherwise it is dropped: its
  place is after the last one, and nobody has promised it
- a bundle that is not ordered has the place of its ticket, whoever knows it. Without one it comes as early as
  it may: daemons that are lost to us may have delivered it and sent what depends on it. A FIFO bundle stays
  behind what its session sent before

Follows: thesis 6.1.9 and 6.1.10. NAVTECH 5.3 relies on linear views here: it discards what has no ticket.
Checked by: tests/paper/test_adaptive_ending.py, the oracle's properties 2.7 to 2.15.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from antiphon import limits
from antiphon.core.ordering.ending import SymmetricEnding
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.state import OrderState, check_state
from antiphon.core.overlay.topology import Segment
from antiphon.errors import BadFrame
from antiphon.service import CAUSAL, FIFO
from antiphon.wire.bundle import Flag
from antiphon.wire.extensions import SEQUENCER

if TYPE_CHECKING:
    from antiphon.core.ordering.adaptive import Ticket

_NEWEST_MAX = 4 * limits.DAEMONS_MAX


class AdaptiveState(OrderState, frozen=True, array_like=True):
    """One daemon's knowledge of the order of its view."""

    last: int
    """Its Lamport clock when the view stopped: no place is later. `clock` is beyond that, so that what has no
    place finds one before everything of the next view."""
    had: tuple[tuple[int, int], ...]
    """By sequencer, the number of the bundle up to which it had all tickets when the view stopped."""
    confirmed: tuple[tuple[int, int, int], ...]
    """(daemon, sequencer, number): what it knows of the tickets that other daemons had."""


_decode = msgspec.msgpack.Decoder(AdaptiveState).decode


def parse_adaptive_state(body: bytes) -> AdaptiveState:
    """What a daemon has told; BadFrame if no daemon could be in that state."""
    try:
        state = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrame(f"state: {type(error).__name__}") from None
    check_state(state)
    if len(state.had) > limits.DAEMONS_MAX or len(state.confirmed) > limits.DAEMONS_MAX * limits.SITES_MAX:
        raise BadFrame("state: too many tickets")
    numbers = [state.last, *(number for _, number in state.had)]
    numbers += (number for _, _, number in state.confirmed)
    if any(not 0 <= number <= limits.COUNTER_MAX for number in numbers):
        raise BadFrame("state: impossible counter")
    return state


class AdaptiveEnding(SymmetricEnding):
    """See `order.Ending`."""

    def __init__(
        self, me: int, segments: Iterable[Segment], states: Mapping[int, AdaptiveState], start: int
    ) -> None:
        super().__init__(me, segments, states)
        last = max(state.last for state in states.values())
        self.after_last = last - start
        """What has no place is put so much later than its lts: beyond everything that has one."""
        self.confirmed: dict[int, dict[int, int]] = {}
        """By daemon and sequencer, the number up to which the daemon had the tickets."""
        for daemon, state in states.items():
            known = [(daemon, *newest) for newest in state.had]
            for owner, sequencer, number in (*known, *state.confirmed):
                numbers = self.confirmed.setdefault(owner, {})
                numbers[sequencer] = max(numbers.get(sequencer, 0), number)

    def is_confirmed(self, daemon: int, ticket: "Ticket") -> bool:
        """Whether a daemon had a ticket when its view stopped."""
        if ticket.place <= self.stable_line:
            return True
        return self.confirmed.get(daemon, {}).get(ticket.sequencer, 0) >= ticket.number


def settle(
    rest: list[Entry], tickets: Mapping[tuple[int, int], "Ticket"], ending: AdaptiveEnding
) -> list[Entry]:
    """Give what was not delivered its places; the same bundles in their order."""
    newest: dict[int, int] = {}  # by source, the place of what was looked at last
    is_last: set[tuple[int, int]] = set()  # sessions with an ordered bundle that has no place
    for entry in sorted(rest, key=lambda one: (one.source, one.header.number)):
        header = entry.header
        if header.flags & Flag.ORDER or not any(one.type == SEQUENCER for one in header.extensions):
            entry.place = header.lts
            continue
        ticket = tickets.get((entry.source, header.number))
        sender = (header.daemon, header.session)
        if entry.place and ticket is None:
            pass  # it was known everywhere
        elif header.service >= CAUSAL:
            if ticket is None or not ending.is_confirmed(header.daemon, ticket):
                is_last.add(sender)
                entry.place = header.lts + ending.after_last
            else:
                entry.place = ticket.place
        elif header.service is FIFO and sender in is_last:
            entry.place = header.lts + ending.after_last
        elif ticket is not None:
            entry.place = ticket.place
        else:
            entry.place = max(header.lts, ending.delivered_line, newest.get(entry.source, 0))
        if sender not in is_last:
            newest[entry.source] = entry.place
    return sorted(rest, key=lambda one: (one.place, one.source, one.header.number))
