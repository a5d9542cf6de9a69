"""Real daemons in processes of their own that are told to stop: what their peers and clients see of it."""

import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from local_cluster import Cluster
from process_cluster import ProcessCluster
from raw_client import wait_until

from antiphon import Cause, Message, Reconnected, TransitionalSignal, View, blocking
from antiphon.cli.status import faults_of
from antiphon.client import ask_status
from antiphon.runtime.local import local_config

ENDS_S = 30.0
MESSAGES = 200


def told_to_stop(process: "subprocess.Popen[bytes]") -> int:
    """Its exit code, once it has ended."""
    process.send_signal(signal.SIGTERM)
    return process.wait(ENDS_S)


def seen(session: blocking.Session, until: str) -> list[object]:
    """What a session gets up to a message with this text."""
    events: list[object] = []
    while not (events and isinstance(events[-1], Message) and events[-1].payload == until.encode()):
        events.append(session.receive(timeout_s=ENDS_S))
    return events


def causes(events: list[object]) -> list[Cause]:
    return [event.cause for event in events if isinstance(event, View)]


@pytest.fixture
def stack() -> object:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("stopped", [0, 1, 2], ids=["the smallest", "another", "the last"])
@pytest.mark.parametrize("sites", [1, 3])
def test_the_clients_of_the_others_see_departures_alone(
    tmp_path: Path, stack: ExitStack, sites: int, stopped: int
) -> None:
    config = local_config(sites, tmp_path, daemons=3 // sites)
    cluster = ProcessCluster(config, tmp_path, stack)
    others = [index for index in range(3) if index != stopped]
    staying = [stack.enter_context(blocking.connect(cluster.places[index])) for index in others]
    leaving = stack.enter_context(blocking.connect(cluster.places[stopped]))
    for session in (*staying, leaving):
        session.join("chat")
    wait_until(lambda: len(ask_status(cluster.places[others[0]])["groups"]["chat"]) == 3)
    assert told_to_stop(cluster.processes[stopped]) == 0
    cluster.wait_formed(others)
    told = [ask_status(cluster.places[index]) for index in others]
    staying[0].send("chat", b"over")
    for session in staying:
        events = seen(session, "over")
        assert not any(isinstance(event, TransitionalSignal) for event in events)
        assert causes(events)[-1] is Cause.DISCONNECT
        assert Cause.NETWORK not in causes(events)
    for one in told:
        last = one["rounds"][-1]
        gone = config.daemon_names[stopped]
        assert (last["reason"], last["peer"], last["lost"]) == ("leaving", gone, [gone])
        assert f"{gone} is not in the view: it announced its stop" in "\n".join(faults_of(one))
    cluster.restart(stopped)
    cluster.wait_formed()
    log = (tmp_path / f"{config.daemon_names[stopped]}.log").read_text()
    assert "is stopping" in log
    assert "Traceback" not in log


def test_a_session_that_reconnects_goes_on_at_another_daemon_and_knows_the_fate_of_all_it_sent(
    tmp_path: Path, stack: ExitStack
) -> None:
    config = local_config(3, tmp_path)
    cluster = ProcessCluster(config, tmp_path, stack)
    witness = stack.enter_context(blocking.connect(cluster.places[2]))
    witness.join("chat")
    session = stack.enter_context(blocking.connect(cluster.places[:2], name="alice", reconnect=True))
    session.join("chat")
    for number in range(MESSAGES):
        session.send("chat", str(number).encode())
    wait_until(lambda: ask_status(cluster.places[0])["sessions"][0]["sent_messages"] > MESSAGES)
    assert told_to_stop(cluster.processes[0]) == 0
    while not isinstance(back := session.receive(timeout_s=ENDS_S), Reconnected):
        assert isinstance(back, Message | View), back
    session.send("chat", b"again")
    assert (back.daemon, back.unknown_fate) == ("d2", 0), "it was told of each message"
    assert back.reason == "the daemon is stopping (stopping)"
    got = [event.payload for event in seen(witness, "again") if isinstance(event, Message)]
    assert got == [*(str(number).encode() for number in range(MESSAGES)), b"again"]


def test_all_daemons_may_be_told_at_once(tmp_path: Path, stack: ExitStack) -> None:
    cluster = ProcessCluster(local_config(2, tmp_path, daemons=2), tmp_path, stack)
    for process in cluster.processes:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(ENDS_S) for process in cluster.processes] == [0, 0, 0, 0]


def test_a_daemon_whose_neighbours_do_not_answer_ends_all_the_same(tmp_path: Path, stack: ExitStack) -> None:
    cluster = ProcessCluster(local_config(2, tmp_path), tmp_path, stack)
    cluster.processes[0].send_signal(signal.SIGSTOP)
    try:
        assert told_to_stop(cluster.processes[1]) == 0
    finally:
        cluster.processes[0].send_signal(signal.SIGCONT)
    cluster.wait_formed([0])


def test_a_second_signal_ends_it_at_once(tmp_path: Path, stack: ExitStack) -> None:
    cluster = ProcessCluster(local_config(2, tmp_path), tmp_path, stack)
    cluster.processes[0].send_signal(signal.SIGSTOP)
    log = tmp_path / "d2.log"
    try:
        cluster.processes[1].send_signal(signal.SIGTERM)
        wait_until(lambda: "is stopping" in log.read_text())
        assert told_to_stop(cluster.processes[1]) == 0
    finally:
        cluster.processes[0].send_signal(signal.SIGCONT)
    assert "Traceback" not in log.read_text()


def test_a_daemon_that_leaves_takes_no_more_clients(tmp_path: Path, cluster: Cluster) -> None:
    first, second = cluster.start(local_config(2, tmp_path))
    places = [first.places[0], second.places[0]]
    with blocking.connect(places[0]) as before:
        first.leave()
        with pytest.raises(Exception, match="stopping"):
            while True:
                before.receive(timeout_s=ENDS_S)
    with blocking.connect(places) as session:
        assert session.daemon == "d2"
