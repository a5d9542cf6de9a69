"""Mutants of the token site: what a programmer may believe about acknowledgements, and is wrong about."""

from antiphon.core.links.kept import Kept
from antiphon.core.links.token_site import TokenSite
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.packet import Data
from antiphon.wire.token_site import SiteAck


def _accepted_with_holes(original: Original) -> Original:
    def has_all_of(link: TokenSite, ack: SiteAck) -> bool:
        return True

    return has_all_of


def _a_pass_too_early(original: Original) -> Original:
    """All but one have told that they have it."""

    def raise_stable(link: TokenSite) -> None:
        told = link._arus
        slowest = told.index(min(told))
        link._arus = [aru for place, aru in enumerate(told) if place != slowest]
        original(link)
        link._arus = told

    return raise_stable


def _repeated_token_counts(original: Original) -> Original:
    def receive_ack(link: TokenSite, sender: int, ack: SiteAck, now_us: int) -> None:
        if ack.serial <= link._serial and ack.next == link._me and not link._has_token:
            link._serial, link._named = ack.serial - 1, sender
            link._number, link._lts = min(link._number, ack.number), min(link._lts, ack.lts)
        original(link, sender, ack, now_us)

    return receive_ack


def _wrong_packet(original: Original) -> Original:
    def packet(kept: Kept, number: int) -> Data | None:
        return original(kept, number - 1) or original(kept, number)  # type: ignore[no-any-return]

    return packet


def _announced_without_the_token(_original: object) -> object:
    def newest(link: TokenSite) -> tuple[int, int]:
        return link._numbering.issued, link._numbering.clock

    return property(newest)


TOKEN_SITE: tuple[Mutant, ...] = (
    Mutant(
        "token accepted with holes", "a daemon becomes the token site although it lacks what was sent before",
        frozenset(("bounded", "2.10", "2.17")), TokenSite, "_has_all_of", _accepted_with_holes, "tokens",
        seeds=40, shown_by=14,
    ),
    Mutant(
        "a pass too early", "a bundle counts as stable when all members but one have told that they have it",
        frozenset(("2.14",)), TokenSite, "_raise_stable", _a_pass_too_early, "tokens", shown_by=4,
    ),
    Mutant(
        "repeated token counts", "a repeated acknowledgement makes its receiver the token site again",
        frozenset(("2.5", "2.7", "2.10", "2.13", "2.15", "2.17", "standstill")), TokenSite,
        "_receive_ack", _repeated_token_counts, "tokens", seeds=40, shown_by=2,
    ),
    Mutant(
        "repaired with another packet", "who repeats a packet of another sends the one before it",
        frozenset(("2.10", "2.17", "standstill")), Kept, "packet", _wrong_packet, "tokens",
    ),
    Mutant(
        "announced by no token site", "a representative announces its clock whoever has the token",
        frozenset(("2.7", "2.12", "2.13")), TokenSite, "newest", _announced_without_the_token, "tokens",
        seeds=40, shown_by=14,
    ),
)  # fmt: skip
