"""Sealed beacons: who may make them, and that each counts once while its process is known."""

import os

import pytest
from sealed_world import FIRST, SECOND

from antiphon.core.sealing.beacons import GROWS_BYTES, SENDERS_MAX, Beacons
from antiphon.core.sealing.keys import Keys
from antiphon.errors import BadPacket
from antiphon.wire import discovery
from antiphon.wire.discovery import Beacon, State

BEACON = discovery.encode(Beacon("tea", 7, 1, State.LISTENS, None, 0, "127.0.0.1", 4_000, "oslo"))


def beacons(*keys: Keys) -> list[Beacons]:
    return [Beacons(one, os.urandom) for one in keys]


def test_a_beacon_is_opened_as_it_was() -> None:
    one, other = beacons(Keys(FIRST), Keys(FIRST, SECOND))
    data = one.seal(BEACON)
    assert len(data) == len(BEACON) + GROWS_BYTES
    assert b"oslo" not in data
    assert other.open(data) == BEACON
    assert one.open(other.seal(BEACON)) == BEACON
    assert one.open(data) == data[:0] + BEACON  # its own comes back, by each interface


def test_a_beacon_counts_once() -> None:
    one, other = beacons(Keys(FIRST), Keys(FIRST))
    first, second = one.seal(BEACON), one.seal(BEACON)
    other.open(second)
    for data in (first, second):
        with pytest.raises(BadPacket, match="came before"):
            other.open(data)


def test_a_beacon_that_was_changed_is_none() -> None:
    one, other = beacons(Keys(FIRST), Keys(FIRST))
    data = one.seal(BEACON)
    for bit in range(24, 8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadPacket):
            other.open(bytes(changed))
    assert other.open(data) == BEACON


@pytest.mark.parametrize("data", [BEACON, b"", BEACON[:20], bytes(200)])
def test_a_plain_beacon_is_refused(data: bytes) -> None:
    (one,) = beacons(Keys(FIRST))
    with pytest.raises(BadPacket, match="not sealed"):
        one.open(data)


def test_a_beacon_with_another_key_is_refused() -> None:
    one, other = beacons(Keys(FIRST), Keys(SECOND))
    with pytest.raises(BadPacket, match="not ours"):
        one.open(other.seal(BEACON))
    with pytest.raises(BadPacket, match="not ours"):
        discovery.parse(other.seal(BEACON))


def test_many_processes_take_bounded_memory() -> None:
    (one,) = beacons(Keys(FIRST))
    for other in beacons(*[Keys(FIRST)] * (SENDERS_MAX + 50)):
        assert one.open(other.seal(BEACON)) == BEACON
    assert len(one._heard) == SENDERS_MAX
