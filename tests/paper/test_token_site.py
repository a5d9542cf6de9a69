"""The token-site protocol, sentence by sentence: RMP 4.1, 4.2 and 4.6."""

from contextlib import suppress
from random import Random

import pytest
from msgspec import structs
from ring_world import LAN_US
from small_worlds import HELLO_US, SIGNS, VIEW, Cluster
from token_site_world import TokenSiteWorld

from antiphon import limits
from antiphon.core.links.link import LinkState
from antiphon.core.links.token_site import NULL_ACK_ROUNDS, NULL_ACK_US
from antiphon.errors import BadPacket
from antiphon.wire import packet, token_site
from antiphon.wire.packet import EVERYBODY, Data, Packet, PacketKind
from antiphon.wire.token_site import Confirm, SiteAck, SiteNack

FULL = b"." * 1_300
"""Fills a packet."""


def is_data(incoming: Packet) -> bool:
    return isinstance(incoming, Data) and incoming.head.kind == PacketKind.DATA


def lose_once(receiver: int, *numbers: int):
    """Lose the first copy of the data packets with these numbers on their way to one member."""
    left = set(numbers)

    def lose(sender, to, incoming):
        if to == receiver and is_data(incoming) and incoming.head.number in left:
            left.discard(incoming.head.number)
            return True
        return False

    return lose


def idle(count: int = 3) -> TokenSiteWorld:
    """A segment whose first round is over: its first member is the token site."""
    world = TokenSiteWorld(count)
    world.run(20 * LAN_US)
    assert world.holder == 0
    return world


def numbered(count: int) -> list[bytes]:
    return [b"%04d" % number + FULL for number in range(count)]


def ack_of(world: TokenSiteWorld, member: int, **changes: object) -> SiteAck:
    """An acknowledgement that would be plausible if this member got it now from its token site."""
    link = world.members[member]
    count = len(world.members)
    ack = SiteAck(
        link._serial + 1,
        link._number,
        link._lts,
        (link._named + 1) % count,
        0,
        0,
        (0,) * count,
        (VIEW,) * count,
    )
    return structs.replace(ack, **changes)


# Data and acknowledgements --------------------------------------------------------------------------------


def test_data_is_sent_at_once_whoever_has_the_token():
    """Data packets are multicast to the members of the group. (4.2)"""
    world = idle()
    sent_us = world.now_us
    world.send(2, b"at once")
    assert {when_us for when_us, sender, _, incoming in world.seen if is_data(incoming)} == {sent_us}
    world.run(2 * LAN_US)
    assert world.received[0] == world.received[1] == [b"at once"]
    assert world.holder == 0


def test_what_may_be_lost_is_sent_at_once_too():
    world = idle()
    world.members[2].send_unreliable(packet.Fragment(2, 1, 1, 4, 0, b"lost"))
    world.conclude(2)
    assert world.words(PacketKind.UNRELIABLE) == [(2, 0), (2, 1)]


def test_an_acknowledgement_with_timestamp_8_is_followed_by_9_and_10():
    """An ACK that orders two data packets might have a timestamp of 8. In this case, the first data packet
    would receive timestamp 9 and the second would be numbered 10. (4.2)"""
    world = idle()
    world.number_bundles(0, 8)
    world.owners[1].wants = True
    world.conclude(1)
    world.until(lambda: world.holder == 1)
    first = world.acks()[-1][1]
    assert first.number == world.owners[1].number == 8
    world.number_bundles(1, 2)
    world.send(1, b"9", b"10")
    world.owners[2].wants = True
    world.conclude(2)
    world.until(lambda: world.holder == 2)
    assert world.acks()[-1][1].number == 10
    assert world.owners[2].number == 10 and world.owners[2].lts == first.lts + 2


def test_an_acknowledgement_tells_all_members_what_was_ordered():
    """The timestamps also provide a global basis for the detection of dropped packets. (4.2)"""
    world = idle(4)
    world.number_bundles(0, 3)
    world.owners[1].wants = True
    world.conclude(1)
    world.until(lambda: world.holder == 1)
    world.run(2 * LAN_US)
    assert [owner.number for owner in world.owners] == [3] * 4


def test_an_acknowledgement_also_passes_the_token():
    """Each ACK also passes the token site to the next process in the group. (4.2)"""
    world = TokenSiteWorld(4)
    world.run(20 * LAN_US)
    assert [(sender, ack.next) for sender, ack in world.acks()] == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert world.holder == 0


def test_a_member_that_wants_the_token_gets_it_directly():
    world = idle(5)
    began_us = world.now_us
    world.owners[3].wants = True
    world.conclude(3)
    world.until(lambda: world.holder == 3)
    assert world.now_us - began_us == 2 * LAN_US
    assert [(sender, ack.next) for sender, ack in world.acks(began_us)] == [(0, 3)]


