"""The traces of a real cluster with edges, one of whose attachments was killed, and lies about it."""

from typing import Any

import pytest
from traced_edges import LIVE_LIES, meet_at_edges, tell

from antiphon.spark.conformance import Outcome, check
from antiphon.trace import promises

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def outcomes(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What each property says of the run and of the lies about it."""
    directory = tmp_path_factory.mktemp("edges")
    runs = directory / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTIPHON_TRACE", str(directory / "traces"))
        traces = meet_at_edges(directory)
    for lie in LIVE_LIES:
        tell(lie, traces, runs / lie.replace(" ", "-"))
    traces.rename(runs / "truth")
    return {outcome.name: outcome for outcome in check(spark, str(runs), str(directory / "work"))}


def test_nothing_is_said_of_what_happened(outcomes: dict[str, Outcome]) -> None:
    assert [name for name, outcome in outcomes.items() if "live-antiphon" in outcome.by_run] == []
    assert outcomes[promises.EDGES.name].checked > 0


@pytest.mark.parametrize("lie", LIVE_LIES)
def test_a_lie_is_found(outcomes: dict[str, Outcome], lie: str) -> None:
    assert f"live-{lie.replace(' ', '-')}" in outcomes[promises.EDGES.name].by_run


def test_what_happens_at_an_edge_concerns_no_other_property(outcomes: dict[str, Outcome]) -> None:
    broken = {name for name, outcome in outcomes.items() if outcome.by_run}
    assert broken == {promises.EDGES.name}
