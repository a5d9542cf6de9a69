"""What a node costs per bundle, without sockets: two nodes in one process, a fixed conversation.

Prints microseconds and, because machines and moments differ, the ratio to a reference measured in the same
run: packing and unpacking one bundle header.

    .venv/bin/python bench/node.py
"""

import time
from collections.abc import Callable
from itertools import pairwise

from antiphon import config
from antiphon.config import DaemonConfig, LinkConfig, SiteConfig
from antiphon.core.node import Node
from antiphon.service import Service
from antiphon.wire import bundle, frames

BUNDLES = 3_000
STEP_US = 20_000
FORMED_WITHIN_US = 60_000_000


class Pair:
    """Nodes in a chain; a sender at one end, a member of the group at the other."""

    def __init__(self, sites: int, payloads: list[bytes]) -> None:
        self.now_us = STEP_US
        names = [f"s{number}" for number in range(sites)]
        self.nodes = [
            Node(self._config(names), f"d{number}", incarnation=1 + number, now_us=self.now_us)
            for number in range(sites)
        ]
        self.spent_s = [0.0] * sites
        while not all(node.is_quiet and len(node.view.members) == sites for node in self.nodes):
            self._run(1)
            assert self.now_us < FORMED_WITHIN_US, "the nodes do not find each other"
        sender = self.nodes[0].connect(frames.Connect(frames.PROTOCOL_VERSION, "sender"), self.now_us)
        member = self.nodes[-1].connect(frames.Connect(frames.PROTOCOL_VERSION, "member"), self.now_us)
        assert isinstance(sender, frames.Welcome) and isinstance(member, frames.Welcome)
        self.nodes[-1].control(member.session, frames.Join("g"), self.now_us)
        self._run(50)
        area = bundle.names_area(sender.name, ["g"])
        self._session = sender.session
        self._bundle = b"".join(bundle.encode(area, 1, Service.AGREED, payloads))

    @staticmethod
    def _config(names: list[str]) -> config.Config:
        sites = tuple(
            SiteConfig(name, (DaemonConfig(f"d{number}", f"127.0.0.1:{4_000 + number}"),))
            for number, name in enumerate(names)
        )
        links = tuple(LinkConfig(pair) for pair in pairwise(names))
        return config.build(sites, links)

    def send(self) -> None:
        """One bundle from end to end, and everything that follows from it."""
        self._timed(0, lambda: self.nodes[0].submit(self._session, (bytearray(self._bundle),), self.now_us))
        self._exchange()
        self._run(1)

    def _timed(self, number: int, event: Callable[[], None]) -> None:
        began_s = time.perf_counter()
        event()
        self.nodes[number].settle(self.now_us)
        self.spent_s[number] += time.perf_counter() - began_s

    def _exchange(self) -> None:
        while any(node.datagrams for node in self.nodes):
            for node in self.nodes:
                datagrams = node.datagrams[:]
                node.datagrams.clear()
                node.frames.clear()
                for datagram in datagrams:
                    data = memoryview(b"".join(datagram.buffers))
                    stride_bytes, receiver = datagram.stride_bytes, datagram.receiver
                    self._timed(
                        receiver,
                        lambda node=self.nodes[receiver], data=data, size=stride_bytes: node.receive(
                            data, size, self.now_us
                        ),
                    )

    def _run(self, steps: int) -> None:
        for _ in range(steps):
            self.now_us += STEP_US
            for number, node in enumerate(self.nodes):
                self._timed(number, lambda node=node: node.timeout(self.now_us))
            self._exchange()


def reference_s() -> float:
    """The cost of one header packed and unpacked, the smallest thing that is done per bundle."""
    data = bytearray(b"".join(bundle.encode(bundle.names_area("#a#d", ["g"]), 1, Service.AGREED, [b""])))
    began_s = time.perf_counter()
    for _ in range(BUNDLES):
        bundle.stamp(data, bundle.parse(data))
    return (time.perf_counter() - began_s) / BUNDLES


def main() -> None:
    """A table: case, role, microseconds per bundle, ratio to the reference."""
    reference = reference_s()
    print(f"reference: {reference * 1e6:.2f} us for one header")
    print(f"{'case':28} {'role':10} {'us/bundle':>10} {'ratio':>8}")
    cases = [
        ("one message of 100 B", 2, [b"x" * 100]),
        ("577 messages of 100 B", 2, [b"x" * 100] * 577),
        ("58 messages of 1 KB", 2, [b"x" * 1024] * 58),
        ("58 messages, a site between", 3, [b"x" * 1024] * 58),
    ]
    for name, sites, payloads in cases:
        pair = Pair(sites, payloads)
        pair.spent_s = [0.0] * sites
        for _ in range(BUNDLES):
            pair.send()
        roles = ["origin", *["transit"] * (sites - 2), "receiver"]
        for role, spent_s in zip(roles, pair.spent_s, strict=True):
            each_s = spent_s / BUNDLES
            print(f"{name:28} {role:10} {each_s * 1e6:10.1f} {each_s / reference:8.1f}")


if __name__ == "__main__":
    main()
