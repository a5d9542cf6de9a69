"""Bundles of one session that wait behind one another travel as one: which may, and how they become one.

A client that does not gather by itself (it waits for something after each message, or was told not to) sends
each message as a bundle of its own. What a daemon does for a bundle costs the same however many messages are
in it. So the queue of a session joins bundles that differ in nothing but their messages and times:

    header      of the first, with the sum of the counts
    names       of the first; all are equal
    lengths     one table after the other
    payloads    one after the other

Each message keeps its identity: a daemon numbers the messages of a session one by one, in whatever bundles.
It keeps its service, groups, tag, flags and marks, since these are equal. Its time of sending becomes that of
the first bundle, which was begun at most `limits.GATHER_SPAN_US` before its own.

Not gathered are bundles of several thousand bytes, which would be copied for next to nothing; batches, of
which each bundle begins with a stamp; bundles with extensions, which may concern one bundle; and unreliable
ones, since one lost packet would take all of them.

The papers leave open how messages are packed. Our own library bundles in the same way.
Checked by: tests/paper/test_gathered_bundles.py, tests/unit/test_bundle_gathering.py, and the simulator's
clients, which send some of their messages singly.
"""

from collections.abc import Sequence
from itertools import islice
from struct import Struct as Layout

from msgspec.structs import replace

from antiphon import limits
from antiphon.service import Service
from antiphon.wire.bundle import HEADER_BYTES, Draft, Flag, Header, length_table

_LENGTH_AND_SENT = Layout("!I68xQ")
_LENGTH = Layout("!I")
_COUNT = Layout("!H")
_COUNT_OFFSET = 10
# What bundles that are alike share: from `kind` to `destinations`, and from `marks` to the end of the names.
_HEAD_OFFSET = 4
_HEAD_END = 72
_TAIL_OFFSET = 80


def are_alike(first: Header, other: Header) -> bool:
    """Whether a checked bundle of a session may travel with the one before it."""
    return (
        other.names == first.names
        and other.service is first.service
        and other.tag == first.tag
        and other.flags == first.flags
        and other.marks == first.marks
        and 0 <= other.sent_us - first.sent_us <= limits.GATHER_SPAN_US
        and max(first.length, other.length) <= limits.GATHER_MAX_BYTES
        and first.service is not Service.UNRELIABLE
        and not first.flags & ~Flag.SELF_DISCARD
        and not first.extensions
        and not other.extensions
    )


class Gathering:
    """Bundles that will travel as one, behind a first one that has been checked."""

    def __init__(self, first: bytearray, header: Header) -> None:
        self.came_bytes = 0
        """The bytes of all bundles as they came."""
        self._header = header
        self._table_at = HEADER_BYTES + len(header.names)
        self._count = header.message_count
        self._start = bytes(first[: self._table_at])
        self._lengths: list[int] = []
        self._payloads: list[bytes] = []
        self._size_bytes = 0  # of the payloads and their table of lengths
        self._keep(first, header.message_count)

    def add(self, bundle: bytearray, header: Header) -> bool:
        """Take a bundle that has been checked and is alike; False if there is no room for it."""
        if (
            self._size_bytes + header.length - self._table_at > limits.BUNDLE_TARGET_BYTES
            or len(self._lengths) + header.message_count > limits.BUNDLE_MESSAGES_MAX
        ):
            return False
        self._keep(bundle, header.message_count)
        return True

    def _keep(self, bundle: bytearray, count: int) -> None:
        payloads_at = self._table_at + 4 * count
        self._lengths += length_table(count).unpack_from(bundle, self._table_at)
        self._payloads.append(bytes(bundle[payloads_at:]))
        self._size_bytes += len(bundle) - self._table_at
        self.came_bytes += len(bundle)

    def add_run(self, bundles: Sequence[bytearray | memoryview], at: int) -> int:
        """Take those of `bundles` from `at` on, one after the other, that have one message and the header of
        the first but for length and time; how many.

        They have not been checked. What was checked of the first holds for them, too, since it is equal; the
        rest is checked here. This is what a client costs that sends each message by itself.
        """
        if self._count != 1:
            return 0
        head, tail = self._start[_HEAD_OFFSET:_HEAD_END], self._start[_TAIL_OFFSET:]
        payload_at = self._table_at + 4
        length_and_time, message_length = _LENGTH_AND_SENT.unpack_from, _LENGTH.unpack_from
        first_us = self._header.sent_us
        last_us = first_us + limits.GATHER_SPAN_US
        room_bytes = limits.BUNDLE_TARGET_BYTES - self._size_bytes
        room = limits.BUNDLE_MESSAGES_MAX - len(self._lengths)
        lengths, payloads = self._lengths, self._payloads
        taken = 0
        for bundle in islice(bundles, at, at + room):
            data = bytes(bundle)
            payload_bytes = len(data) - payload_at
            if not (
                0 <= payload_bytes <= room_bytes - 4
                and data.startswith(head, _HEAD_OFFSET)
                and data.startswith(tail, _TAIL_OFFSET)
                and payload_bytes == message_length(data, payload_at - 4)[0]
            ):
                break
            length, sent_us = length_and_time(data)
            if length != len(data) or length > limits.GATHER_MAX_BYTES or not first_us <= sent_us <= last_us:
                break
            lengths.append(payload_bytes)
            payloads.append(data[payload_at:])
            room_bytes -= payload_bytes + 4
            taken += 1
        size_bytes = limits.BUNDLE_TARGET_BYTES - room_bytes - self._size_bytes
        self._size_bytes += size_bytes
        self.came_bytes += size_bytes + self._table_at * taken
        return taken

    def join(self) -> Draft:
        """The one bundle that they are now, unstamped, and its header."""
        count = len(self._lengths)
        data = bytearray().join((self._start, length_table(count).pack(*self._lengths), *self._payloads))
        _LENGTH.pack_into(data, 0, len(data))
        _COUNT.pack_into(data, _COUNT_OFFSET, count)
        return Draft(data, replace(self._header, length=len(data), message_count=count))
