"""Beacons of clusters without a file, sealed: who has no key makes none, and reads none.

    offset size  field
     0     1    magic          0xA9
     1     1    version        1
     2     1    kind           1: a beacon
     3     1    key            number of the cluster key
     4    16    salt           of the sending process, random
    20     8    counter        of its beacons, from 1
    28          a whole plain beacon, encrypted (AES-256-GCM), and a tag of 16 bytes; the nonce is four zeros
                and the counter, the bytes before it are vouched for, too

The key is HKDF-SHA-256 of the cluster key, with the salt, and the info "antiphon discovery". Of each process
beacons count only in the order of their counters. A process is not asked whether it is there: beacons that
were recorded in its life count once more when it is forgotten, see docs/explanation/security.md.
"""

from collections.abc import Callable
from struct import Struct as Layout

from cryptography.exceptions import InvalidTag

from antiphon.core.sealing.keys import Keys, Open, Seal
from antiphon.errors import BadPacket
from antiphon.wire import discovery, sealed

_HEAD = Layout("!BBBB16sQ")
HEAD_BYTES = _HEAD.size
GROWS_BYTES = HEAD_BYTES + 16
_ZEROS = bytes(4)
SENDERS_MAX = 4 * discovery.LISTED_MAX
"""Processes whose counters are known; when there are more, the one that was heard first is forgotten."""


class Beacons:
    """Seals and opens the beacons of one process."""

    def __init__(self, keys: Keys, chance: Callable[[int], bytes]) -> None:
        self.keys = keys
        self._salt = chance(sealed.SALT_BYTES)
        self._counter = 0
        self._seals: dict[int, Seal] = {}
        self._heard: dict[bytes, tuple[int, Open, int]] = {}  # by salt: key, what opens, newest counter

    def seal(self, plain: bytes) -> bytes:
        """A beacon as it is sent."""
        key = self.keys.current
        seal = self._seals.get(key.number)
        if seal is None:
            seal = self._seals[key.number] = key.beacons(self._salt).encrypt
        self._counter += 1
        head = _HEAD.pack(
            discovery.MAGIC, discovery.VERSION, discovery.Kind.BEACON, key.number, self._salt, self._counter
        )
        return head + seal(_ZEROS + head[-8:], plain, head)

    def open(self, data: bytes) -> bytes:
        """The plain beacon that was sealed; BadPacket with a reason otherwise."""
        if len(data) < GROWS_BYTES or not data[3]:
            raise BadPacket("discovery: a beacon that is not sealed")
        _, _, _, number, salt, counter = _HEAD.unpack_from(data)
        known_number, opener, newest = self._heard.get(salt, (0, None, 0))
        if known_number != number or opener is None:
            key = self.keys.by_number.get(number)
            if key is None:
                raise BadPacket("discovery: sealed with a key that is not ours")
            opener = key.beacons(salt).decrypt
        if counter <= newest and salt != self._salt:  # our own comes back, by more than one way
            raise BadPacket("discovery: a beacon that came before")
        try:
            plain = opener(_ZEROS + data[20:HEAD_BYTES], data[HEAD_BYTES:], data[:HEAD_BYTES])
        except InvalidTag:
            raise BadPacket("discovery: a beacon that is not genuine") from None
        while len(self._heard) >= SENDERS_MAX and salt not in self._heard:
            del self._heard[next(iter(self._heard))]
        self._heard[salt] = (number, opener, counter)
        return plain
