"""Sealed nodes and the network between them, for tests that read as stories."""

from random import Random

from antiphon import config
from antiphon.config import Config, DaemonConfig, SiteConfig
from antiphon.core.node import Node
from antiphon.core.sealing.keys import ClusterKey, Keys, Suite
from antiphon.core.sealing.seal import Sealing

FIRST = ClusterKey(bytes(range(32)))
SECOND = ClusterKey(bytes(range(32, 64)))
START_US = 1_000_000
STEP_US = 1_000


def key_of(number: int) -> ClusterKey:
    """One key of many."""
    return ClusterKey(Random(number).randbytes(32))


def cluster(*sizes: int) -> Config:
    """Sites of so many daemons each."""
    numbers = iter(range(100))
    return config.build(
        tuple(
            SiteConfig(
                f"s{site}",
                tuple(
                    DaemonConfig(f"d{number}", f"127.0.0.1:{7_000 + number}")
                    for number in (next(numbers) for _ in range(size))
                ),
            )
            for site, size in enumerate(sizes)
        )
    )


class Sealed:
    """A cluster of sealed nodes. What travels is kept, as one who listens would."""

    def __init__(self, *sizes: int, suites: tuple[Suite, ...] = (Suite.AES_GCM,)) -> None:
        self.config = cluster(*sizes)
        self.now_us = START_US
        self.chance = Random("sealed world")
        self.suites = suites
        self.heard: list[tuple[int, int, bytes, int]] = []
        """Sender, receiver, bytes and the size of packets."""
        self.deaf: set[tuple[int, int]] = set()
        """Pairs of sender and receiver between which nothing gets through."""
        self.nodes: dict[int, Node] = {}
        for number in range(self.config.daemon_count):
            self.start(number)

    def start(self, number: int, keys: Keys | None = None, incarnation: int = 0) -> Node:
        """A daemon starts, again if it runs."""
        node = Node(
            self.config,
            self.config.daemon_names[number],
            incarnation=incarnation or self.chance.randrange(1, 1 << 32),
            now_us=self.now_us,
            wall_us=1_700_000_000_000_000 + self.now_us,
            sealing=Sealing(
                keys or Keys(FIRST), self.chance.randbytes, self.suites[number % len(self.suites)]
            ),
        )
        self.nodes[number] = node
        return node

    def run(self, for_us: int) -> None:
        """Let time pass."""
        until_us = self.now_us + for_us
        while self.now_us < until_us:
            for number, node in self.nodes.items():
                deadline_us = node.next_deadline_us()
                if deadline_us is not None and deadline_us <= self.now_us:
                    node.timeout(self.now_us)
                node.settle(self.now_us)
                self._carry(number, node)
            self.now_us += STEP_US

    def _carry(self, sender: int, node: Node) -> None:
        datagrams = node.datagrams[:]
        node.datagrams.clear()
        for datagram in datagrams:
            data = b"".join(datagram.buffers)
            for receiver in datagram.receivers or (datagram.receiver,):
                self.heard.append((sender, receiver, data, datagram.stride_bytes))
                if (sender, receiver) not in self.deaf:
                    self.give(receiver, data, datagram.stride_bytes)

    def give(self, receiver: int, data: bytes, stride_bytes: int = 1 << 16) -> None:
        """Bytes come to a daemon, whoever has sent them."""
        if receiver in self.nodes:
            self.nodes[receiver].receive(memoryview(data), stride_bytes, self.now_us)

    def is_whole(self) -> bool:
        """Whether all daemons are in one view of all that works."""
        members = tuple(range(self.config.daemon_count))
        views = {node.view.id for node in self.nodes.values()}
        return len(views) == 1 and all(
            node.view.members == members and node.is_operational for node in self.nodes.values()
        )

    def form(self) -> None:
        """Let time pass until they are."""
        for _ in range(100):
            self.run(200_000)
            if self.is_whole():
                return
        raise AssertionError(f"no view of all: {[node.view.members for node in self.nodes.values()]}")
