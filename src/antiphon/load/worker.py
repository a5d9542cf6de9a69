"""One process of a run of load: `python -m antiphon.load.worker send|receive PLAN ADDRESS`.

Latency is taken from the time that the sending library writes into each bundle to the time at which the
member gets it decoded. Every message of a bundle counts from the bundle's beginning, so the figures err on
the high side; both processes must run on machines with one clock.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import msgspec

import antiphon
from antiphon.errors import AntiphonError, UsageError
from antiphon.load import spread
from antiphon.load.plan import END_TAG, Failed, Plan, Ready, Received, Sent
from antiphon.load.tally import Tally
from antiphon.service import Service
from antiphon.types import Envelope, Message

_BURST_MESSAGES = 64
_TICK_S = 0.000_5
"""A paced sender sends what has become due this often, as a program driven by a timer would."""
_JOIN_TIMEOUT_S = 30.0
_SILENCE_TIMEOUT_S = 60.0
_HINT = "is the cluster whole? `antiphon status` tells"


async def send(plan: Plan) -> Sent:
    """Send what the plan says, and the end mark."""
    async with antiphon.connect(
        plan.address, priority=plan.priority, views=False, bundle=plan.bundle, trace=plan.trace
    ) as session:
        await asyncio.sleep(plan.after_s)
        begin = time.monotonic()
        messages = await (_send_paced if plan.rate_per_s else _send_flat_out)(session, plan)
        seconds = time.monotonic() - begin
        await session.send(plan.group, b"", service=max(plan.service, Service.AGREED), tag=END_TAG)
    return Sent(messages, seconds)


async def _send_flat_out(session: "antiphon.Session", plan: Plan) -> int:
    payload = bytes(plan.size_bytes)
    group, service = plan.group, plan.service
    limit = plan.count or sys.maxsize
    deadline = time.monotonic() + plan.seconds
    sent = 0
    while sent < limit and time.monotonic() < deadline:
        burst = min(_BURST_MESSAGES, limit - sent)
        for _ in range(burst):
            await session.send(group, payload, service=service)
        sent += burst
    return sent


async def _send_paced(session: "antiphon.Session", plan: Plan) -> int:
    payload = bytes(plan.size_bytes)
    limit = plan.count or sys.maxsize
    begin = time.monotonic()
    sent = 0
    while sent < limit and (elapsed := time.monotonic() - begin) < plan.seconds:
        due = min(int(elapsed * plan.rate_per_s) + 1, limit)
        while sent < due:
            await session.send(plan.group, payload, service=plan.service)
            sent += 1
        await asyncio.sleep(0)
        next_s = max(begin + sent / plan.rate_per_s, begin + elapsed + _TICK_S)
        await _sleep_until(next_s)
    return sent


async def _sleep_until(moment_s: float) -> None:
    """Sleep as `asyncio.sleep` does, but precisely: the event loop rounds to milliseconds, and nothing else
    runs in it."""
    wait_s = moment_s - time.monotonic()
    if wait_s > 0.01:
        await asyncio.sleep(wait_s - 0.005)
        wait_s = moment_s - time.monotonic()
    if wait_s > 0:
        time.sleep(wait_s)


async def receive(plan: Plan, address: str | None) -> Received:
    """Join, say that it is ready, and count until the end mark."""
    async with antiphon.connect(address, priority=plan.priority, trace=plan.trace) as session:
        try:
            async with asyncio.timeout(_JOIN_TIMEOUT_S):
                await session.join(plan.group)
        except TimeoutError:
            raise AntiphonError(f"no join within {_JOIN_TIMEOUT_S:.0f} s; {_HINT}") from None
        _report(Ready())
        return await _count(session)


async def _count(session: "antiphon.Session") -> Received:
    tally = Tally()
    while True:
        async with asyncio.timeout(_SILENCE_TIMEOUT_S):
            events = await session.receive_many()
            now_us = time.time_ns() // 1000
        for envelope, lengths in _bundles(events):
            if envelope.tag == END_TAG:
                return tally.report()
            tally.count(lengths, now_us - envelope.sent_us, now_us)


def _bundles(events: "list[antiphon.Event]") -> Iterator[tuple[Envelope, list[int]]]:
    """What the messages of each bundle share, and their sizes; no bytecode runs for a single message, so that
    what is measured is not the counting."""
    for kind, some in groupby(events, key=type):
        if kind is Message:
            for envelope, bundle in groupby(some, key=attrgetter("envelope")):
                yield envelope, list(map(len, map(attrgetter("payload"), bundle)))


def _report(value: Ready | Sent | Received | Failed) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Carry out one part of a plan; the report is the last line of stdout."""
    role, plan_text, *addresses = sys.argv[1:]
    plan = msgspec.json.decode(plan_text, type=Plan)
    try:
        if role == "send":
            _report(spread.send(plan) if plan.spread else asyncio.run(send(plan)))
        elif plan.spread:
            _report(spread.receive(plan, addresses[0], lambda: _report(Ready())))
        else:
            _report(asyncio.run(receive(plan, addresses[0] if addresses else None)))
    except TimeoutError:
        _report(Failed(f"nothing came for {_SILENCE_TIMEOUT_S:.0f} s; {_HINT}"))
    except UsageError as error:
        _report(Failed(str(error), is_wrong_use=True))
    except AntiphonError as error:
        _report(Failed(str(error)))


if __name__ == "__main__":
    main()
