"""Mutants of the damping: what flaps keeps those who are well from working, or stays out for no reason."""

from antiphon.core.membership.damping import Damping
from antiphon.core.membership.loss import Loss
from antiphon.core.membership.rounds import Reason
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
    """A loss counts for the daemon that has noticed it, against the one whose link it was."""

    def lose(loss: Loss, reason: Reason, peer: int | None, detail: str, now_us: int) -> None:
        presence = loss._presence
        flapping = presence.flapping
        is_noticed = peer is not None and reason in (Reason.SILENCE, Reason.LINK_FAILED)
        flapping.fading = flapping.fading & {peer} if is_noticed else frozenset()
        original(loss, reason, peer, detail, now_us)
        for other in presence.peers.values():  # and not for those who are without it in the next view
            other.damping.lost_us = now_us
        vars(flapping)["follow"] = lambda *told: None

    return lose


DAMPING: tuple[Mutant, ...] = (
    Mutant(
        "nothing damped", "what is lost again and again is taken back at once",
        frozenset(("steadiness",)), Damping, "lost", _nothing_damped, "lasting",
        seeds=30, shown_by=23,
    ),
    Mutant(
        "time is proof", "a damped daemon is taken back after a time in which its path need not work",
        frozenset(("steadiness",)), Damping, "whole_us", _time_is_proof, "lasting",
        seeds=30, shown_by=10,
    ),
    Mutant(
        "forgiven at once", "the losses of a daemon are forgotten as soon as it is back",
        frozenset(("steadiness",)), Damping, "installed", _forgiven_at_once, "lasting",
        seeds=30, shown_by=23,
    ),
    Mutant(
        "pairs alone", "a daemon that flaps is damped by one of the others at a time",
        frozenset(("steadiness",)), Loss, "lose", _pairs_alone, "lasting",
        seeds=30, shown_by=23,
    ),
)  # fmt: skip
