"""The delivery levels that a sender can ask for, weakest first.

Each level keeps the promises of those before it (thesis 2.2.3.2), except that UNRELIABLE promises nothing.
"""

from enum import IntEnum

from antiphon.errors import UsageError


class Service(IntEnum):
    """What a sender asks of the system for one message.

    >>> Service.parse("agreed") is Service.AGREED
    True
    """

    UNRELIABLE = 0
    """At most once, no order: delivered on arrival, or not at all."""
    RELIABLE = 1
    """Exactly once to every member, on arrival, in any order."""
    FIFO = 2
    """Reliable, and after everything that the same session sent before."""
    CAUSAL = 3
    """FIFO, and after everything that its sender had sent or got before, and nothing else."""
    AGREED = 4
    """Causal, and everywhere in the same order, across all groups."""
    SAFE = 5
    """Agreed, and delivered only once every daemon is known to have it."""

    @property
    def is_ordered(self) -> bool:
        """Whether the message takes its place in the one agreed order."""
        return self >= Service.AGREED

    @classmethod
    def parse(cls, word: str) -> "Service":
        """The service called `word`, whatever its case; a clear error otherwise."""
        try:
            return cls[word.upper()]
        except KeyError:
            known = ", ".join(service.name.lower() for service in cls)
            raise UsageError(f"unknown service {word!r}; known: {known}") from None


UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = Service
"""Plain names for what runs with every bundle: Python 3.11 takes longer to find a member of an enum (0.25 us)
than to call a function."""
