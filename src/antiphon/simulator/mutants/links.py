"""Mutants of the links: what a programmer may believe about acknowledgements, and is wrong about."""

from antiphon.core.links.hop import HopLink
from antiphon.simulator.mutants.mutant import Mutant, Original


def _arrived_is_all(original: Original) -> Original:
    def acknowledged(link: HopLink, aru: int, arrived: int, now_us: int) -> None:
        original(link, arrived, arrived, now_us)

    return acknowledged


def _holes_hold_nothing_back(original: Original) -> Original:
    def room(link: HopLink, now_us: int) -> int:
        aru, link._peer_aru = link._peer_aru, link._highest_sent
        try:
            return int(original(link, now_us))
        finally:
            link._peer_aru = aru

    return room


LINKS: tuple[Mutant, ...] = (
    Mutant(
        "arrived is all", "as many packets as have arrived are forgotten, though others are missing",
        frozenset(("2.17", "bounded")), HopLink, "_acknowledged", _arrived_is_all, "mixed", seeds=20,
        shown_by=9,
    ),
    Mutant(
        "holes hold nothing back", "only what is under way counts, however much waits behind a hole",
        frozenset(("bounded",)), HopLink, "_room", _holes_hold_nothing_back, "flood", seeds=5,
        shown_by=0,
    ),
)  # fmt: skip
