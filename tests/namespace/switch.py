"""The network between namespaces: a process that reads every wire and carries packets to the others.

Between two wires lies a `Path` of the simulator, so a packet of a real kernel meets the same faults, drawn by
the same code, as one in virtual time. Everything that a daemon's kernel sends counts, also its word that
nobody listens at a port. A multicast goes to the other daemons of its sender's site, over the path to each;
or nowhere, as in networks that do not carry them.
"""

import os
import socket
import sys
from heapq import heappop, heappush
from pathlib import Path as FilePath

import msgspec
from msgspec import Struct
from wires import daemon_at

from antiphon.runtime.loop import READABLE, Loop, now_us
from antiphon.simulator import plan as plans
from antiphon.simulator.network import AnyFault, Network, Pair
from antiphon.simulator.plan import Plan

PACKETS_PER_TURN = 64
PACKET_MAX_BYTES = 65_536
COMMAND_MAX_BYTES = 65_536
CARRIES_MULTICASTS = "multicasts"
MULTICAST = 224
"""The least first byte of the address of a group."""
_UDP = 17

Mates = dict[int, tuple[int, ...]]
"""By daemon, those who get its multicasts."""


class Command(Struct, frozen=True, tag_field="do", tag=str.lower):
    """What can be done to the network from outside."""


class Block(Command, frozen=True):
    """As `Network.block`."""

    pair: Pair


class Unblock(Command, frozen=True):
    """As `Network.unblock`."""

    pair: Pair


class Split(Command, frozen=True):
    """As `Network.split`."""

    parts: tuple[tuple[int, ...], ...]


class Heal(Command, frozen=True):
    """As `Network.heal`."""


class Suffer(Command, frozen=True):
    """As `Path.suffer`."""

    pair: Pair
    fault: AnyFault


class Recover(Command, frozen=True):
    """As `Path.recover`."""

    pair: Pair
    fault: AnyFault


class Count(Command, frozen=True):
    """Is answered with `Counts`; everything asked for before has taken effect then."""


AnyCommand = Block | Unblock | Split | Heal | Suffer | Recover | Count


class Counts(Struct, frozen=True):
    """What was sent, lost and duplicated on each path."""

    paths: list[tuple[Pair, int, int, int]]


class Switch:
    """Carries packets until the one who commands it is gone."""

    def __init__(
        self, network: Network, ends: list[int], commands: socket.socket, mates: Mates | None = None
    ) -> None:
        self._network = network
        self._mates = mates or {}
        self._ends = ends
        self._commands = commands
        self._under_way: list[tuple[int, int, int, bytes]] = []
        """When, in which order, to whom, what."""
        self._serial = 0
        self._is_over = False
        self._decode = msgspec.json.Decoder(AnyCommand).decode

    def run(self) -> None:
        """Returns at the end of the connection."""
        loop = Loop()
        for sender, end in enumerate(self._ends):
            loop.register(end, lambda _events, sender=sender: self._read(sender), READABLE)  # type: ignore[misc]
        loop.register(self._commands.fileno(), lambda _events: self._obey(), READABLE)
        while not self._is_over:
            loop.turn(self._under_way[0][0] if self._under_way else None)
            self._hand_over()

    def _read(self, sender: int) -> None:
        end = self._ends[sender]
        for _ in range(PACKETS_PER_TURN):
            try:
                packet = os.read(end, PACKET_MAX_BYTES)
            except BlockingIOError:
                return
            if packet[0] >> 4 == 4:  # version 6 has only rumours about routers to tell
                self._carry(sender, packet)

    def _carry(self, sender: int, packet: bytes) -> None:
        receivers: tuple[int, ...] = (daemon_at(packet[16:20]),)
        if packet[16] >= MULTICAST:  # some are for routers, which there are none of
            receivers = self._mates.get(sender, ()) if packet[9] == _UDP else ()
        for receiver in receivers:
            for time_us, data, _ in self._network.carry((sender, receiver), packet, len(packet), now_us()):
                self._serial += 1
                heappush(self._under_way, (time_us, self._serial, receiver, data))

    def _hand_over(self) -> None:
        now = now_us()
        while self._under_way and self._under_way[0][0] <= now:
            _, _, receiver, packet = heappop(self._under_way)
            os.write(self._ends[receiver], packet)

    def _obey(self) -> None:
        data = self._commands.recv(COMMAND_MAX_BYTES)
        if not data:
            self._is_over = True
            return
        network = self._network
        command = self._decode(data)
        match command:
            case Block():
                network.block(command.pair)
            case Unblock():
                network.unblock(command.pair)
            case Split():
                network.split(command.parts)
            case Heal():
                network.heal()
            case Suffer():
                network.paths[command.pair].suffer(command.fault)
            case Recover():
                network.paths[command.pair].recover(command.fault)
            case Count():
                paths = network.paths.items()
                counts = Counts([(pair, path.sent, path.lost, path.duplicated) for pair, path in paths])
                self._commands.sendall(msgspec.json.encode(counts))


def mates_in(plan: Plan) -> Mates:
    """The other daemons of each one's site."""
    numbers = iter(range(len(plan.daemons())))
    sites = [[next(numbers) for _ in site.daemons] for site in plan.sites]
    return {
        daemon: tuple(mate for mate in members if mate != daemon) for members in sites for daemon in members
    }


def main() -> None:
    """With a plan's file, whether multicasts get through, the descriptor for commands and those of the wires,
    in the order of daemons."""
    plan = plans.read(FilePath(sys.argv[1]))
    mates = mates_in(plan) if sys.argv[2] == CARRIES_MULTICASTS else None
    commands = socket.socket(fileno=int(sys.argv[3]))
    Switch(Network(plan.paths()), [int(end) for end in sys.argv[4:]], commands, mates).run()


if __name__ == "__main__":
    main()
