"""Connections of sealed daemons: who does not prove that it has the key opens nothing, and ends nothing."""

import os

import pytest
from sealed_world import FIRST, SECOND
from test_exchange import Town

from antiphon.core.sealing.keys import Keys
from antiphon.core.sealing.proofs import Proofs
from antiphon.core.streams.channel import ChannelPhase
from antiphon.core.streams.exchange import Exchange
from antiphon.wire import streams
from antiphon.wire.streams import Challenge, Greeting


class Door:
    """Has keys."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys


class SealedTown(Town):
    """Two daemons whose greetings bear proofs."""

    def __init__(self, *keys: Keys) -> None:
        self.doors = [Door(one) for one in keys or (Keys(FIRST), Keys(FIRST))]
        super().__init__()

    def exchange(self, number: int, incarnation: int = 100, digest: int = 7) -> Exchange:
        proofs = Proofs(self.doors[number], os.urandom)
        return Exchange(number, digest, incarnation + number, (1 - number,), self.ears[number], proofs)


@pytest.mark.parametrize(
    "keys",
    [
        (Keys(FIRST), Keys(FIRST)),
        (Keys(FIRST), Keys(FIRST, SECOND)),
        (Keys(FIRST, SECOND), Keys(SECOND)),
        (Keys(SECOND, FIRST), Keys(FIRST, SECOND)),
    ],
)
def test_who_has_a_key_in_common_is_let_in(keys: tuple[Keys, Keys]) -> None:
    town = SealedTown(*keys)
    channel = town.wants(0)
    assert channel is not None
    town.reach(0, channel)
    town.flow(0, 1, 0, 1)
    assert town.states() == ["open", "open"]


def test_who_has_another_key_is_not() -> None:
    town = SealedTown(Keys(FIRST), Keys(SECOND))
    channel = town.wants(0)
    assert channel is not None
    town.reach(0, channel)
    town.flow(0, 1, 0, 1)
    assert town.states() == ["closed", "closed"]
    assert town.exchanges[1].counters["stream: challenge: no key in common"] == 1


def test_calls_that_cross_end_in_one_connection() -> None:
    town = SealedTown()
    one, other = town.wants(0), town.wants(1)
    assert one is not None and other is not None
    town.reach(0, one)
    town.reach(1, other)
    for _ in range(3):
        town.flow()
    assert town.states() == ["open", "open"]
    assert {channel.phase for channel in (one, other)} == {ChannelPhase.OPEN, ChannelPhase.CLOSED}


def heard_from(town: SealedTown, number: int) -> list[bytes]:
    """All frames that a daemon writes while a connection is opened by the other one."""
    channel = town.wants(1 - number)
    assert channel is not None
    town.reach(1 - number, channel)
    frames = []
    for turn in (1 - number, number, 1 - number, number):
        for one in list(town.exchanges[turn].outputs):
            if turn != number:
                frames.append(b"".join(one.batch()))
        town.flow(turn)
    assert town.states() == ["open", "open"]
    return frames


def test_a_greeting_that_was_recorded_opens_nothing_and_ends_nothing() -> None:
    town = SealedTown()
    recorded = heard_from(town, 0)
    assert len(recorded) == 2
    stranger = town.exchanges[0].accepted(town.now_us)
    for frame in recorded:
        town.exchanges[0].received(stranger, memoryview(frame), town.now_us)
    assert stranger.phase is ChannelPhase.CLOSED
    assert town.exchanges[0].counters["stream: greeting: its proof is none"] == 1
    assert town.states() == ["open", "open"]


@pytest.mark.parametrize(
    "frame",
    [
        streams.greeting(Greeting(7, 1, 0, 101)),
        streams.challenge(Challenge(bytes(16), (FIRST.number,))) + streams.greeting(Greeting(7, 1, 0, 101)),
        streams.challenge(Challenge(bytes(16), (FIRST.number,)))
        + streams.proven_greeting(streams.greeting_words(Greeting(7, 1, 0, 101)), FIRST.number, bytes(32)),
        streams.challenge(Challenge(bytes(16), (FIRST.number,)))
        + streams.proven_greeting(streams.greeting_words(Greeting(7, 1, 0, 101)), 77, bytes(32)),
        b"\0\0\0\5hello",
    ],
)
def test_a_stranger_with_the_configuration_ends_nothing(frame: bytes) -> None:
    town = SealedTown()
    town.join(1)
    town.flow()
    assert town.states() == ["open", "open"]
    stranger = town.exchanges[0].accepted(town.now_us)
    town.exchanges[0].received(stranger, memoryview(frame), town.now_us)
    assert stranger.phase is ChannelPhase.CLOSED
    assert town.states() == ["open", "open"]


def test_a_greeting_that_is_changed_on_its_way_is_refused() -> None:
    town = SealedTown()
    channel = town.wants(0)
    assert channel is not None
    other = town.reach(0, channel)
    town.flow(0, 1)
    frame = bytearray(b"".join(channel.batch()))
    frame[streams.LENGTH_BYTES + 15] ^= 1  # its incarnation
    town.exchanges[1].received(other, memoryview(frame), town.now_us)
    assert other.phase is ChannelPhase.CLOSED
    assert town.exchanges[1].counters["stream: greeting: its proof is none"] == 1


def test_a_plain_daemon_and_a_sealed_one_do_not_talk() -> None:
    town = SealedTown()
    plain = Exchange(1, 7, 101, (0,), town.ears[1])
    town.exchanges[1] = plain
    for number in (0, 1):
        channel = town.wants(number)
        assert channel is not None
        town.reach(number, channel)
        town.flow()
        assert town.states() == ["closed", "closed"]
        town.now_us += 10_000_000
