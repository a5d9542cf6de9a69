"""Resilience, level by level: RMP 3.2 and figure 3.2.

The figures are in virtual time: three sites of three daemons, 50 ms from site to site.
"""

from itertools import pairwise

import pytest
from small_worlds import Cluster
from test_adaptive_loads import TokenSite

from antiphon.core.ordering.role_changes import RoleChanges
from antiphon.service import Service
from antiphon.types import Message, Resilience, TransitionalSignal
from antiphon.wire import bundle
from antiphon.wire.resilience import extension

FAR_US, LAN_US = 50_000, 200
ROUNDS_US = 2_000
"""What a site takes to find out, with its token, what all of its daemons have."""
EVERY: tuple[Resilience, ...] = (1, 2, 3, 4, "majority", "total")


class Sites(Cluster):
    """Sites with the same number of daemons, near one another in a site and far from the other sites."""

    def __init__(self, sites: int, daemons: int, **settings: float | str) -> None:
        self._daemons = daemons
        super().__init__(sites, FAR_US, daemons=daemons, mesh=True, membership="wan", **settings)
        self.clients = self.members()
        self.run(5_000_000)

    def delay_between(self, sender: int, receiver: int) -> int:
        return LAN_US if sender // self._daemons == receiver // self._daemons else FAR_US

    def say(self, daemon: int, payload: bytes, resilience: Resilience, groups: str = "g") -> None:
        """The client of a daemon sends a resilient message."""
        client = self.clients[daemon]
        names, fields = bundle.names_area(client, [groups]), (extension(resilience),)
        data = bundle.encode(names, 1, Service.AGREED, [payload], extensions=fields)
        self.submit(client, b"".join(data))

    def took_us(self, sender: int, asked: Resilience | Service) -> list[int]:
        """How long a message takes, by daemon of its receiver."""
        since_us = self.now_us
        payload = f"{asked} {since_us}".encode()
        if isinstance(asked, Service):
            self.send(self.clients[sender], "g", payload, service=asked)
        else:
            self.say(sender, payload, asked)
        self.run(1_000_000)
        return [self.delay_of(client, payload, since_us) for client in self.clients]


@pytest.fixture
def one_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the adaptive order the first site is active, and no other."""
    monkeypatch.setattr(RoleChanges, "make_decider", TokenSite)


def test_a_resilient_message_keeps_its_place_in_the_agreed_order() -> None:
    """K resilient: totally ordered, plus ... (figure 3.2)"""
    world = Sites(3, 1)
    for turn in range(4):
        for daemon in range(3):
            world.say(daemon, b"resilient %d %d" % (daemon, turn), EVERY[turn])
            world.send(world.clients[daemon], "g", b"agreed %d %d" % (daemon, turn))
            world.send(world.clients[daemon], "g", b"safe %d %d" % (daemon, turn), service=Service.SAFE)
        world.run(3_000)
    world.run(2_000_000)
    first, *others = (world.payloads(client) for client in world.clients)
    assert len(first) == 36 and all(other == first for other in others)


def test_what_comes_after_it_waits_for_it() -> None:
    """Delivered after all data packets with smaller timestamps. (figure 3.2)"""
    world = Sites(3, 1)
    since_us = world.now_us
    world.say(0, b"total", "total")
    world.send(world.clients[0], "g", b"agreed")
    world.run(1_000_000)
    for client in world.clients:
        assert world.payloads(client) == [b"total", b"agreed"]
        assert world.delay_of(client, b"agreed", since_us) == world.delay_of(client, b"total", since_us)


def test_resilience_costs_what_it_asks_for_and_no_more() -> None:
    """Higher QoS levels increase the latency of packet delivery. (3.2)

    The agreed order takes two ways, a safe message three. K = 2 needs nothing that is not there when the
    agreed order comes to it, but at the daemon of its sender, which needs the word of its site. With K up to
    the size of a site no daemon waits for the acknowledgements of another site.
    """
    world = Sites(3, 3)
    agreed, safe = world.took_us(4, Service.AGREED), world.took_us(4, Service.SAFE)
    assert max(agreed) < 2 * FAR_US + ROUNDS_US and min(safe) >= 3 * FAR_US
    two, three = world.took_us(4, 2), world.took_us(4, 3)
    assert [us for daemon, us in enumerate(two) if daemon != 4] == [
        us for daemon, us in enumerate(agreed) if daemon != 4
    ]
    assert two[4] < agreed[4] + ROUNDS_US
    assert max(three) < 2 * FAR_US + 2 * ROUNDS_US
    assert world.took_us(4, "total") == safe


def test_in_the_adaptive_order_two_holders_take_a_third_of_a_safe_message(one_active: None) -> None:
    """The site that sends is the only active one: agreed delivery takes one way. All but the sender's own
    daemon have their two holders then; that one hears of another daemon of its site that it has delivered
    the message."""
    world = Sites(3, 3, order="adaptive")
    safe, two = world.took_us(0, Service.SAFE), world.took_us(0, 2)
    assert min(safe) >= 3 * FAR_US
    for daemon in range(9):
        assert two[daemon] <= safe[daemon] / 3 + LAN_US
    assert max(two[:3]) <= ROUNDS_US


def test_a_passive_sender_waits_for_its_ticket_and_no_longer(one_active: None) -> None:
    world = Sites(3, 3, order="adaptive")
    agreed, two = world.took_us(4, Service.AGREED), world.took_us(4, 2)
    for less, more in zip(agreed, two, strict=True):
        assert less <= more <= less + ROUNDS_US


def test_alone_in_an_active_site_the_sender_waits_for_a_round_trip(one_active: None) -> None:
    """Its witness is at another site, and says that it has delivered the message; an aru takes longer."""
    world = Sites(3, 1, order="adaptive")
    two, safe = world.took_us(0, 2), world.took_us(0, Service.SAFE)
    assert two == [2 * FAR_US, FAR_US, FAR_US] and min(safe) >= 3 * FAR_US


@pytest.mark.parametrize("has_passive", [False, True])
def test_a_witness_speaks_only_where_arus_are_late(
    has_passive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all sources are active, nothing is sent for resilience."""
    monkeypatch.setattr(RoleChanges, "make_decider", TokenSite)
    if not has_passive:
        monkeypatch.setattr(TokenSite, "decide", lambda *_: None)
    world = Sites(2, 2, order="adaptive")
    before = len(world.diaries[1].of("sent"))
    world.say(0, b"two", 2)
    world.run(1_000_000)
    assert all(b"two" in world.payloads(client) for client in world.clients)
    assert len(world.diaries[1].of("sent")) - before == has_passive


