"""Views, signals and leaves as a Spread client expects them.

The body of a view:

    offset size  field
     0     12   id           three numbers, signed
    12     4    count        of sets
    16     4    offset       from here + 4 to the receiver's own set
    20          sets         each: the number of its members, 4 bytes, and their names

A view that a join, leave or disconnect made has one set, with the sessions that joined or left. Otherwise
there is one for each view that members come from. Spread's identifiers are the address of a daemon, a time
and a count; to clients they are three numbers to be compared, and ours are made of the whole identifier of a
view, so that two views never share one.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct as Layout

from antiphon.spreadwire import layout
from antiphon.types import Cause, Left, TransitionalSignal, View, ViewId

_CAUSES = {
    Cause.JOIN: layout.BY_JOIN,
    Cause.LEAVE: layout.BY_LEAVE,
    Cause.DISCONNECT: layout.BY_DISCONNECT,
    Cause.NETWORK: layout.BY_NETWORK,
    Cause.MERGE: layout.BY_NETWORK,
    Cause.QUORUM: layout.BY_NETWORK,
}
_ID = Layout("<iii")
_SETS = Layout("<II")
_COUNT = Layout("<I")


def pack_id(view_id: ViewId) -> bytes:
    """The three numbers; the last is positive, as a count is."""
    first, second, third = _ID.unpack(blake2b(str(view_id).encode("ascii"), digest_size=12).digest())
    return _ID.pack(first, second, third & 0x7FFF_FFFF or 1)


class Views:
    """Writes what happens to groups, with members in Spread's order: by daemon, then by name."""

    def __init__(self, daemon_names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(daemon_names)}

    def view(self, view: View) -> bytes:
        """A view with its cause."""
        cause = _CAUSES[view.cause]
        if view.id.branch or (view.cause is Cause.DISCONNECT and len(view.changed) > 1):
            # A member is being lost and is still counted, or several are gone at once: in Spread, only a view
            # caused by the network can express that.
            cause = layout.BY_NETWORK
        sets = [tuple(view.changed)] if cause != layout.BY_NETWORK else self._sets(view)
        members = self._sorted(view.members)
        body = [pack_id(view.id), _SETS.pack(len(sets), self._offset(view, sets, cause))]
        for names in sets:
            body += (_COUNT.pack(len(names)), layout.pack_names(names))
        return self._frame(layout.REGULAR_VIEW | cause, view.group, members, b"".join(body))

    def signal(self, signal: TransitionalSignal) -> bytes:
        """The transitional signal of a view."""
        return self._frame(layout.TRANSITION, signal.group, (), pack_id(signal.id))

    def left(self, left: Left) -> bytes:
        """The receiver has left a group."""
        return self._frame(layout.BY_LEAVE, left.group, (), b"")

    def _frame(self, kind: int, group: str, members: tuple[str, ...], body: bytes) -> bytes:
        header = layout.pack_header(kind, layout.pack_name(group), len(members), layout.NO_HINT, len(body))
        return header + layout.pack_names(members) + body

    def _sets(self, view: View) -> list[tuple[str, ...]]:
        """Who came with whom. For members that are being lost this is unknown, so each is a set of its own;
        and so is a member that joins meanwhile, at the end."""
        if view.parts:
            return [self._sorted(part) for part in view.parts]
        newcomers = view.changed if view.cause is Cause.JOIN else ()
        alone = [name for name in view.members if name not in view.transitional and name not in newcomers]
        sets = [self._sorted(view.transitional)] if view.transitional else []
        sets += [(name,) for name in self._sorted(tuple(alone))]
        return sets + [(name,) for name in newcomers]

    def _offset(self, view: View, sets: list[tuple[str, ...]], cause: int) -> int:
        """Where the set of the receiver begins: of those who come along, or of the newcomer it is itself."""
        if cause != layout.BY_NETWORK:
            return 0
        own = self._sorted(view.transitional or view.changed)
        offset = 0
        for names in sets:
            if names == own:
                return offset
            offset += _COUNT.size + layout.NAME_BYTES * len(names)
        return 0

    def _sorted(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(names, key=self._place))

    def _place(self, private_name: str) -> tuple[int, str]:
        name, _, daemon = private_name[1:].partition("#")
        return self._places.get(daemon, len(self._places)), name
