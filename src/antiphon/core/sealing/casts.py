"""Packets of casts, sealed with a key that a coordinator makes and tells its edges over their connections.

    offset size  field
     0    12    head       of the plain packet (`wire.casts`)
    12    16    salt       of the sending process, random
    28     8    counter    of what that process seals, from 1
    36          the rest of the plain packet, encrypted (AES-256-GCM), and a tag of 16 bytes; the nonce is
                four zeros and the counter, the bytes before it are vouched for, too

The key is HKDF-SHA-256 of the cast's key, with the salt, and the info "antiphon cast". All edges that hear a
cast have its key: the seal keeps strangers out, not one edge from another. A stranger who sends a recorded
packet again repeats what edges repeat anyway: pieces have numbers, and repairs are rate-limited.
"""

from collections.abc import Callable
from itertools import count
from struct import Struct as Layout

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antiphon.core.sealing.keys import SECRET_BYTES, Open
from antiphon.errors import BadPacket
from antiphon.wire import casts, edges, sealed

_ADDED = Layout(f"!{sealed.SALT_BYTES}sQ")
_SEALED_AT = casts.HEAD_BYTES + _ADDED.size
_TAG_BYTES = 16
_ZEROS = bytes(4)
PACKET_MAX_BYTES = casts.PACKET_MAX_BYTES + _ADDED.size + _TAG_BYTES
SENDERS_MAX = 1_024
"""Processes whose keys are known for one cast; when there are more, the one heard first is forgotten."""


class CastSealing:
    """What one process needs to seal packets of casts: a salt that no other has, and a counter for all."""

    def __init__(self, chance: Callable[[int], bytes]) -> None:
        """`chance` gives so many random bytes that nobody can guess."""
        self._chance = chance
        self._salt = chance(sealed.SALT_BYTES)
        self._counter = count(1)

    def announce(self, place: str) -> edges.Cast:
        """A new cast, which nobody else has."""
        stream = int.from_bytes(self._chance(8), "big")
        return edges.Cast(place, max(1, stream), self._chance(SECRET_BYTES))

    def seal(self, cast: edges.Cast) -> "CastSeal":
        """What seals and opens the packets of a cast."""
        return CastSeal(cast.key, self._salt, self._counter)


class CastSeal:
    """Seals and opens the packets of one cast."""

    def __init__(self, key: bytes, salt: bytes, counter: "count[int]") -> None:
        assert len(key) == SECRET_BYTES
        self._key = key
        self._salt = salt
        self._counter = counter
        self._encrypt = self._cipher(salt).encrypt
        self._openers: dict[bytes, Open] = {}

    def encode(self, packet: casts.Packet) -> bytes:
        """The packet as bytes, sealed."""
        plain = casts.encode(packet)
        head = plain[: casts.HEAD_BYTES] + _ADDED.pack(self._salt, next(self._counter))
        return head + self._encrypt(_ZEROS + head[-8:], plain[casts.HEAD_BYTES :], head)

    def decode(self, data: bytes | memoryview) -> casts.Packet:
        """The packet in a datagram; BadPacket if there is none."""
        if not _SEALED_AT + _TAG_BYTES <= len(data) <= PACKET_MAX_BYTES:
            raise BadPacket("cast: impossible length")
        head = bytes(data[:_SEALED_AT])
        salt = head[casts.HEAD_BYTES : -8]
        opener = self._openers.get(salt) or self._cipher(salt).decrypt
        try:
            body = opener(_ZEROS + head[-8:], data[_SEALED_AT:], head)
        except InvalidTag:
            raise BadPacket("cast: not genuine") from None
        if salt not in self._openers:
            if len(self._openers) >= SENDERS_MAX:
                del self._openers[next(iter(self._openers))]
            self._openers[salt] = opener
        return casts.decode(head[: casts.HEAD_BYTES] + body)

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(HKDF(SHA256(), SECRET_BYTES, salt, b"antiphon cast").derive(self._key))
