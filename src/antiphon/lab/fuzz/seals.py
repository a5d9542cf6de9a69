"""What a tapped daemon of a sealed cluster sends beside its own packets, as one of two attackers.

A *member* has the key, and sends what no daemon should: mutants of what the daemon is about to seal, sealed
as its own packets are, with counters that have not been used. A *stranger* has no key, and sends mutants of
what has been sealed: changed, cut, come again, or to somebody else.
"""

from collections import deque
from collections.abc import Callable
from random import Random

from antiphon.core.effects import Datagram
from antiphon.core.node import Node
from antiphon.lab.fuzz import packets
from antiphon.lab.fuzz.mutate import Mutant, mutate_bytes
from antiphon.wire import streams
from antiphon.wire.packet import CHECK_BYTES, HEAD_BYTES, SEAL_AT, TO_BE_SEALED
from antiphon.wire.streams import NONCE_BYTES, Challenge

KEPT = 512
"""Sealed packets that may be sent again, or changed."""
STALE = 0.02
"""The share of a member's mutants whose counters were used before. None is ahead of the daemon's own: whoever
got one would take nothing more of it that has a smaller one, so that the daemon would silence itself."""
SALT_BYTES = 16
_COUNTER = slice(24, 32)


class Seals:
    """Taps the door of a sealed node: what comes to it plain, and what leaves it."""

    def __init__(self, node: Node, saw: Callable[[Datagram], None]) -> None:
        """`saw` hears of each datagram as it was before it was sealed."""
        assert node.seal is not None
        self.door = node.seal
        self._saw = saw
        self._seal = node.seal.sealed
        self._outbox = node.datagrams
        self._old: deque[bytes] = deque(maxlen=KEPT)
        node.seal.sealed = self._tapped  # type: ignore[method-assign]

    def _tapped(self, datagram: Datagram) -> Datagram:
        size = datagram.stride_bytes
        first = bytearray(b"".join(datagram.buffers)[:size])
        first[SEAL_AT] = 0
        plain = packets.sealed(bytes(first[:-CHECK_BYTES]))
        self._saw(Datagram(datagram.receiver, [plain], size, datagram.size_bytes, datagram.receivers))
        sealed = self._seal(datagram)
        self._old.append(b"".join(sealed.buffers)[: sealed.stride_bytes])
        return sealed

    def as_member(self, random: Random, receiver: int, mutant: Mutant) -> bytes:
        """A mutant of a plain packet, sealed; empty if it is too short to be."""
        data = bytearray(mutant.data)
        if len(data) < HEAD_BYTES + CHECK_BYTES:
            return b""
        data[SEAL_AT] = TO_BE_SEALED
        fresh = self._outbox.counter.take()
        if random.random() >= STALE or int.from_bytes(data[_COUNTER], "big") > fresh:
            data[_COUNTER] = fresh.to_bytes(8, "big")
        sealed = self._seal(Datagram(receiver, [bytes(data)], len(data), len(data)))
        return b"".join(sealed.buffers)

    def as_stranger(self, random: Random, kind: str) -> Mutant:
        """A mutant of what was sealed; no bytes if nothing was, yet."""
        if not self._old:
            return Mutant(b"", "")
        data = random.choice(self._old)
        if kind == "again":
            return Mutant(data, "sent again")
        if random.random() < 0.5:
            return mutate_bytes(random, data)
        forged = bytearray(data)  # a head with a counter that is still to come
        counter = int.from_bytes(forged[_COUNTER], "big") + random.randrange(1, 10_000)
        forged[_COUNTER] = counter.to_bytes(8, "big")
        return Mutant(bytes(forged), f"counter {counter}")

    def greeting(self, random: Random, genuine: streams.Greeting) -> Mutant:
        """What opens a connection, with a proof that is none; changed, or as it should be but for that."""
        keys = tuple(self.door.keys.by_number)
        said = streams.challenge(Challenge(random.randbytes(NONCE_BYTES), keys))
        words = streams.greeting_words(genuine)
        proof = random.randbytes(len(self.door.proofs.proof(keys[0], b"", b"", words)))
        whole = said + streams.proven_greeting(words, keys[0], proof)
        return Mutant(whole, "a proof that is none") if random.random() < 0.3 else mutate_bytes(random, whole)
