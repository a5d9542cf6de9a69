"""Carry out a plan: start the processes, wait for the members, collect the reports."""

import subprocess
import sys
from contextlib import ExitStack
from typing import TypeVar

import msgspec

from antiphon.cli._load.plan import Failed, Outcome, Plan, Ready, Received, Sent
from antiphon.errors import AntiphonError

T = TypeVar("T", bound=Ready | Sent | Received)

Worker = subprocess.Popen[str]


def run(plan: Plan) -> Outcome:
    """Run the plan in processes of its own and return what they measured."""
    with ExitStack() as stack:
        members = [_start(stack, "receive", plan, address) for address in plan.members]
        for member in members:
            _report(member, Ready)
        sender = _start(stack, "send", plan, None)
        sent = _report(sender, Sent)
        received = tuple(_report(member, Received) for member in members)
    return Outcome(sent, received)


def _start(stack: ExitStack, role: str, plan: Plan, address: str | None) -> Worker:
    words = [sys.executable, "-m", "antiphon.cli._load.worker", role, msgspec.json.encode(plan).decode()]
    if address is not None:
        words.append(address)
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    stack.callback(_end, worker)
    return worker


def _end(worker: Worker) -> None:
    worker.kill()
    worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()


def _report(worker: Worker, wanted: type[T]) -> T:
    """The next line that the worker says, as a value; what it failed with otherwise."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise AntiphonError(f"a load process ended early with exit code {worker.wait()}")
    try:
        return msgspec.json.decode(line, type=wanted)
    except msgspec.ValidationError:
        raise AntiphonError(msgspec.json.decode(line, type=Failed).reason) from None