def test_the_token_rests_where_it_was_last_needed():
    world = idle()
    world.owners[2].wants = True
    world.conclude(2)
    world.until(lambda: world.holder == 2)
    world.run(10 * NULL_ACK_US)
    assert world.holder == 2


def test_members_that_want_the_token_get_it_one_after_another():
    world = idle(4)
    for member in (1, 2, 3):
        world.owners[member].wants = True
        world.conclude(member)
    holders = []
    while len(holders) < 3:
        world.until(lambda: world.holder is not None and world.holder not in [0, *holders])
        holders.append(world.holder)
    assert sorted(holders) == [1, 2, 3]
    assert world.now_us < 40 * LAN_US


@pytest.mark.parametrize(("senders", "share"), [((1,), 0.7), ((0, 1, 2), 0.9)])
def test_at_a_light_load_messages_wait_less_than_on_a_ring(senders, share):
    """Totem ... provides lower throughput and longer latency under low and asymmetrical loads. (2)"""

    def delays_us(site_protocol: str) -> list[int]:
        cluster = Cluster(1, LAN_US, daemons=3, site_protocol=site_protocol)
        clients = cluster.members()
        random = Random("a thousand a second")
        sent = {}
        for number in range(200):
            cluster.run(1 + int(random.expovariate(1_000) * 1_000_000))
            sender = random.choice(senders)
            sent[b"%d" % number] = (sender, cluster.now_us)
            cluster.send(clients[sender], "g", b"%d" % number)
        cluster.settle()
        return sorted(
            cluster.delay_of(client, payload, since_us)
            for payload, (sender, since_us) in sent.items()
            for client in clients
            if client != clients[sender]
        )

    ring, token_site = delays_us("ring"), delays_us("token-site")
    assert sum(token_site) <= share * sum(ring)
    if len(senders) == 1:
        assert token_site[len(token_site) // 2] <= share * ring[len(ring) // 2]


# Losses ---------------------------------------------------------------------------------------------------


def test_nobody_accepts_the_token_before_it_has_everything():
    """Before it can accept the token, each member is required to have all of the packets with timestamps less
    than that of the ACK naming it the token site. (4.2)"""
    world = idle()
    world.lose = lose_once(1, 1, 2)
    world.send(0, *numbered(3))
    world.owners[1].wants = True
    world.conclude(1)
    world.until(lambda: world.members[1]._pending is not None)
    assert not world.members[1].has_turn and not world.owners[1].is_turn
    world.until(lambda: world.holder == 1)
    assert sorted(world.received[1]) == numbered(3)


def test_the_last_known_token_site_is_asked_first():
    """The current policy is to ... name the last known token site as the site to handle them. If there is no
    response to a NACK within the specified timeout, a site will resend the NACK to a different site. This
    will continue up to a constant threshold, after which point the NACK will be multicast to the entire ring
    for any site to respond to. (4.2)"""
    world = idle(4)
    lost = []

    def lose(sender, receiver, incoming):
        if receiver == 3 and (is_data(incoming) or incoming.head.kind == PacketKind.REPAIR) and len(lost) < 5:
            lost.append(incoming)
            return True
        return False

    world.lose = lose
    world.send(1, b"lost again and again")
    world.number_bundles(0, 1)
    world.owners[2].wants = True
    world.conclude(2)
    world.until(lambda: world.received[3])
    asked = [nack.answers for sender, nack in world.nacks() if sender == 3]
    assert asked[:2] == [2, 1] and asked[2] in (0, 2) and asked[-1] == EVERYBODY


def test_a_member_repeats_what_another_one_sent():
    world = idle(4)
    world.lose = lose_once(3, 1)
    world.send(1, b"from the second")
    world.run(2 * LAN_US)
    world.owners[2].wants = True
    world.conclude(2)
    world.until(lambda: world.received[3])
    assert world.received[3] == [b"from the second"]
    assert world.members[2].counters["repairs"] == 1
    assert world.words(PacketKind.REPAIR) == [(2, 3)]


def test_a_lost_acknowledgement_is_repeated_until_it_is_confirmed():
    """Confirm: provides positive acknowledgment to the last token site that the new token site has accepted
    the token. (figure 4.1)"""
    world = idle()
    lost = []
    world.lose = lambda sender, receiver, incoming: (
        incoming.head.kind == PacketKind.SITE_ACK
        and receiver == 2
        and len(lost) < 3
        and not lost.append(sender)
    )
    world.owners[2].wants = True
    world.conclude(2)
    began_us = world.now_us
    world.until(lambda: world.holder == 2)
    world.run(2 * LAN_US)
    assert world.members[0].counters["tokens_resent"] == 3
    assert (2, 0, Confirm(world.acks()[-1][1].serial, 2)) in world.confirms(began_us)
    resent = world.members[0].counters["tokens_resent"]
    world.run(HELLO_US)
    assert world.members[0].counters["tokens_resent"] == resent


def test_a_confirmation_of_another_member_does_not_count():
    world = idle()
    world.lose = lambda sender, receiver, incoming: receiver == 2
    world.owners[2].wants = True
    world.conclude(2)
    world.until(lambda: world.members[0]._passed is not None)
    body = token_site.encode_confirm(Confirm(world.members[0]._serial, 2))
    world.hand(1, 0, PacketKind.CONFIRM, body)
    assert world.members[0]._resend_us is not None


def test_a_repeated_acknowledgement_makes_nobody_the_token_site_again():
    world = idle()
    world.copies = 3
    for member in (2, 1, 0, 2):
        world.owners[member].wants = True
        world.conclude(member)
        world.until(lambda member=member: world.holder == member)
    world.run(HELLO_US)  # `holder` finds two tokens
    assert [ack.serial for _, ack in world.acks()] == list(range(1, len(world.acks()) + 1))


@pytest.mark.parametrize("seed", range(4))
def test_all_get_everything_in_spite_of_losses(seed):
    world = TokenSiteWorld(4)
    random = Random(seed)
    world.lose = lambda sender, receiver, incoming: random.random() < 0.1
    for member in range(4):
        world.owners[member].matters = True
        world.send(member, *(b"%d-%d" % (member, number) + FULL for number in range(40)))
    for _ in range(200):
        world.run(HELLO_US // 50)
        for owner in world.owners:
            owner.aru += 1  # somebody always has news
        if all(len(bodies) == 120 for bodies in world.received):
            break
    assert all(len(set(bodies)) == 120 for bodies in world.received)


# Stability ------------------------------------------------------------------------------------------------


def test_after_one_pass_of_each_member_a_packet_is_stable():
    """Once the token has been rotated N times, the token site knows that all messages with a timestamp at
    least N smaller than the current timestamp have been received at all destinations. (4.2)"""
    world = idle(4)
    world.send(0, *numbered(2))
    for owner in world.owners:
        owner.matters, owner.aru = True, VIEW + 2
    world.conclude(0)
    passes = []
    world.until(lambda: passes.append(world.members[0].in_flight_packets) or passes[-1] == 0)
    assert set(passes) == {2, 0}
    assert [sender for sender, _ in world.acks()][-4:] == [0, 1, 2, 3]
    world.run(2 * LAN_US)
    assert [member.site_aru for member in world.members] == [VIEW + 2] * 4
    assert all(not len(kept) for member in world.members[1:] for kept in member._kept.values())


def test_a_member_that_has_less_holds_back_what_all_have():
    world = idle(3)
    for owner in world.owners:
        owner.matters, owner.aru = True, VIEW + 9
    world.owners[2].aru = VIEW + 4
    world.conclude(0)
    world.run(20 * NULL_ACK_US)
    assert {member.site_aru for member in world.members} == {VIEW + 4}
    world.owners[2].aru = VIEW + 9
    world.conclude(2)
    world.until(lambda: {member.site_aru for member in world.members} == {VIEW + 9})


@pytest.mark.parametrize("sender", [0, 2])
def test_packets_become_stable_although_no_bundle_waits_for_it(sender):
    world = idle()
    world.lose = lose_once(0, 1)
    world.send(sender, b"an update")
    world.run(20 * NULL_ACK_US)
    assert [member.open_bytes for member in world.members] == [0] * 3
    assert [len(world.acks(since_us)) for since_us in (world.now_us - 10 * NULL_ACK_US,)] == [0]


def test_where_rounds_take_long_null_acknowledgements_wait_longer():
    world = idle()
    world.members[0]._round_us = NULL_ACK_US
    began_us = world.now_us
    world.owners[0].matters, world.owners[0].aru = True, VIEW + 1
    world.conclude(0)
    world.until(lambda: world.acks(began_us))
    assert world.now_us - began_us == NULL_ACK_ROUNDS * NULL_ACK_US


def test_null_acknowledgements_are_sent_when_something_is_unstable():
    """RMP sends NULL ACKs, which pass the token but do not order any packets, if the token site does not
    receive a message within a given period of time. (4.2)"""
    world = idle()
    began_us = world.now_us
    world.owners[0].matters, world.owners[0].aru = True, VIEW + 1
    world.conclude(0)
    world.until(lambda: world.acks(began_us))
    assert world.now_us - began_us == NULL_ACK_US
    before = world.members[0].counters["null_acks"]
    assert before > 0


def test_a_safe_message_does_not_wait_for_that():
    world = idle()
    began_us = world.now_us
    owner = world.owners[0]
    owner.matters, owner.aru, owner.needs_aru = True, VIEW + 1, VIEW + 1
    world.conclude(0)
    assert world.acks(began_us)


def test_a_segment_that_has_nothing_to_do_is_silent():
    """When a ring goes quiescent for an extended period of time, the token is passed all the way around the
    ring once and then stops. (4.2)"""
    world = idle()
    began_us = world.now_us
    world.run(SIGNS.round_us - 100 * LAN_US)
    assert [entry for entry in world.seen if entry[0] > began_us] == []
    world.run(2 * SIGNS.round_us)  # the sign of life that the suspicion of failures needs
    later = [entry for entry in world.seen if entry[0] > began_us]
    assert {incoming.head.kind for _, _, _, incoming in later} <= {PacketKind.SITE_ACK, PacketKind.CONFIRM}
    assert len(world.acks(began_us)) <= 2 * len(world.members)


def test_a_member_that_is_silent_is_asked_and_not_heard():
    world = idle()
    world.alive.discard(2)
    began_us = world.now_us
    world.run(3 * HELLO_US)
    assert world.members[0].mates[2].heard_us <= began_us
    assert (0, 2) in world.words(PacketKind.HELLO, began_us)
    assert world.members[0].mates[1].state is LinkState.OPEN


# Flow and congestion control ------------------------------------------------------------------------------


def test_no_more_is_sent_than_the_window_allows():
    """Each sender maintains a window of how many bytes it can have in transit at once. (4.6)"""
    world = idle()
    world.lose = lambda sender, receiver, incoming: incoming.head.kind == PacketKind.HURRY
    world.send(2, *numbered(100))
    assert len(world.data()) == 2 * limits.SITE_WINDOW_START_PACKETS
    world.lose = lambda sender, receiver, incoming: False
    world.until(lambda: len(world.received[0]) == len(world.received[1]) == 100)
    assert world.members[2].window.packets > limits.SITE_WINDOW_START_PACKETS


def test_a_request_halves_the_window_of_the_sender_that_it_names():
    """This NACK also informs the original sender (who is named in the NACK) that a destination has lost a
    packet from that sender. This ... causes the sender to decrease its window size by 50%. (4.6)"""
    world = idle()
    world.lose = lose_once(0, 2)
    world.send(2, *numbered(4))
    window = world.members[2].window.packets
    world.until(lambda: len(world.received[0]) == 4)
    assert world.members[2].window.packets == window / 2
    assert world.members[1].window.halvings == 0


# What no token site can have sent -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"serial": 1 << 40}, "site ack: counts too fast"),
        ({"next": 9}, "site ack: names daemons of no segment of ours"),
        ({"sent": (0, 0)}, "site ack: names daemons of no segment of ours"),
        ({"sent": (0, 5, 0)}, "site ack: counts packets that nobody can have sent"),
        ({"sent": (1 << 30, 0, 0)}, "site ack: counts packets that nobody can have sent"),
        ({"lts": 0}, "site ack: counts backwards"),
    ],
)
def test_an_impossible_acknowledgement_is_refused(changes, reason):
    world = idle()
    with pytest.raises(BadPacket, match=reason):
        world.hand(0, 1, PacketKind.SITE_ACK, token_site.encode_ack(ack_of(world, 1, **changes)))


