"""Edges on machines of their own in one LAN, fed by multicast: packets are lost, and repaired there.

The machines are network namespaces; a thread carries every packet to the machine for which it is, and
multicasts to all others.
"""

import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from test_two_laptops import Laptop
from wires import Wire, close_all, daemon_at, host_of, lay, why_not

from antiphon import Gap, Message, blocking
from antiphon.client import ask_status
from antiphon.errors import AntiphonError
from antiphon.wire import casts

reason = why_not()
pytestmark = [
    pytest.mark.skipif(bool(reason), reason=reason or "possible here"),
    pytest.mark.timeout(150),
]

MTU_BYTES = 1_500
PATIENCE_S = 30.0
CHILDREN = ("e1", "e2", "e3")
CONFIG = """
[security]
insecure = true

[[site]]
name = "s1"

[[site.daemon]]
name = "d1"
address = "{host}:4810"
clients = ["unix:{folder}/d1.sock", "tcp:{host}:4811"]
"""


class Lan:
    """Carries packets between machines."""

    def __init__(self, wires: list[Wire]) -> None:
        self._ends = [wire.end for wire in wires]
        self._random = Random(7)
        self.loss = 0.0
        """Of multicasts, to each machine by itself."""
        self.deaf: set[int] = set()
        """Machines to which no multicasts come."""
        self.pieces: Counter[int] = Counter()
        """By machine, the pieces of casts that it has sent, repairs left out."""
        self.lost = 0
        self.tcp_bytes: Counter[int] = Counter()
        self._is_over = False
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        while not self._is_over:
            for ready in select.select(self._ends, (), (), 0.1)[0]:
                data = os.read(ready, 65_536)
                sender = self._ends.index(ready)
                if data[16] == 239:
                    self._multicast(sender, data)
                elif data[0] >> 4 == 4 and 0 <= daemon_at(data[16:20]) < len(self._ends):
                    self.tcp_bytes[sender] += len(data)
                    os.write(self._ends[daemon_at(data[16:20])], data)

    def _multicast(self, sender: int, data: bytes) -> None:
        if is_piece(data[28:]):
            self.pieces[sender] += 1
        for receiver, end in enumerate(self._ends):
            if receiver == sender or receiver in self.deaf:
                continue
            if self._random.random() < self.loss:
                self.lost += 1
            else:
                os.write(end, data)

    def close(self) -> None:
        self._is_over = True
        self._thread.join()


def is_piece(data: bytes) -> bool:
    return data[:3] == bytes((casts.MAGIC, casts.VERSION, casts.Kind.PIECE))


class Machines:
    """A daemon, an edge that is attached to it, and three behind that one, each on a machine."""

    def __init__(self, wires: list[Wire], folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._laptops = [Laptop(wire, folder / f"{number}", stack) for number, wire in enumerate(wires)]
        file = folder / "cluster.toml"
        file.write_text(CONFIG.format(host=host_of(0), folder=folder))
        self._laptops[0].start("daemon", "--config", str(file), "--name", "d1")
        wait_until(lambda: self._answers("d1"))
        self._start(1, "hub", host_of(0))
        for number, name in enumerate(CHILDREN, 2):
            self._start(number, name, host_of(1))

    def _start(self, number: int, name: str, attachment: str) -> None:
        self._laptops[number].start(
            "daemon", "--edge", "--insecure", "--stay", "--name", name, "--attach", f"tcp:{attachment}:4811",
            "--clients", self.place(name), "--clients", f"tcp:{host_of(number)}:4811",
        )  # fmt: skip
        wait_until(lambda: self._answers(name) and self.told(name)["attachment"] is not None)

    def _answers(self, name: str) -> bool:
        try:
            self.told(name)
        except (AntiphonError, OSError):
            return False
        return True

    def place(self, name: str) -> str:
        return f"unix:{self._folder}/{name}.sock"

    def told(self, name: str) -> dict[str, Any]:
        return ask_status(self.place(name), PATIENCE_S)

    def heard(self, name: str) -> dict[str, Any]:
        """What a child has heard."""
        found: dict[str, Any] = self.told(name)["multicast"]["heard"]
        return found

    def hear(self, count: int) -> None:
        """Until so many children are known to hear multicasts."""
        wait_until(lambda: self.told("hub")["multicast"]["own"]["edges"] == count)

    def members(self) -> list[blocking.Session]:
        """One at each child."""
        found = [self._stack.enter_context(blocking.connect(self.place(name))) for name in CHILDREN]
        for member in found:
            member.join("tea")
        return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def send(place: str, numbers: range) -> None:
    """Messages with these numbers, ten in a bundle."""
    with blocking.connect(place) as sender:
        for first in numbers[::10]:
            sender.send_many(
                "tea", [b"%d" % number for number in range(first, min(first + 10, numbers.stop))]
            )
            time.sleep(0.002)
        sender.wait_accepted()


def assert_got(members: list[blocking.Session], count: int) -> None:
    """Every member gets the numbers up to this one, and no gap is told."""
    for member in members:
        found: list[int] = []
        while len(found) < count:
            event = member.receive(timeout_s=PATIENCE_S)
            assert not isinstance(event, Gap), event
            if isinstance(event, Message):
                found.append(int(event.payload))
        assert found == list(range(count))


@pytest.fixture
def lan(tmp_path: Path) -> Iterator[tuple[Machines, Lan]]:
    with ExitStack() as stack:
        wires = [lay(number, MTU_BYTES) for number in range(2 + len(CHILDREN))]
        stack.callback(close_all, wires)
        carrier = Lan(wires)
        stack.callback(carrier.close)
        yield Machines(wires, tmp_path, stack), carrier


@pytest.mark.long
def test_one_copy_is_enough_for_a_lan(lan: tuple[Machines, Lan]) -> None:
    machines, carrier = lan
    members = machines.members()
    machines.hear(3)
    carrier.tcp_bytes.clear()
    send(machines.place("d1"), range(3_000))
    assert_got(members, 3_000)
    assert carrier.pieces[1] > 10
    assert carrier.tcp_bytes[1] < carrier.tcp_bytes[0], "one copy from the core, none over connections"


def test_losses_in_a_lan_are_repaired_there(lan: tuple[Machines, Lan]) -> None:
    machines, carrier = lan
    members = machines.members()
    machines.hear(3)
    carrier.loss = 0.1
    send(machines.place("d1"), range(5_000))
    assert_got(members, 5_000)
    told = [machines.heard(name) for name in CHILDREN]
    assert carrier.lost and all(one["missed"] for one in told)
    requests, repairs = (sum(one.get(what, 0) for one in told) for what in ("requests", "repairs"))
    assert requests and repairs + machines.told("hub")["multicast"]["own"]["repairs"]
    assert sum(one.get("escalated", 0) for one in told) < sum(one["missed"] for one in told) / 4
    assert all(machines.told(name)["flow"]["gaps"] == 0 for name in CHILDREN)


@pytest.mark.long
def test_a_machine_that_multicasts_do_not_reach_is_fed_over_its_connection(
    lan: tuple[Machines, Lan],
) -> None:
    machines, carrier = lan
    members = machines.members()
    machines.hear(3)
    send(machines.place("d1"), range(1_000))
    carrier.deaf.add(3)
    send(machines.place("d1"), range(1_000, 2_000))
    machines.hear(2)
    send(machines.place("d1"), range(2_000, 3_000))
    assert_got(members, 3_000)
    by_multicast = {edge["name"]: edge["by_multicast"] for edge in machines.told("hub")["edges"]}
    assert by_multicast == {"e1": True, "e2": False, "e3": True}
