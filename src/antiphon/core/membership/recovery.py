"""The end of a daemon view: what its members still owe one another, worked out alike by all of them.

Follows: thesis 6.1.9 and 6.1.10 (figures 6.12 to 6.16): STATETRANS messages, resending by one who has it,
holes, commit sets, the transitional signal and the messages around it.
Deviations, where the figures break a property of chapter 2:
- figure 6.13 delivers up to the greatest known ARU before the signal. That breaks 2.8: a member may already
  have delivered agreed messages beyond it. Members also tell how far they have delivered in the agreed order,
  and nobody signals before that point. Because bundles are pruned, the point is found for each group: only
  members whose daemon hosts the group count (`line_of`).
- a message after a hole is dropped unless its sender is in the commit set (figure 6.16, line 9). That breaks
  2.7 for reliable and FIFO messages, which some member may have delivered long ago: these are always
  delivered. For the same reason a hole counts only beyond what any member has delivered.
- the commit set alone does not keep a promise made in an earlier, failed attempt: a hole that comes to light
  later could drop a message that somebody has delivered as safe by then. So the line up to which holes did
  not matter is part of the commitment, too.
- a hole is a number that a member lacks and nobody holds. Numbers that were never for a site (skipped) are no
  holes to it; whether there is a hole is decided from everybody's word, so that all drop the same.
- a bundle that was pruned from a site is sent to it if a join of that site to its group had not taken effect:
  normally the sender would have repeated it (see `groups.membership`), but the sender may be gone.
Checked by: tests/paper/test_recovery*.py, the oracle's properties 2.7, 2.8, 2.13, 2.14 and 2.18.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.state import SourceState, numbers
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Draft, Flag


class State(Struct, frozen=True, array_like=True):
    """A daemon's state at the end of its view (the STATETRANS message)."""

    view: int
    """The view that ends for it."""
    clock: int
    """Its Lamport clock."""
    delivered: int
    """The lts of the last bundle that it delivered in the agreed order."""
    stable: int
    """Its stable line."""
    committed: tuple[int, ...]
    """Daemons whose messages it has promised to deliver, in attempts to leave this view that failed."""
    committed_line: int
    """It has promised to deliver everything up to this lts."""
    joining: tuple[tuple[str, int], ...]
    """(group, lts) of joins of its own clients that have not taken effect."""
    sources: tuple[SourceState, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(State).decode


def state_bundle(state: State) -> Draft:
    """An unstamped bundle that carries `state`."""
    return control_bundle(_encode(state), Flag.STATE)


def control_bundle(body: bytes, flag: int, service: Service = Service.FIFO) -> Draft:
    """An unstamped bundle from daemon to daemons; FIFO, because one step of the recovery follows another."""
    return bundles.draft(bundles.names_area("#", ()), 0, service, body, flags=flag)


def parse_state(body: bytes) -> State:
    """The state in a bundle with the STATE flag; BadFrame if no daemon could be in it."""
    try:
        state = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrame(f"state: {type(error).__name__}") from None
    if max(state.clock, state.delivered, state.stable, state.committed_line) > limits.COUNTER_MAX:
        raise BadFrame("state: impossible counter")
    for told in state.sources:
        _check_source(told)
    return state


def _check_source(told: SourceState) -> None:
    """Bound the work that comes of a state."""
    if not 0 <= told.contiguous <= told.known <= told.contiguous + limits.OUTSTANDING_MAX:
        raise BadFrame("state: impossible numbers")
    if told.known > limits.COUNTER_MAX or not 0 <= told.lts <= limits.COUNTER_MAX:
        raise BadFrame("state: impossible counter")
    for ranges in (told.ahead, told.held):
        end = 0
        for first, last in ranges:
            if not end < first <= last <= told.known:
                raise BadFrame("state: impossible numbers")
            end = last
        if ranges and end - ranges[0][0] > limits.OUTSTANDING_MAX:
            raise BadFrame("state: impossible numbers")


class Recovery:
    """The leave-taking of one daemon from one view, from the states of all who go on together."""

    def __init__(self, me: int, view: int, states: dict[int, State]) -> None:
        self.me = me
        self.together = frozenset(daemon for daemon, state in states.items() if state.view == view)
        """The transitional set: the daemons that come from the same view."""
        self._states = {daemon: states[daemon] for daemon in sorted(self.together)}
        mine = list(self._states.values())
        self.delivered_line = max(state.delivered for state in mine)
        self.stable_line = max(state.stable for state in mine)
        self.certain_line = max(self.delivered_line, self.stable_line)
        """What comes later is after the signal for every group."""
        self.last_line = max(state.clock for state in mine)
        """No bundle of the view was born after this."""
        self._duties: dict[int, dict[int, list[int]]] = {}  # source -> number -> who lacks it; ours to send
        self._holders: dict[int, dict[int, list[int]]] = {}  # source -> number -> who holds it
        hole_line = limits.COUNTER_MAX
        sources: dict[int, dict[int, SourceState]] = {}
        for daemon, state in self._states.items():
            for known in state.sources:
                sources.setdefault(known.source, {})[daemon] = known
        for source in sorted(sources):
            hole_line = min(hole_line, self._look_at(source, sources[source]))
        self.committed_line = max([hole_line, self.delivered_line, *(state.committed_line for state in mine)])
        """Up to here no message is dropped."""
        self.committed = self.together.union(*(state.committed for state in mine))
        """No message of these daemons is dropped."""

    def _look_at(self, source: int, known: dict[int, SourceState]) -> int:
        """Find out who lacks which of a source's bundles and who has them; the line of the first hole."""
        lowest = min((known[daemon].contiguous if daemon in known else 0) for daemon in self.together)
        highest = min(max(state.known for state in known.values()), lowest + limits.OUTSTANDING_MAX)
        holders: dict[int, list[int]] = {}
        for daemon in self._by_duty(source):
            if daemon in known:
                for number in numbers(known[daemon].held):
                    holders.setdefault(number, []).append(daemon)
        self._holders[source] = holders
        lacking: dict[int, list[int]] = {}
        for daemon in sorted(self.together):
            start = known[daemon].contiguous + 1 if daemon in known else 1
            come = set(numbers(known[daemon].ahead)) if daemon in known else set()
            for number in range(start, highest + 1):
                if number not in come:
                    lacking.setdefault(number, []).append(daemon)
        duties: dict[int, list[int]] = {}
        first_hole: int | None = None
        for number in range(lowest + 1, highest + 1):
            who = lacking.get(number)
            if who is None:
                continue
            having = holders.get(number)
            if having is None:
                first_hole = number if first_hole is None else first_hole
            elif having[0] == self.me:
                duties[number] = who
        self._duties[source] = duties
        if first_hole is None:
            return limits.COUNTER_MAX
        return max((state.lts for state in known.values() if state.contiguous < first_hole), default=0)

    def _by_duty(self, source: int) -> list[int]:
        """Who should send a source's bundles again: itself, or else one after another."""
        ordered = sorted(self.together, key=lambda daemon: ((daemon - source) % 1024, daemon))
        return ordered

    def to_send(self, held: Iterable[Entry]) -> Iterable[tuple[Entry, list[int]]]:
        """Of what is held here, what this daemon must send again, and who needs it."""
        for entry in held:
            header = entry.header
            if header.flags & Flag.CONTROL:
                continue  # it was for the view that ends, and nobody waits for it
            who = self._duties.get(entry.source, {}).get(header.number, [])
            who = [*who, *self._newly_joined(entry, who)]
            if who:
                yield entry, who

    def _newly_joined(self, entry: Entry, lacking: list[int]) -> list[int]:
        """Daemons from which a bundle was pruned although a join of theirs may come before it."""
        header = entry.header
        if header.flags & ~Flag.CLIENT:
            return []
        having = self._holders.get(entry.source, {}).get(header.number, [])
        if not having or having[0] != self.me:
            return []
        groups: tuple[str, ...] | None = None
        found = []
        for daemon, state in self._states.items():
            if not state.joining or daemon in having or daemon in lacking:
                continue
            if groups is None:
                groups = bundles.parse_names(header.names)[1:]
            if any(group in groups and lts < header.lts for group, lts in state.joining):
                found.append(daemon)
        return found

    def is_delivered(self, entry: Entry) -> bool:
        """Whether a bundle that has not been delivered yet still is."""
        header = entry.header
        return (
            header.service < Service.CAUSAL
            or header.lts <= self.committed_line
            or entry.daemon in self.committed
        )

    def has_delivered(self, daemon: int, lts: int) -> bool:
        """Whether a daemon that comes along had delivered everything up to this lts when its view stopped."""
        state = self._states.get(daemon)
        return state is not None and state.delivered >= lts

    def line_of(self, hosts: Iterable[int]) -> int:
        """The lts up to which what is delivered to a group with members at these daemons comes before its
        transitional signal."""
        line = self.stable_line
        for daemon in hosts:
            state = self._states.get(daemon)
            if state is not None and state.delivered > line:
                line = state.delivered
        return line
