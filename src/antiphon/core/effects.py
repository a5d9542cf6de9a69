"""What the core asks of the world around it: datagrams to send, each with a counter of its own."""

from msgspec import Struct


class Datagram(Struct, frozen=True):
    """One send: a packet, or a train of packets of `stride_bytes` each (the last may be shorter)."""

    receiver: int
    """The number of the receiving daemon, or EVERYBODY if there are several."""
    buffers: list[bytes | memoryview]
    """The bytes in order, for a scatter-gather write."""
    stride_bytes: int
    size_bytes: int
    receivers: tuple[int, ...] = ()
    """Several daemons of one site that are all to get it: by one multicast, or one copy each."""
    is_whole: bool = False
    """Whether it must arrive as it is or not at all: nothing on the way may cut it into IP fragments."""


class DatagramCounter:
    """Numbers the datagrams of one process, whatever is in them: the nonce of a seal.

    Each sending process has one, and all that builds packets there takes values from it.
    """

    def __init__(self) -> None:
        self._next = 1

    def take(self, count: int = 1) -> int:
        """A fresh value; of `count` consecutive ones the first."""
        first = self._next
        self._next = first + count
        return first


class Outbox(list[Datagram]):
    """What a node wants sent, in order, until its driver has taken it.

    Everything between daemons goes through `append`: `core.sealing` has an outbox that seals it there.
    """

    seal = 0
    """What stands for the seal in the heads of packets that are handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = DatagramCounter()
        """The counter of the process, also for packets that its driver makes."""
