"""Places that other machines may reach: plain only where the configuration says so; Spread's by address."""

from pathlib import Path

import pytest
from guarded import Authority, guarded, with_tls, write_token
from local_cluster import Cluster, own_address
from msgspec import structs
from raw_client import status, wait_until
from spread_client import Rejected, SpreadClient

import antiphon
from antiphon.blocking import connect
from antiphon.cli.status import _parts
from antiphon.config import Config, Security
from antiphon.errors import ConfigError, ConnectError, NotAllowed
from antiphon.runtime.credentials import Credentials
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.edge import EdgeDaemon
from antiphon.runtime.local import local_config
from antiphon.runtime.tls import Tls


def with_places(config: Config, *places: str, security: Security, spread: tuple[str, ...] = ()) -> Config:
    """The same single daemon, with further places."""
    (site,) = config.sites
    (daemon,) = site.daemon
    daemon = structs.replace(daemon, clients=(*daemon.clients, *places), spread=spread or False)
    return structs.replace(config, sites=(structs.replace(site, daemon=(daemon,)),), security=security)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_plain_tcp_for_other_machines_needs_a_word(tmp_path: Path, host: str) -> None:
    config = with_places(local_config(1, tmp_path), f"tcp:{host}:0", security=Security())
    with pytest.raises(ConfigError, match="plain TCP that other machines may reach: use tls:"):
        Daemon(config, "d1").start()
    spread = with_places(local_config(1, tmp_path), security=Security(), spread=(f"tcp:{host}:0",))
    with pytest.raises(ConfigError, match="name the networks of its clients in spread_from"):
        Daemon(spread, "d1").start()


