"""Broken resilience: who counts, how many are needed, and when a bundle may come before the signal."""

from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.resilience import Resilience
from antiphon.core.ordering.stability import Lines
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.resilience import MAJORITY

BROKEN = frozenset(("resilience",))


def _whoever_is_passed(original: Original) -> Original:
    def count(resilience: Resilience, entry: Entry, lts: int, lines: Lines) -> int:
        destinations = entry.header.destinations
        return sum(
            size
            for source, site, size in resilience._segments
            if destinations >> site & 1 and lines.complete(source) >= lts
        )

    return count


def _itself_twice(original: Original) -> Original:
    def count(resilience: Resilience, entry: Entry, lts: int, lines: Lines) -> int:
        return original(resilience, entry, lts, lines) + 1  # type: ignore[no-any-return]

    return count


def _half_is_a_majority(original: Original) -> Original:
    def needed(resilience: Resilience, code: int, destinations: int) -> int:
        asked = original(resilience, code, destinations)
        if code == MAJORITY:
            asked = min(asked, resilience._daemons // 2)
        return asked  # type: ignore[no-any-return]

    return needed


def _last_chance(original: Original) -> Original:
    def stop(order: SymmetricOrder) -> None:
        order.resilience.waiting.clear()
        order.moved = True
        order.advance()
        original(order)

    return stop


def _whole_segments(original: Original) -> Original:
    def count(resilience: Resilience, entry: Entry, lts: int, lines: Lines) -> int:
        found: int = original(resilience, entry, lts, lines)
        own = next(size for source, _, size in resilience._segments if source == resilience._source)
        return max(found, own)

    return count


RESILIENCE: tuple[Mutant, ...] = (
    Mutant(
        "passed is held", "a source counts once it has announced a later lts, whatever it has received",
        BROKEN, Resilience, "_count", _whoever_is_passed, "resilient", shown_by=1,
    ),
    Mutant(
        "counts itself twice", "the daemon that sent a bundle and delivers it counts as two",
        BROKEN, Resilience, "_count", _itself_twice, "resilient", shown_by=1,
    ),
    Mutant(
        "half is a majority", "of an even number of daemons half is enough",
        BROKEN, Resilience, "needed", _half_is_a_majority, "resilient", shown_by=1,
    ),
    Mutant(
        "resilience ends with the view", "when a view stops, resilient bundles are delivered as agreed ones",
        BROKEN, SymmetricOrder, "stop", _last_chance, "resilient", seeds=25,
        shown_by=24,
    ),
    Mutant(
        "own site has it", "what a daemon has, the other daemons of its site are taken to have",
        BROKEN, Resilience, "_count", _whole_segments, "resilient", shown_by=1,
    ),
)  # fmt: skip
