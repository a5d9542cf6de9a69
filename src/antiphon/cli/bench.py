"""Measure this machine: separate processes on loopback, real daemons, real clients."""

import time
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec import structs

from antiphon.cli.figures import table
from antiphon.cli.options import Json, among
from antiphon.cli.screen import console, progress
from antiphon.client import ask_status
from antiphon.config import Protocol, SiteProtocol
from antiphon.errors import UsageError
from antiphon.limits import MESSAGE_MAX_BYTES
from antiphon.load.cluster import daemons
from antiphon.load.plan import Plan, Received
from antiphon.load.run import run, run_together
from antiphon.service import Service
from antiphon.spreadwire.layout import NAME_BYTES, NAMES_AND_BODY_MAX_BYTES
from antiphon.types import PRIORITY_WORDS


class Case(NamedTuple):
    """Daemons, and how one sender uses them."""

    sites: int
    daemons: int = 1
    """In each site."""
    protocol: Protocol = "hop"
    """The protocol of the links between sites."""
    site_protocol: SiteProtocol = "ring"
    """The protocol inside of each."""
    is_bundled: bool = True
    """Whether the sender's library bundles."""
    has_all: bool = False
    """Whether there is a receiver at every daemon, or only at the last one."""


CASES = {
    "local": Case(1),
    "hop": Case(2),
    "tcp": Case(2, protocol="tcp"),
    "hop-unbundled": Case(2, is_bundled=False),
    "ring": Case(1, 3, has_all=True),
    "ring-unbundled": Case(1, 3, is_bundled=False, has_all=True),
    "token-site": Case(1, 3, site_protocol="token-site", has_all=True),
}


class LatencyCase(NamedTuple):
    """Daemons, and at which of them the sender and the receivers are."""

    sites: int
    daemons: int = 1
    """In each site."""
    sender: int = 0
    receivers: tuple[int, ...] = (1,)
    site_protocol: SiteProtocol = "ring"


LATENCY_CASES = {
    "one": LatencyCase(1, receivers=(0,)),
    "two": LatencyCase(2),
    "three": LatencyCase(3),
    "ring": LatencyCase(1, 3, sender=1, receivers=(0, 2)),
    "token-site": LatencyCase(1, 3, sender=1, receivers=(0, 2), site_protocol="token-site"),
}
HALF_CASE = "two"
"""Measured at half of the maximum, too."""
SPREAD_CASES = {"local": 1, "hop": 2}
"""How many daemons there are, each in a site of its own."""
SPREAD_MAX_BYTES = NAMES_AND_BODY_MAX_BYTES - NAME_BYTES
SIZES_BYTES = (100, 1_024, 10_240)
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)
LIGHT_RATE_PER_S = 1_000.0
PACED_RATE_PER_S = 40.0
NARROW_BYTES_PER_S = 10_000_000
FLOODS_AFTER_S = 0.3

Seconds = Annotated[float, typer.Option("--seconds", min=0.1, help="How long each measurement sends.")]


