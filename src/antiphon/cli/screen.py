"""What a person sees: text on stdout, progress on stderr, both plain where the output is no terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from antiphon.words import printable, printable_json

PATIENCE_S = 2.0
"""A person who has waited so long wants to know what for."""
LINE_EVERY_S = 5.0
"""Between two lines of progress in a log."""


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
def progress(what: str, total: float, *, in_logs: bool = False) -> Iterator[Callable[[float], None]]:
    """Show on stderr how far `what` has come; yields the function to advance.

    A person who watches sees a bar. Otherwise a line is printed every few seconds if it is wanted `in_logs`.
    """
    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        done = [0.0]

        def add(amount: float) -> None:
            done[0] += amount

        with _lines(in_logs, lambda: f"{what}: {done[0]:,.0f} of {total:,.0f}"):
            yield add
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount: bar.advance(task, amount)


@contextmanager
def working(what: str, seconds: float, *, in_logs: bool = False) -> Iterator[None]:
    """Show on stderr that `what` goes on while the body runs, as `progress` does."""
    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        with _lines(in_logs, lambda: f"{what} (about {seconds:.0f} s)"):
            yield
        return
    with stderr.status(f"{what} (about {seconds:.0f} s)"):
        yield


@contextmanager
def _lines(are_wanted: bool, told: Callable[[], str]) -> Iterator[None]:
    """Print on stderr every few seconds what is `told`, and how long it has taken, while the body runs."""
    if not are_wanted:
        yield
        return
    is_over = Event()
    begun_s = time.monotonic()

    def tell() -> None:
        while not is_over.wait(LINE_EVERY_S):
            print(f"{told()}, {time.monotonic() - begun_s:.0f} s so far", file=sys.stderr, flush=True)

    teller = Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


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
