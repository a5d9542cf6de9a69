"""Any bytes are what a token site sends or a BadPacket; a member survives whatever others send."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from token_site_world import TokenSiteWorld

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import token_site
from antiphon.wire.packet import EVERYBODY, PacketKind
from antiphon.wire.token_site import Confirm, SiteAck, SiteNack

often = settings(deadline=None, max_examples=200)

u16 = st.integers(0, (1 << 16) - 1)
u32 = st.integers(0, (1 << 32) - 1)
counters = st.integers(0, limits.COUNTER_MAX)
small = st.integers(0, 12)
members = st.sampled_from((0, 1, 2, 3, EVERYBODY))


@st.composite
def acks(
    draw: st.DrawFn,
    counters: st.SearchStrategy[int] = counters,
    members: st.SearchStrategy[int] = u16,
    count: int | None = None,
) -> SiteAck:
    """An acknowledgement that can be written down; whether any site has made it is another question."""
    count = draw(st.integers(1, limits.DAEMONS_PER_SITE_MAX)) if count is None else count
    column = st.lists(counters, min_size=count, max_size=count).map(tuple)
    return SiteAck(
        draw(counters), draw(counters), draw(counters), draw(members), draw(st.integers(0, count)),
        draw(st.integers(0, (1 << count) - 1)), draw(column), draw(column),
    )  # fmt: skip


nacks = st.builds(
    SiteNack, members, st.lists(st.tuples(members, counters, u32), max_size=limits.NACK_RANGES_MAX).map(tuple)
)


@often
@given(acks())
def test_acknowledgements_survive_the_wire(value: SiteAck) -> None:
    assert token_site.parse_ack(token_site.encode_ack(value)) == value


@often
@given(st.binary(max_size=200))
def test_any_bytes_are_an_acknowledgement_or_a_bad_packet(data: bytes) -> None:
    try:
        value = token_site.parse_ack(data)
    except BadPacket as error:
        assert error.reason.startswith("site ack: ")
    else:
        assert token_site.encode_ack(value) == data


@often
@given(nacks)
def test_requests_survive_the_wire(value: SiteNack) -> None:
    with suppress(BadPacket):
        assert token_site.parse_nack(token_site.encode_nack(value)) == value


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.one_of(
            acks(small, members, 3).map(lambda ack: (PacketKind.SITE_ACK, token_site.encode_ack(ack))),
            nacks.map(lambda nack: (PacketKind.SITE_NACK, token_site.encode_nack(nack))),
            st.builds(Confirm, small, members).map(
                lambda told: (PacketKind.CONFIRM, token_site.encode_confirm(told))
            ),
            st.binary(max_size=60).map(lambda body: (PacketKind.REPAIR, body)),
            st.just((PacketKind.HURRY, b"")),
        ),
        max_size=12,
    ),
    st.sampled_from((0, 2)),
)
def test_a_member_survives_whatever_others_send(sent: list[tuple[PacketKind, bytes]], sender: int) -> None:
    """It refuses what cannot be, and goes on: deadlines lie ahead, and nothing else is raised."""
    world = TokenSiteWorld(3)
    world.run(1_000)
    for kind, body in sent:
        with suppress(BadPacket):
            world.hand(sender, 1, kind, body)
        world.conclude(1)
        world.run(500)
    member = world.members[1]
    for _ in range(50):
        due_us = max(world.now_us, member.next_deadline_us())
        world.now_us = due_us
        member.timeout(due_us)
        member.conclude(False, due_us)
    assert member.next_deadline_us() > world.now_us - 1
