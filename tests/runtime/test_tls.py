"""TLS between clients and daemons: who gets in, what others get, and that nobody else notices."""

import asyncio
import os
import socket
import ssl
import time
from pathlib import Path
from random import Random

import pytest
from guarded import Authority, with_tls, write_token
from local_cluster import Cluster
from msgspec import structs
from raw_client import RawClient, status, wait_until

import antiphon
from antiphon.blocking import connect
from antiphon.client import ask_status
from antiphon.config import Config, as_toml, parse
from antiphon.errors import ConfigError, ConnectError, Disconnected, Refused, UsageError
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config

LIST = f"""
[[user]]
name = "local"
unix = [{os.getuid()}]

[[user]]
name = "ada"
certificate = ["ada"]

[[user]]
name = "bob"
token_file = "bob.token"
"""


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("papers"))


def sealed(cluster: Cluster, papers: Authority, certificates: str = "none", text: str = "") -> Daemon:
    """A daemon with a unix place and one for TLS, and perhaps an access list."""
    config = with_tls(local_config(1, cluster.directory, tcp=True), papers, certificates)
    if text:
        (cluster.directory / "access.toml").write_text(text)
        security = structs.replace(config.security, access_file=str(cluster.directory / "access.toml"))
        config = structs.replace(config, security=security)
    return cluster.start(config)[0]


def address_of(place: str) -> tuple[str, int]:
    host, _, port = place.split(":", 1)[1].rpartition(":")
    return host, int(port)


def failures(daemon: Daemon) -> int:
    return int(status(daemon.places[0])["runtime"]["clients"]["tls_failures"])


