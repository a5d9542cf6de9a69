"""2.13, group by group: the members of a view see one sequence of ordered messages, without gaps.

`one_order` holds all groups together against one total order; this one also notices a message that is
missing in the middle (2.13, part 3). Processes that are not told of views do not know in which one they
deliver: `one_order` and `reliable` speak of them.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import ORDERED_SERVICES, Event, Record, Trace, ViewNumber

Sequences = dict[tuple[str, ViewNumber], dict[str, list[Record]]]


def _look(trace: Trace) -> Iterator[Finding]:
    sequences: Sequences = {}
    cut_short: set[tuple[str, str, ViewNumber]] = set()
    """(process, group, view): the views that a process was in when it disconnected."""
    for process, history in trace.by_process.items():
        if process in trace.without_views:
            continue
        current = _read(trace, process, history, sequences)
        if history[-1].event is Event.DISCONNECT:
            cut_short.update((process, group, view) for group, view in current.items())
    for (group, view), members in sequences.items():
        longest = max(members.values(), key=len)
        for process, sequence in members.items():
            yield from _compare(group, view, process, longest, sequence, (process, group, view) in cut_short)


def _read(trace: Trace, process: str, history: list[Record], sequences: Sequences) -> dict[str, ViewNumber]:
    """Add the ordered messages of `process` by view, and return the views that it ended in.

    Messages that some sender kept from itself are left out.
    """
    current: dict[str, ViewNumber] = {}
    for record in history:
        if record.event is Event.VIEW and record.views[0] is not None:
            current[record.groups[0]] = record.views[0]
            sequences.setdefault((record.groups[0], record.views[0]), {})[process] = []
        elif record.event is Event.LEFT:
            current.pop(record.groups[0], None)
        elif (
            record.event is Event.DELIVER
            and record.service in ORDERED_SERVICES
            and record.message is not None
        ):
            sent = trace.sends.get(record.message)
            if sent is not None and sent.self_discard:
                continue
            for group, view in zip(record.groups, record.views, strict=True):
                if view is not None:
                    sequences[group, view][process].append(record)
    return current


def _compare(
    group: str, view: ViewNumber, process: str, longest: list[Record], sequence: list[Record], partial: bool
) -> Iterator[Finding]:
    for ours, theirs in zip(sequence, longest, strict=False):
        if ours.message != theirs.message:
            assert ours.message is not None and theirs.message is not None
            yield Finding(
                f"in view {view} of {group} two members differ at the same place",
                (process, theirs.process),
                (ours.message, theirs.message),
                (ours.position, theirs.position),
            )
            return
    if len(sequence) < len(longest) and not partial:
        theirs = longest[len(sequence)]
        assert theirs.message is not None
        yield Finding(
            f"in view {view} of {group} one member stopped before this message",
            (process, theirs.process),
            (theirs.message,),
            (theirs.position,),
        )


PROPERTY = Property(
    "2.13",
    "agreed messages",
    "the members of a view deliver the same ordered messages in the same order, and none is missing between",
    _look,
)
