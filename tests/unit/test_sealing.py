"""Sealed packets: who is let in, what counts once, and what counts for nothing."""

import struct
from random import Random

import pytest
from sealed_world import FIRST, SECOND, Sealed, key_of

from antiphon.core.effects import Datagram
from antiphon.core.links.packing import Packer
from antiphon.core.sealing import introductions, seal
from antiphon.core.sealing.keys import ClusterKey, Keys, Suite
from antiphon.core.sealing.window import WINDOW, Window
from antiphon.errors import BadPacket, ConfigError
from antiphon.wire import packet, sealed, trains
from antiphon.wire.packet import HEAD_BYTES, Data, Fragment, Packet, PacketKind

# Keys -----------------------------------------------------------------------------------------------------


def test_keys_show_nothing_of_their_secrets() -> None:
    secret = bytes(range(32))
    shown = f"{FIRST!r} {Keys(FIRST, SECOND)!r} {FIRST.name} {FIRST.number}"
    assert secret.hex()[:8] not in shown
    assert FIRST.name in shown


def test_two_keys_that_packets_cannot_tell_apart_do_not_follow_one_another() -> None:
    twin = next(key for number in range(10_000) if (key := key_of(number)).number == FIRST.number)
    with pytest.raises(ConfigError, match="make another one"):
        Keys(FIRST, twin)


def test_a_key_that_follows_itself_is_one_key() -> None:
    assert Keys(FIRST, ClusterKey(bytes(range(32)))).following is None


def test_each_process_has_a_key_of_its_own() -> None:
    salt, other = bytes(16), bytes(15) + b"1"
    known = {
        key.cipher(daemon, incarnation, salts, suite).encrypt(bytes(12), b"body", b"head")
        for key in (FIRST, SECOND)
        for daemon in (1, 2)
        for incarnation in (1, 2)
        for salts in (salt, other)
        for suite in Suite
    }
    assert len(known) == 32


# The window -----------------------------------------------------------------------------------------------


def test_a_counter_counts_once() -> None:
    window = Window(100)
    assert not window.is_new(100)
    assert not window.is_new(7)
    assert window.is_new(101)
    window.note(101)
    assert not window.is_new(101)
    assert window.is_new(102)


def test_what_is_overtaken_by_too_many_is_too_late() -> None:
    window = Window(0)
    window.note(10 * WINDOW)
    assert window.is_new(9 * WINDOW + 1_100)
    assert not window.is_new(9 * WINDOW - 1)


def test_a_train_counts_as_its_packets_do_also_across_blocks() -> None:
    window = Window(0)
    window.note(1_000, 64)
    assert not window.is_new(1_063)
    assert not window.is_new(1_060, 10)
    assert window.is_new(1_064, 10)
    assert not window.is_new(990, 20)


def test_a_window_counts_as_a_set_would() -> None:
    chance = Random("window")
    window, seen, newest = Window(0), set(), 0
    for _ in range(20_000):
        first, count = max(1, newest + chance.randint(-3_000, 1_000)), chance.choice((1, 1, 2, 64))
        known = {counter in seen for counter in range(first, first + count)}
        assert window.is_new(first, count) == (known == {False})
        if known == {False}:
            window.note(first, count)
            seen |= set(range(first, first + count))
            newest = max(newest, first + count)
    assert len(window._blocks) <= 64


# Introductions on the wire --------------------------------------------------------------------------------


def test_an_introduction_reads_as_it_was_written() -> None:
    said = sealed.Introduction(bytes(range(16)), bytes(16), frozenset((3, 126)))
    assert sealed.parse(sealed.encode(said)) == said
    assert sealed.encode(said).hex() == bytes(range(16)).hex() + "00" * 16 + "02037e"


@pytest.mark.parametrize("body", [b"", bytes(32), bytes(33), bytes(32) + b"\2\1", bytes(32) + b"\3\1\2\3"])
def test_what_no_process_tells_is_no_introduction(body: bytes) -> None:
    with pytest.raises(BadPacket):
        sealed.parse(body)


# A sealed cluster -----------------------------------------------------------------------------------------


@pytest.fixture
def formed() -> Sealed:
    world = Sealed(2, 1, suites=(Suite.AES_GCM, Suite.CHACHA))
    world.form()
    return world


def opened(world: Sealed, number: int) -> int:
    door = world.nodes[number].seal
    assert door is not None
    return door.opened


