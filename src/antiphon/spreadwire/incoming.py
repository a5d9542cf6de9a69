"""What a Spread client sends, as our own frames: joins, leaves, its end, and bundles of messages.

Messages that come one after the other and differ in their bodies only become one bundle, as if our library
had sent them. Of names that no group and no session can have, those of destinations are left out, since
nobody is there; to join one is refused.
"""

from collections.abc import Sequence

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame, UsageError
from antiphon.service import Service
from antiphon.spreadwire import layout
from antiphon.types import check_destination, check_group
from antiphon.wire import bundle, frames

_SHAPES_MAX = 256

Frame = tuple[int, bytearray | memoryview]


class Shape(Struct, frozen=True):
    """What consecutive messages have in common: everything but their bodies."""

    names: bytes
    """The names area of their bundle."""
    group_count: int
    service: Service
    flags: int
    tag: int
    marks: int


class Incoming:
    """Reads the frames of one Spread session."""

    def __init__(self, private_name: str) -> None:
        self._private_name = private_name
        # By the bytes of a message before its size, and its names.
        self._shapes: dict[bytes, Shape | None] = {}

    def split(self, data: memoryview, sent_us: int) -> tuple[list[Frame], int, int]:
        """Our frames for what is whole in `data`, how many bytes that is, and how many bytes the next,
        unfinished frame takes (0 if not even its header has come). BadFrame for what no client may send."""
        found: list[Frame] = []
        at, end = 0, len(data)
        gathered: list[bytes] = []
        gathered_shape: Shape | None = None
        needed = 0
        while end - at >= layout.HEADER_BYTES:
            kind, sender, count, hint, size = layout.parse_header(data, at)
            names_at = at + layout.HEADER_BYTES
            body_at = names_at + layout.NAME_BYTES * count
            if body_at + size > end:
                needed = body_at + size - at
                break
            if kind & layout.SERVICES:
                shape = self._shape(data, at, kind, sender, hint, names_at, body_at)
                if gathered and (shape is not gathered_shape or len(gathered) == limits.BUNDLE_MESSAGES_MAX):
                    found.append(_bundle(gathered_shape, gathered, sent_us))
                    gathered = []
                if shape is not None:
                    gathered_shape = shape
                    gathered.append(bytes(data[body_at : body_at + size]))
            else:
                if gathered:
                    found.append(_bundle(gathered_shape, gathered, sent_us))
                    gathered = []
                names = [data[place : place + layout.NAME_BYTES] for place in range(names_at, body_at, 32)]
                found.extend(self._request(kind, sender, names))
            at = body_at + size
        if gathered:
            found.append(_bundle(gathered_shape, gathered, sent_us))
        return found, at, needed

    def _shape(
        self,
        data: memoryview,
        at: int,
        kind: int,
        sender: bytes,
        hint: bytes,
        names_at: int,
        body_at: int,
    ) -> Shape | None:
        """The shape of a message; None if nobody can get it. The same one each time for the same bytes."""
        key = bytes(data[at : at + 44]) + bytes(data[names_at:body_at])
        try:
            return self._shapes[key]
        except KeyError:
            pass
        self._check(kind, sender)
        names = [data[place : place + layout.NAME_BYTES] for place in range(names_at, body_at, 32)]
        groups = [name for name in map(layout.parse_name, names) if _can_exist(name)]
        tag, is_little = layout.parse_hint(hint)
        shape = None
        if groups:
            shape = Shape(
                bundle.names_area(self._private_name, groups),
                len(groups),
                layout.SERVICE_OF[kind & layout.SERVICES],
                bundle.Flag.SELF_DISCARD if kind & layout.SELF_DISCARD else 0,
                tag,
                kind | (layout.LITTLE if is_little else 0),
            )
        if len(self._shapes) >= _SHAPES_MAX:
            self._shapes.clear()
        self._shapes[key] = shape
        return shape

    def _request(self, kind: int, sender: bytes, names: Sequence[memoryview]) -> list[Frame]:
        """A join, a leave or the end; of several names only the first counts."""
        self._check(kind, sender)
        if kind & layout.KILL:
            return [_control(frames.Disconnect())]
        if not names:
            return []
        name = layout.parse_name(names[0])
        if kind & layout.LEAVE:  # of a group in which it is not: nothing
            return [_control(frames.Leave(name))] if _can_exist(name) and name[0] != "#" else []
        try:
            return [_control(frames.Join(check_group(name)))]
        except UsageError as error:
            raise BadFrame(f"spread: {error}") from None

    def _check(self, kind: int, sender: bytes) -> None:
        action = kind & layout.ACTIONS
        if not action or action & (action - 1):
            raise BadFrame("spread: not exactly one action")
        if kind & layout.DAEMONS_ONLY:
            raise BadFrame("spread: what only daemons say")
        if layout.parse_name(sender) != self._private_name:
            raise BadFrame("spread: sent under another name")


def _can_exist(name: str) -> bool:
    try:
        check_destination(name)
    except UsageError:
        return False
    return True


def _control(value: frames.FromClient) -> Frame:
    return frames.FrameKind.CONTROL, bytearray(frames.encode_control(value))


def _bundle(shape: Shape | None, payloads: list[bytes], sent_us: int) -> Frame:
    assert shape is not None
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
