"""Congestion control of Hop links, sentence by sentence: RFC 9438 (CUBIC), RFC 9406 (HyStart++), RFC 9002
(pacing, persistent congestion, idle), RFC 4015 and 5682 (losses that were none); RMP 4.6 is in test_hop."""

import heapq
from random import Random
from typing import get_args

import pytest
from long_path import Bottleneck, LongPath

from antiphon import limits
from antiphon.config.values import Congestion
from antiphon.core.links.congestion import CONTROLLERS
from antiphon.core.links.congestion.controller import RESTART_SHARE, WINDOW_START_PACKETS
from antiphon.core.links.congestion.cubic import DECREASE, SCALE, Cubic
from antiphon.core.links.congestion.evidence import LOSS_SLOW_START, SAMPLES_MIN, Evidence
from antiphon.core.links.congestion.slow_start import GROWTH_DIVISOR, ROUNDS
from antiphon.core.links.flow import Regulator
from antiphon.wire.packet import Ack

SEGMENT_BYTES = 1_400
RTT_US = 50_000
MOST_BYTES = 8 << 20


def path_with_queue(least_us: int = RTT_US) -> Evidence:
    """What is seen of a path whose queue is full."""
    evidence = Evidence()
    evidence.took(least_us, 0)
    evidence.sampled(2 * least_us)
    evidence.reached(1, 1)
    for _ in range(LOSS_SLOW_START):
        evidence.lost()
    return evidence


def free_path() -> Evidence:
    evidence = Evidence()
    evidence.took(RTT_US, 0)
    return evidence


def avoiding(window_bytes: float, evidence: Evidence) -> Cubic:
    """CUBIC in congestion avoidance, just after a decrease from this window."""
    cubic = Cubic(MOST_BYTES, SEGMENT_BYTES)
    cubic.window_bytes = window_bytes
    assert cubic.lost(evidence, 0)
    return cubic


def run_cubic(cubic: Cubic, evidence: Evidence, seconds: float, from_us: int = 0) -> int:
    """Let acks of a full window come every round trip."""
    now_us = from_us
    while now_us < from_us + seconds * 1e6:
        cubic.arrived(int(cubic.window_bytes), evidence, RTT_US, now_us)
        now_us += RTT_US
    return now_us


# The registry -----------------------------------------------------------------------------------------------


def test_the_configuration_names_what_there_is():
    """Flow and congestion control policies can be inserted easily into the protocol. (RMP 4.6)"""
    assert set(get_args(Congestion)) == set(CONTROLLERS)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_window_has_a_floor_of_as_many_bytes_whatever_the_size_of_packets(name):
    """(ours: windows count bytes, and a packet has no more than half of one)"""
    regulator = Regulator(5_000, 0, 1_200, 0, name)
    regulator.controller.window_bytes = 600_000.0
    for number in range(1, 100):
        regulator.controller.lost(path_with_queue(), number)
    assert regulator.window_bytes == 4 * limits.PACKET_DEFAULT_BYTES


# CUBIC ------------------------------------------------------------------------------------------------------


def test_cubic_decreases_to_seven_tenths():
    """The window is multiplied by beta_cubic, which is 0.7. (RFC 9438 4.6)"""
    assert avoiding(1_000_000.0, path_with_queue()).window_bytes == pytest.approx(700_000.0)


def test_cubic_is_back_at_its_last_peak_after_k_seconds():
    """W_cubic(t) = C (t - K)^3 + W_max, where K is the time until W_max is reached again. (RFC 9438 4.2)"""
    evidence = path_with_queue()
    cubic = avoiding(1_000_000.0, evidence)
    rise_s = (300_000 / SEGMENT_BYTES / SCALE) ** (1 / 3)
    now_us = run_cubic(cubic, evidence, rise_s / 2)
    assert 900_000 < cubic.window_bytes < 980_000  # concave: quick at first
    run_cubic(cubic, evidence, rise_s / 2, now_us)
    assert cubic.window_bytes == pytest.approx(1_000_000, rel=0.02)


def test_cubic_is_never_slower_than_reno():
    """In the Reno-friendly region the window is at least W_est. (RFC 9438 4.3)"""
    evidence = path_with_queue()
    cubic = avoiding(20 * SEGMENT_BYTES, evidence)
    run_cubic(cubic, evidence, 5)  # 100 round trips
    assert cubic.window_bytes >= (14 + 0.5 * 100) * SEGMENT_BYTES


