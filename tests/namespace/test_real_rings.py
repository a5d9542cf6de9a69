"""Rings of real daemons, each in a namespace: with multicast and without; daemons that die with the token.

The plan is `scenarios/two-rings.json`: two sites of three daemons under load, lost packets inside the sites,
a representative that is killed while two of its site flood, another daemon that is killed in its own flood,
and a cut inside a site.
"""

from pathlib import Path

import pytest
from msgspec import structs
from real_run import RealOutcome, run_really
from real_world import RealWorld
from wires import why_not

from antiphon.simulator import plan as plans
from antiphon.simulator.plan import Plan
from antiphon.simulator.run import run_plan
from antiphon.simulator.scenarios import plan_of

FILE = Path(__file__).parents[2] / "scenarios" / "two-rings.json"
SEEDS = range(6)
PATIENCE_US = 60_000_000
"""Only to keep a failing test from hanging."""

reason = why_not()
needs_namespaces = pytest.mark.skipif(bool(reason), reason=reason or "possible here")


def judged(plan: Plan, folder: Path, *, has_multicast: bool) -> RealOutcome:
    """A run in which everything of the plan took place and nothing that was promised was broken."""
    outcome = run_really(plan, has_multicast=has_multicast)
    assert outcome.is_clean, f"{outcome}\nits trace: {outcome.trace.write(folder)}"
    assert outcome.counts.deliveries > 0
    for incident in plan.incidents:
        assert outcome.happened[type(incident).__name__.lower()]
    return outcome


def short(plan: Plan) -> Plan:
    """The beginning of it: losses, floods, and the death of a representative."""
    end_us = 3_000_000
    return structs.replace(
        plan,
        working_us=end_us,
        incidents=tuple(incident for incident in plan.incidents if incident.at_us < end_us),
    )


@needs_namespaces
@pytest.mark.timeout(300)
def test_a_representative_dies_while_its_site_floods(tmp_path: Path) -> None:
    outcome = judged(short(plans.read(FILE)), tmp_path, has_multicast=True)
    assert outcome.counts.crashes == 1
    assert outcome.rings
    assert all(outcome.rings.values()), "multicast does not get through"


@needs_namespaces
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "has_multicast",
    [pytest.param(True, id="multicast"), pytest.param(False, id="copies", marks=pytest.mark.long)],
)
def test_a_representative_dies_while_its_token_site_floods(has_multicast: bool, tmp_path: Path) -> None:
    plan = short(plans.read(FILE)).inside("token-site")
    outcome = judged(plan, tmp_path, has_multicast=has_multicast)
    assert outcome.counts.crashes == 1
    assert set(outcome.rings.values()) == {has_multicast}


@needs_namespaces
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("has_multicast", [True, False], ids=["multicast", "copies"])
def test_every_promise_is_kept_in_two_rings(has_multicast: bool, tmp_path: Path) -> None:
    outcome = judged(plans.read(FILE), tmp_path, has_multicast=has_multicast)
    assert (outcome.counts.crashes, outcome.counts.restarts) == (2, 2)
    assert set(outcome.rings.values()) == {has_multicast}


@needs_namespaces
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("has_multicast", [True, False], ids=["multicast", "copies"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept_with_the_seed_of_sites(seed: int, has_multicast: bool, tmp_path: Path) -> None:
    judged(plan_of("sites", seed), tmp_path, has_multicast=has_multicast)


def test_the_same_promises_are_kept_in_virtual_time() -> None:
    outcome = run_plan(plans.read(FILE))
    assert outcome.is_clean, f"{outcome.error}{outcome.violations}"


class Ring:
    """The daemons of a plan without clients, in one view."""

    def __init__(self, plan: Plan) -> None:
        self.world = RealWorld(structs.replace(plan, clients=(), incidents=()))
        self.everybody = tuple(range(len(plan.daemons())))

    def until_formed(self, *daemons: int) -> None:
        began_us = self.world.now_us
        while not self.world.has_formed([daemons or self.everybody]):
            assert self.world.now_us - began_us < PATIENCE_US
            self.world.run(self.world.now_us + 50_000)

    def holder(self) -> int:
        """Who has the token of the first site, by its own word; asked again until somebody has it."""
        began_us = self.world.now_us
        while self.world.now_us - began_us < PATIENCE_US:
            for daemon in self.everybody[:3]:
                told = self.world.hosts[daemon].status()
                if told is not None and told["ring"] is not None and told["ring"]["has_token"]:
                    return daemon
        raise AssertionError("nobody has the token")


@needs_namespaces
@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_others_go_on_without_the_one_that_has_the_token() -> None:
    """At rest, the token is with the first daemon: it dies, and so does the next one that has it."""
    ring = Ring(plans.read(FILE))
    try:
        ring.until_formed()
        left = list(ring.everybody)
        for expected in (0, 1):
            holder = ring.holder()
            assert holder == expected
            ring.world.hosts[holder].crash()
            left.remove(holder)
            ring.until_formed(*left)
        told = ring.world.hosts[2].status()
        assert told is not None
        assert told["ring"] is None
    finally:
        ring.world.close()
