"""2.20: one identifier, one membership.

The thesis promises this for daemons only. Our identifiers keep the two sides of a cut apart, so it holds for
clients, too. In a merge, who has come depends on where one comes from; all else is the same for everyone.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_terms
from antiphon.simulator.oracle.terms import terms
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Record, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    first: dict[object, Record] = {}
    for term in trace.known(terms):
        record = term.start
        other = first.setdefault((term.group, term.view), record)
        if (other.members, other.cause) != (record.members, record.cause):
            yield _two_views(f"view {term.view} of {term.group}", other, record)
            continue
        if record.cause == "merge":
            other = first.setdefault((term.group, term.view, term.previous), record)
        if other.changed != record.changed:
            yield _two_views(f"view {term.view} of {term.group}", other, record)


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    first: dict[int, Record] = {}
    for term in trace.known(daemon_terms):
        record = term.start
        other = first.setdefault(term.view, record)
        if (other.members, other.incarnations, other.links) != (
            record.members,
            record.incarnations,
            record.links,
        ):
            yield _two_views(f"daemon view {term.view}", other, record)


def _two_views(which: str, one: Record, other: Record) -> Finding:
    return Finding(
        f"{which} is not the same at two members",
        (one.process or one.daemon, other.process or other.daemon),
        positions=(one.position, other.position),
    )


PROPERTIES = (
    Property(promises.MEMBERSHIP_AGREEMENT, _look),
    Property(promises.MEMBERSHIP_AGREEMENT_OF_DAEMONS, _look_at_daemons),
)
