"""What the rounds gave, peer by peer: medians with their spread, and ratios to ours.

A ratio is taken within a round, where both were measured within seconds of each other; its median and its
spread are those of the rounds.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

from antiphon.load.peers.known import OURS
from antiphon.load.peers.turns import FLAT_OUT, PACED, Turn


class Spread(Struct, frozen=True):
    """The middle of some figures, and the ends."""

    median: float
    min: float
    max: float


class Summary(Struct, frozen=True):
    """All rounds of one peer with messages of one size."""

    peer: str
    size_bytes: int
    rounds: int
    """Rounds in which messages were sent flat out and came."""
    messages_per_s: Spread | None
    of_ours: Spread | None
    """Messages a second as a part of ours in the same round."""
    p50_us: Spread | None
    p50_of_ours: Spread | None
    """The latency as a part of ours in the same round: above 1 is slower than ours."""
    p99_us: Spread | None
    lost: int
    out_of_order: int


def spread(figures: Iterable[float]) -> Spread | None:
    """The median and the ends, with four digits; None if there are no figures.

    >>> spread([3, 1, 2.00625, 0.5])
    Spread(median=1.503, min=0.5, max=3.0)
    """
    found = sorted(figures)
    if not found:
        return None
    return Spread(*(float(f"{figure:.4g}") for figure in (median(found), found[0], found[-1])))


def summaries(turns: Sequence[Turn]) -> list[Summary]:
    """A summary for each size and peer, in the order in which they were measured."""
    keys = dict.fromkeys((turn.size_bytes, turn.peer) for turn in turns)
    sizes = dict.fromkeys(size_bytes for size_bytes, _ in keys)
    return [
        _summary(turns, peer, size_bytes)
        for wanted in sizes
        for size_bytes, peer in keys
        if size_bytes == wanted
    ]


def _summary(turns: Sequence[Turn], peer: str, size_bytes: int) -> Summary:
    same = [turn for turn in turns if turn.size_bytes == size_bytes]
    rates, latencies, ends = (
        _by_round(same, peer, load, field)
        for load, field in ((FLAT_OUT, "messages_per_s"), (PACED, "p50_us"), (PACED, "p99_us"))
    )
    our_rates = _by_round(same, OURS, FLAT_OUT, "messages_per_s")
    our_latencies = _by_round(same, OURS, PACED, "p50_us")
    mine = [turn for turn in same if turn.peer == peer]
    return Summary(
        peer=peer,
        size_bytes=size_bytes,
        rounds=len(rates),
        messages_per_s=spread(rates.values()),
        of_ours=spread(_ratios(rates, our_rates)),
        p50_us=spread(latencies.values()),
        p50_of_ours=spread(_ratios(latencies, our_latencies)),
        p99_us=spread(ends.values()),
        lost=sum(turn.lost for turn in mine),
        out_of_order=sum(turn.out_of_order for turn in mine),
    )


def _by_round(turns: Iterable[Turn], peer: str, load: str, field: str) -> dict[int, float]:
    """A figure of each round in which there is one: 0 is none, since nothing came."""
    chosen = (turn for turn in turns if (turn.peer, turn.load) == (peer, load))
    return {turn.round: figure for turn in chosen if (figure := getattr(turn, field))}


def _ratios(figures: dict[int, float], ours: dict[int, float]) -> list[float]:
    return [figure / ours[number] for number, figure in figures.items() if number in ours]
