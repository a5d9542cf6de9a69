"""The verb `lab`: experiments of the papers, on this machine."""

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.table import Table

from antiphon.cli.options import Json, make_folder
from antiphon.cli.screen import console, progress
from antiphon.errors import AntiphonError, UsageError
from antiphon.lab import EXPERIMENTS
from antiphon.lab.experiment import Experiment, Row, parts_of
from antiphon.plots import elements
from antiphon.plots.words import size


def lab(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The experiment; without one, they are listed.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the page with plots, NAME.html.")
    ] = Path("."),
    json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small counts and short measurements.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", help="How long, for an experiment that has a length: soak."),
    ] = None,
) -> None:
    """Carry out an experiment: a table here, plots on a page.

    Everything it needs (daemons, clients) runs in processes of its own and is gone at the end. Exit code 1
    means that an experiment with rules (soak) saw one broken.

    \b
    Examples:
      antiphon lab
      antiphon lab scale --out results
      antiphon lab scale --quick --json
      antiphon lab churn
      antiphon lab soak --seconds 300
    """
    if name is None:
        for experiment in EXPERIMENTS.values():
            print(f"{experiment.name:12} {experiment.about}")
        return
    chosen = EXPERIMENTS.get(name)
    if chosen is None:
        raise UsageError(f"no experiment is called {name!r}; known: {', '.join(EXPERIMENTS)}")
    if seconds is not None:
        if chosen.lasting is None:
            raise UsageError(f"the experiment {name} has no length to choose: leave out --seconds")
        chosen = chosen.lasting(seconds)
    make_folder(out)
    rows: list[Row] = []
    with progress(name, chosen.steps(quick)) as advance, ExitStack() as stack:
        measured = chosen.measure(quick)
        if isinstance(measured, Generator):
            stack.callback(measured.close)  # also if this is interrupted between two rows
        for row in measured:
            rows.append(row)
            if json:
                print(msgspec.json.encode(row).decode(), flush=True)
            advance(1)
    page = out / f"{name}.html"
    page.write_text(_page(chosen, rows, quick, seconds), encoding="utf-8")
    if not json:
        for part, some in parts_of(rows).items():
            if part not in chosen.unlisted:
                console().print(_table(part, some))
        print(f"plots: {page}")
    faults = chosen.faults(rows)
    if faults:
        raise AntiphonError(f"{name} found a fault: {'; '.join(faults)}")


def _page(experiment: Experiment, rows: list[Row], quick: bool, seconds: float | None) -> str:
    length = "" if seconds is None else f" --seconds {seconds:g}"
    command = f"antiphon lab {experiment.name}{length}{' --quick' if quick else ''}"
    return elements.page(
        experiment.title, experiment.intro, experiment.sections(rows), f"Made by `{command}`."
    )


def _table(part: str, rows: list[Row]) -> Table:
    table = Table(title=part, box=box.SIMPLE, show_edge=False, title_justify="left")
    keys = [key for key in rows[0] if key != "part"]
    for key in keys:
        table.add_column(key.removesuffix("_bytes").replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(_cell(key, row[key]) for key in keys))
    return table


def _cell(key: str, value: Any) -> str:
    if key.endswith("_bytes"):
        return size(value)
    return value if isinstance(value, str) else f"{value:,}"
