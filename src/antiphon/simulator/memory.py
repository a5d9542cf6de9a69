"""Less memory for feeds than daemons and edges have otherwise: what an edge comes back for is soon
forgotten."""

from collections.abc import Iterator
from contextlib import contextmanager

from antiphon import limits
from antiphon.simulator.plan import Memory


@contextmanager
def remembering(memory: Memory) -> Iterator[None]:
    """While this lasts, all daemons and edges keep so much."""
    wanted = {
        "EDGE_OUTPUT_BYTES": memory.output_bytes,
        "CAST_KEEP_BYTES": memory.cast_bytes,
        "CAST_KEEP_US": memory.cast_us,
    }
    before = {name: getattr(limits, name) for name in wanted}
    for name, value in wanted.items():
        setattr(limits, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)
