"""TCP links, sentence by sentence: thesis 4.2; and what is ours about them."""

import pytest
from small_worlds import DELAY_US, HELLO_US, SIGNS, VIEW, Cluster, ends_of, told

from antiphon import limits
from antiphon.config import LinkConfig
from antiphon.core.effects import Outbox
from antiphon.core.links.link import LinkState
from antiphon.core.links.tcp import Stream, TcpLink
from antiphon.core.membership.rounds import Reason
from antiphon.service import Service
from antiphon.wire import packet
from antiphon.wire.packet import Data, Fragment, Hello, Packet, PacketKind, Update

ROOM = limits.STREAM_HANDED_BYTES


class StreamPair:
    """Two ends of a TCP link and a connection that takes as much as it is told to, in order, without loss."""

    def __init__(self, rate_bytes_per_s: int = 0, *, is_up: bool = True) -> None:
        self.now_us = 0
        self.takes_bytes = 1 << 40
        """How much of what end 0 hands over the connection still takes."""
        self.received: list[list[Fragment]] = [[], []]
        self.seen: list[tuple[int, Packet]] = []
        self.streams = [Stream(is_up=is_up), Stream(is_up=is_up)]
        self._out = [Outbox(), Outbox()]
        self._flying: list[tuple[int, int, bytes]] = []
        self.ends = [self._end(me, rate_bytes_per_s) for me in (0, 1)]

    def _end(self, me: int, rate_bytes_per_s: int) -> TcpLink:
        path = LinkConfig(("s0", "s1"), window_bytes=1 << 30, rate_bytes_per_s=rate_bytes_per_s)
        stream, datagrams = self.streams[me], self._out[me]
        return TcpLink(
            ends_of(me),
            path,
            stream=stream,
            signs=SIGNS,
            datagrams=datagrams,
            now_us=0,
        )

    def send(self, *bodies: bytes, end: int = 0) -> None:
        for number, body in enumerate(bodies, start=1):
            self.ends[end].send(Fragment(end, number, 3, len(body), 0, body))
        self.ends[end].pump(self.now_us)
        self.fly()

    def fly(self) -> None:
        for end in (0, 1):
            while self._out[end] and (end or self.takes_bytes >= self._out[end][0].size_bytes):
                datagram = self._out[end].pop(0)
                if not end:
                    self.takes_bytes -= datagram.size_bytes
                self._flying.append((self.now_us + DELAY_US, datagram.receiver, b"".join(datagram.buffers)))
                self.streams[end].waiting_bytes = sum(waits.size_bytes for waits in self._out[end])
                self.ends[end].pump(self.now_us)

    def run(self, until_us: int) -> None:
        while True:
            self.fly()
            due_us, end = min((link.next_deadline_us(), index) for index, link in enumerate(self.ends))
            arrives_us = self._flying[0][0] if self._flying else until_us
            if min(due_us, arrives_us) >= until_us:
                break
            if arrives_us <= due_us:
                self.now_us, receiver, data = self._flying.pop(0)
                self.arrive(receiver, packet.parse(memoryview(data)))
            else:
                self.now_us = max(self.now_us, due_us)
                self.ends[end].timeout(self.now_us)
        self.now_us = until_us

    def arrive(self, receiver: int, incoming: Packet) -> None:
        self.seen.append((receiver, incoming))
        for news in self.ends[receiver].receive(incoming, self.now_us):
            self.received[receiver] += [item for item in news.items if isinstance(item, Fragment)]

    def hang_up(self) -> None:
        self._flying.clear()
        for end, stream in zip(self.ends, self.streams, strict=True):
            stream.is_up = False
            end.disconnected("reset")


@pytest.fixture
def pair() -> StreamPair:
    made = StreamPair()
    made.run(200_000)
    assert [end.state for end in made.ends] == [LinkState.OPEN] * 2
    return made


def bodies_of(fragments: list[Fragment]) -> bytes:
    return b"".join(bytes(fragment.body) for fragment in fragments)


