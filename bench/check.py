"""Time and memory of `antiphon check` as traces grow.

Some simulated runs are written again and again under other names, until there are enough events; each size is
then checked by a process of its own. The figure that counts is the growth: twice the events should take not
much more than twice the time above what the smallest costs, in memory that does not grow.
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

from antiphon.simulator.run import run_seed

MILLION = 1_000_000
SIZES = (1, 2, 5, 10)
RUNS = (("mixed", 0), ("mixed", 1), ("merge", 1), ("merge", 2), ("partition", 2), ("swarm", 2))
LOOK_S = 0.5
"""Between two looks at the memory of the process."""
WIDTH, HEIGHT, EDGE = 640, 400, 60
"""Of the plot, in pixels."""


class Figure(NamedTuple):
    """What one check cost."""

    events: int
    runs: int
    bytes: int
    seconds: float
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


def check(folder: Path, scratch: Path) -> tuple[float, int]:
    """Seconds and bytes of memory that the check of a folder takes."""
    command = [sys.executable, "-m", "antiphon", "check", str(folder), "--json"]
    environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    started_s = time.perf_counter()
    most = 0
    with open(scratch / "verdict.jsonl", "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environment)
        try:
            while process.poll() is None:
                most = max(most, sum(_memory_bytes(child) for child in _children(process.pid)))
                time.sleep(LOOK_S)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        sys.exit((scratch / "verdict.jsonl").read_text() or f"the check ended with {process.returncode}")
    return time.perf_counter() - started_s, most


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


def plot(figures: Sequence[Figure]) -> str:
    """Seconds by events, beside the straight line through the first and the last, as SVG."""
    most_events, most_s = max(one.events for one in figures), max(one.seconds for one in figures)

    def place(events: float, seconds: float) -> str:
        x = EDGE + events / most_events * (WIDTH - 2 * EDGE)
        y = HEIGHT - EDGE - seconds / most_s * (HEIGHT - 2 * EDGE)
        return f"{x:.1f},{y:.1f}"

    points = [place(one.events, one.seconds) for one in figures]
    words = []
    for one, point in zip(figures, points, strict=True):
        x, y = point.split(",")
        label = f"{one.events / MILLION:.1f} M: {one.seconds:.0f} s, {one.memory_bytes / 2**30:.1f} GB"
        words.append(f'<circle cx="{x}" cy="{y}" r="4"/><text x="{x}" y="{float(y) - 10:.1f}">{label}</text>')
    origin, right, top = place(0, 0), place(most_events, 0), place(0, most_s)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" text-anchor="middle">'
        f'<text x="{WIDTH / 2}" y="20">antiphon check: seconds by events in the traces</text>'
        f'<polyline fill="none" stroke="grey" points="{top} {origin} {right}"/>'
        f'<polyline fill="none" stroke="silver" stroke-dasharray="4" points="{points[0]} {points[-1]}"/>'
        f'<polyline fill="none" stroke="black" points="{" ".join(points)}"/>{"".join(words)}</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", default=",".join(map(str, SIZES)), help="sizes, in millions of events")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--plot", type=Path, help="write a plot (SVG) to this file")
    arguments = parser.parse_args()
    figures = []
    with TemporaryDirectory(prefix="antiphon-bench-") as root:
        base = base_runs(Path(root, "base"))
        for millions in map(float, arguments.millions.split(",")):
            folder, scratch = Path(root, "traces"), Path(root, "scratch")
            folder.mkdir()
            scratch.mkdir()
            told = multiply(base, folder, int(millions * MILLION))
            figure = Figure(*told, *check(folder, scratch))
            figures.append(figure)
            shutil.rmtree(folder)
            shutil.rmtree(scratch)
            if arguments.json:
                print(
                    json.dumps({**figure._asdict(), "events_per_s": round(figure.events_per_s)}), flush=True
                )
            else:
                print(
                    f"{figure.events:>12,} events in {figure.runs:>5,} runs, "
                    f"{figure.bytes / 2**20:>7,.0f} MB: "
                    f"{figure.seconds:>6.1f} s, {figure.events_per_s:>8,.0f} events/s, "
                    f"{figure.memory_bytes / 2**30:.1f} GB of memory",
                    flush=True,
                )
    if arguments.plot:
        arguments.plot.write_text(plot(figures))


if __name__ == "__main__":
    main()
