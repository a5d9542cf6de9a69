"""How a soak is carried out: daemons and clients are started, troubled, looked at and, at the end, judged."""

import heapq
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.lab.soak import looks as seeing
from antiphon.lab.soak import rules
from antiphon.lab.soak.cluster import SoakCluster
from antiphon.lab.soak.crew import SLOW_HOMES, Crew
from antiphon.lab.soak.looks import Look
from antiphon.lab.soak.plan import ACTS, SoakPlan, Trouble
from antiphon.lab.soak.rules import Verdict
from antiphon.lab.soak.talk import Tally
from antiphon.simulator.oracle import judge
from antiphon.trace import merge

EMPTY_WITHIN_S = 30.0
"""How long messages under way may take to end when all clients have gone."""

SETTLING_LOOKS = 5
SETTLING_S = 0.1
"""The number of looks that make one look at rest, and the time between them."""


class SoakEnding(Struct, frozen=True):
    """What is known when all is over."""

    growths: tuple[rules.Growth, ...]
    tally: Tally
    cut_off: int
    """Slow receivers that were disconnected."""
    records: int
    verdicts: tuple[Verdict, ...]


def soak(plan: SoakPlan) -> Iterator[Look | SoakEnding]:
    """Carry it out: every look as it is taken, and the ending. All processes and files are gone afterwards,
    but for traces and logs that are needed to find out what went wrong."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-soak-")))
        try:
            cluster = SoakCluster(directory, stack)
            cluster.wait_whole()
            conductor = Conductor(plan, cluster, Crew(cluster, plan.act_s, stack))
            yield from conductor.acts()
            cut_off = conductor.cut_off()
        except AntiphonError as error:
            raise AntiphonError(f"{error}; {_keep(directory)}") from error
        conductor.crew.end()
        cluster.stop()
        verdicts, records = _judge(conductor, cluster, cut_off)
        if any(verdict.faults for verdict in verdicts):
            verdicts.append(Verdict("evidence", "kept only if a rule is broken", (_keep(directory),)))
        growths = tuple(rules.growths(conductor.looks))
        yield SoakEnding(growths, conductor.tally, cut_off, records, tuple(verdicts))


def _judge(conductor: "Conductor", cluster: SoakCluster, cut_off: int) -> tuple[list[Verdict], int]:
    """All rules, and how many records the oracle saw."""
    growths = rules.growths(conductor.looks)
    trace = merge(cluster.traces)
    violations = [f"{violation.name}: {violation.what}" for violation in judge(trace)]
    verdicts = [
        rules.descriptors(growths),
        rules.emptiness(conductor.looks),
        rules.bounds(conductor.looks),
        rules.health(cluster.complaints()),
        rules.properties(violations, len(trace.records)),
    ]
    if conductor.plan.is_long:
        verdicts += [rules.memory(growths), rules.trials(conductor.tally, cut_off)]
    return verdicts, len(trace.records)


def _keep(directory: Path) -> str:
    """Copy traces, logs and configuration to where they stay, and say where."""
    kept = Path(tempfile.mkdtemp(prefix="antiphon-soak-kept-"))
    for path in (*directory.glob("*.log"), *directory.glob("*.toml")):
        shutil.copy(path, kept)
    if (directory / "traces").is_dir():
        shutil.copytree(directory / "traces", kept / "traces")
    return f"traces and logs are kept in {kept}"


class Conductor:
    """Leads clients and daemons through the acts."""

    def __init__(self, plan: SoakPlan, cluster: SoakCluster, crew: Crew) -> None:
        self.crew = crew
        self.looks: list[Look] = []
        self.tally = Tally()
        self.plan = plan
        self._cluster = cluster
        self._begun_s = time.monotonic()
        self._happened: list[str] = []
        self._agenda: list[tuple[float, int, Callable[[], Look | None]]] = []
        """When, the order of those at the same time, and what."""
        self._entries = 0

    def acts(self) -> Iterator[Look]:
        """All of them, look by look."""
        for act in range(1, ACTS + 1):
            self.crew.begin()
            self._happened.append(f"act {act} begins")
            begun_s = time.monotonic()
            for number in range(self.plan.looks):
                second = (number + 1) * self.plan.act_s / self.plan.looks
                self._enter(begun_s + second, partial(self._look, act))
            for trouble in self.plan.troubles():
                self._enter(begun_s + trouble.second, partial(self._make, trouble))
            yield from self._play()
            yield self._rest(act)

    def cut_off(self) -> int:
        """How many slow receivers the daemons have disconnected."""
        told = [self._cluster.ask(name) for name in SLOW_HOMES]
        return sum(answer["runtime"]["clients"]["slow_receivers"] for answer in told if answer is not None)

    def _enter(self, due_s: float, action: Callable[[], Look | None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (due_s, self._entries, action))

    def _play(self) -> Iterator[Look]:
        while self._agenda:
            due_s, _, action = heapq.heappop(self._agenda)
            time.sleep(max(0.0, due_s - time.monotonic()))
            look = action()
            if look is not None:
                yield look

    def _make(self, trouble: Trouble) -> None:
        self._happened.append(trouble.words)
        match trouble.kind:
            case "pause":
                self._cluster.pause(trouble)
            case "kill":
                self._cluster.kill(trouble.daemon)
                self._enter(time.monotonic() + trouble.lasts_s, partial(self._restart, trouble.daemon))
            case _:
                self.crew.abandon()

    def _restart(self, name: str) -> None:
        self._cluster.restart(name)
        self._happened.append(f"{name} started again")

    # Looks ------------------------------------------------------------------------------------------------

    def _look(self, act: int) -> Look:
        """Look at all processes while they are busy."""
        self._cluster.check()
        told = [answer for name in self._cluster.working if (answer := self._cluster.ask(name)) is not None]
        overfull = [words for answer in told for words in seeing.overfull(answer)]
        waiting = {answer["daemon"]: seeing.waiting(answer) for answer in told}
        return self._note(act, False, waiting, overfull=tuple(overfull))

    def _rest(self, act: int) -> Look:
        """All clients go; then, when nothing is under way any more, or after some patience, look."""
        self.tally += self.crew.rest()
        deadline_s = time.monotonic() + EMPTY_WITHIN_S
        while True:
            told = self._cluster.wait_whole()
            left_over = [words for answer in told.values() for words in seeing.left_over(answer)]
            if not (left_over or self._has_more_descriptors()) or time.monotonic() > deadline_s:
                break
            time.sleep(0.2)
        waiting = {name: seeing.waiting(answer) for name, answer in told.items()}
        return self._note(act, True, waiting, left_over=tuple(left_over))

    def _has_more_descriptors(self) -> bool:
        """Whether a process has more of them than at the first rest: they may be about to be given back."""
        first = next((look for look in self.looks if look.at_rest), None)
        now = {name: seen[1] for name, seen in self._at_rest().items()}
        return first is not None and any(
            now.get(name, 0) > count for name, count in first.descriptors.items()
        )

    def _footprints(self) -> dict[str, tuple[int, int]]:
        processes = {name: process.pid for name, process in self._cluster.processes.items()}
        processes |= {name: self.crew.processes[name].process.pid for name in self.crew.lasting}
        return {name: seen for name, pid in processes.items() if (seen := seeing.footprint(pid)) is not None}

    def _at_rest(self) -> dict[str, tuple[int, int]]:
        """The footprints without what is there for a moment only, such as the connection of a status
        request."""
        seen = self._footprints()
        for _ in range(SETTLING_LOOKS - 1):
            time.sleep(SETTLING_S)
            for name, (memory_bytes, descriptors) in self._footprints().items():
                fewest = min(descriptors, seen.get(name, (0, descriptors))[1])
                seen[name] = (memory_bytes, fewest)
        return seen

    def _note(
        self,
        act: int,
        at_rest: bool,
        waiting: dict[str, int],
        overfull: tuple[str, ...] = (),
        left_over: tuple[str, ...] = (),
    ) -> Look:
        seen = self._at_rest() if at_rest else self._footprints()
        look = Look(
            round(time.monotonic() - self._begun_s, 1),
            act,
            at_rest,
            {name: memory_bytes for name, (memory_bytes, _) in seen.items()},
            {name: descriptors for name, (_, descriptors) in seen.items()},
            waiting,
            overfull,
            left_over,
            tuple(self._happened),
        )
        self._happened.clear()
        self.looks.append(look)
        return look
