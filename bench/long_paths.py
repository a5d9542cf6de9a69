"""Throughput and latency over long paths, before and after what disturbs them, with real daemons.

    .venv/bin/python bench/long_paths.py [--seconds 6] [--rtt-ms 50] [--congestion cubic]
        [--cases fresh,pause] [--json]

Three sites whose paths have delays by emulation, one daemon each. One session sends agreed messages of 1 KB
as fast as its daemon takes them; one at each of the other two receives. The cases:

- `fresh`: a cluster that was just started, after three seconds
- `pause`: one receiving daemon stands still for 0.3 s (SIGSTOP, SIGCONT)
- `burst`: for 0.2 s whatever exceeds 100 Mbit/s in all is lost (root only: the cluster runs in a network
  namespace of its own, where tc drops it)
- `idle`: the sender rests for ten seconds
- `loss`: another cluster, whose paths lose one packet in a hundred

Of each: MB/s at the slower receiver and the median latency, from three seconds after the disturbance on, and
how long after it the receiver had nine tenths of the throughput before (`back_s`).
"""

import argparse
import json
import multiprocessing
import os
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from msgspec.structs import replace

import antiphon.blocking
from antiphon import Message
from antiphon.client import ask_status
from antiphon.config import build
from antiphon.errors import AntiphonError
from antiphon.load.cluster import DaemonProcesses
from antiphon.runtime.local import local_config

SITES = 3
GROUP = "far"
MESSAGE_BYTES = 1_024
SEND_AT_ONCE = 60
SLICE_S = 0.25
SETTLE_S = 3.0
PAUSE_S = 0.3
BURST_S = 0.2
IDLE_S = 10.0
CASES = ("fresh", "pause", "burst", "idle", "loss")
INSIDE = "ANTIPHON_BENCH_INSIDE"
STAMP = struct.Struct("!d")
FILLING = bytes(MESSAGE_BYTES - STAMP.size)

Slices = dict[int, tuple[int, list[float]]]
Row = dict[str, object]


# The programs ---------------------------------------------------------------------------------------------


def send(place: str, may_send: Event, until: Event) -> None:
    """Send as fast as the daemon takes it, while it may."""
    with antiphon.blocking.connect(place, name="sender") as session:
        while not until.is_set():
            if may_send.wait(0.1):
                now = STAMP.pack(time.monotonic())
                session.send_many(GROUP, [now + FILLING] * SEND_AT_ONCE)


def receive(place: str, until: Event, results: Connection) -> None:
    """Read everything; how many bytes came in each slice of time, and how old some messages were."""
    slices: dict[int, tuple[int, list[float]]] = {}
    with antiphon.blocking.connect(place) as session:
        session.join(GROUP)
        results.send("ready")
        while not until.is_set():
            try:
                events = session.receive_many(0.2)
            except TimeoutError:
                continue
            now = time.monotonic()
            messages = [event for event in events if isinstance(event, Message)]
            size, ages = slices.get(int(now / SLICE_S), (0, []))
            if messages:
                ages.append(now - STAMP.unpack_from(messages[-1].payload)[0])
            slices[int(now / SLICE_S)] = (size + MESSAGE_BYTES * len(messages), ages)
    results.send(slices)


class Flow:
    """The three programs at work."""

    def __init__(self, places: list[str]) -> None:
        self.may_send = multiprocessing.Event()
        self._until = multiprocessing.Event()
        self._pipes = [multiprocessing.Pipe() for _ in places[1:]]
        self._programs = [
            multiprocessing.Process(target=receive, args=(place, self._until, pipe[1]))
            for place, pipe in zip(places[1:], self._pipes, strict=True)
        ]
        self._programs.append(
            multiprocessing.Process(target=send, args=(places[0], self.may_send, self._until))
        )
        for program in self._programs:
            program.start()
        for pipe, _ in self._pipes:
            pipe.recv()

    def end(self) -> list[Slices]:
        """What each receiver saw."""
        self._until.set()
        seen = [pipe.recv() for pipe, _ in self._pipes]
        for program in self._programs:
            program.join()
        return seen


# What is made of it ---------------------------------------------------------------------------------------


def rate(slices: Slices, from_s: float, to_s: float) -> float:
    """Bytes a second in the whole slices of a time."""
    chosen = range(int(from_s / SLICE_S) + 1, int(to_s / SLICE_S))
    return sum(slices.get(number, (0, []))[0] for number in chosen) / (len(chosen) * SLICE_S)


def median_age_s(seen: list[Slices], from_s: float, to_s: float) -> float:
    ages = [
        age
        for slices in seen
        for number in range(int(from_s / SLICE_S) + 1, int(to_s / SLICE_S))
        for age in slices.get(number, (0, []))[1]
    ]
    return statistics.median(ages) if ages else float("nan")


