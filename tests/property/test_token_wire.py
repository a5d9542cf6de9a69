"""Any bytes are a token or a BadPacket; tokens survive the wire; a member of a ring survives any token."""

from hypothesis import given, settings
from hypothesis import strategies as st
from ring_world import RingWorld

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import token
from antiphon.wire.packet import PacketKind
from antiphon.wire.token import NOBODY, Token

often = settings(deadline=None, max_examples=200)

u16 = st.integers(0, (1 << 16) - 1)
u32 = st.integers(0, (1 << 32) - 1)
u64 = st.integers(0, (1 << 64) - 1)
counters = st.integers(0, limits.COUNTER_MAX)
small = st.integers(0, 12)
daemons = st.sampled_from((0, 1, 2, 3, NOBODY))


@st.composite
def tokens(
    draw: st.DrawFn,
    counters: st.SearchStrategy[int] = counters,
    daemons: st.SearchStrategy[int] = u16,
    flow: st.SearchStrategy[int] = u32,
) -> Token:
    """A token that can be written down; whether any ring has made it is another question."""
    aru, sequence = sorted((draw(counters), draw(counters)))
    return Token(
        draw(counters), sequence, aru, draw(daemons), draw(daemons), draw(flow),
        draw(counters), draw(counters), draw(counters),
        draw(st.lists(st.tuples(daemons, u64, u32), max_size=limits.RING_REQUESTS_MAX).map(tuple)),
    )  # fmt: skip


@often
@given(tokens())
def test_tokens_survive_the_wire(value: Token) -> None:
    assert token.parse_token(token.encode_token(value)) == value


@often
@given(st.binary(max_size=200))
def test_any_bytes_are_a_token_or_a_bad_packet(data: bytes) -> None:
    try:
        value = token.parse_token(data)
    except BadPacket as error:
        assert error.reason.startswith("token: ")
    else:
        assert token.encode_token(value) == data


@often
@given(tokens(), st.data())
def test_a_damaged_token_is_another_one_or_a_bad_packet(value: Token, data: st.DataObject) -> None:
    """Nothing is read past the end, and nothing else is raised."""
    whole = bytearray(token.encode_token(value))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        found = token.parse_token(bytes(whole[: data.draw(st.sampled_from((len(whole), at)))]))
    except BadPacket:
        return
    assert found != value
    assert token.encode_token(found) == bytes(whole)


wild = st.one_of(tokens(), tokens(small, daemons, small), tokens(small, daemons, u32))


@often
@given(st.lists(st.tuples(wild, st.integers(0, 3)), min_size=1, max_size=4))
def test_a_member_survives_any_token(steps: list[tuple[Token, int]]) -> None:
    """It refuses it or makes the best of it: whatever it then passes on can be written and read."""
    world = RingWorld(3)
    world.lose = lambda sender, receiver, incoming: True
    for value, bodies in steps:
        world.send(1, *[b"something of ours"] * bodies)
        try:
            world.hand(0, 1, PacketKind.TOKEN, token.encode_token(value))
        except BadPacket as error:
            assert error.reason.startswith("token: ")
        world.conclude(1)
        world.run(5_000)
    assert all(passed.serial for _, passed in world.tokens())
