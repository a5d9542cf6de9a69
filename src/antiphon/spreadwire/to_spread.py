"""Translates the frames of our daemon into the messages that a Spread client expects.

One translation of a frame serves all Spread sessions of a daemon. Frames without a counterpart in Spread's
protocol (warnings, problems, goodbyes) are left out: a Spread client sees only that its connection is closed.
"""

from collections.abc import Callable, Sequence

from antiphon.spreadwire import layout
from antiphon.spreadwire.views import Views
from antiphon.wire import bundle, frames
from antiphon.wire.bundle import Flag, Header

_ADDRESSES_MAX = 1_024


class ToSpread:
    """Translates the frames of one daemon for all its Spread sessions."""

    def __init__(
        self, daemon_names: Sequence[str], share: Callable[[bytes], bytes | memoryview] = bytes
    ) -> None:
        """`share` is told of each translation, which several sessions may wait for."""
        self.header: Header | None = None
        """Of the bundle that is translated next, if its owner knows it."""
        self._share = share
        self._views = Views(daemon_names)
        self._addresses: dict[bytes, tuple[bytes, int, bytes]] = {}  # by the names area of a bundle
        self._last: bytes | bytearray | memoryview = b""
        self._last_translation: tuple[bytes | memoryview, bool] = (b"", False)

    def translate(self, frame: bytes | bytearray | memoryview) -> tuple[bytes | memoryview, bool]:
        """A frame in Spread's words, empty if there are none; and whether it is about membership, which some
        clients do not want to hear of. The same frame is asked for once for each of its receivers in turn."""
        if frame is not self._last:
            data, is_membership = self._translate(frame)
            self._last_translation = (self._share(data) if data else data, is_membership)
            self._last = frame
        return self._last_translation

    def _translate(self, frame: bytes | bytearray | memoryview) -> tuple[bytes, bool]:
        if frame[4] == frames.FrameKind.BUNDLE:
            return self._messages(frame), False
        value = frames.decode_from_daemon(frame)
        if isinstance(value, frames.ViewFrame):
            return self._views.view(value.view), True
        if isinstance(value, frames.SignalFrame):
            return self._views.signal(value.signal), True
        if isinstance(value, frames.LeftFrame):
            return self._views.left(value.left), True
        return b"", False

    def _messages(self, frame: bytes | bytearray | memoryview) -> bytes:
        header = bundle.parse(frame) if self.header is None else self.header
        sender, count, names = self._address(header.names)
        bodies = bundle.payloads(memoryview(frame), header)
        if header.flags & Flag.BATCH:
            del bodies[0]  # it says which batch of a query the message after it belongs to
        if header.marks and bundle.has_sane_marks(header):
            kind = header.marks & ~layout.LITTLE
            hint = layout.pack_hint(header.tag, header.marks & layout.LITTLE == layout.LITTLE)
        else:
            kind = layout.BIT_OF[header.service]
            if header.flags & Flag.SELF_DISCARD:
                kind |= layout.SELF_DISCARD
            hint = layout.pack_hint(header.tag, True)
        start = layout.pack_header(kind, sender, count, hint, 0)[:-4]
        pieces: list[bytes] = []
        for body in bodies:
            pieces += (start, len(body).to_bytes(4, "little"), names, body)
        return b"".join(pieces)

    def _address(self, area: bytes) -> tuple[bytes, int, bytes]:
        """Sender, number of names and names, as they stand in a frame."""
        found = self._addresses.get(area)
        if found is None:
            if len(self._addresses) >= _ADDRESSES_MAX:
                self._addresses.clear()
            sender, *groups = bundle.parse_names(area)
            found = (layout.pack_name(sender), len(groups), layout.pack_names(tuple(groups)))
            self._addresses[area] = found
        return found
