"""Real daemons, real sockets, real clients of both libraries, and the simulator's oracle as the judge.

Daemons in threads let us watch what each of them holds, so every property is judged. Daemons in processes
show only what they tell: without knowing which daemon held what at which moment, 2.14 (safe messages) cannot
be judged, and everything else is.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from diary import Diary, Entry, entry, merge
from local_cluster import Cluster
from process_cluster import ProcessCluster
from raw_client import wait_until
from talkers import EVERYBODY, talk

from antiphon.client import ask_status
from antiphon.config import Config
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.simulator.oracle import PROPERTIES
from antiphon.simulator.trace import Event, Record
from antiphon.wire.bundle import Flag, Header

LOOK_EVERY_S = 0.5


def watch_holds(daemon: Daemon, witnessed: list[Entry]) -> None:
    """Write down which bundles a daemon in this process has, as soon as it has them."""

    def held(header: Header) -> None:
        if not header.flags & (Flag.EVENT | Flag.LATE):
            message = (header.daemon, header.session, header.sequence)
            record = Record(0, 0, Event.HOLD, daemon.name, message=message, count=header.message_count)
            witnessed.append(entry(record))

    daemon._node.observer = held


def look(place: str, witnessed: list[Entry]) -> bool:
    """Write down how full a daemon's buffers are; whether they are empty."""
    told = ask_status(place)
    fill = {name: (gauge["bytes"], gauge["limit"]) for name, gauge in told["buffers"].items()}
    witnessed.append(entry(Record(0, 0, Event.BUFFERS, told["daemon"], buffers=fill)))
    return not any(used for used, _ in fill.values())


@contextmanager
def watch_buffers(places: list[str], witnessed: list[Entry]) -> Iterator[None]:
    """Look at all daemons again and again, and at the end until they are empty."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            for place in places:
                look(place, witnessed)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    for place in places:
        wait_until(partial(look, place, witnessed))


def assert_promises_kept(
    config: Config,
    seed: int,
    diaries: list[Diary],
    witnessed: list[Entry],
    unseen: frozenset[str] = frozenset(),
) -> None:
    """Judge by all properties but those whose evidence is `unseen`."""
    daemons = tuple(daemon.name for _, daemon in config.daemons())
    trace = merge(seed, daemons, diaries, witnessed)
    happened = {record.event for record in trace.records}
    assert set(Event) - happened <= ({Event.HOLD} if unseen else set()), "the run was too tame to judge"
    services = {record.service for record in trace.records if record.event is Event.DELIVER}
    assert len(services) == 6
    violations = [
        violation for prop in PROPERTIES if prop.number not in unseen for violation in prop.check(trace)
    ]
    assert not violations, "\n".join(map(str, violations))


def run_in_threads(cluster: Cluster, config: Config, seed: int, seconds: float) -> None:
    witnessed: list[Entry] = []
    places = []
    for daemon in cluster.start(config):
        watch_holds(daemon, witnessed)
        places.append(daemon.places[0])
    with watch_buffers(places, witnessed):
        diaries = talk(config, places, seed, seconds)
    assert_promises_kept(config, seed, diaries, witnessed)


def test_all_promises_are_kept_through_loss_and_jitter(cluster: Cluster) -> None:
    config = local_config(4, cluster.directory, delay_ms=1, jitter_ms=1, loss=0.05, chain=True)
    run_in_threads(cluster, config, seed=1, seconds=6)


def test_daemons_in_processes_keep_their_promises(tmp_path: Path) -> None:
    config = local_config(3, tmp_path, delay_ms=1, jitter_ms=1, loss=0.1)
    witnessed: list[Entry] = []
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        with watch_buffers(cluster.places, witnessed):
            diaries = talk(config, cluster.places, 2, 6)
        cluster.assert_well()
    assert_promises_kept(config, 2, diaries, witnessed, unseen=frozenset({"2.14"}))


def test_what_a_diary_leaves_out_is_noticed(cluster: Cluster) -> None:
    """The judge can say no: one agreed message less in one diary is a broken promise."""
    config = local_config(1, cluster.directory)
    (daemon,) = cluster.start(config)
    diaries = talk(config, [daemon.places[0]], 5, 0.5)
    diary, last_word = next(
        (diary, one)
        for diary in diaries
        for one in diary.entries
        if one[2].event is Event.DELIVER and one[2].groups == (EVERYBODY,)
    )
    diary.entries.remove(last_word)
    trace = merge(5, ("d1",), diaries)
    assert any(prop.check(trace) for prop in PROPERTIES if prop.number == "2.13")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [3, 4])
def test_all_promises_are_kept_for_a_minute(cluster: Cluster, seed: int) -> None:
    config = local_config(5, cluster.directory, delay_ms=5, jitter_ms=5, loss=0.08)
    run_in_threads(cluster, config, seed, seconds=60)
