"""Mutants of the size of packets: what a programmer may believe about a path, and is wrong about."""

from antiphon.core.links.hop import HopLink
from antiphon.core.links.path_size import PathSize
from antiphon.simulator.mutants.mutant import Mutant, Original


def _lost_probe_proves(original: Original) -> Original:
    def missed(path: PathSize, heard_us: int, now_us: int) -> None:
        path.answered(path._trying, now_us)

    return missed


def _large_packets_stay_whole(original: Original) -> Original:
    def emit_pieces(link: HopLink, data: bytes) -> None:
        link._emit([data], len(data), len(data))

    return emit_pieces


PATHS = (
    Mutant(
        "lost probe proves",
        "a probe of the path that is not answered counts as answered",
        frozenset(("steadiness",)),
        PathSize,
        "_missed",
        _lost_probe_proves,
        "narrow",
        shown_by=5,
    ),
    Mutant(
        "large packets stay whole",
        "a packet that became too large for its path is retransmitted as it is",
        frozenset(("steadiness",)),
        HopLink,
        "_emit_pieces",
        _large_packets_stay_whole,
        "narrow",
        shown_by=5,
    ),
)