def throughput(
    json: Json = False,
    seconds: Seconds = 3.0,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            help=f"Only this case: {', '.join(CASES)}; may repeat.",
            autocompletion=among(CASES),
        ),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(
            "--size", min=1, max=MESSAGE_MAX_BYTES, help="Only messages of this many bytes; may repeat."
        ),
    ] = None,
) -> None:
    """Agreed messages from one client to another as fast as they go, per case and size.

    \b
    local           both clients at one daemon
    hop             each at its own daemon, the two joined by a Hop link
    tcp             the same, joined by a TCP link
    hop-unbundled   the two joined by a Hop link, the client bundles nothing; its
                    daemon may
    ring            three daemons of one site, a receiver at each; the slowest
                    counts
    ring-unbundled  the same, the client bundles nothing
    token-site      as ring, with the token-site protocol inside of the site

    "of hop" is the rate as a part of what a Hop link has reached in the same run.

    \b
    Example:
      antiphon bench throughput --case hop --size 100 --seconds 1 --json
    """
    cases = case or list(CASES)
    unknown = [name for name in cases if name not in CASES]
    if unknown:
        raise UsageError(f"unknown case {unknown[0]!r}; known: {', '.join(CASES)}")
    sizes = size or list(SIZES_BYTES)
    rows: list[dict[str, Any]] = []
    hop_per_s: dict[int, float] = {}
    with progress("measuring", len(cases) * len(sizes)) as advance:
        for name in cases:
            for size_bytes in sizes:
                received = _flat_out(name, size_bytes, seconds)
                if name == "hop":
                    hop_per_s[size_bytes] = received.messages_per_s
                row = {
                    "case": name,
                    "size_bytes": size_bytes,
                    "messages_per_s": round(received.messages_per_s, 1),
                    "megabytes_per_s": round(received.megabytes_per_s, 3),
                    "messages": received.messages,
                    "seconds": round(received.seconds, 3),
                    "of_hop": _ratio(received.messages_per_s, hop_per_s.get(size_bytes, 0.0)),
                }
                _tell(row, rows, json)
                advance(1)
    _table("Agreed messages, one sender, one receiver", rows, json, ("messages", "seconds"))


def latency(
    json: Json = False,
    seconds: Seconds = 2.0,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            help=f"Only this case: {', '.join(LATENCY_CASES)}; may repeat.",
            autocompletion=among(LATENCY_CASES),
        ),
    ] = None,
    size: Annotated[
        int, typer.Option("--size", min=1, max=MESSAGE_MAX_BYTES, help="Bytes of each message.")
    ] = 100,
) -> None:
    """One-way latency per service at 1,000 messages/s, and through two daemons at half of the maximum, too.

    \b
    one         both clients at one daemon
    two         each at its own daemon, the two joined by a Hop link
    three       the same, and a third daemon that has nothing to do but is asked
                about every agreed message
    ring        three daemons of one site; the sender is at the second, receivers
                at the others, of which the slower counts
    token-site  the same, with the token-site protocol inside of the site

    The maximum is measured first: agreed messages of the same size over the same link. `idle_per_s`
    is what all daemons of a case send together while there are no messages.

    \b
    Example:
      antiphon bench latency --case three --case ring --seconds 1 --json
    """
    cases = case or list(LATENCY_CASES)
    unknown = [name for name in cases if name not in LATENCY_CASES]
    if unknown:
        raise UsageError(f"unknown case {unknown[0]!r}; known: {', '.join(LATENCY_CASES)}")
    rows: list[dict[str, Any]] = []
    has_half = HALF_CASE in cases
    with progress("measuring", has_half + (len(cases) + has_half) * len(SERVICES)) as advance:
        maximum_per_s = 0.0
        if has_half:
            maximum_per_s = _flat_out("hop", size, seconds).messages_per_s
            advance(1)
        for name in cases:
            chosen = LATENCY_CASES[name]
            with daemons(
                chosen.sites, per_site=chosen.daemons, site_protocol=chosen.site_protocol
            ) as addresses:
                idle_per_s = _idle_packets_per_s(addresses, seconds)
                loads = [("light", LIGHT_RATE_PER_S)]
                if name == HALF_CASE:
                    loads.append(("half", maximum_per_s / 2))
                for load, rate_per_s in loads:
                    for service in SERVICES:
                        plan = Plan(
                            addresses[chosen.sender],
                            tuple(addresses[receiver] for receiver in chosen.receivers),
                            service=service,
                            size_bytes=size,
                            rate_per_s=rate_per_s,
                            seconds=seconds,
                        )
                        received = max(run(plan).received, key=lambda received: received.p50_us)
                        row = {
                            "case": name,
                            "service": service.name.lower(),
                            "load": load,
                            "rate_per_s": round(rate_per_s),
                            "p50_us": received.p50_us,
                            "p99_us": received.p99_us,
                            "idle_per_s": round(idle_per_s, 1),
                            "size_bytes": size,
                            "messages": received.messages,
                            "seconds": round(received.seconds, 3),
                        }
                        _tell(row, rows, json)
                        advance(1)
    title = f"One-way latency of messages of {size:,} B"
    _table(title, rows, json, ("messages", "seconds", "size_bytes"))


