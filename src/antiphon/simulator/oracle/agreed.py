"""2.13, parts 3 and 4, group by group: the members of a view see one sequence of ordered messages.

`one_order` checks all groups together against one total order; this one finds what is missing.

- Those who leave a view together have the same sequence in it, and so have all to whom no signal told that
  some are lost. One who disconnects in the view has a beginning of that.
- Up to the signal no member has a gap: whatever another member delivered before one of these messages, on its
  side of a cut, was delivered here as well (part 3).
- After the signal, gaps are for what the lost ones sent: the messages of those who come along are there (part
  4). Here the timestamps of the bundles say what comes before.

Members that chose less than this order are left out.
Processes that are not told of views do not know in which one they deliver: `one_order` and `reliable` speak
of them. Between daemons, parts 3 and 4 are about all bundles of the view, whatever their service. A group
that had an early signal is judged on its own there.
"""

from collections.abc import Iterator

from msgspec import Struct

from antiphon.simulator.oracle.daemons import DaemonTerm, History, history, name
from antiphon.simulator.oracle.terms import Term, terms_by_view
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import ORDERED_SERVICES, Bundle, Event, Identity, Record, Trace, ViewNumber, promises


class Sequence(Struct, eq=False):
    """The ordered messages of one term, but for those that some sender kept from itself."""

    term: Term
    records: list[Record]
    messages: list[Identity | None]
    before_signal: int
    """How many of them."""


def _look(trace: Trace) -> Iterator[Finding]:
    for terms in trace.known(terms_by_view).values():
        whole: list[Sequence] = []
        partial: list[Sequence] = []
        signalled: dict[ViewNumber | None, list[Sequence]] = {}
        for term in terms:
            if not term.has_order:
                continue
            sequence = _sequence(trace, term)
            if term.is_cut_short:
                partial.append(sequence)
            elif term.signal is None:
                whole.append(sequence)
            else:
                signalled.setdefault(term.next_view, []).append(sequence)
        yield from _judge_whole(whole, [one for one in partial if one.term.signal is None])
        sides = [*signalled.values(), whole] if whole else list(signalled.values())
        for together in signalled.values():
            yield from _judge_equal(together)
        if signalled:
            apart = [side[0] for side in sides] + partial
            for one in apart:
                for other in apart:
                    if other is not one:
                        yield from _judge_gaps(trace, one, other)


def _sequence(trace: Trace, term: Term) -> Sequence:
    sends = trace.sends
    records = []
    before_signal = 0
    for place, record in enumerate(term.delivered):
        if record.service not in ORDERED_SERVICES or record.message is None:
            continue
        sent = sends.get(record.message)
        if sent is not None and sent.self_discard:
            continue
        records.append(record)
        if term.signal is None or place < term.delivered_before_signal:
            before_signal += 1
    return Sequence(term, records, [record.message for record in records], before_signal)


def _judge_whole(whole: list[Sequence], partial: list[Sequence]) -> Iterator[Finding]:
    """No member was lost: all have the same sequence, and those who went away have a beginning of it."""
    sequences = whole + partial
    if len(sequences) < 2:
        return
    longest = max(sequences, key=lambda sequence: len(sequence.messages))
    for sequence in whole:
        if sequence.messages != longest.messages:
            yield _difference(sequence, longest)
    for sequence in partial:
        if sequence.messages != longest.messages[: len(sequence.messages)]:
            yield _difference(sequence, longest)


def _judge_equal(together: list[Sequence]) -> Iterator[Finding]:
    longest = max(together, key=lambda sequence: len(sequence.messages))
    for sequence in together:
        if sequence.messages != longest.messages:
            yield _difference(sequence, longest)


def _difference(sequence: Sequence, longest: Sequence) -> Finding:
    """Where a sequence leaves one that is at least as long."""
    term = sequence.term
    for ours, theirs in zip(sequence.records, longest.records, strict=False):
        if ours.message != theirs.message:
            assert ours.message is not None and theirs.message is not None
            return Finding(
                f"in view {term.view} of {term.group} two members differ at the same place",
                (term.process, theirs.process),
                (ours.message, theirs.message),
                (ours.position, theirs.position),
            )
    theirs = longest.records[len(sequence.records)]
    assert theirs.message is not None
    return Finding(
        f"in view {term.view} of {term.group} one member stopped before this message",
        (term.process, theirs.process),
        (theirs.message,),
        (theirs.position,),
    )


