"""No effect without its cause, a promise of our own: what comes after a hole is not delivered.

2.12 speaks of messages that are both delivered: a receiver that never gets a cause may still deliver the
effect. This system promises more. When a daemon is lost, some of its messages may be lost with it, and those
that follow them are dropped, group by group: whoever delivers an ordered message to a group has delivered all
messages to that group, sent in the same daemon view, that are in its causal past (definition 2.6).

It speaks of receivers that were members all the while. Across groups it cannot hold: a companion without
members of the other group may have delivered the effect, and virtual synchrony (2.7) passes it on. Nor can it
hold for what daemons send that come along: they deliver their own messages (2.15), also those that follow one
which was lost, and everybody who goes on together with them delivers these, too. A trace that does not tell
of daemons says nothing of all this.
"""

from collections.abc import Iterator

from msgspec import Struct

from antiphon.simulator.oracle.daemons import History, daemon_of, history
from antiphon.simulator.oracle.terms import is_kept_from
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import (
    ORDERED_SERVICES,
    RELIABLE_SERVICES,
    Event,
    Identity,
    Record,
    Trace,
    ViewNumber,
)

Past = list[int]
"""For each process, how many of its sends lie in the past."""


class _Birth(Struct):
    """How a message was sent."""

    sender: int
    place: int
    """Among the sender's."""
    past: Past


class _Cause(Struct):
    """A message that others may be the effect of."""

    place: int
    record: Record
    message: Identity
    view: int | None


class _Causes:
    """One pass over a trace: who knows what, and which messages there are to each group."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._told: History = trace.known(history)
        self._index = {process: number for number, process in enumerate(trace.by_process)}
        self._knows: list[Past] = [[0] * len(self._index) for _ in self._index]
        self._births: dict[Identity, _Birth] = {}
        self._sent: dict[tuple[str, int], list[_Cause]] = {}
        """To a group, by a process."""
        self._judged: dict[tuple[str, str, int], int] = {}
        """For a receiver, a group and a sender: how many of `_sent` have been looked for."""
        self._views: dict[tuple[str, str], list[tuple[int, ViewNumber | None]]] = {}
        """For a process and a group: from which position on it was in which view."""

    def look(self) -> Iterator[Finding]:
        for record in self._trace.records:
            if record.event is Event.SEND and record.message is not None:
                self._send(record, record.message)
            elif record.event is Event.DELIVER and record.message in self._births:
                yield from self._deliver(record, self._births[record.message])
            elif record.event is Event.VIEW or record.event is Event.LEFT:
                view = record.views[0] if record.event is Event.VIEW else None
                self._views.setdefault((record.process, record.groups[0]), []).append((record.position, view))

    def _send(self, record: Record, message: Identity) -> None:
        sender = self._index[record.process]
        knows = self._knows[sender]
        place = knows[sender] + 1
        self._births[message] = _Birth(sender, place, knows.copy())
        knows[sender] = place
        if record.service in RELIABLE_SERVICES:
            cause = _Cause(place, record, message, self._view_of(message))
            for group in set(record.groups):
                self._sent.setdefault((group, sender), []).append(cause)

    def _view_of(self, message: Identity) -> int | None:
        """The daemon view in which it was sent."""
        carrier = self._told.carriers.get(message)
        return None if carrier is None or carrier.bundle is None else carrier.bundle[0]

    def _deliver(self, record: Record, birth: _Birth) -> Iterator[Finding]:
        knows = self._knows[self._index[record.process]]
        if knows[birth.sender] < birth.place:
            knows[:] = map(max, knows, birth.past)
            knows[birth.sender] = max(knows[birth.sender], birth.place)
        if record.service in ORDERED_SERVICES and record.message is not None:
            view = self._view_of(record.message)
            sent = self._trace.sends[record.message]
            if view is None or self._told.go_together(record.message, sent.daemon, daemon_of(record.process)):
                return
            for group in record.groups:
                yield from self._judge(record, birth, group, view)

    def _judge(self, effect: Record, birth: _Birth, group: str, view: int | None) -> Iterator[Finding]:
        for sender, newest in enumerate(birth.past):
            causes = self._sent.get((group, sender)) if newest else None
            if causes is None:
                continue
            key = (effect.process, group, sender)
            at = self._judged.get(key, 0)
            while at < len(causes) and causes[at].place <= newest:
                if self._is_owed(effect, causes[at], group, view):
                    yield self._finding(effect, causes[at], group)
                at += 1
            self._judged[key] = at

    def _is_owed(self, effect: Record, cause: _Cause, group: str, view: int | None) -> bool:
        process = effect.process
        if cause.view != view or cause.message in self._trace.delivered[process]:
            return False
        if is_kept_from(self._trace, process, cause.message):
            return False
        then = self._in_view(process, group, cause.record.position)
        if then is None:
            return False
        if then == self._in_view(process, group, effect.position):
            return True
        return self._trace.stays(process, group, cause.record.position)

    def _in_view(self, process: str, group: str, position: int) -> ViewNumber | None:
        """The view of a group in which a process was, as far as it had read."""
        found: ViewNumber | None = None
        for since, view in self._views.get((process, group), ()):
            if since > position:
                break
            found = view
        return found

    def _finding(self, effect: Record, cause: _Cause, group: str) -> Finding:
        assert effect.message is not None
        return Finding(
            f"delivered to {group} without a message to it that caused it",
            (effect.process, cause.record.process),
            (cause.message, effect.message),
            (cause.record.position, effect.position),
        )


def _look(trace: Trace) -> Iterator[Finding]:
    return _Causes(trace).look()


PROPERTY = Property(
    "causes",
    "no effect without its cause",
    "a member that delivers an ordered message of a daemon that does not come along has delivered every "
    "message to the same group, sent in the same daemon view, that is in its past",
    _look,
)