def test_a_session_over_tls_is_a_session(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    assert daemon.places[1].startswith("tls:127.0.0.1:")
    big = os.urandom(3_000_000)
    with (
        connect(daemon.places[1], tls=papers.roots) as one,
        connect(daemon.places[0]) as other,
    ):
        one.join("tea")
        other.join("tea")
        one.send_many("tea", [b"%d" % number for number in range(5_000)])
        one.send("tea", big)
        other.send("tea", big)
        for session in (one, other):
            heard = []
            while len(heard) < 5_002:
                events = session.receive_many(timeout_s=20)
                heard += [event.payload for event in events if isinstance(event, antiphon.Message)]
            assert sorted(heard)[-1] == big or big in heard
            assert sum(1 for payload in heard if payload == big) == 2
        one.wait_accepted()
        assert one.status()["daemon"] == "d1"


async def test_asyncio_sessions_flood_over_tls_both_ways(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    tls = antiphon.Tls(ca=papers.roots)
    count = 20_000

    async def hear(session: antiphon.Session) -> int:
        heard = 0
        while heard < 2 * count:
            events = await session.receive_many()
            heard += sum(isinstance(event, antiphon.Message) for event in events)
        return heard

    async with (
        antiphon.connect(daemon.places[1], tls=tls) as one,
        antiphon.connect(daemon.places[1], tls=tls) as other,
    ):
        await one.join("tea")
        await other.join("tea")
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            heard = [group.create_task(hear(session)) for session in (one, other)]
            for session in (one, other):
                group.create_task(session.send_many("tea", [b"x" * 200] * count))
        assert [task.result() for task in heard] == [2 * count] * 2


def test_a_slow_reader_over_tls_gets_whole_frames(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    with connect(daemon.places[1], tls=papers.roots) as slow, connect(daemon.places[0]) as sender:
        slow.join("tea")
        for number in range(300):
            sender.send("tea", b"%06d" % number + bytes(100_000))
        heard = []
        while len(heard) < 300:
            event = slow.receive(timeout_s=30)
            if isinstance(event, antiphon.Message):
                heard.append(int(event.payload[:6]))
        assert heard == list(range(300))


def test_a_certificate_says_who_a_client_is(cluster: Cluster, papers: Authority) -> None:
    write_token(cluster.directory / "bob.token")
    daemon = sealed(cluster, papers, "optional", LIST)
    with connect(daemon.places[1], tls=papers.client("ada"), name="ada") as ada:
        ada.join("tea")
        rows = {row["name"]: row["user"] for row in ask_status(daemon.places[0])["sessions"]}
        assert rows == {"#ada#d1": "ada"}
    with pytest.raises(Refused, match="has no user for a certificate of eve"):
        connect(daemon.places[1], tls=papers.client("eve"))
    with pytest.raises(Refused, match="has no user for neither a certificate nor a token"):
        connect(daemon.places[1], tls=papers.roots)


def test_a_token_over_tls_says_who_a_client_is(
    cluster: Cluster, papers: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = write_token(cluster.directory / "bob.token")
    daemon = sealed(cluster, papers, "none", LIST)
    with connect(daemon.places[1], tls=papers.roots, token=token, reconnect=True) as bob:
        bob.join("tea")
    monkeypatch.setenv("ANTIPHON_TLS_CA", papers.roots)
    monkeypatch.setenv("ANTIPHON_TOKEN_FILE", str(cluster.directory / "bob.token"))
    with connect(daemon.places[1]) as bob:
        bob.join("tea")
        assert bob.status()["daemon"] == "d1"
    with pytest.raises(Refused, match="the token is not known here"):
        connect(daemon.places[1], token="wrong-" * 5)


def test_a_certificate_that_must_be_there(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers, "required")
    with connect(daemon.places[1], tls=papers.client("ada")) as ada:
        ada.join("tea")
    with pytest.raises(ConnectError, match="certificate required"):
        connect(daemon.places[1], tls=papers.roots)
    wait_until(lambda: failures(daemon) == 1)


@pytest.mark.parametrize("days", [-1, 30])
def test_a_client_whose_certificate_is_worth_nothing(
    cluster: Cluster, papers: Authority, tmp_path_factory: pytest.TempPathFactory, days: int
) -> None:
    """Expired, or from another authority."""
    others = Authority(tmp_path_factory.mktemp("others"), "others") if days > 0 else papers
    shown = others.client("ada", days)
    daemon = sealed(cluster, papers, "required")
    with pytest.raises(ConnectError, match=r"no TLS with tls:127.*: .*(expired|unknown ca)"):
        connect(daemon.places[1], tls=structs.replace(shown, ca=papers.roots))
    wait_until(lambda: failures(daemon) == 1)
    with connect(daemon.places[0]) as session:
        session.join("tea")


def test_a_daemon_whose_certificate_is_worth_nothing(
    cluster: Cluster, papers: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    daemon = sealed(cluster, papers)
    others = Authority(tmp_path_factory.mktemp("others"), "others")
    unknown = "self-signed certificate in certificate chain|unable to get local issuer certificate"
    with pytest.raises(ConnectError, match=unknown):
        connect(daemon.places[1], tls=others.roots)
    with pytest.raises(ConnectError, match=unknown):
        connect(daemon.places[1])
    with pytest.raises(ConnectError, match="Hostname mismatch"):
        connect(daemon.places[1], tls=antiphon.Tls(papers.roots, server_name="elsewhere.example"))
    wait_until(lambda: failures(daemon) >= 3)


def test_a_daemon_whose_certificate_has_expired(cluster: Cluster, papers: Authority) -> None:
    config = with_tls(local_config(1, cluster.directory, tcp=True), papers, days=-1)
    daemon = cluster.start(config)[0]
    with pytest.raises(ConnectError, match="certificate has expired"):
        connect(daemon.places[1], tls=papers.roots)


def test_plain_bytes_to_a_place_for_tls(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    plain = daemon.places[1].replace("tls:", "tcp:")
    with pytest.raises(ConnectError, match="this place speaks TLS, and what came is not TLS"):
        connect(plain)
    with pytest.raises(ConnectError, match="this place speaks TLS"):
        ask_status(plain)
    assert failures(daemon) == 2


def test_tls_to_a_plain_place(cluster: Cluster, papers: Authority) -> None:
    (daemon,) = cluster.start(local_config(1, cluster.directory, tcp=True))
    tls = daemon.places[1].replace("tcp:", "tls:")
    with pytest.raises(ConnectError, match="what answers is not TLS"):
        connect(tls, tls=papers.roots)
    assert failures(daemon) == 1


def test_an_older_tls_is_refused(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    context = ssl.create_default_context(cafile=papers.roots)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(address_of(daemon.places[1])) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="127.0.0.1")
    wait_until(lambda: failures(daemon) == 1)


def test_a_handshake_that_never_ends(
    cluster: Cluster, papers: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.runtime.client_limits.GREETING_TIMEOUT_US", 500_000)
    daemon = sealed(cluster, papers)
    silent = socket.create_connection(address_of(daemon.places[1]))
    begun = socket.create_connection(address_of(daemon.places[1]))
    begun.sendall(bytes.fromhex("1603010200010001fc0303") + bytes(20))
    with connect(daemon.places[1], tls=papers.roots) as session:
        session.join("tea")
        for one in (silent, begun):
            one.settimeout(20)
            assert one.recv(100) == b""
            one.close()
        used_s = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - used_s < 0.3, "the daemon is busy with nothing"
        session.send("tea", b"well")
        session.wait_accepted()
    assert status(daemon.places[0])["runtime"]["clients"]["greeting_timeouts"] == 2


def test_garbage_after_the_greeting_ends_that_connection_alone(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    with connect(daemon.places[1], tls=papers.roots) as session, connect(daemon.places[0]) as other:
        session.join("tea")
        other.join("tea")
        session._socket._plain.sendall(os.urandom(5_000))  # type: ignore[union-attr]
        with pytest.raises(Disconnected):
            while True:
                session.receive(timeout_s=20)
        while not (isinstance(view := other.receive(20), antiphon.View) and len(view.members) == 1):
            pass
    assert failures(daemon) == 1


def test_a_session_comes_back_over_tls(cluster: Cluster, papers: Authority) -> None:
    config = with_tls(local_config(1, cluster.directory, tcp=True), papers)
    first = Daemon(config, "d1")
    first.start()
    with connect(first.places[1], tls=papers.roots, reconnect=True) as session:
        session.join("tea")
        first.stop()
        with Daemon(config, "d1"):
            while not isinstance(session.receive(timeout_s=20), antiphon.Reconnected):
                pass
            session.send("tea", b"again")
            while not isinstance(event := session.receive(timeout_s=20), antiphon.Message):
                pass
            assert event.payload == b"again"


def test_a_certificate_is_read_again(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    with connect(daemon.places[1], tls=papers.roots) as before:
        before.join("tea")
        papers.issue("daemon", alternatives=["DNS:elsewhere.example"])
        daemon.reload()
        shown = antiphon.Tls(papers.roots, server_name="elsewhere.example")

        def is_read() -> bool:
            try:
                connect(daemon.places[1], tls=shown).close()
            except ConnectError:
                return False
            return True

        wait_until(is_read)
        before.send("tea", b"still")
        before.wait_accepted()


@pytest.mark.parametrize("fault", ["open", "missing", "other"])
def test_files_that_cannot_be_used_stop_a_daemon_before_it_serves(
    tmp_path: Path, papers: Authority, fault: str
) -> None:
    config = with_tls(local_config(1, tmp_path, tcp=True), papers)
    tls = config.security.tls
    assert tls is not None
    key = Path(tls.key)
    if fault == "open":
        key = Path(papers.issue("open", file="open")[1])
        key.chmod(0o644)
        expected = "is open to others"
    elif fault == "missing":
        key = tmp_path / "none.key"
        expected = "No such file"
    else:
        key = Path(papers.issue("other", file="other")[1])
        expected = "key values mismatch"
    changed = structs.replace(tls, key=str(key))
    broken = structs.replace(config, security=structs.replace(config.security, tls=changed))
    with pytest.raises(ConfigError, match=expected):
        Daemon(broken, "d1").start()


def test_a_library_that_is_told_nonsense_says_so_at_once(papers: Authority, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tls is for addresses that begin with tls:"):
        connect("tcp:127.0.0.1:1", tls=papers.roots)
    with pytest.raises(UsageError, match="cannot read the roots"):
        connect("tls:127.0.0.1:1", tls=tmp_path / "none.pem")
    with pytest.raises(UsageError, match="needs its key"):
        connect("tls:127.0.0.1:1", tls=antiphon.Tls(papers.roots, certificate="x.pem"))
    with pytest.raises(UsageError, match="printable ASCII"):
        connect("unix:/tmp/none.sock", token="with a space")
    open_file = tmp_path / "token"
    open_file.write_text("a" * 30)
    open_file.chmod(0o644)
    with pytest.raises(UsageError, match="open to others"):
        connect("unix:/tmp/none.sock", token=open_file)


def test_places_for_tls_need_a_certificate(tmp_path: Path) -> None:
    config = local_config(1, tmp_path, tcp=True)
    text = as_toml(config).replace("tcp:127", "tls:127")
    with pytest.raises(ConfigError, match=r"expected \[security.tls\] with certificate and key"):
        parse(text)


def test_the_file_round_trips(papers: Authority, tmp_path: Path) -> None:
    config: Config = with_tls(local_config(1, tmp_path, tcp=True), papers, "optional")
    written = parse(as_toml(config))
    assert (written.security, written.sites) == (config.security, config.sites)


def test_half_of_a_record_is_no_reason_to_be_busy(cluster: Cluster, papers: Authority) -> None:
    daemon = sealed(cluster, papers)
    with connect(daemon.places[1], tls=papers.roots) as session:
        session.join("tea")
        session._socket._plain.sendall(bytes.fromhex("1703034000") + bytes(100))  # type: ignore[union-attr]
        time.sleep(0.1)
        used_s = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - used_s < 0.3, "the daemon is busy with nothing"
        with RawClient(daemon.places[0], "other") as other:
            assert other.name == "#other#d1"
        session._socket.close()


def test_any_bytes_at_a_place_for_tls_harm_nobody(cluster: Cluster, papers: Authority) -> None:
    """Mutants of the first bytes of a real client, and noise."""
    daemon = sealed(cluster, papers)
    outgoing = ssl.MemoryBIO()
    genuine = ssl.create_default_context(cafile=papers.roots).wrap_bio(ssl.MemoryBIO(), outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        genuine.do_handshake()
    greeting = outgoing.read()
    random = Random("bytes for TLS")
    with connect(daemon.places[1], tls=papers.roots) as session:
        session.join("tea")
        for number in range(300):
            data = bytearray(greeting)
            for _ in range(random.randint(1, 8)):
                data[random.randrange(len(data))] = random.randrange(256)
            if number % 3 == 0:
                data = bytearray(random.randbytes(random.randint(1, 600)))
            with socket.create_connection(address_of(daemon.places[1])) as one:
                one.sendall(data[: random.randint(1, len(data))])
        session.send("tea", b"well")
        while not isinstance(event := session.receive(timeout_s=20), antiphon.Message):
            pass
        assert event.payload == b"well"
        wait_until(lambda: failures(daemon) > 50)
    assert status(daemon.places[0])["runtime"]["clients"]["mistakes"] == 0
