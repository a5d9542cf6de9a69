"""How a run of the fuzzer at a door of files is carried out: spell by spell, in a process that reads them.

Nothing else runs: there is no session beside it that could be harmed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from antiphon.lab.fuzz import rules
from antiphon.lab.fuzz.ending import FuzzEnding, peak_bytes
from antiphon.lab.fuzz.orders import Board, Orders
from antiphon.lab.fuzz.plan import KINDS, SPELL_S, FuzzPlan, Spell
from antiphon.lab.fuzz.reading import REPORT, Report
from antiphon.lab.fuzz.rules import Look
from antiphon.load.cluster import stop_daemon
from antiphon.load.crowds import resident_bytes

LOOK_S = 0.05
HANGS_S = 120.0
"""A reader that has got no further for so long, on however busy a machine, hangs."""
IN_MEMORY = "/dev/shm"
NAME = "reader"


def read_files(plan: FuzzPlan) -> Iterator[Look | FuzzEnding]:
    """Carry it out: what was seen after each spell, and the ending. All files are gone afterwards; with
    `plan.keep`, the mutants of what broke something are there."""
    with ExitStack() as stack:
        memory = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None  # journals sync what they write
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-fuzz-", dir=memory)))
        run = _Run(plan, folder, stack)
        yield from run.play()
        yield run.ending()


class _Run:
    """One door, and the process that reads."""

    def __init__(self, plan: FuzzPlan, folder: Path, stack: ExitStack) -> None:
        self._plan = plan
        self._folder = folder
        self._stack = stack
        self._begun_s = time.monotonic()
        self._looks: list[Look] = []
        self._serial = 0
        self._restarts = 0
        self._before: list[Report] = []
        """Of processes that have ended."""
        self._peak_bytes = 0
        self._board = Board(folder, 1, make=True)
        self._start()

    def _start(self) -> None:
        shutil.rmtree(self._folder / "files", ignore_errors=True)
        words = [sys.executable, "-m", "antiphon.lab.fuzz.reading", self._plan.door, str(self._folder)]
        with (self._folder / f"{NAME}.log").open("ab") as log:
            self._process = subprocess.Popen(words, stderr=log, start_new_session=True)
        self._stack.callback(stop_daemon, self._process)

    def play(self) -> Iterator[Look]:
        """Spells until there are enough mutants, or no time left."""
        deadline_s = time.monotonic() + self._plan.seconds
        sent = 0
        for spell in self._plan.each():
            look = self._play(spell, deadline_s)
            self._looks.append(look)
            sent += look.mutants
            yield look
            if look.ended:
                self._recover(look)
            if sent >= self._plan.mutants or time.monotonic() >= deadline_s:
                return

    def _play(self, spell: Spell, deadline_s: float) -> Look:
        begun_s = moved_s = time.monotonic()
        self._serial += 1
        orders = Orders(
            self._serial, self._plan.door, spell.kind, self._plan.seed, spell.first, spell.mutants, 0.0
        )
        self._board.order(orders)
        done, ended = 0, ""
        while not ended and done < spell.mutants:
            now_s = time.monotonic()
            if done and now_s >= min(deadline_s, begun_s + SPELL_S):
                break
            time.sleep(LOOK_S)
            before, done = done, self._board.done(self._serial)
            moved_s = now_s if done > before else moved_s
            if self._process.poll() is not None:
                ended = f"the reader ended with exit code {self._process.returncode}"
            elif now_s - moved_s > HANGS_S:
                ended = f"the reader got no further for {HANGS_S:.0f} s"
        took_s = round(time.monotonic() - begun_s, 2)
        memory = {} if ended else {NAME: resident_bytes(self._process.pid)}
        self._peak_bytes = max(self._peak_bytes, peak_bytes(self._process.pid) or 0)
        return Look(
            spell.number, spell.kind, spell.first, done, took_s, 0.0,
            memory_bytes=memory, ended=(ended,) if ended else (),
        )  # fmt: skip

    def _recover(self, look: Look) -> None:
        """Keep what tells how it came, and start another reader."""
        self._keep(f"spell{look.spell}")
        self._before.append(self._report())
        self._restarts += 1
        self._process.kill()
        self._process.wait()
        self._start()

    def _keep(self, what: str) -> None:
        plan = self._plan
        if plan.keep is not None:
            target = plan.keep / f"{plan.door}-seed{plan.seed}-{what}"
            target.mkdir(parents=True, exist_ok=True)
            for path in (*self._folder.glob("*.log"), *self._folder.glob("*.json*")):
                shutil.copy(path, target)

    def _report(self) -> Report:
        try:
            return msgspec.json.decode((self._folder / REPORT).read_bytes(), type=Report)
        except FileNotFoundError:
            return Report()

    def ending(self) -> FuzzEnding:
        """All rules."""
        stop_daemon(self._process)
        reports = [*self._before, self._report()]
        plan, looks = self._plan, self._looks
        findings = [words for report in reports for words in report.findings]
        if findings:
            self._keep("end")
        counts = {
            f"{kind}: {what}": sum(getattr(report, what).get(kind, 0) for report in reports)
            for kind in KINDS[plan.door]
            for what in ("refused", "accepted")
        }
        log = (self._folder / f"{NAME}.log").read_text(errors="replace")
        mistakes = [f"the log of the reader has: {log.splitlines()[-1]}"] if "Traceback" in log else []
        verdicts = (
            rules.readers(findings),
            rules.prompt([words for report in reports for words in report.slow]),
            rules.processes(looks, mistakes),
            rules.memory(looks, {NAME: self._peak_bytes}),
            rules.trials(looks, KINDS[plan.door], len(looks)),
        )
        resident = next((look.memory_bytes[NAME] for look in reversed(looks) if look.memory_bytes), 0)
        return FuzzEnding(
            plan.door,
            sum(look.mutants for look in looks),
            round(time.monotonic() - self._begun_s, 1),
            self._restarts,
            counts,
            {NAME: resident},
            {NAME: self._peak_bytes},
            verdicts,
        )
