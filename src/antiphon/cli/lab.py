"""The verb `lab`: experiments of the papers, on this machine."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.table import Table

from antiphon.cli.options import Json, make_folder
from antiphon.cli.screen import console, progress
from antiphon.errors import UsageError
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
) -> None:
    """Carry out an experiment: a table here, plots on a page.

    Everything it needs (daemons, clients) runs in processes of its own and is gone at the end.

    \b
    Examples:
      antiphon lab
      antiphon lab scale --out results
      antiphon lab scale --quick --json
    """
    if name is None:
        for experiment in EXPERIMENTS.values():
            print(f"{experiment.name:12} {experiment.about}")
        return
    chosen = EXPERIMENTS.get(name)
    if chosen is None:
        raise UsageError(f"no experiment is called {name!r}; known: {', '.join(EXPERIMENTS)}")
    make_folder(out)
    rows: list[Row] = []
    with progress(name, chosen.steps(quick)) as advance:
        for row in chosen.measure(quick):
            rows.append(row)
            if json:
                print(msgspec.json.encode(row).decode(), flush=True)
            advance(1)
    page = out / f"{name}.html"
    page.write_text(_page(chosen, rows, quick), encoding="utf-8")
    if not json:
        for part, some in parts_of(rows).items():
            console().print(_table(part, some))
        print(f"plots: {page}")


def _page(experiment: Experiment, rows: list[Row], quick: bool) -> str:
    command = f"antiphon lab {experiment.name}{' --quick' if quick else ''}"
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
