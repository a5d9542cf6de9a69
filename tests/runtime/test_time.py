"""Real daemons tell the time: bounds hold against the clock of the machine that they share. (NAVTECH 3)"""

import asyncio
import time
from pathlib import Path

import pytest
from local_cluster import Cluster
from msgspec import structs
from raw_client import status, wait_until

import antiphon
from antiphon.config import Config, Emulation, LinkConfig, SiteConfig, build
from antiphon.errors import NoTime
from antiphon.runtime.local import local_config

ROUNDS = 20


def two_sites(directory: Path, reference: str | None) -> Config:
    """Two daemons at one site, one at another that is 3 ms away."""
    daemons = tuple(
        structs.replace(daemon, time="reference" if daemon.name == reference else None)
        for daemon in local_config(1, directory, daemons=3).sites[0].daemon
    )
    link = LinkConfig(sites=("near", "far"), emulate=Emulation(delay_ms=3.0, jitter_ms=0.5))
    return build((SiteConfig("near", daemons[:2]), SiteConfig("far", daemons[2:])), (link,))


def test_the_bound_holds_against_the_clock_of_the_machine(cluster: Cluster, tmp_path: Path) -> None:
    daemons = cluster.start(two_sites(tmp_path, "d2"))
    for daemon in daemons:
        with antiphon.blocking.connect(daemon.places[0]) as session:
            before_ns = 0
            for _ in range(ROUNDS):
                earliest_ns = time.time_ns()
                now = session.now(timeout_s=10)
                latest_ns = time.time_ns()
                assert now.basis == "reference" and now.source == "d2"
                assert now.time_ns + now.error_ns >= earliest_ns
                assert now.time_ns - now.error_ns <= latest_ns
                assert now.time_ns >= before_ns
                assert abs(now.time_ns - latest_ns) <= now.error_ns + latest_ns - earliest_ns
                before_ns = now.time_ns
                time.sleep(0.02)
            assert now.error_s < 0.2, "a bound that says nothing holds always"
    shown = status(daemons[2].places[0])["time"]
    assert (shown["basis"], shown["source"], shown["is_reference"]) == ("reference", "d2", False)
    assert abs(shown["offset_us"]) <= shown["error_us"]
    assert status(daemons[1].places[0])["time"]["is_trusted"] is True


def test_without_a_reference_time_is_internal_once_a_session_asks(cluster: Cluster, tmp_path: Path) -> None:
    daemons = cluster.start(two_sites(tmp_path, None))
    assert status(daemons[2].places[0])["time"]["basis"] == "unknown", "nobody has asked"
    with (
        antiphon.blocking.connect(daemons[0].places[0]) as near,
        antiphon.blocking.connect(daemons[2].places[0]) as far,
    ):
        wait_until(lambda: far.now(timeout_s=10).source == "d1")
        for _ in range(ROUNDS):
            began_ns = time.monotonic_ns()
            one, other = near.now(), far.now()
            took_ns = time.monotonic_ns() - began_ns
            assert one.basis == other.basis == "internal"
            assert abs(one.time_ns - other.time_ns) <= one.error_ns + other.error_ns + took_ns


def test_a_daemon_that_has_heard_of_no_reference_says_so(cluster: Cluster, tmp_path: Path) -> None:
    config = two_sites(tmp_path, "d2")
    daemon = cluster.add(config, "d1")
    connected = antiphon.blocking.connect(daemon.places[0])
    with connected as session, pytest.raises(NoTime, match="does not know the time yet"):
        session.now(timeout_s=0.1)


def test_asyncio_sessions_ask_many_at_a_time(cluster: Cluster) -> None:
    place = cluster.start()[0].places[0]

    async def ask() -> list[antiphon.Time]:
        async with await antiphon.connect(place) as session:
            return await asyncio.gather(*(session.now() for _ in range(50)))

    found = asyncio.run(ask())
    assert len(found) == 50
    for now in found:
        assert (now.basis, now.source) == ("internal", "d1")
        assert abs(now.time_ns - time.time_ns()) < 60e9, "it begins near the time of the machine"


def test_an_embedded_daemon_knows_the_time() -> None:
    with antiphon.blocking.connect(embedded=True) as session:
        first, second = session.now(), session.now()
    assert first.time_ns <= second.time_ns
    assert first.seconds == pytest.approx(time.time(), abs=60)
