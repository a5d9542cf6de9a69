"""One process's use of a connection: whole frames in both directions, and what the kernel does not take
yet."""

from collections import deque

from antiphon.simulator.connections import End
from antiphon.wire import frames

BATCH_BYTES = 64 * 1024
"""How much is offered to the kernel at once."""

Frame = bytes | bytearray | memoryview


class Pipe:
    """Frames over one end of a connection."""

    def __init__(self, end: End) -> None:
        self.end = end
        self.waiting_bytes = 0
        """Output that the kernel has not taken yet."""
        self.told_bytes = 0
        """How much of it the process's node was told of."""
        self.taken_bytes = 0
        self._waiting: deque[Frame] = deque()
        self._is_blocked = False
        self._input = bytearray()
        self.unhandled: deque[tuple[int, memoryview]] = deque()
        """Whole frames that have come and are still to be handled, as kind and frame."""

    def queue(self, frame: Frame) -> None:
        """Write a frame when there is room."""
        self._waiting.append(frame)
        self.waiting_bytes += len(frame)

    def writable(self) -> None:
        """The kernel has room again."""
        self._is_blocked = False

    def flush(self) -> bool:
        """Write what the kernel takes; whether that was anything."""
        before = self.taken_bytes
        while self._waiting and not self._is_blocked and self.end.is_established:
            batch: list[bytes | memoryview] = []
            size_bytes = 0
            for frame in self._waiting:
                batch.append(bytes(frame))
                size_bytes += len(frame)
                if size_bytes >= BATCH_BYTES:
                    break
            taken = self.end.write(batch)
            self.taken_bytes += taken
            self.waiting_bytes -= taken
            self._is_blocked = taken < size_bytes
            while taken:
                frame = self._waiting.popleft()
                if taken < len(frame):
                    self._waiting.appendleft(memoryview(frame)[taken:])
                    break
                taken -= len(frame)
        return self.taken_bytes > before

    def read(self) -> None:
        """Take all that has come; BadFrame for what is no frame."""
        data = self.end.read()
        if not data:
            return
        self._input += data
        whole, taken, _ = frames.split(memoryview(bytes(self._input)))
        del self._input[:taken]
        self.unhandled.extend(whole)
