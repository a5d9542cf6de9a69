"""Groups, views and pruning: thesis 2.2, 3.4 and Spread paper 2 and 3.2."""

from small_worlds import Cluster

from antiphon import limits
from antiphon.service import Service
from antiphon.types import Cause
from antiphon.wire import frames, packet
from antiphon.wire.bundle import Flag
from antiphon.wire.packet import Data, Fragment, Skip


def test_a_join_is_one_agreed_message():
    """Each join or leave of a group is only an Agreed message. (thesis 3.4.1)"""
    cluster = Cluster(3)
    alice = cluster.client(0, "alice")
    cluster.run(100_000)
    cluster.crossed.clear()
    cluster.join(alice, "g")
    cluster.run(1_000_000)
    bundles = set()
    for _, _, data in cluster.crossed:
        parsed = packet.parse(memoryview(data))
        if isinstance(parsed, Data):
            bundles |= {(item.source, item.number) for item in parsed.items if isinstance(item, Fragment)}
    assert len(bundles) == 1


def test_views_tell_members_cause_and_transitional_set():
    """Views carry identifier, members and transitional set; the first view's transitional set is empty.
    (properties 2.2, 2.3, 2.4)"""
    cluster = Cluster(2)
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    cluster.join(alice, "g")
    cluster.run(1_000_000)
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    cluster.leave(alice, "g")
    cluster.run(1_000_000)
    first, second = cluster.views(alice)
    assert (first.members, first.transitional, first.cause, first.changed) == (
        (alice,),
        (),
        Cause.JOIN,
        (alice,),
    )
    assert (second.members, second.transitional) == ((alice, bob), (alice,))
    assert first.id < second.id
    bobs, last = cluster.views(bob)
    assert bobs.id == second.id and bobs.members == second.members and bobs.transitional == ()
    assert (last.members, last.cause, last.changed) == ((bob,), Cause.LEAVE, (alice,))
    assert isinstance(cluster.events[alice][-1], frames.LeftFrame)


def test_a_disconnect_leaves_every_group():
    """The server handles a disconnect by initiating a leave of all the groups. (thesis 2.2.1)"""
    cluster = Cluster(2)
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    for group in ("g", "h"):
        cluster.join(alice, group)
        cluster.join(bob, group)
    cluster.run(1_000_000)
    cluster.disconnect(alice)
    cluster.run(1_000_000)
    last = {view.group: view for view in cluster.views(bob)}
    assert {group: (view.members, view.cause) for group, view in last.items()} == {
        "g": ((bob,), Cause.DISCONNECT),
        "h": ((bob,), Cause.DISCONNECT),
    }
    assert cluster.nodes[0].sessions.get(1) is None


def test_the_last_word_comes_when_the_name_is_free():
    """A session is over when its disconnect is delivered, not when that has its place in the order: from the
    daemon's last word on another session can have the name. (ours)"""
    cluster = Cluster(2, delay_us=20_000)
    alice = cluster.client(0, "alice")
    cluster.disconnect(alice)
    cluster.run(5_000)
    assert not cluster.nodes[0].sessions.waiting, "it has its place"
    assert not cluster.ended
    refusal = cluster.nodes[0].connect(frames.Connect(frames.PROTOCOL_VERSION, "alice"), cluster.now_us)
    assert isinstance(refusal, frames.Refuse)
    assert refusal.reason == "a session called 'alice' is leaving daemon 'd0'"
    while not cluster.ended:
        cluster.run(1_000)
    assert cluster.ended == [(0, 1, "bye")]
    assert cluster.client(0, "alice") == alice


def test_sessions_that_end_together_are_all_told():
    """Many who disconnect in one turn have one end in the order, and a last word each. (ours)"""
    cluster = Cluster(2)
    clients = [cluster.client(0, f"c{number}") for number in range(5)]
    node = cluster.nodes[0]
    for number in range(1, 6):
        node.control(number, frames.Disconnect(), cluster.now_us)
    cluster.run(1_000_000)
    assert cluster.ended == [(0, number, "bye") for number in range(1, 6)]
    assert [cluster.client(0, f"c{number}") for number in range(5)] == clients


