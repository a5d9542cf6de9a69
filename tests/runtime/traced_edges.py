"""The traces of a real cluster with two edges: what happens there, and lies about it."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from edge_cluster import EdgeCluster, Flood, numbers
from raw_client import wait_until

from antiphon import Service, blocking
from antiphon.trace.files import read_records

Lines = list[dict[str, Any]]
ALIKE = 5
"""Messages that nobody can tell from one another."""


def meet_at_edges(directory: Path) -> Path:
    """Make the traces, with $ANTIPHON_TRACE set to the folder that is returned.

    Sessions at two edges and one in the core hear a flood. The attachment of one edge is killed, and so is
    that edge itself later, which starts again.
    """
    traces = directory / "traces"
    with ExitStack() as stack:
        cluster = EdgeCluster(directory, stack, {"e1": ("d1", "d2", "d3"), "e2": ("d2", "d3")})
        bob = stack.enter_context(blocking.connect(cluster.place("e1"), name="bob"))
        ada = stack.enter_context(blocking.connect(cluster.place("d3"), name="ada"))
        with blocking.connect(cluster.place("e2"), name="cleo") as cleo:
            for session in (bob, ada, cleo):
                session.join("tea")
            flood = Flood(cluster.place("d2"), "tea", Service.AGREED)
            for number in range(50):
                bob.send("tea", b"%d" % (1_000_000 + number))
            bob.wait_accepted()
            flood.wait(200)
            assert cluster.attachment("e1") == "d1"
            cluster.kill(0)
            flood.wait(200)
            wait_until(lambda: cluster.attachment("e1") is not None)
            for _ in range(ALIKE):
                bob.send("tea", b"2000000")
            bob.wait_accepted()
            cleo.leave("tea")
            count = flood.end()
            assert sorted(numbers(bob))[:count] == list(range(count))
            assert sorted(numbers(ada))[:count] == list(range(count))
        cluster.edges["e2"].kill()
        cluster.edges["e2"].wait()
        cluster.edges["e2"] = cluster.start_edge("e2")
        wait_until(lambda: cluster.attachment("e2") is not None)
        with blocking.connect(cluster.place("e2"), name="cleo") as cleo:
            cleo.join("tea")
            cleo.send("tea", b"once more")
            cleo.wait_accepted()
        bob.close()
        for edge in cluster.edges.values():
            edge.terminate()
            edge.wait()
        cluster.assert_edges_are_well()
    return traces


def file_of(folder: Path, name: str) -> Path:
    """The file of a daemon's or an edge's first life."""
    lives = folder.glob(f"daemon.{name}.*.jsonl")
    return min(lives, key=lambda path: read_records(path)[1][0].position)


# Lies about what happened at the edge e1 --------------------------------------------------------------------


def _some(lines: Lines, event: str) -> int:
    """The line of an event in the midst of all of its kind."""
    found = [place for place, line in enumerate(lines) if line.get("event") == event]
    return found[len(found) // 2]


def _without_a_delivery(lines: Lines) -> None:
    del lines[_some(lines, "deliver")]


def _without_what_was_handed_over(lines: Lines) -> None:
    del lines[_some(lines, "handed")]


def _alike_and_one_not_handed_over(lines: Lines) -> None:
    del lines[max(place for place, line in enumerate(lines) if line.get("event") == "handed")]


def _delivered_twice(lines: Lines) -> None:
    place = _some(lines, "deliver")
    lines.insert(place, dict(lines[place]))


def _in_another_order(lines: Lines) -> None:
    place = _some(lines, "deliver")
    other = next(
        at for at in range(place, len(lines)) if lines[at].get("lts", 0) > lines[place].get("lts", 0)
    )
    lines[place], lines[other] = lines[other], lines[place]


LIVE_LIES: dict[str, Callable[[Lines], None]] = {
    "without a delivery": _without_a_delivery,
    "without what was handed over": _without_what_was_handed_over,
    "alike and one not handed over": _alike_and_one_not_handed_over,
    "delivered twice": _delivered_twice,
    "in another order": _in_another_order,
}


def tell(lie: str, folder: Path, copy: Path) -> None:
    """A copy of the traces, as a run of its own, with a lie in the file of the edge e1."""
    shutil.copytree(folder, copy)
    run = b'"run":"live-%s"' % lie.replace(" ", "-").encode()
    for path in copy.glob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b'"run":"live-antiphon"', run))
    path = file_of(copy, "e1")
    lines: Lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    first = lines[1]["position"]
    LIVE_LIES[lie](lines)
    for place, line in enumerate(lines[1:]):
        line["position"] = first + place
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
