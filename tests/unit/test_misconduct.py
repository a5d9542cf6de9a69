"""Nonsense under a valid seal: refused, counted by who sent it, and past a bound the daemon is left out."""

from random import Random
from typing import Any

import pytest
from sealed_world import FIRST, Sealed

from antiphon import config, limits
from antiphon.cli.status import _security
from antiphon.config import DaemonConfig, LinkConfig, SiteConfig
from antiphon.core.membership.rounds import Reason
from antiphon.core.node import Node
from antiphon.core.ordering.stability import stamp_after
from antiphon.core.sealing.keys import Keys
from antiphon.core.sealing.seal import Sealing
from antiphon.errors import BadPacket, Nonsense
from antiphon.simulator.babble import nonsense
from antiphon.wire import packet
from antiphon.wire.membership import Proposal
from antiphon.wire.packet import PacketKind

ENOUGH = limits.NONSENSE_MAX
OUT_US = limits.EXCLUDED_US


def whole_world(*sizes: int) -> Sealed:
    world = Sealed(*sizes)
    world.form()
    return world


def say(world: Sealed, sender: int, receiver: int, count: int = 1) -> None:
    """A daemon sends another one nonsense, under its seal."""
    node, chance = world.nodes[sender], Random(f"{sender} {receiver}")
    for _ in range(count):
        node.datagrams.append(nonsense(node, receiver, chance))
        world.give(receiver, b"".join(node.datagrams.pop().buffers))


def members(world: Sealed) -> list[tuple[int, ...]]:
    return [node.view.members for _, node in sorted(world.nodes.items())]


def left_out(node: Node, now_us: int) -> dict[int, str]:
    current = node.membership.exclusions.current(now_us)
    return {daemon: reason for daemon, (reason, _) in current.items()}


def status(world: Sealed, number: int) -> Any:
    return world.nodes[number].status(world.now_us)


def reasons(node: Node) -> list[Reason]:
    return [record.reason for record in node.membership.rounds.past]


def test_less_than_the_bound_is_refused_and_nothing_follows() -> None:
    world = whole_world(1, 1, 1)
    view = world.nodes[0].view.id
    refused = sum(world.nodes[0].counters.values())
    say(world, 2, 0, ENOUGH - 1)
    world.run(1_000_000)
    assert world.is_whole() and world.nodes[0].view.id == view
    assert sum(world.nodes[0].counters.values()) - refused == ENOUGH - 1
    [told] = status(world, 0)["nonsense"]
    assert (told["daemon"], told["packets"]) == ("d2", ENOUGH - 1)
    assert status(world, 1)["nonsense"] == [] and status(world, 0)["left_out"] == []


