"""How a run of the fuzzer is carried out: spell by spell, each judged before the next begins."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from antiphon import limits
from antiphon.lab.fuzz import rules
from antiphon.lab.fuzz.cluster import FuzzCluster
from antiphon.lab.fuzz.ending import FuzzEnding
from antiphon.lab.fuzz.orders import Orders
from antiphon.lab.fuzz.plan import (
    BY_DATAGRAM,
    KINDS,
    LOSS,
    OF_DAEMONS,
    PATIENCE_S,
    SEALED,
    SPELL_S,
    TAPPED,
    WARM_UP_S,
    FuzzPlan,
    Spell,
)
from antiphon.lab.fuzz.rules import Look
from antiphon.lab.fuzz.talkers import Talkers
from antiphon.load.cluster import stop_daemon

LOOK_S = 0.05
EFFECT_S = 0.3
"""The wait after a spell in which its last mutants take effect."""
RESTARTS_MAX = 12
"""After so many clusters that were broken for good, the run ends: there is enough to look into."""
STATUS_PATIENCE_S = 30.0


def fuzz(plan: FuzzPlan) -> Iterator[Look | FuzzEnding]:
    """Carry it out: what was seen after each spell, and the ending. All processes and files are gone
    afterwards; with `plan.keep`, logs and mutants of what broke something are there."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-fuzz-")))
        cluster = FuzzCluster(directory, stack, is_sealed=plan.door in SEALED, has_tls=plan.door == "tls")
        conductor = Conductor(plan, cluster, stack)
        yield from conductor.play()
        yield conductor.ending()


