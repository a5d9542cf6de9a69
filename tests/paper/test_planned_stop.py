"""A planned stop, sentence by sentence of `core.departure` and `core.membership.leaving`. In the thesis there
is none: its daemons find out by silence that one of them was stopped."""

import pytest
from meshes import DELAY_US, forget, marks, states_since, with_members, world
from packets_seen import beat_in
from small_worlds import Cluster

from antiphon import limits
from antiphon.config.timing import PRESETS
from antiphon.core.departure import DeparturePhase
from antiphon.core.membership.patience import GATHERS_MAX
from antiphon.core.membership.rounds import Reason
from antiphon.service import Service
from antiphon.wire import frames
from antiphon.wire.membership import Beat, Station

LAN = PRESETS["lan"]
DRAIN_US = LAN.suspect_us + limits.STOP_DRAIN_US
LEAVE_US = GATHERS_MAX * LAN.gather_us + limits.STOP_LEAVE_US
PAUSE_US = 30_000
"""A few round trips of a millisecond each, the turns on a ring and what a link takes to open."""


def told(cluster: Cluster, *daemons: int) -> None:
    """These daemons are told to stop."""
    for daemon in daemons:
        cluster.nodes[daemon].departure.begin(cluster.now_us)
        cluster._drain(daemon)


def gone(cluster: Cluster, *daemons: int, within_us: int = 2 * DRAIN_US + LEAVE_US + 1) -> int:
    """Let time pass until each of these daemons has left, and end it then; how long the last one took."""
    begun_us = cluster.now_us

    def end() -> bool:
        for daemon in daemons:
            if daemon in cluster.alive and cluster.nodes[daemon].departure.is_over:
                cluster.crash(daemon)
        return cluster.alive.isdisjoint(daemons)

    cluster.until(end, within_us)
    return cluster.now_us - begun_us


def pauses_us(cluster: Cluster, daemon: int, mark: int) -> list[int]:
    """For how long a daemon had no view that works, each time since then."""
    found, since_us = [], None
    for kind, *rest in cluster.diaries[daemon].entries[mark:]:
        if kind == "entered" and rest[0] in ("seg", "statetrans") and since_us is None:
            since_us = rest[2]
        elif kind == "entered" and rest[0] == "op" and since_us is not None:
            found.append(rest[2] - since_us)
            since_us = None
    return found


# The others -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", [0, 1, 3], ids=["the smallest", "another", "the last"])
def test_the_others_gather_while_their_view_works_and_go_on_without_it(daemon: int) -> None:
    cluster, _ = with_members(4)
    mark = marks(cluster)
    told(cluster, daemon)
    gone(cluster, daemon)
    cluster.settle()
    for other in cluster.alive:
        states = [state for state, _ in states_since(cluster, other, mark[other])]
        assert states == ["gather", "statetrans", "evs", "op"], "nothing was found out by silence"
        (pause_us,) = pauses_us(cluster, other, mark[other])
        assert pause_us <= PAUSE_US


def test_their_clients_see_departures_alone() -> None:
    cluster, clients = with_members(3)
    cluster.client(1, "d1")
    told(cluster, 1)
    gone(cluster, 1)
    cluster.settle()
    for other in (0, 2):
        assert cluster.story(clients[other]) == ["disconnect c0 c2"]


def test_sessions_that_end_together_end_in_one_bundle() -> None:
    cluster, clients = with_members(2)
    for number in range(5):
        cluster.join(cluster.client(1, f"m{number}"), "g")
    cluster.settle()
    forget(cluster)
    told(cluster, 1)
    gone(cluster, 1)
    assert cluster.story(clients[0]) == ["disconnect c0"]