def test_at_the_bound_the_sender_is_left_out_by_all_with_a_reason_and_taken_in_again() -> None:
    world = whole_world(1, 1, 1)
    say(world, 2, 0, ENOUGH)
    reason = left_out(world.nodes[0], world.now_us)[2]
    assert reason.startswith("d2 sends what no daemon sends, sealed with the cluster's key (")
    world.run(OUT_US // 2)
    assert members(world) == [(0, 1), (0, 1), (2,)], "the one to which it sent nothing goes along"
    assert Reason.NONSENSE in reasons(world.nodes[0]) and world.nodes[0].is_operational
    told = status(world, 0)
    assert told["left_out"][0]["reason"] == reason
    assert [one["detail"] for one in told["rounds"] if one["reason"] == "nonsense"] == [reason]
    world.run(OUT_US)
    world.form()


def test_it_is_out_for_twice_as_long_the_next_time() -> None:
    world = whole_world(1, 1)
    for times in (1, 2):
        say(world, 1, 0, ENOUGH)
        [(_, remaining_us)] = world.nodes[0].membership.exclusions.current(world.now_us).values()
        assert remaining_us == times * OUT_US
        world.run(times * OUT_US + 1_000_000)
        world.form()


def test_nonsense_of_a_daemon_that_is_out_already_makes_the_time_no_longer() -> None:
    world = whole_world(1, 1)
    say(world, 1, 0, ENOUGH)
    world.run(OUT_US // 2)
    say(world, 1, 0, 5 * ENOUGH)
    [(_, remaining_us)] = world.nodes[0].membership.exclusions.current(world.now_us).values()
    assert remaining_us == OUT_US, "it begins anew"
    assert reasons(world.nodes[0]).count(Reason.NONSENSE) == 1, "there was no view to lose"


def test_nonsense_of_a_daemon_that_is_out_is_not_the_fault_of_its_receiver() -> None:
    """None of the members of the view has sent any."""
    world = whole_world(1, 1, 1)
    say(world, 2, 0, ENOUGH)
    world.run(OUT_US // 2)
    say(world, 2, 0, ENOUGH)
    assert list(left_out(world.nodes[0], world.now_us)) == [2]
    world.run(OUT_US // 2)
    assert members(world) == [(0, 1), (0, 1), (2,)]


def test_a_view_with_a_daemon_that_is_left_out_is_not_kept() -> None:
    """It proposes one itself, or somebody who does not know yet."""
    world = whole_world(1, 1)
    node, view = world.nodes[0], world.nodes[0].view
    say(world, 1, 0, ENOUGH)
    proposal = Proposal.of(stamp_after(node.clock, 0), view.members, view.incarnations, view.links)
    node.membership.receive_proposal(1, proposal, world.now_us)
    assert node.membership.standing.forming is None
    record = node.membership.rounds.current
    assert record is not None and record.reason is Reason.NONSENSE
    assert node.membership.standing.promised == proposal.id, "others learn that it goes on without them"


def test_what_came_long_ago_does_not_count() -> None:
    world = whole_world(1, 1)
    say(world, 1, 0, ENOUGH - 1)
    world.now_us += limits.NONSENSE_WITHIN_US + 1
    say(world, 1, 0, ENOUGH - 1)
    assert not left_out(world.nodes[0], world.now_us)


def test_another_process_of_the_daemon_begins_with_nothing_against_it() -> None:
    world = whole_world(1, 1)
    say(world, 1, 0, ENOUGH - 1)
    world.start(1)
    world.form()
    say(world, 1, 0, ENOUGH - 1)
    assert world.is_whole() and not left_out(world.nodes[0], world.now_us)


def test_who_understands_none_of_the_others_leaves_itself_out() -> None:
    """It is more likely that one daemon is broken, or of a strange version, than that all others are."""
    world = whole_world(1, 1, 1)
    say(world, 1, 0, ENOUGH // 2)
    say(world, 2, 0, ENOUGH)
    [(daemon, reason)] = left_out(world.nodes[0], world.now_us).items()
    assert daemon == 0 and reason.startswith("what all others send makes no sense to this daemon (")
    world.run(OUT_US // 2)
    assert members(world) == [(0,), (1, 2), (1, 2)]
    world.run(OUT_US)
    world.form()


def test_of_two_daemons_it_is_always_the_other() -> None:
    world = whole_world(1, 1)
    say(world, 1, 0, ENOUGH)
    assert list(left_out(world.nodes[0], world.now_us)) == [1]


@pytest.mark.parametrize("way", ["again", "changed", "plain"])
def test_strangers_cannot_have_a_daemon_left_out(way: str) -> None:
    """Who has heard nonsense, or makes it without the key, sends it for ever."""
    world = whole_world(1, 1)
    node = world.nodes[1]
    node.datagrams.append(nonsense(node, 0, Random(1)))
    data = b"".join(node.datagrams.pop().buffers)
    if way == "again":
        world.give(0, data)
    elif way == "changed":
        data = data[:-1] + bytes((data[-1] ^ 1,))
    else:
        prefix = packet.prefix(
            PacketKind.BEAT, digest=node.config.digest, sender=1, receiver=0, incarnation=node.incarnation
        )
        data = packet.whole(prefix, b"\xc1", counter=1_000_000)
    for _ in range(5 * ENOUGH):
        world.give(0, data)
    assert not left_out(world.nodes[0], world.now_us)
    world.run(100_000)
    assert world.is_whole()


def test_no_record_is_kept_of_more_daemons_than_there_are() -> None:
    world = whole_world(1, 1)
    misconduct = world.nodes[0].membership.misconduct
    for stranger in range(2, 5_000):
        misconduct.note(stranger, 1, "beat: no such daemon", False, world.now_us)
    for incarnation in range(1, 5_000):
        misconduct.note(1, incarnation, "beat: no such daemon", False, world.now_us)
    assert len(misconduct.describe(world.now_us)) == 1


def test_nonsense_over_a_connection_counts_more_because_it_ends_that() -> None:
    sites = (
        SiteConfig("s0", (DaemonConfig("d0", "127.0.0.1:7000"),)),
        SiteConfig("s1", (DaemonConfig("d1", "127.0.0.1:7001"),)),
    )
    told = config.build(sites, (LinkConfig(sites=("s0", "s1"), protocol="tcp"),))
    node = Node(told, "d0", incarnation=1, now_us=0, sealing=Sealing(Keys(FIRST), Random(1).randbytes))
    head = packet.Head(int(PacketKind.BEAT), told.digest, 1, 0, 5, 0, 1, 0)
    for _ in range(ENOUGH // limits.NONSENSE_PER_CONNECTION):
        assert not left_out(node, 0)
        node.gate.refuse_contents(Nonsense("beat: no such daemon"), head, 0)
    assert list(left_out(node, 0)) == [1]


def test_what_honest_daemons_may_be_the_cause_of_is_never_held_against_them() -> None:
    world = whole_world(1, 1)
    node = world.nodes[0]
    head = packet.Head(
        int(PacketKind.DATA), node.config.digest, 1, 0, world.nodes[1].incarnation, node.view.id, 1, 0
    )
    other = packet.Head(
        int(PacketKind.DATA), node.config.digest + 1, 1, 0, world.nodes[1].incarnation, node.view.id, 1, 0
    )
    for _ in range(5 * ENOUGH):
        node.gate.refuse_contents(BadPacket("item: number far beyond its source's last one"), head, 0)
        node.gate.refuse_contents(Nonsense("beat: no such daemon"), other, 0)  # another configuration
    assert not left_out(node, world.now_us) and world.is_whole()


def test_status_tells_of_the_first_such_packet() -> None:
    world = whole_world(1, 1)
    say(world, 1, 0)
    told = {"runtime": {}, **status(world, 0)}
    (line,) = [line for line in _security(told) if "no daemon" in line]
    assert line.startswith("under the seal of d1 came 1 packet such as no daemon sends, the last one ")
