"""Sealed daemons on real sockets: what they carry, whom they refuse, how their keys change."""

import os
import socket
from pathlib import Path

import pytest
from local_cluster import Cluster, needs_offload, wait_formed
from msgspec import structs
from raw_client import RawClient, exchange_the_largest, status, wait_until
from test_daemon_links import OFFLOADS, exchange

from antiphon import config as configuration
from antiphon.cli.status import faults_of
from antiphon.config import Config, DaemonConfig, Security, SiteConfig
from antiphon.core.sealing import introductions, seal
from antiphon.errors import ConfigError
from antiphon.runtime import key_files
from antiphon.runtime.addresses import is_loopback
from antiphon.runtime.cluster_daemon import ClusterDaemon
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.lan import LOOPBACK
from antiphon.runtime.local import local_config
from antiphon.runtime.udp import Offload
from antiphon.service import Service
from antiphon.wire import packet, streams
from antiphon.wire.packet import PacketKind

SEALED_TEA = f"sealed-{os.getpid()}"


def with_key(config: Config, directory: Path) -> Config:
    """The same daemons with a key, and a place for the next one."""
    file = directory / "cluster.key"
    if not file.exists():
        key_files.make(file)
    security = Security(key_file=str(file), next_key_file=str(directory / "next.key"))
    return structs.replace(config, security=security)


def told(daemon: Daemon) -> dict[str, object]:
    """What the status of a daemon says of its security."""
    found: dict[str, object] = status(daemon.places[0])["security"]
    return found


@pytest.mark.parametrize("offload", OFFLOADS)
def test_sealed_trains_carry_bundles_between_sites(cluster: Cluster, offload: Offload) -> None:
    config = with_key(local_config(2, cluster.directory), cluster.directory)
    first, _second = cluster.start(config, offload=offload)
    exchange(cluster, 40, 50_000, [Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE])
    assert told(first)["introduced"] == ["d2"]
    assert status(first.places[0])["runtime"]["udp"]["send_errors"] == 0


@pytest.mark.parametrize("protocol", ["ring", "token-site"])
def test_sealed_sites_carry_bundles_also_by_multicast(cluster: Cluster, protocol: str) -> None:
    plain = local_config(1, cluster.directory, daemons=3, site_protocol=protocol)  # type: ignore[arg-type]
    daemons = cluster.start(with_key(plain, cluster.directory))
    exchange(cluster, 40, 20_000, [Service.AGREED, Service.SAFE])
    multicast = status(daemons[0].places[0])["runtime"]["multicast"]
    if not multicast["reason"]:
        wait_until(lambda: status(daemons[0].places[0])["runtime"]["multicast"]["works"])
        exchange_the_largest(daemons[0].places[0], daemons[2].places[0])


def test_losses_are_repaired_with_new_counters(cluster: Cluster) -> None:
    plain = local_config(3, cluster.directory, delay_ms=1, jitter_ms=1, loss=0.05, chain=True)
    first, *_ = cluster.start(with_key(plain, cluster.directory))
    exchange(cluster, 30, 10_000, [Service.AGREED, Service.RELIABLE])
    assert status(first.places[0])["runtime"]["emulated_losses"] > 0
    assert introductions.REPEATED not in status(first.places[0])["counters"]


@needs_offload
def test_a_stranger_with_the_configuration_is_refused(cluster: Cluster) -> None:
    config = with_key(local_config(2, cluster.directory), cluster.directory)
    first, second = cluster.start(config)
    view = status(first.places[0])["view"]["id"]
    start = packet.prefix(
        PacketKind.BEAT, digest=config.digest, sender=1, receiver=0,
        incarnation=status(second.places[0])["incarnation"] + 1,
    )  # fmt: skip
    plain = packet.whole(start, b"restarted" * 9, counter=1)
    sealed = plain[: packet.SEAL_AT] + b"\5" + plain[packet.SEAL_AT + 1 :]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for data in (plain, sealed, os.urandom(900)):
            stranger.sendto(data, configuration.address(config.daemons()[0][1].address))
    wait_until(lambda: seal.PLAIN in status(first.places[0])["counters"])
    assert status(first.places[0])["view"]["id"] == view


def test_keys_change_while_messages_flow(cluster: Cluster) -> None:
    config = with_key(local_config(2, cluster.directory, daemons=2), cluster.directory)
    daemons = cluster.start(config)
    views = {status(daemon.places[0])["view"]["id"] for daemon in daemons}
    before = told(daemons[0])["key"]
    with RawClient(daemons[0].places[0], "ada") as ada, RawClient(daemons[3].places[0], "bob") as bob:
        ada.join("chat")
        bob.join("chat")
        following = key_files.make(cluster.directory / "next.key")
        for daemon in daemons[:3]:
            daemon.reload()
        wait_until(lambda: told(daemons[0])["next_key_lacks"] == ["d4"])
        daemons[3].reload()
        for daemon in daemons:
            wait_until(lambda daemon=daemon: told(daemon)["next_key_lacks"] == [])  # type: ignore[misc]
        (cluster.directory / "next.key").rename(cluster.directory / "cluster.key")
        for daemon in daemons:
            daemon.reload()
            ada.send("chat", b"still here", service=Service.SAFE)
            wait_until(lambda daemon=daemon: told(daemon)["key"] == following.name)  # type: ignore[misc]
        assert len(bob.messages(4)) == 4
    assert following.name != before
    assert {status(daemon.places[0])["view"]["id"] for daemon in daemons} == views