def _idle_packets_per_s(addresses: list[str], seconds: float) -> float:
    """What all daemons together send while nothing happens."""
    before = _packets_sent(addresses)
    time.sleep(seconds)
    return (_packets_sent(addresses) - before) / seconds


def _packets_sent(addresses: list[str]) -> int:
    return sum(ask_status(address)["runtime"]["udp"]["trains_sent"] for address in addresses)


def priority(
    json: Json = False,
    seconds: Seconds = 3.0,
    size: Annotated[
        int, typer.Option("--size", min=1, max=MESSAGE_MAX_BYTES, help="Bytes of each paced message.")
    ] = 100,
    flooders: Annotated[
        int, typer.Option("--flooders", min=1, max=16, help="Sessions of low priority that flood.")
    ] = 3,
) -> None:
    """Latency beside floods of low priority: of a session of low priority, and with one of high priority.

    All are at one daemon and send agreed messages at the same time, to groups of their own with members at
    another daemon. The link between the two carries 10 MB/s, so that the queues are in the daemon. `ratio` is
    the latency of low priority while no session has a higher one, divided by that of high priority.

    \b
    Example:
      antiphon bench priority --seconds 1 --json
    """
    floods = [f"flood{number}" for number in range(flooders)]
    rows: list[dict[str, Any]] = []
    with (
        progress("measuring", 2) as advance,
        daemons(2, rate_bytes_per_s=NARROW_BYTES_PER_S) as (sender, receiver),
    ):

        def paced(word: str) -> Plan:
            return Plan(
                sender,
                (receiver,),
                group=word,
                priority=PRIORITY_WORDS[word],
                size_bytes=size,
                rate_per_s=PACED_RATE_PER_S,
                seconds=FLOODS_AFTER_S + seconds,
            )

        flat_out = [
            Plan(sender, (receiver,), group=group, size_bytes=1_024, after_s=FLOODS_AFTER_S, seconds=seconds)
            for group in floods
        ]
        *_, before = run_together([*flat_out, paced("low")])
        advance(1)
        *_, low, high = run_together([*flat_out, paced("low"), paced("high")])
        advance(1)
    for word, beside, outcome in (
        ("low", "floods", before),
        ("low", "floods and high", low),
        ("high", "floods and low", high),
    ):
        received = outcome.received[0]
        row = {"priority": word, "beside": beside, "p50_us": received.p50_us, "p99_us": received.p99_us}
        _tell(row, rows, json)
    slow, fast = before.received[0], high.received[0]
    row = {
        "priority": "ratio",
        "beside": "",
        "p50_us": round(slow.p50_us / max(1, fast.p50_us), 1),
        "p99_us": round(slow.p99_us / max(1, fast.p99_us), 1),
    }
    _tell(row, rows, json)
    times = {key: f"{row[key]:,} times" for key in ("p50_us", "p99_us")}
    _table(f"Latency beside {flooders} floods of low priority", [*rows[:-1], row | times], json)


