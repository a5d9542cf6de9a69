"""Daemons without a file, each in a process of its own, that find each other by multicast over loopback.

(RMP 3.1)
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from raw_client import wait_until

import antiphon
import antiphon.blocking
from antiphon.client import ask_status
from antiphon.errors import AntiphonError, ConnectError, UsageError
from antiphon.runtime import lan
from antiphon.runtime.cluster_daemon import ClusterDaemon
from antiphon.runtime.discovery import Discovering, socket_path
from antiphon.types import Message
from antiphon.wire.discovery import group_of

LOOPBACK = "127.0.0.1"
TEA, COFFEE, FAR_TEA, SAME, PARTS, JUNK = (
    f"{name}-{os.getpid()}" for name in ("tea", "coffee", "far-tea", "same", "parts", "junk")
)
"""Other runs on this machine have clusters of their own."""


def why_not() -> str:
    """What keeps multicast over loopback from working here; empty if nothing does."""
    group = group_of("why-not")
    try:
        with lan.receiver(group, LOOPBACK) as joined, lan.sender(LOOPBACK) as sending:
            joined.settimeout(1.0)
            sending.sendto(b"?", group)
            joined.recv(10)
    except OSError as error:
        return f"needs multicast over loopback: {error}"
    return ""


reason = why_not()
pytestmark = pytest.mark.skipif(bool(reason), reason=reason or "possible here")


class Processes:
    """Daemons of clusters without a file, started by the command."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.started = 0

    def start(self, cluster: str, name: str) -> "subprocess.Popen[bytes]":
        words = ["daemon", "--cluster", cluster, "--name", name, "--interface", LOOPBACK]
        self.started += 1
        with (self.folder / f"{self.started}-{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "antiphon", *words],
                stderr=log,
                env=os.environ | {"TMPDIR": str(self.folder)},
            )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ExitStack() as stack:
        made = Processes(tmp_path, stack)
        yield made
        print(made.logs())  # shown for a test that fails


def status_of(cluster: str, name: str) -> dict[str, Any] | None:
    try:
        return ask_status(f"unix:{socket_path(cluster, name)}", 2.0)
    except AntiphonError:
        return None


def wait_together(cluster: str, names: set[str]) -> None:
    """Until each of these daemons is in a view of exactly these."""

    def are_together() -> bool:
        found = [status_of(cluster, name) for name in names]
        return all(
            one is not None and set(one["view"]["members"]) == names and one["state"] == "op" for one in found
        )

    wait_until(are_together)


class Talk:
    """A session that sends all the time to a group of which it is a member, and another one that hears it."""

    def __init__(self, cluster: str, at: tuple[str, str]) -> None:
        speaking, hearing = (f"unix:{socket_path(cluster, name)}" for name in at)
        self.sent = 0
        self.heard: list[bytes] = []
        self._is_over = threading.Event()
        self._ready = threading.Event()
        self._threads = [
            threading.Thread(target=self._hear, args=(hearing,)),
            threading.Thread(target=self._speak, args=(speaking,)),
        ]
        for thread in self._threads:
            thread.start()

    def _hear(self, address: str) -> None:
        with antiphon.blocking.connect(address) as session:
            session.join("tea-time")
            self._ready.set()
            for event in session:
                if isinstance(event, Message):
                    self.heard.append(event.payload)
                    if event.payload == b"over":
                        return

    def _speak(self, address: str) -> None:
        self._ready.wait(20)
        with antiphon.blocking.connect(address) as session:
            while not self._is_over.is_set():
                session.send("tea-time", str(self.sent).encode())
                self.sent += 1
                time.sleep(0.01)
            session.send("tea-time", b"over")

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


