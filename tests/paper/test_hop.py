"""The Hop protocol, sentence by sentence: Spread paper 3.2 and thesis 4.3."""

from random import Random

import pytest
from small_worlds import DELAY_US, HELLO_US, VIEW, LinkPair

from antiphon import limits
from antiphon.core.links.congestion.controller import WINDOW_MIN_PACKETS
from antiphon.core.links.flow import ACK_DELAY_MAX_US, Regulator
from antiphon.core.links.hop import ACK_PACKETS, NACKS_MAX, PROBES_MAX
from antiphon.core.links.link import LinkState
from antiphon.wire import packet
from antiphon.wire.packet import Ack, Data, Hello, Nack, PacketKind, Piece


def numbered(count: int) -> list[bytes]:
    return [b"%04d" % number + b"." * 1_200 for number in range(count)]


def lose_once(*numbers: int):
    """Lose the first copy of the data packets with these numbers on their way to end 1."""
    left = set(numbers)

    def lose(receiver, incoming):
        if receiver == 1 and isinstance(incoming, Data) and incoming.head.number in left:
            left.discard(incoming.head.number)
            return True
        return False

    return lose


def test_packets_are_handed_up_despite_the_loss_of_earlier_ones():
    """Non-blocking: packets are forwarded despite the loss of packets ordered earlier. (thesis 4.3)"""
    pair = LinkPair()
    pair.lose = lose_once(2)
    pair.send(*numbered(5))
    pair.run(pair.now_us + DELAY_US + 500)
    assert [body[:4] for body in pair.received[1]] == [b"0000", b"0002", b"0003", b"0004"]


def test_what_was_lost_is_asked_for_and_comes_once():
    """Nacks are sent for specific lost packets after a short delay. (thesis 4.3)"""
    pair = LinkPair()
    pair.lose = lose_once(2, 4)
    pair.send(*numbered(6))
    pair.run(pair.now_us + 10 * DELAY_US)
    assert sorted(body[:4] for body in pair.received[1]) == [b"%04d" % number for number in range(6)]
    assert [nack.ranges for nack in pair.kinds(0, Nack)] == [[(2, 1), (4, 1)]]
    assert pair.ends[0].counters["retransmitted"] == 2


def test_a_nack_waits_a_little_for_packets_that_are_only_late():
    """The delay can help avoid false positive loss indications. (thesis 4.3)"""
    pair = LinkPair()
    pair.send(*numbered(3))
    flying = pair._flying
    first = next(index for index, (_, receiver, data) in enumerate(flying) if receiver == 1)
    flying[first], flying[first + 1] = (
        (flying[first][0], 1, flying[first + 1][2]),
        (flying[first + 1][0], 1, flying[first][2]),
    )
    pair.run(pair.now_us + 5 * DELAY_US)
    assert len(pair.received[1]) == 3
    assert pair.kinds(0, Nack) == []


def test_a_loss_at_the_end_is_noticed_through_the_senders_ack():
    """To detect loss when no further packets are sent the sender sends a link acknowledgment which specifies
    the highest sequence value sent. (thesis 4.3)"""
    pair = LinkPair()
    pair.lose = lose_once(3)
    pair.send(*numbered(3))
    pair.run(pair.now_us + 500_000)
    assert len(pair.received[1]) == 3
    assert any(ack.highest_sent == 3 for ack in pair.kinds(1, Ack))


def test_duplicates_are_dropped():
    """If the missing packet list does not contain the packet, the packet is a duplicate. (thesis 4.3)"""
    pair = LinkPair()
    pair.send(*numbered(3))
    pair._flying = [copy for flight in pair._flying for copy in (flight, flight)]
    pair.run(pair.now_us + 5 * DELAY_US)
    assert len(pair.received[1]) == 3
    assert pair.ends[1].counters["duplicates"] == 3


