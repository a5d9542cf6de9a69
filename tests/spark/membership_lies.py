"""Lies about views and members, put into the trace of one clean run: one for each property of membership."""

from collections.abc import Callable

from doctoring import Doctored, only
from msgspec import structs

from antiphon.trace import Event, Record, Trace, ViewNumber

Lie = Callable[[Trace], Doctored]


def _replaced(trace: Trace, old: Record, new: Record) -> list[Record]:
    return [new if record is old else record for record in trace.records]


def _later_view(trace: Trace) -> Record:
    """A view that has a predecessor at its process, and a transitional set of more than one."""
    return next(record for record in only(trace.records, Event.VIEW) if len(record.transitional) > 1)


def _merged_daemon_view(trace: Trace) -> Record:
    return next(record for record in only(trace.records, Event.SVIEW) if len(record.members) > 1)


def delivered_outside(trace: Trace) -> Doctored:
    record = next(one for one in only(trace.records, Event.DELIVER) if any(one.views))
    return _replaced(
        trace, record, structs.replace(record, views=(None,) * len(record.groups))
    ), record.process


def sent_before_any_view(trace: Trace) -> Doctored:
    sent = only(trace.records, Event.SSEND)[0]
    return [
        record for record in trace.records if record.event is not Event.SVIEW or record.daemon != sent.daemon
    ], sent.daemon


def not_in_its_view(trace: Trace) -> Doctored:
    view = _later_view(trace)
    others = tuple(name for name in view.members if name != view.process)
    return _replaced(trace, view, structs.replace(view, members=others)), view.process


def daemon_not_in_its_view(trace: Trace) -> Doctored:
    view = _merged_daemon_view(trace)
    other_life = tuple(number + 1 for number in view.incarnations)
    return _replaced(trace, view, structs.replace(view, incarnations=other_life)), view.daemon


def older_view(trace: Trace) -> Doctored:
    view = _later_view(trace)
    assert view.views[0] is not None
    older: ViewNumber = (0, *view.views[0][1:])  # type: ignore[assignment]
    return _replaced(trace, view, structs.replace(view, views=(older,))), view.process


def older_daemon_view(trace: Trace) -> Doctored:
    view = _merged_daemon_view(trace)
    return _replaced(trace, view, structs.replace(view, daemon_view=1)), view.daemon


def stranger_came_along(trace: Trace) -> Doctored:
    view = _later_view(trace)
    along = (*view.transitional, "#nobody#d0")
    return _replaced(trace, view, structs.replace(view, transitional=along)), view.process


def daemon_came_along(trace: Trace) -> Doctored:
    view = _merged_daemon_view(trace)
    return _replaced(trace, view, structs.replace(view, transitional=())), view.daemon


def delivered_in_an_older_view(trace: Trace) -> Doctored:
    """A sender says that it was already in a view that came later to those who delivered its message."""
    sends = {record.message: record for record in only(trace.records, Event.SEND)}
    for record in only(trace.records, Event.DELIVER):
        sent = sends[record.message]
        view = sent.views[0]
        if record.service == "agreed" and view is not None and record.views[0] == view:
            later: ViewNumber = (view[0], view[1], view[2] + 1, view[3])
            told = structs.replace(sent, views=(later, *sent.views[1:]))
            return _replaced(trace, sent, told), sent.process
    raise AssertionError("no agreed message was delivered in the view in which it was sent")


def survivor_missing(trace: Trace) -> Doctored:
    peace = only(trace.records, Event.RESTORED)[-1]
    lost = peace.parts[0][0]
    parts = (peace.parts[0][1:], *peace.parts[1:])
    return _replaced(trace, peace, structs.replace(peace, parts=parts)), lost


def sent_in_another_view(trace: Trace) -> Doctored:
    sent = only(trace.records, Event.SSEND)[0]
    assert sent.bundle is not None
    bundle = (sent.bundle[0] + 1, *sent.bundle[1:])
    return _replaced(trace, sent, structs.replace(sent, bundle=bundle)), sent.daemon


def other_members(trace: Trace) -> Doctored:
    view = _later_view(trace)
    order = tuple(reversed(view.members))
    return _replaced(trace, view, structs.replace(view, members=order)), view.process


def other_links(trace: Trace) -> Doctored:
    view = _merged_daemon_view(trace)
    return _replaced(trace, view, structs.replace(view, links=())), view.daemon


def should_have_been_steady(trace: Trace) -> Doctored:
    """A look at buffers becomes the word that no view may change any more."""
    last = only(trace.records, Event.SVIEW)[-1]
    look = [record for record in only(trace.records, Event.BUFFERS) if record.time_us < last.time_us][-1]
    steady = Record(look.position, look.time_us, Event.STEADY, "", parts=(trace.daemons,), count=0)
    faults_end = only(trace.records, Event.RESTORED)[-1]
    later = structs.replace(faults_end, time_us=last.time_us + 1)
    records = [{id(look): steady, id(faults_end): later}.get(id(record), record) for record in trace.records]
    return records, last.daemon


MEMBERSHIP_LIES: dict[str, Lie] = {
    "2.1 initial view event": delivered_outside,
    "2.1 initial view event (daemons)": sent_before_any_view,
    "2.2 self inclusion": not_in_its_view,
    "2.2 self inclusion (daemons)": daemon_not_in_its_view,
    "2.3 local monotonicity": older_view,
    "2.3 local monotonicity (daemons)": older_daemon_view,
    "2.4 transitional set": stranger_came_along,
    "2.4 transitional set (daemons)": daemon_came_along,
    "2.9 sane view delivery": delivered_in_an_older_view,
    "2.19 sane view delivery (daemons)": sent_in_another_view,
    "2.20 membership agreement": other_members,
    "2.20 membership agreement (daemons)": other_links,
}
SIMULATED_ONLY: dict[str, Lie] = {
    "2.16 membership precision (daemons)": survivor_missing,
    "steadiness those who are well work": should_have_been_steady,
}
"""Only a simulator can say how long the faults of a network last, and when they are over."""
