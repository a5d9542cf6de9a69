"""Traces of runs with edges that tell of what did not happen there: a clean run, with a lie put into it.

A lie that cannot be told of a run, because what it is about did not happen there, is a LookupError.
"""

from collections.abc import Callable, Iterator
from itertools import combinations, pairwise

from doctoring import Doctored, text_of
from msgspec import structs

from antiphon.simulator.oracle.stretches import Stretch, core, edges, views_of
from antiphon.simulator.oracle.terms import terms_with_views
from antiphon.trace import ORDERED_SERVICES, Event, Record, Trace


def _pick(found: Iterator[Record]) -> Record:
    """The middle one: what is at the very beginning or end is owed to nobody."""
    every = list(found)
    if not every:
        raise LookupError
    return every[len(every) // 2]


def _at_edges(trace: Trace, event: Event) -> Iterator[Record]:
    return (
        record
        for records in trace.known(edges).by_process.values()
        for record in records
        if record.event is event
    )


def _stretches(trace: Trace) -> Iterator[Stretch]:
    """Those of processes that are told of views."""
    for stretch in trace.known(edges).stretches:
        if stretch.process not in trace.without_views:
            yield stretch


def _numbered(records: list[Record]) -> list[Record]:
    """Positions are places in the list."""
    return [structs.replace(record, position=place) for place, record in enumerate(records)]


def _without(trace: Trace, *lost: Record) -> list[Record]:
    gone = {record.position for record in lost}
    return _numbered([record for record in trace.records if record.position not in gone])


def _with(trace: Trace, one: Record, after: int) -> list[Record]:
    """One more record, behind that at this position."""
    records = list(trace.records)
    records.insert(after + 1, structs.replace(one, time_us=records[after].time_us))
    return _numbered(records)


def _changed(trace: Trace, one: Record, **fields: object) -> list[Record]:
    return [structs.replace(record, **fields) if record is one else record for record in trace.records]


# What comes -------------------------------------------------------------------------------------------------


def delivered_twice(trace: Trace) -> Doctored:
    record = _pick(_at_edges(trace, Event.DELIVER))
    return _with(trace, record, record.position), record.process


def never_sent(trace: Trace) -> Doctored:
    """By a session that has sent something else."""
    record = _pick(_at_edges(trace, Event.DELIVER))
    assert record.message is not None
    return _changed(trace, record, message=(*record.message[:3], 1_000_000)), record.process


def other_bytes(trace: Trace) -> Doctored:
    record = _pick(_at_edges(trace, Event.DELIVER))
    return _changed(trace, record, checksum=record.checksum ^ 1), record.process


def back_to_its_sender(trace: Trace) -> Doctored:
    told = trace.known(edges)
    own = _pick(
        record
        for record in _at_edges(trace, Event.DELIVER)
        if record.message in trace.sends and told.is_own(trace.sends[record.message], record.process)
    )
    assert own.message is not None
    return _changed(trace, trace.sends[own.message], self_discard=True), own.process


def to_a_stranger(trace: Trace) -> Doctored:
    """A process gets a message before it has joined anything, and once more afterwards."""
    record = _pick(_at_edges(trace, Event.DELIVER))
    start = trace.known(edges).by_process[record.process][0]
    return _with(trace, record, start.position), record.process


def left_out(trace: Trace) -> Doctored:
    """What came in the midst of others of one daemon view."""
    told = trace.known(core)

    def found() -> Iterator[Record]:
        for stretch in _stretches(trace):
            ordered = [one for one in stretch.delivered if one.service in ORDERED_SERVICES]
            for before, one, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
                views = {
                    delivered.bundle[0]
                    for record in (before, one, after)
                    if (delivered := told.delivery(record.message)) and delivered.bundle
                }
                if len(views) == 1 and before.lts < one.lts < after.lts:
                    yield one

    record = _pick(found())
    return _without(trace, record), record.process


def wrong_order(trace: Trace) -> Doctored:
    """Two ordered messages to one group change places."""

    def found() -> Iterator[tuple[Record, Record]]:
        for stretch in _stretches(trace):
            for one, other in pairwise(stretch.delivered):
                between = trace.records[one.position + 1 : other.position]
                alone = all(record.process != one.process for record in between)
                both = one.service in ORDERED_SERVICES and other.service in ORDERED_SERVICES
                if alone and both and one.lts < other.lts:
                    yield one, other

    one, other = next(found(), (None, None))
    if one is None or other is None:
        raise LookupError
    records = list(trace.records)
    records[one.position] = structs.replace(other, position=one.position, time_us=one.time_us)
    records[other.position] = structs.replace(one, position=other.position, time_us=other.time_us)
    return records, one.process


def gap_kept(trace: Trace) -> Doctored:
    """After which the same view comes again."""

    def found() -> Iterator[Record]:
        for stretch in _stretches(trace):
            if stretch.end is not None and stretch.end.event is Event.GAP:
                after = [
                    record
                    for record in trace.known(edges).by_process[stretch.process]
                    if record.position > stretch.end.position and stretch.group in record.groups
                ]
                if after and after[0].event is Event.VIEW and after[0].views == stretch.views[-1].views:
                    yield stretch.end

    record = _pick(found())
    return _without(trace, record), record.process


def by_others_alone(trace: Trace) -> Doctored:
    """What came in a daemon view was delivered by one daemon only, after its signal, and that went no
    further."""
    told = trace.known(core)

    def found() -> Iterator[Record]:
        for stretch in _stretches(trace):
            end = len(trace.records) if stretch.end is None else stretch.end.position
            course = trace.known(edges).courses[stretch.edge].between(stretch.start.position, end)
            for one in stretch.delivered if stretch.gap is None else ():
                delivered = told.delivery(one.message)
                if delivered is not None and delivered.bundle and delivered.bundle[0] in course[:-1]:
                    yield one

    record = _pick(found())
    first = told.delivery(record.message)
    assert first is not None and first.bundle is not None
    at, view, name = first.position, first.bundle[0], "d99"
    lone = [
        Record(at, first.time_us, Event.RECOVER, name, incarnation=1),
        Record(at, first.time_us, Event.SVIEW, name, daemon_view=view, members=(name,), incarnations=(1,)),
        Record(at, first.time_us, Event.STRANSSIG, name, daemon_view=view),
        structs.replace(first, daemon=name),
        Record(at, first.time_us, Event.CRASH, name, incarnation=1),
    ]
    others = [
        one
        for one in trace.records
        if one.event is not Event.SDELIVER or one.bundle != first.bundle or one is first
    ]
    place = others.index(first)
    return _numbered([*others[:place], *lone, *others[place + 1 :]]), text_of(record.message)


# Views ------------------------------------------------------------------------------------------------------


def other_members(trace: Trace) -> Doctored:
    record = _pick(
        record
        for record in _at_edges(trace, Event.VIEW)
        if record.members and (record.groups[0], record.views[0]) in trace.core.members
    )
    return _changed(trace, record, members=record.members[1:] or ("#nobody#d0",)), record.process


def _moves(trace: Trace) -> Iterator[tuple[Stretch, Record, Record, bool]]:
    """From one view to the next, as members of the core went, too; and whether these had a signal."""
    moved = {
        (term.group, term.view, term.next_view): term.signal is not None
        for term in trace.core.known(terms_with_views)
        if term.end is not None and term.end.event is Event.VIEW
    }
    for stretch in _stretches(trace):
        for one, other in pairwise(stretch.views):
            has_signal = moved.get((stretch.group, one.views[0], other.views[0]))  # type: ignore[arg-type]
            if has_signal is not None:
                yield stretch, one, other, has_signal


def view_left_out(trace: Trace) -> Doctored:
    """Which members of the core had, as they had those before and after it."""
    both = {
        (group, before, after)
        for process, records in trace.core.by_process.items()
        if process not in trace.core.without_views
        for group in {record.groups[0] for record in records if record.event is Event.VIEW}
        for before, after in combinations(views_of(records, group), 2)
    }
    moves = list(_moves(trace))
    middle = [
        other
        for (stretch, before, one, _), (other_stretch, other, after, _) in pairwise(moves)
        if stretch is other_stretch
        and one is other
        and (stretch.group, before.views[0], after.views[0]) in both
    ]
    record = _pick(iter(middle))
    return _without(trace, record), record.process


def signal_left_out(trace: Trace) -> Doctored:
    record = _pick(
        signal
        for stretch, one, other, has_signal in _moves(trace)
        if has_signal
        for signal in stretch.signals
        if one.position < signal.position < other.position
    )
    return _without(trace, record), record.process


# What clients hand over -------------------------------------------------------------------------------------


def _sent(trace: Trace) -> Iterator[tuple[Record, Record]]:
    """What was sent for clients, and delivered: how it was handed over and sent."""
    told = trace.known(edges)
    for sent in trace.of(Event.SEND):
        if sent.message in told.givers and trace.known(core).delivery(sent.message) is not None:
            yield told.givers[sent.message], sent


def sent_twice(trace: Trace) -> Doctored:
    sent = _pick(sent for _, sent in _sent(trace))
    assert sent.message is not None
    again = structs.replace(sent, message=(*sent.message[:3], 1_000_000))
    return _with(trace, again, sent.position), sent.process


def not_handed_over(trace: Trace) -> Doctored:
    given = _pick(given for given, _ in _sent(trace))
    (sent,) = (sent for one, sent in _sent(trace) if one is given)
    return _without(trace, given), sent.process


def in_doubt_for_nothing(trace: Trace) -> Doctored:
    given = _pick(given for given, _ in _sent(trace))
    told = Record(0, 0, Event.UNSURE, given.daemon, given.process, message=given.message)
    return _with(trace, told, given.position), given.process


def sent_all_the_same(trace: Trace) -> Doctored:
    given = _pick(given for given, _ in _sent(trace))
    told = Record(0, 0, Event.UNSENT, given.daemon, given.process, message=given.message)
    return _with(trace, told, given.position), given.process


def no_member_in_the_end(trace: Trace) -> Doctored:
    restored = trace.of(Event.RESTORED)[-1]
    staying = [
        records[-1]
        for records in trace.known(edges).by_process.values()
        if records[-1].event is not Event.DISCONNECT and records[0].daemon in restored.members
    ]
    record = _pick(iter(staying))
    joined = Record(0, 0, Event.JOIN, record.daemon, record.process, groups=("nowhere",), views=(None,))
    return _with(trace, joined, record.position), record.process


EDGE_LIES: dict[str, Callable[[Trace], Doctored]] = {
    "delivered twice": delivered_twice,
    "never sent": never_sent,
    "other bytes": other_bytes,
    "back to its sender": back_to_its_sender,
    "to a stranger": to_a_stranger,
    "left out": left_out,
    "wrong order": wrong_order,
    "gap kept": gap_kept,
    "by others alone": by_others_alone,
    "other members": other_members,
    "view left out": view_left_out,
    "signal left out": signal_left_out,
    "sent twice": sent_twice,
    "not handed over": not_handed_over,
    "in doubt for nothing": in_doubt_for_nothing,
    "sent all the same": sent_all_the_same,
}
SIMULATED_EDGE_LIES: dict[str, Callable[[Trace], Doctored]] = {"no member in the end": no_member_in_the_end}
"""Live runs do not tell who could reach the core in the end."""
