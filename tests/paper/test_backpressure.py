"""Back-pressure of slow receivers: who waits for them, for how long, and who does not. (ours; the paper
leaves it open)"""

import pytest
from small_worlds import Cluster

from antiphon import limits
from antiphon.config import Settings
from antiphon.core.groups.backpressure import Backpressure
from antiphon.core.groups.membership import Membership
from antiphon.core.groups.sessions import Session
from antiphon.service import Service
from antiphon.wire import frames
from antiphon.wire.packet import Pressure

SOFT_BYTES = 160_000
STEP_BYTES = SOFT_BYTES // limits.SLOW_STEP
PATIENCE_US = limits.SLOW_PATIENCE_US
OWN_PATIENCE_US = limits.SLOW_OWN_PATIENCE_US


def world(sites: int, *names: str, **settings: float) -> Cluster:
    """Sites with clients, given as "name:site:group" for members and "name:site:" for others."""
    cluster = Cluster(sites, output_soft_bytes=SOFT_BYTES, **settings)
    for name, site, group in (member.split(":") for member in names):
        client = cluster.client(int(site), name)
        if group:
            cluster.join(client, group)
    cluster.run(2_000_000)
    return cluster


def backlog(cluster: Cluster, site: int, name: str, waiting_bytes: int, read_bytes: int = 0) -> None:
    """The driver tells how much waits for a session and how much it has read."""
    node = cluster.nodes[site]
    number = next(session.number for session in node.sessions if session.name == name)
    node.backlog(number, waiting_bytes, read_bytes, cluster.now_us)
    cluster._drain(site)


def client(cluster: Cluster, name: str) -> str:
    return next(
        session.private_name for node in cluster.nodes for session in node.sessions if session.name == name
    )


def slow_world(sites: int = 3) -> Cluster:
    """Sloth at the last site reads nothing of the group g; ada and bob share it, eve and dan have another."""
    last = sites - 1
    cluster = world(
        sites, "ada:0:g", f"bob:{1 % sites}:g", f"sloth:{last}:g", f"eve:{last}:other", "dan:0:other"
    )
    backlog(cluster, last, "sloth", SOFT_BYTES + 1)
    cluster.run(100_000)
    return cluster


# Who waits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sites", [1, 3])
def test_those_who_send_to_a_slow_receiver_wait_for_it_at_every_site(sites: int):
    cluster = slow_world(sites)
    ada, bob = client(cluster, "ada"), client(cluster, "bob")
    cluster.send(ada, "g", b"must wait")
    cluster.run(500_000)
    assert cluster.payloads(bob) == []
    assert cluster.nodes[0].status(cluster.now_us)["held_sessions"] == [ada]
    backlog(cluster, sites - 1, "sloth", 0)
    cluster.run(500_000)
    assert cluster.payloads(bob) == [b"must wait"]
    assert cluster.nodes[0].status(cluster.now_us)["held_sessions"] == []


def test_what_has_no_slow_receiver_does_not_wait():
    """Neither in another group of the same daemons nor as a private message to a member of the same group."""
    cluster = slow_world()
    ada, dan, eve, bob = (client(cluster, name) for name in ("ada", "dan", "eve", "bob"))
    cluster.send(ada, "g", b"must wait")
    for number in range(20):
        cluster.send(dan, "other", b"%d" % number)
        cluster.send(dan, bob, b"to you %d" % number)
        cluster.send(eve, "other", b"from here %d" % number)
        cluster.run(20_000)
    cluster.run(100_000)
    assert cluster.payloads(bob) == [b"to you %d" % number for number in range(20)]
    assert len(cluster.payloads(eve)) == len(cluster.payloads(dan)) == 40


def test_what_a_session_sends_after_a_message_that_waits_waits_behind_it():
    """The order of one session's messages is kept, whatever their groups."""
    cluster = slow_world()
    ada, eve = client(cluster, "ada"), client(cluster, "eve")
    cluster.send(ada, "g", b"must wait")
    cluster.send(ada, "other", b"after it")
    cluster.run(300_000)
    assert cluster.payloads(eve) == []
    backlog(cluster, 2, "sloth", 0)
    cluster.run(500_000)
    assert cluster.payloads(eve) == [b"after it"]


def test_private_messages_to_a_slow_receiver_wait_for_it_also_if_it_has_no_group():
    cluster = world(2, "ada:0:", "sloth:1:")
    ada, sloth = client(cluster, "ada"), client(cluster, "sloth")
    backlog(cluster, 1, "sloth", SOFT_BYTES + 1)
    cluster.run(100_000)
    cluster.send(ada, sloth, b"must wait")
    cluster.run(300_000)
    assert cluster.payloads(sloth) == []
    backlog(cluster, 1, "sloth", 0)
    cluster.run(300_000)
    assert cluster.payloads(sloth) == [b"must wait"]


