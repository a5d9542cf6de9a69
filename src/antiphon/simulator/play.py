"""One plan, played: the cluster forms, works, is restored, says its last words and comes to rest."""

from antiphon.config import Settings
from antiphon.simulator.memory import remembering
from antiphon.simulator.plan import Plan
from antiphon.simulator.restless import restless_roles
from antiphon.simulator.stage import Stage
from antiphon.simulator.world import World

LOOKS = 20
"""How often buffers are looked at during the working phase."""
STEP_US = 100_000
STEP_MAX_US = 5_000_000
STEP_EDGES_US = 4_870_013
"""Where there are edges: out of step with their beats. Looks that meet the same beat on its way each time
never find rest."""
FORM_MAX_US = 120_000_000
"""A cluster that has not formed by then ends the run: its clients would not test what they are to test."""
STILL_MAX_US = 300_000_000
"""Virtual time without any event after which a run that has not come to rest is judged as it stands."""
QUIET_MAX_US = 7_200_000_000
"""Virtual time after which a run that has not come to rest is judged, whatever happens."""
EDGES_GRACE_US = 4_000_000
"""A connection of an edge repeats what was lost for so long, or is lost, and the edge goes on elsewhere."""
RESTORED_MIN_US = 30_000_000
NOTICE_SUSPICIONS = 3


def bound_us(settings: Settings) -> int:
    """Within this time after the last fault, daemons that can reach one another are in one view, for good.

    A lost path may be kept out for `damp_max_us`, and a round that met the end of that may have to begin
    again; the rest is for a few rounds that fail by losses which are part of the network.
    """
    timing = settings.timing()
    return RESTORED_MIN_US + 2 * timing.damp_max_us + 10 * (timing.suspect_us + timing.recovery_us)


def play(plan: Plan) -> Stage:
    """The run alone, without a verdict."""
    with restless_roles(plan.has_restless_roles), remembering(plan.memory):
        stage = Stage(plan)
        perform(stage)
    return stage


def perform(stage: Stage) -> None:
    """All phases of a plan, on whatever stage it is given: a simulated world, or a real one."""
    plan = stage.plan
    world = stage.world
    if plan.waits:
        form(world)
    stage.begin()
    begins_us, ends_us = stage.begins_us, stage.ends_us
    for turn in range(1, LOOKS + 1):
        world.run(begins_us + (ends_us - begins_us) * turn // LOOKS)
        world.look()
    parts = stage.restore()
    limit_us = bound_us(plan.settings)
    world.note_restored(parts, limit_us)
    # Damage that has just been done is not noticed at once.
    world.run(world.now_us + NOTICE_SUSPICIONS * plan.settings.timing().suspect_us)
    _wait(world, parts, world.now_us + limit_us)
    stage.last_words()
    if plan.peace_us:
        world.run(world.now_us + plan.peace_us)
    _come_to_rest(world, parts, limit_us)


def form(world: World) -> None:
    """Let time pass until all daemons are in one view."""
    whole = [tuple(range(len(world.hosts)))]
    if not _wait(world, whole, FORM_MAX_US):
        raise RuntimeError(f"the cluster did not form within {FORM_MAX_US // 1_000_000} s")


def _wait(world: World, parts: list[tuple[int, ...]], until_us: int) -> bool:
    """Let time pass until every part is together, or it is too late."""
    while not world.has_formed(parts):
        if world.now_us >= until_us:
            return False
        world.run(min(until_us, world.now_us + STEP_US))
    return True


def _come_to_rest(world: World, parts: list[tuple[int, ...]], limit_us: int) -> None:
    """Let time pass until all buffers are empty and stay so while anything could still be under way.

    Probes of those who are not there go on for ever and count as nothing. Where the parts do not come
    together, or do not stay so, there is no rest to wait for.
    """
    grace_us = 500_000 + 8 * max((path.latency_us for path in world.network.paths.values()), default=0)
    if world.edges:
        grace_us += EDGES_GRACE_US
    end_us = world.now_us + QUIET_MAX_US
    still_us = formed_us = world.now_us
    step_us = STEP_US
    step_max_us = STEP_EDGES_US if world.edges else STEP_MAX_US
    while world.now_us < min(end_us, still_us + STILL_MAX_US, formed_us + limit_us):
        events = len(world.records)
        world.run(world.now_us + step_us)
        if len(world.records) > events:
            still_us = world.now_us
        if world.has_formed(parts):
            formed_us = world.now_us
        if _rests(world, parts):
            events = len(world.records)
            world.run(world.now_us + grace_us)
            if len(world.records) == events and _rests(world, parts):
                return
        step_us = min(step_us * 2, step_max_us)


def _rests(world: World, parts: list[tuple[int, ...]]) -> bool:
    if (
        world.is_busy
        or not world.has_formed(parts)
        or not all(edge.is_fed for edge in world.edges_in_reach())
    ):
        return False
    return world.look() and world.is_quiet
