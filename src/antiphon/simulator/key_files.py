"""The files with keys on the machines of simulated daemons."""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from antiphon.core.sealing.keys import SECRET_BYTES, ClusterKey, Keys, Suite
from antiphon.core.sealing.seal import Sealing

if TYPE_CHECKING:
    from antiphon.simulator.host import Host


def key_of(number: int) -> ClusterKey:
    """The cluster's key after so many changes: one that can follow the one before it."""
    before = None if not number else key_of(number - 1).number
    chance = Random(f"cluster key {number}")
    while True:
        key = ClusterKey(chance.randbytes(SECRET_BYTES))
        if key.number != before:
            return key


class KeyFiles:
    """Those of one machine: they outlive its daemon."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self.number = 0
        """How often its key has changed."""
        self.has_next = False
        """Whether there is the next one, too."""
        self._lives = 0

    def keys(self) -> Keys:
        """What a daemon reads now."""
        return Keys(key_of(self.number), key_of(self.number + 1) if self.has_next else None)

    def sealing(self, chance: Random) -> Sealing:
        """How a daemon that starts now seals; half of the machines are of those that have a faster way."""
        return Sealing(self.keys(), chance.randbytes, tuple(Suite)[self._host.number % len(Suite)])

    def change(self, step: str) -> None:
        """The next key comes, or takes the place of the one before it, if there is one."""
        if step == "next":
            self.has_next = True
        elif self.has_next:
            self.has_next, self.number = False, self.number + 1
        self._host.read_keys()


def settle_keys(hosts: Sequence["Host"]) -> None:
    """Whatever was begun is completed: all machines have the newest key, and no other."""
    newest = max(host.key_files.number + host.key_files.has_next for host in hosts)
    for host in hosts:
        if (host.key_files.number, host.key_files.has_next) != (newest, False):
            host.key_files.number, host.key_files.has_next = newest, False
            host.read_keys()
