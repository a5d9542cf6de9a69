"""Lies about locks and quorum, put into the trace of one clean run that has both."""

from collections.abc import Callable

from doctoring import Doctored, only
from msgspec import structs

from antiphon.simulator.oracle.quorum import PROPERTIES as QUORUM
from antiphon.trace import Event, Record, Trace


def other_holder(trace: Trace) -> Doctored:
    """One member is told that somebody else got the lock."""
    for record in only(trace.records, Event.LOCK):
        (name, holder, fence, waiting), view = record.locks[0], record.views[0]
        told = [one for one in only(trace.records, Event.LOCK) if one.locks == record.locks]
        installed = [one for one in only(trace.records, Event.VIEW) if one.views == (view,)]
        others = set(installed[0].members) - {holder, *waiting} if installed else set()
        if holder and others and len({one.process for one in told}) > 1:
            lie = structs.replace(record, locks=((name, min(others), fence, waiting),))
            return [lie if one is record else one for one in trace.records], record.process
    raise AssertionError("no lock was granted before the eyes of two")


def two_parts_go_on(trace: Trace) -> Doctored:
    """A part of a group that has no quorum, while another part has it, has it as well."""
    lost = [record for record in only(trace.records, Event.VIEW) if not record.has_quorum]
    for view in {(record.groups, record.views): record for record in lost}.values():
        records = [_with_quorum(one) if _is_same_view(one, view) else one for one in trace.records]
        if next(QUORUM[0].look(Trace(trace.scenario, trace.seed, trace.daemons, records)), None):
            told = [one for one in lost if _is_same_view(one, view)]
            return records, min(told, key=lambda one: (one.time_us, one.process)).process
    raise AssertionError("no part lost its quorum to another one")


def _is_same_view(one: Record, view: Record) -> bool:
    return one.event is Event.VIEW and (one.groups, one.views) == (view.groups, view.views)


def _with_quorum(view: Record) -> Record:
    return structs.replace(view, has_quorum=True)


LOCK_LIES: dict[str, Callable[[Trace], Doctored]] = {
    "locks one holder": other_holder,
    "quorum one part goes on": two_parts_go_on,
}