def test_anyone_may_send_to_a_group():
    """A sender does not have to be a member of the group in order to multicast to it. (paper 1)"""
    cluster = Cluster(2)
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    cluster.send(alice, "g", b"hello")
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"hello"]
    assert cluster.payloads(alice) == []


def test_a_member_of_several_groups_gets_a_message_once():
    """(several groups in one message: delivered once to a member of several of them)"""
    cluster = Cluster(2)
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    for group in ("g", "h"):
        cluster.join(bob, group)
    cluster.run(1_000_000)
    cluster.send(alice, ["g", "h", bob], b"once")
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"once"]


def test_private_messages_reach_one_session():
    """(private groups, paper figure 2.3)"""
    cluster = Cluster(2)
    alice, bob, carol = cluster.client(0, "alice"), cluster.client(1, "bob"), cluster.client(1, "carol")
    cluster.send(alice, bob, b"psst")
    cluster.send(alice, "#nobody#d1", b"to nobody")
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"psst"]
    assert cluster.payloads(carol) == []


def test_a_private_name_that_was_nobodys_can_become_somebodys():
    """(private groups: who is reached is decided at delivery)"""
    cluster = Cluster(2)
    alice = cluster.client(0, "alice")
    cluster.send(alice, "#bob#d1", b"too early")
    cluster.run(1_000_000)
    bob = cluster.client(1, "bob")
    cluster.send(alice, bob, b"in time")
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"in time"]


def test_a_sender_may_decline_its_own_message():
    """(self discard)"""
    cluster = Cluster(2)
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    cluster.join(alice, "g")
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    cluster.send(alice, "g", b"not to me", flags=Flag.SELF_DISCARD)
    cluster.run(1_000_000)
    assert cluster.payloads(alice) == []
    assert cluster.payloads(bob) == [b"not to me"]


def test_higher_priorities_go_first_when_there_is_a_queue():
    """Priority channels give expedited service to messages sent using them. (paper 1)"""
    cluster = Cluster(2, unstable_bytes=70_000)
    low, high, bob = (
        cluster.client(0, "low"), cluster.client(0, "high", priority=5), cluster.client(1, "bob")
    )  # fmt: skip
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    for number in range(6):
        cluster.send(low, "g", b"low %d" % number + b"." * 40_000)
    for number in range(2):
        cluster.send(high, "g", b"high %d" % number)
    cluster.run(5_000_000)
    order = [payload[:6].rstrip(b".") for payload in cluster.payloads(bob)]
    assert order[:4] == [b"low 0", b"low 1", b"high 0", b"high 1"]
    assert len(order) == 8


def test_lower_priorities_leave_room_while_higher_ones_are_active():
    """What is under way cannot be overtaken, so little of it is of low priority. (ours)"""
    cluster = Cluster(2, unstable_bytes=800_000)
    node = cluster.nodes[0]
    low, high, bob = (
        cluster.client(0, "low"), cluster.client(0, "high", priority=9), cluster.client(1, "bob")
    )  # fmt: skip
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    cluster.send(high, "g", b"first")
    for number in range(10):
        cluster.send(low, "g", b"low %d" % number + b"." * 40_000)
    assert node.order.own_unstable_bytes < 800_000 // limits.PRIORITY_SHARE + 41_000
    cluster.send(high, "g", b"second")
    cluster.run(5_000_000)
    order = [payload[:6].rstrip(b".") for payload in cluster.payloads(bob)]
    assert order.index(b"second") <= 5
    assert [text for text in order if text.startswith(b"low")] == [b"low %d" % number for number in range(10)]
    for number in range(10):  # high has been silent for long
        cluster.send(low, "g", b"low %d" % number + b"." * 40_000)
    assert node.order.own_unstable_bytes >= min(400_000, node.admission.allowance.bytes)
    assert node.admission.allowance.bytes > 800_000 // limits.PRIORITY_SHARE