def test_daemons_find_each_other_and_come_and_go(processes: Processes) -> None:
    """Three daemons are one view; one is killed and started again, a fourth comes, and messages flow all the
    time; a cluster of another name does not mix with them."""
    running = {name: processes.start(TEA, name) for name in ("oslo", "lima", "perth")}
    processes.start(COFFEE, "oslo")
    wait_together(TEA, {"oslo", "lima", "perth"})
    wait_together(COFFEE, {"oslo"})
    with antiphon.blocking.connect(cluster=TEA) as session:
        assert session.name.rpartition("#")[2] in running
    before = status_of(TEA, "perth")
    assert before is not None
    talk = Talk(TEA, ("oslo", "lima"))
    running["perth"].kill()
    running["perth"].wait()
    wait_together(TEA, {"oslo", "lima"})
    processes.start(TEA, "perth")
    wait_together(TEA, {"oslo", "lima", "perth"})
    again = status_of(TEA, "perth")
    assert again is not None
    numbers = [one["runtime"]["discovery"]["number"] for one in (before, again)]
    assert numbers[0] == numbers[1]
    processes.start(TEA, "rome")
    wait_together(TEA, {"oslo", "lima", "perth", "rome"})
    talk.end()
    assert talk.heard == [*(str(number).encode() for number in range(talk.sent)), b"over"]
    rows = (status_of(TEA, "oslo") or {})["runtime"]["discovery"]["roster"]
    assert {row["name"] for row in rows} == {"oslo", "lima", "perth", "rome"}
    assert len({row["number"] for row in rows}) == 4
    assert set((status_of(COFFEE, "oslo") or {})["daemons"]) == {"oslo"}
    assert "Traceback" not in processes.logs()


def test_one_that_leaves_is_remembered_and_not_missed(processes: Processes) -> None:
    for name in ("oslo", "lima"):
        leaver = processes.start(TEA, name)
    wait_together(TEA, {"oslo", "lima"})
    leaver.terminate()
    leaver.wait()
    wait_together(TEA, {"oslo"})
    seen = status_of(TEA, "oslo")
    assert seen is not None
    assert seen["daemons"] == ["oslo"]
    gone = {row["name"]: row for row in seen["runtime"]["discovery"]["roster"]}["lima"]
    assert gone["has_left"] and not gone["is_there"]


async def test_a_client_finds_a_daemon_of_this_lan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a unix socket that it could see, by a multicast question."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ClusterDaemon(FAR_TEA, name="oslo", interface=LOOPBACK) as daemon:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
        async with antiphon.connect(cluster=FAR_TEA, name="alice") as session:
            assert session.name == "#alice#oslo"
            assert session.address in daemon.places
            assert session.address.startswith("tcp:")


def test_a_cluster_that_is_not_there_is_told_in_one_line() -> None:
    with pytest.raises(ConnectError, match="no daemon of cluster nobodys-tea answers at 239"):
        antiphon.blocking.connect(cluster="nobodys-tea", timeout_s=0.5)
    with pytest.raises(UsageError, match="an address or a cluster"):
        antiphon.connect("unix:/tmp/x", cluster=TEA)
    with pytest.raises(UsageError, match="cluster name"):
        antiphon.connect(cluster="#tea")


def test_two_daemons_of_one_name_have_different_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        ClusterDaemon(SAME, name="host", interface=LOOPBACK) as one,
        ClusterDaemon(SAME, name="host", interface=LOOPBACK) as other,
    ):
        assert {one.name, other.name} == {"host", "host-2"}
        assert {one.number, other.number} == {0, 1}


def test_a_daemon_that_loses_its_number_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts of a LAN have given one number twice, and meet: the older claim keeps it, the clients of the
    other daemon connect again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ClusterDaemon(PARTS, name="lima", interface=LOOPBACK) as daemon:
        session = antiphon.blocking.connect(cluster=PARTS, name="alice", reconnect=True)
        session.join("tea")
        other = Discovering(PARTS, wish="oslo", interface=LOOPBACK)
        try:
            older = other.machine
            older._claim_us = 1
            older._enter(older.state.__class__.BEARS, daemon.number, 0)
            older.name = "oslo"
            wait_until(lambda: (_serve(other), daemon.number not in (None, older.number))[1])
            for event in session:
                if isinstance(event, antiphon.Reconnected):
                    break
            assert session.name == "#alice#lima"
            assert daemon.number == 1
        finally:
            other.close()
            session.close()


def _serve(discovering: Discovering) -> None:
    """Let discovery go on by hand."""
    now_us = time.monotonic_ns() // 1_000
    discovering.timeout(now_us)
    discovering.drain()


def test_junk_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ClusterDaemon(JUNK, name="lima", interface=LOOPBACK), lan.sender(LOOPBACK) as sending:
        for data in (b"", b"x", b"\xa9\x07" + bytes(40), b"\xa9\x01" + bytes(40), bytes(2_000)):
            sending.sendto(data, group_of(JUNK))

        def are_counted() -> bool:
            counted = (status_of(JUNK, "lima") or {})["runtime"]["discovery"]["counters"]
            reasons = ("too short", "bad magic", "unknown version", "bad checksum", "too long")
            return all(counted.get(f"discovery: {reason}") for reason in reasons)

        sending.sendto(b"y" * 40, group_of(JUNK))
        wait_until(are_counted)