def test_what_is_insecure_is_said_every_time(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    security = Security(insecure=True)
    config = with_places(local_config(1, cluster.directory), "tcp:0.0.0.0:0", security=security)
    (daemon,) = cluster.start(config)
    assert "tcp:0.0.0.0:0 is plain TCP that other machines may reach (insecure = true)" in caplog.text
    told = status(daemon.places[0])
    assert told["runtime"]["insecure_places"] == ["tcp:0.0.0.0:0"]
    shown = [str(part) for part in _parts(told, [])]
    assert "INSECURE: plain TCP that other machines may reach: tcp:0.0.0.0:0" in shown


def test_loopback_and_unix_need_no_word(cluster: Cluster) -> None:
    security = Security()
    config = with_places(
        local_config(1, cluster.directory), "tcp:127.0.0.1:0", "tcp:localhost:0", "tcp:[::1]:0",
        security=security, spread=("tcp:127.0.0.1:0",),
    )  # fmt: skip
    (daemon,) = cluster.start(config)
    assert status(daemon.places[0])["runtime"]["insecure_places"] == []
    with SpreadClient(daemon.spread_places[0], "ada") as ada:
        assert ada.private_group == "#ada#d1" and ada.offered == b"NULL "


def test_a_token_is_not_sent_over_plain_tcp_to_another_machine(cluster: Cluster) -> None:
    host = own_address()
    config = with_places(
        local_config(1, cluster.directory), f"tcp:{host}:0", security=Security(insecure=True)
    )
    (daemon,) = cluster.start(config)
    with pytest.raises(ConnectError, match=r"the token is not sent to tcp:.*, which is plain: use tls:"):
        connect(daemon.places[1], token="a-token-of-some-length")
    connect(daemon.places[1]).close()


def test_spreads_clients_come_in_by_their_addresses(cluster: Cluster) -> None:
    host = own_address()
    place = f"tcp:{host}:0"
    inside = with_places(
        local_config(1, cluster.directory), security=Security(spread_from=(f"{host}/32",)), spread=(place,)
    )
    (daemon,) = cluster.start(inside)
    for methods in (("NULL",), ("IP",), ("IP", "NULL")):
        with SpreadClient(daemon.spread_places[0], "ada", methods=methods) as ada:
            assert ada.private_group == "#ada#d1" and ada.offered == b"IP NULL "
        wait_until(lambda: not status(daemon.places[0])["sessions"])
    with pytest.raises(Rejected):
        SpreadClient(daemon.spread_places[0], "eve", methods=("KERBEROS",))


def test_spreads_clients_from_elsewhere_are_rejected(cluster: Cluster) -> None:
    host = own_address()
    outside = with_places(
        local_config(1, cluster.directory), security=Security(spread_from=("10.255.255.0/24",)),
        spread=(f"tcp:{host}:0", "tcp:127.0.0.1:0"),
    )  # fmt: skip
    (daemon,) = cluster.start(outside)
    for version in ((5, 0, 1), (3, 15, 0)):
        with pytest.raises(Rejected) as rejected:
            SpreadClient(daemon.spread_places[0], "eve", version=version)
        assert rejected.value.code == -9
    with SpreadClient(daemon.spread_places[1], "ada") as ada:
        assert ada.private_group == "#ada#d1"


def test_spreads_clients_are_users_of_the_list(cluster: Cluster) -> None:
    text = (
        '[[user]]\nname = "boss"\nunix = ["root", "nobody"]\n[[user]]\nname = "spread"\nanyone = true\n'
        '[[allow]]\nusers = ["boss"]\ngroups = ["*"]\nmay = ["join", "send", "status"]\n'
        '[[allow]]\nusers = ["spread"]\ngroups = ["tea"]\nmay = ["join", "send"]\n'
    ).replace('"root", "nobody"', str(Path("/proc/self").stat().st_uid))
    config = guarded(cluster.directory, text)
    config = with_places(config, security=config.security, spread=("tcp:127.0.0.1:0",))
    (daemon,) = cluster.start(config)
    with SpreadClient(daemon.spread_places[0], "ada") as ada, connect(daemon.places[0]) as boss:
        boss.join("tea")
        boss.join("coffee")
        ada.socket.sendall(ada.frame(0x1_0000, ("coffee",)) + ada.frame(0x10, ("coffee",), b"no"))
        ada.socket.sendall(ada.frame(0x10, ("tea",), b"yes"))
        while not isinstance(event := boss.receive(timeout_s=20), antiphon.Message):
            pass
        assert event.payload == b"yes"
        told = status(daemon.places[0])
        assert told["groups"]["coffee"] == [boss.name]


LIST = """
[[user]]
name = "boss"
unix = [{uid}]

[[user]]
name = "hall"
certificate = ["hall"]
token_file = "hall.token"

[[allow]]
users = ["boss"]
groups = ["*"]
may = ["join", "send", "status"]

[[allow]]
users = ["hall"]
groups = ["tea"]
may = ["send"]

[[allow]]
users = ["hall"]
may = ["attach"]
"""


@pytest.mark.parametrize("shows", ["certificate", "token", "nothing"])
def test_an_edge_attaches_over_tls_and_shows_who_it_is(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, shows: str
) -> None:
    papers = Authority(tmp_path_factory.mktemp("papers"))
    token = write_token(cluster.directory / "hall.token")
    config = guarded(cluster.directory, LIST.format(uid=Path("/proc/self").stat().st_uid))
    config = with_tls(with_places(config, "tcp:127.0.0.1:0", security=config.security), papers, "optional")
    (daemon,) = cluster.start(config)
    tls = papers.client("hall") if shows == "certificate" else Tls(papers.roots)
    shown = Credentials(tls, token if shows == "token" else "")
    place = f"unix:{cluster.directory}/hall.sock"
    with EdgeDaemon("hall", (daemon.places[1],), (place,), shown=shown) as edge:
        if shows == "nothing":
            wait_until(lambda: status(daemon.places[0])["runtime"]["clients"]["strangers"] > 0)
            assert status(edge.places[0])["attachment"] is None
            return
        wait_until(lambda: status(edge.places[0])["attachment"] is not None)
        with connect(daemon.places[0], name="boss") as boss, connect(place, name="eve") as eve:
            boss.join("tea")
            boss.join("coffee")
            eve.join("tea")
            boss.send("tea", bytes(2_000_000))
            while not isinstance(event := eve.receive(timeout_s=20), antiphon.Message):
                pass
            assert event.payload == bytes(2_000_000)
            eve.send("coffee", b"no")
            while not isinstance(event := eve.receive(timeout_s=20), antiphon.NotSent):
                pass
            assert event.reason == "user 'hall' may not send to 'coffee'"
            eve.send("tea", b"yes")
            heard = []
            while b"yes" not in heard:
                if isinstance(event := boss.receive(timeout_s=20), antiphon.Message):
                    heard.append(event.payload)
            assert b"no" not in heard
            with pytest.raises(NotAllowed):
                eve.send("coffee", b"no")
