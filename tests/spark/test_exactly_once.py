"""Queries and journals are killed with SIGKILL during a flood: the table has each message once, in order."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from killed_query import start_query
from killing import Story
from recorded_groups import wait_until

from antiphon import Message, blocking
from antiphon.journal.reader import Journals


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with ExitStack() as stack:
        yield Story(tmp_path, stack)


@pytest.mark.timeout(600)
def test_killed_journals_and_a_killed_query_lose_and_repeat_nothing(spark: Any, story: Story) -> None:
    """The journal that the query reads is killed, then the query, in the first batch that it has planned in
    the other journal; the dead one comes back with a gap."""
    flood = story.flood()
    story.start_query()
    wait_until(lambda: story.batches() >= 2, "the query has begun")
    first = story.journals_read()[-1]
    dead = 0 if Journals([story.places[0]]).positions().journal == first else 1
    story.kill_journal(dead)
    wait_until(lambda: story.journals_read()[-1] != first, "the query goes on in the other journal")
    assert story.query_is_alive
    story.kill_query()
    story.start_journal(dead)
    story.check(story.finish(spark, flood), flood)
    back = Journals([story.places[dead]])
    have = back.positions()
    kinds = [kind for batch in back.read(0, have.latest) for kind in batch.column("kind").to_pylist()]
    assert "gap" in kinds, "what it missed is marked"


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_many_kills_of_everything(spark: Any, story: Story) -> None:
    """Queries and journals are killed in turn at arbitrary moments; never both journals at once."""
    chance = random.Random(4)
    flood = story.flood(0.05)
    for _ in range(6):
        story.start_query(chance.choice((500, 2_000, 10_000)))
        story.wait_batches(2)
        for number in chance.sample((0, 1), 2):
            time.sleep(chance.uniform(0, 2))
            story.kill_journal(number)
            time.sleep(chance.uniform(0, 6))
            story.start_journal(number)
            story.wait_batches(1)
        time.sleep(chance.uniform(0, 1))
        story.kill_query()
    story.check(story.finish(spark, flood), flood)


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_a_killed_sink_sends_each_message_once(spark: Any, story: Story) -> None:
    """A query from a group to another is killed in the middle of its batches, again and again."""
    flood = story.flood(0.1)
    chance = random.Random(5)
    with blocking.connect(story.room.addresses[1]) as listener:
        listener.join("copy")
        copies: list[bytes] = []
        for _ in range(5):
            story.start_query(1_000, "copy", story.room.addresses[0])
            story.wait_batches(2)
            time.sleep(chance.uniform(0, 2))
            story.kill_query()
        flood.stop()
        target = (story.room.addresses[0], "copy")
        query = start_query(spark, story.endpoint, str(story.folder), "5000", *target, availableNow=True)
        assert query.awaitTermination(600)
        listener.send("copy", b"end")
        while not copies or copies[-1] != b"end":
            event = listener.receive(timeout_s=60)
            if isinstance(event, Message):
                copies.append(event.payload)
    assert copies[:-1] == flood.heard
