"""Edges on real processes: that everybody behind them gets everything, and what they cost the core.

    .venv/bin/python bench/edges.py crowd [--edges 30] [--clients 100] [--rate 10000] [--seconds 10]
    .venv/bin/python bench/edges.py core [--rounds 3] [--seconds 3] [--idle 30 100]

`crowd`: three daemons and so many edges on this machine, each edge attached to the three in turn, with
clients at the edges and one sender at the last daemon. After half of the time the first daemon is killed, to
which a third of the edges is attached. Told is how many clients got every message once and in order, whether
a gap was told, and the longest time in which a client got nothing, for those behind the killed daemon and for
others.

`core`: how many agreed messages of 1,000 bytes a second come from one daemon to the others, with no edge,
with idle ones, and with one edge for each site at which a client receives them; as ratios to no edge in the
same round. On a machine with few cores, edges and their clients take the daemons' time; so the processor time
that the busiest daemon takes for a message is compared, too: without edges, over that with them.

What clients get is checked by the sequences in the headers of bundles: these count the sender's messages.
"""

import argparse
import json
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

import antiphon.blocking
from antiphon.client import ask_status
from antiphon.config import Config, Settings
from antiphon.errors import AntiphonError
from antiphon.load.cluster import DaemonProcesses
from antiphon.load.crowd import dial
from antiphon.runtime.edge import EdgeDaemon
from antiphon.runtime.local import NEAR, local_config, with_edges
from antiphon.wire import bundle, frames

GROUP = "prices"
SITES = 3
TICK_S = 0.002
PATIENCE_S = 120.0
READ_BYTES = 1024 * 1024
SIZE_BYTES = {"crowd": 100, "core": 1_000}
EDGES_MAX = 512


# Clients --------------------------------------------------------------------------------------------------


class Client:
    """A bare session that checks what it gets by the headers."""

    def __init__(self, address: str, number: int) -> None:
        self.socket = dial(address)
        self.is_member = False
        self.last = 0
        self.faults = 0
        self.gaps = 0
        self.heard_s = 0.0
        self.pause_s = 0.0
        self._rest = b""
        self.socket.sendall(frames.encode_control(frames.Connect(frames.PROTOCOL_VERSION, f"c{number}")))
        self.socket.sendall(frames.encode_control(frames.Join(GROUP)))

    def read(self, buffer: memoryview) -> None:
        """Take what has come."""
        size = self.socket.recv_into(buffer)
        if not size:
            raise SystemExit("a client was disconnected")
        data = memoryview(self._rest + bytes(buffer[:size])) if self._rest else buffer[:size]
        whole, used, _ = frames.split(data)
        for kind, frame in whole:
            if kind == frames.FrameKind.BUNDLE:
                self._count(frame)
            else:
                value = frames.decode_from_daemon(frame)
                self.is_member = self.is_member or isinstance(value, frames.ViewFrame)
                self.gaps += isinstance(value, frames.GapFrame)
        self._rest = bytes(data[used:])

    def _count(self, frame: memoryview) -> None:
        header = bundle.parse(bytes(frame))
        now_s = time.monotonic()
        if self.heard_s:
            self.pause_s = max(self.pause_s, now_s - self.heard_s)
        self.heard_s = now_s
        self.faults += header.sequence != self.last + 1
        self.last = header.sequence + header.message_count - 1


