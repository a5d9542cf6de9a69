"""Mutants of the ring: what a programmer may believe about a token, and is wrong about."""

from typing import Any

from antiphon.core.links.ring import Ring
from antiphon.core.membership.engine import Engine
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.origin import Origin
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.core.overlay.routing import Branch
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.token import NOBODY, Token


def _one_round_is_enough(original: Original) -> Original:
    def raise_arus(ring: Ring, going: Token) -> None:
        ring._last_link_aru, ring._last_site_aru = going.link_aru, going.site_aru
        original(ring, going)

    return raise_arus


def _anybody_raises(original: Original) -> Original:
    def agree(ring: Ring, value: int, modifier: int, mine: int) -> tuple[int, int]:
        return (mine, ring._me) if mine < value else (mine, NOBODY)

    return agree


def _numbers_without_token(original: Original) -> Original:
    def conclude(ring: Ring, is_wanted: bool, now_us: int) -> None:
        original(ring, is_wanted, now_us)
        ring._numbering.is_turn = True

    return conclude


def _nothing_asked_for(original: Original) -> Original:
    def ask(ring: Ring, going: Token, now_us: int) -> None:
        ring.reception.ask(now_us, ring.round_us)

    return ask


def _lost_token_not_sent_again(original: Original) -> Original:
    def send_token_again(ring: Ring, now_us: int) -> None:
        ring._resend_us = None

    return send_token_again


def _joining_daemon_vouches(original: Original) -> Original:
    def conclude(ring: Any, is_wanted: bool, now_us: int) -> None:
        lines = ring._numbering.lines
        right, lines.aru = lines.aru, lines.agreed
        original(ring, is_wanted, now_us)
        lines.aru = right

    return conclude


def _own_aru_for_the_segment(original: Original) -> Original:
    def conclude(ring: Ring, is_wanted: bool, now_us: int) -> None:
        original(ring, is_wanted, now_us)
        ring._numbering.vouched(ring._numbering.aru)

    return conclude


def _clock_not_on_the_token(original: Original) -> Original:
    """Later bundles of other members may come before what this one has seen and sent."""

    def conclude(ring: Ring, *, lts: int, **rest: object) -> None:
        original(ring, lts=ring.site_lts, **rest)

    return conclude


def _announces_without_token(_original: object) -> object:
    def announcement(engine: Engine) -> tuple[int, int, int]:
        order = engine.order
        return order.issued, order.clock, order.own_aru

    return property(announcement)


def _not_passed_on(original: Original) -> Original:
    def branches(forwarder: Forwarder, source: int, from_site: bool) -> tuple[Branch, ...]:
        return () if from_site else forwarder._all[source]

    return branches


def _missing_number_counts(_original: object) -> object:
    return property(lambda order: order.is_turn)


def _outbox_forgotten(original: Original) -> Original:
    def flush(origin: Origin, now_us: int) -> None:
        original(origin, now_us)
        for waiting in list(origin._outbox):
            if not waiting[2]:
                origin._outbox.remove(waiting)

    return flush


RING: tuple[Mutant, ...] = (
    Mutant(
        "one round is enough", "what a single round of the token agrees on is taken for true of all members",
        frozenset(("2.14",)), Ring, "_raise_arus", _one_round_is_enough, "sites", seeds=40,
    ),
    Mutant(
        "anybody raises the aru", "a daemon raises the token's aru although another one has lowered it",
        frozenset(("2.14",)), Ring, "_agree", _anybody_raises, "sites", seeds=40, shown_by=1,
    ),
    Mutant(
        "numbers without the token", "a daemon numbers bundles of its segment whoever has the token",
        frozenset(("2.5", "2.7", "2.10", "2.13", "2.17")), Ring, "conclude", _numbers_without_token,
        "sites", seeds=40, shown_by=3,
    ),
    Mutant(
        "nothing asked for", "packets that were lost on a ring are not asked for",
        frozenset(("2.10", "2.17")), Ring, "_ask", _nothing_asked_for, "sites", seeds=40,
        shown_by=3,
    ),
    Mutant(
        "lost token not sent again", "a daemon that passed the token on does not check whether it arrived",
        frozenset(("2.10", "2.17")), Ring, "_send_token_again", _lost_token_not_sent_again, "sites",
        seeds=40,
        shown_by=3,
    ),
    Mutant(
        "joining daemon vouches", "the token says that a joining daemon has what is still sent to it again",
        frozenset(("2.7", "2.14")), Ring, "conclude", _joining_daemon_vouches, "sites",
        seeds=64, shown_by=63,
    ),
    Mutant(
        "own aru for the segment", "a daemon says for its whole segment what it has itself",
        frozenset(("2.14",)), Ring, "conclude", _own_aru_for_the_segment, "sites", seeds=40,
    ),
    Mutant(
        "clock not on the token", "the token does not bring the clock of the daemon that passes it on",
        frozenset(("2.7", "2.12", "2.13")), Ring, "_conclude", _clock_not_on_the_token, "sites",
        seeds=40, shown_by=5,
    ),
    Mutant(
        "word without the token", "a representative says how far its segment is without having the token",
        frozenset(("2.7", "2.13")), Engine, "_announcement", _announces_without_token, "sites", seeds=40,
        shown_by=1,
    ),
    Mutant(
        "not passed on from the ring", "border daemons send on only what began with them",
        frozenset(("2.10", "2.17")), Forwarder, "_branches", _not_passed_on, "sites", seeds=40, shown_by=9,
    ),
    Mutant(
        "missing number counts", "the daemon that has the token takes the segment's bundles for complete",
        frozenset(("2.7", "2.13")), SymmetricOrder, "_is_complete", _missing_number_counts, "sites",
        seeds=40, shown_by=1,
    ),
    Mutant(
        "late bundles not kept", "what is to be sent again to a joining site is lost without the token",
        frozenset(("2.7", "2.10")), Origin, "flush", _outbox_forgotten, "sites", seeds=40, shown_by=13,
    ),
)  # fmt: skip
