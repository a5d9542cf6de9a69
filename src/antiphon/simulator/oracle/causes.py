"""No effect without its cause, a promise of our own: what comes after a hole is not delivered.

2.12 speaks of messages that are both delivered: a receiver that never gets a cause may still deliver the
effect. This system promises more. When a daemon is lost, some of its messages may be lost with it, and those
that follow them are dropped, group by group: a member that delivers an ordered message to a group has
delivered all messages to that group, sent in the same daemon view, that are in its causal past (definition
2.6).

It speaks of receivers that were members all the while. It cannot hold
- across groups: a companion without members of the other group may have delivered the effect, and virtual
  synchrony (2.7) passes it on. The same goes for an effect sent to both groups, and for a companion that
  joined the group after the cause;
- for what daemons send that come along: they deliver their own messages (2.15), also those that follow one
  which was lost, and all that go on together with them deliver these, too;
- after the signal, for what a daemon has sent with which an attempt to go on has failed: the receiver's may
  have promised to deliver it, since for the sender the attempt may not have failed (figure 6.16, the commit
  set).
A trace that does not tell of daemons says nothing of all this.
"""

from collections.abc import Iterator

from msgspec import Struct

from antiphon.simulator.oracle.daemons import DaemonTerm, History, daemon_of, history
from antiphon.simulator.oracle.terms import is_kept_from
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import (
    CAUSAL_SERVICES,
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
        if record.service in CAUSAL_SERVICES and record.message is not None:
            bundle = self._bundle_of(record.message)
            sender, receiver = self._trace.sends[record.message].daemon, daemon_of(record.process)
            if bundle is None or self._told.go_together(record.message, sender, receiver):
                return
            term = self._told.views.get(bundle[0], {}).get(receiver)
            for group in record.groups:
                if term is None or not self._is_promised(term, sender, bundle, group):
                    yield from self._judge(record, birth, group, bundle)

    def _is_promised(self, term: DaemonTerm, sender: str, bundle: Bundle, group: str) -> bool:
        """Whether a bundle was delivered after the signal for a group, by a promise to its sender."""
        is_late = bundle in self._delivered_after_signal(term, group)
        return is_late and any(sender in signal.members for signal in term.signals)

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

    def _judge(self, effect: Record, birth: _Birth, group: str, bundle: Bundle) -> Iterator[Finding]:
        for sender, newest in enumerate(birth.past):
            causes = self._sent.get((group, sender)) if newest else None
            if causes is None:
                continue
            key = (effect.process, group, sender)
            at = self._judged.get(key, 0)
            while at < len(causes) and causes[at].place <= newest:
                if self._is_owed(effect, bundle, causes[at], group):
                    yield self._finding(effect, causes[at], group)
                at += 1
            self._judged[key] = at

    def _is_owed(self, effect: Record, bundle: Bundle, cause: _Cause, group: str) -> bool:
        process = effect.process
        if cause.bundle is None or cause.bundle[0] != bundle[0]:
            return False
        if cause.message in self._trace.delivered[process]:
            return False
        if is_kept_from(self._trace, process, cause.message):
            return False
        then = self._in_view(process, group, cause.record.position)
        if then is None or self._is_passed_on(bundle, cause, daemon_of(process)):
            return False
        if then == self._in_view(process, group, effect.position):
            return True
        return self._trace.stays(process, group, cause.record.position)

    def _is_passed_on(self, bundle: Bundle, cause: _Cause, receiver: str) -> bool:
        """Whether a daemon that goes on together with the receiver's has delivered the effect, and the cause
        was not for it."""
        terms = self._told.views.get(bundle[0], {})
        mine = terms.get(receiver)
        destinations = self._told.carriers[cause.message].destinations
        return mine is not None and any(
            any(record.bundle == bundle for record in term.delivered)
            for term in terms.values()
            if term.next_view == mine.next_view and not term.is_cut_short and term.daemon not in destinations
        )

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
