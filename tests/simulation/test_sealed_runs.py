"""Sealed clusters in the simulator: strangers count for nothing, keys change, and all else is as promised."""

import pytest

from antiphon.simulator.oracle import judge
from antiphon.simulator.play import play
from antiphon.simulator.run import run_seed
from antiphon.simulator.scenarios import plan_of
from antiphon.simulator.stage import Stage
from antiphon.trace import Event, Record, Trace
from antiphon.wire.packet import PacketKind

SEEDS = {
    "keys": 2,
    "nonsense": 2,
    "mixed": 1,
    "swarm": 1,
    "sites": 1,
    "streams": 1,
    "poisoned": 1,
    "restart": 1,
}
MANY = {
    "keys": 60,
    "nonsense": 60,
    "mixed": 20,
    "swarm": 30,
    "sites": 15,
    "streams": 10,
    "poisoned": 10,
    "narrow": 4,
}


@pytest.mark.parametrize(
    ("scenario", "first", "end"),
    [
        *((name, 0, count) for name, count in SEEDS.items()),
        *(
            pytest.param(name, SEEDS.get(name, 0), count, marks=pytest.mark.long)
            for name, count in MANY.items()
        ),
    ],
)
def test_sealed_seeds_are_clean(scenario: str, first: int, end: int) -> None:
    for seed in range(first, end):
        outcome = run_seed(seed, scenario, sealed=True)
        assert outcome.is_clean, "\n".join([outcome.error, *map(str, outcome.violations)])
        assert outcome.counts.deliveries > 0


def test_strangers_send_much_and_keys_change_everywhere() -> None:
    stage = play(plan_of("keys", 2))
    world = stage.world
    assert world.strangers is not None and world.strangers.sent > 100
    doors = [host.node.seal for host in world.hosts if host.node is not None]
    assert {host.key_files.number for host in world.hosts} == {1}
    assert all(door is not None and door.keys.following is None for door in doors)
    refused = sum((host.node.counters for host in world.hosts if host.node), start=type(doors[0].counters)())  # type: ignore[union-attr]
    for reason in ("seal: not genuine", "seal: a packet that came before", "packet: not from a neighbour"):
        assert refused[reason] > 0, reason


def test_a_sealed_run_is_the_same_each_time() -> None:
    assert len({run_seed(1, "restart", sealed=True).digest for _ in range(2)}) == 1


def test_nothing_but_sealed_packets_travels() -> None:
    plan = plan_of("keys", 0)
    carried: set[int] = set()
    stage = Stage(plan)
    carry = stage.world.network.carry

    def watched(pair, data, *arguments):  # type: ignore[no-untyped-def]
        carried.add(data[3])
        return carry(pair, data, *arguments)

    stage.world.network.carry = watched  # type: ignore[method-assign]
    stage.world.run(5_000_000)
    assert len(carried) == 2 if len(plan.daemons()) > 1 else 1  # a key, and either suite
    assert 0 not in carried and 0xFF not in carried


def test_the_oracle_finds_a_breach() -> None:
    record = Record(0, 5, Event.BREACH, "d0", reason="a packet counted although it had come before")
    (violation,) = [
        one for one in judge(Trace("keys", 0, ("d0",), [record])) if one.name.startswith("sealed")
    ]
    assert "it had come before" in str(violation)


def test_every_kind_of_packet_is_met_by_sealed_daemons() -> None:
    events = {event for _, event in run_seed(2, "keys").events}
    assert {PacketKind.INTRODUCTION.name.lower(), "beat", "data", "proposal"} <= events
