"""Addresses that cannot be had, sockets left behind, and daemons that come back."""

import os
import socket
import threading
from pathlib import Path

import msgspec
import pytest
from local_cluster import Cluster
from raw_client import RawClient, status, wait_until

from antiphon.blocking import connect
from antiphon.config import Config, DaemonConfig, Settings, SiteConfig, build
from antiphon.errors import ConfigError, ConnectError
from antiphon.runtime import addresses
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config


def single(directory: Path, **changes: object) -> Config:
    """A cluster of one daemon, with some of its places changed."""
    (site,) = local_config(1, directory).sites
    daemon = msgspec.structs.replace(site.daemon[0], **changes)
    return build((SiteConfig(name=site.name, daemon=(daemon,)),))


def test_a_live_unix_socket_is_not_taken_over(cluster: Cluster) -> None:
    (daemon,) = cluster.start(local_config(1, cluster.directory))
    rival = local_config(1, cluster.directory)
    with pytest.raises(ConnectError, match="another daemon answers there"):
        Daemon(rival, "d1").start()
    with RawClient(daemon.places[0], "ada") as ada:
        assert ada.name == "#ada#d1"


def test_a_stale_unix_socket_is_replaced(cluster: Cluster) -> None:
    path = cluster.directory / "d1.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    (daemon,) = cluster.start(local_config(1, cluster.directory))
    with RawClient(daemon.places[0], "ada") as ada:
        assert ada.name == "#ada#d1"


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "d1.sock"
    path.write_text("precious")
    with pytest.raises(ConnectError, match="not a socket"):
        Daemon(local_config(1, tmp_path), "d1").start()
    assert path.read_text() == "precious"


def test_a_daemon_removes_only_its_own_socket(tmp_path: Path) -> None:
    path = tmp_path / "d1.sock"
    first = Daemon(local_config(1, tmp_path), "d1")
    first.start()
    path.unlink()
    with Daemon(local_config(1, tmp_path), "d1"):
        first.stop()
        assert path.is_socket()
    assert not path.exists()


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    place = f"unix:{tmp_path}/missing/d1.sock"
    with pytest.raises(ConnectError, match=f"cannot listen on {place}: No such file or directory"):
        Daemon(single(tmp_path, clients=(place,)), "d1").start()


def test_a_tcp_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = f"tcp:127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ConnectError, match=f"cannot listen on {place}: Address already in use"):
            Daemon(single(tmp_path, clients=(place,)), "d1").start()


def test_a_udp_port_in_use_is_one_clear_error(cluster: Cluster) -> None:
    config = local_config(1, cluster.directory)
    cluster.start(config)
    with pytest.raises(ConnectError, match="cannot be used: Address already in use"):
        Daemon(config, "d1").start()


