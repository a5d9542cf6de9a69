"""What it costs that packets between daemons are sealed: sealed beside plain, in turns, on real daemons.

    .venv/bin/python bench/sealing.py [--rounds 5] [--seconds 3] [--cases hop,ring] [--sizes 100,1024]
        [--json]

Two clusters are up at the same time, alike but for the key, and work in turns: `hop` are two sites of one
daemon, `ring` is one site of three. Told is, for each case and size of messages, the throughput of agreed
messages from one client to receivers at the other daemons, flat out, the processor time that the daemons
take for one, and the median latency of messages that are sent at a low rate; each as the ratio of sealed to
plain in one round, the median of all rounds.
"""

import argparse
import json
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from msgspec import structs

from antiphon.config import Security
from antiphon.load.cluster import DaemonProcesses
from antiphon.load.plan import Plan
from antiphon.load.run import run
from antiphon.runtime import key_files
from antiphon.runtime.local import local_config

CASES = {"hop": (2, 1), "ring": (1, 3)}
"""Sites, and daemons in each."""
KINDS = ("plain", "sealed")
RATE_PER_S = 200.0


def start(case: str, kind: str, folder: Path, stack: ExitStack) -> DaemonProcesses:
    """The daemons of a cluster."""
    sites, daemons = CASES[case]
    place = folder / kind
    place.mkdir()
    config = local_config(sites, place, daemons=daemons)
    if kind == "sealed":
        key_files.make(place / "cluster.key")
        config = structs.replace(config, security=Security(key_file=str(place / "cluster.key")))
    return DaemonProcesses(config, place, stack)


def measured(daemons: DaemonProcesses, size_bytes: int, seconds: float) -> dict[str, float]:
    """Messages per second flat out, the processor time that a message takes at all daemons together, and the
    median latency at a low rate."""
    addresses = daemons.addresses
    flat_out = Plan(addresses[0], tuple(addresses[1:]), size_bytes=size_bytes, seconds=seconds)
    light = structs.replace(flat_out, rate_per_s=RATE_PER_S)
    before_s = sum(daemons.processor_s())
    received = run(flat_out).received
    took_s = sum(daemons.processor_s()) - before_s
    return {
        "messages_per_s": min(one.messages_per_s for one in received),
        "daemons_us": 1e6 * took_s / max(one.messages for one in received),
        "p50_us": max(one.p50_us for one in run(light).received),
    }


def main() -> None:
    """Measure, round by round, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--cases", default="hop,ring")
    parser.add_argument("--sizes", default="100,1024")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for case in arguments.cases.split(","):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
            clusters = {kind: start(case, kind, folder, stack) for kind in KINDS}
            for size_bytes in map(int, arguments.sizes.split(",")):
                _compare(case, clusters, size_bytes, arguments)


def _compare(
    case: str, clusters: dict[str, DaemonProcesses], size_bytes: int, arguments: argparse.Namespace
) -> None:
    ratios: dict[str, list[float]] = {"messages_per_s": [], "daemons_us": [], "p50_us": []}
    for number in range(arguments.rounds):
        kinds = KINDS if number % 2 == 0 else KINDS[::-1]
        found = {kind: measured(clusters[kind], size_bytes, arguments.seconds) for kind in kinds}
        for what, values in ratios.items():
            values.append(found["sealed"][what] / found["plain"][what])
        if arguments.json:
            print(json.dumps({"case": case, "size_bytes": size_bytes, "round": number, **found}), flush=True)
    if not arguments.json:
        rate, processor, latency = (statistics.median(values) for values in ratios.values())
        print(
            f"{case:5} {size_bytes:6,} B  throughput {rate:4.2f} of plain, processor time of the daemons "
            f"{processor:4.2f}, p50 {latency:4.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
