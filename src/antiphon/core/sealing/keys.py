"""The keys: one secret that all daemons of a cluster share, and from it one for each sending process.

The secret is 32 random bytes. Two of them may be in use at a time, while the second takes the place of the
first. Which one seals a packet stands in the packet as a number that follows from the secret.

No value here shows a secret when it is printed.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct as Layout

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antiphon.errors import ConfigError
from antiphon.wire import sealed

SECRET_BYTES = 32

Seal = Callable[[bytes, bytes | memoryview, bytes], bytes]
"""Given a nonce, a body and what stands in clear before it: the body sealed."""
Open = Callable[[bytes, bytes | memoryview, bytes | memoryview], bytes]
"""Given a nonce, a sealed body and what stands in clear before it: the body; InvalidTag otherwise."""

_PROCESS = Layout("!BHI")


class Suite(IntEnum):
    """How packets are sealed; each sender chooses, and its packets say so."""

    AES_GCM = 0
    CHACHA = sealed.CHACHA

    @property
    def label(self) -> str:
        """For people."""
        return "AES-256-GCM" if self is Suite.AES_GCM else "ChaCha20-Poly1305"


class ClusterKey:
    """One secret of a cluster."""

    __slots__ = ("_secret", "name", "number")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ConfigError(f"a cluster key has {SECRET_BYTES} bytes, not {len(secret)}")
        self._secret = secret
        named = self._derive(b"", b"antiphon key name", 5)
        self.number = 1 + named[0] % sealed.KEY_NUMBER_MAX
        """Stands in packets."""
        self.name = named[1:].hex()
        """For people: says nothing of the secret."""

    def __repr__(self) -> str:
        return f"<cluster key {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterKey) and self._secret == other._secret

    def __hash__(self) -> int:
        return hash(self.name)

    def _derive(self, salt: bytes, info: bytes, size: int) -> bytes:
        return HKDF(SHA256(), size, salt, info).derive(self._secret)

    def cipher(self, daemon: int, incarnation: int, salt: bytes, suite: Suite) -> AESGCM | ChaCha20Poly1305:
        """What seals and opens the packets of one process."""
        info = b"antiphon packets" + _PROCESS.pack(suite, daemon, incarnation)
        key = self._derive(salt, info, SECRET_BYTES)
        return AESGCM(key) if suite is Suite.AES_GCM else ChaCha20Poly1305(key)

    def beacons(self, salt: bytes) -> AESGCM:
        """What seals and opens the beacons of the process with this salt."""
        return AESGCM(self._derive(salt, b"antiphon discovery", SECRET_BYTES))

    def proof(self, first: bytes, second: bytes, info: bytes) -> bytes:
        """What shows that somebody knows the key, who has seen both of these random values."""
        return self._derive(first + second, b"antiphon proof" + info, SECRET_BYTES)


class Keys:
    """The keys that a daemon has: the one in use and, while keys change, the one that is to follow it."""

    def __init__(self, current: ClusterKey, following: ClusterKey | None = None) -> None:
        if following == current:
            following = None
        if following is not None and following.number == current.number:
            raise ConfigError(
                "the next key cannot follow this one, which happens to one key in 126: make another one with "
                "`antiphon config keygen`"
            )
        self.current = current
        self.following = following
        self.by_number = {key.number: key for key in (current, following) if key is not None}

    @property
    def preferred(self) -> tuple[ClusterKey, ...]:
        """All, the one first that is used where the receiver has it."""
        return (self.current,) if self.following is None else (self.following, self.current)

    def __repr__(self) -> str:
        return f"<keys {', '.join(key.name for key in self.preferred)}>"
