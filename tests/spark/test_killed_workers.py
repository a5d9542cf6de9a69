"""Parts of a query are killed in the middle of a micro-batch of the sink: a Python worker, then an executor.

Spark runs the part again; whoever receives the messages drops those that it had.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from killing import Story
from recorded_groups import PATIENCE_S, wait_until

from antiphon import Message, blocking

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

ROWS = 1_000
KILLS = 3


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with ExitStack() as stack:
        yield Story(tmp_path, stack)


class Copies:
    """What reaches a member of the group into which the query writes."""

    def __init__(self, session: blocking.Session) -> None:
        self.payloads: list[bytes] = []
        self._session = session

    @property
    def dropped(self) -> int:
        """Messages that came again."""
        return self._session.batches.dropped

    def take(self) -> Message:
        while True:
            event = self._session.receive(timeout_s=PATIENCE_S)
            if isinstance(event, Message):
                self.payloads.append(event.payload)
                return event

    def take_until(self, payload: bytes) -> None:
        while self.take().payload != payload:
            pass

    def meet(self, story: Story) -> int:
        """Until a batch is half-way: some of it has come, and Spark has not finished it."""
        while True:
            message = self.take()
            assert message.batch is not None
            half_way = message.batch.index >= ROWS // 4
            if half_way and not (story.folder / "checkpoint" / "commits" / str(message.batch.batch)).exists():
                return message.batch.batch


def python_workers(story: Story) -> list[int]:
    """Those that do the work of tasks: forked by the process that Spark starts for that."""
    found = story.query.descendants("pyspark.daemon", "pyspark.worker")
    return [process for process in found if _parent(process) in found]


def executors(story: Story) -> list[int]:
    return story.query.descendants("org.apache.spark.executor.CoarseGrainedExecutorBackend")


def _parent(process: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@pytest.mark.parametrize(
    ("master", "victims"),
    [("local[2,4]", python_workers), ("local-cluster[2,1,1024]", executors)],
    ids=["python workers", "executors"],
)
def test_a_part_that_dies_half_way_is_sent_once(story: Story, master: str, victims: object) -> None:
    assert callable(victims)
    flood = story.flood(0.01)
    wait_until(lambda: len(flood.heard) > ROWS * (KILLS + 1), "there is enough for the query to do")
    flood.stop()
    with blocking.connect(story.room.addresses[1]) as session:
        session.join("copy")
        copies = Copies(session)
        words = ("--slow", "--master", master)
        story.start_query(ROWS, "copy", story.room.addresses[0], *words)
        for _ in range(KILLS):
            batch = copies.meet(story)
            found = victims(story)
            assert found
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            commit = story.folder / "checkpoint" / "commits" / str(batch)
            wait_until(lambda: commit.exists() or not story.query_is_alive, "the batch is finished")  # noqa: B023
            assert story.query_is_alive, "the query has ended by itself"
        story.room.send("flood", [b"end"])
        copies.take_until(b"end")
        assert copies.dropped > 0, "no message was sent a second time: nothing was killed half-way"
    assert copies.payloads == [*flood.heard, b"end"]
