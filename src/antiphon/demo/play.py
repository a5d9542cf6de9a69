"""The demo from its first daemon to its last: the cluster is started, the story is told, and all is gone."""

import asyncio
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from antiphon.demo.cluster import running
from antiphon.demo.geography import CITIES
from antiphon.demo.page import Page
from antiphon.demo.pauses import Pauses
from antiphon.demo.story import Story

SITES_MAX = len(CITIES)
DAEMONS_MAX = 4
"""The most daemons of a site. They share one interpreter; more would show its limits instead of ours."""


async def play(
    console: Console, seconds: float | None, sites: int, daemons: int, trace: Path | None, *, is_watched: bool
) -> None:
    """Tell the story on a console for so many seconds, or until it is interrupted; `trace` is a folder. If a
    person watches, only the story ends in time: the reader's own experiments take as long as they take."""
    pace = Pauses(seconds)
    cities = CITIES[:sites]
    page = Page(console)
    with running(cities, daemons, trace) as cluster:
        story = Story(cities, cluster, page, pace)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await story.tell()
            if story.is_told:
                await story.stay(None if is_watched else pace.left_s())
        except asyncio.CancelledError:  # Ctrl-C
            if story.is_told:
                page.say("All sessions disconnect and the daemons stop.")
            raise
        finally:
            await story.close()
        page.say(
            "The time is up: all sessions disconnect and the daemons stop."
            if story.is_told
            else "The time is up before the end of the story; `antiphon demo --seconds 60` has enough."
        )
