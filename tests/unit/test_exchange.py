"""Which connections a daemon keeps, told as stories of two exchanges and the bytes between them."""

from collections import deque

import pytest

from antiphon import limits
from antiphon.core.effects import Datagram
from antiphon.core.streams.channel import Channel, ChannelPhase
from antiphon.core.streams.exchange import (
    DIAL_TIMEOUT_US,
    GREETING_TIMEOUT_US,
    REDIAL_FIRST_US,
    REDIAL_MAX_US,
    Exchange,
)
from antiphon.wire import streams
from antiphon.wire.streams import Greeting
from antiphon.wire.versions import GREETING_MAX_BYTES, OtherVersion

DIGEST = 7
SOME = b"some packet"


class Ear:
    """Hears what an exchange tells its node."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.verdict = ""

    def receive_stream(self, peer: int, data: memoryview, now_us: int) -> str:
        self.heard.append(("packet", peer, bytes(data)))
        return self.verdict

    def greeted_otherwise(self, found: OtherVersion) -> None:
        self.heard.append(("otherwise", found.sender, found.version))

    def stream_opened(self, peer: int, now_us: int) -> None:
        self.heard.append(("opened", peer))

    def stream_lost(self, peer: int, reason: str, now_us: int) -> None:
        self.heard.append(("lost", peer, reason))

    def stream_moved(self, peer: int, waiting_bytes: int, now_us: int) -> None:
        self.heard.append(("moved", peer, waiting_bytes))

    def of(self, *kinds: str) -> list[tuple[object, ...]]:
        return [entry for entry in self.heard if entry[0] in kinds]


def packet_for(peer: int, data: bytes = SOME) -> Datagram:
    return Datagram(peer, [data], len(data), len(data))


class Town:
    """Daemons 0 and 1, each with an exchange; the network does only what a story says."""

    def __init__(self) -> None:
        self.now_us = 0
        self.ears = [Ear(), Ear()]
        self.exchanges = [self.exchange(number) for number in (0, 1)]
        self.others: dict[Channel, tuple[int, Channel]] = {}
        """The daemon and the channel at the other end."""

    def exchange(self, number: int, incarnation: int = 100, digest: int = DIGEST) -> Exchange:
        return Exchange(number, digest, incarnation + number, (1 - number,), self.ears[number])

    def wants(self, number: int) -> Channel | None:
        """A daemon has something to say; the channel, if that made it dial."""
        exchange = self.exchanges[number]
        exchange.send(packet_for(1 - number), self.now_us)
        return exchange.dials.pop() if exchange.dials else None

    def reach(self, number: int, channel: Channel) -> Channel:
        """The network connects a call; the channel at the other end."""
        other = self.exchanges[1 - number].accepted(self.now_us)
        self.others[channel] = (1 - number, other)
        self.others[other] = (number, channel)
        self.exchanges[number].connected(channel, self.now_us)
        return other

    def flow(self, *numbers: int) -> None:
        """Carry all that these daemons have written, and the ends of what they have closed."""
        for number in numbers or (0, 1, 0, 1):
            exchange = self.exchanges[number]
            for channel in [*exchange.outputs, *exchange.closings]:
                data = b"".join(channel.batch())
                if data:
                    where, other = self.others[channel]
                    exchange.written(channel, len(data), self.now_us)
                    self.exchanges[where].received(other, memoryview(data), self.now_us)
            while exchange.closings:
                channel = exchange.closings.pop()
                if channel in self.others:
                    where, other = self.others[channel]
                    self.exchanges[where].ended(other, "closed", self.now_us)

    def join(self, number: int = 0) -> Channel:
        """An open connection that this daemon has dialled."""
        channel = self.wants(number)
        assert channel is not None
        self.reach(number, channel)
        self.flow()
        return channel

    def states(self) -> list[str]:
        return [str(self.exchanges[number].describe()[1 - number]["state"]) for number in (0, 1)]


def test_a_packet_makes_a_daemon_dial_and_is_dropped() -> None:
    town = Town()
    channel = town.join()
    assert channel.phase is ChannelPhase.OPEN
    assert town.states() == ["open", "open"]
    assert [ear.of("opened", "packet") for ear in town.ears] == [[("opened", 1)], [("opened", 0)]]
    assert town.exchanges[0].facts["dropped unconnected"] == 1


def test_packets_come_whole_and_in_order_both_ways() -> None:
    town = Town()
    town.join()
    for turn in range(3):
        for number in (0, 1):
            town.exchanges[number].send(packet_for(1 - number, b"%d" % turn * 1_000), 0)
    town.flow()
    for number in (0, 1):
        packets = [("packet", 1 - number, b"%d" % turn * 1_000) for turn in range(3)]
        assert town.ears[number].of("packet") == packets
        assert town.ears[number].of("moved")[-1] == ("moved", 1 - number, 0)


def test_while_a_call_is_under_way_there_is_no_other() -> None:
    town = Town()
    assert town.wants(0) is not None
    assert town.wants(0) is None


def test_vain_calls_become_rare() -> None:
    town = Town()
    pauses = []
    exchange = town.exchanges[0]
    for _ in range(8):
        channel = town.wants(0)
        assert channel is not None
        exchange.ended(channel, "refused", town.now_us)
        began_us = town.now_us
        while (another := town.wants(0)) is None:
            town.now_us += 10_000
        exchange.ended(another, "refused", town.now_us)
        pauses.append(town.now_us - began_us)
        town.now_us += REDIAL_MAX_US
    assert pauses[0] == REDIAL_FIRST_US
    assert pauses == sorted(pauses) and pauses[-1] == REDIAL_MAX_US
    assert exchange.describe()[1]["reason"] == "refused"


def test_a_call_that_nobody_answers_is_given_up() -> None:
    town = Town()
    channel = town.wants(0)
    exchange = town.exchanges[0]
    assert exchange.next_deadline_us() == DIAL_TIMEOUT_US
    exchange.timeout(DIAL_TIMEOUT_US - 1)
    assert not exchange.closings
    exchange.timeout(DIAL_TIMEOUT_US)
    assert exchange.closings == [channel]
    assert exchange.next_deadline_us() is None


def test_a_caller_that_does_not_say_who_it_is_is_shown_the_door() -> None:
    town = Town()
    exchange = town.exchanges[0]
    stranger = exchange.accepted(0)
    exchange.timeout(GREETING_TIMEOUT_US)
    assert exchange.closings == [stranger]
    assert not town.ears[0].heard


def test_strangers_are_few() -> None:
    exchange = Town().exchanges[0]
    callers = [exchange.accepted(0) for _ in range(limits.STREAM_STRANGERS_MAX + 3)]
    assert exchange.closings == callers[:3]
    assert exchange.counters["stream: too many strangers"] == 3


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (Greeting(8, 1, 0, 5), "other configuration"),
        (Greeting(DIGEST, 5, 0, 5), "not a neighbour"),
        (Greeting(DIGEST, 1, 2, 5), "not a neighbour"),
    ],
)
def test_wrong_ones_are_refused_with_a_reason(said: Greeting, refusal: str) -> None:
    exchange = Town().exchanges[0]
    stranger = exchange.accepted(0)
    exchange.received(stranger, memoryview(streams.greeting(said)), 0)
    assert exchange.closings == [stranger]
    answer = streams.parse_greeting(memoryview(b"".join(stranger.batch()))[4:])
    assert answer.answer.words == refusal
    assert exchange.counters[f"stream: refused a caller, {refusal}"] == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        streams.length(17) + bytes(17),
        streams.length(16) + bytes(16),
        streams.length(limits.PACKET_MAX_BYTES + 1),
    ],
)
def test_bytes_that_are_no_greeting_end_the_connection(data: bytes) -> None:
    town = Town()
    exchange = town.exchanges[0]
    stranger = exchange.accepted(0)
    exchange.received(stranger, memoryview(data), 0)
    assert exchange.closings == [stranger]
    assert sum(exchange.counters.values()) == 1
    assert not town.ears[0].heard


@pytest.mark.parametrize("size", [16, GREETING_MAX_BYTES])
@pytest.mark.parametrize(("sender", "is_told"), [(1, True), (5, False)])
def test_a_neighbour_that_greets_in_another_version_is_told(size: int, sender: int, is_told: bool) -> None:
    town = Town()
    exchange = town.exchanges[0]
    stranger = exchange.accepted(0)
    said = bytearray(streams.greeting(Greeting(DIGEST, sender, 0, 5))[4:].ljust(size, b"?"))
    said[1] = 9
    exchange.received(stranger, memoryview(streams.length(size) + said), 0)
    assert exchange.closings == [stranger]
    assert exchange.counters["stream: greeting: unknown version"] == 1
    assert town.ears[0].of("otherwise") == ([("otherwise", sender, 9)] if is_told else [])


def test_who_answers_a_call_speaks_for_itself_only() -> None:
    town = Town()
    exchange = town.exchanges[0]
    channel = town.wants(0)
    exchange.connected(channel, 0)
    said = bytearray(streams.greeting(Greeting(DIGEST, 2, 0, 5)))
    said[5] = 9
    exchange.received(channel, memoryview(said), 0)
    assert not town.ears[0].of("otherwise")


def test_a_bad_packet_ends_an_open_connection_on_both_sides() -> None:
    town = Town()
    town.join()
    town.ears[1].verdict = "packet: not ours"
    town.exchanges[0].send(packet_for(1), 0)
    town.exchanges[0].send(packet_for(1), 0)
    town.flow()
    assert town.ears[1].of("packet") == [("packet", 0, SOME)], "nothing after it counts"
    assert town.ears[1].of("lost") == [("lost", 0, "bad input: packet: not ours")]
    assert town.ears[0].of("lost") == [("lost", 1, "closed")]
    assert town.exchanges[1].counters["stream: packet: not ours"] == 1


def test_a_bad_length_ends_an_open_connection() -> None:
    town = Town()
    channel = town.join()
    exchange = town.exchanges[0]
    exchange.received(channel, memoryview(streams.length(limits.PACKET_MAX_BYTES + 1)), 0)
    assert exchange.closings == [channel]
    assert town.ears[0].of("lost") == [("lost", 1, "bad input: frame: too long")]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_that_cross_the_one_of_the_smaller_daemon_stays(order: tuple[int, int]) -> None:
    town = Town()
    channels = [town.wants(0), town.wants(1)]
    for number in (0, 1):
        channel = channels[number]
        assert channel is not None
        town.reach(number, channel)
    town.flow(*order, *order, *order)
    ours, theirs = channels
    assert ours is not None and theirs is not None
    assert (ours.phase, theirs.phase) == (ChannelPhase.OPEN, ChannelPhase.CLOSED)
    assert town.states() == ["open", "open"]
    assert all(len(ear.of("opened", "lost")) == 1 for ear in town.ears), "nobody noticed"
    assert not town.exchanges[0].counters and not town.exchanges[1].counters


def test_a_call_that_does_not_get_through_gives_way_to_one_that_does() -> None:
    """A wall lets calls through in one direction only."""
    town = Town()
    vain = town.wants(0)
    town.join(1)
    assert vain is not None and vain.phase is ChannelPhase.CLOSED
    assert town.exchanges[0].closings in ([], [vain])
    assert town.states() == ["open", "open"]


def test_a_new_process_takes_the_place_of_the_old_one() -> None:
    """The word that the old one is gone may never come."""
    town = Town()
    old = town.join(0)
    town.exchanges[1] = town.exchange(1, incarnation=200)
    town.ears[0].heard.clear()
    town.join(1)
    assert old.phase is ChannelPhase.CLOSED
    assert town.ears[0].of("lost", "opened") == [
        ("lost", 1, "the other side has begun a new one"),
        ("opened", 1),
    ]


def test_one_that_has_lost_the_connection_gets_another() -> None:
    """Though the smaller daemon knows nothing of that: it is refused once, and asked."""
    town = Town()
    ours = town.join(0)
    theirs = town.others[ours][1]
    town.exchanges[1].ended(theirs, "reset", 0)
    town.exchanges[1].closings.clear()
    town.now_us = 2 * REDIAL_MAX_US
    call = town.wants(1)
    assert call is not None
    town.reach(1, call)
    town.flow(1, 0)
    assert call.phase is ChannelPhase.CLOSED
    assert not ours.waiting_bytes, "a sign of life has been sent, to which the network says what it knows"
    town.exchanges[0].ended(ours, "reset", town.now_us)
    town.exchanges[0].closings.clear()
    town.now_us += REDIAL_MAX_US
    town.join(1)
    assert town.states() == ["open", "open"]


def test_a_larger_daemon_lets_a_second_call_in() -> None:
    """The smaller one would not call if it still had the first connection."""
    town = Town()
    first = town.join(1)
    town.exchanges[0].ended(town.others[first][1], "reset", 0)
    town.exchanges[0].closings.clear()
    town.now_us = REDIAL_MAX_US
    town.join(0)
    assert first.phase is ChannelPhase.CLOSED
    assert town.states() == ["open", "open"]


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    town = Town()
    town.join()
    exchange = town.exchanges[0]
    for _ in range(100):
        exchange.send(packet_for(1, bytes(50_000)), 0)
    assert int(str(exchange.describe()[1]["waiting_bytes"])) <= limits.STREAM_OUTPUT_MAX_BYTES + 100 * 4
    assert exchange.facts["dropped full"] == 100 - limits.STREAM_OUTPUT_MAX_BYTES // 50_004


def test_connections_that_never_last_are_not_dialled_at_full_speed() -> None:
    town = Town()
    opened = 0
    for _ in range(300):
        channel = town.wants(0)
        if channel is not None:
            town.reach(0, channel)
            town.flow()
            opened += 1
            town.exchanges[0].hang_up(1, "enough", town.now_us)
            town.flow()
        town.now_us += 10_000
    assert opened < 10


def test_partial_writes_keep_the_order() -> None:
    channel = Channel(1, 0)
    channel.phase = ChannelPhase.OPEN
    frames = deque(bytes([number]) * (number * 37 % 101 + 1) for number in range(200))
    expected = b"".join(frames)
    came = b""
    while frames or channel.waiting_bytes:
        for _ in range(3):
            if frames:
                channel.queue(frames.popleft())
        batch = b"".join(channel.batch())
        taken = max(1, len(batch) * 2 // 3)
        came += batch[:taken]
        channel.written(taken)
    assert came == expected
    assert not channel.is_writable
