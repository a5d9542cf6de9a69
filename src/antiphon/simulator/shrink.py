"""Making a plan smaller while it still breaks the same promise.

A run is a function of its plan, so whatever can be taken out of the plan without mending the run has nothing
to do with what is wrong. One thing after another is tried, from large ones to small ones, until none can go.
"""

from collections.abc import Callable, Iterator
from time import monotonic

from msgspec import Struct, structs

from antiphon.errors import AntiphonError
from antiphon.simulator.outcome import Outcome
from antiphon.simulator.plan import Plan
from antiphon.simulator.run import run_plan

ROUND_US = 500_000
"""Shorter working phases are tried in steps of about this."""


class Shrunk(Struct, frozen=True):
    """The smallest plan that was found, and how."""

    plan: Plan
    fault: str
    """The property that it still breaks, or the exception in which it still ends."""
    outcome: Outcome
    tried: int


def shrink(
    plan: Plan,
    *,
    run: Callable[[Plan], Outcome] = run_plan,
    seconds: float = 300.0,
    heard: Callable[[Plan], None] = lambda plan: None,
) -> Shrunk | None:
    """A smaller plan that breaks a promise which `plan` breaks; None if it breaks none.

    `heard` is told of every success. After `seconds` the smallest so far has to do.
    """
    until_s = monotonic() + seconds
    outcome = run(plan)
    if outcome.is_clean:
        return None
    fault = outcome.faults[0]
    tried = 1
    was_larger: Plan | None = None
    while plan is not was_larger:
        was_larger = plan
        for less in (_fewer_incidents, _fewer_edges, _fewer_daemons, _fewer_clients, _calmer):
            candidates = less(plan)
            while (smaller := next(candidates, None)) is not None:
                if monotonic() > until_s:
                    return Shrunk(plan, fault, outcome, tried)
                tried += 1
                new = _tried(run, smaller)
                if new is not None and fault in new.faults:
                    plan, outcome = smaller, new
                    heard(plan)
                    candidates = less(plan)
    return Shrunk(plan, fault, outcome, tried)


def _tried(run: Callable[[Plan], Outcome], plan: Plan) -> Outcome | None:
    try:
        plan.config()
    except AntiphonError:
        return None  # what is left is not connected, or nothing
    return run(plan)


def _fewer_incidents(plan: Plan) -> Iterator[Plan]:
    for name in ("incidents", "triggers", "damage", "dead"):
        yield from _with_fewer(plan, name)


def _fewer_edges(plan: Plan) -> Iterator[Plan]:
    for edge in reversed(plan.edges):
        yield plan.without(edge.name)


def _fewer_daemons(plan: Plan) -> Iterator[Plan]:
    if len(plan.daemons()) > 1:
        for daemon in reversed(plan.daemons()):
            yield plan.without(daemon.name)


def _fewer_clients(plan: Plan) -> Iterator[Plan]:
    yield from _with_fewer(plan, "clients")


def _with_fewer(plan: Plan, name: str) -> Iterator[Plan]:
    """Without runs of a list's elements: first halves, in the end single ones."""
    values = getattr(plan, name)
    size = len(values)
    while size:
        for start in range(0, len(values), size):
            yield structs.replace(plan, **{name: values[:start] + values[start + size :]})
        size //= 2


def _calmer(plan: Plan) -> Iterator[Plan]:
    """Plans with plainer daemons, paths and clients, and less time."""
    last_us = max((incident.at_us for incident in plan.incidents), default=0)
    if plan.working_us > last_us + 2 * ROUND_US:
        yield structs.replace(plan, working_us=max(last_us + ROUND_US, plan.working_us // 2))
    if plan.coalesce:
        yield structs.replace(plan, coalesce=0.0)
    for at, route in enumerate(plan.routes):
        if route.there or route.back:
            plain = structs.replace(route, there=(), back=())
            yield structs.replace(plan, routes=(*plan.routes[:at], plain, *plan.routes[at + 1 :]))
    for at, site in enumerate(plan.sites):
        daemons = tuple(
            structs.replace(daemon, gathers_us=0, late_us=0, starts_us=0, drift_ppm=0)
            for daemon in site.daemons
        )
        plainer = structs.replace(site, daemons=daemons, faults=())
        if plainer != site:
            yield structs.replace(plan, sites=(*plan.sites[:at], plainer, *plan.sites[at + 1 :]))
    for at, client in enumerate(plan.clients):
        named = structs.replace(client.habits, inherits=0.0)
        calmer = structs.replace(
            client.habits, large=0.0, churn=0.0, quits=0.0, answers=0.0, hasty=0.0, priority=0
        )
        for habits in (named, calmer):
            if habits != client.habits:
                calm = structs.replace(client, habits=habits)
                yield structs.replace(plan, clients=(*plan.clients[:at], calm, *plan.clients[at + 1 :]))
