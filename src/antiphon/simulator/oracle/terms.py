"""Terms: one process in one view of a group, from the event that installed the view to the one that ended it.

Most properties speak of processes that were in the same view and of where they went from there; this is the
one pass over the trace that finds out.
"""

from msgspec import Struct

from antiphon.trace import RELIABLE_SERVICES, Event, Identity, Record, Trace, ViewNumber


class Term(Struct, eq=False):
    """What happened at one process while it was in one view of a group."""

    process: str
    group: str
    view: ViewNumber
    start: Record
    """The event that installed the view."""
    previous: ViewNumber | None
    """The view from which it came."""
    delivered: list[Record]
    """Messages to this group, reliable or better, in their order."""
    signal: Record | None = None
    delivered_before_signal: int = 0
    """How many of `delivered` came before the signal."""
    signals: int = 0
    end: Record | None = None
    """The next view, the end of the membership or of the session; None if the run ended first."""

    @property
    def has_order(self) -> bool:
        """Whether ordered messages to the group come in their order: the process did not choose less."""
        return self.start.delivery not in ("fifo", "arrival")

    @property
    def next_view(self) -> ViewNumber | None:
        """The view that followed, even if this process had left with it; None if it saw none."""
        if self.end is None or self.end.event is Event.DISCONNECT:
            return None
        return self.end.views[0]

    @property
    def is_cut_short(self) -> bool:
        """Whether the process disconnected, or its daemon crashed, in this view."""
        return self.end is not None and self.end.event is Event.DISCONNECT

    @property
    def before_signal(self) -> list[Record]:
        return self.delivered if self.signal is None else self.delivered[: self.delivered_before_signal]

    @property
    def after_signal(self) -> list[Record]:
        return [] if self.signal is None else self.delivered[self.delivered_before_signal :]


def terms(trace: Trace) -> list[Term]:
    """Every term of every process, process by process."""
    found: list[Term] = []
    for process, history in trace.by_process.items():
        _read(process, history, found)
    return found


def _read(process: str, history: list[Record], found: list[Term]) -> None:
    current: dict[str, Term] = {}
    for record in history:
        event = record.event
        if event is Event.DELIVER:
            if record.service in RELIABLE_SERVICES:
                for group in record.groups:
                    if group in current:
                        current[group].delivered.append(record)
        elif event is Event.VIEW:
            (group,), view = record.groups, record.views[0]
            before = current.get(group)
            if before is not None:
                before.end = record
            if view is not None:
                term = Term(process, group, view, record, before.view if before else None, [])
                current[group] = term
                found.append(term)
        elif event is Event.TRANSSIG:
            ending = current.get(record.groups[0])
            if ending is not None:
                ending.signals += 1
                if ending.signal is None:
                    ending.signal = record
                    ending.delivered_before_signal = len(ending.delivered)
        elif event is Event.LEFT:
            gone = current.pop(record.groups[0], None)
            if gone is not None:
                gone.end = record
        elif event is Event.DISCONNECT:
            for term in current.values():
                term.end = record
            current.clear()


def terms_with_views(trace: Trace) -> list[Term]:
    """The terms of processes that are told of views. The others do not know in which one they are."""
    return [term for term in trace.known(terms) if term.process not in trace.without_views]


def terms_by_view(trace: Trace) -> dict[tuple[str, ViewNumber], list[Term]]:
    """The terms of processes that are told of views, for each view of each group."""
    views: dict[tuple[str, ViewNumber], list[Term]] = {}
    for term in trace.known(terms_with_views):
        views.setdefault((term.group, term.view), []).append(term)
    return views


def is_kept_from(trace: Trace, process: str, message: Identity) -> bool:
    """Whether `process` sent `message` and did not want it back."""
    sent = trace.sends.get(message)
    return sent is not None and sent.self_discard and sent.process == process
