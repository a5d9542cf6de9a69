"""The verb `demo`: a whole wide-area cluster in one process, narrated."""

import asyncio
from typing import Annotated

import typer

from antiphon.cli.options import TraceFolder
from antiphon.cli.screen import console
from antiphon.demo.play import DAEMONS_MAX, SITES_MAX, play


def demo(
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", min=1, help="End after N seconds; default: on Ctrl-C."),
    ] = None,
    sites: Annotated[int, typer.Option("--sites", min=2, max=SITES_MAX, help="How many sites.")] = 3,
    daemons: Annotated[
        int, typer.Option("--daemons", min=1, max=DAEMONS_MAX, help="How many daemons at each site.")
    ] = 2,
    trace: TraceFolder = None,
) -> None:
    """Watch groups, views and delivery orders at work on a wide-area cluster inside this process.

    \b
    Example:
      antiphon demo --seconds 60
    """
    asyncio.run(play(console(), seconds, sites, daemons, trace))
