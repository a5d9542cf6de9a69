"""Whatever happens to groups in simulated clusters can be told in Spread's words, and means the same."""

import struct
import sys
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from antiphon.simulator import machine
from antiphon.simulator.client import Output, read_frame
from antiphon.simulator.run import run_seed
from antiphon.simulator.scenarios import plan_of
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.types import Cause, View, ViewId
from antiphon.wire import bundle, frames

sys.path.append(str(Path(__file__).parents[1] / "runtime"))  # where a client of Spread's is
from spread_client import (
    BY_LEAVE,
    BY_NETWORK,
    MARKER,
    TRANSITION,
    VIEW,
    Frame,
    name_in,
)  # fmt: skip

RUNS = (("cascade", 0), ("swarm", 0), ("sites", 0))
MORE_RUNS = tuple(product(("partition", "cascade", "apart", "swarm", "sites"), range(2)))


class Listener:
    """Reads each frame for clients twice: as our library does, and in Spread's words."""

    def __init__(self, daemon_names: tuple[str, ...]) -> None:
        self.met: Counter[str] = Counter()
        self._to_spread = ToSpread(daemon_names)
        self._order = {name: place for place, name in enumerate(daemon_names)}
        self._ids: dict[tuple[int, int, int], ViewId] = {}

    def compare(self, frame: bytes | bytearray | memoryview) -> None:
        translated, is_membership = self._to_spread.translate(frame)
        found = frames_in(translated)
        if frame[4] == frames.FrameKind.BUNDLE:
            assert not is_membership
            for one, message in zip(found, bundle.decode(bytes(frame)), strict=True):
                assert (one.sender, one.groups, one.body) == (message.sender, message.groups, message.payload)
                assert one.kind & 0x3F == 1 << message.service
            return
        value = frames.decode_from_daemon(frame)
        if isinstance(value, frames.ViewFrame):
            (one,) = found
            self._compare_view(one, value.view)
        elif isinstance(value, frames.SignalFrame):
            (one,) = found
            assert (one.kind, one.sender, one.groups) == (TRANSITION, value.signal.group, ())
            assert self._ids.setdefault(one.view_id, value.signal.id) == value.signal.id
        elif isinstance(value, frames.LeftFrame):
            assert found == [Frame(BY_LEAVE, value.left.group, (), 0, False, b"")]
        else:
            assert not found and not is_membership

    def _compare_view(self, one: Frame, view: View) -> None:
        assert self._ids.setdefault(one.view_id, view.id) == view.id
        assert one.sender == view.group
        assert set(one.groups) == set(view.members)
        assert one.groups == tuple(sorted(view.members, key=self._place))
        if one.kind != VIEW | BY_NETWORK:
            self.met[view.cause.value] += 1
            assert (
                one.kind
                == VIEW | {Cause.JOIN: 0x100, Cause.LEAVE: 0x200, Cause.DISCONNECT: 0x400}[view.cause]
            )
            assert one.sets == [view.changed]
            return
        self.met["network" if view.cause in (Cause.NETWORK, Cause.MERGE) else "in transition"] += 1
        self.met["several sets"] += len(one.sets) > 1
        assert sorted(name for some in one.sets for name in some) == sorted(view.members)
        assert set(one.own_set) == set(view.transitional or view.changed)
        if view.cause is Cause.NETWORK:
            assert one.sets == [one.groups]

    def _place(self, name: str) -> tuple[int, str]:
        session, _, daemon = name[1:].partition("#")
        return self._order[daemon], session


def read_twice(listener: Listener, frame: bytes | bytearray | memoryview) -> Output:
    listener.compare(frame)
    return read_frame(frame)


def frames_in(data: bytes) -> list[Frame]:
    """What a client reads."""
    found, at = [], 0
    while at < len(data):
        kind, sender, count, hint, size = struct.unpack_from("<I32siIi", data, at)
        assert kind & MARKER == hint & MARKER == MARKER
        names_at = at + 48
        body_at = names_at + 32 * count
        names = tuple(name_in(data, names_at + 32 * place) for place in range(count))
        at = body_at + size
        found.append(
            Frame(kind & ~MARKER, name_in(sender, 0), names, hint >> 8 & 0xFFFF, False, data[body_at:at])
        )
    assert at == len(data)
    return found


@pytest.mark.parametrize("runs", [RUNS, pytest.param(MORE_RUNS, marks=pytest.mark.long)], ids=len)
def test_all_that_clients_are_told_has_words(
    runs: tuple[tuple[str, int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    met: Counter[str] = Counter()
    for scenario, seed in runs:
        listener = Listener(tuple(daemon.name for daemon in plan_of(scenario, seed).daemons()))
        with monkeypatch.context() as patched:
            patched.setattr(machine, "read_frame", partial(read_twice, listener))
            outcome = run_seed(seed, scenario)
        assert outcome.is_clean, outcome.faults
        met += listener.met
    assert met.keys() == {"join", "leave", "disconnect", "network", "in transition", "several sets"}
