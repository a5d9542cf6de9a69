"""Real daemons, real sockets, real clients of both libraries, and the simulator's oracle as the judge.

Daemons in threads let us watch what each of them holds, so every property is judged. Daemons in processes
show only what they tell: without knowing which daemon held what at which moment, 2.14 (safe messages) cannot
be judged, and everything else is.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from diary import DaemonWatcher, Diary, Entry, Witness, entry, merge
from local_cluster import Cluster, wait_formed, with_spread
from process_cluster import ProcessCluster
from raw_client import wait_until
from spread_session import Interpreter, speaks_spread
from talkers import EVERYBODY, Connect, talk

from antiphon.client import ask_status
from antiphon.config import Config, Settings
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.simulator.oracle import PROPERTIES
from antiphon.trace import Event, Record
from antiphon.trace.records import OF_EDGES, OF_LOCKS_AND_CALLS

LOOK_EVERY_S = 0.5
HASTY = Settings(membership="lan", suspect_ms=700.0)
"""So that trouble is soon noticed."""


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
    expected: frozenset[Event],
    unseen: frozenset[str] = frozenset(),
) -> None:
    """Judge by all properties but those whose evidence is `unseen`; these events must have happened."""
    trace = merge(seed, config.daemon_names, diaries, witnessed)
    happened = {record.event for record in trace.records}
    assert expected <= happened, "the run was too tame to judge"
    services = {record.service for record in trace.records if record.event is Event.DELIVER}
    assert len(services) == 6
    violations = [
        violation
        for prop in PROPERTIES
        if prop.promise.number not in unseen
        for violation in prop.check(trace)
    ]
    assert not violations, "\n".join(map(str, violations))


class Run:
    """Daemons in threads, all of which are watched."""

    def __init__(self, cluster: Cluster, config: Config) -> None:
        self.cluster = cluster
        self.config = config
        self.witnessed: list[Entry] = []
        self._cuts: set[tuple[int, int]] = set()
        """(Sender, receiver): what is sent so is lost."""
        self.daemons: dict[str, Daemon] = {}
        self._witnesses: list[Witness] = []
        self._watchers: dict[str, DaemonWatcher] = {}
        for name in config.daemon_names:
            self.start(name)
        self.wait_formed()

    @property
    def places(self) -> list[str]:
        """Of all daemons, in the order of their numbers."""
        return [daemon.clients[0] for _, daemon in self.config.daemons()]

    def start(self, name: str) -> None:
        """A daemon, perhaps once more."""
        self._witnesses.append(Witness())
        self._watchers[name] = DaemonWatcher(self.config, name, self._witnesses[-1])
        daemon = self.cluster.add(self.config, name, observer=self._watchers[name])
        self.daemons[name] = daemon
        self._cut(name)

    def crash(self, name: str) -> None:
        """A daemon without clients stops; its peers are told nothing."""
        self.daemons.pop(name).stop()
        self._watchers[name].crashed()

    def separate(self, *parts: Sequence[int]) -> None:
        """Only those in one part reach one another from now on."""
        part_of = {daemon: part for part, some in enumerate(parts) for daemon in some}
        self._cuts = {(one, other) for one in part_of for other in part_of if part_of[one] != part_of[other]}
        for name in self.daemons:
            self._cut(name)
        for some in parts:
            self.wait_formed([self.config.daemon_names[daemon] for daemon in some])

    def reunite(self) -> None:
        """All paths work again."""
        self._cuts = set()
        for name in self.daemons:
            self._cut(name)
        self.wait_formed()

    def _cut(self, name: str) -> None:
        number = self.config.daemon_number(name)
        self.daemons[name].unreachable = frozenset(other for one, other in self._cuts if one == number)

    def wait_formed(self, names: Sequence[str] | None = None) -> None:
        """Until these daemons, by default all, are in one view of their own."""
        some = self.config.daemon_names if names is None else names
        wait_formed([self.daemons[name].places[0] for name in some], some)

    def judge(
        self,
        seed: int,
        seconds: float,
        expected: frozenset[Event],
        places: list[str] | None = None,
        trouble: Callable[[], None] | None = None,
        connect_others: Connect | None = None,
    ) -> None:
        """Talk at these places, by default everywhere, and judge what came of it."""
        with watch_buffers(places or self.places, self.witnessed):
            diaries = talk(self.config, places or self.places, seed, seconds, trouble, connect_others)
        for witness in self._witnesses:
            self.witnessed += witness.entries
        assert_promises_kept(self.config, seed, diaries, self.witnessed, expected)


SIMULATED = {Event.SLOW, Event.FORGED, Event.BREACH, Event.NONSENSE, Event.STEADY}
"""Told by the simulator only."""
CALM = (
    frozenset(Event)
    - OF_LOCKS_AND_CALLS
    - OF_EDGES
    - {Event.TRANSSIG, Event.STRANSSIG, Event.CRASH, Event.STOP, Event.RESTORED, Event.LINK, Event.CLOCK}
    - SIMULATED
)
"""What happens when nothing goes wrong; nobody looks at links and clocks here."""
TOLD_BY_CLIENTS = frozenset(
    (Event.CONNECT, Event.JOIN, Event.LEAVE, Event.SEND, Event.DELIVER, Event.VIEW, Event.LEFT, Event.BUFFERS)
)


@pytest.mark.long
def test_all_promises_are_kept_through_loss_and_jitter(cluster: Cluster) -> None:
    config = local_config(4, cluster.directory, delay_ms=1, jitter_ms=1, loss=0.05, chain=True)
    Run(cluster, config).judge(seed=1, seconds=6, expected=CALM)


@pytest.mark.long
def test_all_promises_are_kept_by_sites_of_several_daemons(cluster: Cluster) -> None:
    config = local_config(2, cluster.directory, daemons=2, delay_ms=1, jitter_ms=1, loss=0.02)
    Run(cluster, config).judge(seed=6, seconds=4, expected=CALM)


@pytest.mark.long
def test_all_promises_are_kept_through_a_partition(cluster: Cluster) -> None:
    config = local_config(4, cluster.directory, delay_ms=1, settings=HASTY)
    run = Run(cluster, config)

    def part_and_meet() -> None:
        for parts in (((0, 1), (2, 3)), ((0, 3), (1,), (2,))):
            run.separate(*parts)
            time.sleep(0.5)
            run.reunite()
            time.sleep(0.5)

    expected = CALM | {Event.TRANSSIG, Event.STRANSSIG}
    run.judge(seed=7, seconds=3, expected=expected, trouble=part_and_meet)


def test_all_promises_are_kept_to_spread_clients_beside_ours_through_a_partition(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_spread(local_config(3, cluster.directory, delay_ms=1, settings=HASTY), cluster.directory)
    interpreter = Interpreter(monkeypatch)
    run = Run(cluster, config)

    def part_and_meet() -> None:
        for parts in (((0, 1), (2,)), ((0, 2), (1,)), ((0,), (1,), (2,))):
            run.separate(*parts)
            time.sleep(0.5)
            run.reunite()
            time.sleep(0.5)

    spread_places = {daemon.clients[0]: daemon.spread_places[0] for _, daemon in config.daemons()}
    run.judge(
        seed=9,
        seconds=3,
        expected=CALM | {Event.TRANSSIG, Event.STRANSSIG},
        trouble=part_and_meet,
        connect_others=speaks_spread(interpreter, spread_places),
    )


def test_all_promises_are_kept_while_a_daemon_crashes_and_comes_back(cluster: Cluster) -> None:
    """It is the one in the middle of the chain: the network falls apart with it."""
    config = local_config(3, cluster.directory, delay_ms=1, chain=True, settings=HASTY)
    run = Run(cluster, config)

    def crash_and_come_back() -> None:
        for _ in range(2):
            run.crash("d2")
            run.wait_formed(["d1"])
            run.wait_formed(["d3"])
            time.sleep(0.3)
            run.start("d2")
            run.wait_formed()
            time.sleep(0.3)

    expected = CALM | {Event.TRANSSIG, Event.STRANSSIG, Event.CRASH}
    ends = [run.places[0], run.places[2]]
    run.judge(seed=8, seconds=3, expected=expected, places=ends, trouble=crash_and_come_back)


def test_daemons_in_processes_keep_their_promises(tmp_path: Path) -> None:
    config = local_config(3, tmp_path, delay_ms=1, jitter_ms=1, loss=0.1)
    witnessed: list[Entry] = []
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        with watch_buffers(cluster.places, witnessed):
            diaries = talk(config, cluster.places, 2, 6)
        cluster.assert_well()
    assert_promises_kept(config, 2, diaries, witnessed, TOLD_BY_CLIENTS, unseen=frozenset({"2.14"}))


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
    assert any(prop.check(trace) for prop in PROPERTIES if prop.promise.number == "2.13")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [3, 4])
def test_all_promises_are_kept_for_a_minute(cluster: Cluster, seed: int) -> None:
    config = local_config(5, cluster.directory, delay_ms=5, jitter_ms=5, loss=0.08)
    Run(cluster, config).judge(seed, seconds=60, expected=CALM)