def test_messages_flow_until_the_view_is_proposed() -> None:
    cluster, clients = with_members(3)
    told(cluster, 2)
    cluster.until(lambda: cluster.nodes[0].state == "gather", DRAIN_US)
    begun_us = cluster.now_us
    cluster.send(clients[0], "g", b"meanwhile", service=Service.SAFE)
    cluster.run(LAN.gather_us // 2)
    assert cluster.delay_of(clients[1], b"meanwhile", begun_us) < LAN.gather_us // 2
    assert cluster.nodes[0].state == "gather"


def test_links_that_the_next_view_needs_are_tried_before() -> None:
    """If the representative of a site leaves, the next daemon there has links to other sites at once."""
    cluster = Cluster(3, DELAY_US, daemons=2, mesh=True, membership="lan")
    assert (1, 2) not in cluster.nodes[0].view.links
    mark = marks(cluster)
    told(cluster, 0)
    gone(cluster, 0)
    cluster.settle()
    assert {(1, 2), (1, 4)} <= set(cluster.nodes[1].view.links)
    assert max(pauses_us(cluster, 1, mark[1])) <= PAUSE_US


def test_the_round_names_its_reason() -> None:
    cluster = world(3)
    told(cluster, 1)
    gone(cluster, 1)
    cluster.settle()
    for other in (0, 2):
        record = cluster.nodes[other].membership.rounds.past[-1]
        assert (record.reason, record.peer, record.lost) == (Reason.LEAVING, 1, (1,))
        assert record.detail == "d1 announced its stop"
        peers = {peer["name"]: peer for peer in cluster.nodes[other].status(cluster.now_us)["peers"]}
        assert peers["d1"]["has_left"] is True


def test_daemons_that_are_not_its_neighbours_know_the_reason_too() -> None:
    cluster = Cluster(4, DELAY_US, membership="lan")  # a chain
    told(cluster, 3)
    gone(cluster, 3)
    cluster.settle()
    assert cluster.nodes[0].membership.rounds.past[-1].reason is Reason.LEAVING


def test_the_next_process_of_the_daemon_is_taken_in_at_once() -> None:
    cluster, _ = with_members(3)
    told(cluster, 1)
    gone(cluster, 1)
    cluster.restart(1)
    assert cluster.settle() < 2 * LAN.gather_us + LAN.probe_us
    for other in (0, 2):
        assert "signal" not in cluster.story(f"#c{other}#d{other}")


# The daemon itself ------------------------------------------------------------------------------------------


def test_what_its_clients_have_sent_is_everywhere_before_their_sessions_end() -> None:
    cluster, clients = with_members(2)
    teller = cluster.client(1, "teller", accepts=True)
    cluster.send(teller, "g", *(b"%d" % number for number in range(50)))
    told(cluster, 1)
    assert cluster.nodes[1].departure.phase is DeparturePhase.DRAINING
    gone(cluster, 1)
    assert frames.Accepted(50) in cluster.events[teller]
    assert cluster.story(clients[0])[-1] == "disconnect c0"
    assert len(cluster.payloads(clients[0])) == 50


def test_it_takes_nothing_more_from_clients_and_no_more_clients() -> None:
    cluster, _ = with_members(2)
    told(cluster, 1)
    assert not any(cluster.nodes[1].reads(session.number) for session in cluster.nodes[1].sessions)
    answer = cluster.nodes[1].connect(frames.Connect(frames.PROTOCOL_VERSION, "late"), cluster.now_us)
    assert answer == frames.Refuse("stopping", "the daemon is stopping")


def test_clients_are_told_that_the_daemon_stops() -> None:
    cluster, _ = with_members(1)
    cluster.drains = False
    told(cluster, 0)
    while not cluster.nodes[0].is_settled:
        cluster._drain(0)
    assert [goodbye.code for _, goodbye in cluster.nodes[0].endings] == ["stopping"]


def test_a_daemon_that_is_alone_ends_at_once() -> None:
    cluster, _ = with_members(1)
    told(cluster, 0)
    assert gone(cluster, 0) == 0


def test_daemons_that_all_leave_do_not_wait_for_one_another() -> None:
    cluster, _ = with_members(4)
    told(cluster, 0, 1, 2, 3)
    assert gone(cluster, 0, 1, 2, 3) < LAN.gather_us


def test_two_may_leave_at_the_same_time() -> None:
    cluster, clients = with_members(4)
    mark = marks(cluster)
    told(cluster, 0, 2)
    gone(cluster, 0, 2)
    cluster.settle()
    for other in (1, 3):
        assert "signal" not in cluster.story(clients[other])
        assert [state for state, _ in states_since(cluster, other, mark[other])].count("statetrans") == 1


def test_one_that_only_another_leaver_joins_to_the_rest_lets_it_go_first() -> None:
    cluster = Cluster(4, DELAY_US, membership="lan")  # a chain
    told(cluster, 2, 3)
    gone(cluster, 2, 3)
    cluster.settle()
    assert cluster.nodes[0].view.members == (0, 1)


def test_one_that_is_told_while_a_view_is_formed_leaves_the_next_one() -> None:
    cluster, clients = with_members(3)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[1].state == "statetrans", 2 * LAN.suspect_us)
    told(cluster, 1)
    gone(cluster, 1)
    cluster.settle()
    assert cluster.story(clients[0]) == ["signal", "network c0 c1", "disconnect c0"]


