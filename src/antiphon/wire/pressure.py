"""The sessions of a daemon that do not keep up, as the body of a PRESSURE item (see `packet`).

source (2), daemon (2), serial (4), count (2), count x (session number (4), length of its name (1), name)
"""

from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.errors import Nonsense

_HEAD = Layout("!HHIH")
HEAD_BYTES = _HEAD.size
_SLOW = Layout("!IB")


class Pressure(Struct, frozen=True):
    """The sessions of one daemon that do not keep up with their output: their senders are to wait.

    It is valid for `limits.PRESSURE_VALID_US`, or until one with a greater serial comes.
    """

    source: int
    """The segment of the daemon, along whose tree this travels."""
    daemon: int
    serial: int
    sessions: tuple[tuple[int, str], ...]
    """(session number, the session's part of its private name), at most `limits.PRESSURE_SESSIONS_MAX`."""


def encode(pressure: Pressure) -> bytes:
    """The body of an item."""
    return b"".join(
        (
            _HEAD.pack(pressure.source, pressure.daemon, pressure.serial, len(pressure.sessions)),
            *(_SLOW.pack(number, len(name)) + name.encode() for number, name in pressure.sessions),
        )
    )


def parse(body: bytes) -> Pressure:
    """What the body of an item tells; it has the head at least. BadPacket with a reason otherwise."""
    source, daemon, serial, count = _HEAD.unpack_from(body)
    if count > limits.PRESSURE_SESSIONS_MAX:
        raise Nonsense("pressure: too many sessions")
    sessions = []
    at = HEAD_BYTES
    for _ in range(count):
        if at + _SLOW.size > len(body):
            raise Nonsense("pressure: cut short")
        number, length = _SLOW.unpack_from(body, at)
        name = body[at + _SLOW.size : at + _SLOW.size + length]
        at += _SLOW.size + length
        if not 0 < length <= limits.SESSION_NAME_MAX_BYTES or not name.isascii():
            raise Nonsense("pressure: impossible name")
        sessions.append((number, name.decode()))
    if at != len(body):
        raise Nonsense("pressure: wrong size")
    return Pressure(source, daemon, serial, tuple(sessions))
