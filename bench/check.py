"""Time and memory of `antiphon check` as traces grow.

Some simulated runs are written again and again under other names, until there are enough events; each size is
then checked by a process of its own. The figure that counts is the growth: twice the events should take not
much more than twice the time above what the smallest costs, in memory that does not grow. Copies of small
runs would hide what one big run costs, so `--huge` adds one of at least a million events, which is simulated.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import matplotlib.figure
from msgspec import structs

from antiphon.simulator.play import play
from antiphon.simulator.run import run_seed
from antiphon.simulator.scenarios import plan_of
from antiphon.trace import Trace

MILLION = 1_000_000
SIZES = (1, 2, 5, 10)
RUNS = (("mixed", 0), ("mixed", 1), ("merge", 1), ("merge", 2), ("partition", 2), ("swarm", 2))
HUGE = ("mixed", 2)
"""The run that is made longer until it is huge."""
HUGE_TIMES = 8
"""How much longer at the first try; each further try doubles it."""
LOOK_S = 0.5
"""Between two looks at the memory and the processor time of the process."""
WIDTH, HEIGHT = 640, 400
"""Of the plot, in pixels."""


class Figure(NamedTuple):
    """What one check cost."""

    events: int
    runs: int
    bytes: int
    seconds: float
    cpu_s: float
    """Of the processor, in all processes: what counts where a machine has other things to do as well."""
    memory_bytes: int
    """The most that the Java process had in memory."""

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds


def base_runs(folder: Path) -> list[Path]:
    """The traces that are multiplied."""
    for scenario, seed in RUNS:
        outcome = run_seed(seed, scenario, trace_dir=folder)
        assert outcome.is_clean, outcome.faults
    return sorted(folder.glob("*.jsonl"))


def multiply(base: Sequence[Path], folder: Path, events_min: int) -> tuple[int, int, int]:
    """Write copies of `base` under other names until there are enough; events, runs and bytes."""
    events = runs = size = 0
    texts = [(path.stem, path.read_bytes()) for path in base]
    while events < events_min:
        name, text = texts[runs % len(texts)]
        run = f"{name}-copy-{runs}"
        copy = text.replace(f'"run":"{name}"'.encode(), f'"run":"{run}"'.encode())
        (folder / f"{run}.jsonl").write_bytes(copy)
        events += copy.count(b"\n") - 1
        runs += 1
        size += len(copy)
    return events, runs, size


def huge_run(folder: Path, events_min: int) -> tuple[int, int, int]:
    """Simulate one run that is long enough; events, runs and bytes."""
    scenario, seed = HUGE
    plan = plan_of(scenario, seed)
    daemons = tuple(daemon.name for daemon in plan.daemons())
    times = HUGE_TIMES
    while True:
        longer = structs.replace(plan, working_us=plan.working_us * times)
        records = play(longer).world.records
        if len(records) >= events_min:
            break
        times *= 2
    Trace(scenario, seed, daemons, records, run="huge").write(folder)
    return len(records), 1, sum(path.stat().st_size for path in folder.glob("*.jsonl"))


def check(folder: Path, scratch: Path) -> tuple[float, float, int]:
    """Seconds, seconds of the processor and bytes of memory that the check of a folder takes."""
    command = [sys.executable, "-m", "antiphon", "check", str(folder), "--json"]
    environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    started_s = time.perf_counter()
    most, cpu_s = 0, 0.0
    with open(scratch / "verdict.jsonl", "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environment)
        try:
            while process.poll() is None:
                children = _children(process.pid)
                most = max(most, sum(map(_memory_bytes, children)))
                cpu_s = max(cpu_s, sum(map(_cpu_s, [process.pid, *children])))
                time.sleep(LOOK_S)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        sys.exit((scratch / "verdict.jsonl").read_text() or f"the check ended with {process.returncode}")
    return time.perf_counter() - started_s, cpu_s, most


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def _memory_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def plot(figures: Sequence[Figure], path: Path) -> None:
    """Write seconds of the processor by events, beside the straight line through the first and the last."""
    canvas = matplotlib.figure.Figure((WIDTH / 72, HEIGHT / 72), dpi=72, layout="constrained")
    axes = canvas.subplots()
    axes.set_title("antiphon check: processor seconds by events in the traces", fontsize=12)
    millions, seconds = [one.events / MILLION for one in figures], [one.cpu_s for one in figures]
    axes.plot([millions[0], millions[-1]], [seconds[0], seconds[-1]], color="silver", linestyle="dashed")
    axes.plot(millions, seconds, color="black", marker="o")
    for one, x, y in zip(figures, millions, seconds, strict=True):
        label = f"{x:.1f} M: {y:.0f} s, {one.memory_bytes / 2**30:.1f} GB"
        side = "right" if x > millions[-1] / 2 else "left"
        axes.annotate(label, (x, y), (0, 8), textcoords="offset points", ha=side)
    axes.set(xlim=(0, None), ylim=(0, None), xlabel="millions of events", ylabel="seconds of the processor")
    axes.spines[["top", "right"]].set_visible(False)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        canvas.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def _line(figure: Figure, as_json: bool) -> str:
    if as_json:
        return json.dumps({**figure._asdict(), "events_per_s": round(figure.events_per_s)})
    return (
        f"{figure.events:>12,} events in {figure.runs:>5,} runs, {figure.bytes / 2**20:>7,.0f} MB: "
        f"{figure.seconds:>6.1f} s, {figure.cpu_s:>6.1f} s of the processor, "
        f"{figure.events_per_s:>8,.0f} events/s, {figure.memory_bytes / 2**30:.1f} GB of memory"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", default=",".join(map(str, SIZES)), help="sizes, in millions of events")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--huge", action="store_true", help="also one run of a million events")
    parser.add_argument("--plot", type=Path, help="write a plot (SVG) to this file")
    arguments = parser.parse_args()
    figures: list[Figure] = []

    def measure(told: tuple[int, int, int], folder: Path, scratch: Path) -> Figure:
        figure = Figure(*told, *check(folder, scratch))
        shutil.rmtree(folder)
        shutil.rmtree(scratch, ignore_errors=True)  # Java may still be tidying up in there
        print(_line(figure, arguments.json), flush=True)
        return figure

    with TemporaryDirectory(prefix="antiphon-bench-") as root:
        base = base_runs(Path(root, "base"))
        for millions in map(float, filter(None, arguments.millions.split(","))):
            folder, scratch = Path(root, "traces"), Path(root, "scratch")
            folder.mkdir()
            scratch.mkdir(exist_ok=True)
            figures.append(measure(multiply(base, folder, int(millions * MILLION)), folder, scratch))
        if arguments.huge:
            folder, scratch = Path(root, "traces"), Path(root, "scratch")
            folder.mkdir()
            scratch.mkdir(exist_ok=True)
            measure(huge_run(folder, MILLION), folder, scratch)
    if arguments.plot and figures:
        plot(figures, arguments.plot)


if __name__ == "__main__":
    main()
