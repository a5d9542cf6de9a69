"""Views that stand still although all neighbours are heard: noticed, told and ended.

No sentences of the papers: their daemons do not fail in such ways. What is done instead is written down in
`antiphon.core.stalls` and `antiphon.core.membership.exclusions`.
"""

from typing import Any

import pytest
from small_worlds import Cluster

from antiphon import limits
from antiphon.config.timing import PRESETS
from antiphon.core.membership.changeover import Changeover
from antiphon.core.membership.engine import Engine
from antiphon.core.membership.proposals import Proposals
from antiphon.core.membership.rounds import Reason, Round
from antiphon.core.node import Node
from antiphon.core.origin import Origin
from antiphon.service import Service
from antiphon.wire.bundle import Draft, Flag
from antiphon.wire.packet import Skip

STALL_US = PRESETS["lan"].stall_us
NOTICED_US = STALL_US + STALL_US // 5
"""With a few looks more than it takes."""


def world(sites: int = 3, **options: Any) -> tuple[Cluster, list[str]]:
    cluster = Cluster(sites, mesh=True, membership="lan", **options)
    return cluster, cluster.members()


def rounds(node: Node, reason: Reason) -> list[Round]:
    current = node.membership.rounds.current
    known = (*node.membership.rounds.past, *(() if current is None else (current,)))
    return [record for record in known if record.reason is reason]


def of(cluster: Cluster, number: int) -> list[Round]:
    return rounds(cluster.nodes[number], Reason.STALLED)


def stalled(cluster: Cluster) -> list[Round]:
    return [record for number in range(len(cluster.nodes)) for record in of(cluster, number)]


def flow(cluster: Cluster, number: int) -> dict[str, Any]:
    found = cluster.nodes[number].status(cluster.now_us)["flow"]
    assert isinstance(found, dict)
    return found


def has(cluster: Cluster, clients: list[str], payload: bytes) -> bool:
    return all(payload in cluster.payloads(client) for client in clients)


def assert_messages_flow(cluster: Cluster, clients: list[str]) -> None:
    for client in clients:
        payload = f"{client} at {cluster.now_us}".encode()
        cluster.send(client, "g", payload, service=Service.SAFE)
        cluster.until(lambda payload=payload: has(cluster, clients, payload))  # type: ignore[misc]


# Ordering ---------------------------------------------------------------------------------------------------


def test_a_usurped_packet_stops_the_order_and_a_new_view_repairs_it() -> None:
    cluster, clients = world()
    cluster.usurp(0, 1)
    cluster.send(clients[0], "g", b"lost on the way")
    began_us = cluster.now_us
    cluster.until(lambda: stalled(cluster))
    assert STALL_US <= cluster.now_us - began_us <= NOTICED_US
    [record] = stalled(cluster)
    assert (record.peer, record.reason.value) == (1, "stalled")
    assert "waiting for d1" in record.detail
    cluster.settle()
    assert has(cluster, clients, b"lost on the way")
    assert [node.view.members for node in cluster.nodes] == [(0, 1, 2)] * 3, "once is no habit"
    assert_messages_flow(cluster, clients)
    assert len(stalled(cluster)) == 1