def test_data_comes_in_fifo_order(pair: StreamPair) -> None:
    """Because it is stream based TCP delivers data in a FIFO order. (thesis 4.2)"""
    bodies = [bytes([number]) * 5_000 for number in range(100)]
    pair.send(*bodies)
    pair.run(pair.now_us + 2 * DELAY_US)
    assert bodies_of(pair.received[1]) == b"".join(bodies)
    numbers = [incoming.head.number for _, incoming in pair.seen if isinstance(incoming, Data)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_there_are_no_acks_and_no_repetitions(pair: StreamPair) -> None:
    """It is fairly obvious that TCP provides the properties required by the Reliable Link specification.
    (thesis 4.2)"""
    pair.send(*[bytes(5_000)] * 100)
    pair.run(pair.now_us + 10 * HELLO_US)
    assert {type(incoming) for _, incoming in pair.seen} == {Hello, Data}
    assert pair.ends[0].counters["packets_sent"] == pair.ends[1].counters["packets_received"]


def test_a_closed_connection_is_a_failed_link_on_both_sides(pair: StreamPair) -> None:
    """TCP detects the failure of connections by either timeouts or active resets and so the link can declare
    a linkfailed event. (thesis 4.2)"""
    pair.hang_up()
    for end in pair.ends:
        assert (end.state, end.reason) == (LinkState.FAILED, "the connection broke: reset")
        assert end.counters["failures"] == 1


def test_a_failed_link_stays_so_on_another_connection(pair: StreamPair) -> None:
    """Nobody knows what got through on the first one. (ours)"""
    pair.send(bytes(100))
    pair.hang_up()
    for end, stream in zip(pair.ends, pair.streams, strict=True):
        stream.is_up = True
        end.connected(pair.now_us)
    pair.send(b"late")
    pair.run(pair.now_us + 3 * HELLO_US)
    assert [end.state for end in pair.ends] == [LinkState.FAILED] * 2
    assert not pair.received[1]


def test_a_link_waits_for_its_first_connection() -> None:
    """It has not failed because there was none before, or because one broke that it never used. (ours)"""
    pair = StreamPair(is_up=False)
    pair.send(b"early")
    pair.run(3 * HELLO_US)
    pair.hang_up()
    assert [end.state for end in pair.ends] == [LinkState.CLOSED] * 2
    assert not pair.seen
    for end, stream in zip(pair.ends, pair.streams, strict=True):
        stream.is_up = True
        end.connected(pair.now_us)
    pair.run(pair.now_us + 3 * DELAY_US)
    assert [end.state for end in pair.ends] == [LinkState.OPEN] * 2
    assert bodies_of(pair.received[1]) == b"early"


def test_no_data_goes_out_before_the_other_side_has_built_its_end() -> None:
    """It would be dropped as a packet of another view, and never be repeated. (ours)"""
    pair = StreamPair()
    pair.send(b"early")
    assert not [incoming for _, incoming in pair.seen if isinstance(incoming, Data)]
    pair.run(HELLO_US)
    assert bodies_of(pair.received[1]) == b"early"
    first = next(incoming for receiver, incoming in pair.seen if receiver == 1)
    assert isinstance(first, Hello)


def test_little_is_handed_over_at_a_time(pair: StreamPair) -> None:
    """What waits is in the link, where its limits are. (ours)"""
    pair.takes_bytes = 0
    pair.send(*[bytes(50_000)] * 100)
    assert ROOM <= pair.ends[0].open_bytes < ROOM + limits.STREAM_PACKET_BYTES
    assert pair.ends[0].waiting_bytes > 4_000_000
    assert not pair.ends[0].is_quiet
    pair.takes_bytes = 1 << 40
    pair.run(pair.now_us + 3 * DELAY_US)
    assert len(bodies_of(pair.received[1])) == 5_000_000
    assert pair.ends[0].is_quiet and not pair.ends[0].open_bytes


def test_updates_overtake_bundles_that_wait(pair: StreamPair) -> None:
    """As on any link: they are not behind a queue of messages. (ours)"""
    pair.takes_bytes = 0
    pair.send(*[bytes(50_000)] * 20)
    pair.ends[0].send_update(Update(0, 1, 20, 5, 5))
    pair.takes_bytes = 1 << 40
    pair.run(pair.now_us + 3 * DELAY_US)
    data = [incoming for _, incoming in pair.seen if isinstance(incoming, Data)]
    place = next(at for at, some in enumerate(data) if any(isinstance(item, Update) for item in some.items))
    assert place < len(data) - 10


def test_unreliable_traffic_is_dropped_at_its_limit(pair: StreamPair) -> None:
    """And does not fill the connection for ever. (ours)"""
    pair.takes_bytes = 0
    for number in range(1, 101):
        pair.ends[0].send_unreliable(Fragment(0, number, 3, 50_000, 0, bytes(50_000)))
        pair.ends[0].pump(pair.now_us)
    dropped = pair.ends[0].counters["unreliable_dropped"]
    assert 100 - dropped == pytest.approx((limits.LINK_UNRELIABLE_QUEUE_BYTES + ROOM) / 50_000, abs=2)
    pair.takes_bytes = 1 << 40
    pair.run(pair.now_us + 3 * DELAY_US)
    assert {incoming.head.kind for _, incoming in pair.seen if isinstance(incoming, Data)} == {
        PacketKind.UNRELIABLE
    }
    assert len(bodies_of(pair.received[1])) == (100 - dropped) * 50_000


def test_a_missing_packet_fails_the_link(pair: StreamPair) -> None:
    """No connection loses one; if it happens after all, nothing after it counts. (ours)"""
    pair.send(*[bytes(40_000)] * 3)
    pair._flying.pop(0)
    pair.run(pair.now_us + 3 * DELAY_US)
    assert pair.ends[1].state is LinkState.FAILED
    assert pair.ends[1].reason == "packet 2 came after packet 0"
    assert not pair.received[1]


def test_a_packet_of_another_process_counts_for_nothing(pair: StreamPair) -> None:
    """A link belongs to the processes that its view names. (ours)"""
    stranger = packet.prefix(PacketKind.DATA, digest=7, sender=1, receiver=0, incarnation=999, view=VIEW)
    heard_us = pair.ends[0].heard_us
    pair.now_us += 1
    pair.arrive(0, packet.parse(memoryview(packet.whole(stranger, number=1, counter=1))))
    assert pair.ends[0].heard_us == heard_us


def test_an_idle_link_gives_signs_of_life_and_measures_the_round_trip(pair: StreamPair) -> None:
    """A connection that hangs is noticed by silence, as with Hop. (ours)"""
    before = len(pair.seen)
    pair.run(pair.now_us + 10 * HELLO_US)
    assert len([incoming for _, incoming in pair.seen[before:] if isinstance(incoming, Hello)]) >= 16
    assert pair.now_us - pair.ends[0].heard_us <= HELLO_US
    assert pair.ends[0].regulator.rtt_us == 2 * DELAY_US


def test_a_configured_rate_is_kept() -> None:
    """A ceiling on what each side sends. (ours)"""
    pair = StreamPair(rate_bytes_per_s=1_000_000)
    pair.run(200_000)
    burst_bytes = pair.ends[0].regulator.may_send_bytes(pair.now_us)
    pair.send(*[bytes(50_000)] * 60)
    pair.run(pair.now_us + 1_000_000)
    assert len(bodies_of(pair.received[1])) == pytest.approx(1_000_000 + burst_bytes, rel=0.05)


# Whole daemons ----------------------------------------------------------------------------------------------


def test_daemons_that_are_joined_by_tcp_form_views_and_order_messages() -> None:
    """Using TCP as the point-to-point protocol in an overlay network is an obvious choice. (thesis 4.2)"""
    cluster = Cluster(3, protocol="tcp")
    names = cluster.members()
    for at, name in enumerate(names):
        cluster.send(name, ["g"], b"from %d" % at, service=Service.SAFE)
    cluster.settle()
    heard = [
        [told(event) for event in cluster.events[name] if told(event).startswith("from")] for name in names
    ]
    assert heard[0] == heard[1] == heard[2]
    assert sorted(heard[0]) == ["from 0", "from 1", "from 2"]
    assert {link.protocol for node in cluster.nodes for link in node.working_links.values()} == {"tcp"}


def test_a_broken_connection_leads_to_a_new_view_in_which_nothing_is_missing() -> None:
    """The link declares itself failed, and the membership forms a new view. (thesis 4.2, 6.1.3)"""
    cluster = Cluster(2, protocol="tcp")
    names = cluster.members()
    view = cluster.nodes[0].view.id
    for number in range(20):
        cluster.send(names[0], ["g"], b"message %d" % number)
    cluster.run(2_000)
    cluster.hang_up(0, 1)
    cluster.settle()
    for node in cluster.nodes:
        assert node.view.id > view and node.view.members == (0, 1)
        assert Reason.LINK_FAILED in {record.reason for record in node.membership.rounds.past}
    for name in names:
        heard = [told(event) for event in cluster.events[name] if told(event).startswith("message")]
        assert heard == [f"message {number}" for number in range(20)]


def test_a_connection_that_hangs_is_noticed_by_silence() -> None:
    """Not by the timeouts of TCP, which are much longer. (ours)"""
    cluster = Cluster(2, protocol="tcp")
    suspect_us = cluster.nodes[0].membership.timing.suspect_us
    cluster.cut((0, 1))
    took_us = cluster.until(lambda: not cluster.nodes[1].membership.is_active)
    assert took_us < 3 * suspect_us
    current = cluster.nodes[1].membership.rounds.current
    assert current is not None and current.reason is Reason.SILENCE
    cluster.heal()
    cluster.settle()


def test_packets_over_udp_count_for_nothing_between_such_daemons() -> None:
    """Everything between these sites goes over the connection. (ours)"""
    cluster = Cluster(2, protocol="tcp")
    prefix = packet.prefix(
        PacketKind.HELLO, digest=cluster.config.digest, sender=1, receiver=0, incarnation=101, view=VIEW
    )
    cluster.nodes[0].receive(memoryview(packet.hello(prefix, 1, 0, counter=1)), 1_400, cluster.now_us)
    assert cluster.nodes[0].counters["packet: not over its connection"] == 1


def test_what_the_driver_has_not_taken_over_yet_counts_as_waiting() -> None:
    """Otherwise one that writes twice before it looks again would be handed far too much. (ours)"""
    cluster = Cluster(2, protocol="tcp")
    alice, _ = cluster.members()
    cluster.settle()
    node = cluster.nodes[0]
    cluster.drains = False
    for _ in range(60):
        cluster.send(alice, "g", bytes(50_000))
    for _ in range(20):  # a socket that takes all it has been given, again and again
        node.streams.stream_moved(1, 0, cluster.now_us)
        handed_bytes = sum(datagram.size_bytes for datagram in node.datagrams)
        assert ROOM <= handed_bytes < ROOM + 2 * limits.STREAM_PACKET_BYTES
    cluster.drains = True
    cluster.run(1_000)
    cluster.settle()
    assert len(cluster.payloads("#c1#d1")) == 60
