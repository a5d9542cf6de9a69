"""A cluster that runs plain is sealed as the how-to tells: with an outage, and its clients come back."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from msgspec import structs

from antiphon import Reconnected
from antiphon.blocking import connect
from antiphon.client import ask_status
from antiphon.config import Security, as_toml
from antiphon.errors import AntiphonError
from antiphon.runtime.local import local_config

WITHIN_S = 60.0


class Daemons:
    """Two daemons in processes of their own, from one file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "cluster.toml"
        self.config = local_config(2, folder)
        self.places = {daemon.name: daemon.clients[0] for _, daemon in self.config.daemons()}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for name in self.places:
            words = [sys.executable, "-m", "antiphon", "daemon", "--name", name, "--config", str(self.file)]
            with (self.file.parent / f"{name}.log").open("ab") as log:
                self._processes.append(subprocess.Popen(words, stderr=log))
        for place in self.places.values():
            self.until(place, lambda told: len(told["view"]["members"]) == 2)

    def until(self, place: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while True:
            assert time.monotonic() < deadline_s
            try:
                if is_so(ask_status(place)):
                    return
            except AntiphonError:
                pass
            time.sleep(0.1)

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            assert process.wait(WITHIN_S) == 0
        self._processes.clear()


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    daemons = Daemons(tmp_path)
    yield daemons
    daemons.stop()


@pytest.mark.long
def test_a_plain_cluster_is_sealed_and_its_clients_come_back(daemons: Daemons, antiphon: Run) -> None:
    daemons.file.write_text(as_toml(daemons.config))
    daemons.start()
    here, there = daemons.places.values()
    assert ask_status(here)["security"] is None
    with connect(here, reconnect=True) as session:
        session.join("tea")
        made = antiphon("config", "keygen", str(daemons.file.parent / "cluster.key"))
        assert made.returncode == 0
        sealed = structs.replace(daemons.config, security=Security(key_file="cluster.key"))
        daemons.stop()
        daemons.file.write_text(as_toml(sealed))
        daemons.start()
        for place in (here, there):
            assert ask_status(place)["security"]["key"] in made.stdout
        while not isinstance(session.receive(timeout_s=WITHIN_S), Reconnected):
            pass
        daemons.until(there, lambda told: "tea" in told["groups"])
        with connect(there) as other:
            other.send("tea", b"sealed")
            other.flush()
            while getattr(session.receive(timeout_s=WITHIN_S), "payload", b"") != b"sealed":
                pass
