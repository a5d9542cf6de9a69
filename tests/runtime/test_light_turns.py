"""In a turn with little to do, clients come before other daemons; under load it is the other way round."""

from pathlib import Path

import pytest

from antiphon.core.effects import Datagram
from antiphon.runtime.daemon import LIGHT_BYTES, LIGHT_EFFECTS, Daemon
from antiphon.runtime.local import local_config


@pytest.mark.parametrize(
    ("frames", "size_bytes", "datagrams", "expected"),
    [
        (1, 200, 1, ["clients", "daemons"]),
        (LIGHT_EFFECTS, LIGHT_BYTES // LIGHT_EFFECTS, LIGHT_EFFECTS, ["clients", "daemons"]),
        (LIGHT_EFFECTS + 1, 200, 1, ["daemons", "clients"]),
        (1, LIGHT_BYTES + 1, 1, ["daemons", "clients"]),
        (1, 200, LIGHT_EFFECTS + 1, ["daemons", "clients"]),
        (0, 0, 1, ["daemons", "clients"]),
    ],
)
def test_who_comes_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    frames: int,
    size_bytes: int,
    datagrams: int,
    expected: list[str],
) -> None:
    daemon = Daemon(local_config(1, tmp_path), "d1")
    order: list[str] = []
    try:
        daemon.open()
        node = daemon._node
        daemon._settle(0)
        node.frames += [((1,), bytes(size_bytes), None)] * frames
        node.datagrams += [Datagram(0, [b"x"], 1, 1)] * datagrams
        monkeypatch.setattr(daemon, "_send", lambda now: (order.append("daemons"), node.datagrams.clear()))
        monkeypatch.setattr(daemon, "_write", lambda now: (order.append("clients"), node.frames.clear()))
        daemon._settle(0)
        assert order == expected
    finally:
        daemon.forget()
