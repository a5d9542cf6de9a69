"""The end of a daemon view: recovery of missing messages, and holes.

Thesis 6.1.9 and 6.1.10, sentence by sentence, and the theorems about messages. The deviations are listed in
`antiphon.core.membership.recovery` and `antiphon.core.membership.changeover`; the tests that show one say so.
"""

import pytest
from lost_words import HOLE, STRONG, WEAK, keeps_from, world_with_a_hole
from meshes import DELAY_US, with_members
from narrow_path import Narrow
from packets_seen import bundles_sent, recovered

from antiphon.core.membership.patience import STUCK_RECOVERIES
from antiphon.service import Service
from antiphon.wire import bundle, packet
from antiphon.wire.bundle import Flag

# Missing messages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [*WEAK, *STRONG])
def test_what_one_member_has_all_get(service):
    """All the messages that need to be resent are sent by one of the servers who has them. (thesis 6.1.10)"""
    cluster, clients = with_members(4)
    cluster.lose = keeps_from(0, 2, texts=(b"last words",))
    cluster.send(clients[3], "g", b"last words", service=service)
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle()
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"last words"]] * 3
    (again,) = recovered(cluster)
    assert again[:2] == (1, 3), "by the only one who has it"
    assert again[3] == 0b0111, "for the sites of the two who lack it, and its own"


def test_each_missing_bundle_is_sent_once():
    """Each server compiles a list of which messages it is responsible for resending. (thesis 6.1.10)"""
    cluster, clients = with_members(4)
    cluster.lose = keeps_from(2, texts=(b"lost to 2",))
    for number in range(5):
        cluster.send(clients[3], "g", b"lost to 2: %d" % number)
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle()
    again = recovered(cluster)
    assert len(again) == len({(source, number) for _, source, number, _ in again}) == 5
    assert {sender for sender, *_ in again} == {0}, "two have them, one sends them"
    assert {destinations for *_, destinations in again} == {0b0101}
    assert all(len(cluster.payloads(client)) == 5 for client in clients[:3])
    record = cluster.nodes[2].membership.rounds.past[-1]
    assert record.recovered_bundles == 5 and record.recovered_bytes > 5 * 80
    assert cluster.nodes[0].membership.rounds.past[-1].resent_bundles == 5


def test_members_that_have_everything_wait_for_one_that_still_receives():
    """A recovery may take longer than daemons wait that see nothing of it. (deviation: the timeout of thesis
    6.1.9 knows nothing of what others receive)"""
    cluster, clients = with_members(4)
    large = bytes(1_000_000)
    cluster.lose = lambda receiver, data: receiver == 2 and packet.parse(memoryview(data)).head.sender == 3
    cluster.send(clients[3], "g", large)
    cluster.run(100 * DELAY_US)
    issued = cluster.nodes[3].order.issued
    assert [cluster.nodes[daemon].order.contiguous(3) for daemon in (0, 1)] == [issued] * 2
    cluster.lose = Narrow(cluster, to=2, bytes_per_s=20_000)
    cluster.crash(3)
    began_us = cluster.now_us
    cluster.settle({0, 1, 2}, within_us=200_000_000)
    stuck_us = STUCK_RECOVERIES * cluster.nodes[1].membership.timing.recovery_us
    assert cluster.now_us - began_us > 2 * stuck_us
    assert [cluster.payloads(client) for client in clients[:3]] == [[large]] * 3
    assert "stuck" not in {reason for diary in cluster.diaries for _, reason, _ in diary.of("entered")}


def test_a_living_sender_sends_again_itself():
    """(the same sentence: the source first, because it certainly has it)"""
    cluster, clients = with_members(4)
    cluster.lose = keeps_from(1, 2, texts=(b"from 0",))
    cluster.send(clients[0], "g", b"from 0")
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle({0, 1, 2})
    assert [sender for sender, *_ in recovered(cluster)] == [0]
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"from 0"]] * 3


def test_nothing_is_sent_again_when_nothing_is_missing():
    """(the same sentence)"""
    cluster, clients = with_members(3)
    cluster.send(clients[0], "g", b"everybody has it")
    cluster.settle()
    cluster.crash(2)
    cluster.settle()
    assert recovered(cluster) == []
    assert len(bundles_sent(cluster, Flag.PHASE)) == 2 * 2, "resent and done, of two daemons"