def counters(world: Sealed, number: int) -> dict[str, int]:
    return world.nodes[number].counters


def test_sealed_daemons_come_together_and_stay(formed: Sealed) -> None:
    before = opened(formed, 0)
    formed.run(5_000_000)
    assert formed.is_whole()
    assert opened(formed, 0) > before + 10


def test_nothing_is_sent_in_the_clear(formed: Sealed) -> None:
    for _, _, data, stride_bytes in formed.heard:
        for at in range(0, len(data), stride_bytes):
            assert data[at + packet.SEAL_AT] & 0x7F in (FIRST.number,)
    with pytest.raises(BadPacket, match="sealed"):
        packet.parse(memoryview(formed.heard[-1][2]))


def test_no_counter_is_used_twice(formed: Sealed) -> None:
    used: dict[tuple[bytes, bytes], bytes] = {}
    for _, _, data, stride_bytes in formed.heard:
        for at in range(0, len(data), stride_bytes):
            one = data[at : at + stride_bytes]
            process, counter = one[8:10] + one[12:16], one[24:32]
            assert used.setdefault((process, counter), one) == one


def test_what_was_recorded_counts_for_nothing_again(formed: Sealed) -> None:
    for sender, receiver, data, stride_bytes in formed.heard[:]:
        before = opened(formed, receiver), formed.nodes[receiver].view.id
        formed.give(receiver, data, stride_bytes)
        assert (opened(formed, receiver), formed.nodes[receiver].view.id) == before, sender
    assert counters(formed, 0)[introductions.REPEATED] > 10


def test_what_is_changed_counts_for_nothing(formed: Sealed) -> None:
    """Also in the head: every bit of it is vouched for."""
    formed.heard.clear()
    formed.deaf = {(sender, 0) for sender in (1, 2)}
    formed.run(3_000_000)
    recorded = [one for one in formed.heard if one[1] == 0 and one[0] in (1, 2)]
    before = opened(formed, 0)
    _, _, data, _ = next(one for one in recorded if len(one[2]) <= one[3])
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        formed.give(0, bytes(changed))
    assert opened(formed, 0) == before
    assert counters(formed, 0)[introductions.UNREADABLE] > 8 * (len(data) - HEAD_BYTES - 1)
    formed.give(0, data)
    assert opened(formed, 0) == before + 1


@pytest.mark.parametrize("size", [300_000, 1_000])
def test_a_train_is_opened_as_what_was_put_into_it(formed: Sealed, size: int) -> None:
    """Whole, or packet by packet where one of them is missing or was changed."""
    node, door = formed.nodes[1], formed.nodes[0].seal
    assert door is not None
    packer = Packer(1_400, _prefix(formed, 1), node.datagrams.counter)
    body = Random("body").randbytes(size)
    packer.add(Fragment(1, 5, 3, size, 0, body))
    while packer:
        train = packer.train(1, 64)
        plain = trains.parse_train(
            memoryview(_checked(train.buffers, train.stride_bytes)), train.stride_bytes
        )
        node.datagrams.append(Datagram(0, train.buffers, train.stride_bytes, train.size_bytes))
        sent = node.datagrams.pop()
        data = b"".join(sent.buffers)
        assert len(data) == sent.size_bytes
        broken = bytearray(data)
        broken[-1] ^= 1
        bad = door.read(memoryview(broken), sent.stride_bytes, formed.now_us, None)
        assert sum(isinstance(one, BadPacket) for one in bad) == 1
        if train.count == 1:
            assert _said(door.read(memoryview(data), sent.stride_bytes, formed.now_us, None)) == _said(plain)
        else:
            assert _said(bad) == _said(plain)[:-1]


def test_a_whole_train_is_opened_at_once(formed: Sealed) -> None:
    node, door = formed.nodes[1], formed.nodes[0].seal
    assert door is not None
    packer = Packer(1_400, _prefix(formed, 1), node.datagrams.counter)
    packer.add(Fragment(1, 5, 3, 50_000, 0, bytes(50_000)))
    train = packer.train(1, 20)
    node.datagrams.append(Datagram(0, train.buffers, train.stride_bytes, train.size_bytes))
    sent = node.datagrams.pop()
    data = memoryview(b"".join(sent.buffers))
    (found,) = door.read(data, sent.stride_bytes, formed.now_us, None)
    assert isinstance(found, Data)
    assert (found.count, len(found.items)) == (20, 1)
    again = door.read(data, sent.stride_bytes, formed.now_us, None)
    assert [str(one) for one in again] == [introductions.REPEATED] * 20