def test_acks_come_by_count():
    """The receiver sends link acknowledgments either periodically or after some number of packets, whichever
    is sooner. (thesis 4.3)"""
    pair = LinkPair()
    pair.widen(700)
    pair.send(*numbered(3 * ACK_PACKETS))
    while len(pair.received[1]) < 3 * ACK_PACKETS:
        pair.step()
    sent = [ack for ack in pair._flying if ack[1] == 0]
    assert len(sent) == 3


def test_acks_come_by_time():
    """The same sentence: a single packet is acknowledged, too. (thesis 4.3)"""
    pair = LinkPair()
    pair.send(b"one packet and nothing after it")
    pair.run(pair.now_us + 5 * DELAY_US)
    assert [ack.aru for ack in pair.kinds(0, Ack)] == [1]
    assert pair.ends[0].in_flight_packets == 0
    assert pair.ends[0].open_bytes == 0


def test_the_receiver_fails_the_link_after_k_nacks():
    """If a lost packet has not been received after the receiver has sent k nacks, the receiver declares the
    link failed. (thesis 4.3)"""
    pair = LinkPair()
    pair.lose = lambda receiver, incoming: isinstance(incoming, Data | Piece) and incoming.head.number == 2
    pair.send(*numbered(3))
    for _ in range(20_000):
        if pair.ends[1].state is LinkState.FAILED:
            break
        pair.step()
    assert pair.ends[1].state is LinkState.FAILED
    assert f"{NACKS_MAX + 1} nacks" in pair.ends[1].reason
    assert len(pair.kinds(0, Nack)) >= NACKS_MAX


def test_the_sender_fails_the_link_after_k_nacks():
    """After resending the packet MaxNACKS times, the sender will fail the link. (thesis 4.3)"""
    pair = LinkPair()
    failed = []
    pair.lose = lambda receiver, incoming: isinstance(incoming, Data | Piece) and incoming.head.number == 2
    pair.send(*numbered(3))
    for _ in range(20_000):
        pair.step()
        if pair.ends[0].counters["failures"]:
            failed.append(pair.ends[0].counters["failures"])
            break
    assert failed == [1]
    assert pair.ends[0].counters["retransmitted"] == NACKS_MAX + 1


def test_silence_fails_the_link_and_an_answer_opens_it_again():
    """The packet will cross the link in a bounded time or else the link will be declared failed. (thesis 4.3;
    that a failed link is tried again is ours)"""
    pair = LinkPair()
    pair.lose = lambda receiver, incoming: True
    pair.send(b"into the void")
    while pair.ends[0].state is LinkState.OPEN and pair.now_us < 120_000_000:
        pair.step()
    assert pair.ends[0].state is LinkState.FAILED
    assert f"{PROBES_MAX + 1} questions" in pair.ends[0].reason
    pair.lose = lambda receiver, incoming: False
    pair.run(pair.now_us + 10_000_000)
    assert pair.ends[0].state is LinkState.OPEN
    assert pair.received[1] == [b"into the void"]


@pytest.mark.parametrize("incarnation", [0, 100, 999])
def test_packets_of_another_process_count_for_nothing(incarnation):
    """A new process at the other end knows nothing of this link. (ours: a link belongs to one daemon view, in
    which each member is one process; the membership finds out, see test_daemon_paths)"""
    pair = LinkPair()
    pair.send(b"before")
    pair.run(pair.now_us + 5 * DELAY_US)
    heard_us = pair.ends[0].heard_us
    prefix = packet.prefix(
        PacketKind.HELLO, digest=7, sender=1, receiver=0, incarnation=incarnation, view=VIEW
    )
    pair.now_us += 1_000
    assert (
        pair.ends[0].receive(packet.parse(memoryview(packet.hello(prefix, 1, 0, counter=1))), pair.now_us)
        == []
    )
    assert pair.ends[0].heard_us == heard_us
    assert pair.ends[0].state is LinkState.OPEN


def test_a_link_opens_when_the_other_end_exists():
    """A handshake shows each side that the other has built its end before data flows. (ours)"""
    pair = LinkPair()
    assert [end.state for end in pair.ends] == [LinkState.OPEN, LinkState.OPEN]
    first = pair.seen[0][1]
    assert isinstance(first, Hello) and first.echo_us == 0 and first.head.view == VIEW
    answer = next(incoming for receiver, incoming in pair.seen if receiver == first.head.sender)
    assert isinstance(answer, Hello)


