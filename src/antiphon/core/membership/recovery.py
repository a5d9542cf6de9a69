"""The end of a daemon view: what its members must still retransmit and deliver, computed alike by all.

Follows: thesis 6.1.9 and 6.1.10 (figures 6.12 to 6.16): STATETRANS messages, retransmission by one member,
holes, commit sets, the transitional signal and the messages around it.
Deviations, where the figures break a property of chapter 2:
- figure 6.13 delivers up to the greatest known ARU before the signal. That breaks 2.8: a member may already
  have delivered agreed messages beyond it. Members also tell how far they have delivered in the agreed order,
  and no member signals before that point, which is found for each group (`order.Ending.line_of`).
- a message after a hole is dropped unless its sender is in the commit set (figure 6.16, line 9). That breaks
  2.7 for reliable and FIFO messages, which some member may have delivered long ago: these are always
  delivered. For the same reason what a member has delivered in the agreed order is delivered by all.
- the commit set alone does not keep a promise made in an earlier, failed attempt: a hole that comes to light
  later could drop a message that a member has delivered as safe by then. So the line up to which holes did
  not matter is part of the commitment, too.
- a bundle that was pruned from a site is sent to it if a join of that site to its group had not taken effect:
  normally the sender would have retransmitted it (see `groups.membership`), but the sender may be gone.
What is missing, what is a hole and in which order the rest is delivered, the order of the view knows
(`ordering.order.Ending`). Lines here are places in it.
Checked by: tests/paper/test_recovery*.py, the oracle's properties 2.7, 2.8, 2.13, 2.14 and 2.18.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Ending, Order
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Draft, Flag
from antiphon.wire.decoding import NOT_A_VALUE


class MemberState(Struct, frozen=True, array_like=True):
    """A daemon's state at the end of its view (the STATETRANS message)."""

    view: int
    """The view that ends for it."""
    committed: tuple[int, ...]
    """Daemons whose messages it has promised to deliver, in attempts to leave this view that failed."""
    committed_line: int
    """It has promised to deliver everything up to this place."""
    joining: tuple[tuple[str, int], ...]
    """(group, lts) of joins of its own clients that have not taken effect."""
    order: msgspec.Raw
    """What the order of that view tells (`Order.tell`), as msgpack."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MemberState).decode


def state_bundle(state: MemberState) -> Draft:
    """An unstamped bundle that carries `state`."""
    return control_bundle(_encode(state), Flag.STATE)


def control_bundle(body: bytes, flag: int, service: Service = Service.FIFO) -> Draft:
    """An unstamped bundle from daemon to daemons; FIFO, because one step of the recovery follows another."""
    return bundles.draft(bundles.names_area("#", ()), 0, service, body, flags=flag)


def parse_state(body: bytes, order: Order) -> MemberState:
    """The state in a bundle with the STATE flag; BadFrame if no daemon could be in it."""
    try:
        state = _decode(body)
    except NOT_A_VALUE as error:
        raise BadFrame(f"state: {type(error).__name__}") from None
    if state.committed_line > limits.COUNTER_MAX:
        raise BadFrame("state: impossible counter")
    order.check_told(bytes(state.order))
    return state


class Recovery:
    """What one daemon must do at the end of one view, from the states of all who go on together."""

    def __init__(self, me: int, view: int, order: Order, states: dict[int, MemberState]) -> None:
        """`order` is that of the view that ends, `view` its identifier."""
        self.me = me
        self.members = frozenset(states)
        """The members of the next view."""
        self.together = frozenset(daemon for daemon, state in states.items() if state.view == view)
        """The transitional set: the daemons that come from the same view."""
        self._order = order
        self._states = {daemon: states[daemon] for daemon in sorted(self.together)}
        self.ending: Ending = order.ending(
            {daemon: bytes(state.order) for daemon, state in self._states.items()}
        )
        """What all who go on together know of the order."""
        self.certain_line = max(self.ending.delivered_line, self.ending.stable_line)
        """What comes after this place is delivered after the signal of every group."""
        promised = [state.committed_line for state in self._states.values()]
        self.committed_line = max([self.ending.hole_line, self.ending.stable_line, *promised])
        """Up to here no message is dropped."""
        self.committed = self.together.union(*(state.committed for state in self._states.values()))
        """No message of these daemons is dropped."""

    def to_send(self, retained: Iterable[Entry]) -> Iterable[tuple[Entry, list[int]]]:
        """The bundles among `retained` that this daemon must retransmit, with the daemons that lack each."""
        for entry in retained:
            header = entry.header
            if header.flags & Flag.CONTROL:
                continue  # it was for the view that ends, and no daemon waits for it
            who = self.ending.duties(entry.source).get(header.number, [])
            who = [*who, *self._newly_joined(entry, who)]
            if who:
                yield entry, who

    def _newly_joined(self, entry: Entry, lacking: list[int]) -> list[int]:
        """Daemons from which a bundle was pruned although a join of theirs may come before it."""
        header = entry.header
        if header.flags & ~Flag.CLIENT:
            return []
        having = self.ending.retaining(entry.source, header.number)
        if not having or having[0] != self.me:
            return []
        groups: tuple[str, ...] | None = None
        found = []
        for daemon, state in self._states.items():
            if not state.joining or daemon in having or daemon in lacking:
                continue
            if groups is None:
                groups = bundles.listened_names(header.names)
            may_follow = self._order.may_follow
            if any(group in groups and may_follow(header, lts) for group, lts in state.joining):
                found.append(daemon)
        return found

    def is_delivered(self, entry: Entry) -> bool:
        """Whether a bundle that has not been delivered yet still is."""
        return (
            entry.header.service < Service.CAUSAL
            or entry.place <= self.committed_line
            or entry.daemon in self.committed
            or self.ending.is_delivered(entry.source, entry.header.number, entry.place)
        )
