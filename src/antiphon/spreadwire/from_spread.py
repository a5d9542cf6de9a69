"""What a Spread client sends, as our own frames: joins, leaves, its end, and bundles of messages.

Messages that come one after the other and differ in their bodies only become one bundle, as if our library
had sent them. Of names that no group and no session can have, those of destinations are left out, since
they have no receivers; to join one is refused. So is to join more groups than a session may be in: Spread has
no word for a refusal, so the connection ends.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame, UsageError
from antiphon.service import Service
from antiphon.spreadwire import layout
from antiphon.types import check_destination, check_group
from antiphon.wire import bundle, frames

_SHAPES_MAX = 256
_SHAPES_MAX_BYTES = 64 * 1024
"""The most bytes of the starts and names by which one session's shapes are found: a shape needs as much
again."""

Frame = tuple[int, bytearray | memoryview]


class Shape(Struct, frozen=True):
    """What consecutive messages have in common: everything but their bodies."""

    start: bytes
    """The beginning of each frame, up to its size."""
    names_field: bytes
    """The bytes of the names, behind the header of each frame."""
    order: Literal["little", "big"]
    """The byte order in which its size is written."""
    body_max_bytes: int
    names: bytes
    """The names area of their bundle."""
    group_count: int
    service: Service
    flags: int
    tag: int
    marks: int


class FromSpread:
    """Reads the frames of one Spread session."""

    def __init__(self, private_name: str) -> None:
        self._private_name = private_name
        self._joined: set[str] = set()
        self._shapes: dict[tuple[bytes, bytes], Shape | None] = {}  # by start and names; None: no receiver
        self._shapes_bytes = 0

    def split(self, data: bytes, sent_us: int) -> tuple[list[Frame], int, int]:
        """Our frames for what is whole in `data`, how many bytes that is, and how many bytes the next,
        unfinished frame takes (0 if not even its header has come). BadFrame for what no client may send."""
        found: list[Frame] = []
        at, end = 0, len(data)
        needed = 0
        while end - at >= layout.HEADER_BYTES:
            kind, sender, count, hint, size = layout.parse_header(data, at)
            body_at = at + layout.HEADER_BYTES + layout.NAME_BYTES * count
            if body_at + size > end:
                needed = body_at + size - at
                break
            names_field = data[at + layout.HEADER_BYTES : body_at]
            if kind & layout.SERVICES:
                shape = self._shape(data[at : at + layout.SIZE_AT], names_field, kind, sender, hint)
                if shape is None:
                    at = body_at + size
                else:
                    payloads, at = _alike(shape, data, at)
                    found.append(_bundle(shape, payloads, sent_us))
            else:
                found += self._request(kind, sender, names_field)
                at = body_at + size
        return found, at, needed

    def _shape(self, start: bytes, names_field: bytes, kind: int, sender: bytes, hint: bytes) -> Shape | None:
        """The shape of a message; None if it can have no receiver."""
        key = (start, names_field)
        try:
            return self._shapes[key]
        except KeyError:
            pass
        self._check(kind, sender)
        groups = list(_receivers(names_field))
        tag, is_little = layout.parse_hint(hint)
        shape = None
        if groups:
            shape = Shape(
                start,
                names_field,
                layout.order_of(start),
                layout.NAMES_AND_BODY_MAX_BYTES - len(names_field),
                bundle.names_area(self._private_name, groups),
                len(groups),
                layout.SERVICE_OF[kind & layout.SERVICES],
                bundle.Flag.SELF_DISCARD if kind & layout.SELF_DISCARD else 0,
                tag,
                kind | (layout.LITTLE if is_little else 0),
            )
        self._shapes_bytes += len(start) + len(names_field)
        if len(self._shapes) >= _SHAPES_MAX or self._shapes_bytes > _SHAPES_MAX_BYTES:
            self._shapes.clear()
            self._shapes_bytes = len(start) + len(names_field)
        self._shapes[key] = shape
        return shape

    def _request(self, kind: int, sender: bytes, names_field: bytes) -> list[Frame]:
        """A join, a leave or the end; of several names only the first counts."""
        self._check(kind, sender)
        if kind & layout.KILL:
            return [_control(frames.Disconnect())]
        if not names_field:
            return []
        name = layout.parse_name(names_field[: layout.NAME_BYTES])
        if kind & layout.LEAVE:  # of a group in which it is not: nothing
            self._joined.discard(name)
            return [_control(frames.Leave(name))] if _can_exist(name) and name[0] != "#" else []
        return self._join(name)

    def _join(self, name: str) -> list[Frame]:
        try:
            check_group(name)
        except UsageError as error:
            raise BadFrame(f"spread: {error}") from None
        if name not in self._joined and len(self._joined) >= limits.GROUPS_PER_SESSION_MAX:
            raise BadFrame(f"spread: a session joins {limits.GROUPS_PER_SESSION_MAX:,} groups at most")
        self._joined.add(name)
        return [_control(frames.Join(name))]

    def _check(self, kind: int, sender: bytes) -> None:
        action = kind & layout.ACTIONS
        if not action or action & (action - 1):
            raise BadFrame("spread: not exactly one action")
        if kind & layout.DAEMONS_ONLY:
            raise BadFrame("spread: what only daemons say")
        if layout.parse_name(sender) != self._private_name:
            raise BadFrame("spread: sent under another name")


def _alike(shape: Shape, data: bytes, at: int) -> tuple[list[bytes], int]:
    """The bodies of the messages from `at` on that are whole and of one shape, and where they end.

    What a message costs here is what a Spread client costs us, so nothing is looked at twice.
    """
    payloads: list[bytes] = []
    start, names_field, order = shape.start, shape.names_field, shape.order
    names_at = layout.HEADER_BYTES
    head_bytes = names_at + len(names_field)
    end, most = len(data), shape.body_max_bytes
    room = limits.BUNDLE_MESSAGES_MAX
    while room and data.startswith(start, at) and data.startswith(names_field, at + names_at):
        size = int.from_bytes(data[at + layout.SIZE_AT : at + names_at], order)
        body_at = at + head_bytes
        if size > most or body_at + size > end:
            break  # the one after the last, which is looked at in full
        at = body_at + size
        payloads.append(data[body_at:at])
        room -= 1
    return payloads, at


def _receivers(field: bytes) -> Iterator[str]:
    """The destinations that can exist."""
    for place in range(0, len(field), layout.NAME_BYTES):
        name = layout.ascii_name(field[place : place + layout.NAME_BYTES])
        if name is not None and _can_exist(name):
            yield name


def _can_exist(name: str) -> bool:
    try:
        check_destination(name)
    except UsageError:
        return False
    return True


def _control(value: frames.FromClient) -> Frame:
    return frames.FrameKind.CONTROL, bytearray(frames.encode_control(value))


def _bundle(shape: Shape, payloads: list[bytes], sent_us: int) -> Frame:
    buffers = bundle.encode(
        shape.names,
        shape.group_count,
        shape.service,
        payloads,
        flags=shape.flags,
        tag=shape.tag,
        sent_us=sent_us,
        marks=shape.marks,
    )
    return frames.FrameKind.BUNDLE, bytearray().join(buffers)
