"""Senders that share no group with a slow receiver do not wait for it.

A session is judged if none of the groups that it sends to was ever joined by a session that was slow at any
time of the run. What it sends is ready from the moment at which its daemon has read it and has sent what came
before it. While much of its daemon's own is under way it may have to wait; while nothing is, there is no
reason to. So each look at the daemon's buffers that shows nothing under way, as the looks for a while before
it, is compared with the messages that were ready all the while, in which the view worked and its groups were
whole. The records of slow sessions come from the driver, which knows how much output waits, and not from the
node that is judged.
"""

from collections import deque
from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import RELIABLE_SERVICES, Event, Record, Trace, promises

CALM = ("op", "gop")
"""States in which messages flow."""
UNDER_WAY = "own_unstable"
"""The buffer with the bundles of a daemon that are not known to be everywhere."""


def _look(trace: Trace) -> Iterator[Finding]:
    judged = _judged(trace)
    if not judged:
        return
    calm_since_us: dict[str, int | None] = {}
    idle_since_us: dict[str, int] = {}  # since when looks have shown nothing under way
    waiting: dict[str, dict[str, deque[Record]]] = {}  # daemon -> session -> what it has not sent yet
    sent_us: dict[str, int] = {}
    for record in trace.records:
        match record.event:
            case Event.STATE:
                calm_since_us[record.daemon] = record.time_us if record.state in CALM else None
                idle_since_us.pop(record.daemon, None)
            case Event.CRASH:
                waiting.pop(record.daemon, None)
            case Event.SEND if record.process in judged:
                waiting.setdefault(record.daemon, {}).setdefault(record.process, deque()).append(record)
            case Event.SSEND:
                idle_since_us.pop(record.daemon, None)
                _sent(waiting.get(record.daemon, {}), record, sent_us)
            case Event.BUFFERS if record.buffers[UNDER_WAY][0]:
                idle_since_us.pop(record.daemon, None)
            case Event.BUFFERS if calm_since_us.get(record.daemon) is not None:
                since_us = idle_since_us.setdefault(record.daemon, record.time_us)
                yield from _late(waiting.get(record.daemon, {}), record, since_us, sent_us)


def _sent(waiting: dict[str, deque[Record]], bundle: Record, sent_us: dict[str, int]) -> None:
    """A bundle got its place in the order, with the first messages of one session."""
    for process, messages in waiting.items():
        if bundle.message is not None and messages and messages[0].message == bundle.message:
            for _ in range(bundle.count):
                messages.popleft()
            sent_us[process] = bundle.time_us


def _late(
    waiting: dict[str, deque[Record]], look: Record, idle_since_us: int, sent_us: dict[str, int]
) -> Iterator[Finding]:
    """The first message of each session that waits without a reason."""
    for process, messages in waiting.items():
        if not messages:
            continue
        first = messages[0]
        ready_us = max(first.time_us, sent_us.get(process, 0), idle_since_us)
        if look.time_us - ready_us > promises.WAIT_MAX_US:
            yield Finding(
                "it waits although no slow receiver gets it and nothing of its daemon is under way",
                (process,),
                () if first.message is None else (first.message,),
                (first.position, look.position),
            )


def _judged(trace: Trace) -> set[str]:
    """The sessions that share no group with a slow one, and send nothing that is outside of the order."""
    slow = {record.process for record in trace.of(Event.SLOW)}
    if not slow:
        return set()
    under_pressure = {
        group for record in trace.of(Event.JOIN) if record.process in slow for group in record.groups
    }
    free: dict[str, bool] = {}
    for record in trace.of(Event.SEND):
        is_free = record.service in RELIABLE_SERVICES and not any(
            group in under_pressure or group.startswith("#") for group in record.groups
        )
        free[record.process] = free.get(record.process, True) and is_free
    return {process for process, is_free in free.items() if is_free}


PROPERTIES = (Property(promises.PRESSURE, _look),)
