"""A property, and what is said when a trace breaks it."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from antiphon.trace import Identity, Record, Trace
from antiphon.trace.promises import Promise

VIOLATIONS_MAX = 5
"""Reported per property and run: one is enough to fail, a few help to understand."""


class Violation(Struct, frozen=True):
    """One broken promise, with all that is needed to look at it again."""

    name: str
    """Number and title of the property."""
    promise: str
    scenario: str
    seed: int
    what: str
    processes: tuple[str, ...]
    """Sessions, or daemons where the property speaks of daemons."""
    messages: tuple[Identity, ...]
    positions: tuple[int, ...]

    def __str__(self) -> str:
        messages = ", ".join(".".join(map(str, message)) for message in self.messages)
        positions = ", ".join(map(str, self.positions))
        parts = [
            f"property {self.name} broken in {self.scenario}, seed {self.seed}: {self.what}",
            f"  promised: {self.promise}",
        ]
        if self.processes:
            parts.append(f"  processes: {', '.join(self.processes)}")
        if messages:
            parts.append(f"  messages: {messages}")
        if positions:
            parts.append(f"  positions: {positions}")
        return "\n".join(parts)


class Finding(Struct, frozen=True):
    """What a check saw, before it is put in words with the property's name."""

    what: str
    processes: tuple[str, ...] = ()
    messages: tuple[Identity, ...] = ()
    positions: tuple[int, ...] = ()


def at(record: Record, what: str) -> Finding:
    """A finding about one event."""
    return Finding(
        what,
        (record.process or record.daemon,),
        (record.message,) if record.message is not None else (),
        (record.position,),
    )


class Property(Struct, frozen=True):
    """One promise of the system, and how a trace is checked against it."""

    promise: Promise
    look: Callable[[Trace], Iterator[Finding]]
    is_of_edges: bool = False
    """Whether it is about members at edges. They are in no view, and no other property speaks of them."""

    def check(self, trace: Trace) -> list[Violation]:
        """Where `trace` breaks the promise: the first few places, or none."""
        found = []
        for finding in self.look(trace if self.is_of_edges else trace.core):
            found.append(
                Violation(
                    self.promise.name, self.promise.words, trace.scenario, trace.seed,
                    finding.what, finding.processes, finding.messages, finding.positions,
                )
            )  # fmt: skip
            if len(found) == VIOLATIONS_MAX:
                break
        return found
