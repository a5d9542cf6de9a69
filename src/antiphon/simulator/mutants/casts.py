"""Casts that lose pieces for good, change the road at the wrong place, or answer everybody at once."""

from typing import Any

from antiphon.core.edge.hearing import Hearing
from antiphon.core.feeds.cast import Cast
from antiphon.core.feeds.repairs import Repairs
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire import edges

EDGES_ALONE = frozenset(("edges",))
REPAIRS_ALONE = frozenset(("repairs",))


def _nothing(original: Original) -> Original:
    return lambda *_, **__: None


def _one_piece_late(original: Original) -> Original:
    def enter(cast: Cast, number: int) -> edges.OnCast:
        told: edges.OnCast = original(cast, number)
        return edges.OnCast(told.first + 1, told.distance_us)

    return enter


def _once_more(original: Original) -> Original:
    def take_due(repairs: Repairs, now_us: int) -> Any:
        found = original(repairs, now_us)
        for number, _ in found:
            if repairs.sent % 2:
                repairs._due[number] = now_us + 20_000
        return found

    return take_due


def _asks_nobody(original: Original) -> Original:
    def escalate(hearing: Hearing, due: list[int]) -> None:
        for number in due:
            hearing._missing[number].due_us += 1 << 50

    return escalate


def _asks_anyway(original: Original) -> Original:
    def requested(hearing: Hearing, request: Any) -> None:
        before = {number: want.due_us for number, want in hearing._missing.items()}
        original(hearing, request)
        for number, due_us in before.items():
            hearing._missing[number].due_us = due_us
        hearing._look_at_due()

    return requested


def _piece_skipped(original: Original) -> Original:
    def take_piece(hearing: Hearing, data: bytes) -> None:
        if hearing._next % 16 or hearing._buffer:
            original(hearing, data)

    return take_piece


CASTS: tuple[Mutant, ...] = (
    Mutant(
        "repairs for everybody", "who hears a repair repairs the same piece nevertheless",
        REPAIRS_ALONE, Repairs, "repaired", _nothing, "casts",
    ),
    Mutant(
        "repaired twice", "some pieces are repaired once more although nobody has asked again",
        REPAIRS_ALONE, Repairs, "take_due", _once_more, "casts", shown_by=2,
    ),
    Mutant(
        "requests by everybody", "who hears a request asks for the same piece as soon as before",
        REPAIRS_ALONE, Hearing, "_requested", _asks_anyway, "casts", shown_by=9,
    ),
    Mutant(
        "never asked for", "nobody asks for a piece that is missing",
        EDGES_ALONE, Hearing, "_want", _nothing, "casts", shown_by=2,
    ),
    Mutant(
        "not escalated", "what nobody has repaired is asked for no more",
        EDGES_ALONE, Hearing, "_escalate", _asks_nobody, "casts", shown_by=2,
    ),
    Mutant(
        "a piece too late", "an edge begins to read the cast one piece too late",
        EDGES_ALONE, Cast, "enter", _one_piece_late, "casts",
    ),
    Mutant(
        "a piece left out", "an edge does not read each sixteenth piece",
        EDGES_ALONE, Hearing, "_take_piece", _piece_skipped, "casts", shown_by=2,
    ),
)  # fmt: skip
