"""Local groups that multicast in the simulated world: whole runs, and what the oracle says of repairs."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest

from antiphon.simulator.oracle.repairs import PROPERTIES
from antiphon.simulator.outcome import Counts
from antiphon.simulator.play import play
from antiphon.simulator.run import Outcome, run_seed
from antiphon.simulator.scenarios import plan_of
from antiphon.simulator.stage import Stage
from antiphon.trace import Event, Record, Trace

STREAM = "63"
(REPAIRS,) = PROPERTIES


def complaint(outcome: Outcome) -> str:
    return "\n".join([outcome.error, *map(str, outcome.violations)])


@pytest.mark.parametrize("seed", (0, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (3, 6))))
def test_members_behind_a_cast_have_an_image_of_the_one_order(seed: int) -> None:
    outcome = run_seed(seed, "casts")
    assert outcome.is_clean, complaint(outcome)
    assert outcome.counts.cast_pieces


@pytest.mark.long
@pytest.mark.parametrize("first", range(10, 110, 10))
def test_many_runs_with_casts(first: int) -> None:
    counts = Counts()
    for seed in range(first, first + 10):
        outcome = run_seed(seed, "casts")
        assert outcome.is_clean, complaint(outcome)
        counts.add(outcome.counts)
    assert counts.cast_missed and counts.cast_requests and counts.cast_repairs
    assert counts.cast_escalated < counts.cast_missed
    assert counts.cast_requests < counts.cast_missed, "one request asks for many pieces, and for many edges"


@cache
def played(seed: int) -> Stage:
    return play(plan_of("casts", seed))


def test_a_coordinator_feeds_its_group_by_multicast() -> None:
    casts: Counter[str] = Counter()
    for edge in played(2).world.edges:
        casts += edge.casts
    assert casts["cast: pieces"] and casts["pieces"] > 2 * casts["cast: pieces"]
    assert casts["repairs of others"], "coordinators alone repair"
    assert casts["repairs spared"]


def test_the_trace_tells_of_requests_and_repairs() -> None:
    kinds = Counter((record.event, bool(record.peer)) for record in played(2).world.records)
    for event in (Event.REQUEST, Event.REPAIR):
        assert kinds[event, True] and kinds[event, False] > kinds[event, True]


def tale(*steps: tuple[int, Event, str, bool]) -> Trace:
    """What edges send and hear of one piece: time, event, edge, and whether it was the edge itself."""
    records = [
        Record(place, time_us, event, edge, peer=edge if is_own else "", place=7, reason=STREAM)
        for place, (time_us, event, edge, is_own) in enumerate(steps)
    ]
    return Trace("tale", 0, ("d0",), records, edges=("e0", "e1"))


MS = 1_000
ASKED = (0, Event.REQUEST, "e0", False)
GOOD: dict[str, Sequence[tuple[int, Event, str, bool]]] = {
    "asked and repaired": (ASKED, (5 * MS, Event.REPAIR, "e0", True)),
    "asked again": (
        ASKED, (5 * MS, Event.REPAIR, "e0", False), (50 * MS, Event.REQUEST, "e0", False),
        (55 * MS, Event.REPAIR, "e0", True),
    ),
    "each for itself": (ASKED, (1, Event.REQUEST, "e1", False), (5 * MS, Event.REPAIR, "e0", True)),
    "asks later": (ASKED, (5 * MS, Event.REQUEST, "e0", True)),
}  # fmt: skip
BAD: dict[str, Sequence[tuple[int, Event, str, bool]]] = {
    "nobody has asked": ((5 * MS, Event.REPAIR, "e0", True),),
    "another one was asked": ((0, Event.REQUEST, "e1", False), (5 * MS, Event.REPAIR, "e0", True)),
    "another one has repaired it": (
        ASKED, (4 * MS, Event.REPAIR, "e0", False), (5 * MS, Event.REPAIR, "e0", True),
    ),
    "repaired twice": (ASKED, (4 * MS, Event.REPAIR, "e0", True), (50 * MS, Event.REPAIR, "e0", True)),
    "its past life was asked": (ASKED, (1, Event.CRASH, "e0", False), (5 * MS, Event.REPAIR, "e0", True)),
    "asks at once": (ASKED, (10, Event.REQUEST, "e0", True)),
}  # fmt: skip


@pytest.mark.parametrize("steps", GOOD.values(), ids=GOOD)
def test_repairs_that_were_asked_for_are_good(steps: Sequence[tuple[int, Event, str, bool]]) -> None:
    assert REPAIRS.check(tale(*steps)) == []


@pytest.mark.parametrize("steps", BAD.values(), ids=BAD)
def test_needless_requests_and_repairs_are_found(steps: Sequence[tuple[int, Event, str, bool]]) -> None:
    assert len(REPAIRS.check(tale(*steps))) == 1
