"""2.18: all daemons deliver a bundle in the same view, the one in which it was sent."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_terms, name
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Trace, promises


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for term in trace.known(daemon_terms):
        for record in term.delivered:
            if record.bundle is None or record.bundle[0] != term.view:
                yield at(record, f"delivered {name(record.bundle)} while in daemon view {term.view}")


PROPERTIES = (Property(promises.SAME_VIEW_OF_DAEMONS, _look_at_daemons),)
