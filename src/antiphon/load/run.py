"""Carry out a plan: start the processes, wait for the members, collect the reports."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from selectors import EVENT_READ, DefaultSelector

import msgspec

from antiphon.errors import AntiphonError, UsageError
from antiphon.load.plan import Failed, Outcome, Plan, Ready, Received, Sent

Worker = subprocess.Popen[str]


def run(plan: Plan) -> Outcome:
    """Run the plan in processes of its own and return what they measured."""
    return run_together([plan])[0]


def run_together(plans: Sequence[Plan]) -> list[Outcome]:
    """Run several plans at the same time; all members have joined before the first send."""
    with ExitStack() as stack:
        members = [[_start(stack, "receive", plan, address) for address in plan.members] for plan in plans]
        _reports([member for crew in members for member in crew])
        crews = [
            [_start(stack, "send", plan, None), *crew] for plan, crew in zip(plans, members, strict=True)
        ]
        reports = iter(_reports([worker for crew in crews for worker in crew]))
        return [_outcome([next(reports) for _ in crew]) for crew in crews]


def _outcome(reports: "list[Ready | Sent | Received]") -> Outcome:
    sent, *received = reports
    assert isinstance(sent, Sent)
    return Outcome(sent, tuple(report for report in received if isinstance(report, Received)))


def _start(stack: ExitStack, role: str, plan: Plan, address: str | None) -> Worker:
    words = [sys.executable, "-m", "antiphon.load.worker", role, msgspec.json.encode(plan).decode()]
    if address is not None:
        words.append(address)
    # Ctrl-C reaches the whole process group. Workers are born deaf to it: this process ends them.
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        stack.callback(_end, worker)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    return worker


def _end(worker: Worker) -> None:
    worker.kill()
    worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()


def _reports(workers: list[Worker]) -> list[Ready | Sent | Received]:
    """The next report of each; the first failure ends the wait: others may wait for that process."""
    reports: dict[Worker, Ready | Sent | Received] = {}
    with DefaultSelector() as silent:
        for worker in workers:
            assert worker.stdout is not None
            silent.register(worker.stdout, EVENT_READ, worker)
        while len(reports) < len(workers):
            for key, _ in silent.select():
                reports[key.data] = _report(key.data)
                silent.unregister(key.fileobj)
    return [reports[worker] for worker in workers]


def _report(worker: Worker) -> Ready | Sent | Received:
    """The next line that the worker says, as a value; what it failed with otherwise."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise AntiphonError(f"a load process ended early with exit code {worker.wait()}")
    report = msgspec.json.decode(line, type=Ready | Sent | Received | Failed)
    if isinstance(report, Failed):
        raise (UsageError if report.is_wrong_use else AntiphonError)(report.reason)
    return report