def test_a_failed_start_gives_everything_back(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    config = single(tmp_path, clients=(f"unix:{tmp_path}/d1.sock", f"unix:{blocked}"))
    for _ in range(2):
        with pytest.raises(ConnectError, match="not a socket"):
            Daemon(config, "d1").start()
    assert not (tmp_path / "d1.sock").exists()
    blocked.unlink()
    with Daemon(config, "d1") as daemon:
        assert len(daemon.places) == 2


def test_an_unknown_daemon_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no daemon is called 'd9'; known: d1"):
        Daemon(local_config(1, tmp_path), "d9")


def test_the_system_may_choose_the_port(tmp_path: Path) -> None:
    with Daemon(single(tmp_path, clients=("tcp:127.0.0.1:0",)), "d1") as daemon:
        (place,) = daemon.places
        assert not place.endswith(":0")
        with RawClient(place, "ada") as ada:
            assert ada.name == "#ada#d1"


def test_run_serves_until_stopped_from_another_thread(tmp_path: Path) -> None:
    daemon = Daemon(local_config(1, tmp_path), "d1")
    stopper = threading.Thread(target=lambda: _stop_when_up(daemon, tmp_path / "d1.sock"))
    stopper.start()
    daemon.run()
    stopper.join()
    assert not (tmp_path / "d1.sock").exists()


def _stop_when_up(daemon: Daemon, path: Path) -> None:
    wait_until(path.is_socket)
    with RawClient(f"unix:{path}", "ada"):
        daemon.stop()


def test_a_daemon_stopped_before_it_runs_does_not_serve(tmp_path: Path) -> None:
    daemon = Daemon(local_config(1, tmp_path), "d1")
    daemon.stop()
    daemon.run()
    assert not (tmp_path / "d1.sock").exists()


def test_starting_and_stopping_leaks_no_descriptor(tmp_path: Path) -> None:
    with Daemon(local_config(1, tmp_path), "d1"):
        pass
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with Daemon(local_config(1, tmp_path), "d1") as daemon, RawClient(daemon.places[0], "ada"):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_local_configurations(tmp_path: Path) -> None:
    mesh = local_config(4, tmp_path, tcp=True)
    assert [site.name for site in mesh.sites] == ["site1", "site2", "site3", "site4"]
    assert [daemon.name for _, daemon in mesh.daemons()] == ["d1", "d2", "d3", "d4"]
    assert len(mesh.links) == 6
    assert all(link.emulate is None for link in mesh.links)
    assert len({place for _, daemon in mesh.daemons() for place in (daemon.address, *daemon.clients)}) == 12
    chain = local_config(4, tmp_path, delay_ms=30, chain=True)
    assert [link.sites for link in chain.links] == [
        ("site1", "site2"),
        ("site2", "site3"),
        ("site3", "site4"),
    ]
    assert all(link.emulate is not None and link.emulate.delay_ms == 30 for link in chain.links)
    assert isinstance(chain.sites[0].daemon[0], DaemonConfig)
    sites = local_config(2, tmp_path, daemons=3, tcp=True)
    assert sites.daemon_names == ("d1", "d2", "d3", "d4", "d5", "d6")
    assert [sites.daemons_of(site) for site in (0, 1)] == [(0, 1, 2), (3, 4, 5)]
    assert len({place for _, daemon in sites.daemons() for place in (daemon.address, *daemon.clients)}) == 18


def test_the_waits_of_a_local_configuration_suit_its_delay(tmp_path: Path) -> None:
    assert local_config(2, tmp_path, delay_ms=10).settings.timing().gather_us == 120_000
    assert local_config(2, tmp_path, delay_ms=75).settings.timing() == Settings().timing()
    tuned = Settings(suspect_ms=900.0)
    assert local_config(2, tmp_path, settings=tuned).settings == tuned


def free_port(family: int, host: str) -> int:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def pair(directory: Path, hosts: tuple[str, str], family: int, host: str) -> Config:
    """Two sites whose daemons are told of by these hosts, with several listeners each."""
    sites = []
    for number, written in enumerate(hosts, 1):
        places = (
            f"unix:{directory}/d{number}.sock",
            "tcp:127.0.0.1:0",
            "tcp:localhost:0",
            f"tcp:{hosts[0]}:0",
        )
        address = f"{written}:{free_port(family, host)}"
        daemon = DaemonConfig(name=f"d{number}", address=address, clients=places)
        sites.append(SiteConfig(name=f"site{number}", daemon=(daemon,)))
    return build(tuple(sites))


@pytest.mark.parametrize(
    ("hosts", "family", "host"),
    [
        (("[::1]", "[::1]"), socket.AF_INET6, "::1"),
        (("localhost", "127.0.0.1"), socket.AF_INET, "127.0.0.1"),
        (("127.0.0.1", "localhost"), socket.AF_INET, "127.0.0.1"),
    ],
    ids=["IPv6", "names and numbers", "numbers and names"],
)
def test_hosts_may_be_written_in_any_way(
    cluster: Cluster, hosts: tuple[str, str], family: int, host: str
) -> None:
    try:
        config = pair(cluster.directory, hosts, family, host)
    except OSError:
        pytest.skip("this machine has no IPv6")
    first, second = cluster.start(config)
    assert len(first.places) == 4
    with RawClient(second.places[0], "bob") as bob:
        bob.join("chat")
        for place in first.places:
            with connect(place, name="ada") as ada:
                assert ada.address == place
                ada.send("chat", place.encode())
            assert bob.messages(1)[0].payload == place.encode()
            wait_until(lambda: not status(first.places[0])["sessions"])


def test_a_host_of_two_families_speaks_the_one_of_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "both": [(socket.AF_INET6, ("::1", 1, 0, 0)), (socket.AF_INET, ("127.0.0.1", 1))],
        "old": [(socket.AF_INET, ("127.0.0.1", 2))],
    }

    def look_up(host: str, port: int, family: int, kind: int) -> list[tuple[object, ...]]:
        found = [(one, kind, 0, "", place) for one, place in known[host] if family in (one, socket.AF_UNSPEC)]
        if not found:
            raise socket.gaierror(socket.EAI_ADDRFAMILY, "no address of this family")
        return found

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert addresses._resolve_all(("both", 1), {2: ("old", 2)}) == (
        socket.AF_INET, ("127.0.0.1", 1), {2: [("127.0.0.1", 2)]}
    )  # fmt: skip
    assert addresses._resolve_all(("both", 1), {2: ("both", 1)})[0] == socket.AF_INET6
    with pytest.raises(ConfigError, match="no address of this family"):
        known["new"] = known["both"][:1]
        addresses._resolve_all(("new", 1), {2: ("old", 2)})


def test_a_unix_socket_is_its_owners_unless_the_umask_says_otherwise(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Daemon(local_config(1, tmp_path), "d1"):
            assert (tmp_path / "d1.sock").stat().st_mode & 0o022 == 0
    finally:
        os.umask(before)