class Conductor:
    """Leads daemons, honest clients and senders of mutants through the spells."""

    def __init__(self, plan: FuzzPlan, cluster: FuzzCluster, stack: ExitStack) -> None:
        self.looks: list[Look] = []
        self._plan = plan
        self._cluster = cluster
        self._stack = stack
        self._serial = 0
        self._begun_s = time.monotonic()
        self._mistakes: list[str] = []
        self._ends: list[str] = []
        self._caller: subprocess.Popen[bytes] | None = None
        self._begin_talk()
        self._begin_calls()

    def _begin_talk(self) -> None:
        self._talking = ExitStack()
        self._stack.callback(self._talking.close)
        self._talkers = self._talking.enter_context(Talkers(self._cluster.places))

    def _begin_calls(self) -> None:
        """Start the process that sends mutants, at doors where no daemon does."""
        if self._plan.door in TAPPED:
            return
        cluster = self._cluster
        places = {
            "clients": (*cluster.places.values(), *cluster.tcp_places.values()),
            "tls": (cluster.places["d1"], *cluster.tcp_places.values()),
            "spread": tuple(cluster.spread_places.values()),
            "flight": (cluster.endpoint,),
        }[self._plan.door]
        words = [sys.executable, "-m", "antiphon.lab.fuzz.calls", self._plan.door, str(cluster.directory)]
        words += [str(cluster.board.workers), *places]
        with (cluster.directory / "calls.log").open("ab") as log:
            self._caller = subprocess.Popen(words, stderr=log, start_new_session=True)
        self._stack.callback(stop_daemon, self._caller)

    # Spells -----------------------------------------------------------------------------------------------

    def play(self) -> Iterator[Look]:
        """Spells until there are enough mutants and each kind has had its turn, or no time is left, or too
        much is broken."""
        self._flows(time.monotonic(), PATIENCE_S)
        time.sleep(min(WARM_UP_S, self._plan.seconds))
        deadline_s = time.monotonic() + self._plan.seconds
        sent = 0
        for spell in self._plan.each():
            look = self._play(spell, deadline_s)
            sent += look.mutants
            self.looks.append(look)
            yield look
            if look.flows_after_s is None or look.ended:
                self._recover(look)
            is_enough = sent >= self._plan.mutants and len(self.looks) >= len(KINDS[self._plan.door])
            if is_enough or time.monotonic() >= deadline_s:
                return
            if self._cluster.restarts >= RESTARTS_MAX or spell.number + 1 >= _SPELLS_PER * self._plan.spells:
                return

    def _play(self, spell: Spell, deadline_s: float) -> Look:
        begun_s = time.monotonic()
        serial = self._order(spell)
        until_s = min(deadline_s, begun_s + SPELL_S)
        board = self._cluster.board
        while board.done(serial) < spell.mutants and time.monotonic() < until_s:
            self._check_caller()
            time.sleep(LOOK_S)
        self._order(None)
        ended_s = time.monotonic()
        time.sleep(EFFECT_S)
        flows_s = self._flows(time.monotonic(), PATIENCE_S)
        unheard, complaints = ((), {}) if flows_s is not None else self._silence()
        return Look(
            spell.number,
            spell.kind,
            spell.first,
            board.done(serial),
            round(ended_s - begun_s, 2),
            None if flows_s is None else round(flows_s, 2),
            unheard,
            complaints,
            self._cluster.memory_bytes(),
            tuple(self._cluster.ended()),
        )

    def _silence(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """From where to where nothing comes, and what the daemons say to that, if it lasts while they do."""
        since_s = time.monotonic()
        complaints = self._cluster.complaints()
        unheard = tuple(f"from {one} to {other}" for one, other in self._talkers.unheard(since_s))
        return unheard[:_SHOWN], complaints if unheard else {}

    def _check_caller(self) -> None:
        if self._caller is not None and self._caller.poll() is not None:
            log = (self._cluster.directory / "calls.log").read_text(errors="replace").strip().splitlines()
            raise RuntimeError(f"the sender of mutants ended: {log[-1] if log else 'silently'}")

    def _order(self, spell: Spell | None) -> int:
        self._serial += 1
        plan = self._plan
        kind, first, most = ("", 0, 0) if spell is None else (spell.kind, spell.first, spell.mutants)
        if plan.door in BY_DATAGRAM:  # who has captures of a kind sends for those who have none
            most = -(-2 * most // self._cluster.board.workers)
        loss = LOSS if spell is not None and plan.door == "udp" else 0.0
        self._cluster.board.order(
            Orders(self._serial, plan.door, kind, plan.seed, first, most, plan.rate_per_s, loss)
        )
        return self._serial

    def _flows(self, since_s: float, patience_s: float) -> float | None:
        """How long it took until messages flowed from every daemon to every other; None if they did not.

        A daemon that is left out for a while is waited for: that is what its status tells of it."""
        deadline_s = time.monotonic() + patience_s
        latest_s = deadline_s + limits.EXCLUDED_MAX_US / 1e6
        while any(True for _ in self._talkers.unheard(since_s)):
            if self._cluster.has_lost_a_daemon:
                return None
            if time.monotonic() > deadline_s:
                left_out_s = self._cluster.left_out_s()
                if not left_out_s or deadline_s >= latest_s:
                    return None
                deadline_s = min(latest_s, time.monotonic() + left_out_s + patience_s)
            time.sleep(LOOK_S)
        return time.monotonic() - since_s

    def _recover(self, look: Look) -> None:
        """Keep what tells how it came, and start the cluster again."""
        if self._plan.keep is not None:
            self._cluster.keep(self._plan.keep, f"{self._plan.door}-seed{self._plan.seed}-spell{look.spell}")
        self._note_talk()
        self._talking.close()
        if self._caller is not None:
            stop_daemon(self._caller)
        self._cluster.restart()
        self._begin_talk()
        self._begin_calls()
        self._flows(time.monotonic(), PATIENCE_S)

    def _note_talk(self) -> None:
        self._ends += [words for talker in self._talkers.all for words in talker.ends]

    # The end ----------------------------------------------------------------------------------------------

    def ending(self) -> FuzzEnding:
        """All rules."""
        plan, cluster = self._plan, self._cluster
        last = self._last_look()
        refused = self._refused()
        self._note_talk()
        talkers = self._talkers
        self._talking.close()
        memory, peaks = cluster.memory_bytes(), cluster.peak_bytes()
        mistakes = cluster.mistakes()
        looks = [*self.looks, last]
        readable, fault = _read_journal(cluster.endpoint)
        verdicts = [
            rules.flow(looks),
            rules.status(looks),
            rules.processes(looks, mistakes),
            rules.memory(self.looks, peaks),
            rules.frames(self._ends),
            rules.sessions(self._ends, cluster.restarts),
            rules.journal(readable, fault),
            rules.trials(self.looks, KINDS[plan.door], len(self.looks)),
        ]
        if plan.door not in OF_DAEMONS:
            verdicts.append(
                rules.messages(
                    sum(talker.altered for talker in talkers.all),
                    [words for talker in talkers.all for words in talker.missed],
                    [words for talker in talkers.all for words in talker.repeated],
                    talkers.disorder(),
                    [words for talker in talkers.all for words in talker.views],
                )
            )
        if plan.keep is not None:
            cluster.keep(plan.keep, f"{plan.door}-seed{plan.seed}-end")
        return FuzzEnding(
            plan.door,
            sum(look.mutants for look in self.looks),
            round(time.monotonic() - self._begun_s, 1),
            cluster.restarts,
            refused,
            memory,
            peaks,
            tuple(verdicts),
        )

    def _last_look(self) -> Look:
        """Once more, with the status of every daemon, which may take a moment to be good again."""
        flows_s = self._flows(time.monotonic(), PATIENCE_S)
        deadline_s = time.monotonic() + STATUS_PATIENCE_S
        complaints = self._cluster.complaints()
        while flows_s is not None and any(complaints.values()) and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
            complaints = self._cluster.complaints()
        unheard: tuple[str, ...] = ()
        if flows_s is None:
            unheard, complaints = self._silence()
        return Look(
            len(self.looks), "the end", 0, 0, 0.0, flows_s, unheard, complaints,
            ended=tuple(self._cluster.ended()),
        )  # fmt: skip

    def _refused(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in self._cluster.places:
            answer = self._cluster.ask(name)
            if answer is not None:
                for reason, count in answer["counters"].items():
                    found[reason] = found.get(reason, 0) + count
        return dict(sorted(found.items(), key=lambda row: -row[1]))


def _read_journal(endpoint: str) -> tuple[int, str]:
    """How many rows of the journal could be read, and what was wrong with the next one."""
    from antiphon.journal.reader import Journals  # needs Arrow, which takes a while to load

    rows = 0
    try:
        journals = Journals([endpoint], patience_s=5.0)
        have = journals.positions()
        rows = have.earliest
        for batch in journals.read(have.earliest, have.latest):
            for row in batch.to_pylist():
                if row["offset"] != rows:
                    return rows, f"offset {row['offset']} where {rows} should be"
                rows += 1
        if rows != have.latest:
            return rows, f"there should be {have.latest:,}"
    except Exception as error:  # whatever a reader meets is what the rule is about
        return rows, f"{type(error).__name__}: {error}"[:_TEXT_MAX]
    return rows, ""


_SPELLS_PER = 4
"""Spells for each that the plan counts with: some kinds are so rare that a spell has few mutants."""
_SHOWN = 4
_TEXT_MAX = 200
