"""What a traced daemon writes down of the time, with each look at itself."""

from pathlib import Path

import pytest

from antiphon import config
from antiphon.core.node import Node
from antiphon.trace import Event, Record
from antiphon.trace import live as live_traces
from antiphon.trace.files import read_records
from antiphon.trace.live import LiveWatcher

CLUSTER = """
[[site]]
name = "oslo"
[[site.daemon]]
name = "o1"
address = "127.0.0.1:4800"
"""
REFERENCE = 'time = "reference"\ntime_error_ms = 0.2\n'
START_US = 5_000_000
WALL_US = 1_700_000_000_000_000
READING_US = 3
"""How long it takes to read the system clock."""


class Machine:
    """A daemon on a machine whose system clock is `off_us` ahead of what it showed at the start."""

    def __init__(self, folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_us = START_US
        self.off_us = 0
        monkeypatch.setattr(live_traces, "wall_us", self.wall)
        cluster = config.parse(text)
        self.watcher = LiveWatcher(cluster, "o1", 9, folder)
        self.node = Node(
            cluster, "o1", incarnation=9, now_us=START_US, wall_us=WALL_US, observer=self.watcher
        )
        self._folder = folder

    def wall(self) -> int:
        self.now_us += READING_US
        return WALL_US + self.now_us - START_US + self.off_us

    def look(self) -> None:
        self.watcher.look(self.node, lambda: self.now_us)

    def samples(self) -> list[Record]:
        """What was written down, when the daemon has ended."""
        self.watcher.ended()
        (path,) = self._folder.glob("*.jsonl")
        return [record for record in read_records(path)[1] if record.event is Event.CLOCK]


def test_a_sample_is_the_time_while_the_system_clock_shows_its_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, CLUSTER, monkeypatch)
    machine.look()
    machine.off_us = -7_000_000
    machine.now_us += 1_000_000
    machine.look()
    first, second = machine.samples()
    assert (first.daemon, first.state, first.peer) == ("o1", "internal", "o1")
    for sample, off_us in ((first, 0), (second, -7_000_000)):
        # The internal time is the daemon's own clock, which nobody sets; only reading both takes a while.
        assert sample.clock["error_us"] == READING_US
        assert abs(sample.clock["time_us"] - (sample.time_us - off_us)) <= READING_US


def test_there_is_no_sample_while_the_time_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, CLUSTER + REFERENCE, monkeypatch)
    machine.look()
    machine.node.time.read_system(WALL_US + machine.now_us - START_US, 0, machine.now_us)
    machine.look()
    (sample,) = machine.samples()
    assert (sample.state, sample.peer) == ("reference", "o1")
    assert 200 <= sample.clock["error_us"] <= 200 + 2 * READING_US


def test_looking_keeps_the_daemons_at_work_on_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, CLUSTER, monkeypatch)
    assert not machine.node.time.is_active(machine.now_us)
    machine.look()
    assert machine.node.time.is_active(machine.now_us)
    machine.watcher.ended()
