"""What the two ends of a connection prove to each other before it counts: that they have the cluster's key.

Each end sends a random value first, and its greeting then bears a proof that follows from the key, from both
values, from who says it, and from the greeting. So nothing that was recorded of another connection proves
anything. What travels afterwards are packets, each with its seal.
"""

from collections.abc import Callable
from typing import Protocol

from cryptography.hazmat.primitives.constant_time import bytes_eq

from antiphon.core.sealing.keys import Keys
from antiphon.wire import streams


class KeyHolder(Protocol):
    """The door, as proofs see it."""

    keys: Keys


class Proofs:
    """Those of one process."""

    def __init__(self, door: KeyHolder, chance: Callable[[int], bytes]) -> None:
        self._door = door
        self._chance = chance

    def challenge(self) -> streams.Challenge:
        """A new one, with the numbers of our keys, the one first that we would rather use."""
        keys = tuple(key.number for key in self._door.keys.preferred)
        return streams.Challenge(self._chance(streams.NONCE_BYTES), keys)

    def shared(self, told: tuple[int, ...]) -> int | None:
        """The key to prove with to an end that has these; None: we have none of them."""
        return next((key.number for key in self._door.keys.preferred if key.number in told), None)

    def proof(self, number: int, dialler: bytes, acceptor: bytes, said: bytes) -> bytes:
        """The proof of a greeting, given the random values of both ends, with the key of this number, which
        is one of ours."""
        return self._door.keys.by_number[number].proof(dialler, acceptor, said)

    def is_proof(self, number: int, dialler: bytes, acceptor: bytes, said: bytes, proof: bytes) -> bool:
        """Whether an end that has the key of this number has said this."""
        if number not in self._door.keys.by_number:
            return False
        return bytes_eq(self.proof(number, dialler, acceptor, said), proof)