def back_s(slices: Slices, wanted: float, event_s: float, to_s: float) -> float | None:
    """How long after the event two slices in a row had the wanted bytes a second; None: not in this time."""
    for number in range(int(event_s / SLICE_S) + 1, int(to_s / SLICE_S) - 1):
        if all(slices.get(number + more, (0, []))[0] / SLICE_S >= wanted for more in (0, 1)):
            return max(0.0, (number + 1) * SLICE_S - event_s)
    return None


def row(case: str, seen: list[Slices], event_s: float, end_s: float, before: float | None) -> Row:
    measured_s = event_s + SETTLE_S
    backs = [None if before is None else back_s(slices, 0.9 * before, event_s, end_s) for slices in seen]
    return {
        "case": case,
        "mb_per_s": min(rate(slices, measured_s, end_s) for slices in seen) / 1e6,
        "median_ms": 1e3 * median_age_s(seen, measured_s, end_s),
        "before_mb_per_s": None if before is None else before / 1e6,
        "back_s": None if None in backs else max(back for back in backs if back is not None),
    }


# The cases ------------------------------------------------------------------------------------------------


@contextmanager
def cluster(rtt_ms: float, loss: float, congestion: str) -> Iterator[DaemonProcesses]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        config = local_config(SITES, directory, delay_ms=rtt_ms / 2, loss=loss)
        links = tuple(replace(link, congestion=congestion) for link in config.links)  # type: ignore[arg-type]
        config = build(config.sites, links, config.settings)
        yield DaemonProcesses(config, directory, stack)


def lose_some() -> None:
    """Lose most of what is sent, for a while."""
    line = "tc qdisc replace dev lo root tbf rate 100mbit burst 128kb latency 2ms"
    subprocess.run(shlex.split(line), check=True)
    time.sleep(BURST_S)
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)


def disturbances(daemons: DaemonProcesses, flow: Flow) -> dict[str, Callable[[], None]]:
    def pause() -> None:
        daemons.pause(1)
        time.sleep(PAUSE_S)
        daemons.resume(1)

    def rest() -> None:
        flow.may_send.clear()
        time.sleep(IDLE_S)
        flow.may_send.set()

    return {"fresh": flow.may_send.set, "pause": pause, "burst": lose_some, "idle": rest}


def measure(cases: list[str], seconds: float, rtt_ms: float, congestion: str) -> Iterator[Row]:
    kinds = {
        0.0: [case for case in cases if case != "loss"],
        0.01: [case for case in cases if case == "loss"],
    }
    for loss, chosen in kinds.items():
        if not chosen:
            continue
        with cluster(rtt_ms, loss, congestion) as daemons:
            flow = Flow(daemons.addresses)
            moments: list[tuple[str, float, float]] = []
            known = disturbances(daemons, flow)
            for case in ["fresh", *(case for case in chosen if case not in ("fresh", "loss"))]:
                known[case]()
                event_s = time.monotonic()
                time.sleep(SETTLE_S + seconds)
                moments.append(("loss" if loss else case, event_s, time.monotonic()))
                print(f"{moments[-1][0]}: done", file=sys.stderr)
            links = ask_status(daemons.addresses[0])["links"]
            seen = flow.end()
            before = None
            for case, event_s, end_s in moments:
                if case in cases:
                    yield {
                        **row(case, seen, event_s, end_s, before),
                        "rtt_us": [one["rtt_us"] for one in links],
                    }
                before = min(rate(slices, event_s + SETTLE_S, end_s) for slices in seen)


def table(rows: list[Row]) -> Iterator[str]:
    yield f"{'case':8}{'MB/s':>8}{'median ms':>11}{'before':>9}{'back after s':>14}"
    for one in rows:
        before, back = one["before_mb_per_s"], one["back_s"]
        yield (
            f"{one['case']:8}{one['mb_per_s']:8.1f}{one['median_ms']:11.0f}"
            f"{'-' if before is None else f'{before:.1f}':>9}"
            f"{'-' if before is None else 'never' if back is None else f'{back:.2f}':>14}"
        )


def enter_namespace() -> bool:
    """Go on in a network namespace of our own, where packets can be lost; False where that cannot be."""
    if INSIDE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return True
    with suppress(OSError, subprocess.CalledProcessError):
        subprocess.run(["unshare", "--net", "tc", "qdisc"], check=True, capture_output=True)
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rtt-ms", type=float, default=50.0)
    parser.add_argument("--congestion", choices=("cubic", "reno"), default="cubic")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = arguments.cases.split(",")
    if unknown := set(cases) - set(CASES):
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    if "burst" in cases and not enter_namespace():
        print("burst: skipped, because only root can have a network namespace with tc", file=sys.stderr)
        cases.remove("burst")
    try:
        rows = list(measure(cases, arguments.seconds, arguments.rtt_ms, arguments.congestion))
    except AntiphonError as error:
        sys.exit(f"no figures: {error}")
    print(json.dumps(rows, indent=1) if arguments.json else "\n".join(table(rows)))


if __name__ == "__main__":
    main()
