"""Carry out a plan: start the processes, wait for the members, collect the reports."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec

from antiphon.load import crew
from antiphon.load.plan import Outcome, Plan


def run(plan: Plan) -> Outcome:
    """Run the plan in processes of its own and return what they measured."""
    return run_together([plan])[0]


def run_together(plans: Sequence[Plan]) -> list[Outcome]:
    """Run several plans at the same time; all members have joined before the first send."""
    with ExitStack() as stack:
        members = [[_start(stack, "receive", plan, address) for address in plan.members] for plan in plans]
        crew.reports([member for joined in members for member in joined])
        crews = [
            [_start(stack, "send", plan, None), *joined] for plan, joined in zip(plans, members, strict=True)
        ]
        found = iter(crew.reports([worker for workers in crews for worker in workers]))
        return [Outcome(*crew.outcome([next(found) for _ in workers])) for workers in crews]


def _start(stack: ExitStack, role: str, plan: Plan, address: str | None) -> crew.Worker:
    words = [sys.executable, "-m", "antiphon.load.worker", role, msgspec.json.encode(plan).decode()]
    if address is not None:
        words.append(address)
    return crew.start(stack, words)
