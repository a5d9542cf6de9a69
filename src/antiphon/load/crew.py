"""Worker processes of a run: start them, collect what they report, end them whatever happens."""

import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from selectors import EVENT_READ, DefaultSelector

import msgspec

from antiphon.errors import AntiphonError, UsageError
from antiphon.load.plan import Failed, Ready, Received, Sent

Worker = subprocess.Popen[str]


def start(stack: ExitStack, words: Sequence[str]) -> Worker:
    """Start a process that reports in lines of JSON; it is gone when the stack is left."""
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


def reports(workers: list[Worker], patience_s: float | None = None) -> list[Ready | Sent | Received]:
    """The next report of each; the first failure ends the wait: others may wait for that process.

    With `patience_s`, no report for so long is a failure, too.
    """
    found: dict[Worker, Ready | Sent | Received] = {}
    with DefaultSelector() as silent:
        for worker in workers:
            assert worker.stdout is not None
            silent.register(worker.stdout, EVENT_READ, worker)
        while len(found) < len(workers):
            spoke = silent.select(patience_s)
            if not spoke:
                raise AntiphonError(f"a load process did not report within {patience_s:.0f} s")
            for key, _ in spoke:
                found[key.data] = _report(key.data)
                silent.unregister(key.fileobj)
    return [found[worker] for worker in workers]


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


def outcome(found: "list[Ready | Sent | Received]") -> tuple[Sent, tuple[Received, ...]]:
    """The reports of a sender and of its members, in this order."""
    sent, *received = found
    assert isinstance(sent, Sent)
    return sent, tuple(report for report in received if isinstance(report, Received))
