"""What is in contrib/ works, as far as it can be tried without containers and without systemd as process 1.

The daemons of compose.yaml run as processes of this machine, with the commands, the key and the configuration
that are there; only paths and addresses are others. The same goes for the commands of the unit.
"""

import configparser
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_cluster import is_formed
from raw_client import PATIENCE_S, status, wait_until

from antiphon import config
from antiphon.runtime.local import local_config

REPOSITORY = Path(__file__).parents[2]
CONTRIB = REPOSITORY / "contrib"
ANTIPHON = str(Path(sys.executable).with_name("antiphon"))
SITES = ("oslo", "lima", "perth")

COMPOSE: dict[str, Any] = yaml.safe_load((CONTRIB / "compose.yaml").read_text())
CLUSTER = (CONTRIB / "cluster.toml").read_text()


def unit() -> configparser.ConfigParser:
    """The systemd unit; of repeated keys the last counts, and there are none."""
    read = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(CONTRIB / "antiphon@.service")
    return read


# Containers -----------------------------------------------------------------------------------------------


def test_every_service_has_the_address_that_the_configuration_gives_its_daemon() -> None:
    parsed = config.parse(CLUSTER, str(CONTRIB / "cluster.toml"))
    assert parsed.security.key_file and not parsed.security.insecure
    addresses = {daemon.name: daemon.address.partition(":")[0] for _, daemon in parsed.daemons()}
    services = {COMPOSE["services"][site]["command"][-1]: COMPOSE["services"][site] for site in SITES}
    assert services.keys() == addresses.keys()
    for name, service in services.items():
        assert service["networks"]["wide-area"]["ipv4_address"] == addresses[name]
        assert service["depends_on"]["key"]["condition"] == "service_completed_successfully"
        assert "key:/var/lib/antiphon:ro" in service["volumes"]
        assert "./cluster.toml:/etc/antiphon/cluster.toml:ro" in service["volumes"]
    assert (CONTRIB / COMPOSE["services"]["key"]["build"]["context"]).resolve() == REPOSITORY
    assert (REPOSITORY / COMPOSE["services"]["key"]["build"]["dockerfile"]).is_file()


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where the daemons of compose.yaml serve clients: run by its commands, at addresses that are free."""
    here = local_config(len(SITES), tmp_path)
    text = CLUSTER.replace("/var/lib/antiphon", str(tmp_path / "key"))
    for (_, theirs), (_, ours) in zip(config.parse(text, "x").daemons(), here.daemons(), strict=True):
        text = text.replace(theirs.address, ours.address)
        text = text.replace(theirs.clients[0], ours.clients[0], 1)  # each container has this path for itself
    (tmp_path / "cluster.toml").write_text(text)
    (tmp_path / "key").mkdir()
    shell, *flags = COMPOSE["services"]["key"]["entrypoint"]
    (script,) = COMPOSE["services"]["key"]["command"]
    script = script.replace("/var/lib/antiphon", str(tmp_path / "key"))
    for _ in range(2):  # the second time there is a key, which stays
        path = f"{Path(ANTIPHON).parent}:{os.environ['PATH']}"
        subprocess.run([shell, *flags, script], check=True, env=os.environ | {"PATH": path})
    assert (tmp_path / "key" / "cluster.key").stat().st_mode & 0o777 == 0o600
    served = iter(daemon.clients[0] for _, daemon in here.daemons())
    places = {}
    with ExitStack() as stack:
        for site in SITES:
            command = COMPOSE["services"][site]["command"]
            words = [word.replace("/etc/antiphon", str(tmp_path)) for word in command]
            log = stack.enter_context((tmp_path / f"{site}.log").open("wb"))
            process = subprocess.Popen([ANTIPHON, *words], stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            places[words[-1]] = next(served)
        wait_until(lambda: is_formed(places.values(), [*places]))
        yield places


def test_the_three_sites_find_each_other_and_seal_what_they_send(containers: dict[str, str]) -> None:
    keys = {status(place)["security"]["key"] for place in containers.values()}
    assert len(keys) == 1 and None not in keys
    healthy = COMPOSE["services"]["oslo"]["healthcheck"]["test"]
    assert healthy[:2] == ["CMD", "antiphon"]
    for place in containers.values():
        done = subprocess.run(
            [ANTIPHON, *healthy[2:]], env=os.environ | {"ANTIPHON": place}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "INSECURE" not in done.stdout


def test_the_image_is_made_from_files_that_its_builder_gets() -> None:
    lines = (CONTRIB / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    sources = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    sent = (CONTRIB / "Dockerfile.dockerignore").read_text().split("\n")
    assert sources == ["pyproject.toml", "README.md", "LICENSE", "src"]
    assert all((REPOSITORY / source).exists() and f"!{source}" in sent for source in sources)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    used = {
        line.split()[1].removeprefix("python:").removesuffix("-slim") for line in lines if line[:5] == "FROM "
    }
    assert len(used) == 1 and f"Programming Language :: Python :: {used.pop()}" in project["classifiers"]
    assert any(line.startswith("USER ") and "root" not in line for line in lines)


# systemd --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (CONTRIB / "antiphon@.service").read_text()
    instance = tmp_path / "antiphon@oslo1.service"
    instance.write_text(text.replace("/opt/antiphon/bin/antiphon", ANTIPHON))
    done = subprocess.run(["systemd-analyze", "verify", str(instance)], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "antiphon" in line]
    assert (done.returncode, complaints) == (0, [])
    instance.write_text(instance.read_text().replace("Restart=always", "Restart=sometimes"))
    again = subprocess.run(["systemd-analyze", "verify", str(instance)], capture_output=True, text=True)
    assert "sometimes" in again.stderr, "it would have complained"


def test_the_commands_of_the_unit_start_reload_and_stop_a_daemon(tmp_path: Path) -> None:
    service = unit()["Service"]
    file = tmp_path / "cluster.toml"
    here = local_config(1, tmp_path)
    file.write_text(config.as_toml(here))
    words = shlex.split(service["ExecStart"].replace("%i", here.daemon_names[0]))
    words = [word.replace("/etc/antiphon", str(tmp_path)) for word in words]
    assert words[0] == "/opt/antiphon/bin/antiphon"
    log = tmp_path / "log"
    with log.open("wb") as opened:
        daemon = subprocess.Popen([ANTIPHON, *words[1:]], stderr=opened, umask=int(service["UMask"], 8))
    try:
        place = next(daemon.clients[0] for _, daemon in here.daemons())
        wait_until(lambda: is_formed([place], here.daemon_names))
        assert Path(place.removeprefix("unix:")).stat().st_mode & 0o777 == 0o770, "open to the group"
        before = log.stat().st_size
        subprocess.run(service["ExecReload"].replace("$MAINPID", str(daemon.pid)).split(), check=True)
        wait_until(lambda: log.stat().st_size > before)
        assert is_formed([place], here.daemon_names)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(min(PATIENCE_S, int(service["TimeoutStopSec"]))) == 0
    finally:
        daemon.kill()
        daemon.wait()


def test_a_wrong_configuration_is_not_started_again_and_again(tmp_path: Path) -> None:
    service = unit()["Service"]
    (tmp_path / "cluster.toml").write_text("[cluster]\nname = 7\n")
    words = shlex.split(service["ExecStart"].replace("/etc/antiphon", str(tmp_path)))
    done = subprocess.run([ANTIPHON, *words[1:]], capture_output=True, timeout=PATIENCE_S)
    assert str(done.returncode) in service["RestartPreventExitStatus"].split()
