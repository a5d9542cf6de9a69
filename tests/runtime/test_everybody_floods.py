"""Every client floods at once: nothing is lost, and no queue grows beyond what the configuration allows."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from process_cluster import ProcessCluster
from raw_client import status

import antiphon
from antiphon import Message, Service
from antiphon.config import Settings
from antiphon.runtime.local import local_config

PAYLOAD_BYTES = 10_000
SETTINGS = Settings(
    membership="lan",
    suspect_ms=5_000.0,
    recovery_ms=10_000.0,
    unstable_bytes=2**18,
    output_soft_bytes=2**18,
    output_hard_bytes=2**26,
)
DAEMONS = 2
LARGEST_BUNDLE_BYTES = 2**17
"""The library closes a bundle of such messages long before."""
OUTPUT_MAX_BYTES = SETTINGS.output_soft_bytes + 2 * DAEMONS * (SETTINGS.unstable_bytes + LARGEST_BUNDLE_BYTES)
"""For one session: the soft limit, and what all daemons may have under way when they are asked to hold."""
KEPT_BY_ALLOCATOR_BYTES = 96 * 1024 * 1024
"""A daemon's process asks for memory in large pieces and keeps it."""
UNUSED = ("unreliable_reassembly", "link_unreliable", "recovery")
"""Buffers whose limits do not matter here: nobody sends unreliable messages, and the view lasts."""


class Witness:
    """Looks at the daemons again and again, and remembers what was out of bounds."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._cluster = cluster
        self._base_bytes = [cluster.resident_bytes(number) for number in range(DAEMONS)]
        self.looks = 0
        self.faults: list[str] = []
        self.peak_output_bytes = 0

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            for number, place in enumerate(self._cluster.places):
                self._judge(number, await asyncio.to_thread(status, place))
            self.looks += 1

    def _judge(self, number: int, told: dict[str, Any]) -> None:
        buffers = told["buffers"]
        for name, row in buffers.items():
            if row["bytes"] > row["limit"]:
                self.faults.append(f"{name} of daemon {number} holds {row['bytes']} of {row['limit']}")
        waiting = told["runtime"]["output_bytes"].values()
        self.peak_output_bytes = max(self.peak_output_bytes, *waiting, 0)
        if self.peak_output_bytes > OUTPUT_MAX_BYTES:
            self.faults.append(f"{self.peak_output_bytes} bytes waited for a session of daemon {number}")
        queues = sum(row["limit"] for name, row in buffers.items() if not name.startswith(UNUSED))
        most = queues + len(told["sessions"]) * OUTPUT_MAX_BYTES + KEPT_BY_ALLOCATOR_BYTES
        grown = self._cluster.resident_bytes(number) - self._base_bytes[number]
        if grown > most:
            self.faults.append(f"daemon {number} has grown by {grown} bytes, its queues hold {most}")


async def send(session: "antiphon.Session", messages: int) -> None:
    for number in range(messages):
        await session.send("flood", number.to_bytes(4, "big") + bytes(PAYLOAD_BYTES), Service.AGREED)


async def receive(session: "antiphon.Session", messages: int) -> list[tuple[str, int]]:
    """Sender and number of each of the next `messages` messages."""
    found: list[tuple[str, int]] = []
    while len(found) < messages:
        for event in await session.receive_many():
            if isinstance(event, Message):
                found.append((event.sender, int.from_bytes(event.payload[:4], "big")))
    return found


async def flood(cluster: ProcessCluster, clients: int, messages: int) -> Witness:
    witness = Witness(cluster)
    sessions = [
        await antiphon.connect(cluster.places[number % DAEMONS], name=f"c{number}")
        for number in range(clients)
    ]
    for session in sessions:
        await session.join("flood")
    watching = asyncio.create_task(witness.watch())
    async with asyncio.TaskGroup() as group:
        heard = [group.create_task(receive(session, clients * messages)) for session in sessions]
        for session in sessions:
            group.create_task(send(session, messages))
    watching.cancel()
    for session in sessions:
        await session.close()
    first = heard[0].result()
    for session in sessions:
        own = [number for sender, number in first if sender == session.name]
        assert own == list(range(messages))
    assert all(task.result() == first for task in heard)
    return witness


@pytest.mark.parametrize(
    ("clients", "messages"),
    [
        pytest.param(12, 150, id="a dozen"),
        pytest.param(60, 400, id="sixty", marks=pytest.mark.long),
    ],
)
def test_a_flood_from_every_client_at_once_keeps_every_queue_bounded(
    tmp_path: Path, clients: int, messages: int
) -> None:
    config = local_config(DAEMONS, tmp_path, settings=SETTINGS)
    with ExitStack() as stack:
        cluster = ProcessCluster(config, tmp_path, stack)
        witness = asyncio.run(flood(cluster, clients, messages))
        assert witness.looks > 3
        assert not witness.faults
        for place in cluster.places:
            told = status(place)
            assert told["runtime"]["clients"]["slow_receivers"] == 0
            assert told["slow_sessions"] == []
        cluster.assert_well()
