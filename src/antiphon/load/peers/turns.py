"""Rounds in turns: one peer after the other, again and again, each with a fresh server.

What disturbs the machine for a while then disturbs all of them, and a round compares what happened within
seconds.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.load import crew
from antiphon.load.peers.known import OURS
from antiphon.load.peers.peer import Peer, Place
from antiphon.load.peers.work import Work
from antiphon.load.plan import Received, Sent

PACED_RATE_PER_S = 1_000.0
"""The rate at which latency is taken."""
_PATIENCE_S = 60.0
"""A process of a peer that says nothing for so long, beside the time in which it works, hangs."""
FLAT_OUT, PACED = "flat-out", "paced"


class Turn(Struct, frozen=True):
    """What one measurement of one peer gave: at the slowest of its receivers, and lost by all of them."""

    peer: str
    round: int
    load: str
    """`flat-out`, or `paced` at 1,000 messages a second."""
    size_bytes: int
    messages_per_s: float
    megabytes_per_s: float
    p50_us: int | None
    """Latency, of paced messages only: flat out it would be that of full queues."""
    p99_us: int | None
    sent: int
    received: int
    """By the receiver that got the fewest."""
    lost: int
    """Messages that receivers did not get, all receivers together."""
    out_of_order: int
    seconds: float
    """From the first message to the last, at the slowest receiver."""


class Fault(Struct, frozen=True):
    """Why a peer did not finish its turn."""

    peer: str
    round: int
    reason: str


class Season(Struct, frozen=True):
    """How often, how long and with what the peers take turns."""

    rounds: int
    seconds: float
    sizes: tuple[int, ...]
    receivers: int

    @property
    def measurements(self) -> int:
        """Measurements of one peer in one round."""
        return 2 * len(self.sizes)


def play(
    season: Season,
    peers: Sequence[Peer],
    tell: Callable[[Turn | Fault], None],
    advance: Callable[[float], None],
) -> None:
    """Play all rounds and tell each measurement at once; `advance` gets how many more measurements are over.

    The failure of a peer is told, too, and it gets its turn again in the next round; ours ends all.
    """
    for number in range(1, season.rounds + 1):
        for peer in peers:
            done = 0
            try:
                with (
                    tempfile.TemporaryDirectory(prefix="antiphon-peer-") as folder,
                    peer.server(Path(folder)) as place,
                ):
                    for size_bytes in season.sizes:
                        for rate_per_s in (0.0, PACED_RATE_PER_S):
                            work = Work(size_bytes, rate_per_s, season.seconds)
                            tell(_turn(peer, number, work, *_measure(peer, place, work, season.receivers)))
                            done += 1
                            advance(1)
            except (AntiphonError, OSError) as error:
                if peer.name == OURS:
                    raise
                tell(Fault(peer.name, number, str(error)))
                advance(season.measurements - done)


def _measure(peer: Peer, place: Place, work: Work, receivers: int) -> tuple[Sent, tuple[Received, ...]]:
    with ExitStack() as stack:

        def start(role: str) -> crew.Worker:
            words = (sys.executable, "-m", "antiphon.load.peers.worker", role, peer.name, place.address)
            return crew.start(stack, (*place.prefix, *words, msgspec.json.encode(work).decode()))

        subscribed = [start("receive") for _ in range(receivers)]
        crew.reports(subscribed, _PATIENCE_S)
        return crew.outcome(crew.reports([start("send"), *subscribed], _PATIENCE_S + work.seconds))


def _turn(peer: Peer, number: int, work: Work, sent: Sent, received: tuple[Received, ...]) -> Turn:
    slowest = min(received, key=lambda report: report.messages_per_s)
    is_paced = work.rate_per_s > 0
    latest = max(received, key=lambda report: report.p50_us)
    return Turn(
        peer=peer.name,
        round=number,
        load=PACED if is_paced else FLAT_OUT,
        size_bytes=work.size_bytes,
        messages_per_s=round(slowest.messages_per_s, 1),
        megabytes_per_s=round(slowest.megabytes_per_s, 3),
        p50_us=latest.p50_us if is_paced else None,
        p99_us=latest.p99_us if is_paced else None,
        sent=sent.messages,
        received=min(report.messages for report in received),
        lost=sum(max(0, sent.messages - report.messages) for report in received),
        out_of_order=sum(report.out_of_order for report in received),
        seconds=round(slowest.seconds, 3),
    )
