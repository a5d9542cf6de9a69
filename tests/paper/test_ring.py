"""The Ring protocol, sentence by sentence: Spread paper 3.2 (figure 3.3) and thesis 4.1."""

from contextlib import suppress
from itertools import count, pairwise
from random import Random

import pytest
from msgspec import structs
from ring_world import DIGEST, LAN_US, VIEW, RingWorld
from small_worlds import HELLO_US, SIGNS

from antiphon import limits
from antiphon.core.links.link import LinkState
from antiphon.errors import BadPacket
from antiphon.wire import packet, token
from antiphon.wire.packet import EVERYBODY, Data, Fragment, Packet, PacketKind
from antiphon.wire.token import NOBODY, Token

ROUND_US = 3 * LAN_US
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


def idle(count: int = 3) -> RingWorld:
    """A ring whose first rounds are over: its first member keeps the token."""
    world = RingWorld(count)
    for owner in world.owners:
        owner.matters = False
    world.run(5 * HELLO_US // 2)
    assert world.holder == 0
    return world


def numbered(count: int) -> list[bytes]:
    return [b"%04d" % number + FULL for number in range(count)]


# The token ------------------------------------------------------------------------------------------------


def test_the_token_goes_from_each_member_to_the_next():
    """... and send it to the next server in the ring. (thesis 4.1)"""
    world = RingWorld(4)
    world.run(2 * HELLO_US)
    assert [receiver for receiver, _ in world.tokens()][:5] == [1, 2, 3, 0, 1]
    assert [value.serial for _, value in world.tokens()][:5] == [1, 2, 3, 4, 5]


def test_only_who_has_the_token_sends():
    """Upon receiving the token a server will ... send packets. (thesis 4.1)"""
    world = idle()
    world.send(2, b"from the last", b"and more")
    assert not world.data()
    world.until(lambda: world.received[0] and world.received[1])
    assert world.received[0] == world.received[1] == [b"from the last", b"and more"]


def test_what_may_be_lost_waits_for_the_token_too():
    """Unreliable messages are still sent only when a daemon has the token. (paper 3.3)"""
    world = idle()
    world.members[2].send_unreliable(Fragment(2, 1, 1, 4, 0, b"lost"))
    world.conclude(2)
    assert not world.words(PacketKind.UNRELIABLE)
    world.run(10 * ROUND_US)
    assert world.words(PacketKind.UNRELIABLE) == [(2, 0), (2, 1)]
    assert world.received[0] == [b"lost"]


def test_every_packet_has_a_number_of_its_own():
    """For every reliable packet sent, a unique link_seq is assigned and the counter is incremented."""
    world = RingWorld(3)
    for member in range(3):
        world.send(member, *numbered(4))
    world.until(lambda: all(len(bodies) == 8 for bodies in world.received))
    sent = sorted({(number, sender) for sender, _, number in world.data()})
    assert [number for number, _ in sent] == list(range(1, 13))
    assert {sender for _, sender in sent} == {0, 1, 2}


def test_the_token_brings_the_number_and_the_lts_of_the_newest_bundle():
    """Site_seq: the highest sequence number of any reliable message originating on this ring. Site_lts: the
    highest LTS value seen by any member of the ring so far. (paper 3.2)"""
    world = RingWorld(3)
    world.owners[1].number, world.owners[1].lts, world.owners[1].wants = 7, 9_000, True
    world.until(lambda: world.members[0].site_sequence == 7)
    assert [ring.site_lts for ring in world.members] == [9_000] * 3
    assert world.owners[2].number == 7


def test_a_token_that_is_lost_is_sent_again():
    world = RingWorld(3)
    lost = []
    world.lose = lambda sender, receiver, incoming: (
        incoming.head.kind == PacketKind.TOKEN and sender == 1 and len(lost) < 4 and not lost.append(receiver)
    )
    world.send(2, b"waits")
    world.until(lambda: world.received[0])
    assert world.members[1].counters["tokens_resent"] == 4
    assert world.members[2].counters["tokens_resent"] == 0


def test_a_token_is_sent_again_ever_more_slowly():
    world = RingWorld(3)
    world.alive.discard(1)
    world.run(HELLO_US)
    times = [when_us for when_us, _, _, incoming in world.seen if incoming.head.kind == PacketKind.TOKEN]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert len(waits) > 5
    assert waits == sorted(waits)
    assert waits[-1] > 4 * waits[0]


def test_tokens_that_are_lost_do_not_make_a_round_look_long():
    """Waits for lost tokens follow the time of a round: if they counted as such, both would grow for ever."""
    world = RingWorld(2)
    tokens = count()
    world.lose = lambda sender, receiver, incoming: (
        incoming.head.kind == PacketKind.TOKEN and next(tokens) % 5 in (1, 3)
    )
    for turn in range(200):
        world.send(turn % 2, b"on and on")
        world.run(HELLO_US)
    assert max(ring.counters["tokens_resent"] for ring in world.members) > 50
    assert max(ring.round_us for ring in world.members) < HELLO_US // 4


def test_a_duplicate_of_the_token_is_dropped():
    """Drop token if it is malformed, a duplicate, or the wrong size. (figure 3.3)"""
    world = RingWorld(3)
    world.copies = 3
    for member in range(3):
        world.send(member, *numbered(5))
    for _ in range(400):
        world.step(HELLO_US)
        assert world.holder is None or world.holder in range(3)  # never two
    assert all(len(bodies) == 10 for bodies in world.received)
    serials = [value.serial for _, value in world.tokens()]
    assert serials == list(range(1, len(serials) + 1))


def test_duplicates_of_packets_are_dropped():
    world = RingWorld(3)
    world.copies = 2
    world.send(0, *numbered(5))
    world.run(20 * ROUND_US)
    assert [body[:4] for body in world.received[1]] == [b"%04d" % number for number in range(5)]
    assert world.members[1].counters["duplicates"] == 5


# The arus -------------------------------------------------------------------------------------------------


def test_who_lacks_a_packet_lowers_the_aru_and_is_its_modifier():
    """If the local value is less, then the token value is lowered to be the local value and the modifier is
    set to the id of the daemon. (paper 3.2)"""
    world = idle()
    world.lose = lambda sender, receiver, incoming: receiver == 1 and is_data(incoming)
    since_us = world.now_us
    world.send(0, *numbered(3))
    world.run(2 * ROUND_US)
    arus = [(value.link_aru, value.link_modifier) for _, value in world.tokens(since_us)]
    assert arus[:3] == [(3, NOBODY), (0, 1), (0, 1)]


def test_nobody_but_the_modifier_raises_the_aru():
    """The daemon raises the token value only if the modifier is this daemon's id, or nobody's. (paper 3.2)"""
    world = RingWorld(3)
    world.lose = lose_once(1, 1)
    world.send(0, *numbered(1))
    world.run(3 * HELLO_US)
    lowered = False
    before = None
    for receiver, value in world.tokens():
        sender = (receiver - 1) % 3
        if before is not None and value.link_aru > before.link_aru:
            assert before.link_modifier in (sender, NOBODY)
        lowered = lowered or value.link_modifier == 1
        before = value
    assert lowered
    assert (before.link_aru, before.link_modifier) == (1, NOBODY)


def test_the_same_token_carries_the_arus_of_packets_and_of_bundles():
    """In the same token circulation, the ring aru calculation algorithm updates both. (paper 3.2)"""
    world = RingWorld(3)
    for owner, aru in zip(world.owners, (500, 300, 400), strict=True):
        owner.aru = aru
    world.run(10 * ROUND_US)
    assert [ring.site_aru for ring in world.members] == [300] * 3
    assert world.tokens()[-1][1].site_modifier == 1
    world.owners[1].aru = 600
    world.conclude(1)
    world.run(20 * ROUND_US)
    assert [ring.site_aru for ring in world.members] == [400] * 3


@pytest.mark.parametrize("seed", range(12))
def test_the_lesser_of_two_rounds_is_never_more_than_anybody_has(seed: int):
    """All members of the ring can thus calculate the highest aru value they can locally use by taking the
    lesser of this just calculated token aru value, and the token aru value from the previous round."""
    chance = Random(seed)
    world = RingWorld(chance.choice((2, 3, 5)))
    members = range(len(world.members))
    world.lose = lambda sender, receiver, incoming: chance.random() < 0.15
    world.copies = chance.choice((1, 2))
    for at in range(4_000):
        if at % 40 == 0 and at < 3_000:
            world.send(chance.choice(members), *numbered(chance.randint(1, 4)))
        if at % 10 == 0:
            owner = world.owners[chance.choice(members)]
            owner.aru += chance.randint(0, 50)
        world.step(1 << 60)
        has_all = min(ring.reception.aru for ring in world.members)
        vouched = min(owner.aru for owner in world.owners)
        for ring in world.members:
            assert ring._link_aru <= has_all
            assert ring.site_aru <= vouched
    assert min(ring._link_aru for ring in world.members) > 0
    assert min(ring.site_aru for ring in world.members) > 77


def test_what_everybody_has_is_discarded_and_nothing_else():
    """Discard all packets with link_seq < ring_aru. (figure 3.3)"""
    world = idle()
    world.lose = lambda sender, receiver, incoming: (
        receiver == 2 and is_data(incoming) and incoming.head.number > 2
    )
    for body in numbered(5):
        world.send(0, body)
        world.run(20 * ROUND_US)
    assert [train.first for train in world.members[0]._open] == [3, 4, 5]
    world.lose = lambda sender, receiver, incoming: False
    world.run(4 * HELLO_US)
    assert not world.members[0]._open
    assert world.members[0].open_bytes == 0


# Retransmission -------------------------------------------------------------------------------------------


def test_what_is_missing_is_asked_for_on_the_token():
    """Add any link_seq values I am missing to the token req_list; answer any retransmit requests which are on
    the token. (figure 3.3)"""
    world = idle()
    world.lose = lose_once(2, 2, 4)
    world.send(0, *numbered(5))
    world.until(lambda: len(world.received[2]) == 5)
    asked = [value.requests for _, value in world.tokens() if value.requests]
    assert asked[0] == ((2, 2, 1), (2, 4, 1))
    assert world.members[0].counters["retransmitted"] == 2
    assert len(world.received[1]) == 5


def test_it_is_sent_again_by_its_sender_to_the_one_that_asked():
    """Here the sender alone keeps a copy, and nobody else hears it again."""
    world = idle()
    world.lose = lose_once(2, 3)
    world.send(1, *numbered(3))
    world.until(lambda: len(world.received[2]) == 3)
    assert [(sender, receiver) for sender, receiver, number in world.data() if number == 3] == [
        (1, 0),
        (1, 2),
        (1, 2),
    ]


def test_a_loss_at_the_end_is_noticed_by_the_token():
    """If highest_seq < token.link_seq then highest_seq := token.link_seq. (figure 3.3)"""
    world = idle()
    world.lose = lose_once(1, 3)
    world.send(0, *numbered(3))
    assert world.until(lambda: len(world.received[1]) == 3) < HELLO_US // 10
    assert world.members[1].counters["nacks_sent"] == 1


@pytest.mark.parametrize("sender", range(3))
def test_the_loss_of_a_last_packet_is_noticed_at_once_whoever_sent_it(sender: int):
    """The token goes round until everybody knows what was sent, and rests only then."""
    world = idle()
    lacking = (sender + 1) % 3
    world.lose = lose_once(lacking, 1)
    world.send(sender, b"the only one")
    assert world.until(lambda: world.received[lacking]) < HELLO_US // 10


def test_packets_behind_their_token_are_not_asked_for():
    """Another way through the network than the token's takes longer."""
    world = idle()
    caught = []

    def late(sender, receiver, incoming):
        if receiver == 1 and is_data(incoming):
            caught.append(incoming)
            return True
        return False

    world.lose = late
    world.send(0, *numbered(2))
    tokens = world.members[1].counters["tokens"]
    world.until(lambda: world.members[1].counters["tokens"] > tokens)
    for incoming in caught:
        world.arrive(0, 1, incoming)
    world.run(20 * ROUND_US)
    assert len(world.received[1]) == 2
    assert world.members[1].counters["nacks_sent"] == 0


def test_later_packets_are_handed_up_despite_the_loss_of_earlier_ones():
    world = idle()
    world.lose = lambda sender, receiver, incoming: is_data(incoming) and incoming.head.number == 1
    world.send(0, *numbered(3))
    world.run(2 * LAN_US)
    assert [body[:4] for body in world.received[1]] == [b"0001", b"0002"]


def test_a_path_on_which_nothing_arrives_is_found_out():
    """The token goes round and everybody is there, but one does not get what another one sends."""
    world = idle()
    world.lose = lambda sender, receiver, incoming: (sender, receiver) == (0, 2) and is_data(incoming)
    world.send(0, *numbered(1))
    world.run(30 * HELLO_US)
    states = {
        (me, mate): found.state for me, ring in enumerate(world.members) for mate, found in ring.mates.items()
    }
    assert states[0, 2] is LinkState.FAILED or states[2, 0] is LinkState.FAILED
    assert states[1, 2] is states[1, 0] is LinkState.OPEN


# Flow control ---------------------------------------------------------------------------------------------


def rounds_of(world: RingWorld) -> list[dict[int, int]]:
    """For each time that a member had the token: the packets that each one sent in the last round then."""
    last: dict[int, int] = {}
    found = []
    held: dict[int, set[int]] = {}
    for _, sender, _, incoming in world.seen:
        if is_data(incoming):
            held.setdefault(sender, set()).add(incoming.head.number)
        elif incoming.head.kind == PacketKind.TOKEN:
            last[sender] = len(held.pop(sender, ()))
            found.append(dict(last))
    return found


def test_no_member_sends_more_in_a_round_than_it_may():
    """A limit on how much each individual member can send per round. (paper 3.2)"""
    world = idle(2)
    world.send(1, *numbered(2 * limits.RING_MEMBER_PACKETS + 10))
    world.until(lambda: len(world.received[0]) > 2 * limits.RING_MEMBER_PACKETS + 9)
    assert max(counts.get(1, 0) for counts in rounds_of(world)) == limits.RING_MEMBER_PACKETS


def test_all_together_send_no_more_in_a_round_than_they_may():
    """The daemon sends the lesser of its individual limit and the total limit minus the value in the
    flow_control field plus what it sent last time. (paper 3.2)"""
    count = 2 * limits.RING_MEMBER_PACKETS
    world = RingWorld(4)
    for member in range(4):
        world.send(member, *numbered(count))
    world.until(lambda: all(len(bodies) == 3 * count for bodies in world.received))
    world.run(HELLO_US)
    totals = [sum(counts.values()) for counts in rounds_of(world)]
    assert max(totals) == limits.RING_ROUND_PACKETS
    flows = [value.flow for _, value in world.tokens()]
    assert max(flows) == limits.RING_ROUND_PACKETS
    assert flows[-1] == 0


def test_everybody_has_its_share():
    """Nobody is kept from sending by the others for ever."""
    world = RingWorld(4)
    for member in range(4):
        world.send(member, *numbered(4 * limits.RING_MEMBER_PACKETS))
    world.run(60 * LAN_US)
    for sender in range(4):
        assert any(counts.get(sender) for counts in rounds_of(world))


def test_nothing_new_is_sent_while_too_much_is_not_known_to_have_come():
    world = idle(2)
    world.lose = lambda sender, receiver, incoming: is_data(incoming) and incoming.head.number == 1
    world.send(1, *numbered(limits.RING_OPEN_PACKETS + 500))
    world.run(2_000 * LAN_US)
    newest = max(value.link_sequence for _, value in world.tokens())
    assert newest == limits.RING_OPEN_PACKETS
    assert world.members[1].open_bytes <= world.members[1].open_limit_bytes
    world.lose = lambda sender, receiver, incoming: False
    world.until(lambda: len(world.received[0]) == limits.RING_OPEN_PACKETS + 500)


# An idle ring ---------------------------------------------------------------------------------------------


def test_an_idle_ring_is_nearly_silent():
    """The paper's token never rests; here it makes a round for each sign of life: three tokens, and two that
    hear that it is kept again."""
    world = idle(3)
    since_us = world.now_us
    rounds = 8
    world.run(rounds * SIGNS.round_us)
    kinds = [incoming.head.kind for when_us, _, _, incoming in world.seen if when_us >= since_us]
    assert kinds.count(PacketKind.TOKEN) == 3 * rounds
    assert kinds.count(PacketKind.HELD) == 2 * rounds
    assert len(kinds) == 5 * rounds
    assert all(mate.state is LinkState.OPEN for ring in world.members for mate in ring.mates.values())
    assert all(
        world.now_us - mate.heard_us <= 2 * HELLO_US for ring in world.members for mate in ring.mates.values()
    )


def test_who_wants_the_token_asks_the_one_that_keeps_it():
    world = idle()
    since_us = world.now_us
    world.send(2, b"now")
    world.until(lambda: world.received[0])
    assert world.now_us - since_us < 10 * ROUND_US
    assert world.words(PacketKind.HURRY, since_us) == [(2, 0)]


def test_who_keeps_it_asks_nobody():
    world = idle()
    since_us = world.now_us
    world.send(0, b"now")
    assert world.data()
    world.run(10 * ROUND_US)
    assert not world.words(PacketKind.HURRY, since_us)


def test_a_question_for_the_token_that_is_lost_is_asked_again():
    world = idle()
    asked = []
    world.lose = lambda sender, receiver, incoming: (
        incoming.head.kind == PacketKind.HURRY and len(asked) < 3 and not asked.append(sender)
    )
    world.send(1, b"now")
    world.until(lambda: world.received[0])
    assert len(world.words(PacketKind.HURRY)) == 4


def test_a_token_that_is_kept_is_not_sent_again():
    """The others know that it is kept, also by whom it was passed on: nobody takes it for lost."""
    world = idle()
    world.run(20 * HELLO_US)
    assert all(ring.counters["tokens_resent"] == 0 for ring in world.members)


def test_a_ring_without_its_token_asks_for_signs_of_life():
    """The token shows that everybody is there; when it does not come, each one is asked."""
    world = idle()
    world.alive.discard(0)
    since_us = world.now_us
    world.run(5 * HELLO_US)
    assert {(1, 2), (2, 1), (1, 0), (2, 0)} == set(world.words(PacketKind.HELLO, since_us))
    assert world.now_us - world.members[1].mates[2].heard_us < HELLO_US
    assert world.now_us - world.members[1].mates[0].heard_us > 4 * HELLO_US


# Bad tokens -----------------------------------------------------------------------------------------------


GOOD = Token(4, 3, 3, NOBODY, NOBODY, 1, 4, 900, 900)
"""What member 1 of `busy` would take from member 0."""


def busy() -> RingWorld:
    """Member 1 has sent a packet in the last round and waits for the token."""
    world = RingWorld(3)
    world.owners[1].number = 4
    world.send(1, *numbered(1))
    world.until(lambda: world.members[1]._sent_in_round == 1)
    world.lose = lambda sender, receiver, incoming: True
    return world


def test_a_good_token_is_taken():
    world = busy()
    world.hand(0, 1, PacketKind.TOKEN, token.encode_token(GOOD))
    assert world.holder == 1


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("link_sequence", 0, "impossible counter|counts backwards"),
        ("site_sequence", 3, "counts backwards"),
        ("serial", 6, "counts too fast"),
        ("serial", 1 << 61, "counts too fast"),
        ("link_sequence", limits.RING_OPEN_PACKETS + limits.RING_ROUND_PACKETS + 2, "counts too fast"),
        ("link_sequence", 1 << 61, "counts too fast"),
        ("flow", 0, "impossible count of packets"),
        ("flow", limits.RING_ROUND_PACKETS + 1, "impossible count of packets"),
        ("flow", 0xFFFFFFFF, "impossible count of packets"),
        ("link_modifier", 3, "names daemons of no ring of ours"),
        ("site_modifier", 0xFFFE, "names daemons of no ring of ours"),
    ],
)
def test_a_token_that_no_ring_of_ours_has_made_is_dropped(field: str, value: object, reason: str):
    """Drop token if it is malformed. (figure 3.3) With some of these the ring would stand for ever."""
    world = busy()
    bad = structs.replace(GOOD, **{field: value})
    with pytest.raises(BadPacket, match=reason):
        world.hand(0, 1, PacketKind.TOKEN, token.encode_token(bad))
    assert world.holder is None
    world.hand(0, 1, PacketKind.TOKEN, token.encode_token(GOOD))
    assert world.holder == 1