def _prefix(world: Sealed, sender: int) -> bytes:
    return packet.prefix(
        PacketKind.DATA, digest=world.config.digest, sender=sender, receiver=0,
        incarnation=world.nodes[sender].incarnation, view=7, seal=packet.TO_BE_SEALED,
    )  # fmt: skip


def _checked(buffers: list[bytes | memoryview], stride_bytes: int) -> bytes:
    """The same packets, plain."""
    data, out = b"".join(buffers), b""
    for at in range(0, len(data), stride_bytes):
        one = bytearray(data[at : at + stride_bytes - packet.CHECK_BYTES])
        one[packet.SEAL_AT] = 0
        out += bytes(one) + packet.check((bytes(one),))
    return out


def _said(found: list[Packet | BadPacket]) -> list[tuple[int, bytes]]:
    """The numbers of packets, and what their fragments bring."""
    return [
        (part.head.number, b"".join(bytes(item.body) for item in part.items if isinstance(item, Fragment)))
        for one in found
        if isinstance(one, Data)
        for part in trains.split(one)
    ]


def test_what_is_for_all_of_a_site_is_for_nobody_elsewhere(formed: Sealed) -> None:
    """A genuine packet of a ring, sent to a daemon of another site, would be taken for one of their link."""
    recorded = [data for sender, _, data, _ in formed.heard if sender == 1 and data[10:12] == b"\xff\xff"]
    before, refused = opened(formed, 2), counters(formed, 2)["packet: not from a neighbour"]
    for data in recorded:
        formed.give(2, data)
    assert recorded and opened(formed, 2) == before
    assert counters(formed, 2)["packet: not from a neighbour"] == refused + len(recorded)


def test_a_process_that_was_started_again_has_heard_nothing(formed: Sealed) -> None:
    """All that was recorded for its life before counts for nothing in the next one, before and after others
    have introduced themselves to it."""
    recorded = [one for one in formed.heard if one[1] == 0]
    formed.start(0)
    formed.deaf = {(other, 0) for other in (1, 2)}
    for _, receiver, data, stride_bytes in recorded:
        formed.give(receiver, data, stride_bytes)
    formed.run(100_000)
    assert opened(formed, 0) == 0
    assert not formed.nodes[0].membership.peers[1].incarnation
    formed.deaf.clear()
    formed.form()
    before = opened(formed, 0)
    for _, receiver, data, stride_bytes in recorded:
        formed.give(receiver, data, stride_bytes)
    assert opened(formed, 0) == before


def test_a_life_that_is_over_does_not_come_back(formed: Sealed) -> None:
    """Recorded beats of a former life look like a restart: nobody believes them."""
    recorded = [one for one in formed.heard if one[0] == 2]
    formed.start(2)
    formed.form()
    views = {number: node.view.id for number, node in formed.nodes.items()}
    before = [opened(formed, number) for number in (0, 1)]
    for _, receiver, data, stride_bytes in recorded:
        formed.give(receiver, data, stride_bytes)
    assert [opened(formed, number) for number in (0, 1)] == before
    formed.run(3_000_000)
    assert {number: node.view.id for number, node in formed.nodes.items()} == views


def test_a_restart_under_the_same_incarnation_is_noticed(formed: Sealed) -> None:
    """Incarnations are small: it is the salt that tells processes apart."""
    formed.start(2, incarnation=formed.nodes[2].incarnation)
    formed.run(2_000_000)
    for number in (0, 1):
        door = formed.nodes[number].seal
        assert door is not None
        assert door.introductions.processes[2].salt == formed.nodes[2].seal._salt  # type: ignore[union-attr]


def test_who_has_another_key_is_nobody() -> None:
    world = Sealed(1, 1)
    world.start(1, Keys(SECOND))
    world.run(5_000_000)
    assert [node.view.members for node in world.nodes.values()] == [(0,), (1,)]
    assert counters(world, 0)[introductions.OTHER_KEY] > 0
    assert opened(world, 0) == 0
    told = world.nodes[0].status(world.now_us)["security"]
    assert told["strange"] == {"d1": introductions.OTHER_KEY}  # type: ignore[index]
    world.start(1, Keys(FIRST))
    world.form()
    told = world.nodes[0].status(world.now_us)["security"]
    assert told["strange"] == {}  # type: ignore[index]


