"""Golden bytes written out in hexadecimal, and the packet head that all vectors share."""

from zlib import crc32

from antiphon.wire import packet
from antiphon.wire.packet import Head, PacketKind

COUNTER = 0x0000_00C0_0000_0777


def octets(*lines: str) -> bytes:
    """The bytes of a vector; what follows a hash mark in a line is a remark."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


def prefix_of(kind: PacketKind, view: int = 0x00000F0000001402) -> bytes:
    return packet.prefix(
        kind, digest=0xD1E57001, sender=2, receiver=0x0103, incarnation=0x0A0B0C0D, view=view
    )


def head_of(kind: PacketKind, number: int = 0, view: int = 0x00000F0000001402) -> Head:
    return Head(
        kind,
        digest=0xD1E57001,
        sender=2,
        receiver=0x0103,
        incarnation=0x0A0B0C0D,
        view=view,
        counter=COUNTER,
        number=number,
    )


def head_vector(kind: str, number: str, view: str = "00000F0000001402", counter: int = COUNTER) -> bytes:
    return octets(
        "A7          # magic",
        "08          # version",
        f"{kind}     # kind",
        "00          # seal: plain",
        "D1E57001    # digest",
        "0002        # sender",
        "0103        # receiver",
        "0A0B0C0D    # incarnation",
        f"{view}     # daemon view to whose links the packet belongs",
        f"{counter:016X}    # counter of the sending process",
        f"{number}   # number",
    )


def checked(data: bytes) -> bytes:
    """A packet with its checksum, for vectors that are not about the checksum."""
    return data + crc32(data).to_bytes(4)
