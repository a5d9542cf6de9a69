"""Two machines in one LAN and no file anywhere: a daemon and a chat on each.

The machines are network namespaces; a thread carries every packet of one to the other.
"""

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from wires import Wire, close_all, enter, lay, why_not

reason = why_not()
pytestmark = pytest.mark.skipif(bool(reason), reason=reason or "possible here")

MTU_BYTES = 1_500
WITHIN_S = 60.0
"""From the first command to the first line that has come over."""


class Hub:
    """Carries what one wire gives to the other one, until it is closed."""

    def __init__(self, wires: list[Wire]) -> None:
        self._ends = [wire.end for wire in wires]
        self.drops: Callable[[int, bytes], bool] = lambda end, data: False
        """Whether a packet that comes from an end is lost."""
        self._is_over = False
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        while not self._is_over:
            for ready in select.select(self._ends, (), (), 0.1)[0]:
                data = os.read(ready, 65_536)
                if self.drops(self._ends.index(ready), data):
                    continue
                for other in self._ends:
                    if other != ready:
                        os.write(other, data)

    def close(self) -> None:
        self._is_over = True
        self._thread.join()


class Laptop:
    """A machine with its network, its folder for sockets and its shell."""

    def __init__(self, wire: Wire, folder: Path, stack: ExitStack) -> None:
        self._namespace = wire.namespace
        self._folder = folder
        self._stack = stack
        folder.mkdir()

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """A command in the background."""
        process = subprocess.Popen(
            [sys.executable, "-m", "antiphon", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / f"{words[0]}.log").open("w"),
            text=True,
            env={**os.environ, "TMPDIR": str(self._folder), "PYTHONUNBUFFERED": "1"},
            preexec_fn=lambda: enter(self._namespace),
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def log(self, word: str) -> str:
        """What a command has said on stderr."""
        return (self._folder / f"{word}.log").read_text()


def read_until(process: "subprocess.Popen[str]", text: str) -> None:
    """Read lines until one has the text."""
    assert process.stdout is not None
    deadline = time.monotonic() + WITHIN_S
    for line in process.stdout:
        if text in line:
            return
        assert time.monotonic() < deadline, text
    raise AssertionError(f"no line with {text!r}")


def wait_for(laptop: Laptop, text: str) -> None:
    """Until the daemon has logged the text."""
    deadline = time.monotonic() + WITHIN_S
    while text not in laptop.log("daemon"):
        assert time.monotonic() < deadline, laptop.log("daemon")
        time.sleep(0.1)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[tuple[list[Laptop], Hub]]:
    with ExitStack() as stack:
        wires = [lay(number, MTU_BYTES) for number in range(2)]
        stack.callback(close_all, wires)
        hub = Hub(wires)
        stack.callback(hub.close)
        yield [Laptop(wire, tmp_path / f"{number}", stack) for number, wire in enumerate(wires)], hub


@pytest.mark.timeout(150)
def test_two_laptops_chat_without_a_file(network: tuple[list[Laptop], Hub]) -> None:
    """`antiphon daemon --cluster tea` on each and `antiphon chat tea` on both, in less than a minute."""
    laptops, _ = network
    began = time.monotonic()
    for number, laptop in enumerate(laptops):
        laptop.start("daemon", "--cluster", "tea", "--insecure", "--name", f"laptop{number}")
    for laptop in laptops:
        wait_for(laptop, "with laptop")
    first = laptops[0].start("chat", "tea", "--name", "alice")
    read_until(first, "You are #alice#laptop0 in tea")
    second = laptops[1].start("chat", "tea", "--cluster", "tea", "--name", "bob")
    read_until(first, "join: #bob#laptop1 (2 here)")
    assert first.stdin is not None and second.stdin is not None
    second.stdin.write("is there any left?\n")
    second.stdin.flush()
    read_until(first, "#bob#laptop1: is there any left?")
    first.stdin.write("green or black?\n")
    first.stdin.flush()
    read_until(second, "#alice#laptop0: green or black?")
    assert time.monotonic() - began < WITHIN_S


@pytest.mark.timeout(150)
def test_a_chat_without_a_daemon_of_its_own_finds_one_in_the_lan(network: tuple[list[Laptop], Hub]) -> None:
    laptops, _ = network
    laptops[0].start("daemon", "--cluster", "tea", "--insecure", "--name", "laptop0")
    wait_for(laptops[0], "listens on")
    chat = laptops[1].start("chat", "tea", "--name", "bob")
    read_until(chat, "You are #bob#laptop0 in tea")


@pytest.mark.timeout(150)
def test_multicast_that_gets_through_in_one_direction_is_told(network: tuple[list[Laptop], Hub]) -> None:
    """The newcomer is heard, and hears no multicast of others: it says so, and what to do instead."""
    laptops, hub = network
    laptops[0].start("daemon", "--cluster", "tea", "--insecure", "--name", "laptop0")
    wait_for(laptops[0], "listens on")
    hub.drops = lambda end, data: end == 0 and data[16] == 239
    laptops[1].start("daemon", "--cluster", "tea", "--insecure", "--name", "laptop1")
    wait_for(laptops[1], "other daemons are running (laptop0), but multicast")
    assert "antiphon config example" in laptops[1].log("daemon")
