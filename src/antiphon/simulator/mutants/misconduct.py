"""Nonsense under a valid seal that is never held against its sender, too soon, or against somebody else."""

from typing import Any

from antiphon import limits
from antiphon.core.membership.exclusions import Exclusions
from antiphon.core.membership.misconduct import Misconduct
from antiphon.simulator.mutants.mutant import Mutant, Original

BROKEN = frozenset(("nonsense",))


def _never(original: Original) -> Original:
    return lambda *_: None


def _half_is_enough(original: int) -> int:
    return original // 2


def _another_one(original: Original) -> Original:
    """The neighbour with the greatest number is blamed."""

    def note(misconduct: Misconduct, sender: int, incarnation: int, *told: Any) -> None:
        working = misconduct._standing.working_view
        if working is not None:
            sender = max(working.neighbours(misconduct._me), default=sender)
            incarnation = working.incarnation(sender) or incarnation
        original(misconduct, sender, incarnation, *told)

    return note


MISCONDUCT: tuple[Mutant, ...] = (
    Mutant(
        "nonsense without end", "what no daemon makes is refused, and nothing ever follows",
        BROKEN, Misconduct, "note", _never, "nonsense", shown_by=1,
    ),
    Mutant(
        "half the nonsense is enough", "a daemon is left out before so much came as it takes",
        BROKEN, limits, "NONSENSE_MAX", _half_is_enough, "nonsense", shown_by=1,
    ),
    Mutant(
        "nonsense of somebody else", "a daemon is blamed under whose seal nothing came",
        BROKEN, Misconduct, "note", _another_one, "nonsense", shown_by=1,
    ),
    Mutant(
        "taken in at once", "a view ends because of nonsense, and the next one has its sender again",
        BROKEN, Exclusions, "renew", _never, "nonsense", shown_by=1,
    ),
)  # fmt: skip
