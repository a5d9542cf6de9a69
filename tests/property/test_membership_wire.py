"""Any bytes are a beat, a proposal, a state, a list of groups, or a named fault; values survive the wire.

A node that gets such bytes counts them and goes on.
"""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from small_worlds import Cluster

from antiphon import limits
from antiphon.core.membership import recovery
from antiphon.core.ordering.ranges import to_ranges
from antiphon.core.ordering.state import OrderState, SourceState, encode_state, parse_state
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.overlay.topology import component
from antiphon.errors import BadFrame, BadPacket
from antiphon.wire import bundle, events, membership, packet
from antiphon.wire.events import HostedGroup
from antiphon.wire.membership import Beat, Proposal, Station
from antiphon.wire.packet import PacketKind

often = settings(deadline=None, max_examples=200)

DAEMONS = 12
counters = st.integers(0, limits.COUNTER_MAX)
u32 = st.integers(0, (1 << 32) - 1)
numbers = st.integers(0, DAEMONS - 1)
junk = st.binary(max_size=200)

stations = st.builds(
    Station,
    numbers,
    u32,
    counters,
    counters,
    st.integers(0, DAEMONS),
    st.binary(max_size=64),
    st.lists(
        st.tuples(numbers, u32, st.integers(0, limits.EXCLUDED_MAX_US)), max_size=limits.EXCLUSIONS_TOLD_MAX
    ).map(tuple),
    st.lists(
        st.tuples(numbers, u32, st.integers(0, limits.DAMPED_MAX_US)), max_size=limits.DAMPED_TOLD_MAX
    ).map(tuple),
    st.booleans(),
)
beats = st.builds(
    Beat,
    counters,
    counters,
    st.booleans(),
    st.integers(1, 6),
    counters,
    counters,
    counters,
    numbers,
    st.booleans(),
    counters,
    st.lists(stations, max_size=DAEMONS).map(tuple),
)


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    """Members that a tree connects, and some further links."""
    members = tuple(sorted(draw(st.sets(numbers, min_size=1))))
    links = {
        tuple(sorted((member, draw(st.sampled_from(members[:place])))))
        for place, member in enumerate(members)
        if place
    }
    if len(members) > 1:
        links |= {
            tuple(sorted(pair))
            for pair in draw(
                st.lists(st.lists(st.sampled_from(members), min_size=2, max_size=2, unique=True))
            )
        }
    incarnations = tuple(draw(u32) for _ in members)
    proposal = Proposal.of(draw(st.integers(1, limits.COUNTER_MAX)), members, incarnations, links)
    assert proposal.pairs == tuple(sorted(links))
    return proposal


@st.composite
def source_states(draw: st.DrawFn) -> SourceState:
    """Numbers up to the greatest that is known, in ranges that are apart from one another."""
    contiguous = draw(st.integers(0, 1 << 40))
    known = contiguous + draw(st.integers(0, 20))
    ahead = draw(st.sets(st.integers(contiguous + 1, known))) if known > contiguous else set()
    held = draw(st.sets(st.integers(max(1, known - 20), known))) if known else set()
    stamped = tuple((first, last, draw(counters)) for first, last in to_ranges(sorted(ahead)))
    return SourceState(draw(numbers), contiguous, draw(counters), known, stamped, to_ranges(sorted(held)))


order_states = st.builds(
    OrderState, counters, counters, counters, st.lists(source_states(), max_size=3).map(tuple)
)
states = st.builds(
    recovery.MemberState,
    counters,
    st.lists(numbers, max_size=4).map(tuple),
    counters,
    st.lists(st.tuples(st.text(max_size=10), counters), max_size=3).map(tuple),
    order_states.map(lambda told: msgspec.Raw(encode_state(told))),
)
hosted_groups = st.lists(
    st.builds(
        HostedGroup,
        st.text(max_size=10),
        st.tuples(counters, counters, counters, counters),
        st.lists(st.tuples(u32, u32, st.text(max_size=10)), max_size=3).map(tuple),
    ),
    max_size=4,
).map(tuple)


@often
@given(beats)
def test_beats_survive_the_wire(beat: Beat) -> None:
    assert membership.parse_beat(membership.encode(beat), DAEMONS) == beat


@often
@given(proposals())
def test_proposals_survive_the_wire(proposal: Proposal) -> None:
    assert membership.parse_proposal(membership.encode(proposal), DAEMONS) == proposal


