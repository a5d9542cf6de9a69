"""How a Spread client introduces itself, up to where it asks for a session.

The steps, which client and daemon take in turns:

    client   hello    version (2 bytes, or 3 from 3.15 on), flags, the length of its name, its name
    daemon   methods  one length byte, and the names of the ways to prove who one is
    client   choice   90 bytes: up to three of these names, in fields of 30
    daemon   answer   1, our version, the length of the private name, the private name

Libraries before 3.16 go straight from hello to answer. A refusal is one negative byte, and the end.
"""

from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame, UsageError
from antiphon.types import PRIORITY_MAX, check_name

VERSION = (5, 0, 1)
"""What we say we are: the last release whose frames these are."""
METHODS = b"NULL "
"""The client need not prove anything."""
METHODS_BY_ADDRESS = b"IP NULL "
"""With either of them, the address from which the client connects must be one of those that are named."""
CHOICE_BYTES = 90
_CHOICE = Layout("30s30s30s")

QUOTA, ILLEGAL_NAME, NAME_TAKEN, BAD_VERSION, NOT_AUTHENTICATED = -3, -5, -6, -7, -9
_ACCEPTED = 1
_VERSION_MIN = (3, 1)
_PATCH_SINCE = (3, 15)
_CHOICE_SINCE = (3, 16)


class Hello(Struct, frozen=True):
    """The first words of a client."""

    version: tuple[int, int]
    name: str
    """Empty: the daemon is to choose one."""
    wants_views: bool
    priority: int


class Refused(BadFrame):
    """The client is told this code, and that is all."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"spread: {reason}")
        self.code = code


class Declined(Refused):
    """It has spoken as it should, and gets no session all the same."""


def refusal(code: int) -> bytes:
    """The byte that says no."""
    return bytes((code & 0xFF,))


def parse_hello(data: bytes) -> tuple[Hello, int] | None:
    """The hello at the start of what has come, and its size; None while it is not whole. Refused if it will
    not do."""
    if len(data) < 2:
        return None
    version = (data[0], data[1])
    if version < _VERSION_MIN:
        raise Refused(BAD_VERSION, f"a library of version {data[0]}.{data[1]}")
    start = 3 if version >= _PATCH_SINCE else 2
    if len(data) < start + 2:
        return None
    flags, length = data[start], data[start + 1]
    if length > limits.SESSION_NAME_MAX_BYTES:
        raise Refused(ILLEGAL_NAME, "a name that is too long")
    end = start + 2 + length
    if len(data) < end:
        return None
    return Hello(version, _name(data[start + 2 : end]), bool(flags & 1), min(flags >> 4, PRIORITY_MAX)), end


def _name(field: bytes) -> str:
    try:
        name = field.decode("ascii")
        return check_name(name, "session", limits.SESSION_NAME_MAX_BYTES) if name else ""
    except (UnicodeDecodeError, UsageError):
        raise Refused(ILLEGAL_NAME, "a name with characters that no name has") from None


def methods(hello: Hello, known: bytes = METHODS) -> bytes:
    """What to answer to a hello; nothing to libraries that expect nothing."""
    return bytes((len(known),)) + known if hello.version >= _CHOICE_SINCE else b""


def choice_bytes(hello: Hello) -> int:
    """How many bytes the client sends before it gets its answer."""
    return CHOICE_BYTES if hello.version >= _CHOICE_SINCE else 0


def check_choice(data: bytes, known: bytes = METHODS) -> None:
    """Refused unless the client chose what we offer, all of which it need not do anything for."""
    chosen = [field.partition(b"\0")[0] for field in _CHOICE.unpack(data)]
    if b"" in chosen:
        del chosen[chosen.index(b"") :]
    if not chosen or not set(chosen) <= set(known.split()):
        raise Declined(NOT_AUTHENTICATED, "a method of authentication that we do not have")


def answer(hello: Hello, private_name: str) -> bytes:
    """The client has a session."""
    version = VERSION if hello.version >= _PATCH_SINCE else VERSION[:2]
    return bytes((_ACCEPTED, *version, len(private_name))) + private_name.encode("ascii")
