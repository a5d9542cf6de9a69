"""Mutants of the damping: what flaps keeps those who are well from working, or stays out for no reason."""

from typing import Any

from antiphon.config import Timing
from antiphon.core.membership.damping import Damping
from antiphon.core.membership.flapping import Flapping
from antiphon.simulator.mutants.mutant import Mutant, Original


def _nothing_damped(original: Original) -> Original:
    return lambda damping, timing, now_us, **options: None


def _time_is_proof(original: Original) -> Original:
    """A damped daemon is taken back when its time is over, whatever became of its path meanwhile."""
    return lambda damping, now_us: now_us - damping.lost_us


def _forgiven_at_once(original: Original) -> Original:
    def installed(damping: Damping, is_with_us: bool, now_us: int) -> None:
        original(damping, is_with_us, now_us)
        if is_with_us:
            damping.losses = 0

    return installed


def _pairs_alone(original: Original) -> Original:
    """Losses count against one pair at a time, and others do not learn of them."""

    def begin(flapping: Flapping, *arguments: Any) -> None:
        original(flapping, *arguments)
        lost = flapping.lost

        def lost_pair(timing: Timing, now_us: int, **options: bool) -> None:
            flapping.fading = frozenset(sorted(flapping.fading)[:1])
            lost(timing, now_us, **options)
            for peer in flapping._peers.values():  # those who will not be in the next view count as counted
                peer.damping.lost_us = now_us

        vars(flapping).update(lost=lost_pair, follow=lambda *others: None)

    return begin


DAMPING: tuple[Mutant, ...] = (
    Mutant(
        "nothing damped", "what is lost again and again is taken back at once",
        frozenset(("steadiness",)), Damping, "lost", _nothing_damped, "lasting",
    ),
    Mutant(
        "time is proof", "a damped daemon is taken back after a time in which its path need not work",
        frozenset(("steadiness",)), Damping, "whole_us", _time_is_proof, "lasting",
    ),
    Mutant(
        "forgiven at once", "the losses of a daemon are forgotten as soon as it is back",
        frozenset(("steadiness",)), Damping, "installed", _forgiven_at_once, "lasting",
    ),
    Mutant(
        "pairs alone", "a daemon that flaps is damped by one of the others at a time",
        frozenset(("steadiness",)), Flapping, "__init__", _pairs_alone, "lasting",
    ),
)  # fmt: skip
