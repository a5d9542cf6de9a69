"""Mutants of the size of packets: what a programmer may believe about a path, and is wrong about.

A path whose size is taken for too large costs retransmissions and nothing else, because what is lost twice
goes in pieces: no property shows it, tests/unit/test_path_size.py does.
"""

from antiphon.core.links.hop import HopLink
from antiphon.simulator.mutants.mutant import Mutant, Original


def _large_packets_stay_whole(original: Original) -> Original:
    def emit_pieces(link: HopLink, data: bytes) -> None:
        link._emit([data], len(data), len(data))

    return emit_pieces


PATHS = (
    Mutant(
        "large packets stay whole",
        "a packet that became too large for its path is retransmitted as it is",
        frozenset(("steadiness",)),
        HopLink,
        "_emit_pieces",
        _large_packets_stay_whole,
        "narrow",
        seeds=20,
        shown_by=15,
    ),
)