@often
@given(states)
def test_states_survive_the_wire(state: recovery.MemberState) -> None:
    data = recovery.state_bundle(state).data
    body = bundle.payloads(bytes(data), bundle.parse(data))[0]
    told = recovery.parse_state(body, SymmetricOrder(1, 0))
    assert parse_state(bytes(told.order)) == parse_state(bytes(state.order))
    assert structs.replace(told, order=state.order) == state


@often
@given(hosted_groups)
def test_lists_of_groups_survive_the_wire(groups: tuple[HostedGroup, ...]) -> None:
    data = events.groups_bundle(groups).data
    assert events.parse_groups(data, bundle.parse(data)) == groups


# Damage ---------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | junk,
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=12,
)
arrays = st.lists(values, min_size=4, max_size=10).map(msgspec.msgpack.encode)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole` with some bytes changed, or cut short."""
    copy = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        copy[draw(st.integers(0, len(copy) - 1))] = draw(st.integers(0, 255))
    return bytes(copy[: draw(st.integers(0, len(copy)))]) if draw(st.booleans()) else bytes(copy)


spoilt = (beats | proposals()).map(membership.encode).flatmap(damaged)


@often
@given(junk | arrays | spoilt, st.integers(1, limits.DAEMONS_MAX))
def test_any_bytes_are_a_beat_or_a_proposal_or_bad(body: bytes, daemons: int) -> None:
    """What is read can be used: it names nobody who is not there, and its links lead everywhere."""
    try:
        beat = membership.parse_beat(body, daemons)
    except BadPacket as error:
        assert 0 < len(error.reason) <= 200
    else:
        assert all(0 <= station.daemon < daemons for station in beat.stations)
    try:
        proposal = membership.parse_proposal(body, daemons)
    except BadPacket as error:
        assert 0 < len(error.reason) <= 200
    else:
        assert set(proposal.members) <= set(range(daemons))
        assert len(proposal.incarnations) == len(proposal.members)
        assert component(proposal.members[0], proposal.pairs) == set(proposal.members)


@often
@given(junk | arrays | states.map(msgspec.msgpack.encode).flatmap(damaged))
def test_any_bytes_are_a_state_or_a_bad_frame(body: bytes) -> None:
    try:
        state = recovery.parse_state(body, SymmetricOrder(DAEMONS, 0))
    except BadFrame as error:
        assert 0 < len(error.reason) <= 200
    else:  # comparing it ends soon
        recovery.Recovery(0, state.view, SymmetricOrder(DAEMONS, 0), {0: state, 1: state})


@often
@given(junk | arrays | hosted_groups.map(msgspec.msgpack.encode).flatmap(damaged))
def test_any_bytes_are_groups_or_a_bad_frame(body: bytes) -> None:
    data = recovery.control_bundle(body, bundle.Flag.GROUPS).data
    for parse in (events.parse_groups, events.parse_event):
        try:
            parse(data, bundle.parse(data))
        except BadFrame as error:
            assert error.reason


# A node ---------------------------------------------------------------------------------------------------


def deliver(cluster: Cluster, kind: PacketKind, body: bytes, incarnation: int) -> None:
    """A packet of daemon 1 comes to daemon 0, whether it was sent or not."""
    prefix = packet.prefix(kind, digest=cluster.config.digest, sender=1, receiver=0, incarnation=incarnation)
    data = packet.whole(prefix, body, counter=1)
    cluster.nodes[0].receive(memoryview(data), len(data), cluster.now_us)
    cluster._drain(0)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from((PacketKind.BEAT, PacketKind.PROPOSAL)),
            junk | arrays | spoilt | (beats | proposals()).map(membership.encode),
            st.sampled_from((101, 7)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_a_node_bears_any_beat_and_any_proposal(packets: list[tuple[PacketKind, bytes, int]]) -> None:
    """Whatever daemon 1 seems to say, daemon 0 goes on; what cannot be read is counted."""
    cluster = Cluster(2, delay_us=1_000, membership="lan")
    before = cluster.nodes[0].counters.total()
    bad = 0
    for kind, body, incarnation in packets:
        parse = membership.parse_beat if kind is PacketKind.BEAT else membership.parse_proposal
        try:
            parse(body, 2)
        except BadPacket:
            bad += 1
        deliver(cluster, kind, body, incarnation)
        cluster.run(20_000)
    assert cluster.nodes[0].counters.total() >= before + bad
    assert cluster.nodes[0].next_deadline_us() is not None
