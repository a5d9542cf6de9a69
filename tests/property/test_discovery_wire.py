"""Any bytes are a discovery packet or a named fault; packets survive the wire; no packet upsets a daemon."""

from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.core.discovery.discovery import PROCESSES_MAX, Discovery
from antiphon.errors import BadPacket
from antiphon.wire import discovery
from antiphon.wire.discovery import Beacon, State, Told

often = settings(deadline=None, max_examples=200)

u64 = st.integers(0, (1 << 64) - 1)
u32 = st.integers(0, (1 << 32) - 1)
numbers = st.integers(0, 63)
ports = st.integers(1, 65_535)
hosts = st.sampled_from(("10.0.0.1", "10.0.0.2", "255.255.255.255"))
names = st.text(st.characters(min_codepoint=ord("$"), max_codepoint=ord("~")), min_size=1, max_size=19)
told = st.builds(
    Told,
    numbers,
    st.sampled_from((State.CLAIMS, State.BEARS)),
    u64,
    u64,
    u32,
    hosts,
    ports,
    names,
    st.booleans(),
)


@st.composite
def beacons(draw: st.DrawFn) -> Beacon:
    state = draw(st.sampled_from(State))
    return Beacon(
        "tea", draw(st.one_of(u64, st.integers(1, 5))), draw(u32), state,
        None if state is State.LISTENS else draw(numbers), draw(u64), draw(hosts), draw(ports), draw(names),
        draw(st.booleans()), draw(st.booleans()),
        tuple(draw(st.lists(st.tuples(u64, numbers), max_size=discovery.LISTED_MAX))),
        tuple(draw(st.lists(told, max_size=discovery.TOLD_MAX))),
    )  # fmt: skip


@often
@given(beacons())
def test_beacons_survive_the_wire(beacon: Beacon) -> None:
    assert discovery.parse(discovery.encode(beacon)) == beacon


@often
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_packet_or_a_named_fault(data: bytes, has_checksum: bool) -> None:
    if has_checksum:
        start, end = b"\xa9\x01" + data[:2], b"\x03tea" + data[2:]
        data = start.ljust(4, b"\0") + bytes(4) + end
        data = data[:4] + crc32(data).to_bytes(4, "big") + data[8:]
    try:
        discovery.parse(data)
    except BadPacket as error:
        assert error.reason.startswith("discovery: ")


@often
@given(st.lists(beacons(), max_size=30))
def test_no_beacon_upsets_a_daemon(heard: list[Beacon]) -> None:
    """Whatever others say, the machine goes on, and what it keeps has a bound."""
    machine = Discovery("tea", 77, "host", ("10.0.0.1", 4_000), now_us=10**9, wall_us=10**15)
    now_us = 10**9
    for beacon in heard:
        now_us += 150_000
        machine.receive(beacon, (beacon.host, 5), now_us)
        machine.timeout(now_us)
        for sent in machine.multicasts:
            discovery.encode(sent)
        machine.multicasts.clear()
    assert len(machine.roster.entries) <= 64
    assert len(machine._heard) <= PROCESSES_MAX
    assert (machine.number is None) == (machine.state is State.LISTENS)


def test_strangers_have_a_bound() -> None:
    machine = Discovery("tea", 77, "host", ("10.0.0.1", 4_000), now_us=10**9, wall_us=10**15)
    for process in range(1_000, 1_400):
        beacon = Beacon("tea", process, 1, State.LISTENS, None, 0, "10.0.0.2", 5, "x")
        machine.receive(beacon, ("10.0.0.2", 5), 10**9)
    assert len(machine._heard) == PROCESSES_MAX
    assert machine.counters["discovery: too many processes"] == 400 - PROCESSES_MAX