def listen(addresses: Sequence[str]) -> None:
    """A process of clients: says "ready" when all are members, then what they have whenever it is asked."""
    poll = select.epoll()
    buffer = memoryview(bytearray(READ_BYTES))
    clients = [Client(address, number) for number, address in enumerate(addresses)]
    by_descriptor = {client.socket.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    is_ready = False
    while True:
        for descriptor, _ in poll.poll():
            client = by_descriptor.get(descriptor)
            if client is not None:
                client.read(buffer)
                continue
            word = sys.stdin.readline()
            if not word:
                return
            told = [
                {"last": one.last, "faults": one.faults, "gaps": one.gaps, "pause_s": one.pause_s}
                for one in clients
            ]
            print(json.dumps(told), flush=True)
            if word == "again\n":
                for client in clients:
                    client.pause_s, client.heard_s = 0.0, time.monotonic()
        if not is_ready and all(client.is_member for client in clients):
            is_ready = True
            print("ready", flush=True)


class Listeners:
    """The clients at these addresses, in a process of their own; gone with the stack."""

    def __init__(self, addresses: Sequence[str], stack: ExitStack) -> None:
        self._process = helper(["listen", *addresses], stack)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the clients did not become members"

    def told(self, word: str = "") -> list[dict[str, float]]:
        """What each client has by now; with the word "again", pauses are measured anew from here on."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        found: list[dict[str, float]] = json.loads(self._process.stdout.readline())
        return found

    def wait(self, last: int) -> list[dict[str, float]]:
        """The same, once all have come so far, or have had their time."""
        deadline_s = time.monotonic() + PATIENCE_S
        told = self.told()
        while any(one["last"] < last for one in told) and time.monotonic() < deadline_s:
            time.sleep(0.2)
            told = self.told()
        return told


def helper(words: Sequence[str], stack: ExitStack) -> "subprocess.Popen[str]":
    """This program in another role; it ends when its stdin does."""
    process = subprocess.Popen(
        [sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE_S)

    stack.callback(end)
    return process


# Edges ----------------------------------------------------------------------------------------------------


def house(folder: str, count: int, addresses: Sequence[str]) -> None:
    """Many edges in one process, for those that are idle; each attaches to all addresses in turn."""
    with ExitStack() as stack:
        for number in range(count):
            turned = [addresses[(number + step) % len(addresses)] for step in range(len(addresses))]
            stack.enter_context(EdgeDaemon(f"idle{number}", turned, [f"unix:{folder}/idle{number}.sock"]))
        for number in range(count):
            wait_attached(f"unix:{folder}/idle{number}.sock")
        print("ready", flush=True)
        sys.stdin.readline()


def wait_attached(address: str) -> None:
    """Until an edge is attached, and another attachment stands by."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            told = ask_status(address, groups=0, sessions=0)
            if told["attachment"] is not None and told["standby"] is not None:
                return
        except AntiphonError:
            pass
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the edge at {address} is not attached")
        time.sleep(0.05)


def start_edges(config: Config, folder: Path, stack: ExitStack) -> list[str]:
    """A process for each edge of the configuration; where their clients connect."""
    for edge in config.edges:
        words = ["daemon", "--config", str(folder / "cluster.toml"), "--name", edge.name]
        with (folder / f"{edge.name}.log").open("a") as log:
            process = subprocess.Popen([sys.executable, "-m", "antiphon", *words], stderr=log)
        stack.callback(process.wait)
        stack.callback(process.terminate)
    places = [edge.clients[0] for edge in config.edges]
    for place in places:
        wait_attached(place)
    return places


def cluster_of(folder: Path, edges: int) -> Config:
    """Three sites, and edges that attach to them in turn."""
    settings: Settings = structs.replace(NEAR, edges_max=EDGES_MAX)
    return with_edges(local_config(SITES, folder, settings=settings), folder, edges)


# A crowd that gets everything -----------------------------------------------------------------------------


def send_at(session: antiphon.blocking.Session, rate: int, seconds: float) -> int:
    """Send at a rate for a while; how many messages."""
    payload = bytes(SIZE_BYTES["crowd"])
    sent, begun_s = 0, time.monotonic()
    while (passed_s := time.monotonic() - begun_s) < seconds:
        due = int(passed_s * rate) - sent
        if due > 0:
            session.send_many(GROUP, [payload] * due)
            session.flush()
            sent += due
        time.sleep(TICK_S)
    return sent


def crowd(edges: int, clients: int, rate: int, seconds: float) -> dict[str, object]:
    """What all clients got, before and after an attachment was killed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-edges-")))
        config = cluster_of(folder, edges)
        core = DaemonProcesses(config, folder, stack)
        places = start_edges(config, folder, stack)
        listeners = Listeners([places[number % edges] for number in range(clients)], stack)
        sender = stack.enter_context(antiphon.blocking.connect(core.addresses[-1]))
        half = send_at(sender, rate, seconds / 2)
        before = listeners.wait(half)
        listeners.told("again")
        core.kill(0)
        last = half + send_at(sender, rate, seconds / 2)
        after = listeners.wait(last)
        struck = [one for number, one in enumerate(after) if (number % edges) % SITES == 0]
        spared = [one for number, one in enumerate(after) if (number % edges) % SITES]
        return {
            "edges": edges,
            "clients": clients,
            "messages": last,
            "complete_before": sum(one["last"] == half and not one["faults"] for one in before),
            "complete_after": sum(one["last"] == last and not one["faults"] for one in after),
            "gaps": sum(one["gaps"] for one in after),
            "longest_pause_before_s": round(max(one["pause_s"] for one in before), 3),
            "longest_pause_behind_the_killed_s": round(max(one["pause_s"] for one in struck), 3),
            "longest_pause_of_others_s": round(max((one["pause_s"] for one in spared), default=0.0), 3),
        }


# What the core loses --------------------------------------------------------------------------------------


@contextmanager
def idle_edges(count: int, folder: Path, addresses: Sequence[str]) -> Iterator[None]:
    """So many edges, without clients, are attached meanwhile."""
    with ExitStack() as stack:
        if count:
            process = helper(["house", str(folder), str(count), *addresses], stack)
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield


class Pace(NamedTuple):
    """How fast a core is."""

    per_s: float
    """Messages a second that come to all other daemons."""
    per_processor_s: float
    """Messages for each second of processor time of the busiest daemon."""


def throughput(daemons: DaemonProcesses, places: Sequence[str], seconds: float) -> Pace:
    """The pace of the core, while clients at `places` get all messages, too."""
    addresses = daemons.addresses
    payloads = [bytes(SIZE_BYTES["core"])] * 50
    with ExitStack() as stack:
        listeners = Listeners([*addresses[1:], *places], stack)
        sender = stack.enter_context(antiphon.blocking.connect(addresses[0]))
        before = daemons.processor_s()
        sent, begun_s = 0, time.monotonic()
        while time.monotonic() - begun_s < seconds:
            sender.send_many(GROUP, payloads)
            sent += len(payloads)
        sender.wait_accepted()
        took_s = time.monotonic() - begun_s
        listeners.wait(sent)
        taken_s = max(after - then for after, then in zip(daemons.processor_s(), before, strict=True))
        return Pace(sent / took_s, sent / taken_s)


def core(rounds: int, seconds: float, idle: Sequence[int]) -> dict[str, object]:
    """The throughput of the core without edges, and its ratio with edges, as medians of all rounds."""
    without: list[Pace] = []
    with_edges: dict[str, list[Pace]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-edges-")))
        config = cluster_of(folder, SITES)
        daemons = DaemonProcesses(config, folder, stack)
        throughput(daemons, [], seconds)  # what is slow at first is not counted
        for _ in range(rounds):
            without.append(throughput(daemons, [], seconds))
            for count in idle:
                with idle_edges(count, folder, daemons.addresses):
                    found = throughput(daemons, [], seconds)
                with_edges.setdefault(f"{count} idle edges", []).append(found)
            with ExitStack() as edges:
                places = start_edges(config, folder, edges)
                found = throughput(daemons, places, seconds)
            with_edges.setdefault("a receiving edge a site", []).append(found)
    return {
        "messages_per_s": round(statistics.median(one.per_s for one in without)),
        "ratios": {what: ratio(found, without, "per_s") for what, found in with_edges.items()},
        "ratios_of_processor_time": {
            what: ratio(found, without, "per_processor_s") for what, found in with_edges.items()
        },
    }


def ratio(found: Sequence[Pace], without: Sequence[Pace], what: str) -> float:
    """The median over all rounds of a figure with edges over the same without."""
    return round(
        statistics.median(
            getattr(one, what) / getattr(other, what) for one, other in zip(found, without, strict=True)
        ),
        3,
    )


def main() -> None:
    """Measure, and print what was found as JSON."""
    if sys.argv[1:2] == ["listen"]:
        listen(sys.argv[2:])
        return
    if sys.argv[1:2] == ["house"]:
        house(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("crowd", "core"))
    parser.add_argument("--edges", type=int, default=30)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, nargs="*", default=[30, 100])
    words = parser.parse_args()
    if words.what == "crowd":
        found = crowd(words.edges, words.clients, words.rate, words.seconds or 10.0)
    else:
        found = core(words.rounds, words.seconds or 3.0, words.idle)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
