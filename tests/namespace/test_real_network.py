"""The wires and the switch: what gets from one namespace to another, and what does not."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from real_network import RealNetwork
from switch import Switch
from wires import Wire, close_all, enter, host_of, lay, why_not

from antiphon.config import LinkConfig
from antiphon.simulator.network import Delay, Duplicate, Loss, Network, Pair
from antiphon.simulator.plan import Daemon, Plan, Route, Site

reason = why_not()
pytestmark = pytest.mark.skipif(bool(reason), reason=reason or "possible here")

ROOT = Path(__file__).parents[2]
PORT = 4_000
PATIENCE_S = 60.0
"""Only to keep a failing test from hanging."""
LATENCY_US = 20_000
PLAN = Plan(
    scenario="two",
    seed=1,
    sites=(Site("s0", (Daemon("d0"),)), Site("s1", (Daemon("d1"), Daemon("d2")))),
    routes=(Route(LinkConfig(sites=("s0", "s1")), LATENCY_US),),
    clients=(),
    working_us=0,
)


def socket_in(wire: Wire, daemon: int) -> socket.socket:
    """A socket belongs to the namespace of the thread that made it, whoever uses it then."""

    def make() -> socket.socket:
        enter(wire.namespace)
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((host_of(daemon), PORT))
        made.settimeout(PATIENCE_S)
        return made

    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(make).result()


class Lines:
    """A socket in each namespace, and the network between them."""

    def __init__(self, network: RealNetwork, wires: list[Wire]) -> None:
        self.network = network
        self.sockets = [socket_in(wire, daemon) for daemon, wire in enumerate(wires)]

    def send(self, pair: Pair, data: bytes) -> None:
        sender, receiver = pair
        self.sockets[sender].sendto(data, (host_of(receiver), PORT))

    def gets(self, pair: Pair, data: bytes = b"hello") -> bool:
        """Whether a packet gets through; the switch says if it does not."""
        path = self.network.paths[pair]
        self.network.count()
        sent, lost = path.sent, path.lost
        self.send(pair, data)
        self.wait(lambda: path.sent > sent)
        if path.lost > lost:
            return False
        assert self.sockets[pair[1]].recvfrom(65_536) == (data, (host_of(pair[0]), PORT))
        return True

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            self.network.count()


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    plan_file = tmp_path / "plan.json"
    plan_file.write_text(PLAN.text())
    wires = [lay(daemon) for daemon in range(3)]
    network = RealNetwork(PLAN, wires, plan_file)
    made = Lines(network, wires)
    yield made
    for one in made.sockets:
        one.close()
    network.close()
    close_all(wires)


def test_packets_get_to_the_daemon_that_they_are_for(lines: Lines) -> None:
    assert all(lines.gets(pair) for pair in lines.network.paths)
    assert lines.gets((0, 1), bytes(8_900))


def test_a_train_arrives_packet_by_packet(lines: Lines) -> None:
    """Each of them has its own fate on the way, which a train in one piece would not."""
    sender = lines.sockets[0]
    sender.setsockopt(socket.IPPROTO_UDP, 103, 1_000)
    lines.send((0, 1), bytes(2_500))
    assert [len(lines.sockets[1].recv(65_536)) for _ in range(3)] == [1_000, 1_000, 500]


def test_a_path_takes_as_long_as_the_plan_says(lines: Lines) -> None:
    began_s = time.monotonic()
    assert lines.gets((0, 1)) and lines.gets((1, 0))
    assert time.monotonic() - began_s >= 2 * LATENCY_US / 1e6


def test_one_direction_alone_can_be_blocked(lines: Lines) -> None:
    lines.network.block((0, 1))
    assert not lines.gets((0, 1))
    assert lines.gets((1, 0)) and lines.gets((0, 2))
    lines.network.unblock((0, 1))
    assert lines.gets((0, 1))


def test_parts_are_apart_until_they_are_united(lines: Lines) -> None:
    lines.network.split([(0, 1), (2,)])
    assert [lines.gets(pair) for pair in ((0, 1), (0, 2), (2, 1), (1, 0))] == [True, False, False, True]
    assert lines.network.components((0, 1, 2)) == [(0, 1), (2,)]
    lines.network.unite()
    assert lines.gets((0, 2)) and lines.gets((2, 1))


def test_faults_come_and_go(lines: Lines) -> None:
    path = lines.network.paths[0, 1]
    path.suffer(Loss(1.0))
    assert not lines.gets((0, 1))
    path.recover(Loss(1.0))
    path.suffer(Duplicate(1.0))
    assert lines.gets((0, 1))
    assert lines.sockets[1].recv(65_536) == b"hello"
    path.suffer(Delay(100_000))
    lines.network.heal()
    assert lines.gets((0, 1))
    assert path.duplicated == 1


def test_what_the_network_has_no_path_for_is_lost() -> None:
    """Seen inside of a switch, which nobody else can ask for it."""
    ours, theirs = socket.socketpair()
    network = Network({})
    end, other = os.pipe()
    os.write(other, bytes((0x45, *bytes(15), 10, 77, 0, 2)))
    os.set_blocking(end, False)
    Switch(network, [end], theirs)._read(0)
    assert network.astray == 1
    for descriptor in (end, other):
        os.close(descriptor)
    ours.close()
    theirs.close()


# Nothing is left behind -----------------------------------------------------------------------------------


def processes_with(word: str) -> list[int]:
    """Those whose command line has this word, and who have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has just ended
            continue
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.mark.parametrize("last_word", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_run(last_word: signal.Signals) -> None:
    """Whichever way it ends: by Ctrl-C, or without any chance to clean up."""
    with TemporaryDirectory(prefix="outlived-") as folder:  # unlike pytest's, short enough for sockets in it
        _end_a_run(Path(folder), last_word)


def _end_a_run(folder: Path, last_word: signal.Signals) -> None:
    program = Path(__file__).with_name("real_run.py")
    plan_file = ROOT / "scenarios" / "once-each.json"
    run = subprocess.Popen(
        [sys.executable, str(program), str(plan_file)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(processes_with(str(folder))) >= 5)  # four daemons and the switch
        run.send_signal(last_word)
        run.wait(PATIENCE_S)
        wait_until(lambda: not processes_with(str(folder)))
    finally:
        run.kill()
        run.wait()
    if last_word is signal.SIGINT:
        assert not list(folder.iterdir())