def spread(
    json: Json = False,
    seconds: Seconds = 3.0,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            help=f"Only this case: {', '.join(SPREAD_CASES)}; may repeat.",
            autocompletion=among(SPREAD_CASES),
        ),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option("--size", min=8, max=SPREAD_MAX_BYTES, help="Only messages of this size; may repeat."),
    ] = None,
) -> None:
    """Programs that speak Spread's protocol, at our daemons: messages a second, and latency.

    One program sends agreed messages, each with a write of its own, as Spread's libraries do; another one
    gets them, at the same daemon (`local`) and at another (`hop`). "of ours" is the rate as a part of what
    our own library reaches when every message is a bundle of its own. Latency is one-way, at 1,000 messages a
    second of 100 bytes.

    \b
    Example:
      antiphon bench spread --case local --seconds 1 --json
    """
    cases = case or list(SPREAD_CASES)
    unknown = [name for name in cases if name not in SPREAD_CASES]
    if unknown:
        raise UsageError(f"unknown case {unknown[0]!r}; known: {', '.join(SPREAD_CASES)}")
    sizes = size or list(SIZES_BYTES)
    rows: list[dict[str, Any]] = []
    with progress("measuring", len(cases) * (2 * len(sizes) + len(SERVICES))) as advance:
        for name in cases:
            for size_bytes in sizes:
                plan = Plan(None, (), size_bytes=size_bytes, seconds=seconds, bundle=False)
                rates = []
                for spoken in (True, False):
                    with daemons(SPREAD_CASES[name], spread=spoken) as addresses:
                        rates.append(_between(addresses, structs.replace(plan, spread=spoken)))
                    advance(1)
                _tell(_spread_row(name, size_bytes, rates[0], rates[1], None), rows, json)
            with daemons(SPREAD_CASES[name], spread=True) as addresses:
                for service in SERVICES:
                    plan = Plan(
                        None, (), service=service, rate_per_s=LIGHT_RATE_PER_S, seconds=seconds, spread=True
                    )
                    row = _spread_row(name, plan.size_bytes, _between(addresses, plan), None, service)
                    _tell(row, rows, json)
                    advance(1)
    flat_out = [row for row in rows if row["p50_us"] is None]
    paced = [row for row in rows if row["p50_us"] is not None]
    _table(
        "Clients that speak Spread's protocol, agreed messages",
        flat_out,
        json,
        ("service", "p50_us", "p99_us"),
    )
    others = ("size_bytes", "messages_per_s", "megabytes_per_s", "of_ours")
    _table("One-way latency of theirs at 1,000 messages/s of 100 B", paced, json, others)


def _between(addresses: list[str], plan: Plan) -> Received:
    """What a receiver at the last address measured of a sender at the first."""
    return run(structs.replace(plan, address=addresses[0], members=(addresses[-1],))).received[0]


def _spread_row(
    case: str, size_bytes: int, received: Received, ours: Received | None, service: Service | None
) -> dict[str, Any]:
    """With a service at a given rate, so that latency says something; or flat out, beside our own library."""
    return {
        "case": case,
        "service": (service or Service.AGREED).name.lower(),
        "size_bytes": size_bytes,
        "messages_per_s": round(received.messages_per_s, 1),
        "megabytes_per_s": round(received.megabytes_per_s, 3),
        "of_ours": None if ours is None else _ratio(received.messages_per_s, ours.messages_per_s),
        "p50_us": None if service is None else received.p50_us,
        "p99_us": None if service is None else received.p99_us,
    }


def _flat_out(case: str, size_bytes: int, seconds: float) -> Received:
    """What the receiver of one case measured, with fresh daemons."""
    chosen = CASES[case]
    with daemons(
        chosen.sites,
        per_site=chosen.daemons,
        protocol=chosen.protocol,
        site_protocol=chosen.site_protocol,
    ) as addresses:
        members = tuple(addresses) if chosen.has_all else (addresses[-1],)
        plan = Plan(addresses[0], members, size_bytes=size_bytes, seconds=seconds, bundle=chosen.is_bundled)
        return min(run(plan).received, key=lambda received: received.messages_per_s)


def _ratio(rate: float, other: float) -> float | None:
    return round(rate / other, 2) if other else None


def _tell(row: dict[str, Any], rows: list[dict[str, Any]], json: bool) -> None:
    """Keep the row; programs get it at once, people get a table at the end."""
    rows.append(row)
    if json:
        print(msgspec.json.encode(row).decode(), flush=True)


def _table(title: str, rows: list[dict[str, Any]], json: bool, omitted: tuple[str, ...] = ()) -> None:
    if not json:
        out = console()
        out.print(table(title, rows, out, omitted=omitted))
