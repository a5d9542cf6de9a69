"""The verb `demo`: a whole wide-area cluster in one process, narrated."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli._demo.cluster import running
from antiphon.cli._demo.geography import CITIES
from antiphon.cli._demo.pace import Pace
from antiphon.cli._demo.page import Page
from antiphon.cli._demo.story import Story
from antiphon.cli.options import TraceFolder
from antiphon.cli.screen import console

DAEMONS_MAX = 4
"""They share one interpreter; more of them would show its limits instead of ours."""


def demo(
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", min=1, help="End after N seconds; without it, on Ctrl-C."),
    ] = None,
    sites: Annotated[int, typer.Option("--sites", min=2, max=len(CITIES), help="How many sites.")] = 3,
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
    asyncio.run(_play(seconds, sites, daemons, trace))


async def _play(seconds: float | None, sites: int, daemons: int, trace: Path | None) -> None:
    pace = Pace(seconds)
    cities = CITIES[:sites]
    page = Page(console())
    with running(cities, daemons, trace) as cluster:
        story = Story(cities, cluster, page, pace)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await story.tell()
        page.say(
            "The time is up: everybody disconnects and the daemons stop."
            if story.is_told
            else "The time is up before the end of the story; `antiphon demo --seconds 60` has enough."
        )
