"""What can be read in every version: how packets, and greetings on connections, begin.

    offset size  field
     0     1    magic          0xA7 a packet, 0xA8 a greeting
     1     1    version        of what follows
     2     1    kind           of a packet; of a greeting the answer
     3     1                   of a packet the number of the key that seals it
     4     4    digest         of the configuration
     8     2    sender         daemon number
    10     2    receiver       daemon number, or EVERYBODY: all members of the sender's ring
    12     4    incarnation    of the sender's process

These fields stay where they are in all versions to come, so that a daemon can name a daemon that speaks
another version. Greetings of any version have at most GREETING_MAX_BYTES.

The papers leave layouts and versions open.
"""

from struct import Struct as Layout

from antiphon.errors import BadPacket

_BEGINNING = Layout("!BBBBIHHI")
BEGINNING_BYTES = _BEGINNING.size
assert BEGINNING_BYTES == 16
GREETING_MAX_BYTES = 64

_KIND_AT = 2
_SENDER = Layout("!H")
_SENDER_AT = 8


class OtherVersion(BadPacket):
    """Something that begins as ours and has another version."""

    def __init__(self, data: bytes | memoryview, what: str, ours: int) -> None:
        """`what` is "packet" or "greeting"; `data` has the beginning at least."""
        super().__init__(f"{what}: unknown version")
        _, self.version, _, _, self.digest, self.sender, self.receiver, _ = _BEGINNING.unpack_from(data)
        self.what = what
        self.ours = ours


def check(data: bytes | memoryview, what: str, magic: int, ours: int) -> None:
    """Raise OtherVersion for a packet or greeting of another version, whatever its size."""
    if len(data) >= BEGINNING_BYTES and data[0] == magic and data[1] != ours:
        raise OtherVersion(data, what, ours)


def kind_of(start: bytes | memoryview) -> int | None:
    """The kind of a packet; None if it is too short to have one."""
    return start[_KIND_AT] if len(start) > _KIND_AT else None


def sender_of(start: bytes | memoryview) -> int | None:
    """The daemon that a packet names as its sender; None if it is too short to name one."""
    if len(start) < BEGINNING_BYTES:
        return None
    return int(_SENDER.unpack_from(start, _SENDER_AT)[0])
