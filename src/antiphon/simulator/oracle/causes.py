"""No effect without its cause, a promise of our own: what comes after a hole is not delivered.

2.12 speaks of messages that are both delivered: a receiver that never gets a cause may still deliver the
effect. This system promises more. When a daemon is lost, some of its messages may be lost with it, and those
that follow them are dropped, group by group: a member that delivers an ordered message to a group has
delivered all messages to that group, sent in the same daemon view, that are in its causal past (definition
2.6).

It speaks of receivers that were members all the while. Across groups it cannot hold: a companion without
members of the other group may have delivered the effect, and virtual synchrony (2.7) passes it on. Nor can it
hold for what daemons send that come along: they deliver their own messages (2.15), also those that follow one
which was lost, and all that go on together with them deliver these, too. After the signal it ends
where knowledge ends:
- a daemon whose attempt to go on together with the sender's has failed may have promised to deliver what
  that one sent, since for the sender it may not have failed (figure 6.16, the commit set);
- a cause that is unknown to all that come along is no hole to them. They know of it if one of them has it,
  or has something later from the same daemon. The effect itself tells little of its causes: its sender may
  have heard of them through another group, or through a message of a weaker service that overtook them.
A trace that does not tell of daemons says nothing of all this.
"""

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from antiphon.simulator.oracle.daemons import DaemonTerm, History, daemon_of, history
from antiphon.simulator.oracle.terms import is_kept_from
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import (
    ORDERED_SERVICES,
    RELIABLE_SERVICES,
    Bundle,
    Event,
    Identity,
    Record,
    Trace,
    ViewNumber,
    promises,
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
    bundle: Bundle | None


class _Causes:
    """One pass over a trace: who knows what, and which messages there are to each group."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._told: History = trace.known(history)
        self._index = {process: number for number, process in enumerate(trace.by_process)}
        self._knows: list[Past] = [[0] * len(self._index) for _ in self._index]
        self._births: dict[Identity, _Birth] = {}
        self._sent: dict[tuple[str, int], list[_Cause]] = {}
        """The messages to a group by a process."""
        self._judged: dict[tuple[str, str, int], int] = {}
        """For a receiver, a group and a sender: how many of `_sent` have been looked for."""
        self._after_signal: dict[tuple[str, int, int], frozenset[Bundle]] = {}
        """For a daemon, its view and the position of a signal: what was delivered in the view afterwards."""
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
            cause = _Cause(place, record, message, self._bundle_of(message))
            for group in set(record.groups):
                self._sent.setdefault((group, sender), []).append(cause)

    def _bundle_of(self, message: Identity) -> Bundle | None:
        """The bundle in which it was sent."""
        carrier = self._told.carriers.get(message)
        return None if carrier is None else carrier.bundle

    def _deliver(self, record: Record, birth: _Birth) -> Iterator[Finding]:
        knows = self._knows[self._index[record.process]]
        if knows[birth.sender] < birth.place:
            knows[:] = map(max, knows, birth.past)
            knows[birth.sender] = max(knows[birth.sender], birth.place)
        if record.service in ORDERED_SERVICES and record.message is not None:
            bundle = self._bundle_of(record.message)
            sender, receiver = self._trace.sends[record.message].daemon, daemon_of(record.process)
            if bundle is None or self._told.go_together(record.message, sender, receiver):
                return
            term = self._told.views.get(bundle[0], {}).get(receiver)
            for group in record.groups:
                companions: frozenset[str] | None = None
                if term is not None and bundle in self._delivered_after_signal(term, group):
                    if any(sender in signal.members for signal in term.signals):
                        continue
                    companions = self._companions(term)
                yield from self._judge(record, birth, group, bundle[0], companions)

    def _delivered_after_signal(self, term: DaemonTerm, group: str) -> frozenset[Bundle]:
        """What a daemon delivered in its view after the signal for a group."""
        signalled_at = term.signalled_at()
        if not signalled_at:
            return frozenset()
        since = signalled_at.get(group, signalled_at.get("", 0))
        key = (term.daemon, term.view, since)
        found = self._after_signal.get(key)
        if found is None:
            late = (record.bundle for record in term.delivered if record.position > since)
            found = self._after_signal[key] = frozenset(bundle for bundle in late if bundle is not None)
        return found

    def _companions(self, term: DaemonTerm) -> frozenset[str]:
        """The daemons that go on together with one from its view, itself included."""
        return frozenset(
            other.daemon
            for other in self._told.views[term.view].values()
            if other.next_view == term.next_view and not other.is_cut_short
        ) | {term.daemon}

    def _judge(
        self, effect: Record, birth: _Birth, group: str, view: int, companions: frozenset[str] | None
    ) -> Iterator[Finding]:
        for sender, newest in enumerate(birth.past):
            causes = self._sent.get((group, sender)) if newest else None
            if causes is None:
                continue
            key = (effect.process, group, sender)
            at = self._judged.get(key, 0)
            while at < len(causes) and causes[at].place <= newest:
                if self._is_owed(effect, causes[at], group, view, companions):
                    yield self._finding(effect, causes[at], group)
                at += 1
            self._judged[key] = at

    def _is_owed(
        self, effect: Record, cause: _Cause, group: str, view: int, companions: frozenset[str] | None
    ) -> bool:
        process = effect.process
        if cause.bundle is None or cause.bundle[0] != view:
            return False
        if cause.message in self._trace.delivered[process]:
            return False
        if companions is not None and not self._is_known(cause.bundle, companions):
            return False
        if is_kept_from(self._trace, process, cause.message):
            return False
        then = self._in_view(process, group, cause.record.position)
        if then is None:
            return False
        if then == self._in_view(process, group, effect.position):
            return True
        return self._trace.stays(process, group, cause.record.position)

    def _is_known(self, bundle: Bundle, companions: frozenset[str]) -> bool:
        """Whether one of these daemons has a bundle, or a later one of the same daemon."""
        view, source, number = bundle
        newest = self._newest_held.get((view, source), {})
        return any(newest.get(daemon, 0) >= number for daemon in companions)

    @cached_property
    def _newest_held(self) -> dict[tuple[int, int], dict[str, int]]:
        """For a daemon view and a source in it: the greatest number that each daemon came to have."""
        found: dict[tuple[int, int], dict[str, int]] = {}
        for (view, source, number), holders in self._told.holds.items():
            newest = found.setdefault((view, source), {})
            for daemon in holders:
                newest[daemon] = max(newest.get(daemon, 0), number)
        return found

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


PROPERTIES = (Property(promises.CAUSES, _look),)
