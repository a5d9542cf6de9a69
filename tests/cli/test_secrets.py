"""Keys and tokens are in their files and in the memory of the programs that need them, and nowhere else."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from guarded import write_token
from msgspec import Struct, structs
from sealed_world import FIRST, SECOND, Sealed

from antiphon.client import ask_status
from antiphon.config import Security, as_toml
from antiphon.core.access.rights import User
from antiphon.core.sealing.keys import Keys
from antiphon.errors import AntiphonError
from antiphon.runtime.access import AccessControl, digest_of
from antiphon.runtime.local import local_config

LIST = f"""
[[user]]
name = "boss"
unix = [{os.getuid()}]
token_file = "boss.token"
"""
WITHIN_S = 60.0


def faces(secret: bytes) -> list[bytes]:
    """A secret as it may be shown."""
    return [
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        base64.b64encode(secret)[:-4],
        base64.urlsafe_b64encode(secret)[:-4],
        repr(secret)[2:-1].encode(),
        str(list(secret))[1:-1].encode(),
    ]


def secret_of(path: Path) -> bytes:
    return bytes.fromhex(path.read_text().split()[1])


class Cluster:
    """Two sealed daemons in processes of their own, which trace, with keys that change and an access list."""

    def __init__(self, antiphon: Run, folder: Path) -> None:
        self.folder = folder
        for name in ("cluster.key", "next.key", "later.key"):
            self.said = antiphon("config", "keygen", str(folder / name))
            assert self.said.returncode == 0
        self.token = write_token(folder / "boss.token")
        (folder / "access.toml").write_text(LIST)
        later = folder / "next.key"
        later.rename(folder / "waiting.key")
        config = local_config(2, folder, protocol="tcp")
        config = structs.replace(
            config,
            security=Security(key_file="cluster.key", next_key_file="next.key", access_file="access.toml"),
        )
        (folder / "cluster.toml").write_text(as_toml(config))
        self.places = {daemon.name: daemon.clients[0] for _, daemon in config.daemons()}
        self.processes = {name: self._start(name) for name in self.places}
        self.until(lambda told: len(told["view"]["members"]) == 2)

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", "antiphon", "--debug", "daemon", "--name", name]
        words += ["--config", str(self.folder / "cluster.toml"), "--trace", str(self.folder / "traces")]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log)

    def until(self, is_so: Any) -> None:
        """Wait until all daemons say so."""
        deadline_s = time.monotonic() + WITHIN_S
        for name, place in self.places.items():
            while True:
                assert time.monotonic() < deadline_s, (self.folder / f"{name}.log").read_text()
                try:
                    if is_so(ask_status(place)):
                        break
                except AntiphonError:
                    pass
                time.sleep(0.1)

    def tell(self, number: int) -> None:
        for process in self.processes.values():
            process.send_signal(number)

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(30)


@pytest.fixture
def cluster(antiphon: Run, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(antiphon, tmp_path)
    yield cluster
    cluster.close()


def test_no_key_and_no_token_is_anywhere_but_in_its_file(cluster: Cluster, antiphon: Run) -> None:
    """A key comes, another one takes its place, a file with a key is wrong; whatever is said is kept."""
    folder = cluster.folder
    keys = [secret_of(folder / name) for name in ("cluster.key", "waiting.key", "later.key")]
    (folder / "waiting.key").rename(folder / "next.key")
    cluster.tell(signal.SIGHUP)
    cluster.until(lambda told: told["security"]["next_key"] and not told["security"]["next_key_lacks"])
    shown = [cluster.said.stdout, cluster.said.stderr]
    place = cluster.places["d1"]
    for words in (
        ("status",), ("status", "--json"), ("explain",), ("explain", "--json"),
        ("config", "check", str(folder / "cluster.toml")), ("config", "keygen", str(folder / "next.key")),
        ("config", "token", str(folder / "boss.token")),
    ):  # fmt: skip
        where = () if words[0] == "config" else ("--address", place)
        done = antiphon("--debug", *words, *where)
        shown += [done.stdout, done.stderr]
    sent = antiphon(
        "--debug", "send", "tea", "x", "--address", place, "--token-file", str(folder / "boss.token"),
        "--trace", str(folder / "traces"),
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr
    shown += [sent.stdout, sent.stderr]
    processes = [Path(f"/proc/{process.pid}") for process in cluster.processes.values()]
    shown += [(path / name).read_text() for path in processes for name in ("cmdline", "environ")]
    (folder / "next.key").write_bytes((folder / "later.key").read_bytes()[:-9] + b"\n")  # it is no key now
    cluster.tell(signal.SIGHUP)
    deadline_s = time.monotonic() + WITHIN_S
    while not all("this is no key" in (folder / f"{name}.log").read_text() for name in cluster.places):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    cluster.close()
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file() and _may_not_have(path)]
    everything = b"\n".join([*map(str.encode, shown), *written])
    assert b" seals packets to other daemons with " in everything and b'"event"' in everything
    for secret in keys:
        assert not [face for face in faces(secret) if face in everything]
    assert cluster.token.encode() not in everything


def _may_not_have(path: Path) -> bool:
    return path.suffix not in (".key", ".token")


def objects_from(root: object) -> Iterator[object]:
    """All objects of ours that can be reached from one."""
    seen: set[int] = set()
    waiting = deque([root])
    while waiting:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if type(one).__module__.startswith("antiphon"):
            yield one
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, tuple | list | set | frozenset | deque):
            waiting += one
        elif isinstance(one, Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif type(one).__module__.startswith("antiphon"):
            slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            waiting += [getattr(one, name) for name in slots if hasattr(one, name)]
            waiting += vars(one).values() if hasattr(one, "__dict__") else []


def test_no_object_of_a_node_shows_a_secret_when_it_is_printed() -> None:
    """Exceptions, assertions and debuggers print whatever is at hand."""
    world = Sealed(1, 1)
    world.form()
    world.nodes[0].seal.change_keys(Keys(FIRST, SECOND), world.now_us)  # type: ignore[union-attr]
    world.run(100_000)
    kinds = set()
    for one in objects_from(world.nodes[0]):
        shown = f"{one!r} {one!s}".encode()
        kinds.add(type(one).__name__)
        for key in (FIRST, SECOND):
            assert not [face for face in faces(key._secret) if face in shown], type(one)
    assert {"ClusterKey", "Keys", "Process", "Introductions", "Door"} <= kinds


def test_no_object_of_an_access_list_shows_a_token(tmp_path: Path) -> None:
    token = write_token(tmp_path / "boss.token")
    (tmp_path / "access.toml").write_text(LIST)
    access = AccessControl(tmp_path / "access.toml", 0)
    found = list(objects_from(access))
    assert any(isinstance(one, User) for one in found) and digest_of(token)
    for one in found:
        assert token not in f"{one!r} {one!s}"
