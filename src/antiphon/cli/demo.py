"""The verb `demo`: a whole wide-area cluster in one process, narrated."""

import asyncio
import sys
from typing import Annotated

import typer

from antiphon.cli.options import TraceFolder
from antiphon.cli.screen import console
from antiphon.demo.play import DAEMONS_MAX, SITES_MAX, play


def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="N",
            min=1,
            help="Play the demo in N seconds, and end then unless a person is at the terminal.",
        ),
    ] = None,
    sites: Annotated[int, typer.Option("--sites", min=2, max=SITES_MAX, help="How many sites.")] = 3,
    daemons: Annotated[
        int, typer.Option("--daemons", min=1, max=DAEMONS_MAX, help="How many daemons at each site.")
    ] = 2,
    trace: TraceFolder = None,
) -> None:
    """Watch groups, views and delivery orders at work on a wide-area cluster inside this process.

    At the end it is your turn: at a terminal, the cluster stays for your own experiments until Ctrl-C.

    \b
    Example:
      antiphon demo --seconds 60
    """
    is_watched = sys.stdin.isatty() and sys.stdout.isatty()
    asyncio.run(play(console(), seconds, sites, daemons, trace, is_watched=is_watched))