def test_a_window_that_shrinks_leaves_room_for_others():
    """With fast convergence W_max is reduced further when the window did not reach the last one. (RFC 9438
    4.7)"""
    evidence = path_with_queue()
    cubic = avoiding(1_000_000.0, evidence)
    cubic.lost(evidence, 1)
    assert cubic._peak_bytes == pytest.approx(700_000 * (1 + DECREASE) / 2)


def test_larger_packets_do_not_make_a_link_greedier():
    """(deviation: the function counts segments of the default size, whatever the packets are)"""
    evidence = path_with_queue()
    windows = []
    for packet_bytes in (1_400, 9_000):
        cubic = Cubic(MOST_BYTES, packet_bytes)
        cubic.window_bytes = 1_000_000.0
        cubic.lost(evidence, 0)
        run_cubic(cubic, evidence, 3)
        windows.append(cubic.window_bytes)
    assert windows[0] == windows[1]


def test_a_free_path_is_soon_used_again():
    """(deviation: beyond its peak CUBIC grows by an eighth a round trip while no packets wait in a queue)"""
    evidence = free_path()
    evidence.sampled(RTT_US)
    evidence.reached(1, 1)
    cubic = avoiding(100_000.0, path_with_queue())
    now_us = run_cubic(cubic, evidence, 5)
    run_cubic(cubic, evidence, 2, now_us)
    assert cubic.window_bytes > 1_000_000
    queued = avoiding(100_000.0, path_with_queue())
    run_cubic(queued, path_with_queue(), 7)
    assert queued.window_bytes < 300_000


def test_a_loss_without_a_queue_is_no_congestion_up_to_a_fiftieth():
    """(deviation: see `evidence`; with `reno`, every loss halves the window)"""
    regulator = Regulator(6_000, 0, SEGMENT_BYTES, 0)
    regulator.measured(RTT_US, 0)
    before = regulator.controller.window_bytes
    regulator.sent_packets(1_000)
    for number in range(1, 20):
        regulator.losses.lost(number, 1_000, 0)
    assert regulator.controller.window_bytes == before
    for number in range(20, 30):
        regulator.losses.lost(number, 1_000, 0)
    assert regulator.controller.window_bytes == pytest.approx(before * DECREASE)


# HyStart++ --------------------------------------------------------------------------------------------------


def acks(cubic: Cubic, evidence: Evidence, sample_us: int) -> float:
    """A round of acks with one round-trip time; by how much the window has grown."""
    before = cubic.window_bytes
    evidence.reached(evidence.round + 1, evidence.round + 1)
    for _ in range(2 * SAMPLES_MIN):
        evidence.took(sample_us, 0)
        evidence.sampled(sample_us)
        cubic.arrived(10_000, evidence, RTT_US, 0)
    return cubic.window_bytes - before


def test_slow_start_slows_down_when_round_trips_rise():
    """When the least round trip of a round exceeds that of the last one by a threshold, the sender enters
    conservative slow start, and congestion avoidance after five rounds of it. (RFC 9406 4.2)"""
    cubic, evidence = Cubic(MOST_BYTES, SEGMENT_BYTES), Evidence()
    assert acks(cubic, evidence, RTT_US) == acks(cubic, evidence, RTT_US) == 80_000
    acks(cubic, evidence, RTT_US + 7_000)
    assert acks(cubic, evidence, RTT_US + 7_000) == pytest.approx(80_000 / GROWTH_DIVISOR)
    for _ in range(ROUNDS - 1):
        assert cubic.is_slow_start
        acks(cubic, evidence, RTT_US + 7_000)
    assert not cubic.is_slow_start


def test_slow_start_goes_on_if_it_was_jitter():
    """If the round trip falls below the baseline, slow start resumes. (RFC 9406 4.2)"""
    cubic, evidence = Cubic(MOST_BYTES, SEGMENT_BYTES), Evidence()
    acks(cubic, evidence, RTT_US)
    acks(cubic, evidence, RTT_US + 7_000)
    acks(cubic, evidence, RTT_US)
    assert acks(cubic, evidence, RTT_US) == 80_000


# Pacing -----------------------------------------------------------------------------------------------------