def test_joins_leaves_and_ends_wait_for_no_receiver():
    cluster = slow_world()
    node = cluster.nodes[1]
    newcomer = cluster.client(1, "new")
    cluster.join(newcomer, "g")
    cluster.run(300_000)
    assert newcomer in node.delivery.membership.groups["g"].members.values()


def test_when_the_slow_receiver_leaves_its_group_the_senders_go_on():
    cluster = slow_world()
    ada, bob = client(cluster, "ada"), client(cluster, "bob")
    cluster.send(ada, "g", b"must wait")
    cluster.run(100_000)
    number = next(session.number for session in cluster.nodes[2].sessions if session.name == "sloth")
    cluster.nodes[2].control(number, frames.Leave("g"), cluster.now_us)
    cluster._drain(2)
    cluster.run(300_000)
    assert cluster.payloads(bob) == [b"must wait"]


# Patience -------------------------------------------------------------------------------------------------


def test_patience_with_a_receiver_that_reads_nothing_ends():
    cluster = slow_world()
    ada, bob = client(cluster, "ada"), client(cluster, "bob")
    cluster.send(ada, "g", b"must wait")
    cluster.run(PATIENCE_US - 200_000)
    assert cluster.payloads(bob) == []
    cluster.run(300_000)
    assert cluster.payloads(bob) == [b"must wait"]


def test_patience_is_not_renewed_while_the_receiver_falls_further_behind():
    cluster = slow_world()
    ada, bob = client(cluster, "ada"), client(cluster, "bob")
    cluster.run(PATIENCE_US)
    backlog(cluster, 2, "sloth", 2 * SOFT_BYTES + 1)
    cluster.send(ada, "g", b"waits for nobody")
    cluster.run(300_000)
    assert cluster.payloads(bob) == [b"waits for nobody"]


