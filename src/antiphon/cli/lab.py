"""The verb `lab`: experiments of the papers, on this machine."""

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.cli.figures import table
from antiphon.cli.options import Json, among, make_folder
from antiphon.cli.screen import console, progress
from antiphon.errors import AntiphonError, UsageError
from antiphon.lab import EXPERIMENTS
from antiphon.lab.experiment import Choices, Experiment, Row, parts_of
from antiphon.lab.fuzz.plan import DOORS
from antiphon.plots.page import Page, Paragraph, need_libraries, render


def lab(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The experiment; without it, all are listed.",
            autocompletion=among(EXPERIMENTS),
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the page with plots, NAME.html.")
    ] = Path("."),
    json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small counts and short measurements.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", help="How long: soak; fuzz, at most, for each door."),
    ] = None,
    door: Annotated[
        str | None,
        typer.Option("--door", metavar="DOOR", help=f"fuzz: one of {', '.join(DOORS)}; else all."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="S", help="fuzz: what the mutations follow from.")
    ] = None,
    mutants: Annotated[
        int | None, typer.Option("--mutants", metavar="N", help="fuzz: how many, at most, for each door.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="DIR", help="fuzz: folder for logs and for mutants that broke a rule."
        ),
    ] = None,
) -> None:
    """Run an experiment: print a table, and write a page with plots.

    It starts its own daemons and clients, and removes all processes and files at the end. Exit code 1 means
    that a rule of the experiment (soak, fuzz) was broken.

    \b
    Examples:
      antiphon lab
      antiphon lab scale --out results
      antiphon lab scale --quick --json
      antiphon lab churn
      antiphon lab soak --seconds 300
      antiphon lab fuzz --door udp --seconds 120 --seed 7 --keep found
    """
    if name is None:
        for experiment in EXPERIMENTS.values():
            print(f"{experiment.name:12} {experiment.about}")
        return
    chosen = EXPERIMENTS.get(name)
    if chosen is None:
        raise UsageError(f"no experiment is called {name!r}; known: {', '.join(EXPERIMENTS)}")
    chosen = _with_choices(chosen, Choices(seconds, door, seed, mutants, keep))
    need_libraries()
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
    page.write_text(_page(chosen, rows, quick, Choices(seconds, door, seed, mutants)), encoding="utf-8")
    if not json:
        screen = console()
        for part, some in parts_of(rows).items():
            if part not in chosen.unlisted:
                screen.print(table(part, some, screen, omitted=("part",)))
        print(f"plots: {page}")
    faults = chosen.faults(rows)
    if faults:
        raise AntiphonError(f"{name} found a fault: {'; '.join(faults)}")


def _with_choices(experiment: Experiment, choices: Choices) -> Experiment:
    """The experiment as it is wanted; a UsageError for a choice that it does not have."""
    if experiment.choose is not None:
        return experiment.choose(choices)
    for option, value in _others(choices).items():
        raise UsageError(
            f"the experiment {experiment.name} has no choice {option}: leave out {option} {value}"
        )
    if choices.seconds is None:
        return experiment
    if experiment.lasting is None:
        raise UsageError(f"the experiment {experiment.name} has no length to choose: leave out --seconds")
    return experiment.lasting(choices.seconds)


def _others(choices: Choices) -> dict[str, object]:
    """The options that were given, but for the length."""
    given = {
        "--door": choices.door, "--seed": choices.seed, "--mutants": choices.mutants, "--keep": choices.keep,
    }  # fmt: skip
    return {option: value for option, value in given.items() if value is not None}


def _page(experiment: Experiment, rows: list[Row], quick: bool, choices: Choices) -> str:
    words = [f"antiphon lab {experiment.name}"]
    if choices.seconds is not None:
        words.append(f"--seconds {choices.seconds:g}")
    words += [f"{option} {value}" for option, value in _others(choices).items()]
    command = " ".join(words + ["--quick"] * quick)
    intro = [Paragraph(experiment.intro)]
    return render(Page(experiment.title, intro, experiment.sections(rows), f"Made by `{command}`."))