def test_daemons_of_other_views_do_not_get_old_messages():
    """The only servers that will process the data messages when they arrive are those servers who came from
    the same prior membership as the sender. (thesis 6.1.10)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1, 2}, {3})
    cluster.settle({0, 1, 2}, {3})
    cluster.lose = keeps_from(1, texts=(b"of three",))
    cluster.send(clients[0], "g", b"of three")
    cluster.run(3 * DELAY_US)
    cluster.crash(2)
    cluster.heal()
    cluster.settle({0, 1, 3})
    assert cluster.payloads(clients[1]) == [b"of three"]
    assert cluster.payloads(clients[3]) == []


def test_no_message_is_delivered_twice():
    """A server never delivers a message more than once. (theorem 6.6)"""
    cluster, clients = with_members(4)
    for number in range(20):
        service = [*WEAK, *STRONG][number % 5]
        cluster.send(clients[number % 4], "g", b"%d" % number, service=service)
        cluster.run(500)
    cluster.partition({0, 1}, {2, 3})
    cluster.settle({0, 1}, {2, 3})
    cluster.heal()
    cluster.settle()
    for client in clients:
        payloads = cluster.payloads(client)
        assert len(payloads) == len(set(payloads))
        assert set(payloads) >= {b"%d" % number for number in range(20) if clients[number % 4] == client}
    assert set(cluster.payloads(clients[0])) == set(cluster.payloads(clients[1]))
    assert set(cluster.payloads(clients[2])) == set(cluster.payloads(clients[3]))


# Holes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", STRONG)
def test_a_lost_senders_message_after_a_hole_is_dropped_by_all(service):
    """Messages that were sent by servers not in the Commit set and which are ordered after a hole in the
    message sequence are discarded without being delivered. (thesis 6.2, theorem 6.8)"""
    cluster, clients = world_with_a_hole((3, b"after the hole", service))
    cluster.settle()
    assert all(cluster.payloads(client) == [] for client in clients[:3])
    assert [node.counters["bundle: after a hole"] for node in cluster.nodes[:3]] == [1, 1, 1]


@pytest.mark.parametrize("service", WEAK)
def test_a_reliable_message_after_a_hole_is_delivered(service):
    """(deviation from figure 6.16, line 9: some member may have delivered it long ago, so dropping it would
    break virtual synchrony, property 2.7)"""
    cluster, clients = with_members(4)
    other = cluster.client(3, "other")
    hole, after = keeps_from(0, 1, 2, texts=(HOLE,)), keeps_from(1, 2, texts=(b"after the hole",))
    cluster.lose = lambda receiver, data: hole(receiver, data) or after(receiver, data)
    cluster.send(clients[3], "g", HOLE)
    cluster.send(other, "g", b"after the hole", service=service)
    cluster.run(3 * DELAY_US)
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"after the hole"], [], []]
    cluster.crash(3)
    cluster.settle()
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"after the hole"]] * 3


@pytest.mark.parametrize("service", STRONG)
def test_messages_of_those_who_remain_are_kept_after_a_hole(service):
    """Since the Commit set of a server always includes the server itself, the server will never discard
    messages that it sent. (theorem 6.8; by the exchange it includes all who come along)"""
    cluster, clients = world_with_a_hole(
        (0, b"of 0", service), (1, b"of 1", service), (3, b"after the hole", service)
    )
    cluster.settle()
    got = [cluster.payloads(client) for client in clients[:3]]
    if service is Service.CAUSAL:  # neither was in the past of the other
        got = [sorted(payloads) for payloads in got]
    assert got == [[b"of 0", b"of 1"]] * 3


def test_a_message_before_the_hole_is_delivered():
    """hole_found = FALSE: sdeliver. (figure 6.16)"""
    cluster, clients = with_members(4)
    cluster.lose = keeps_from(0, 1, 2, texts=(HOLE,))
    cluster.send(clients[3], "g", b"before")
    cluster.send(clients[3], "g", HOLE)
    cluster.send(clients[3], "g", b"after")
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle()
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"before"]] * 3


def test_what_was_not_for_a_site_is_no_hole():
    """(ours: numbers that a site skips, because it has no receiver, are no holes to it)"""
    cluster, clients = with_members(4)
    outsider = cluster.client(3, "outsider")
    listener = cluster.client(0, "listener")
    cluster.join(listener, "other")
    cluster.settle()
    cluster.send(outsider, "other", b"for site 0 alone")
    cluster.send(clients[3], "g", b"for all")
    cluster.run(10 * DELAY_US)
    cluster.lose = keeps_from(0, 1, 2, texts=(b"later",))
    cluster.send(clients[3], "g", b"later")
    cluster.crash(3)
    cluster.settle()
    assert cluster.payloads(listener) == [b"for site 0 alone"]
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"for all"]] * 3


def test_own_messages_are_delivered_on_either_side_of_a_cut():
    """If a server s sends a message m, then s delivers m unless it crashes. (theorem 6.8)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1}, {2, 3})
    for service in (*WEAK, *STRONG):
        for number, client in enumerate(clients):
            cluster.send(client, "g", b"%d %s" % (number, service.name.encode()), service=service)
    cluster.settle({0, 1}, {2, 3})
    for number, client in enumerate(clients):
        own = [text for text in cluster.payloads(client) if text.startswith(b"%d " % number)]
        assert len(own) == 5
    assert len(cluster.payloads(clients[0])) == 10
    assert set(cluster.payloads(clients[0])) == set(cluster.payloads(clients[1]))
    assert set(cluster.payloads(clients[2])) == set(cluster.payloads(clients[3]))


