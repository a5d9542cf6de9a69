"""The bytes of a TCP connection between two daemons: frames, each with a packet, after a greeting.

    offset size  field
     0     4    length         of what follows, at most limits.PACKET_MAX_BYTES; 0: only a sign of life
     4          a packet as it is on UDP, see `packet`

The first frame in each direction is a greeting. The side that has dialled sends its greeting first.

    offset size  field
     0     1    magic          0xA8
     1     1    version        1
     2     1    answer         0: accepted. Otherwise why not, see Answer; the connection ends
     3     1    zero
     4     4    digest         of the configuration
     8     2    sender         daemon number
    10     2    receiver       daemon number
    12     4    incarnation    of the sender's process

Greetings of all versions begin like this, see `versions`.

Where packets are sealed, each side sends a challenge before its greeting, the one that has dialled first, and
a greeting ends in a proof that its sender has the cluster's key:

     0     1    magic          0xAA
     1     1    version        1
     2     1    count          of keys
     3     1    zero
     4    16    nonce          random
    20          count x number of a cluster key (1)

    16     1    key           the number of the one that the proof is made with
    17    32    proof         that follows from the key, from the nonces of the side that has dialled and of
                              the other one, and from the first 16 bytes, see `core.sealing.proofs`

Follows: Spread thesis 4.2 (a length before every message that is written to the connection).
Deviations: the greeting, which the thesis leaves open, and frames without a packet.
"""

from enum import IntEnum
from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import versions

MAGIC = 0xA8
VERSION = 1

_LENGTH = Layout("!I")
LENGTH_BYTES = _LENGTH.size
_GREETING = Layout("!BBBBIHHI")
GREETING_BYTES = _GREETING.size


NONCE_BYTES = 16
PROOF_BYTES = 32
CHALLENGE_MAGIC = 0xAA
_CHALLENGE = Layout("!BBBB16s")
_PROOF = Layout("!B32s")


class Challenge(Struct, frozen=True):
    """What a side of a connection sends before its greeting, where packets are sealed."""

    nonce: bytes
    keys: tuple[int, ...]
    """The numbers of the cluster keys that it has, the one first that it would rather use."""


class Answer(IntEnum):
    """Whether the sender of a greeting accepts the connection, and if not, why."""

    WELCOME = 0
    OTHER_CONFIGURATION = 1
    NOT_A_NEIGHBOUR = 2
    """The side that has dialled is no neighbour, or one that is reached over UDP."""
    CROSSED = 3
    """Both sides have dialled, and the other connection stays."""

    @property
    def words(self) -> str:
        """The answer as text, for logs and counters."""
        return self.name.lower().replace("_", " ")


class Greeting(Struct, frozen=True):
    """The first frame of a connection: the process that sends it, and its answer."""

    digest: int
    sender: int
    receiver: int
    incarnation: int
    answer: Answer = Answer.WELCOME


SIGN_OF_LIFE = _LENGTH.pack(0)
"""A whole frame without a packet."""


def length(size_bytes: int) -> bytes:
    """The length field before a packet of this size."""
    return _LENGTH.pack(size_bytes)


def greeting(said: Greeting) -> bytes:
    """A whole frame with a greeting."""
    return _LENGTH.pack(GREETING_BYTES) + greeting_words(said)


def greeting_words(said: Greeting) -> bytes:
    """A greeting without a length: what a proof vouches for."""
    return _GREETING.pack(
        MAGIC, VERSION, said.answer, 0, said.digest, said.sender, said.receiver, said.incarnation
    )


def proven_greeting(words: bytes, key: int, proof: bytes) -> bytes:
    """A whole frame with a greeting and its proof."""
    return _LENGTH.pack(GREETING_BYTES + _PROOF.size) + words + _PROOF.pack(key, proof)


def split_proof(body: memoryview) -> tuple[memoryview, int, bytes]:
    """The greeting in a frame, the key of its proof and the proof; BadPacket if it has none."""
    if len(body) != GREETING_BYTES + _PROOF.size:
        versions.check(body, "greeting", MAGIC, VERSION)
        raise BadPacket("greeting: without a proof")
    key, proof = _PROOF.unpack_from(body, GREETING_BYTES)
    return body[:GREETING_BYTES], key, proof


def challenge(said: Challenge) -> bytes:
    """A whole frame with a challenge."""
    keys = bytes(said.keys)
    start = _CHALLENGE.pack(CHALLENGE_MAGIC, VERSION, len(keys), 0, said.nonce)
    return _LENGTH.pack(len(start) + len(keys)) + start + keys


def parse_challenge(body: memoryview) -> Challenge:
    """The challenge in a frame; BadPacket with a reason otherwise."""
    versions.check(body, "greeting", MAGIC, VERSION)
    if len(body) < _CHALLENGE.size:
        raise BadPacket("challenge: too short")
    magic, version, count, _zero, nonce = _CHALLENGE.unpack_from(body)
    if magic != CHALLENGE_MAGIC or version != VERSION:
        raise BadPacket("challenge: not ours")
    keys = tuple(body[_CHALLENGE.size :])
    if len(keys) != count or not 0 < count <= limits.CLUSTER_KEYS_MAX:
        raise BadPacket("challenge: wrong size")
    return Challenge(nonce, keys)


def parse_greeting(body: memoryview) -> Greeting:
    """The greeting in a frame; BadPacket with a reason otherwise."""
    versions.check(body, "greeting", MAGIC, VERSION)
    if len(body) != GREETING_BYTES:
        raise BadPacket("greeting: wrong size")
    magic, _version, answer, _zero, digest, sender, receiver, incarnation = _GREETING.unpack(body)
    if magic != MAGIC:
        raise BadPacket("greeting: not ours")
    if answer > max(Answer):
        raise BadPacket("greeting: unknown answer")
    return Greeting(digest, sender, receiver, incarnation, Answer(answer))


def split(data: memoryview, longest_bytes: int = limits.PACKET_MAX_BYTES) -> tuple[list[memoryview], int]:
    """The bodies of the frames that are whole, but for empty ones, and how many bytes of `data` they took.

    BadPacket if a frame is longer than `longest_bytes`: there is no way to find the next one then.
    """
    whole: list[memoryview] = []
    at, end = 0, len(data)
    while end - at >= LENGTH_BYTES:
        (size,) = _LENGTH.unpack_from(data, at)
        if size > longest_bytes:
            raise BadPacket("frame: too long")
        if at + LENGTH_BYTES + size > end:
            break
        at += LENGTH_BYTES
        if size:
            whole.append(data[at : at + size])
        at += size
    return whole, at