def test_a_window_does_not_leave_as_one_burst():
    """A sender should pace what it sends, with bursts of no more than the initial window. (RFC 9002 7.7)"""
    path = LongPath()
    path.is_busy = False
    path.run(0.3)
    path.sender.regulator.controller.window_bytes = 400 * 1_400.0
    path.sender._sent_us = path.now_us
    path.is_busy = True
    path.work()
    assert 16 * 1_200 <= path.sender.in_flight_bytes <= 64 * 1_400
    path.run(0.02)
    assert 150 * 1_400 <= path.sender.in_flight_bytes <= 400 * 1_400
    path.run(0.015)
    assert 400 * 1_400 - path.sender.packet_bytes < path.sender.in_flight_bytes <= 400 * 1_400


def test_a_near_path_is_not_paced():
    """(deviation: timers are coarser than a round trip of less than two milliseconds)"""
    path = LongPath(rtt_ms=0.5)
    path.is_busy = False
    path.run(0.3)
    path.sender.regulator.controller.window_bytes = 300 * 1_400.0
    path.sender._sent_us = path.now_us
    path.is_busy = True
    path.work()
    assert 300 * 1_400 - path.sender.packet_bytes < path.sender.in_flight_bytes <= 300 * 1_400


def test_acks_stay_sparse():
    """The receiver acknowledges after some number of packets, or after a time. (thesis 4.3)"""
    path = LongPath(bottleneck=Bottleneck(10_000_000, 500_000))
    path.run(3)
    seen = []
    receive = path.sender.receive
    path.sender.receive = lambda incoming, now_us: (seen.append(incoming), receive(incoming, now_us))[1]
    sent = path.sender.counters["packets_sent"]
    path.run(2)
    sent = path.sender.counters["packets_sent"] - sent
    assert sum(isinstance(incoming, Ack) for incoming in seen) < 1.2 * (sent / 128 + 2 / 0.01)


# Losses that were none --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("congestion", CONTROLLERS)
def test_the_window_comes_back_after_a_pause(congestion, end):
    """If all that was in flight is acknowledged without a retransmission, the timeout was spurious, and the
    congestion state from before it is restored. (RFC 5682, RFC 4015)"""
    path = LongPath(rtt_ms=20, congestion=congestion, bottleneck=Bottleneck(5_000_000, 100_000_000))
    path.run(1)
    path.sender.regulator.controller.threshold_bytes = path.window_bytes
    before = path.window_bytes
    path.stand_still(end, 300)
    path.run(0.35)
    if end == 1:
        assert path.sender.regulator.losses.taken_back or path.window_bytes >= before
    path.run(0.4)
    assert path.window_bytes >= 0.95 * before
    assert path.run(1) > 4_500_000


def test_a_timeout_asks_before_it_collapses_the_window():
    """A probe timeout does not indicate loss and must not cause the window to shrink; persistent congestion,
    three times as long, resets it to the minimum. (RFC 9002 6.2, 7.6)"""
    path = LongPath(bottleneck=Bottleneck(2_000_000, 10_000_000))
    path.run(2)
    before = path.window_bytes
    path.loss = 1.0
    while path.sender._probes < 1:
        path.step()
    assert path.window_bytes >= before
    while path.sender._probes < 2:
        path.step()
    assert path.window_bytes == 5_600
    path.loss = 0.0
    path.run(3)  # there was reason for it: packets are requested
    assert path.sender.regulator.losses.taken_back == 0
    assert path.run(1) > 1_800_000


def test_packets_that_were_only_late_do_not_cost_the_window():
    """An acknowledgement that comes before the retransmission can have arrived is for the original: the
    response is reverted. (RFC 4015 by way of Eifel detection, RFC 3522)"""
    path = LongPath(congestion="reno")
    path.run(0.25)
    controller = path.sender.regulator.controller
    controller.window_bytes = controller.threshold_bytes = before = 140_000.0
    path.run(0.5)
    late = iter([0, 20_000])  # longer than a nack waits, less than a round trip
    path.late_us = lambda: next(late, 0)
    path.run(0.5)
    assert path.sender.counters["retransmitted"] == 1
    assert path.sender.regulator.losses.taken_back == 1
    assert path.window_bytes > before


# Rest -------------------------------------------------------------------------------------------------------


def test_after_a_rest_the_window_is_validated_again():
    """A sender that was idle must not use its old window in one burst. (RFC 7661; RFC 9002 7.8)"""
    path = LongPath(bottleneck=Bottleneck(10_000_000, 2_000_000))
    path.run(3)
    path.is_busy = False
    path.run(10)
    before = path.window_bytes
    path.is_busy = True
    path.work()
    assert path.window_bytes == pytest.approx(before / RESTART_SHARE, rel=0.1)
    path.run(0.25)  # a few round trips
    assert path.run(0.5) > 9_000_000