def test_what_is_sent_during_a_change_waits_for_the_next_view():
    """(ours: sends wait, nothing is lost or refused; the thesis blocks its clients, 6.4.6)"""
    cluster, clients = with_members(3)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].state == "seg")
    old = cluster.nodes[0].view.id
    cluster.send(clients[0], "g", b"patience", service=Service.FIFO)
    cluster.send(clients[0], "g", b"pays", service=Service.AGREED)
    cluster.settle()
    sent = [
        view
        for view, header in cluster.diaries[0].of("sent")
        if header.service is Service.FIFO and not header.flags
    ]
    assert sent[-1] == cluster.nodes[0].view.id > old
    assert cluster.story(clients[1]) == ["signal", "network c0 c1", "patience", "pays"]


# A join that is under way when its view ends ----------------------------------------------------------------


def test_a_join_under_way_takes_effect_with_the_end_of_the_view():
    """(6.4.5: joins of those who come along are applied at their place in the order)"""
    cluster, clients = with_members(3)
    newcomer = cluster.client(1, "newcomer")
    cluster.partition({0, 1}, {2})
    cluster.join(newcomer, "g")
    cluster.settle({0, 1}, {2})
    assert cluster.story(clients[0]) == cluster.story(clients[1])
    assert cluster.story(clients[0])[-1] == "network c0 c1 newcomer"
    assert cluster.story(newcomer)[-1] == "network c0 c1 newcomer"


def test_a_message_that_was_pruned_from_a_joiner_is_recovered_for_it():
    """(ours: normally its sender sends it again when it sees the join; here the sender is gone, and one who
    has the message does)"""
    cluster, _ = with_members(3)
    listener, newcomer = cluster.client(0, "listener"), cluster.client(1, "newcomer")
    sender = cluster.client(2, "sender")
    cluster.join(listener, "h")
    cluster.settle()
    cluster.block((1, 2))
    cluster.send(sender, "nobody", b"lets the sender's clock run ahead of the joiner's")
    cluster.join(newcomer, "h")
    cluster.send(sender, "h", b"crossing the join")
    number = cluster.nodes[2].order.issued
    cluster.run(20_000)
    assert cluster.nodes[1].order.has(2, number), "site 1 knows that the message is not for it"
    assert cluster.story(listener)[-2:] == ["join listener newcomer", "crossing the join"]
    assert cluster.events[newcomer] == []
    cluster.crash(2)
    cluster.settle()
    assert cluster.story(newcomer) == ["join listener newcomer", "crossing the join"]
    assert [(sender, source) for sender, source, *_ in recovered(cluster)] == [(0, 2)]


def test_a_large_message_is_recovered_whole():
    """(ours: recovered bundles are bundles, with fragments and repetition as any other)"""
    cluster, clients = with_members(3)
    large = bytes(range(256)) * 400
    cluster.lose = lambda receiver, data: receiver == 1 and len(data) > 1_000
    cluster.send(clients[2], "g", large)
    cluster.run(40_000)
    assert cluster.nodes[0].order.has(2, cluster.nodes[2].order.issued)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].state == "statetrans")
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    assert cluster.payloads(clients[1]) == [large]
    record = cluster.nodes[1].membership.rounds.past[-1]
    assert record.recovered_bytes > bundle.HEADER_BYTES + len(large)
