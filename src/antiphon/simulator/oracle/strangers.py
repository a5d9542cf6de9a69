"""What strangers send to a sealed cluster counts for nothing.

The simulator's strangers (`simulator.strangers`) know which of their packets no daemon can have made for its
receiver just then; a record says that one counted all the same, or that two packets left with one nonce.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.of(Event.BREACH):
        yield at(record, record.reason)


PROPERTIES = (Property(promises.SEALED, _look),)