def test_patience_lasts_as_long_as_the_receiver_reads():
    """A step of its limit within the patience is enough; less is not."""
    cluster = slow_world()
    ada, bob = client(cluster, "ada"), client(cluster, "bob")
    cluster.send(ada, "g", b"must wait")
    for steps in range(1, 11):
        cluster.run(PATIENCE_US // 2)
        backlog(cluster, 2, "sloth", SOFT_BYTES + 1, steps * STEP_BYTES)
        assert cluster.payloads(bob) == []
    for bytes_more in range(1, 4):
        cluster.run(PATIENCE_US // 2)
        backlog(cluster, 2, "sloth", SOFT_BYTES + 1, 10 * STEP_BYTES + bytes_more)
    assert cluster.payloads(bob) == [b"must wait"]


def test_a_receiver_that_has_caught_up_and_falls_behind_again_is_waited_for_again():
    cluster = slow_world()
    ada, bob = client(cluster, "ada"), client(cluster, "bob")
    cluster.run(PATIENCE_US)
    backlog(cluster, 2, "sloth", SOFT_BYTES // 2)
    backlog(cluster, 2, "sloth", SOFT_BYTES + 1)
    cluster.run(100_000)
    cluster.send(ada, "g", b"must wait")
    cluster.run(300_000)
    assert cluster.payloads(bob) == []


@pytest.mark.parametrize("reads", [False, True])
def test_a_program_that_sends_before_it_reads_hardly_waits_for_itself(reads: bool):
    """It waits longer only if it reads meanwhile, so that waiting is of use."""
    cluster = world(1, "sloth:0:g", "bob:0:g")
    bob = client(cluster, "bob")
    backlog(cluster, 0, "sloth", SOFT_BYTES + 1)
    cluster.send(client(cluster, "sloth"), "g", b"to itself, too")
    for steps in range(1, 10):
        cluster.run(OWN_PATIENCE_US // 2)
        backlog(cluster, 0, "sloth", SOFT_BYTES + 1, steps * STEP_BYTES if reads else 0)
    assert cluster.payloads(bob) == ([] if reads else [b"to itself, too"])


def test_a_slow_receiver_need_not_wait_for_itself_with_what_does_not_come_back_to_it():
    cluster = slow_world()
    sloth, eve = client(cluster, "sloth"), client(cluster, "eve")
    cluster.send(sloth, "other", b"elsewhere")
    cluster.run(OWN_PATIENCE_US // 2 + 20_000)
    assert cluster.payloads(eve) == [b"elsewhere"]


def test_what_can_come_for_a_slow_receiver_is_bounded_until_it_feeds_itself():
    cluster = world(1, "sloth:0:g", "bob:0:g")
    node = cluster.nodes[0]
    number = next(session.number for session in node.sessions if session.name == "sloth")
    backlog(cluster, 0, "sloth", SOFT_BYTES + 1)
    assert node.backpressure.bounds(number)
    cluster.run(2 * OWN_PATIENCE_US)
    assert node.backpressure.bounds(number)
    cluster.send(client(cluster, "sloth"), "g", b"one more")
    assert not node.backpressure.bounds(number)


# Policies -------------------------------------------------------------------------------------------------


def test_a_slow_client_may_go_without_unreliable_messages_instead():
    cluster = Cluster(2, output_soft_bytes=SOFT_BYTES)
    ada, bob = cluster.client(0, "ada"), cluster.client(1, "bob", slow="drop-unreliable")
    eve = cluster.client(1, "eve")
    for member in (ada, bob, eve):
        cluster.join(member, "g")
    cluster.run(2_000_000)
    node = cluster.nodes[1]
    backlog(cluster, 1, "bob", SOFT_BYTES + 1)
    cluster.send(ada, "g", b"left", b"out", service=Service.UNRELIABLE)
    cluster.send(ada, "g", b"ordered", service=Service.AGREED)
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"ordered"]
    assert sorted(cluster.payloads(eve)) == [b"left", b"ordered", b"out"]
    told = node.status(cluster.now_us)
    assert told["slow_receivers"]["now"] == told["slow_receivers"]["warned"] == 1
    assert told["slow_receivers"]["dropped_messages"] == 2
    assert told["slow_sessions"] == []
    backlog(cluster, 1, "bob", 2 * SOFT_BYTES + 1)
    assert node.status(cluster.now_us)["slow_sessions"] == [bob]
    backlog(cluster, 1, "bob", SOFT_BYTES)
    assert node.status(cluster.now_us)["slow_sessions"] == []
    backlog(cluster, 1, "bob", SOFT_BYTES // 2)
    cluster.send(ada, "g", b"again", service=Service.UNRELIABLE)
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"ordered", b"again"]


def test_the_policy_for_slow_clients_is_that_of_the_configuration_unless_they_choose():
    cluster = Cluster(1, slow_policy="drop-unreliable")
    for name, slow in (("ada", ""), ("bob", "disconnect"), ("eve", "drop-unreliable")):
        cluster.client(0, name, slow=slow)
    assert [session.slow for session in cluster.nodes[0].sessions] == [
        "drop-unreliable", "disconnect", "drop-unreliable"
    ]  # fmt: skip
    refusal = cluster.nodes[0].connect(
        frames.Connect(frames.PROTOCOL_VERSION, "odd", slow="ignore"), cluster.now_us
    )
    assert isinstance(refusal, frames.Refuse) and "known: disconnect, drop-unreliable" in refusal.reason


# Announcements --------------------------------------------------------------------------------------------


def alone() -> Backpressure:
    return Backpressure(0, ("d0", "d1", "d2"), Settings(), Membership(lambda daemon: daemon))


def session(number: int) -> Session:
    return Session(
        number,
        f"s{number}",
        "d0",
        priority=0,
        views=True,
        accepts=False,
        slow="disconnect",
        warnings=False,
        refusals=False,
    )


def test_an_old_announcement_does_not_count_after_a_newer_one():
    pressure = alone()
    pressure.receive(Pressure(1, 1, serial=2, sessions=()), 0)
    pressure.receive(Pressure(1, 1, serial=1, sessions=((5, "sloth"),)), 0)
    assert pressure.other_names == []
    pressure.receive(Pressure(1, 1, serial=3, sessions=((5, "sloth"),)), 0)
    assert pressure.other_names == ["#sloth#d1"]


def test_an_announcement_expires_unless_it_is_renewed():
    pressure = alone()
    pressure.receive(Pressure(1, 1, serial=1, sessions=((5, "sloth"),)), 0)
    pressure.timeout(True, limits.PRESSURE_VALID_US - 1)
    assert pressure.other_names and not pressure.is_eased
    pressure.receive(Pressure(1, 1, serial=2, sessions=((5, "sloth"),)), limits.PRESSURE_VALID_US - 1)
    pressure.timeout(True, limits.PRESSURE_VALID_US)
    assert pressure.other_names and not pressure.is_eased
    pressure.timeout(True, 2 * limits.PRESSURE_VALID_US)
    assert pressure.other_names == [] and pressure.is_eased


def test_an_announcement_goes_on_in_the_next_view_at_those_who_come_along():
    pressure = alone()
    pressure.receive(Pressure(1, 1, serial=1, sessions=((5, "sloth"),)), 0)
    pressure.receive(Pressure(2, 2, serial=1, sessions=((6, "snail"),)), 0)
    late_us = 3 * limits.PRESSURE_VALID_US
    pressure.timeout(False, late_us)  # without a view none could be renewed
    assert len(pressure.other_names) == 2 and not pressure.is_eased
    pressure.begin_view((0, 1), late_us)
    assert pressure.other_names == ["#sloth#d1"] and pressure.is_eased
    pressure.timeout(True, late_us + limits.PRESSURE_VALID_US)
    assert pressure.other_names == []


def test_in_a_new_view_a_daemon_announces_at_once_and_takes_back_what_is_no_longer_true():
    pressure = alone()
    pressure.behind(session(7), 0, 0)
    assert pressure.announcement(0, 0) is not None
    pressure.begin_view((0, 1), 1)
    assert pressure.announcement(0, 1) == Pressure(0, 0, 2, ((7, "s7"),))
    pressure.caught_up(7)
    pressure.begin_view((0, 1), 2)
    assert pressure.announcement(0, 2) == Pressure(0, 0, 3, ())
    pressure.begin_view((0, 1), 3)
    assert pressure.announcement(0, 3) is None


def test_a_daemon_repeats_its_announcement_before_it_expires_and_takes_it_back():
    pressure = alone()
    assert pressure.announcement(0, 0) is None
    pressure.behind(session(7), 0, 0)
    assert pressure.announcement(0, 0) == Pressure(0, 0, 1, ((7, "s7"),))
    assert pressure.announcement(0, limits.PRESSURE_RENEW_US - 1) is None
    assert pressure.due_us() == limits.SLOW_OWN_PATIENCE_US
    assert pressure.announcement(0, limits.PRESSURE_RENEW_US) == Pressure(0, 0, 2, ((7, "s7"),))
    pressure.caught_up(7)
    assert pressure.announcement(0, limits.PRESSURE_RENEW_US + 1) is None  # not so soon
    again_us = limits.PRESSURE_RENEW_US + limits.PRESSURE_PAUSE_US
    assert pressure.due_us() == again_us
    assert pressure.announcement(0, again_us) == Pressure(0, 0, 3, ())
    assert pressure.due_us() is None


def test_of_many_slow_sessions_the_first_are_announced():
    pressure = alone()
    for number in range(1, limits.PRESSURE_SESSIONS_MAX + 5):
        pressure.behind(session(number), 0, 0)
    announced = pressure.announcement(0, 0)
    assert announced is not None
    assert [number for number, _ in announced.sessions] == list(range(1, limits.PRESSURE_SESSIONS_MAX + 1))
    pressure.caught_up(1)
    announced = pressure.announcement(0, limits.PRESSURE_PAUSE_US)
    assert announced is not None and announced.sessions[-1][0] == limits.PRESSURE_SESSIONS_MAX + 1


def test_a_slow_receiver_is_waited_for_in_the_next_view_too():
    cluster = world(3, "ada:0:g", "sloth:1:g", slow_patience_ms=60_000.0)
    ada, sloth = client(cluster, "ada"), client(cluster, "sloth")
    backlog(cluster, 1, "sloth", SOFT_BYTES + 1)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].view.members == cluster.nodes[1].view.members == (0, 1))
    cluster.run(limits.PRESSURE_RENEW_US)
    cluster.send(ada, "g", b"must wait")
    cluster.run(500_000)
    assert cluster.payloads(sloth) == []
    backlog(cluster, 1, "sloth", 0)
    cluster.settle()
    assert cluster.payloads(sloth) == [b"must wait"]


def test_a_daemon_that_is_lost_keeps_no_sender_waiting():
    """No announcement outlives the view in which it was made."""
    cluster = world(3, "ada:0:g", "bob:1:g", "sloth:2:g", slow_patience_ms=60_000.0)
    backlog(cluster, 2, "sloth", SOFT_BYTES + 1)
    cluster.run(100_000)
    ada, bob = client(cluster, "ada"), client(cluster, "bob")
    cluster.send(ada, "g", b"on we go")
    cluster.run(100_000)
    assert cluster.payloads(bob) == []
    cluster.crash(2)
    cluster.settle()
    assert cluster.payloads(bob) == [b"on we go"]
