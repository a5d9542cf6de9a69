"""Real daemons and a packet that no daemon has sent: the standstill is told, logged and ended."""

import logging
import threading

import pytest
from local_cluster import Cluster, wait_formed
from msgspec import structs
from raw_client import RawClient, status, wait_until

from antiphon.cli.status import faults_of
from antiphon.config import Settings
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.loop import now_us
from antiphon.short_views import short_view
from antiphon.simulator.hostile import usurping

STALL_MS = 8_000.0
SETTINGS = Settings(membership="lan", suspect_ms=2_000.0, recovery_ms=4_000.0, stall_ms=STALL_MS)


LARGE = bytes(200_000)
"""It takes several packets, however large they are, so that the rest of it comes even if it shares the first
one with others."""


def usurp(daemon: Daemon, sender: int) -> None:
    """A packet takes the place of the next one of a neighbour; returns when it has."""
    taken = threading.Event()

    def take() -> None:
        data = usurping(daemon._node, sender)
        assert data is not None
        daemon._node.receive(memoryview(data), len(data), now_us())
        taken.set()

    assert daemon._loop is not None
    daemon._loop.call_soon_threadsafe(take)
    assert taken.wait(60)


def test_a_standstill_is_told_logged_and_ended(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.daemon")
    config = local_config(3, cluster.directory)
    daemons = cluster.start(structs.replace(config, settings=SETTINGS))
    places = [daemon.places[0] for daemon in daemons]
    assert all(status(place)["flow"]["is_flowing"] for place in places)
    before = status(places[1])["view"]["id"]
    with RawClient(places[0], "ada") as sender, RawClient(places[1], "bob") as receiver:
        sender.join("tea")
        receiver.join("tea")
        wait_until(lambda: all(daemon._node.is_quiet for daemon in daemons))  # no other packet is under way
        usurp(daemons[1], sender=0)
        sender.send("tea", LARGE)
        sender.send("tea", b"behind it")
        wait_until(lambda: not status(places[1])["flow"]["is_flowing"])
        told = status(places[1])
        assert told["view"]["id"] == before
        assert told["flow"]["waits_for"] == ["d1"]
        assert any(fault.startswith("messages do not flow, for ") for fault in faults_of(told))
        wait_until(lambda: any(record["reason"] == "stalled" for record in status(places[1])["rounds"]))
        wait_formed(places, config.daemon_names)
        assert [message.payload for message in receiver.messages(2)] == [LARGE, b"behind it"]
        sender.send("tea", b"and on")
        assert receiver.messages(1)[0].payload == b"and on"
    after = status(places[1])["view"]["id"]
    wait_until(
        lambda: any(
            f"daemon d2 is in view {short_view(after)} with d1, d2, d3" in line for line in caplog.messages
        )
    )
    lines = caplog.messages
    assert any("daemon d2: messages do not flow for" in line and "waiting for d1" in line for line in lines)
    assert any(f"daemon d2 has lost view {short_view(before)}: no progress for" in line for line in lines)
