"""Wide-area paths imitated on one machine: packets held back and lost before they reach the socket.

For demonstrations and tests: a link's `emulate` table (config.Emulation) says how. Each packet of a train
has its own fate, as on a real path. The delay of a packet is `delay_ms` plus an even draw from 0 to
`jitter_ms`, so with jitter packets overtake one another. The draws come from one seeded generator per path:
the same packets in the same order meet the same fate.
"""

import heapq
from collections.abc import Mapping
from random import Random

from antiphon.config import Config, Emulation
from antiphon.core.effects import Datagram

DELAYED_MAX_BYTES = 256 * 1024 * 1024
"""Packets under way on all emulated paths of a daemon; beyond it, as in a full router, the newest is lost."""


class Shaper:
    """Holds the datagrams of emulated paths until they are due."""

    def __init__(self, paths: Mapping[int, Emulation], seed: str) -> None:
        """`paths` maps the number of the receiving daemon to the path that leads to it."""
        self._paths = {receiver: (path, Random(f"{seed}/{receiver}")) for receiver, path in paths.items()}
        self._delayed: list[tuple[int, int, Datagram]] = []
        self._order = 0
        self._delayed_bytes = 0
        self.lost = 0
        """Packets lost on purpose."""
        self.overflowed = 0
        """Packets lost because too many were under way."""

    def take(self, datagram: Datagram, now_us: int) -> bool:
        """Hold the datagram if its path is emulated; False if it should go out as it is."""
        found = self._paths.get(datagram.receiver)
        if found is None:
            return False
        path, chance = found
        packets = [packet for packet in _packets(datagram) if chance.random() >= path.loss]
        self.lost += -(-datagram.size_bytes // datagram.stride_bytes) - len(packets)
        due_us = now_us + round(path.delay_ms * 1_000)
        if path.jitter_ms:
            for packet in packets:
                self._delay(datagram, [packet], due_us + round(chance.uniform(0, path.jitter_ms) * 1_000))
        elif packets:
            self._delay(datagram, packets, due_us)
        return True

    def _delay(self, datagram: Datagram, packets: list[bytes | memoryview], due_us: int) -> None:
        """The packets that survive are a train again: all but the last have the same size."""
        size_bytes = sum(map(len, packets))
        if self._delayed_bytes + size_bytes > DELAYED_MAX_BYTES:
            self.overflowed += len(packets)
            return
        self._delayed_bytes += size_bytes
        self._order += 1
        train = Datagram(
            datagram.receiver, packets, datagram.stride_bytes, size_bytes, is_whole=datagram.is_whole
        )
        heapq.heappush(self._delayed, (due_us, self._order, train))

    def next_due_us(self) -> int | None:
        return self._delayed[0][0] if self._delayed else None

    def due(self, now_us: int) -> list[Datagram]:
        """The datagrams whose time has come, in the order of their arrival."""
        arrived = []
        while self._delayed and self._delayed[0][0] <= now_us:
            datagram = heapq.heappop(self._delayed)[2]
            self._delayed_bytes -= datagram.size_bytes
            arrived.append(datagram)
        return arrived


def _packets(datagram: Datagram) -> list[bytes | memoryview]:
    train = memoryview(b"".join(datagram.buffers))
    step = datagram.stride_bytes
    return [train[at : at + step] for at in range(0, datagram.size_bytes, step)]


def emulated_paths(config: Config, name: str) -> dict[int, Emulation]:
    """The emulated paths that start at the daemon called `name`, by the number of the daemon they lead to;
    those inside its site are as they are."""
    me = config.daemon_number(name)
    paths = {number: config.link_between(me, number).emulate for number in config.neighbours_of(me)}
    return {number: path for number, path in paths.items() if path is not None}
