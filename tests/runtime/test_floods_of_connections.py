"""Floods of connections and half-open ones: bounded memory and processor time, and others unharmed."""

import multiprocessing
import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from guarded import Authority, with_tls
from local_cluster import Cluster
from process_cluster import ProcessCluster
from raw_client import status

import antiphon
from antiphon.blocking import connect
from antiphon.runtime import client_limits
from antiphon.runtime.local import local_config

FLOOD_S = 4.0
SLOWEST_S = 1.0


def flood(kind: str, host: str, port: int, roots: str, told: Connection) -> None:
    """In a process of its own: connections as fast as they can be made; how many came to be."""
    context = ssl.create_default_context(cafile=roots)
    kept: list[socket.socket] = []
    count = 0
    until_s = time.monotonic() + FLOOD_S
    while time.monotonic() < until_s:
        with suppress(OSError):
            one = socket.create_connection((host, port), timeout=2)
            count += 1
            if kind == "handshakes":
                with one, context.wrap_socket(one, server_hostname=host):
                    continue
            if kind == "begun":
                one.sendall(bytes.fromhex("1603010200010001fc0303") + os.urandom(50))
            elif kind == "garbage":
                one.sendall(os.urandom(2_000))
            kept.append(one)
            if len(kept) > 800:
                kept.pop(0).close()
    told.send(count)


@contextmanager
def under_fire(kind: str, place: str, roots: str) -> Iterator[Connection]:
    host, _, port = place.split(":", 1)[1].rpartition(":")
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=flood, args=(kind, host, int(port), roots, theirs))
    process.start()
    try:
        yield ours
    finally:
        process.join(30)
        if process.is_alive():
            process.kill()


@pytest.mark.parametrize(
    "kind",
    ["handshakes", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("silent", "begun", "garbage"))],
)
def test_a_flood_of_connections_harms_nobody(tmp_path: Path, kind: str) -> None:
    papers = Authority(tmp_path)
    config = with_tls(local_config(1, tmp_path, tcp=True), papers)
    with ExitStack() as stack:
        ProcessCluster(config, tmp_path, stack)
        place, tls = config.sites[0].daemon[0].clients
        before = status(place)["runtime"]
        size_before = resident_bytes(before["pid"])
        with (
            connect(place) as session,
            connect(tls, tls=papers.roots) as sealed,
            under_fire(kind, tls, papers.roots) as told,
        ):
            session.join("tea")
            slowest_s, rounds = 0.0, 0
            while not told.poll():
                began_s = time.monotonic()
                (session, sealed)[rounds % 2].send(session.name, b"?")
                while not isinstance(session.receive(timeout_s=20), antiphon.Message):
                    pass
                slowest_s = max(slowest_s, time.monotonic() - began_s)
                rounds += 1
            made = told.recv()
            found = status(place)["runtime"]
            size_after = resident_bytes(found["pid"])
        accepted = found["clients"]["accepted"] - before["clients"]["accepted"]
        assert made > 200, "that was no flood"
        assert slowest_s < SLOWEST_S, (slowest_s, rounds)
        assert rounds > 100
        assert accepted <= (FLOOD_S + 3) * client_limits.HANDSHAKES_PER_S + 50, (accepted, made)
        assert size_after - size_before < 64 * 1024 * 1024


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_place_without_tls_does_not_wait_for_one_with_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(client_limits, "HANDSHAKES_PER_S", 5)
    papers = Authority(tmp_path_factory.mktemp("papers"))
    (daemon,) = cluster.start(with_tls(local_config(1, cluster.directory, tcp=True), papers))
    began_s = time.monotonic()
    opened: list[float] = []

    def open_one() -> None:
        with connect(daemon.places[1], tls=papers.roots):
            opened.append(time.monotonic() - began_s)

    threads = [threading.Thread(target=open_one) for _ in range(15)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        with connect(daemon.places[0]):
            pass
    plain_s = time.monotonic() - began_s
    for thread in threads:
        thread.join()
    assert len(opened) == 15 and max(opened) > 1.5, "they were not held back"
    assert plain_s < 1.5
    assert status(daemon.places[0])["runtime"]["clients"]["handshake_rests"] > 0


HALF_OPEN = 1_500


def test_half_open_connections_do_not_delay_a_newcomer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ProcessCluster(config := local_config(1, tmp_path, tcp=True), tmp_path, stack)
        unix, tcp = config.sites[0].daemon[0].clients
        host, _, port = tcp.removeprefix("tcp:").rpartition(":")
        half_open = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            for _ in range(HALF_OPEN)
        ]
        with connect(tcp) as session:
            session.join("tea")
        found = status(unix)["runtime"]["clients"]
        assert found["accepted"] >= HALF_OPEN
        assert found["crowded_out"] == 0, "the newcomer had to wait until another one was closed"
        for one in half_open:
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)


def test_half_open_handshakes_keep_only_newcomers_for_tls_waiting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(client_limits, "TLS_GREETINGS_MAX", 3)
    monkeypatch.setattr(client_limits, "GREETING_GRACE_US", 2_000_000)
    papers = Authority(tmp_path_factory.mktemp("papers"))
    (daemon,) = cluster.start(with_tls(local_config(1, cluster.directory, tcp=True), papers))
    plain, tls = daemon.places
    host, _, port = tls.removeprefix("tls:").rpartition(":")
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
        for _ in range(10):
            with connect(plain):
                pass
        clients = status(plain)["runtime"]["clients"]
        assert clients["crowded_out"] == 0, (
            "all of that took more than two seconds, or plain clients make room"
        )
        with connect(tls, tls=papers.roots) as sealed:
            sealed.join("tea")
        assert status(plain)["runtime"]["clients"]["crowded_out"] >= 2


def test_connections_without_a_session_leave_descriptors_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    assert client_limits.greetings_max() == 256
