"""The processes that have introduced themselves: what opens their packets, and what they are sent."""

from antiphon.core.sealing.keys import Keys, Open, Suite
from antiphon.core.sealing.window import Window
from antiphon.wire import sealed


class Process:
    """One process of another daemon, which has proven that it is there."""

    __slots__ = ("_openers", "daemon", "incarnation", "keys", "salt", "window")

    def __init__(
        self, daemon: int, incarnation: int, salt: bytes, keys: frozenset[int], counter: int
    ) -> None:
        """`counter` is that of the packet with its proof: whatever it sent before that is old."""
        self.daemon = daemon
        self.incarnation = incarnation
        self.salt = salt
        self.keys = keys
        """The numbers of the cluster keys that it has, as it told last."""
        self.window = Window(counter)
        self._openers: dict[int, Open] = {}

    def opener(self, seal: int, keys: Keys) -> Open | None:
        """What opens its packets with this seal byte; None: we do not have the key."""
        found = self._openers.get(seal)
        if found is None:
            found = opener_of(self.daemon, self.incarnation, self.salt, seal, keys)
            if found is not None:
                self._openers[seal] = found
        return found

    def forget_keys(self) -> None:
        """Our cluster keys are others now."""
        self._openers.clear()


def opener_of(daemon: int, incarnation: int, salt: bytes, seal: int, keys: Keys) -> Open | None:
    """What opens the packets of a process with this seal byte; None: we do not have the key."""
    suite = Suite.CHACHA if seal & sealed.CHACHA else Suite.AES_GCM
    key = keys.by_number.get(seal & ~sealed.CHACHA)
    return None if key is None else key.cipher(daemon, incarnation, salt, suite).decrypt
