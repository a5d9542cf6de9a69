"""The end of a view in the adaptive order: places for what has no ticket, or one that is not confirmed.

Members tell, beside what `state` has, which tickets they had when the view stopped, and what they know of the
tickets that others had. So those who go on together agree on which bundles are *confirmed*: the daemon that
sent one had its ticket then. Tickets that come to it later do not count, because another part of the view
cannot know of them. The rest of the view is delivered like this:

- an ordered bundle that is confirmed has the place of its ticket
- any other one may have been delivered by no daemon. If its sender comes along it comes after everything that
  has a place, in the order of lts; its sender does the same wherever it goes on. Otherwise it is dropped: its
  place is after the last one, and nobody has promised it
- a bundle that is not ordered has the place of its ticket, if that is known; otherwise it comes at the end,
  too, and so does a FIFO bundle behind one of its session that does. Daemons that are lost to us may have
  delivered it. What they sent after that is dropped here: it is beyond the hole where the ticket is missing

Places at the end are far beyond the clock of the view (`limits.PLACES_SPARE`): another part of the view may
go on for a while without the passive sources that are lost to it, and what it never got must not seem to come
before what it delivers.

Follows: thesis 6.1.9 and 6.1.10. NAVTECH 5.3 relies on linear views here: it discards what has no ticket.
Checked by: tests/simulation/test_restless_roles.py, the oracle's properties 2.7 to 2.15.
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
        self.after_last = last - start + limits.PLACES_SPARE
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


def give_places(
    rest: list[Entry], tickets: Mapping[tuple[int, int], "Ticket"], ending: AdaptiveEnding
) -> list[Entry]:
    """Give what was not delivered its places; the same bundles in their order."""
    is_last: set[tuple[int, int]] = set()  # sessions of which something comes at the end
    for entry in sorted(rest, key=lambda one: (one.source, one.header.number)):
        header = entry.header
        if header.flags & Flag.ORDER or not any(one.type == SEQUENCER for one in header.extensions):
            entry.place = header.lts
            continue
        ticket = tickets.get((entry.source, header.number))
        if ticket is None and entry.place:
            continue  # it is known everywhere
        sender = (header.daemon, header.session)
        comes_last = ticket is None or (header.service is FIFO and sender in is_last)
        if ticket is not None and header.service >= CAUSAL:
            comes_last = not ending.is_confirmed(header.daemon, ticket)
        if comes_last:
            is_last.add(sender)
            entry.place = header.lts + ending.after_last
        elif ticket is not None:
            entry.place = ticket.place
    return sorted(rest, key=lambda one: (one.place, one.source, one.header.number))
