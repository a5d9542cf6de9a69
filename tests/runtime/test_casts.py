"""Edges of one coordinator that are fed by real multicast, over the loopback interface, which loses nothing
unless it is told to."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from edge_cluster import Flood, numbers
from raw_client import status, wait_until

from antiphon import blocking
from antiphon.cli.edge_status import edge_words
from antiphon.config import EdgeMulticast
from antiphon.runtime import edge, process
from antiphon.runtime.casting import CastSockets, new_place, own_interface
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.edge import EdgeDaemon
from antiphon.runtime.local import local_config
from antiphon.wire.casts import Kind

CHILDREN = ("e1", "e2", "e3")
KIND_AT = 2
PIECES = (Kind.PIECE, Kind.REPAIR)


class Rim:
    """A daemon, an edge that is attached to it, and three behind that one, in threads of this process."""

    def __init__(self, directory: Path, stack: ExitStack, **multicast: EdgeMulticast) -> None:
        self.directory, self._stack = directory, stack
        self.daemon = stack.enter_context(Daemon(local_config(1, directory), "d1"))
        self.start("hub", self.daemon.places, multicast.get("hub", "on"))
        wait_until(lambda: self.told("hub")["attachment"] is not None)
        for name in CHILDREN:
            self.start(name, [self.place("hub")], multicast.get(name, "on"))
        for name in CHILDREN:
            wait_until(lambda name=name: self.told(name)["attachment"] is not None)  # type: ignore[misc]

    def start(self, name: str, attach: Any, multicast: EdgeMulticast) -> None:
        edge = EdgeDaemon(name, attach, [self.place(name)], organises=False, multicast=multicast)
        self._stack.enter_context(edge)

    def place(self, name: str) -> str:
        return f"unix:{self.directory}/{name}.sock"

    def told(self, name: str) -> dict[str, Any]:
        return status(self.place(name))

    def members(self) -> list[blocking.Session]:
        """One at each child, in one group."""
        found = [self._stack.enter_context(blocking.connect(self.place(name))) for name in CHILDREN]
        for member in found:
            member.join("tea")
        return found

    def wait_until_heard(self, count: int) -> None:
        """Until so many children are known to hear multicasts."""
        wait_until(lambda: self.told("hub")["multicast"]["own"]["edges"] == count)

    def wait_until_fed(self, **by_multicast: bool) -> None:
        """Until the children are fed by multicast or by copies like this.

        On a machine that is busy a child may become deaf for a while: then it has copies until a probe gets
        through again.
        """

        def fed() -> dict[str, bool]:
            return {edge["name"]: edge["by_multicast"] for edge in self.told("hub")["edges"]}

        wait_until(lambda: fed() == by_multicast)


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def said(told: dict[str, Any]) -> list[str]:
    """What `antiphon status` says of an edge."""
    return list(map(str, edge_words(told, [])))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_children_are_fed_by_multicast(tmp_path: Path, stack: ExitStack) -> None:
    rim = Rim(tmp_path, stack)
    members = rim.members()
    rim.wait_until_heard(3)
    flood = Flood(rim.daemon.places[0], "tea")
    flood.wait(2_000)
    rim.wait_until_fed(e1=True, e2=True, e3=True)
    count = flood.end()
    for member in members:
        assert numbers(member) == list(range(count))
    own = rim.told("hub")["multicast"]["own"]
    assert own["pieces"] > 10
    assert any(words.startswith("multicasts to 3 edges: ") for words in said(rim.told("hub")))
    assert any(words.startswith("fed by multicast: ") for words in said(rim.told("e1")))
    for name in CHILDREN:
        heard = rim.told(name)["multicast"]["heard"]
        assert heard["pieces"] > 10
        assert rim.told(name)["flow"]["gaps"] == 0


def test_lost_pieces_are_repaired(tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(7)
    take = CastSockets.take

    def lossy(sockets: CastSockets, data: memoryview, now: int) -> None:
        if random.random() >= 0.1 or data[KIND_AT] not in PIECES:
            take(sockets, data, now)

    monkeypatch.setattr(CastSockets, "take", lossy)
    rim = Rim(tmp_path, stack)
    members = rim.members()
    rim.wait_until_heard(3)
    flood = Flood(rim.daemon.places[0], "tea")
    flood.wait(5_000)
    count = flood.end()
    for member in members:
        assert numbers(member) == list(range(count))
    heard = [rim.told(name)["multicast"]["heard"] for name in CHILDREN]
    assert all(one["missed"] for one in heard)
    assert sum(one["requests"] for one in heard)
    assert sum(one["repairs"] for one in heard), "children repair for one another"
    assert all(rim.told(name)["flow"]["gaps"] == 0 for name in CHILDREN)


def test_clusters_with_the_same_names_at_the_same_place_do_not_hear_each_other(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "new_incarnation", lambda: 7)
    monkeypatch.setattr(edge, "new_place", lambda: "239.192.7.7:20777")
    rims = [Rim(make_folder(tmp_path / name), stack) for name in ("here", "there")]
    members = [rim.members() for rim in rims]
    for rim in rims:
        rim.wait_until_heard(3)
    floods = [Flood(rim.daemon.places[0], "tea") for rim in rims]
    floods[0].wait(500)
    counts = [flood.end() for flood in floods]
    for some, count in zip(members, counts, strict=True):
        assert [numbers(member) for member in some] == [list(range(count))] * 3
    assert rims[0].told("e1")["counters"]["cast: of another stream"]


def test_a_child_that_becomes_deaf_goes_on_over_its_connection(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = CastSockets.take
    deaf: set[str] = set()

    def some(sockets: CastSockets, data: memoryview, now: int) -> None:
        if sockets._node.name not in deaf:
            take(sockets, data, now)

    monkeypatch.setattr(CastSockets, "take", some)
    rim = Rim(tmp_path, stack)
    members = rim.members()
    rim.wait_until_heard(3)
    flood = Flood(rim.daemon.places[0], "tea")
    flood.wait(1_000)
    deaf.add("e2")
    rim.wait_until_heard(2)
    flood.wait(500)
    rim.wait_until_fed(e1=True, e2=False, e3=True)
    count = flood.end()
    for member in members:
        assert numbers(member) == list(range(count))
    assert rim.told("e2")["multicast"]["heard"]["escalated"]


def test_who_does_not_use_multicast_gets_its_copy(tmp_path: Path, stack: ExitStack) -> None:
    rim = Rim(tmp_path, stack, e2="off")
    members = rim.members()
    rim.wait_until_heard(2)
    flood = Flood(rim.daemon.places[0], "tea")
    flood.wait(500)
    count = flood.end()
    for member in members:
        assert numbers(member) == list(range(count))
    assert rim.told("e2")["multicast"] is None
    assert rim.told("e1")["multicast"]["heard"]["pieces"]


def test_a_coordinator_without_multicast_sends_copies(tmp_path: Path, stack: ExitStack) -> None:
    rim = Rim(tmp_path, stack, hub="off")
    members = rim.members()
    flood = Flood(rim.daemon.places[0], "tea")
    flood.wait(500)
    count = flood.end()
    for member in members:
        assert numbers(member) == list(range(count))
    assert rim.told("e1")["multicast"]["heard"]["place"] == ""


def test_inside_of_one_machine_copies_are_the_rule(tmp_path: Path, stack: ExitStack) -> None:
    rim = Rim(tmp_path, stack, e2="auto")
    rim.wait_until_heard(2)
    told = rim.told("e2")["multicast"]
    assert list(told["reasons"].values()) == ["inside of one machine copies cost less"]
    assert told["joined"] == []


def test_casts_have_places_of_their_own() -> None:
    assert len({new_place() for _ in range(9)}) == 9


@pytest.mark.parametrize(
    ("reach", "interface"),
    [
        ((), "127.0.0.1"),
        (("unix:/tmp/hub.sock",), "127.0.0.1"),
        (("tcp:10.0.0.9:4811",), "10.0.0.9"),
        (("tcp:hall.example:4811", "tcp:10.0.0.9:4811"), "10.0.0.9"),
        (("tcp:0.0.0.0:4811",), ""),
        (("tcp:[::1]:4811",), ""),
    ],
)
def test_an_edge_multicasts_where_others_reach_it(reach: tuple[str, ...], interface: str) -> None:
    assert own_interface(reach) == interface
