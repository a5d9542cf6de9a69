"""`antiphon bench peers`: other systems do the same work in turns with ours."""

from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import structs, to_builtins
from rich import box
from rich.table import Table

from antiphon.cli.bench import Seconds
from antiphon.cli.options import Json
from antiphon.cli.screen import console, progress, show, show_json
from antiphon.errors import UsageError
from antiphon.load.peers.figures import Spread, Summary, summaries
from antiphon.load.peers.known import OURS, PEERS
from antiphon.load.peers.turns import Fault, Season, Turn, play
from antiphon.load.peers.work import SIZE_MAX_BYTES, SIZE_MIN_BYTES
from antiphon.words import counted, rounded, span

SIZES_BYTES = (100, 1_024)


def peers(
    json: Json = False,
    seconds: Seconds = 1.0,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=1_000, help="How often all take turns.")] = 3,
    size: Annotated[
        list[int] | None,
        typer.Option(
            "--size", min=SIZE_MIN_BYTES, max=SIZE_MAX_BYTES, help="Bytes of each message; may repeat."
        ),
    ] = None,
    receivers: Annotated[
        int, typer.Option("--receivers", min=1, max=64, help="How many programs get every message.")
    ] = 1,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", help=f"Only this one beside ours: {', '.join(PEERS)}; may repeat."),
    ] = None,
) -> None:
    """The same work by us and by other systems that are installed, in turns: messages a second, and latency.

    One program sends to one group, subject, channel or topic, through one server; each receiver counts what
    it gets and checks the order. First as fast as it goes, then, for the latency, at 1,000 messages a second.
    Each system is used through its own Python client. What is not installed is named and left out;
    docs/how-to/measure.md says how to install it, and what each system does not promise.

    "of ours" is the figure as a part of ours, taken in each round; beside every median stands its spread.

    \b
    Example:
      antiphon bench peers --peer nats --peer redis --size 100 --rounds 5 --json
    """
    names = list(dict.fromkeys((OURS, *(peer or PEERS))))
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise UsageError(f"unknown peer {unknown[0]!r}; known: {', '.join(PEERS)}")
    season = Season(rounds, seconds, tuple(dict.fromkeys(size or SIZES_BYTES)), receivers)
    lacking = {name: text for name in names if (text := PEERS[name].missing())}
    playing = [PEERS[name] for name in names if name not in lacking]
    if json:
        for name in names:
            installed = {} if name in lacking else PEERS[name].versions()
            show_json({"part": "peers", "peer": name, "missing": lacking.get(name), "versions": installed})
    turns: list[Turn] = []
    faults: list[Fault] = []

    def tell(result: Turn | Fault) -> None:
        if isinstance(result, Turn):
            turns.append(result)
        else:
            faults.append(result)
        if json:
            part = "turns" if isinstance(result, Turn) else "faults"
            show_json({"part": part, **structs.asdict(result)})

    with progress("measuring", rounds * len(playing) * season.measurements) as advance:
        play(season, playing, tell, advance)
    found = summaries(turns)
    if json:
        for summary in found:
            show_json({"part": "summary", **to_builtins(summary)})
        return
    _show_tables(found, season)
    for name, text in lacking.items():
        show(f"{name} is not installed: {text}")
    for fault in faults:
        show(f"{fault.peer} failed in round {fault.round}: {fault.reason}")


def _show_tables(found: list[Summary], season: Season) -> None:
    where = "at the slowest receiver, " if season.receivers > 1 else ""
    medians = f"{where}median of {counted(season.rounds, 'round')} (spread)"
    rates = _table(f"Messages a second, {medians}", "messages/s")
    latencies = _table(f"One-way latency at 1,000 messages a second, {medians}", "p50")
    latencies.add_column("p99", justify="right", no_wrap=True)
    for table in (rates, latencies):
        table.add_column("of ours", justify="right", no_wrap=True)
    rates.add_column("lost", justify="right")
    rates.add_column("out of order", justify="right")
    for summary in found:
        first = (summary.peer, f"{summary.size_bytes:,} B")
        lost, out_of_order = f"{summary.lost:,}", f"{summary.out_of_order:,}"
        rates.add_row(
            *first, _cell(summary.messages_per_s, rounded), _cell(summary.of_ours, _ratio), lost, out_of_order
        )
        latencies.add_row(
            *first, _cell(summary.p50_us, span), _middle(summary.p99_us), _cell(summary.p50_of_ours, _ratio)
        )
    console().print(rates)
    console().print(latencies)


def _table(title: str, figure: str) -> Table:
    table = Table(title=title, box=box.SIMPLE, show_edge=False, title_justify="left")
    table.add_column("peer", no_wrap=True)
    for name in ("size", figure):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _middle(figures: Spread | None) -> str:
    """A median alone: the ends of a p99 tell more of the machine than of the peer."""
    return "none" if figures is None else span(figures.median)


def _ratio(part: float) -> str:
    return f"{part:.2f}"


def _cell(figures: Spread | None, words: Callable[[float], str]) -> str:
    """A median and its spread."""
    if figures is None:
        return "none"
    middle, first, last = map(words, structs.astuple(figures))
    return f"{middle} ({first}-{last})"
