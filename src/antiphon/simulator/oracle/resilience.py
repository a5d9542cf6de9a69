"""Resilience: a bundle that asks for K daemons is delivered only once so many have it.

RMP 3.2 promises that delivery is atomic unless K sites fail or are cut off at once. Held to two things. At a
delivery before the signal, at least K of the bundle's destinations in the daemon view must already hold it,
or all of them if they are fewer. And at least so many deliver it in that view, before or after the signal,
unless they crash in it: a daemon that holds a bundle and drops it at the end of the view is of no use.

A majority is more than half of the daemons of the view. Deliveries after the signal promise nothing more than
agreed ones do.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import DaemonTerm, History, daemon_terms, history, name
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Bundle, Record, Trace, promises


def needed(resilience: str, members: int, destinations: int) -> int:
    """How many daemons must hold a bundle with this many destinations, in a view with this many members.

    >>> needed("2", 5, 5), needed("majority", 4, 4), needed("majority", 5, 2), needed("total", 5, 4)
    (2, 3, 2, 4)
    """
    asked = {"majority": members // 2 + 1, "total": members}
    return min(asked[resilience] if resilience in asked else int(resilience), destinations)


def _look(trace: Trace) -> Iterator[Finding]:
    told = trace.known(history)
    delivering: dict[Bundle, set[str]] = {}
    early: list[tuple[DaemonTerm, Record]] = []
    for term in trace.known(daemon_terms):
        signals = None
        for record in term.delivered:
            if not record.resilience or record.bundle is None:
                continue
            delivering.setdefault(record.bundle, set()).add(term.daemon)
            signals = term.signalled_at() if signals is None else signals
            if all(signals.get(group, record.position) >= record.position for group in ("", *record.groups)):
                early.append((term, record))
    judged: set[Bundle] = set()
    for term, record in early:
        assert record.bundle is not None
        wanted = needed(record.resilience, len(term.start.members), len(record.destinations))
        held = told.holds.get(record.bundle, {})
        holding = [
            daemon for daemon in record.destinations if held.get(daemon, record.position) < record.position
        ]
        if len(holding) < wanted:
            yield Finding(
                f"{term.daemon} delivered {name(record.bundle)} when {len(holding)} daemons had it; "
                f"{wanted} were asked for",
                (term.daemon,),
                positions=(record.position,),
            )
        if record.bundle not in judged:
            judged.add(record.bundle)
            yield from _not_by_enough(told, term, record, delivering[record.bundle], wanted)


def _not_by_enough(
    told: History, term: DaemonTerm, record: Record, delivering: set[str], wanted: int
) -> Iterator[Finding]:
    """Whether too few delivered a bundle, although they did not crash."""
    crashed = {life.daemon for life in told.lives if life.crash is not None}
    lacking = []
    for daemon in record.destinations:
        other = told.views[term.view].get(daemon)
        excused = daemon in crashed if other is None else other.is_cut_short
        if not excused and daemon not in delivering:
            lacking.append(daemon)
    if len(record.destinations) - len(lacking) < wanted:
        yield Finding(
            f"{term.daemon} delivered {name(record.bundle)}, which asked for {wanted} daemons; too many did "
            f"not, nor did they crash then: {', '.join(lacking)}",
            (term.daemon, *lacking),
            positions=(record.position,),
        )


PROPERTIES = (Property(promises.RESILIENCE_OF_DAEMONS, _look),)
