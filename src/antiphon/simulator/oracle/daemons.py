"""Daemons: their lives, the views they were in, and the bundles that they exchanged there (boundary B3).

A life is one incarnation of a daemon, from its start to its crash. A trace need not tell of daemons at all
(one of real clients cannot); then they are taken to be together all the time.
"""

from msgspec import Struct

from antiphon.trace import Bundle, Event, Identity, Record, Trace


class DaemonTerm(Struct, eq=False):
    """What happened at one daemon while it was in one view of daemons."""

    daemon: str
    incarnation: int
    view: int
    start: Record
    """The event that installed the view."""
    previous: int | None
    """The view from which it came; None for the first of its life."""
    sent: list[Record]
    delivered: list[Record]
    signals: list[Record]
    """The general one and the early ones, in their order."""
    end: Record | None = None
    """The next view or the crash; None if the run ended first."""

    @property
    def next_view(self) -> int | None:
        """The view that followed; None if none did."""
        return None if self.end is None or self.end.event is Event.CRASH else self.end.daemon_view

    @property
    def is_cut_short(self) -> bool:
        return self.end is not None and self.end.event is Event.CRASH

    def signalled_at(self) -> dict[str, int]:
        """For each group that had an early signal, and for all ("") that had none, the signal's position."""
        positions: dict[str, int] = {}
        for record in self.signals:
            for group in record.groups or ("",):
                positions.setdefault(group, record.position)
        return positions


class Life(Struct, eq=False):
    """One incarnation of a daemon."""

    daemon: str
    incarnation: int
    terms: list[DaemonTerm]
    crash: Record | None = None


class History(Struct):
    """All that the trace tells of daemons."""

    lives: list[Life]
    views: dict[int, dict[str, DaemonTerm]]
    """Daemon view: what each of its daemons did in it."""
    sends: dict[Bundle, Record]
    """Every bundle that was sent."""
    carriers: dict[Identity, Record]
    """For each message of a client, how the bundle that carries it was sent."""
    holds: dict[Bundle, dict[str, int]]
    """For each bundle, when each daemon had all of it."""
    homeless: list[Record]
    """Events of daemons that were in no view."""

    @property
    def is_told(self) -> bool:
        """Whether the trace tells of daemons at all."""
        return bool(self.lives)

    def last_lives(self) -> dict[str, Life]:
        """The last life of each daemon."""
        return {life.daemon: life for life in self.lives}

    def go_together(self, message: Identity, daemon: str, other: str) -> bool:
        """Whether two daemons were in the view in which `message` was sent and went from there together, into
        one next view or to the end of the run. A message that no bundle carried was sent in no view."""
        if not self.lives:
            return True
        carrier = self.carriers.get(message)
        if carrier is None or carrier.bundle is None:
            return False
        terms = self.views.get(carrier.bundle[0], {})
        one, two = terms.get(daemon), terms.get(other)
        if one is None or two is None or one.is_cut_short or two.is_cut_short:
            return False
        return one.next_view == two.next_view


def history(trace: Trace) -> History:
    """One pass over the events of daemons."""
    told = History([], {}, {}, {}, {}, [])
    living: dict[str, Life] = {}
    current: dict[str, DaemonTerm] = {}
    for record in trace.records:
        event = record.event
        if event is Event.SDELIVER:
            term = current.get(record.daemon)
            if term is None:
                told.homeless.append(record)
            else:
                term.delivered.append(record)
        elif event is Event.HOLD:
            if record.bundle is not None:
                told.holds.setdefault(record.bundle, {}).setdefault(record.daemon, record.position)
        elif event is Event.SSEND:
            term = current.get(record.daemon)
            _note_send(told, record)
            if term is None:
                told.homeless.append(record)
            else:
                term.sent.append(record)
        elif event is Event.SVIEW:
            _install(told, record, living, current)
        elif event is Event.STRANSSIG:
            term = current.get(record.daemon)
            if term is None:
                told.homeless.append(record)
            else:
                term.signals.append(record)
        elif event is Event.RECOVER:
            current.pop(record.daemon, None)
            living[record.daemon] = Life(record.daemon, record.incarnation, [])
            told.lives.append(living[record.daemon])
        elif event is Event.CRASH:
            if record.daemon in living:
                living.pop(record.daemon).crash = record
            if record.daemon in current:
                current.pop(record.daemon).end = record
    return told


def _install(told: History, record: Record, living: dict[str, Life], current: dict[str, DaemonTerm]) -> None:
    life = living.get(record.daemon)
    if life is None:
        told.homeless.append(record)
        return
    before = current.get(record.daemon)
    if before is not None:
        before.end = record
    term = DaemonTerm(
        record.daemon, life.incarnation, record.daemon_view, record, before.view if before else None,
        [], [], [],
    )  # fmt: skip
    life.terms.append(term)
    current[record.daemon] = term
    told.views.setdefault(record.daemon_view, {})[record.daemon] = term


def _note_send(told: History, record: Record) -> None:
    if record.bundle is not None:
        told.sends.setdefault(record.bundle, record)
    if record.message is not None:
        daemon, incarnation, session, sequence = record.message
        for place in range(sequence, sequence + record.count):
            told.carriers[daemon, incarnation, session, place] = record


def daemon_terms(trace: Trace) -> list[DaemonTerm]:
    """Every term of every life."""
    return [term for life in trace.known(history).lives for term in life.terms]


def daemon_of(process: str) -> str:
    """The daemon at which a process is.

    >>> daemon_of("#alice#d1")
    'd1'
    """
    return process.rpartition("#")[2]


def name(bundle: Bundle | None) -> str:
    """A bundle in words.

    >>> name((17, 0, 4))
    'bundle 4 of daemon 0 in daemon view 17'
    """
    if bundle is None:
        return "a bundle without a name"
    view, source, number = bundle
    return f"bundle {number} of daemon {source} in daemon view {view}"
