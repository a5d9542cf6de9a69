"""Traces of real clusters with edges: what an edge writes down is judged with what the daemons do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from traced_edges import ALIKE, LIVE_LIES, file_of, meet_at_edges, tell

from antiphon.simulator.oracle import judge
from antiphon.trace import Event, Record, Trace, merge, promises
from antiphon.trace.files import read_records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The traces of a cluster with two edges, of which a daemon and an edge were killed."""
    directory = tmp_path_factory.mktemp("edges")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTIPHON_TRACE", str(directory / "traces"))
        yield meet_at_edges(directory)


def at(trace: Trace, process: str) -> list[Record]:
    return trace.by_process[process]


def test_a_traced_cluster_with_edges_is_judged_clean(folder: Path) -> None:
    trace = merge(folder)
    violations = judge(trace)
    assert not violations, "\n".join(map(str, violations[:5]))
    assert trace.edges == ("e1", "e2")


def test_the_file_of_an_edge_tells_of_its_sessions_and_its_feed(folder: Path) -> None:
    trace = merge(folder)
    told = {record.event for record in at(trace, "#bob#e1")}
    assert told == {
        Event.CONNECT, Event.JOIN, Event.VIEW, Event.HANDED, Event.DELIVER, Event.DISCONNECT,
    } | (told & {Event.TRANSSIG, Event.UNSURE})  # fmt: skip
    feed = {record.event: record for record in trace.records if record.daemon == "e1" and not record.process}
    assert set(feed) == {
        Event.RECOVER, Event.ATTACH, Event.DETACH, Event.PART, Event.BASE, Event.CRASH,
    }  # fmt: skip
    assert (feed[Event.DETACH].peer, feed[Event.ATTACH].peer) == ("d1", "d2")
    assert not list(folder.glob("client.bob*")), "the edge alone tells of its sessions"


def test_daemons_tell_what_they_send_for_clients_of_edges(folder: Path) -> None:
    trace = merge(folder)
    for process, daemons in (("#bob#e1", {"d1", "d2"}), ("#cleo#e2", {"d2"})):
        sent = [record for record in trace.of(Event.SEND) if record.peer == process]
        assert {record.process for record in sent} == {
            f"#{process.strip('#').replace('#', '@')}#{name}" for name in daemons
        }
    handed = [record for record in at(trace, "#bob#e1") if record.event is Event.HANDED]
    assert len(handed) == 50 + ALIKE


def test_sessions_of_a_later_life_are_told_apart(folder: Path) -> None:
    trace = merge(folder)
    cleos = [process for process in trace.by_process if process.startswith("#cleo") and process[-3:] == "#e2"]
    assert cleos == ["#cleo#e2", "#cleo!1000001#e2"]
    lives = sorted(folder.glob("daemon.e2.*.jsonl"))
    assert len(lives) == 2
    killed = read_records(file_of(folder, "e2"))[1]
    assert killed[0].event is Event.RECOVER
    assert killed[-1].event is not Event.CRASH


@pytest.mark.parametrize("lie", LIVE_LIES)
def test_a_lie_about_an_edge_is_noticed(folder: Path, tmp_path: Path, lie: str) -> None:
    tell(lie, folder, tmp_path / "lie")
    assert promises.EDGES.name in {violation.name for violation in judge(merge(tmp_path / "lie"))}
