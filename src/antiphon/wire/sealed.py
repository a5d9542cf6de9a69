"""Sealed packets: what stands in their seal byte, and how processes introduce themselves.

A sealed packet has the head of every packet (see `packet`), in clear, and then its body, encrypted, with a
tag of 16 bytes that vouches for head and body. The seal byte says with what:

    bit  7     suite          0: AES-256-GCM, 1: ChaCha20-Poly1305; what is faster at the sender
    bits 0-6   key            number of the cluster key, 1 to 126

The nonce is the counter in the head, 12 bytes with zeros before it. The key is that of the sending process:
HKDF-SHA-256 of the cluster key, with the process's salt as salt, and as info the words "antiphon packets",
the suite (1), daemon (2) and incarnation (4).

An INTRODUCTION tells the salt, so its body begins with that in clear, and the tag vouches for it, too:

    offset size  field
     0    16     salt           of the sending process, random
    16           sealed:
     0    16     challenge      random, to be echoed by the receiver's introduction; zeros: none
    16    16     echo           the challenge that is answered; zeros: none
    32     1     count          of keys
    33           count x key (1): the numbers of the cluster keys that the sender has

Follows no paper: the papers trust every packet.
Checked by: tests/unit/test_sealing.py.
"""

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket

SALT_BYTES = 16
CHALLENGE_BYTES = 16
KEY_NUMBER_MAX = 126
CHACHA = 0x80
"""The bit of the suite."""
NO_CHALLENGE = bytes(CHALLENGE_BYTES)
_COUNT_AT = 2 * CHALLENGE_BYTES


class Introduction(Struct, frozen=True):
    """What a process tells of itself."""

    challenge: bytes
    echo: bytes
    keys: frozenset[int]
    """The numbers of the cluster keys that it has."""


def encode(introduction: Introduction) -> bytes:
    """The part of an INTRODUCTION that is sealed."""
    keys = bytes(sorted(introduction.keys))
    return introduction.challenge + introduction.echo + bytes((len(keys),)) + keys


def parse(body: bytes) -> Introduction:
    """What stands in the sealed part of an INTRODUCTION; BadPacket otherwise."""
    if len(body) <= _COUNT_AT or len(body) != _COUNT_AT + 1 + body[_COUNT_AT]:
        raise BadPacket("introduction: wrong size")
    keys = body[_COUNT_AT + 1 :]
    if not 0 < len(keys) <= limits.CLUSTER_KEYS_MAX or not all(0 < key <= KEY_NUMBER_MAX for key in keys):
        raise BadPacket("introduction: impossible keys")
    return Introduction(body[:CHALLENGE_BYTES], body[CHALLENGE_BYTES:_COUNT_AT], frozenset(keys))