def test_a_window_that_is_not_used_does_not_grow():
    """When bytes in flight is smaller than the window and sending is not pacing limited, the window should
    not be increased. (RFC 9002 7.8)"""
    regulator = Regulator(6_000, 0, SEGMENT_BYTES, 0)
    for now_us in range(0, 10_000_000, 50_000):
        regulator.arrived(8 * SEGMENT_BYTES, newest=1, is_limited=False, now_us=now_us)
    assert regulator.window_packets == WINDOW_START_PACKETS


# Throughput -------------------------------------------------------------------------------------------------


def test_a_hundredth_of_loss_leaves_eight_megabytes_a_second_over_fifty_milliseconds():
    """(ours)"""
    path = LongPath(loss=0.01, bottleneck=Bottleneck(20_000_000, 1_000_000))
    path.run(2)
    assert path.run(3) > 8_000_000


def test_a_narrow_path_with_many_losses_still_carries_something():
    """(ours: the least window, in bytes, where packets are small)"""
    path = LongPath(rtt_ms=100, loss=0.1, rate_bytes_per_s=20_000, packet_bytes=500)
    path.run(10)
    assert path.run(20) > 12_000
    assert path.sender.counters["failures"] == path.ends[1].counters["failures"] == 0


class Strict(Evidence):
    """Every loss tells of congestion, and no path is known to be free: CUBIC as the RFC has it."""

    is_free = False

    def is_congested(self, is_slow_start: bool) -> bool:
        return True


class KernelFlow:
    """A TCP flow as a kernel would send it: CUBIC, with an ack for each packet."""

    def __init__(self, bottleneck: Bottleneck, rtt_us: int) -> None:
        self._bottleneck, self._rtt_us = bottleneck, rtt_us
        self.now_us = 0
        self.received_bytes = 0
        self._cubic = Cubic(MOST_BYTES, SEGMENT_BYTES)
        self._in_flight = 0
        self._left_us = 0
        self._recovery_number = 0
        self._events: list[tuple[int, int, bool]] = []
        self._count = 0
        self._send()

    def next_us(self) -> int:
        return self._events[0][0]

    def step(self) -> None:
        self.now_us, number, has_arrived = heapq.heappop(self._events)
        self._in_flight -= 1
        if has_arrived:
            self.received_bytes += SEGMENT_BYTES
            self._cubic.arrived(SEGMENT_BYTES, Strict(), self._rtt_us, self.now_us)
        elif number > self._recovery_number:
            self._cubic.lost(Strict(), self.now_us)
            self._recovery_number = self._count
        self._send()

    def _send(self) -> None:
        while (self._in_flight + 1) * SEGMENT_BYTES <= self._cubic.window_bytes:
            leaves_us = self._bottleneck.pass_us(SEGMENT_BYTES, self.now_us)
            if leaves_us is not None:
                self._left_us = leaves_us
            at_us = self._left_us + self._rtt_us  # a loss is noticed by what comes after
            self._count += 1
            heapq.heappush(self._events, (at_us, self._count, leaves_us is not None))
            self._in_flight += 1


@pytest.mark.parametrize("congestion", ["cubic", pytest.param("reno", marks=pytest.mark.long)])
def test_it_shares_bottlenecks_with_tcp(congestion):
    """The Hop protocol is fair to TCP flows that share the network links. (Spread paper 3.2: each gets
    between half and twice the other's share. Which of two flows loses packets when a queue is full is a
    matter of phase, so what counts is the sum over queues of many sizes)"""
    ours_bytes = theirs_bytes = 0
    for queue_bytes in (40_000, 60_000, 80_000, 100_000, 120_000, 160_000):
        bottleneck = Bottleneck(1_250_000, queue_bytes)
        ours = LongPath(congestion=congestion, bottleneck=bottleneck)
        jitter = Random(queue_bytes)
        ours.late_us = lambda jitter=jitter: jitter.randrange(300)
        theirs = KernelFlow(bottleneck, RTT_US)
        ours.work()
        before = (0, 0)
        while min(ours.next_us(), theirs.next_us()) < 40_000_000:
            (ours if ours.next_us() <= theirs.next_us() else theirs).step()
            if ours.now_us < 15_000_000:
                before = (ours.received_bytes, theirs.received_bytes)
        ours_bytes += ours.received_bytes - before[0]
        theirs_bytes += theirs.received_bytes - before[1]
    assert 0.5 < ours_bytes / theirs_bytes < 2.0