def test_what_is_not_sealed_is_refused(formed: Sealed) -> None:
    start = packet.prefix(
        PacketKind.BEAT,
        digest=formed.config.digest,
        sender=1,
        receiver=0,
        incarnation=formed.nodes[1].incarnation,
    )
    formed.give(0, packet.whole(start, b"forged" * 10, counter=1 << 40))
    assert counters(formed, 0)[seal.PLAIN] == 1


def test_strangers_cost_little_memory(formed: Sealed) -> None:
    """Forged packets of processes without number, each of which names a neighbour: few are answered."""
    formed.nodes[0].datagrams.clear()
    chance = Random("strangers")
    for number in range(2_000):
        head = struct.pack(
            "!BBBBIHHIQQQ", packet.MAGIC, packet.VERSION, chance.choice((2, 6, 19)), FIRST.number,
            formed.config.digest, 1, 0, number + 1, 0, number, 0,
        )  # fmt: skip
        formed.give(0, head + chance.randbytes(80))
    door = formed.nodes[0].seal
    assert door is not None
    assert len(formed.nodes[0].datagrams) <= 2
    assert set(door.introductions.processes) == {1, 2}
    assert counters(formed, 0)[introductions.TOO_MANY] > 0
    formed.run(1_000_000)
    assert formed.is_whole()


# Changing keys --------------------------------------------------------------------------------------------


def change(world: Sealed, number: int, keys: Keys) -> None:
    door = world.nodes[number].seal
    assert door is not None
    door.change_keys(keys, world.now_us)


def used(world: Sealed) -> set[int]:
    """The numbers of the keys that seal what travels in a while."""
    world.heard.clear()
    world.run(2_000_000)
    return {data[packet.SEAL_AT] & 0x7F for _, _, data, _ in world.heard}


def test_keys_change_one_daemon_after_the_other(formed: Sealed) -> None:
    views = {node.view.id for node in formed.nodes.values()}
    for number in range(3):
        assert SECOND.number not in used(formed) or number > 1
        change(formed, number, Keys(FIRST, SECOND))
        formed.run(1_000_000)
    assert used(formed) == {SECOND.number}
    for number in range(3):
        change(formed, number, Keys(SECOND))
        formed.run(1_000_000)
    assert used(formed) == {SECOND.number}
    assert {node.view.id for node in formed.nodes.values()} == views


def test_keys_that_change_without_a_word_being_heard_are_told_later(formed: Sealed) -> None:
    formed.deaf = {(2, 0), (2, 1), (0, 2), (1, 2)}
    change(formed, 2, Keys(FIRST, SECOND))
    formed.run(200_000)
    formed.deaf.clear()
    formed.run(3_000_000)
    door = formed.nodes[0].seal
    assert door is not None
    assert door.introductions.processes[2].keys == {FIRST.number, SECOND.number}
    assert not formed.nodes[2].seal.introductions._telling  # type: ignore[union-attr]


def test_an_answer_to_what_was_told_before_does_not_count(formed: Sealed) -> None:
    """A challenge is under way when the keys change: its answer does not show that the new ones are known."""
    door = formed.nodes[0].seal
    assert door is not None
    door.introductions.ask(1, formed.now_us)
    door.outbox.clear()
    before = door.introductions._challenges[1].value
    change(formed, 0, Keys(FIRST, SECOND))
    door.timeout(formed.now_us)
    assert door.introductions._challenges[1].value != before


def test_status_says_who_lacks_the_next_key(formed: Sealed) -> None:
    change(formed, 0, Keys(FIRST, SECOND))
    change(formed, 1, Keys(FIRST, SECOND))
    formed.run(2_000_000)
    told = formed.nodes[0].status(formed.now_us)["security"]
    assert told["next_key_lacks"] == ["d2"]  # type: ignore[index]
    assert told["key"] == FIRST.name  # type: ignore[index]


def test_who_has_only_the_next_key_is_spoken_to_with_it(formed: Sealed) -> None:
    """A daemon that is started again after the change was completed there."""
    for number in range(3):
        change(formed, number, Keys(FIRST, SECOND))
    formed.run(1_000_000)
    formed.start(2, Keys(SECOND))
    formed.form()
