"""The folder of a campaign: what is done stays done when a campaign is started again.

    outcomes/RUN       what came of a run (msgpack of `Outcome`), written when its trace is complete
    unchecked/RUN.jsonl  traces that no conformance job has seen
    traces/RUN.jsonl   traces that are kept: of runs that failed, or of all if asked for
    checked.jsonl      one line a run: the properties that the conformance job found broken
    made-by.json       which code and which planted bug the outcomes belong to
    campaign.html, campaign.json

Every file is written under another name and then renamed, so that a run that is killed leaves nothing half
written. Executors write here, too: on a cluster the folder must be one that all machines share.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

import antiphon
from antiphon.errors import UsageError
from antiphon.simulator.mutants import MUTANTS, Mutant
from antiphon.simulator.outcome import Outcome
from antiphon.simulator.run import run_seed
from antiphon.wire.decoding import NOT_A_VALUE


class Maker(msgspec.Struct, frozen=True):
    """What the outcomes of a folder belong to."""

    code: str
    """Digest of the programs that decide about a run."""
    mutant: str
    """The planted bug, or nothing."""


class Checked(msgspec.Struct, frozen=True):
    """What the conformance job said of one run."""

    run: str
    broken: tuple[str, ...]
    """Number and name of each property that it found broken."""


def code_digest() -> str:
    """A short name for the code that decides what comes of a seed: everything that the simulator runs."""
    root = Path(antiphon.__file__).parent
    digest = blake2b(digest_size=8)
    for part in ("config", "core", "simulator", "trace", "wire"):
        for path in sorted((root / part).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def mutant_named(name: str) -> Mutant:
    """The planted bug of this name, or a UsageError."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    raise UsageError(f"no planted bug {name!r}; known: {', '.join(mutant.name for mutant in MUTANTS)}")


class Folder:
    """A campaign's folder; a value that can be sent to executors."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.unchecked = self.path / "unchecked"
        self.traces = self.path / "traces"
        self.work = self.path / "work"
        self._outcomes = self.path / "outcomes"
        self._drafts = self.path / "drafts"

    def prepare(self, maker: Maker) -> None:
        """Make what is missing; UsageError if what is there was made by something else."""
        for folder in (self.path, self.unchecked, self.traces, self._outcomes, self._drafts):
            folder.mkdir(parents=True, exist_ok=True)
        mark = self.path / "made-by.json"
        if not mark.exists():
            self._write(mark, msgspec.json.encode(maker))
        elif (found := msgspec.json.decode(mark.read_bytes(), type=Maker)) != maker:
            why = "another planted bug" if found.mutant != maker.mutant else "another version of the code"
            raise UsageError(f"{self.path} holds a campaign of {why}; give --dir a folder of its own")

    def _write(self, path: Path, content: bytes) -> None:
        draft = self._drafts / uuid.uuid4().hex
        draft.write_bytes(content)
        draft.replace(path)

    # Runs -------------------------------------------------------------------------------------------------

    def run(self, seed: int, scenario: str, mutant: str = "") -> None:
        """Simulate one seed; afterwards its trace and its outcome are here. Runs in executors."""
        draft = self._drafts / uuid.uuid4().hex
        try:
            if mutant:
                with mutant_named(mutant).active():
                    outcome = run_seed(seed, scenario, draft)
            else:
                outcome = run_seed(seed, scenario, draft)
            for trace in draft.glob("*.jsonl"):
                if not outcome.error:
                    trace.replace(self.unchecked / trace.name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        # Last: who sees the outcome may rely on the trace.
        self._write(self._outcomes / f"{scenario}-{seed}", msgspec.msgpack.encode(outcome))

    def outcome(self, run: str) -> Outcome | None:
        """What came of a run, if it was run."""
        try:
            return msgspec.msgpack.decode((self._outcomes / run).read_bytes(), type=Outcome)
        except (FileNotFoundError, *NOT_A_VALUE):
            return None

    def finished(self) -> set[str]:
        """The runs that have an outcome."""
        return set(os.listdir(self._outcomes))

    def waiting(self) -> set[str]:
        """The runs whose traces wait for the conformance job."""
        return {path.stem for path in self.unchecked.glob("*.jsonl")}

    # Verdicts ---------------------------------------------------------------------------------------------

    def checked(self) -> dict[str, Checked]:
        """What the conformance job said, by run."""
        try:
            lines = (self.path / "checked.jsonl").read_bytes().splitlines()
        except FileNotFoundError:
            return {}
        return {one.run: one for one in _decoded(lines)}

    def note(self, verdicts: Iterable[Checked], keeps: Callable[[str], bool]) -> None:
        """The conformance job has seen these runs; traces that are not to be kept are deleted."""
        verdicts = list(verdicts)
        with (self.path / "checked.jsonl").open("ab") as file:
            file.writelines(msgspec.json.encode(one) + b"\n" for one in verdicts)
            file.flush()
            os.fsync(file.fileno())
        for one in verdicts:
            trace = self.unchecked / f"{one.run}.jsonl"
            if keeps(one.run):
                trace.replace(self.traces / trace.name)
            else:
                trace.unlink()
        shutil.rmtree(self.work, ignore_errors=True)

    def finish(self, page: str, summary: object) -> None:
        """Write what a person and a program read in the end."""
        self._write(self.path / "campaign.html", page.encode())
        self._write(self.path / "campaign.json", msgspec.json.encode(summary))
        shutil.rmtree(self._drafts, ignore_errors=True)


def _decoded(lines: Iterable[bytes]) -> Iterator[Checked]:
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=Checked)
        except NOT_A_VALUE:  # torn when a campaign was killed: these runs are checked again
            continue
