"""Where Spread's clients meet a limit or an address of their daemon: it is never met with silence."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_cluster import Cluster, own_address, with_spread
from msgspec import structs
from raw_client import status, wait_until
from spread_client import AGREED, BY_DISCONNECT, BY_JOIN, VIEW, SpreadClient

import antiphon.blocking
from antiphon import limits
from antiphon.client import ask_status
from antiphon.config import Security
from antiphon.errors import UsageError
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config

A_FEW = 3
USUAL = 12_000
"""Groups of one session, as users of Spread have them."""


@pytest.fixture
def daemon(cluster: Cluster) -> Daemon:
    (only,) = cluster.start(with_spread(local_config(1, cluster.directory), cluster.directory))
    return only


@pytest.fixture
def place(daemon: Daemon) -> str:
    return daemon.spread_places[0]


@pytest.fixture
def few_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(limits, "GROUPS_PER_SESSION_MAX", A_FEW)
    yield


@pytest.mark.usefixtures("few_groups")
def test_one_join_too_many_is_refused_by_our_library_with_the_reason(daemon: Daemon) -> None:
    with antiphon.blocking.connect(daemon.places[0], name="ann") as ann:
        for number in range(A_FEW):
            ann.join(f"g{number}")
        with pytest.raises(UsageError, match=f"at most {A_FEW} groups"):
            ann.join("one-more")
        ann.leave("g0")
        ann.join("one-more")
        assert status(daemon.places[0])["groups"].keys() == {"g1", "g2", "one-more"}


@pytest.mark.usefixtures("few_groups")
def test_one_join_too_many_ends_the_connection_of_a_spread_client(place: str, daemon: Daemon) -> None:
    with SpreadClient(place, "ann") as ann, SpreadClient(place, "bob") as bob:
        bob.join("g0")
        assert bob.receive().kind == VIEW | BY_JOIN
        for number in range(A_FEW):
            ann.join(f"g{number}")
            assert ann.receive().kind == VIEW | BY_JOIN
        assert bob.receive().kind == VIEW | BY_JOIN
        ann.join("one-more")
        assert ann.is_closed()
        assert bob.receive().kind == VIEW | BY_DISCONNECT
        assert "one-more" not in status(daemon.places[0])["groups"]


def test_a_spread_client_may_be_in_as_many_groups_as_at_spreads_daemon(place: str, daemon: Daemon) -> None:
    with SpreadClient(place, "ann", membership=False) as ann:
        for number in range(USUAL):
            ann.join(f"g{number}")
        ann.multicast(AGREED, f"g{USUAL - 1}", body=b"here, too")
        assert ann.receive().body == b"here, too"
        assert len(ask_status(daemon.places[0])["groups"]) == USUAL


def test_a_destination_that_is_not_ascii_is_left_out(place: str) -> None:
    with SpreadClient(place, "ann") as ann:
        ann.join("tea")
        assert ann.receive().kind == VIEW | BY_JOIN
        ann.multicast(AGREED, "caf\N{LATIN SMALL LETTER E WITH ACUTE}", body=b"to nobody")
        ann.multicast(AGREED, "\N{LATIN SMALL LETTER Y WITH DIAERESIS}", "tea", body=b"to one of two")
        assert ann.receive().body == b"to one of two"
        ann.multicast(AGREED, "tea", body=b"and on")
        assert ann.receive().body == b"and on"


def free_port(host: str) -> int:
    """A TCP port that is free at an address and at localhost."""
    while True:
        with socket.create_server((host, 0)) as there:
            port = int(there.getsockname()[1])
            try:
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            return port


def test_a_port_at_an_address_of_the_lan_serves_localhost_too(cluster: Cluster) -> None:
    host = own_address()
    port = free_port(host)
    config = local_config(1, cluster.directory)
    (site,) = config.sites
    (only,) = site.daemon
    inside = structs.replace(only, address=f"{host}:{only.address.rpartition(':')[2]}", spread=port)
    sites = (structs.replace(site, daemon=(inside,)),)
    (daemon,) = cluster.start(structs.replace(config, sites=sites, security=Security(insecure=True)))
    assert Path(f"/tmp/{port}").exists()
    for place in (
        f"tcp:{host}:{port}",
        f"tcp:127.0.0.1:{port}",
        f"tcp:localhost:{port}",
        f"unix:/tmp/{port}",
    ):
        with SpreadClient(place, "ann") as ann:
            ann.join("tea")
            assert ann.receive().kind == VIEW | BY_JOIN
        wait_until(lambda: not status(daemon.places[0])["sessions"])