@pytest.mark.parametrize("order", ["symmetric", "adaptive"])
@pytest.mark.parametrize("sender", [0, 4])
def test_no_level_takes_longer_than_the_next_one(order: str, sender: int, one_active: None) -> None:
    """All of the QoS levels build upon previous levels. (3.2)"""
    world = Sites(3, 3, order=order)
    took = [world.took_us(sender, asked) for asked in (Service.AGREED, *EVERY, Service.SAFE)]
    for less, more in pairwise(took):
        assert all(one <= other for one, other in zip(less, more, strict=True))


def test_alone_in_its_site_the_sender_waits_for_another_site() -> None:
    """Each member M verifies that at least K members have received a packet before M can deliver it. (3.2,
    where they are K others)"""
    world = Sites(3, 1)
    agreed, two, safe = (world.took_us(0, asked) for asked in (Service.AGREED, 2, Service.SAFE))
    assert two[1:] == agreed[1:] and two[0] == safe[0]


def test_in_one_site_nothing_but_its_token_is_waited_for() -> None:
    """... and the token has been transferred K-1 times. (figure 3.2)"""
    world = Sites(1, 3)
    assert max(world.took_us(1, "total")) < ROUNDS_US + max(world.took_us(1, Service.AGREED))


def test_a_message_for_one_site_asks_only_the_daemons_that_get_it() -> None:
    """K is the number of sites in the group there; a group has members at some daemons. (figure 3.2)"""
    world = Sites(3, 1)
    world.join(world.clients[0], "here")
    world.run(1_000_000)
    world.say(0, b"for one", 3, "here")
    world.run(1_000_000)
    assert b"for one" in world.payloads(world.clients[0])


def test_it_waits_while_too_few_have_it() -> None:
    """The others cannot be reached: the agreed order has come to it here, and the message has not."""
    world = Sites(2, 2)
    world.lose = lambda receiver, data: receiver >= 2 and b"three" in data
    world.say(0, b"three", 3)
    world.run(300_000)
    assert [b"three" in world.payloads(client) for client in world.clients] == [False] * 4
    world.lose = lambda receiver, data: False
    world.run(2_000_000)
    assert [b"three" in world.payloads(client) for client in world.clients] == [True] * 4


@pytest.mark.parametrize("order", ["symmetric", "adaptive"])
def test_without_its_holders_it_comes_after_the_signal(order: str) -> None:
    """The sender's site is cut off before any other daemon has it: what it promised is not kept, and its
    receivers are told so by the signal before it."""
    world = Sites(3, 1, order=order)
    world.lose = lambda receiver, data: b"lonely" in data
    world.say(0, b"lonely", 2)
    world.partition({0}, {1, 2})
    world.run(10_000_000)
    events = world.events[world.clients[0]]
    signal = next(at for at, event in enumerate(events) if isinstance(event, TransitionalSignal))
    message = next(
        at for at, event in enumerate(events) if isinstance(event, Message) and event.payload == b"lonely"
    )
    assert signal < message
    assert all(b"lonely" not in world.payloads(client) for client in world.clients[1:])


def test_a_majority_is_more_than_half() -> None:
    """K set to (MaxN + 1) / 2. (figure 3.2; of an even number more than half is taken)"""
    world = Sites(4, 1)
    agreed, majority, three = (world.took_us(0, asked) for asked in (Service.AGREED, "majority", 3))
    assert majority == three and min(majority[1:]) > max(agreed)


def test_the_receiver_is_told() -> None:
    world = Sites(2, 1)
    for asked in EVERY:
        world.say(0, str(asked).encode(), asked)
    world.send(world.clients[0], "g", b"None")
    world.run(1_000_000)
    messages = [event for event in world.events[world.clients[1]] if isinstance(event, Message)]
    assert [str(message.resilience) for message in messages] == [*map(str, EVERY), "None"]
    assert all(message.payload.decode() == str(message.resilience) for message in messages)


def test_bundles_of_different_resilience_stay_apart() -> None:
    """Selectable on a per packet basis. (1)"""
    world = Sites(2, 1)
    sent = world.diaries[0].of("sent")
    before = len(sent)
    world.drains = False
    for turn in range(9):
        if turn % 3:
            world.say(0, b"%d" % turn, turn % 3)
        else:
            world.send(world.clients[0], "g", b"%d" % turn)
    world.drains = True
    world.run(1_000_000)
    assert len(world.diaries[0].of("sent")) - before == 9
    assert world.payloads(world.clients[1]) == [b"%d" % turn for turn in range(9)]
