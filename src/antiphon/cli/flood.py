"""The verb `flood`: load on a running cluster, and what it does with it."""

from typing import Annotated, Any

import msgspec
import typer

from antiphon import limits
from antiphon.cli.figures import figure, title
from antiphon.cli.options import Address, Cluster, Json, PriorityWord, ServiceWord, TraceFolder, address_of
from antiphon.cli.screen import working
from antiphon.load.plan import Outcome, Plan
from antiphon.load.run import run
from antiphon.service import Service
from antiphon.types import check_group, check_priority


def flood(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to flood.")] = "flood",
    rate: Annotated[
        float, typer.Option("--rate", min=0, metavar="N", help="Messages a second; 0: as fast as possible.")
    ] = 0,
    size: Annotated[
        int, typer.Option("--size", min=0, max=limits.MESSAGE_MAX_BYTES, help="Bytes of each message.")
    ] = 100,
    service: ServiceWord = "agreed",
    priority: PriorityWord = "low",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long to send.")] = 5.0,
    count: Annotated[
        int, typer.Option("--count", min=0, help="At most this many messages; 0: no limit.")
    ] = 0,
    members: Annotated[
        int, typer.Option("--members", min=1, max=64, help="How many receivers, each in its own process.")
    ] = 1,
    address: Address = None,
    cluster: Cluster = None,
    member_address: Annotated[
        list[str] | None,
        typer.Option(
            "--member-address", metavar="ADDRESS", help="Daemons of the receivers, in turn; may be repeated."
        ),
    ] = None,
    trace: TraceFolder = None,
    json: Json = False,
) -> None:
    """Send messages from one process to members in processes of their own; report rates and latency.

    \b
    Example:
      antiphon flood --rate 1000 --seconds 3 --service safe --json
    """
    address = address_of(address, cluster)
    places: list[str | None] = [*member_address] if member_address else [address]
    plan = Plan(
        address=address,
        members=tuple(places[number % len(places)] for number in range(members)),
        group=check_group(group),
        service=Service.parse(service),
        priority=check_priority(priority),
        size_bytes=size,
        rate_per_s=rate,
        seconds=seconds,
        count=count,
        trace=None if trace is None else str(trace),
    )
    with working(f"flooding {group}", seconds):
        outcome = run(plan)
    report = _report(plan, outcome)
    if json:
        print(msgspec.json.encode(report).decode())
        return
    for key, value in report.items():
        print(f"{title(key):16} {figure(key, value)}")


def _report(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """Rates are those of the slowest member, latencies those of the worst."""
    slowest = min(outcome.received, key=lambda report: report.messages_per_s)
    return {
        "service": plan.service.name.lower(),
        "priority": plan.priority,
        "size_bytes": plan.size_bytes,
        "members": len(plan.members),
        "sent": outcome.sent.messages,
        "received": min(report.messages for report in outcome.received),
        "seconds": round(slowest.seconds, 3),
        "messages_per_s": round(slowest.messages_per_s, 1),
        "megabytes_per_s": round(slowest.megabytes_per_s, 3),
        "p50_us": max(report.p50_us for report in outcome.received),
        "p99_us": max(report.p99_us for report in outcome.received),
    }
