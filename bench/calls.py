"""How many Python functions a bundle calls on its way: a cost that repeats exactly on any machine.

    .venv/bin/python bench/calls.py [--top 20]

One session sends agreed messages of 100 B, every one a bundle of its own, through nodes without sockets to a
member at every other daemon, and all that follows from them is counted, acknowledgements and updates too.
"Light" sends one at a time, "flood" 200 at once. Functions of C are counted apart: most of them are short.
"""

import argparse
import sys
from collections import Counter
from itertools import islice, pairwise
from types import FrameType

from antiphon import config
from antiphon.config import DaemonConfig, LinkConfig, SiteConfig
from antiphon.core.node import Node
from antiphon.service import Service
from antiphon.wire import bundle, frames

BUNDLES = 2_000
HOP_US = 50
PAUSE_US = 300
FORMED_WITHIN_US = 60_000_000

CASES = {
    "light, one daemon": ([1], 1),
    "light, two daemons": ([1, 1], 1),
    "flood, two daemons": ([1, 1], 200),
    "flood, ring of three": ([3], 200),
}
"""Daemons of each site, and how many bundles are sent at once."""


class Cluster:
    """Nodes in a chain of sites; a sender at the first of them, members of the group at all others."""

    def __init__(self, sites: list[int]) -> None:
        self.now_us = HOP_US
        self.delivered = 0
        """How many bundles were given to members."""
        numbers = iter(range(sum(sites)))
        layout = tuple(
            SiteConfig(
                f"s{site}",
                tuple(DaemonConfig(f"d{n}", f"127.0.0.1:{4_000 + n}") for n in islice(numbers, size)),
            )
            for site, size in enumerate(sites)
        )
        links = tuple(LinkConfig(pair) for pair in pairwise(site.name for site in layout))
        built = config.build(layout, links)
        self.nodes = [
            Node(built, name, incarnation=1 + number, now_us=self.now_us)
            for number, name in enumerate(built.daemon_names)
        ]
        while not all(node.is_quiet and len(node.view.members) == len(self.nodes) for node in self.nodes):
            self._pass_time()
            assert self.now_us < FORMED_WITHIN_US, "the nodes do not find each other"
        sender = self.nodes[0].connect(frames.Connect(frames.PROTOCOL_VERSION, "sender"), self.now_us)
        assert isinstance(sender, frames.Welcome)
        for node in self.nodes[1:] or self.nodes:
            member = node.connect(frames.Connect(frames.PROTOCOL_VERSION, "member"), self.now_us)
            assert isinstance(member, frames.Welcome)
            node.control(member.session, frames.Join("g"), self.now_us)
            self._settle(node)
        self._session = sender.session
        area = bundle.names_area(sender.name, ["g"])
        # Every other one has another tag, so that the daemon does not gather them.
        self._bundles = [
            b"".join(bundle.encode(area, 1, Service.AGREED, [b"x" * 100], tag=tag)) for tag in (0, 1)
        ]
        while not all(node.is_quiet for node in self.nodes):
            self._pass_time()

    def send(self, count: int) -> None:
        """So many bundles at once, until they are known to be everywhere."""
        first = self.nodes[0]
        for number in range(count):
            first.submit(self._session, [bytearray(self._bundles[number % 2])], self.now_us)
        self._settle(first)
        self._exchange()
        while first.order.own_unstable_bytes or first.sessions.waiting:
            self._pass_time()
        self.now_us += PAUSE_US

    def _pass_time(self) -> None:
        """Until the next deadline, and what is due then."""
        deadlines = [node.next_deadline_us() or 0 for node in self.nodes]
        self.now_us = max(self.now_us + HOP_US, min(deadlines))
        for node, deadline_us in zip(self.nodes, deadlines, strict=True):
            if deadline_us <= self.now_us:
                node.timeout(self.now_us)
            self._settle(node)
        self._exchange()

    def _settle(self, node: Node) -> None:
        """The end of a turn of a driver."""
        while not node.is_settled:
            node.settle(self.now_us)
        node.next_deadline_us()
        self.delivered += sum(header is not None for _, _, header in node.frames)
        node.frames.clear()

    def _exchange(self) -> None:
        while any(node.datagrams for node in self.nodes):
            self.now_us += HOP_US
            for node in self.nodes:
                datagrams = node.datagrams[:]
                node.datagrams.clear()
                receivers: dict[int, None] = {}
                for datagram in datagrams:
                    data = memoryview(b"".join(datagram.buffers))
                    for receiver in datagram.receivers or (datagram.receiver,):
                        receivers[receiver] = None
                        self.nodes[receiver].receive(data, datagram.stride_bytes, self.now_us)
                for receiver in receivers:
                    self._settle(self.nodes[receiver])


def count(cluster: Cluster, at_once: int) -> tuple[Counter[str], Counter[str]]:
    """How often each function of ours, and each of C, is called while the bundles pass."""
    ours: Counter[str] = Counter()
    others: Counter[str] = Counter()

    def note(frame: FrameType, event: str, function: object) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            ours[f"{frame.f_code.co_filename.rpartition('antiphon/')[2]} {frame.f_code.co_qualname}"] += 1
        elif event == "c_call":
            others[getattr(function, "__qualname__", "")] += 1

    cluster.send(at_once)
    cluster.delivered = 0
    sys.setprofile(note)
    for _ in range(BUNDLES // at_once):
        cluster.send(at_once)
    sys.setprofile(None)
    assert cluster.delivered == BUNDLES * max(1, len(cluster.nodes) - 1)
    return ours, others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--top", type=int, default=0, help="name the functions that are called most")
    wanted = parser.parse_args()
    print(f"{'case':24} {'Python':>8} {'C':>8}   calls per bundle")
    for name, (sites, at_once) in CASES.items():
        ours, others = count(Cluster(sites), at_once)
        print(f"{name:24} {ours.total() / BUNDLES:8.1f} {others.total() / BUNDLES:8.1f}")
        for function, calls in ours.most_common(wanted.top):
            print(f"    {calls / BUNDLES:8.2f}  {function}")


if __name__ == "__main__":
    main()
