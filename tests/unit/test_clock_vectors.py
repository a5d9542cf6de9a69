"""Golden bytes of a CLOCK packet, and what no daemon can have made."""

import pytest
from vectors import COUNTER, checked, head_of, head_vector, octets, prefix_of

from antiphon import limits
from antiphon.errors import BadFrame, BadPacket
from antiphon.wire import clock, frames, packet
from antiphon.wire.clock import Arrival, ClockPacket
from antiphon.wire.packet import Loose, PacketKind

VECTOR = octets(
    "00060A24181E4000    # not less than this",
    "00060A24181E4800    # nor greater",
    "00060A24181E4400    # most likely",
    "01                  # by a reference",
    "02                  # begins a round",
    "0003                # daemon 3",
    "0000000000000000    # not internal time",
    "00000000            # of no process",
    "1E                  # wanted for 30 s",
    "00",
    "0001                # one packet came",
    "0005                # of daemon 5",
    "0A0B0C0D            # of this process",
    "0000000000000777    # this one",
    "000001F4            # 500 us ago",
)
TOLD = ClockPacket(
    low_us=0x00060A24181E4000,
    high_us=0x00060A24181E4800,
    estimate_us=0x00060A24181E4400,
    basis=clock.OF_A_REFERENCE,
    flags=clock.ROUND,
    root=3,
    wanted_s=30,
    arrivals=(Arrival(5, 0x0A0B0C0D, 0x777, 500),),
)
DAEMONS = 6


def test_clock() -> None:
    vector = checked(head_vector("0E", "0000000000000000", view="0000000000000000") + VECTOR)
    prefix = prefix_of(PacketKind.CLOCK, view=0)
    assert packet.whole(prefix, clock.encode(TOLD), counter=COUNTER) == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(PacketKind.CLOCK, view=0), VECTOR)
    assert clock.parse(VECTOR, DAEMONS) == TOLD


def test_of_a_daemon_that_knows_nothing() -> None:
    assert clock.encode(ClockPacket()) == bytes(44)
    assert clock.parse(bytes(44), DAEMONS) == ClockPacket()


@pytest.mark.parametrize(
    ("at", "wrong", "reason"),
    [
        (24, "03", "unknown basis"),
        (25, "04", "unknown basis or flag"),
        (26, "0006", "no such daemon"),
        (44, "0006", "no such daemon"),
        (42, "0002", "wrong size"),
        (42, "0000", "wrong size"),
        (0, "00060A24181E4401", "impossible time"),
        (8, "00060A24181E43FF", "impossible time"),
        (8, "4000000000000000", "impossible time"),
        (28, "4000000000000000", "impossible time"),
        (8, "00060A2500000000", "impossible error"),
    ],
)
def test_what_cannot_be(at: int, wrong: str, reason: str) -> None:
    replaced = bytes.fromhex(wrong)
    with pytest.raises(BadPacket, match=reason):
        clock.parse(VECTOR[:at] + replaced + VECTOR[at + len(replaced) :], DAEMONS)


def test_every_part_of_a_packet_is_too_short() -> None:
    for size in range(len(VECTOR)):
        with pytest.raises(BadPacket):
            clock.parse(VECTOR[:size], DAEMONS)


def test_the_question_of_a_session_and_its_answer() -> None:
    asked = frames.AskTime(7)
    assert frames.decode_from_client(frames.encode_control(asked)) == asked
    told = frames.Time(frames.TimeBasis.REFERENCE, "east1", 1_700_000_000_000_000, 250, 7)
    assert frames.decode_from_daemon(frames.encode_control(told)) == told


@pytest.mark.parametrize("number", [-1, limits.COUNTER_MAX + 1])
def test_questions_with_an_impossible_number(number: int) -> None:
    with pytest.raises(BadFrame):
        frames.decode_from_client(frames.encode_control(frames.AskTime(number)))