def test_status_tells_of_it_long_before_the_view_is_ended() -> None:
    cluster, clients = world()
    assert flow(cluster, 0) == {"is_flowing": True, "stopped_us_ago": None, "waits_for": [], "detail": ""}
    cluster.usurp(0, 1)
    cluster.send(clients[0], "g", b"lost on the way")
    cluster.run(STALL_US // limits.STALL_TOLD_SHARE + STALL_US // 10)
    told = flow(cluster, 0)
    assert (told["is_flowing"], told["waits_for"]) == (False, ["d1"])
    assert told["stopped_us_ago"] > STALL_US // 5
    assert not stalled(cluster)
    cluster.until(lambda: stalled(cluster))
    cluster.settle()
    assert all(flow(cluster, number)["is_flowing"] for number in range(3))


def test_a_gap_is_noticed_while_much_else_comes_in() -> None:
    """The daemon that has a later bundle of the same source knows that no queue holds the earlier one."""
    cluster, clients = world(unstable_bytes=50_000_000)
    cluster.usurp(0, 1)
    cluster.send(clients[0], "g", b"lost on the way")
    began_us = cluster.now_us
    while not stalled(cluster):
        for sender in (0, 2):
            cluster.send(clients[sender], "g", bytes(20_000))
        cluster.run(100_000)
        assert cluster.now_us - began_us <= 2 * NOTICED_US
    cluster.settle()
    assert_messages_flow(cluster, clients)


def silence(monkeypatch: pytest.MonkeyPatch, daemon: int) -> None:
    """One daemon never announces where it stands, in any view."""
    due_us = Engine.announcement_due_us
    monkeypatch.setattr(
        Engine, "announcement_due_us", lambda engine: None if engine._me == daemon else due_us(engine)
    )


def test_a_daemon_whose_lts_stands_still_is_left_out_and_comes_back() -> None:
    with pytest.MonkeyPatch.context() as patch:
        cluster, clients = world()
        silence(patch, 2)
        others = clients[:2]
        for sender in (0, 1):  # each of them runs out of patience once
            cluster.send(others[sender], "g", b"from %d" % sender)
            cluster.until(lambda: has(cluster, others, b"from %d" % sender))  # noqa: B023
        assert [(number, record.peer) for number in (0, 1) for record in of(cluster, number)] == [
            (0, 2),
            (1, 2),
        ]
        cluster.until(lambda: all(cluster.nodes[number].view.members == (0, 1) for number in (0, 1)))
        assert_messages_flow(cluster, others)
        cluster.until(lambda: cluster.nodes[2].view.members == (2,))
        assert_messages_flow(cluster, clients[2:])
        [told] = cluster.nodes[1].status(cluster.now_us)["left_out"]  # type: ignore[misc]
        assert told["daemon"] == "d2" and "waiting for d2" in told["reason"]
    cluster.settle(within_us=10 * limits.EXCLUDED_US)
    assert_messages_flow(cluster, clients)


def test_a_daemon_that_never_acknowledges_is_noticed_while_messages_flow() -> None:
    """Those who have everything wait longer: they do not see how others come along."""
    cluster, clients = world()
    order = cluster.nodes[2].order
    order.lines.capped_below = order.lines.clock + 1
    began_us = cluster.now_us
    while not stalled(cluster):
        cluster.send(clients[0], "g", b"agreed messages come through")
        cluster.run(STALL_US // 10)
        assert cluster.now_us - began_us < (limits.STALL_PATIENT_TIMES + 1) * STALL_US
    [record] = stalled(cluster)
    assert record.peer == 2 and "no acknowledgement" in record.detail
    cluster.settle()
    assert_messages_flow(cluster, clients)


def test_the_token_of_a_ring_goes_round_without_progress() -> None:
    """What a made-up token leaves behind: a number that was never given to a bundle."""
    cluster = Cluster(1, daemons=3, membership="lan")
    clients = cluster.members()
    cluster.nodes[1].order.issued += 1_000
    cluster.send(clients[1], "g", b"after a number that is none")
    cluster.until(lambda: stalled(cluster), within_us=10 * STALL_US)
    cluster.settle()
    assert_messages_flow(cluster, clients)


def test_a_large_message_on_a_slow_path_is_no_standstill() -> None:
    cluster, clients = world(2, rate_bytes_per_s=100_000)
    cluster.send(clients[0], "g", bytes(4_000_000))
    cluster.send(clients[0], "g", b"behind it")
    took_us = cluster.until(lambda: has(cluster, clients, b"behind it"), within_us=10 * STALL_US)
    assert took_us > 3 * STALL_US
    cluster.settle()
    assert not stalled(cluster)


def test_what_waits_behind_the_data_of_others_is_no_standstill() -> None:
    """Daemon 0 reaches daemon 2 over a slow path, on which much of daemon 1 is under way already."""
    cluster = Cluster(3, membership="lan", rate_bytes_per_s=200_000)
    clients = cluster.members()
    cluster.send(clients[1], "g", bytes(4_000_000))
    cluster.run(100_000)
    cluster.send(clients[0], "g", b"behind it")
    took_us = cluster.until(lambda: has(cluster, clients, b"behind it"), within_us=10 * STALL_US)
    assert took_us > 3 * STALL_US // 2
    cluster.settle()
    assert not stalled(cluster)


def test_a_pause_of_the_daemon_itself_is_no_standstill_of_others() -> None:
    cluster, clients = world(2, suspect_ms=60_000.0, recovery_ms=60_000.0, stall_ms=10_000.0)
    cluster.send(clients[0], "g", b"under way")
    cluster.pause(0, 5 * STALL_US)
    cluster.pause(1, 5 * STALL_US)
    cluster.run(10 * STALL_US)
    assert has(cluster, clients, b"under way")
    assert not stalled(cluster)


# Groups -----------------------------------------------------------------------------------------------------


def test_a_daemon_that_never_tells_its_groups_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clients = world()
    send_control = Origin.send_control

    def mostly(origin: Origin, draft: Draft, now_us: int, destinations: int | None = None) -> None:
        if origin._me != 2 or not draft.header.flags & Flag.GROUPS:
            send_control(origin, draft, now_us, destinations)

    monkeypatch.setattr(Origin, "send_control", mostly)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    cluster.heal()
    cluster.until(lambda: stalled(cluster), within_us=20 * STALL_US)
    assert "groups" in stalled(cluster)[0].detail
    cluster.until(lambda: cluster.nodes[0].view.members == (0, 1), within_us=20 * STALL_US)
    cluster.until(lambda: cluster.nodes[0].is_operational and cluster.nodes[1].is_operational)
    assert_messages_flow(cluster, clients[:2])


# Changes of the view ----------------------------------------------------------------------------------------


def poison(monkeypatch: pytest.MonkeyPatch, daemon: int) -> None:
    """The state of one daemon at the end of each view is impossible."""
    begin = Changeover.begin

    def wrong(changeover: Changeover, *arguments: Any) -> None:
        if changeover._me == daemon:
            changeover._commitment.line = limits.COUNTER_MAX + 1
        begin(changeover, *arguments)

    monkeypatch.setattr(Changeover, "begin", wrong)


def test_a_daemon_whose_state_is_impossible_is_left_out_for_longer_each_time() -> None:
    with pytest.MonkeyPatch.context() as patch:
        cluster, clients = world()
        poison(patch, 1)
        cluster.lose_view()
        cluster.settle({0, 2}, {1})
        found = [one for node in cluster.nodes for one in rounds(node, Reason.IMPOSSIBLE)]
        detail = "d1 announces an impossible state (state: impossible counter)"
        assert {(record.peer, record.detail) for record in found} == {(1, detail)}
        assert_messages_flow(cluster, [clients[0], clients[2]])
        assert_messages_flow(cluster, [clients[1]])
        times = []
        for _ in range(3):
            current = cluster.nodes[0].membership.exclusions.current(cluster.now_us)
            times.append(current[1][1])
            cluster.run(times[-1])
            cluster.until(lambda: cluster.nodes[0].membership.exclusions.current(cluster.now_us))
            cluster.settle({0, 2}, {1})
        assert times[0] < times[1] < times[2] <= limits.EXCLUDED_MAX_US
        assert_messages_flow(cluster, [clients[0], clients[2]])
    remaining_us = cluster.nodes[0].membership.exclusions.current(cluster.now_us)[1][1]
    cluster.restart(1)
    took_us = cluster.settle()
    assert took_us < remaining_us // 2, "another process is not to blame"


def test_a_number_far_ahead_is_not_carried_into_the_next_view() -> None:
    """A daemon that believed it would tell a state that all refuse, itself included."""
    cluster, clients = world()
    order = cluster.nodes[1].order
    first = order.contiguous(0) + 10
    order.skip(Skip(0, first, first + 2 * limits.OUTSTANDING_MAX, order.lines.clock, order.lines.stable))
    cluster.lose_view()
    cluster.settle()
    assert not [record for node in cluster.nodes for record in rounds(node, Reason.IMPOSSIBLE)]
    assert_messages_flow(cluster, clients)


def test_a_daemon_that_never_proposes_a_view_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clients = world()
    propose = Proposals.propose

    def mostly(proposals: Proposals, *arguments: Any) -> None:
        if proposals._me != 0:
            propose(proposals, *arguments)

    monkeypatch.setattr(Proposals, "propose", mostly)
    cluster.lose_view()
    told = flow(cluster, 1)
    assert not told["is_flowing"] and "state seg" in told["detail"]
    cluster.settle({1, 2}, within_us=10 * STALL_US)
    assert rounds(cluster.nodes[1], Reason.UNANSWERED)[-1].detail == "d0 proposed no view"
    assert_messages_flow(cluster, clients[1:])
