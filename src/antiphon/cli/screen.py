"""What a person sees: text on stdout, progress on stderr, both plain where the output is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from antiphon.words import printable, printable_json

PATIENCE_S = 2.0
"""A person who has waited so long wants to know what for."""


def console() -> Console:
    """Standard output, coloured only where it is a terminal; brackets in names are brackets, not markup."""
    return Console(highlight=False, markup=False, emoji=False)


def show(text: str, *, is_json: bool = False) -> None:
    """Print one line that has text from outside in it, at once: a reader may wait at the end of a pipe.

    On a terminal its control characters are escaped (in JSON by JSON's rule), elsewhere it is left as it is.
    """
    if sys.stdout.isatty():
        text = printable_json(text) if is_json else printable(text)
    print(text, flush=True)


def show_json(value: object) -> None:
    """Print a value as one line of JSON."""
    show(msgspec.json.encode(value).decode(), is_json=True)


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show on stderr how far `what` has come, if a person watches; yields the function to advance."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stderr = Console(stderr=True)
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount: bar.advance(task, amount)


@contextmanager
def working(what: str, seconds: float) -> Iterator[None]:
    """Show on stderr that `what` goes on while the body runs, if a person watches."""
    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        yield
        return
    with stderr.status(f"{what} (about {seconds:.0f} s)"):
        yield


@contextmanager
def joining(group: str) -> Iterator[None]:
    """While the body joins a group: say on stderr what it waits for, if that takes long and a person watches.

    A join takes the agreement of all daemons of the view, and waits while a new view is made.
    """
    if not sys.stderr.isatty():
        yield
        return
    words = f"still joining {group}: the daemons must agree; `antiphon status` tells what they wait for"
    timer = Timer(PATIENCE_S, print, (words,), {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
