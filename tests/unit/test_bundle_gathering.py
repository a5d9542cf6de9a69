"""How bundles become one: byte by byte, and what is never taken unchecked."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon import limits
from antiphon.service import Service
from antiphon.wire import bundle
from antiphon.wire.gathering import Gathering, are_alike

NAMES = bundle.names_area("#a#d1", ("g",))


def encoded(*payloads: bytes, sent_us: int = 7, **fields: int) -> bytearray:
    return bytearray().join(bundle.encode(NAMES, 1, Service.AGREED, payloads, sent_us=sent_us, **fields))


def gathering_of(first: bytearray) -> Gathering:
    return Gathering(first, bundle.parse_from_client(first))


def test_one_after_the_other() -> None:
    """The result is what the library would have sent, had it gathered the messages itself."""
    first = encoded(b"one", b"")
    gathering = gathering_of(first)
    second = encoded(b"three")
    assert gathering.add(second, bundle.parse_from_client(second))
    data, header = gathering.join()
    assert data == encoded(b"one", b"", b"three")
    assert header == bundle.parse_from_client(data)


@given(st.lists(st.binary(max_size=40), min_size=2, max_size=40), st.integers(0, 5))
def test_runs_are_what_parsing_each_gives(payloads: list[bytes], at: int) -> None:
    frames = [encoded(payload) for payload in payloads]
    gathering = gathering_of(frames[0])
    before = [bytearray(b"before")] * at
    assert gathering.add_run([*before, *map(memoryview, frames[1:])], at) == len(frames) - 1
    data, header = gathering.join()
    assert data == encoded(*payloads)
    assert header == bundle.parse_from_client(data)
    assert gathering.came_bytes == sum(map(len, frames))


@given(st.integers(0, 150), st.integers(1, 255))
def test_a_changed_byte_is_taken_only_where_it_may_differ(at: int, change: int) -> None:
    """What a run takes unchecked is what `parse_from_client` would have accepted, and alike."""
    first, other = encoded(bytes(60)), encoded(bytes(60))
    at %= len(other)
    other[at] ^= change
    gathering = gathering_of(first)
    if gathering.add_run([other], 0):
        header = bundle.parse_from_client(other)
        assert are_alike(bundle.parse_from_client(first), header)


def test_what_is_cut_short_is_not_taken() -> None:
    gathering = gathering_of(encoded(b"payload"))
    data = encoded(b"payload")
    assert not any(gathering.add_run([data[:cut]], 0) for cut in range(len(data)))
    assert not gathering.add_run([data + b"more"], 0)
    assert gathering.add_run([data], 0)


def test_a_run_ends_where_the_bundle_is_full() -> None:
    gathering = gathering_of(encoded(b""))
    assert (
        gathering.add_run([encoded(b"")] * 2 * limits.BUNDLE_MESSAGES_MAX, 0)
        == limits.BUNDLE_MESSAGES_MAX - 1
    )
    assert gathering.join().header.message_count == limits.BUNDLE_MESSAGES_MAX
    assert gathering.add_run([encoded(b"")], 0) == 0


def test_a_run_ends_where_the_bytes_are_full() -> None:
    size = 996
    gathering = gathering_of(encoded(bytes(size)))
    assert gathering.add_run([encoded(bytes(size))] * 100, 0) == limits.BUNDLE_TARGET_BYTES // (size + 4) - 1


def test_runs_are_of_single_messages() -> None:
    gathering = gathering_of(encoded(b"a", b"b"))
    assert gathering.add_run([encoded(b"a", b"b")], 0) == 0
