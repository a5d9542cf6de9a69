"""Broken in `core.allowance`: a daemon has more under way than it may, or nothing any more."""

from antiphon.core.allowance import Allowance
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.trace import promises


def _no_ceiling(original: Original) -> Original:
    """Paths that hold more than the configured limit get it."""

    def worth(allowance: Allowance) -> int:
        ceiling_bytes = allowance.ceiling_bytes
        allowance.ceiling_bytes = 1 << 40
        try:
            return int(original(allowance))
        finally:
            allowance.ceiling_bytes = ceiling_bytes

    return worth


def _never_again(original: Original) -> Original:
    """After a round that took half a second nothing is allowed, and no further round can show better."""

    def end_round(allowance: Allowance, stable_bytes: int, now_us: int) -> bool:
        took_us = now_us - allowance._began_us
        is_draining = bool(original(allowance, stable_bytes, now_us))
        if took_us > 500_000:
            allowance.bytes = 0
        return is_draining

    return end_round


ALLOWANCE = (
    Mutant(
        "no ceiling", "what the paths hold is under way, whatever the limit",
        frozenset((promises.BOUNDED.number,)), Allowance, "_worth", _no_ceiling, "far", shown_by=6,
    ),
    Mutant(
        "never again", "a daemon that was slow once orders nothing more",
        frozenset(("2.15", "2.17")), Allowance, "_end_round", _never_again, "far",
    ),
)  # fmt: skip
