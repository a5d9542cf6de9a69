"""What goes to the daemon: messages checked, gathered into bundles and queued as bytes.

Shared by the asyncio and the blocking session, which decide only when to write. Nothing here touches a
socket: `add` and `control` fill the queue, `buffers` shows its head for a scatter-gather write, `written`
removes what the socket took.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence, Set
from itertools import islice
from types import MappingProxyType

from antiphon import limits
from antiphon.client._diary import Diary
from antiphon.client._ledger import BundleKey, Ledger, as_sent
from antiphon.client.events import Sent
from antiphon.errors import MessageTooLarge, NoQuorum, NotAllowed, UsageError
from antiphon.service import Service
from antiphon.types import BatchStamp, Resilience, check_destination, check_resilience, check_stamp
from antiphon.wire import bundle, frames
from antiphon.wire import resilience as resiliences
from antiphon.wire.calls import CallMark, encode_mark
from antiphon.wire.extensions import CALL, Extension, size_bytes

Groups = str | Sequence[str]
"""Where a message goes: one group or private name, or several."""
Payload = bytes | bytearray | memoryview

JOIN_MAX_BYTES = 128 * 1024
"""Bundles up to this size are joined into one buffer: copying 60 kB costs less than 600 iovec entries."""
IOVEC_MAX = 1_024
LENGTH_BYTES = 4
"""Each message's entry in the bundle's table of lengths."""
SMALL_BYTES = limits.BUNDLE_TARGET_BYTES // limits.BUNDLE_MESSAGES_MAX + 1
"""Of messages that have so much, with their length, too few fit into a bundle to be too many."""
KEYS_MAX = 1_024


_NO_GROUPS: list[str] = []
"""Not the groups of any message: an object that no application has."""


class SendQueue:
    """The open bundle and the queue of bytes behind it."""

    def __init__(
        self,
        sender: str,
        *,
        gathers: bool = True,
        message_max_bytes: int = limits.MESSAGE_MAX_BYTES,
        ledger: Ledger | None = None,
        diary: Diary | None = None,
        without_quorum: Set[str] = frozenset(),
        denied: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`without_quorum`: groups to which nothing may be sent now; `denied`: names to which this session
        may not send, and why. Others change both."""
        self.queued_bytes = 0
        """Bytes of closed bundles and control frames that no socket has taken yet."""
        self.bundle_count = 0
        """Bundles closed since the session began."""
        self._sender = sender
        self._gathers = gathers
        self._without_quorum = without_quorum
        self._denied = denied
        self._message_max_bytes = message_max_bytes
        self._ledger = ledger or Ledger()
        self._diary = diary
        """The trace of this session, if one is kept."""
        self._queue: deque[bytes | memoryview] = deque()
        self._payloads: list[bytes] = []
        self._room_bytes = 0
        """What the open bundle has left for payloads and their lengths; 0 if there is none."""
        self._begun_us = 0
        self._keys: dict[tuple[object, ...], BundleKey] = {}
        self._key: BundleKey | None = None
        # The arguments of the last `add`, to recognise a repeated key without building anything.
        self._groups: Groups = _NO_GROUPS
        self._service: Service | None = None
        self._tag: int = 0
        self._self_discard: bool = False
        self._resilience: Resilience | None = None

    @property
    def open_count(self) -> int:
        """Messages in the open bundle."""
        return len(self._payloads)

    def unaccepted(self) -> int:
        """Messages of this connection that are not known to be accepted, also those in the open bundle."""
        return self._ledger.unaccepted() + len(self._open())

    def unknown(self) -> tuple[Sent, ...]:
        """The messages that `unaccepted` counts, oldest first, as far as they are kept."""
        key = self._key
        return (*self._ledger.unknown(), *(as_sent(key, self._open()) if key is not None else ()))

    def begin_again(
        self, sender: str, message_max_bytes: int, ledger: Ledger, diary: Diary | None = None
    ) -> None:
        """Everything from here on goes out on a new connection, under a new name."""
        self.drop()
        self._sender = sender
        self._message_max_bytes = message_max_bytes
        self._ledger = ledger
        self._diary = diary
        self._keys.clear()  # they have the old name in them
        self._key = None
        self._groups, self._service = _NO_GROUPS, None

    def add(
        self,
        groups: Groups,
        payload: Payload,
        service: Service,
        tag: int,
        self_discard: bool,
        resilience: Resilience | None = None,
    ) -> None:
        """Take one message into the open bundle, or open one. UsageError, NoQuorum and NotAllowed change
        nothing."""
        if self._without_quorum or self._denied:
            self.check_quorum(groups)
        if (
            groups is self._groups
            and service is self._service
            and tag == self._tag
            and self_discard is self._self_discard
            and resilience is self._resilience
            and type(payload) is bytes
        ):
            size = len(payload) + LENGTH_BYTES
            room_bytes = self._room_bytes - size
            if SMALL_BYTES <= size <= room_bytes and size <= self._message_max_bytes:
                # The open bundle has room for this one and for another like it: most messages end here.
                self._payloads.append(payload)
                self._room_bytes = room_bytes
                return
            self._add(self._key, payload)
            return
        key = self._key_for(groups, service, tag, self_discard, resilience)
        data = payload if type(payload) is bytes else as_bytes(payload)
        self.check_size(data)
        if key is not self._key:
            self.close_bundle()
            self._key = key
            self._remember(groups, service, tag, self_discard, resilience)
        self._add(key, data)

    def _add(self, key: BundleKey | None, data: bytes) -> None:
        """Take a message that may open the bundle of `key`, or fill it."""
        assert key is not None
        self.check_size(data)
        size = len(data) + LENGTH_BYTES
        if self._payloads and size > self._room_bytes:
            self.close_bundle()
        if not self._payloads:
            self._begun_us = time.time_ns() // 1_000
            self._room_bytes = limits.BUNDLE_TARGET_BYTES
        self._payloads.append(data)
        self._room_bytes -= size
        if (
            size > self._room_bytes  # another like this would not fit
            or len(self._payloads) >= limits.BUNDLE_MESSAGES_MAX
            or not self._gathers
        ):
            self.close_bundle()

    def add_batch(
        self,
        groups: Groups,
        payloads: Sequence[Payload],
        service: Service,
        tag: int,
        self_discard: bool,
        stamp: BatchStamp,
        resilience: Resilience | None = None,
    ) -> int:
        """Queue a bundle that begins with `stamp` and has as many of `payloads` as fit into it, at least one;
        returns how many. UsageError and NoQuorum change nothing."""
        if self._without_quorum or self._denied:
            self.check_quorum(groups)
        key = self._key_for(groups, service, tag, self_discard, resilience)
        mark = str(check_stamp(stamp)).encode("ascii")
        taken, size = self._fitting(payloads, len(mark) + LENGTH_BYTES)
        self.close_bundle()
        self._queue_bundle(key, [mark, *taken], size, key.flags | bundle.Flag.BATCH, time.time_ns() // 1_000)
        self._ledger.note_stamp()
        self._ledger.note_bundle(key, taken, size)
        if self._diary is not None:
            self._diary.stamped()
            self._diary.sent(key, taken)
        return len(taken)

    def add_marked(
        self,
        groups: tuple[str, ...],
        mark: CallMark,
        payload: bytes,
        service: Service,
        resilience: Resilience | None = None,
    ) -> int:
        """Queue a message that belongs to a call, as a bundle of its own; returns its sequence. What becomes
        of it is the business of `calls`: it is not told as a message of unknown fate."""
        key = self._key_for(groups, service, 0, False, resilience)
        asked = () if resilience is None else (resiliences.extension(resilience),)
        self.close_bundle()
        buffers = bundle.encode(
            key.names, len(groups), service, [payload], sent_us=time.time_ns() // 1_000,
            extensions=(*asked, Extension(CALL, encode_mark(mark))),
        )  # fmt: skip
        self._queue.append(b"".join(buffers))
        self.queued_bytes += len(self._queue[-1])
        self.bundle_count += 1
        self._ledger.note_request()
        if self._diary is not None:
            self._diary.sent(key, [payload])
        return self._ledger.sequence

    def _fitting(self, payloads: Sequence[Payload], size: int) -> tuple[list[bytes], int]:
        """The first of `payloads` that fit into a bundle of which `size` bytes are used, and its new size."""
        taken: list[bytes] = []
        for payload in islice(payloads, limits.BUNDLE_MESSAGES_MAX - 1 if self._gathers else 1):
            data = payload if type(payload) is bytes else as_bytes(payload)
            grown = size + len(data) + LENGTH_BYTES
            if taken and grown > limits.BUNDLE_TARGET_BYTES:
                break
            self.check_size(data)
            taken.append(data)
            size = grown
        return taken, size

    def check_quorum(self, groups: Groups) -> None:
        """NoQuorum or NotAllowed if it is known that nothing may be sent to one of these groups."""
        for group in (groups,) if isinstance(groups, str) else _as_names(groups):
            if group in self._denied:
                raise NotAllowed(self._denied[group])
            if group in self._without_quorum:
                raise NoQuorum(f"group {group!r} has no quorum: too few of its members are here; not sent")

    def check_size(self, data: bytes) -> None:
        """MessageTooLarge for a payload that no message may have."""
        if len(data) > self._message_max_bytes:
            raise MessageTooLarge(
                f"the message has {len(data):,} bytes; a message may have at most {self._message_max_bytes:,}"
            )

    def control(self, value: frames.FromClient) -> None:
        """Queue a control frame behind everything that was sent before it."""
        self.close_bundle()
        frame = frames.encode_control(value)
        self._queue.append(frame)
        self.queued_bytes += len(frame)
        if isinstance(value, frames.Join | frames.Leave | frames.AskLock | frames.Unlock):
            self._ledger.note_request()
            if self._diary is not None:
                self._diary.asked(value)

    def close_bundle(self) -> None:
        """Move the open bundle, if there is one, to the queue."""
        payloads = self._payloads
        if not payloads:
            return
        key = self._key
        assert key is not None
        open_bytes = limits.BUNDLE_TARGET_BYTES - self._room_bytes
        self._queue_bundle(key, payloads, open_bytes, key.flags, self._begun_us)
        self._ledger.note_bundle(key, payloads, open_bytes)
        if self._diary is not None:
            self._diary.sent(key, payloads)
        self._room_bytes = 0
        self._payloads = []

    def _queue_bundle(
        self, key: BundleKey, payloads: list[bytes], payload_bytes: int, flags: int, begun_us: int
    ) -> None:
        """Queue a bundle whose payloads and their table of lengths have `payload_bytes`."""
        asked: tuple[Extension, ...] = ()
        if key.resilience is not None:
            asked = (resiliences.extension(key.resilience),)
            payload_bytes += size_bytes(asked)
        buffers = bundle.encode(
            key.names, len(key.groups), key.service, payloads,
            flags=flags, tag=key.tag, sent_us=begun_us, extensions=asked,
        )  # fmt: skip
        size = bundle.HEADER_BYTES + len(key.names) + payload_bytes
        if size <= JOIN_MAX_BYTES:
            self._queue.append(b"".join(buffers))
        else:
            self._queue.extend(buffers)
        self.queued_bytes += size
        self.bundle_count += 1

    def buffers(self) -> list[bytes | memoryview]:
        """The head of the queue, as much as one scatter-gather write may name."""
        if self._diary is not None:
            self._diary.flush()  # before others can have seen what it tells of
        return list(islice(self._queue, IOVEC_MAX))

    def written(self, count: int) -> None:
        """The socket took the first `count` bytes of the queue."""
        self.queued_bytes -= count
        queue = self._queue
        while count:
            head = queue.popleft()
            size = len(head)
            if size > count:
                queue.appendleft(memoryview(head)[count:])
                return
            count -= size

    def drop(self) -> None:
        """Discard what waits: there is no connection that will take it."""
        self.close_bundle()
        self._queue.clear()
        self.queued_bytes = 0

    def _open(self) -> list[bytes]:
        """The messages of the open bundle that have a fate to tell."""
        key = self._key
        return [*self._payloads] if key is not None and key.service is not Service.UNRELIABLE else []

    def _key_for(
        self,
        groups: Groups,
        service: Service,
        tag: int,
        self_discard: bool,
        resilience: Resilience | None,
    ) -> BundleKey:
        """The checked key of these arguments; remembered, because keys repeat."""
        names = (groups,) if isinstance(groups, str) else _as_names(groups)
        signature = (names, service, tag, self_discard, resilience)
        try:
            key = self._keys.get(signature)
        except TypeError:
            raise UsageError("group names must be text, and tag and service plain numbers") from None
        if key is None or not isinstance(service, Service):
            key = self._check_key(names, service, tag, self_discard, resilience)
            if len(self._keys) >= KEYS_MAX:
                self._keys.clear()
            self._keys[signature] = key
        return key

    def _check_key(
        self,
        names: tuple[str, ...],
        service: Service,
        tag: int,
        self_discard: bool,
        resilience: Resilience | None,
    ) -> BundleKey:
        if not 1 <= len(names) <= limits.GROUPS_PER_MESSAGE_MAX:
            raise UsageError(f"{len(names)} groups; a message goes to 1 to {limits.GROUPS_PER_MESSAGE_MAX}")
        for name in names:
            if not isinstance(name, str):
                raise UsageError(f"a group name must be text, not {type(name).__name__}")
            check_destination(name)
        if not isinstance(service, Service):
            raise UsageError(f"service must be an antiphon.Service such as Service.AGREED, not {service!r}")
        if not isinstance(tag, int) or not -32_768 <= tag <= 32_767:
            raise UsageError(f"tag must be a whole number from -32768 to 32767, not {tag!r}")
        asked = check_resilience(resilience, service)
        flags = int(bundle.Flag.SELF_DISCARD) if self_discard else 0
        area = bundle.names_area(self._sender, names)
        return BundleKey(names, area, service, flags, tag, self_discard, asked)

    def _remember(
        self,
        groups: Groups,
        service: Service,
        tag: int,
        self_discard: bool,
        resilience: Resilience | None,
    ) -> None:
        # A list may change between two calls while staying the same object: only what cannot is recognised.
        self._groups = groups if isinstance(groups, str | tuple) else _NO_GROUPS
        self._service = service
        self._tag = tag
        self._self_discard = self_discard
        self._resilience = resilience


def _as_names(groups: Sequence[str]) -> tuple[str, ...]:
    if isinstance(groups, Sequence) and not isinstance(groups, bytes | bytearray | memoryview):
        return tuple(groups)
    raise UsageError(f"groups must be a name or a sequence of names, not {type(groups).__name__}")


def as_bytes(payload: Payload) -> bytes:
    """A copy that cannot change under the bundle; UsageError for what is not bytes."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    hint = "; encode text first, for example with .encode()" if isinstance(payload, str) else ""
    raise UsageError(f"a payload must be bytes, not {type(payload).__name__}{hint}")
