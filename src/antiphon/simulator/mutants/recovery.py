"""Mutants of the recovery: what the members of a view that ends send each other, deliver, drop and signal."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from msgspec import structs

from antiphon import limits
from antiphon.core.membership.changeover import Changeover, Commitment
from antiphon.core.membership.recovery import MemberState, Recovery
from antiphon.core.membership.rounds import Round
from antiphon.core.ordering import ending
from antiphon.core.ordering.ending import SymmetricEnding
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Order
from antiphon.core.ordering.ranges import numbers, to_ranges
from antiphon.core.ordering.state import SourceState, parse_state
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.service import Service
from antiphon.simulator.mutants.mutant import Mutant, Original

ToSend = Iterable[tuple[Entry, list[int]]]


# Exchange ---------------------------------------------------------------------------------------------------


def _last_one_not_sent(original: Original) -> Original:
    def to_send(recovery: Recovery, retained: Iterable[Entry]) -> ToSend:
        return list(original(recovery, retained))[:-1]

    return to_send


def _only_own_sent(original: Original) -> Original:
    """Each daemon retransmits its own bundles; no daemon those of a lost one."""

    def to_send(recovery: Recovery, retained: Iterable[Entry]) -> ToSend:
        return [(entry, who) for entry, who in original(recovery, retained) if entry.source == recovery.me]

    return to_send


def _one_receiver(original: Original) -> Original:
    """Only the first of several daemons that lack a bundle gets it."""

    def to_send(recovery: Recovery, retained: Iterable[Entry]) -> Iterator[tuple[Entry, list[int]]]:
        for entry, who in original(recovery, retained):
            yield entry, who[:1]

    return to_send


def _joins_not_told(original: Original) -> Original:
    def joins_under_way(changeover: Changeover) -> tuple[tuple[str, int], ...]:
        return ()

    return joins_under_way


def _only_undelivered_told(original: Original) -> Original:
    """What a daemon has delivered it no longer says that it has."""

    def tell_source(order: SymmetricOrder, source: int) -> SourceState:
        told: SourceState = original(order, source)
        retained = [entry.header.number for entry in order.undelivered(frozenset()) if entry.source == source]
        return structs.replace(told, retained=to_ranges(sorted(retained)))

    return tell_source


def _done_at_once(original: Original) -> Original:
    """A daemon says that it has got everything when it has sent everything."""

    def conclude_step(changeover: Changeover, now_us: int) -> None:
        if changeover.recovery is not None:
            changeover._resent |= changeover.recovery.together
        original(changeover, now_us)

    return conclude_step


def _installs_alone(original: Original) -> Original:
    """A daemon that has got everything does not wait for the others."""

    def conclude_step(changeover: Changeover, now_us: int) -> None:
        original(changeover, now_us)
        changeover.is_finished = changeover._committed

    return conclude_step


def _whoever_was_with_us(original: Original) -> Original:
    """Daemons of the view that ends come along, even if they have been in another one since."""

    def compare(changeover: Changeover, record: Round | None, now_us: int) -> None:
        view = changeover._old.view
        for daemon, state in changeover._states.items():
            if daemon in view.members:
                changeover._states[daemon] = structs.replace(state, view=view.id)
        original(changeover, record, now_us)

    return compare


def _recovered_of_any_view(original: Original) -> Original:
    """A bundle that was sent again counts, from whatever view its sender comes."""

    def recover(changeover: Changeover, sender: int, *others: Any) -> None:
        state = changeover._states.get(sender)
        if state is not None:
            changeover._states[sender] = structs.replace(state, view=changeover._old.view.id)
        try:
            original(changeover, sender, *others)
        finally:
            if state is not None:
                changeover._states[sender] = state

    return recover


def _recovered_at_once(original: Original) -> Original:
    """Recovered bundles are given up as those of a view that works are."""

    def recover(order: SymmetricOrder, entry: Entry) -> bool:
        if order.has(entry.source, entry.header.number):
            return bool(original(order, entry))
        return order.receive(entry)

    return recover


# Delivering the rest ----------------------------------------------------------------------------------------


def _by_source(original: Original) -> Original:
    def undelivered(order: SymmetricOrder, promised: Set[int]) -> list[Entry]:
        return sorted(original(order, promised), key=lambda entry: (entry.source, entry.header.number))

    return undelivered


def _own_dropped_after_a_hole(original: Original) -> Original:
    def is_delivered(recovery: Recovery, entry: Entry) -> bool:
        return entry.header.service < Service.CAUSAL or entry.place <= recovery.committed_line

    return is_delivered


def _all_services_dropped(original: Original) -> Original:
    """Figure 6.16, line 9, as it stands: reliable and FIFO messages are dropped after a hole, too."""

    def is_delivered(recovery: Recovery, entry: Entry) -> bool:
        return entry.place <= recovery.committed_line or entry.source in recovery.committed

    return is_delivered


def _own_holes_only(original: Original) -> Original:
    """Each daemon decides from its own knowledge whether there is a hole."""

    def look_at(ending: SymmetricEnding, source: int, known: dict[int, SourceState]) -> int | None:
        original(ending, source, known)
        mine = known.get(ending.me)
        if mine is None:
            return None
        come = set(numbers(mine.ahead))
        for number in range(mine.contiguous + 1, mine.known + 1):
            if number not in come and not ending.retaining(source, number):
                return number
        return None

    return look_at


def _what_is_unknown_is_no_hole(original: Original) -> Original:
    """Where the knowledge of a lost source ends, nothing is taken to be missing."""

    def complete_line(known: Mapping[int, SourceState], first_hole: int | None) -> int:
        line: int = original(known, first_hole)
        return limits.COUNTER_MAX if first_hole is None else line

    return complete_line


def _holes_ignored(original: Original) -> Original:
    """Whatever is left is delivered."""

    def is_delivered(recovery: Recovery, entry: Entry) -> bool:
        return True

    return is_delivered


def _promises_forgotten(original: Original) -> Original:
    """A daemon does not tell what it promised in attempts that failed."""

    def begin(changeover: Changeover, now_us: int) -> None:
        kept, changeover._commitment = changeover._commitment, Commitment(changeover._me)
        original(changeover, now_us)
        changeover._commitment = kept

    return begin


# The signal -------------------------------------------------------------------------------------------------


def _draw_one_line(recovery: Any, line: int) -> None:
    """Whatever comes later is after the signal, for all groups."""
    recovery.certain_line = line
    recovery.ending.line_of = lambda hosts: line


def _signal_at_the_end(original: Original) -> Original:
    def begin(recovery: Recovery, me: int, view: int, order: Order, states: dict[int, MemberState]) -> None:
        original(recovery, me, view, order, states)
        _draw_one_line(recovery, recovery.ending.last_line)

    return begin


def _signal_at_the_stable_line(original: Original) -> Original:
    """Figure 6.13 as it stands."""

    def begin(recovery: Recovery, me: int, view: int, order: Order, states: dict[int, MemberState]) -> None:
        original(recovery, me, view, order, states)
        _draw_one_line(recovery, recovery.ending.stable_line)

    return begin


def _signal_where_we_stand(original: Original) -> Original:
    """Each daemon signals after what it has delivered itself."""

    def begin(recovery: Recovery, me: int, view: int, order: Order, states: dict[int, MemberState]) -> None:
        original(recovery, me, view, order, states)
        _draw_one_line(recovery, parse_state(bytes(states[me].order)).delivered)

    return begin


def _one_line_for_all_groups(original: Original) -> Original:
    """What any daemon has delivered counts as certain for every group, pruned from the others or not."""

    def line_of(ending: SymmetricEnding, hosts: Iterable[int]) -> int:
        return max(ending.delivered_line, ending.stable_line)

    return line_of


RECOVERY: tuple[Mutant, ...] = (
    Mutant(
        "last one not sent", "the last of the bundles that a daemon must send again is left out",
        frozenset(("2.7", "2.10")), Recovery, "to_send", _last_one_not_sent, "swarm",
    ),
    Mutant(
        "only own sent", "no daemon retransmits the bundles of a lost daemon",
        frozenset(("2.7",)), Recovery, "to_send", _only_own_sent, "swarm",
    ),
    Mutant(
        "one receiver", "of several daemons that lack a bundle one gets it",
        frozenset(("2.7", "2.10")), Recovery, "to_send", _one_receiver, "swarm", seeds=40, shown_by=8,
    ),
    Mutant(
        "joins not told", "a daemon's state says nothing of its joins under way",
        frozenset(("2.7",)), Changeover, "_joins_under_way", _joins_not_told, "swarm", seeds=40, shown_by=8,
    ),
    Mutant(
        "only undelivered told", "a daemon does not offer what it has delivered",
        frozenset(("2.7", "2.10")), SymmetricOrder, "tell_source", _only_undelivered_told, "swarm",
        shown_by=4,
    ),
    Mutant(
        "done at once", "a daemon says that it has everything before it has",
        frozenset(("2.14",)), Changeover, "_conclude_step", _done_at_once, "swarm",
        seeds=50,
        shown_by=25,
    ),
    Mutant(
        "installs alone", "a daemon installs the view before the others have got everything",
        frozenset(("2.7", "2.10", "2.13", "2.14")), Changeover, "_conclude_step", _installs_alone, "cascade",
    ),
    Mutant(
        "whoever was with us", "a daemon that has been in another view since counts as coming along",
        frozenset(("2.4",)), Changeover, "_compare", _whoever_was_with_us, "swarm",
    ),
    Mutant(
        "recovered of any view", "bundles that belong to another daemon's last view are recovered",
        frozenset(("2.18", "2.19", "2.6")), Changeover, "_recover", _recovered_of_any_view, "swarm",
    ),
    Mutant(
        "recovered at once", "reliable and FIFO bundles that were recovered go nowhere",
        frozenset(("2.7", "2.10")), SymmetricOrder, "recover", _recovered_at_once, "swarm", shown_by=3,
    ),
    Mutant(
        "rest by source", "the rest of a view is delivered source by source",
        frozenset(("2.13",)), SymmetricOrder, "undelivered", _by_source, "swarm", shown_by=1,
    ),
    Mutant(
        "own dropped after a hole", "messages of those who remain are dropped like those of the lost",
        frozenset(("2.15",)), Recovery, "is_delivered", _own_dropped_after_a_hole, "swarm",
        seeds=25, shown_by=24,
    ),
    Mutant(
        "all services dropped", "reliable and FIFO messages are dropped after a hole, too",
        frozenset(("2.7",)), Recovery, "is_delivered", _all_services_dropped, "swarm", seeds=30, shown_by=24,
    ),
    Mutant(
        "own holes only", "every daemon drops what comes after the holes that it sees itself",
        frozenset(("2.7",)), SymmetricEnding, "_look_at", _own_holes_only, "swarm", seeds=96,
        shown_by=95,
    ),
    Mutant(
        "no unknown holes", "where the knowledge of a lost source ends, nothing is taken to be missing",
        frozenset(("2.9", "causes")), ending, "_complete_line", _what_is_unknown_is_no_hole, "streams",
        seeds=200, shown_by=123,
    ),
    Mutant(
        "signal at the end", "everything counts as certain, also what the lost ones may not have",
        frozenset(("2.13", "2.14")), Recovery, "__init__", _signal_at_the_end, "swarm",
        shown_by=1,
    ),
    Mutant(
        "signal at the stable line", "the signal comes before what some have delivered",
        frozenset(("2.4", "2.8")), Recovery, "__init__", _signal_at_the_stable_line, "swarm",
        seeds=40, shown_by=8,
    ),
    Mutant(
        "signal where we stand", "every daemon gives the signal after what it has delivered itself",
        frozenset(("2.4", "2.8")), Recovery, "__init__", _signal_where_we_stand, "swarm",
        seeds=40, shown_by=8,
    ),
    Mutant(
        "one line for all groups", "what is certain for one group counts as certain for all",
        frozenset(("2.13", "2.14")), SymmetricEnding, "line_of", _one_line_for_all_groups, "swarm",
        seeds=100, shown_by=30,
    ),
    Mutant(
        "promises forgotten", "what was promised in an attempt that failed is dropped after a hole",
        frozenset(("2.14",)), Changeover, "begin", _promises_forgotten, "promises",
        seeds=30, shown_by=29,
    ),
    Mutant(
        "holes ignored", "what follows a lost message is delivered like all the rest",
        frozenset(("causes",)), Recovery, "is_delivered", _holes_ignored, "promises", shown_by=1,
    ),
)  # fmt: skip