def test_a_wrong_file_changes_nothing(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    daemons = cluster.start(with_key(local_config(2, cluster.directory), cluster.directory))
    before = told(daemons[0])["key"]
    (cluster.directory / "next.key").write_text("antiphon-key 12")
    (cluster.directory / "next.key").chmod(0o600)
    daemons[0].reload()
    wait_until(lambda: "goes on with the keys that it has" in caplog.text)
    assert (told(daemons[0])["key"], told(daemons[0])["next_key"]) == (before, None)


# Files ----------------------------------------------------------------------------------------------------


def test_a_key_is_written_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    os.umask(old := os.umask(0))
    made = key_files.make(tmp_path / "a.key")
    assert (tmp_path / "a.key").stat().st_mode & 0o777 == 0o600
    assert key_files.read(tmp_path / "a.key") == made
    os.umask(old)


def test_a_key_in_use_is_not_overwritten(tmp_path: Path) -> None:
    made = key_files.make(tmp_path / "a.key")
    with pytest.raises(ConfigError, match="it stays"):
        key_files.make(tmp_path / "a.key")
    assert key_files.read(tmp_path / "a.key") == made


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    key_files.make(tmp_path / "a.key")
    (tmp_path / "a.key").chmod(mode)
    with pytest.raises(ConfigError, match="others can read or change it"):
        key_files.read(tmp_path / "a.key")


@pytest.mark.parametrize("text", ["", "antiphon-key", "antiphon-key 00", "antiphon-key " + "zz" * 32, "\xff"])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.key").write_text(text)
    (tmp_path / "a.key").chmod(0o600)
    with pytest.raises(ConfigError, match="this is no key") as error:
        key_files.read(tmp_path / "a.key")
    assert "zz" not in str(error.value)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.key: No such file.*keygen"):
        key_files.keys_of(Security(key_file=str(tmp_path / "a.key")))


# Without a key --------------------------------------------------------------------------------------------


def exposed(insecure: bool = False) -> Config:
    """A daemon at an address that other machines may reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("0.0.0.0", 0))
        port = probe.getsockname()[1]
    sites = (SiteConfig("s", (DaemonConfig("d1", f"0.0.0.0:{port}"),)),)
    return configuration.build(sites, security=Security(insecure=insecure))


def test_a_daemon_without_a_key_stays_on_its_machine() -> None:
    with pytest.raises(ConfigError, match=r"has no key, and other machines reach it at 0\.0\.0\.0"):
        Daemon(exposed(), "d1").open()


def test_an_insecure_daemon_says_so_each_time(caplog: pytest.LogCaptureFixture) -> None:
    with Daemon(exposed(insecure=True), "d1"):
        assert "not sealed (insecure = true)" in caplog.text


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("10.1.2.3", False), ("no.such.host.invalid", False)],
)  # fmt: skip
def test_addresses_that_only_this_machine_reaches(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local


def test_a_daemon_with_a_key_and_one_without_do_not_work_together(cluster: Cluster) -> None:
    plain = local_config(2, cluster.directory)
    sealed = cluster.add(with_key(plain, cluster.directory), "d1")
    other = cluster.add(plain, "d2")
    wait_until(lambda: seal.PLAIN in status(sealed.places[0])["counters"])
    wait_until(lambda: "packet: sealed" in status(other.places[0])["counters"])
    assert status(sealed.places[0])["view"]["members"] == ["d1"]
    fault = next(one for one in faults_of(status(sealed.places[0])) if "d2 is not in the view" in one)
    assert "packets that claim to be from it are refused: packet: not sealed" in fault
    wait_formed([sealed.places[0]], ("d1",))


def test_sealed_connections_carry_bundles(cluster: Cluster) -> None:
    config = with_key(local_config(2, cluster.directory, protocol="tcp"), cluster.directory)
    first, _second = cluster.start(config)
    exchange(cluster, 40, 50_000, [Service.RELIABLE, Service.AGREED, Service.SAFE])
    assert told(first)["introduced"] == ["d2"]
    address = configuration.address(config.daemons()[0][1].stream_address)
    with socket.create_connection(address) as stranger:
        stranger.sendall(streams.greeting(streams.Greeting(config.digest, 1, 0, 5)))
        assert stranger.recv(100) == b""
    assert status(first.places[0])["runtime"]["streams"]["d2"]["state"] == "open"


def test_a_cluster_without_a_file_is_sealed_with_its_beacons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon without the key neither joins nor is heard."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    key_files.make(tmp_path / "a.key")
    sealed = Security(key_file=str(tmp_path / "a.key"))
    with (
        ClusterDaemon(SEALED_TEA, name="oslo", interface=LOOPBACK, security=sealed) as one,
        ClusterDaemon(SEALED_TEA, name="lima", interface=LOOPBACK, security=sealed) as other,
    ):
        wait_formed([one.places[0], other.places[0]], ("oslo", "lima"))
        stranger = ClusterDaemon(SEALED_TEA, name="eve", interface=LOOPBACK)
        with stranger:
            wait_until(
                lambda: status(one.places[0])["runtime"]["discovery"]["counters"].get(
                    "discovery: a beacon that is not sealed", 0
                ) > 0
            )  # fmt: skip
            assert status(one.places[0])["daemons"] == ["oslo", "lima"]
            assert status(stranger.places[0])["daemons"] == ["eve"]
            assert status(one.places[0])["view"]["members"] == ["oslo", "lima"]
