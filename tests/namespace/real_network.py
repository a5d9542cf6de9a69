"""The network of a run on real sockets as the simulator's stage sees it: every word goes to the switch."""

import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path as FilePath

import msgspec
from switch import CARRIES_MULTICASTS, AnyCommand, Block, Count, Counts, Heal, Recover, Split, Suffer, Unblock
from wires import Wire

from antiphon.simulator.network import AnyFault, Network, Pair, Path
from antiphon.simulator.plan import Plan

_SWITCH = FilePath(__file__).with_name("switch.py")
ANSWER_MAX_BYTES = 1 << 20
PATIENCE_S = 30.0
"""Only to keep a run from hanging when the switch has failed."""


class RealPath(Path):
    """Knows whether it is open, and carries nothing itself."""

    def __init__(self, plain: Path, pair: Pair, tell: Callable[[AnyCommand], None]) -> None:
        self.__dict__.update(plain.__dict__)
        self._pair = pair
        self._tell = tell

    def suffer(self, fault: AnyFault) -> None:
        """Also on the wire."""
        super().suffer(fault)
        self._tell(Suffer(self._pair, fault))

    def recover(self, fault: AnyFault) -> None:
        """Also on the wire."""
        super().recover(fault)
        self._tell(Recover(self._pair, fault))


class RealNetwork(Network):
    """Says what the switch is to do, and remembers it for the questions that are asked of a network."""

    def __init__(
        self, plan: Plan, wires: list[Wire], plan_file: FilePath, *, has_multicast: bool = True
    ) -> None:
        """Without `has_multicast` none gets through."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._commands = ours
        self._commands.settimeout(PATIENCE_S)
        ends = [wire.end for wire in wires]
        kind = CARRIES_MULTICASTS if has_multicast else "plain"
        words = [sys.executable, str(_SWITCH), str(plan_file), kind, str(theirs.fileno()), *map(str, ends)]
        self._process = subprocess.Popen(words, pass_fds=[theirs.fileno(), *ends], stdin=subprocess.DEVNULL)
        theirs.close()
        super().__init__({pair: RealPath(path, pair, self._tell) for pair, path in plan.paths().items()})

    def _tell(self, command: AnyCommand) -> None:
        self._commands.sendall(msgspec.json.encode(command))

    def block(self, pair: Pair) -> None:
        """Also on the wire."""
        super().block(pair)
        self._tell(Block(pair))

    def unblock(self, pair: Pair) -> None:
        """Also on the wire."""
        super().unblock(pair)
        self._tell(Unblock(pair))

    def split(self, parts: Iterable[Collection[int]]) -> None:
        """Also on the wire."""
        known = tuple(tuple(part) for part in parts)
        super().split(known)
        self._tell(Split(known))

    def heal(self) -> None:
        """Also on the wire, where it has taken effect on return."""
        super().heal()
        self._tell(Heal())
        self.count()

    def count(self) -> None:
        """Learn from the switch how many packets each path has seen."""
        self._tell(Count())
        answer = msgspec.json.decode(self._commands.recv(ANSWER_MAX_BYTES), type=Counts)
        for pair, sent, lost, duplicated in answer.paths:
            path = self.paths[pair]
            path.sent, path.lost, path.duplicated = sent, lost, duplicated

    def close(self) -> None:
        """No network any more."""
        self._commands.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
