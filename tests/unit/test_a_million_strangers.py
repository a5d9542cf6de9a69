"""A million packets of a stranger, who has recorded a live cluster and knows its file, change nothing."""

import resource
from random import Random

import pytest
from sealed_world import FIRST, Sealed

from antiphon.core.sealing.keys import Suite
from antiphon.wire.packet import HEAD_BYTES, SEAL_AT

FEW, MANY = 20_000, 1_000_000
GROWS_MAX_BYTES = 8 * 1024 * 1024


def recorded_cluster() -> tuple[Sealed, list[tuple[int, bytes]]]:
    """A cluster with a Hop link, a ring and a restart behind it, and all packets that it has sent."""
    world = Sealed(2, 2, suites=(Suite.AES_GCM, Suite.CHACHA))
    world.form()
    world.run(5_000_000)
    world.start(3)
    world.form()
    heard = [
        (receiver, data[at : at + stride_bytes])
        for _, receiver, data, stride_bytes in world.heard
        for at in range(0, len(data), stride_bytes)
    ]
    world.heard.clear()
    return world, heard


def attack(chance: Random, heard: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    """A packet that was recorded, changed, cut short, sent elsewhere or made up; and whom it is sent to."""
    receiver, data = chance.choice(heard)
    way = chance.randrange(6)
    if way == 1:
        changed = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(len(changed))] ^= chance.randint(1, 255)
        data = bytes(changed)
    elif way == 2:
        data = data[: chance.randrange(len(data))]
    elif way == 3:
        receiver = chance.randrange(4)
    elif way == 4:  # a plausible head
        counter = int.from_bytes(data[24:32], "big") + chance.randrange(1, 100_000)
        data = data[:24] + counter.to_bytes(8, "big") + data[32:HEAD_BYTES] + chance.randbytes(90)
    elif way == 5:
        data = data[:SEAL_AT] + bytes((chance.choice((0, FIRST.number, 7)),)) + data[SEAL_AT + 1 : 12]
        data += chance.randbytes(chance.randint(40, 1_400))
    return receiver, data


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_strangers_change_nothing(count: int, is_restarted: bool) -> None:
    world, heard = recorded_cluster()
    if is_restarted:  # who hears nothing of the others at first
        world.start(0)
        world.deaf = {(sender, 0) for sender in (1, 2, 3)}
        world.run(10_000)
    doors = [node.seal for node in world.nodes.values() if node.seal is not None]
    opened = [door.opened for door in doors]
    processes = [dict(door.introductions.processes) for door in doors]
    views = [(node.view.id, node.state) for node in world.nodes.values()]
    before = sum(sum(node.counters.values()) for node in world.nodes.values())
    chance = Random("strangers")
    for _ in range(1_000):
        world.give(*attack(chance, heard))
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers = 0
    for number in range(count - 1_000):
        world.give(*attack(chance, heard))
        if number % 1_000 == 0:
            world.now_us += 1_000
            for node in world.nodes.values():
                answers += len(node.datagrams)
                node.datagrams.clear()
    grown_bytes = 1_024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - kib)
    assert [door.opened for door in doors] == opened
    assert [door.introductions.processes for door in doors] == processes
    assert [(node.view.id, node.state) for node in world.nodes.values()] == views
    assert grown_bytes < GROWS_MAX_BYTES
    assert answers < count // 50
    refused = sum(sum(node.counters.values()) for node in world.nodes.values()) - before
    assert refused > 0.9 * count
    world.deaf.clear()
    world.form()