@pytest.mark.parametrize(("sender", "receiver"), [(2, 1), (0, 0xFFFF)])
def test_a_token_comes_from_the_member_before(sender: int, receiver: int):
    world = busy()
    with pytest.raises(BadPacket, match="not from the one before us"):
        world.hand(sender, 1, PacketKind.TOKEN, token.encode_token(GOOD), addressed_to=receiver)
    assert world.holder is None


def test_requests_of_strangers_are_left_out():
    world = busy()
    asking = structs.replace(GOOD, requests=((9, 1, 1), (2, 1, 1), (2, 1 << 40, 7)))
    world.now_us += 1
    since_us = world.now_us
    world.hand(0, 1, PacketKind.TOKEN, token.encode_token(asking))
    assert world.members[1].token is not None
    assert all(who == 2 for who, _, _ in world.members[1].token.requests)
    world.conclude(1)
    assert {receiver for _, receiver, _ in world.data(since_us)} <= {2}


@pytest.mark.parametrize(("sender", "serial"), [(2, 3), (0, 1 << 61), (0, 6)])
def test_only_the_keeper_says_that_the_token_rests_and_not_of_a_far_one(sender: int, serial: int):
    """Otherwise a token that was lost would never be sent again."""
    world = busy()
    assert world.members[1]._resend_us is not None
    with suppress(BadPacket):
        world.hand(sender, 1, PacketKind.HELD, token.encode_held(serial))
    assert world.members[1]._resend_us is not None
    world.hand(0, 1, PacketKind.HELD, token.encode_held(4))
    assert world.members[1]._resend_us is None


def test_a_packet_far_beyond_what_is_open_is_refused():
    world = busy()
    prefix = packet.prefix(
        PacketKind.DATA, digest=DIGEST, sender=0, receiver=EVERYBODY, incarnation=100, view=VIEW
    )
    far = packet.whole(prefix, number=1 << 61, counter=1)
    with pytest.raises(BadPacket, match="beyond what a ring sends"):
        world.members[1].receive(packet.parse(memoryview(far)), world.now_us)
    assert world.members[1].reception.highest < 1 << 61