def test_one_that_has_no_view_yet_tells_those_who_would_take_it_in() -> None:
    cluster, clients = with_members(3)
    cluster.crash(1)
    cluster.settle()
    forget(cluster)
    cluster.restart(1)
    cluster.until(lambda: cluster.nodes[0].state == cluster.nodes[1].state == "gather", LAN.probe_max_us)
    cluster.run(3 * DELAY_US)
    mark = marks(cluster)
    told(cluster, 1)
    assert gone(cluster, 1) == 0, "there is nothing to wait for"
    cluster.run(2 * LAN.suspect_us)
    assert states_since(cluster, 0, mark[0]) == [("op", "nothing-new")], "no view is formed with it"
    assert cluster.story(clients[0]) == []


def test_strangers_are_not_taken_in_by_one_that_leaves() -> None:
    cluster = world(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    told(cluster, 1)
    cluster.heal()
    gone(cluster, 1)
    cluster.settle()
    assert cluster.nodes[0].view.members == (0, 2)


def test_neighbours_that_never_answer_do_not_keep_it() -> None:
    cluster, _ = with_members(3)
    for other in (0, 2):
        cluster.pause(other, 10 * (DRAIN_US + LEAVE_US))
    told(cluster, 1)
    gone(cluster, 1, within_us=2 * DRAIN_US + LEAVE_US + 1)


def test_a_neighbour_that_is_lost_meanwhile_is_not_waited_for() -> None:
    cluster = world(2)
    told(cluster, 1)
    cluster.crash(0)
    assert gone(cluster, 1) < LAN.suspect_us + 2 * LAN.hello_us


def test_those_who_still_count_on_it_at_the_end_are_told() -> None:
    """Its last word has the same effect as silence, only sooner."""
    cluster = world(2)
    told(cluster, 1)
    cluster.block((0, 1))  # it does not hear that the other one gathers
    cluster.lose = lambda receiver, data: receiver == 0 and bool((beat := beat_in(data)) and beat.stations)
    mark = marks(cluster)
    gone(cluster, 1)
    cluster.run(2 * DELAY_US)
    assert states_since(cluster, 0, mark[0])[0][0] == "seg"


def test_a_word_that_was_not_asked_for_is_no_round_trip() -> None:
    """The next process may get it, too, from a daemon that had long not heard the one before."""
    cluster = Cluster(2, DELAY_US, daemons=2, membership="lan")
    cluster.run(5_000_000)
    told(cluster, 0)
    gone(cluster, 0)
    cluster.restart(0)
    cluster.settle()
    peers = [peer for node in cluster.nodes for peer in node.membership.peers.values()]
    assert max(peer.rtt_us for peer in peers) < 10 * DELAY_US


# The word ---------------------------------------------------------------------------------------------------


def forged(cluster: Cluster, daemon: int, receiver: int, sender: int) -> None:
    """A neighbour's beat tells, in the name of a daemon, that it leaves."""
    node, peer = cluster.nodes[daemon], cluster.nodes[receiver].membership.peers[sender]
    view = node.view
    station = Station(
        daemon, node.incarnation, node.clock + 10**6, view.id, len(view.members), b"\7", leaving=True
    )
    beat = Beat(
        peer.clock_us + 1, 0, False, 4, view.id, view.id, node.clock, sender, True, node.clock + 1, (station,)
    )
    cluster.nodes[receiver].membership.hear(sender, cluster.nodes[sender].incarnation, beat, cluster.now_us)
    cluster._drain(receiver)


def test_a_daemon_takes_back_a_word_that_was_made_up_in_its_name() -> None:
    cluster, clients = with_members(3)
    forged(cluster, daemon=2, receiver=0, sender=1)
    assert cluster.nodes[0].membership.leaving.is_leaving(2, cluster.nodes[2].incarnation, cluster.now_us)
    cluster.settle()
    assert not cluster.nodes[0].membership.leaving.is_leaving(2, cluster.nodes[2].incarnation, cluster.now_us)
    assert [cluster.story(client) for client in clients] == [[], [], []]


def test_the_word_is_part_of_a_station() -> None:
    cluster = world(2)
    told(cluster, 1)
    cluster.until(lambda: cluster.nodes[1].departure.phase is DeparturePhase.LEAVING, DRAIN_US)
    beats = [beat for _, _, data in cluster.crossed if (beat := beat_in(data)) is not None and beat.stations]
    assert any(station.leaving for beat in beats for station in beat.stations if station.daemon == 1)
    assert not any(station.leaving for beat in beats for station in beat.stations if station.daemon == 0)