def fragments_to(cluster: Cluster, receiver: int, text: bytes) -> list[bytes]:
    return [data for _, to, data in cluster.crossed if to == receiver and text in data]


def test_branches_without_members_are_pruned():
    """The actual message content only needs to be sent to those daemons who have local clients who have
    joined the group. (thesis 3.4.2)"""
    cluster = Cluster(4)
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    cluster.crossed.clear()
    for number in range(10):
        cluster.send(alice, "g", b"content %d" % number)
    cluster.run(1_000_000)
    assert len(cluster.payloads(bob)) == 10
    assert len(fragments_to(cluster, 1, b"content")) >= 1
    assert fragments_to(cluster, 2, b"content") == fragments_to(cluster, 3, b"content") == []


def test_skipped_numbers_are_told_in_ranges():
    """Aggregated control information is sent to all sites. (paper 3.2; the thesis sends one meta-data message
    per message, which we do not)"""
    cluster = Cluster(3, delay_us=100_000, delta_ms=20.0)  # delta is at its ceiling
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    cluster.crossed.clear()
    for _ in range(100):
        cluster.send(alice, "g", b"content")
        cluster.run(1_000)
    cluster.run(1_000_000)
    told = [
        item
        for _, receiver, data in cluster.crossed
        if receiver == 2 and isinstance(parsed := packet.parse(memoryview(data)), Data)
        for item in parsed.items
        if isinstance(item, Skip)
    ]
    assert 1 <= len(told) <= 8
    assert sum(skip.last - skip.first + 1 for skip in told) == 100
    assert all(node.is_quiet for node in cluster.nodes)


def test_agreed_order_includes_sites_without_members():
    """For any daemon to know the order of messages sent to some groups it has to also know about all of the
    messages sent to other groups. (thesis 3.4.2)"""
    cluster = Cluster(3)
    alice, bob = cluster.client(0, "alice"), cluster.client(1, "bob")
    cluster.join(alice, "g")
    cluster.join(bob, "g")
    cluster.run(1_000_000)
    for number in range(5):
        cluster.send(alice, "g", b"a%d" % number, service=Service.SAFE)
        cluster.send(bob, "g", b"b%d" % number, service=Service.AGREED)
    cluster.run(2_000_000)
    assert len(cluster.payloads(alice)) == 10
    assert cluster.payloads(alice) == cluster.payloads(bob)


def test_a_message_pruned_before_its_join_was_seen_still_arrives():
    """All sites who might need this message, even if they do not need it yet, will receive it. (thesis 3.4.2;
    the thesis' rule alone loses messages of a sender that is ahead in lts and has not seen the join)"""
    cluster = Cluster(2)
    alice, bob, carol = cluster.client(0, "alice"), cluster.client(1, "bob"), cluster.client(0, "carol")
    cluster.join(alice, "g")
    cluster.run(1_000_000)
    for number in range(30):  # the sender's clock runs ahead of the joiner's
        cluster.send(carol, "h", b"%d" % number)
    cluster.join(bob, "g")
    cluster.send(carol, "g", b"concurrent agreed")
    cluster.send(carol, "g", b"concurrent reliable", service=Service.RELIABLE)
    cluster.send(carol, "g", b"concurrent fifo", service=Service.FIFO)
    cluster.run(2_000_000)
    joined = cluster.views(bob)[0]
    assert cluster.views(alice)[-1].id == joined.id
    after_join = cluster.events[alice].index(cluster.views(alice)[-1])
    agreed = cluster.payloads(alice).index(b"concurrent agreed")
    assert agreed >= 0 and cluster.events[alice].index(
        next(e for e in cluster.events[alice] if getattr(e, "payload", b"") == b"concurrent agreed")
    ) > after_join  # fmt: skip
    assert b"concurrent agreed" in cluster.payloads(bob)
    assert cluster.payloads(bob) == [b"concurrent agreed", b"concurrent reliable", b"concurrent fifo"]
    assert all(node.is_quiet for node in cluster.nodes)
