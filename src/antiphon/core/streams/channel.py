"""One connection to another daemon as bytes: frames in, frames out."""

from collections import deque
from enum import Enum
from itertools import islice

from antiphon.wire import streams
from antiphon.wire.streams import Challenge

WRITE_BYTES = 1024 * 1024
"""The size of one write; also what one connection may write before the others get their turn."""
BUFFERS_MAX = 1_024
"""The buffers of one write: more than the system takes at once."""

Buffer = bytes | memoryview


class ChannelPhase(Enum):
    """Where a connection stands in its life."""

    DIALLING = "dialling"
    """The network has not answered yet."""
    GREETING = "greeting"
    """The greeting of the other side has not come yet."""
    OPEN = "open"
    CLOSED = "closed"


class Channel:
    """What waits to be written to a connection, and what has come of its next frame."""

    def __init__(self, peer: int | None, deadline_us: int) -> None:
        self.peer = peer
        """The daemon at the other end, once it is known."""
        self.is_dialled = peer is not None
        """Whether this side has dialled."""
        self.phase = ChannelPhase.GREETING if peer is None else ChannelPhase.DIALLING
        self.deadline_us = deadline_us
        """When to give up, unless it is open by then."""
        self.incarnation = 0
        """The incarnation of the process at the other end, once it is known."""
        self.said: Challenge | None = None
        """What this side has sent before its greeting, where greetings bear proofs."""
        self.heard: Challenge | None = None
        """What the other side has."""
        self.waiting_bytes = 0
        self._output: deque[Buffer] = deque()
        self._partial = bytearray()

    @property
    def is_writable(self) -> bool:
        """Whether something waits that can be written now."""
        return self.waiting_bytes > 0 and self.phase is not ChannelPhase.DIALLING

    @property
    def nonces(self) -> tuple[bytes, bytes]:
        """The random values of the side that has dialled and of the other one, once both are known."""
        assert self.said is not None and self.heard is not None
        first, second = (self.said, self.heard) if self.is_dialled else (self.heard, self.said)
        return first.nonce, second.nonce

    def queue(self, *buffers: Buffer) -> None:
        """Have a whole frame written, after those that wait already."""
        self._output.extend(buffers)
        self.waiting_bytes += sum(map(len, buffers))

    def batch(self) -> list[Buffer]:
        """What to write next, in one call."""
        if len(self._output) <= BUFFERS_MAX and self.waiting_bytes <= WRITE_BYTES:
            return list(self._output)
        batch: list[Buffer] = []
        size = 0
        for buffer in islice(self._output, BUFFERS_MAX):
            batch.append(buffer)
            size += len(buffer)
            if size >= WRITE_BYTES:
                break
        return batch

    def written(self, size_bytes: int) -> None:
        """So much of the last batch is out."""
        self.waiting_bytes -= size_bytes
        output = self._output
        if not self.waiting_bytes:
            output.clear()
            return
        while size_bytes >= (size := len(output[0])):
            output.popleft()
            size_bytes -= size
        if size_bytes:
            output[0] = memoryview(output[0])[size_bytes:]

    def split(self, data: memoryview, longest_bytes: int) -> list[memoryview]:
        """The bodies of the frames that are whole with `data`; they are valid until it is used again.

        BadPacket if what came can be no frame.
        """
        if self._partial:
            data = memoryview(bytes(self._partial) + data)
        whole, used = streams.split(data, longest_bytes)
        self._partial = bytearray(data[used:])
        return whole