def _judge_gaps(trace: Trace, one: Sequence, other: Sequence) -> Iterator[Finding]:
    """What `one` lacks of what `other`, on another side of a cut, delivered in the same view."""
    delivered = trace.delivered[one.term.process]
    lacking = [record for record in other.records if record.message not in delivered]
    if not lacking:
        return
    before_signal = set(one.messages[: one.before_signal])
    common = [place for place, message in enumerate(other.messages) if message in before_signal]
    if common:
        for record in other.records[: common[-1]]:
            if record.message not in delivered:
                yield _gap(one.term, record, "before the signal")
    yield from _judge_gaps_after_signal(trace, one, lacking)


def _judge_gaps_after_signal(trace: Trace, one: Sequence, lacking: list[Record]) -> Iterator[Finding]:
    end = one.term.end
    carriers = trace.known(history).carriers
    after = [carriers[message].rank for message in one.messages[one.before_signal :] if message in carriers]
    if not after or end is None or end.event is not Event.VIEW:
        return
    newest_rank = max(after)
    for record in lacking:
        sent, carrier = trace.sends.get(record.message), carriers.get(record.message)  # type: ignore[arg-type]
        if sent is None or carrier is None:
            continue
        if sent.process in end.transitional and carrier.rank < newest_rank:
            yield _gap(one.term, record, "of one who came along")


def _gap(term: Term, record: Record, which: str) -> Finding:
    assert record.message is not None
    return Finding(
        f"in view {term.view} of {term.group} one member lacks a message {which} and delivered later ones",
        (term.process, record.process),
        (record.message,),
        (record.position,),
    )


# Daemons --------------------------------------------------------------------------------------------------


class Reach(Struct):
    """How far one daemon came in a view: the places of its newest ordered deliveries."""

    before_signal: dict[str, int]
    """By group; under "" for a bundle without groups, and for all if no group had an early signal."""
    is_split: bool
    """Whether some group had an early signal."""
    in_all: int
    companions: frozenset[str]
    """The transitional set of the next view."""

    def rank(self, groups: tuple[str, ...]) -> int:
        """Everything before this place that is for `groups` must have been delivered."""
        if not self.is_split:
            return self.before_signal.get("", 0)
        return max(self.before_signal.get(group, 0) for group in groups or ("",))


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    told = trace.known(history)
    for terms in told.views.values():
        if len(terms) > 1:
            yield from _judge_view(trace, told, terms)


def _judge_view(trace: Trace, told: History, terms: dict[str, DaemonTerm]) -> Iterator[Finding]:
    deliveries: dict[Bundle, set[str]] = {}
    records: dict[Bundle, Record] = {}
    for term in terms.values():
        for record in term.delivered:
            if record.bundle is not None:
                deliveries.setdefault(record.bundle, set()).add(term.daemon)
                records[record.bundle] = record
    reaches: dict[str, Reach] = {}
    for bundle, receivers in deliveries.items():
        record = records[bundle]
        if record.is_loose:  # it has no place before or after others; 2.12 has a rule for what follows it
            continue
        for daemon in record.destinations:
            if daemon in receivers or daemon not in terms:
                continue
            if daemon not in reaches:
                reaches[daemon] = _reach(terms[daemon])
            reach = reaches[daemon]
            came_along = trace.daemons[bundle[1]] in reach.companions
            if record.rank < reach.rank(record.groups) or (came_along and record.rank < reach.in_all):
                yield Finding(
                    f"{daemon} lacks {name(bundle)}, which {record.daemon} delivered, and has later ones",
                    (daemon, record.daemon),
                    positions=(record.position,),
                )


def _reach(term: DaemonTerm) -> Reach:
    signals = term.signalled_at()
    is_split = any(signals.keys() - {""})
    general = signals.get("")
    before_signal: dict[str, int] = {}
    in_all = 0
    for record in term.delivered:
        if record.service not in ORDERED_SERVICES:
            continue
        in_all = max(in_all, record.rank)
        if general is not None and record.position > general:
            continue
        groups = (record.groups or ("",)) if is_split else ("",)
        if any(signals.get(group, record.position) < record.position for group in groups):
            continue
        for group in groups:
            before_signal[group] = max(before_signal.get(group, 0), record.rank)
    moved_on = term.end is not None and term.end.event is Event.SVIEW and bool(term.signals)
    companions = frozenset(term.end.transitional) if term.end is not None and moved_on else frozenset()
    return Reach(before_signal, is_split, in_all, companions)


PROPERTIES = (
    Property(promises.AGREED, _look),
    Property(promises.AGREED_OF_DAEMONS, _look_at_daemons),
)