def test_an_idle_link_gives_signs_of_life():
    """The handshake repeats as a sign of life. (ours: the thesis's token and acks do the same)"""
    pair = LinkPair()
    pair.seen.clear()
    pair.run(pair.now_us + 10 * HELLO_US)
    for end in (0, 1):
        questions = [hello for hello in pair.kinds(end, Hello) if not hello.echo_us]
        assert 4 <= len(questions) <= 5  # the ends ask in turn
        assert pair.ends[end].heard_us >= pair.now_us - HELLO_US


@pytest.mark.parametrize("body_bytes", [50, 300, 700, 5_000, 59_000])
def test_packets_are_packed_full(body_bytes):
    """Each packet that is sent on the network is packed with as many objects as will fit. (paper 3.1)"""
    pair = LinkPair()
    pair.widen(700)
    bodies = [bytes([65 + index % 26]) * body_bytes for index in range(max(4, 60_000 // body_bytes))]
    pair.send(*bodies)
    pair.run(pair.now_us + 2 * DELAY_US)
    assert b"".join(pair.received[1]) == b"".join(bodies)
    carried = sum(map(len, bodies))
    sizes = [data.size_bytes for data in pair.kinds(1, Data)]
    assert sum(sizes) <= 1.05 * (carried + len(bodies) * 32 + len(sizes) * 56) + 1_400
    assert max(sizes) <= 1_400 - 16 + 4  # the checksum stands where the tag of a seal will


def test_the_window_bounds_what_is_outstanding():
    """A sliding window, which limits the total outstanding packets on the link. (paper 3.2)"""
    pair = LinkPair(window_bytes=70_000)
    pair.send(*numbered(400))
    most = 0
    while len(pair.received[1]) < 400 and pair.now_us < 60_000_000:
        pair.step()
        most = max(most, pair.ends[0].in_flight_bytes)
    assert len(pair.received[1]) == 400
    assert 60_000 < most <= 70_000


def test_retransmissions_go_out_even_when_the_window_is_full():
    """Retransmissions are sent even when the limit on the number of outstanding packets has been reached.
    (thesis 4.3)"""
    pair = LinkPair(window_bytes=8 * 1_400)
    pair.lose = lose_once(1)
    pair.send(*numbered(30))
    pair.run(pair.now_us + 3_000_000)
    assert len(pair.received[1]) == 30


def test_the_bucket_limits_the_rate():
    """A leaky bucket with both a maximum burst size and an average rate limitation. (thesis 4.3)"""
    pair = LinkPair(rate_bytes_per_s=1_000_000)
    began_us = pair.now_us
    pair.widen(700)
    pair.send(*numbered(1_000))
    while len(pair.received[1]) < 1_000:
        pair.step()
    assert pair.now_us - began_us >= 1_000_000


def reno(window_max_packets: int = 1_000, packet_bytes: int = 1_400) -> Regulator:
    return Regulator(window_max_packets, 0, packet_bytes, 0, "reno")


def arrived(regulator: Regulator, packets: int, newest: int = 1_000_000) -> None:
    regulator.arrived(packets * 1_400, newest, is_limited=True, now_us=0)


def test_slow_start_then_one_packet_a_round_trip():
    """Slow start up to the threshold, additive increase above it. (Van Jacobson, by way of RMP)"""
    regulator = reno()
    arrived(regulator, 16)
    assert regulator.window_packets == 32
    regulator.losses.lost(40, highest_sent=48, now_us=0)
    assert regulator.window_packets == 16
    for _ in range(16):
        arrived(regulator, 1)
    assert 16.9 < regulator.window_packets < 17.1


def test_one_decrease_for_all_losses_of_a_window():
    """Multiplicative decrease, once for the losses of one window of data. (Van Jacobson)"""
    regulator = reno()
    arrived(regulator, 48)
    for number in range(40, 60):
        regulator.losses.lost(number, highest_sent=64, now_us=0)
    assert regulator.window_packets == 32
    regulator.losses.lost(65, highest_sent=90, now_us=0)
    assert regulator.window_packets == 16


def test_the_timer_backs_off():
    """Timer back-off: each vain wait doubles the next. (Van Jacobson; that the window starts again only when
    the silence lasts is RFC 9002 7.6)"""
    regulator = reno()
    regulator.measured(40_000, now_us=0)
    first_us = regulator.timeout_us
    assert first_us == 40_000 + 4 * 20_000 + ACK_DELAY_MAX_US
    regulator.timed_out(False, 100, now_us=0)
    assert regulator.timeout_us == 2 * first_us
    assert regulator.window_packets == 16
    regulator.timed_out(True, 100, now_us=0)
    assert regulator.timeout_us == 4 * first_us
    assert regulator.window_packets == WINDOW_MIN_PACKETS
    arrived(regulator, 1)
    assert regulator.timeout_us == first_us


def test_the_least_window_has_as_many_bytes_where_packets_are_small():
    """(deviation: RMP's window may fall to one packet)"""
    for packet_bytes, least in ((500, 11), (1_400, WINDOW_MIN_PACKETS), (60_000, WINDOW_MIN_PACKETS)):
        regulator = reno(packet_bytes=packet_bytes)
        for number in range(1, 20):
            regulator.losses.lost(number, highest_sent=number, now_us=0)
        assert int(regulator.window_packets) == least
    regulator = reno(8, 500)
    regulator.timed_out(True, 100, now_us=0)
    assert regulator.window_packets == 8


# The size of packets ----------------------------------------------------------------------------------------


def large(count: int) -> list[bytes]:
    return [bytes([65 + number % 26]) * 50_000 for number in range(count)]


def grown(packet_bytes: int = limits.PACKET_MAX_BYTES) -> LinkPair:
    """A link that has found out that its path carries packets of any size."""
    pair = LinkPair(packet_bytes=packet_bytes)
    pair.send(*large(100))
    pair.run(pair.now_us + 2_000_000)
    assert pair.ends[0].path.size_bytes == packet_bytes
    pair.received[1].clear()
    pair.seen.clear()
    return pair


def test_packets_above_the_base_are_sent_only_when_a_probe_of_their_size_has_arrived():
    """Data is not sent in packets of a size that no probe has proved. (RFC 8899, section 3)"""
    pair = LinkPair(packet_bytes=limits.PACKET_MAX_BYTES)
    proved = [pair.ends[0].path.size_bytes]
    receive_hello = pair.ends[0]._receive_hello

    def note(hello, now_us):
        proved.append(max(proved[-1], hello.head.number))
        receive_hello(hello, now_us)

    pair.ends[0]._receive_hello = note
    largest = []
    pair.lose = lambda receiver, incoming: (
        receiver == 1
        and isinstance(incoming, Data)
        and bool(largest.append((incoming.size_bytes, proved[-1])))
    )
    pair.send(*large(60))
    pair.run(pair.now_us + 2_000_000)
    assert all(size <= most for size, most in largest)
    assert max(size for size, _ in largest) > 32_000


@pytest.mark.parametrize("width", [1_200, 1_472, 9_000, 65_507])
def test_a_link_finds_out_how_large_packets_may_be(width):
    """DPLPMTUD discovers the size that the network path supports. (RFC 8899, section 1)"""
    pair = LinkPair(packet_bytes=limits.PACKET_MAX_BYTES, width_bytes=width)
    pair.send(*large(80))
    pair.run(pair.now_us + 10_000_000)
    assert b"".join(pair.received[1]) == b"".join(large(80))
    found = pair.ends[0].path.size_bytes
    assert found <= width
    assert found >= min(limits.PACKET_MAX_BYTES, width - max(64, width // 8))
    assert pair.ends[0].counters["retransmitted"] == 0


@pytest.mark.parametrize("width", [1_200, 1_500, 8_000])
def test_packets_that_are_too_large_for_a_path_that_changed_arrive_in_pieces(width):
    """A PL that detects a black hole falls back to the base and recovers what was lost. (RFC 8899, 4.3; how,
    it leaves open)"""
    pair = grown()
    pair.width_bytes = width
    pair.send(*large(20))
    pair.run(pair.now_us + 5_000_000)
    assert sum(map(len, pair.received[1])) == 20 * 50_000
    assert pair.ends[0].path.falls == 1
    assert pair.ends[0].path.size_bytes <= width
    assert pair.ends[0].counters["pieces_sent"] > 0
    assert pair.ends[0].counters["failures"] == pair.ends[1].counters["failures"] == 0
    assert pair.ends[0].in_flight_bytes == pair.ends[0].open_bytes == 0


def test_losses_alone_do_not_make_packets_small():
    """Loss of packets of all sizes is congestion, not a black hole: the size in use is confirmed. (RFC 8899,
    section 3)"""
    pair = grown()
    chance = Random(7)
    pair.lose = lambda receiver, incoming: isinstance(incoming, Data) and chance.random() < 0.2
    pair.send(*large(100))
    pair.run(pair.now_us + 20_000_000)
    assert sum(map(len, pair.received[1])) == 100 * 50_000
    assert pair.ends[0].path.size_bytes == limits.PACKET_MAX_BYTES
    assert pair.ends[0].path.falls == 0


def test_a_packet_has_at_most_half_of_the_window():
    """Send up to 1/2 of the window at a time. (RMP, figure 4.2)"""
    pair = grown()
    end = pair.ends[0]
    for window_packets in (4.0, 10.0, 40.0, 150.0):
        end.regulator.controller.window_bytes = window_packets * 1_200
        pair.now_us += 1_000_000  # what was sent before does not count for the pace any more
        assert end._room(pair.now_us) >= 1
        assert end.packet_bytes == max(end.path.base_bytes, min(61_440, int(window_packets * 1_200) // 2))


def test_nothing_small_is_sent_because_little_of_the_window_is_left():
    """Avoid the "silly window" effect: delay sending until an ack is received. (RMP, figure 4.2)"""
    pair = grown()
    end = pair.ends[0]
    end.regulator.controller.window_bytes = end.regulator.controller.threshold_bytes = 156_000.0
    end._sent_us = pair.now_us  # it has not rested
    pair.send(*large(30))
    while sum(map(len, pair.received[1])) < 30 * 50_000:
        assert end.in_flight_bytes <= end.regulator.window_bytes
        pair.step()
    sizes = [data.size_bytes for data in pair.kinds(1, Data)]
    assert min(sizes[:-1]) > 40_000


def test_the_window_may_change_while_packets_are_of_any_size():
    """When a packet is sent, the window is decreased by the number of bytes sent. (RMP 4.6)"""
    pair = LinkPair(packet_bytes=limits.PACKET_MAX_BYTES, window_bytes=300_000)
    pair.send(*large(40), *numbered(100))
    while pair.ends[0].waiting_bytes or pair.ends[0].in_flight_bytes:
        end = pair.ends[0]
        assert end.open_bytes <= end.open_limit_bytes
        assert 0 <= end.in_flight_bytes <= 300_000
        assert end.in_flight_bytes <= end.open_bytes
        pair.step()
    assert sum(map(len, pair.received[1])) == 40 * 50_000 + 100 * 1_204


def test_a_configured_size_is_a_ceiling():
    """(ours: `packet_bytes` of a link bounds the search)"""
    pair = LinkPair(packet_bytes=9_000)
    pair.send(*large(40))
    pair.run(pair.now_us + 2_000_000)
    assert pair.ends[0].path.size_bytes == 9_000
    assert max(hello.size_bytes for hello in pair.kinds(1, Hello)) == 9_000
    assert max(data.size_bytes for data in pair.kinds(1, Data)) <= 9_000