def test_only_the_token_site_may_acknowledge():
    world = idle()
    body = token_site.encode_ack(ack_of(world, 1, next=0))
    with pytest.raises(BadPacket, match="not from the token site"):
        world.hand(2, 1, PacketKind.SITE_ACK, body)
    with pytest.raises(BadPacket, match="not from the token site"):
        world.hand(2, 0, PacketKind.SITE_ACK, body)


def test_a_repair_must_be_of_another_member():
    world = idle()
    data = Data(packet.Head(2, 0, 1, 0, 0, 0, 0, 1), 1, [packet.Update(0, 1, 1, 1, 1)], 10)
    with pytest.raises(BadPacket, match="repair: of no other member"):
        world.hand(0, 1, PacketKind.REPAIR, token_site.encode_repair(data))


@pytest.mark.parametrize(
    "kind", [PacketKind.SITE_ACK, PacketKind.SITE_NACK, PacketKind.CONFIRM, PacketKind.REPAIR]
)
def test_any_bytes_may_come(kind):
    world = idle()
    random = Random(kind)
    for _ in range(300):
        with suppress(BadPacket):
            world.hand(0, 1, kind, random.randbytes(random.randint(0, 90)))
    world.owners[2].wants = True
    world.conclude(2)
    world.until(lambda: world.members[2].has_turn)


def test_a_request_for_very_many_packets_costs_little():
    world = idle()
    world.send(1, b"one")
    missing = tuple((1, first, 0xFFFF_FFFF) for first in range(1, 60))
    world.hand(0, 1, PacketKind.SITE_NACK, token_site.encode_nack(SiteNack(1, missing)))
    assert world.members[1].counters["retransmitted"] <= limits.SITE_ANSWER_PACKETS
