"""What a Hop link and a kernel's TCP flow get of one bottleneck, with real daemons.

    .venv/bin/python bench/fairness.py [--seconds 30] [--mbit 20] [--rtt-ms 50] [--queue-ms 50]
        [--mtu 1500] [--congestion cubic] [--tcp cubic] [--json]

Two network namespaces, a daemon in each, and a process between them that carries packets over one line: a
rate, a queue that loses what does not fit, and a delay, all in user space, because not every kernel has
`netem`. A session floods a group across the line, and beside it a TCP connection sends as fast as it can.
Needs root; elsewhere it says so and ends.
"""

import argparse
import heapq
import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import antiphon.blocking
from antiphon import Message
from antiphon.client import ask_status
from antiphon.config import DaemonConfig, LinkConfig, SiteConfig, as_toml, build
from antiphon.load.cluster import stop_daemons

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "namespace"))
from wires import Wire, close_all, enter, host_of, lay, why_not

PORT = 4_803
TCP_PORT = 5_001
GROUP = "flood"
SEGMENT_BYTES = 1_400
PACKET_MAX_BYTES = 65_536
WARM_S = 5.0
TCP_CONGESTION = 13
"""socket.TCP_CONGESTION, which is missing on other systems than Linux."""


# The line -------------------------------------------------------------------------------------------------


def carry(ends: tuple[int, int], bytes_per_s: float, delay_s: float, queue_bytes: float) -> None:
    """Carry packets between the two wires for ever. From the first to the second there is the bottleneck."""
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    free_s = 0.0
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, end, data = heapq.heappop(waiting)
            with suppress(OSError):
                os.write(end, data)
        patience_s = max(0.0, waiting[0][0] - now) if waiting else 1.0
        for end in select.select(ends, (), (), patience_s)[0]:
            now = time.monotonic()
            with suppress(BlockingIOError):
                while data := os.read(end, PACKET_MAX_BYTES):
                    leaves_s = now
                    if end == ends[0]:
                        begin_s = max(now, free_s)
                        if (begin_s - now) * bytes_per_s > queue_bytes:
                            continue  # whatever its size: else the smaller packets would win
                        leaves_s = free_s = begin_s + len(data) / bytes_per_s
                    count += 1
                    other = ends[1] if end == ends[0] else ends[0]
                    heapq.heappush(waiting, (leaves_s + delay_s, count, other, data))


# The flows ------------------------------------------------------------------------------------------------


def tcp_receive(namespace: int, received: "Synchronized[int]") -> None:
    enter(namespace)
    with socket.create_server((host_of(1), TCP_PORT)) as server:
        connection, _ = server.accept()
        while data := connection.recv(65_536):
            received.value += len(data)


def tcp_send(namespace: int, rules: str) -> None:
    enter(namespace)
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, rules.encode())
        connection.connect((host_of(1), TCP_PORT))
        while True:
            connection.sendall(bytes(65_536))


def group_receive(place: str, received: "Synchronized[int]") -> None:
    with antiphon.blocking.connect(place) as session:
        session.join(GROUP)
        while True:
            with suppress(TimeoutError):
                for event in session.receive_many(1.0):
                    if isinstance(event, Message):
                        received.value += len(event.payload)


def group_send(place: str) -> None:
    with antiphon.blocking.connect(place) as session:
        while True:
            session.send_many(GROUP, [bytes(1_024)] * 50)


def start(stack: ExitStack, work: Callable[..., None], *words: object) -> None:
    """Do some work in a process of its own, until the end."""
    process = multiprocessing.Process(target=work, args=words, daemon=True)
    process.start()
    stack.callback(process.join)
    stack.callback(process.kill)


def start_daemons(stack: ExitStack, wires: list[Wire], directory: Path, congestion: str) -> list[str]:
    places = [f"unix:{directory}/d{number}.sock" for number in (1, 2)]
    sites = tuple(
        SiteConfig(f"site{number}", (DaemonConfig(f"d{number}", f"{host_of(number - 1)}:{PORT}", (place,)),))
        for number, place in enumerate(places, start=1)
    )
    link = LinkConfig(("site1", "site2"), congestion=congestion)  # type: ignore[arg-type]
    file = directory / "cluster.toml"
    file.write_text(as_toml(build(sites, (link,))))
    daemons = []
    for number, wire in enumerate(wires, start=1):
        words = [sys.executable, "-m", "antiphon", "daemon", "--config", str(file), "--name", f"d{number}"]
        log = stack.enter_context((directory / f"d{number}.log").open("w"))
        daemons.append(
            subprocess.Popen(words, stderr=log, preexec_fn=lambda wire=wire: enter(wire.namespace))  # type: ignore[misc]
        )
    stack.callback(stop_daemons, daemons)
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        with suppress(Exception):
            if all(len(ask_status(place)["view"]["members"]) == 2 for place in places):
                return places
        time.sleep(0.2)
    sys.exit("no figures: the daemons did not meet")


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    bytes_per_s = arguments.mbit * 1e6 / 8
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        wires = [lay(number, arguments.mtu) for number in (0, 1)]
        stack.callback(close_all, wires)
        queue_bytes = bytes_per_s * arguments.queue_ms / 1e3
        start(stack, carry, (wires[0].end, wires[1].end), bytes_per_s, arguments.rtt_ms / 2e3, queue_bytes)
        places = start_daemons(stack, wires, directory, arguments.congestion)
        ours: Synchronized[int] = multiprocessing.Value("q", 0)
        theirs: Synchronized[int] = multiprocessing.Value("q", 0)
        start(stack, group_receive, places[1], ours)
        start(stack, tcp_receive, wires[1].namespace, theirs)
        time.sleep(1.0)
        start(stack, group_send, places[0])
        start(stack, tcp_send, wires[0].namespace, arguments.tcp)
        time.sleep(WARM_S)
        before = (ours.value, theirs.value, time.monotonic())
        time.sleep(arguments.seconds)
        took_s = time.monotonic() - before[2]
        hop, tcp = (ours.value - before[0]) / took_s, (theirs.value - before[1]) / took_s
        link = ask_status(places[0])["links"][0]
    return {
        "hop_mb_per_s": hop / 1e6,
        "tcp_mb_per_s": tcp / 1e6,
        "line_mb_per_s": bytes_per_s / 1e6,
        "ratio": hop / tcp if tcp else None,
        "rtt_us": link["rtt_us"],
        "retransmitted": link["retransmitted"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--mbit", type=float, default=20.0)
    parser.add_argument("--rtt-ms", type=float, default=50.0)
    parser.add_argument("--queue-ms", type=float, default=50.0)
    parser.add_argument("--mtu", type=int, default=1_500, help="bytes of the largest packet of the line")
    parser.add_argument("--congestion", choices=("cubic", "reno"), default="cubic")
    parser.add_argument("--tcp", default="cubic", help="the rules of the kernel's flow")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if reason := why_not():
        sys.exit(f"skipped: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    row = measure(arguments)
    if arguments.json:
        print(json.dumps(row))
        return
    print(
        f"hop {row['hop_mb_per_s']:.2f} MB/s, tcp {row['tcp_mb_per_s']:.2f} MB/s of a line of"
        f" {row['line_mb_per_s']:.2f}; ratio {row['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
