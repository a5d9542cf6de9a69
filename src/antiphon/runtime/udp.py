"""The UDP socket between daemons: whole trains of packets in one system call where the kernel can do it.

With generic segmentation offload (GSO) the kernel cuts one buffer into packets of equal size; with generic
receive offload (GRO) it hands over packets of equal size as one buffer and their size beside it. Each is used
only where `probe` has seen it work on this machine; the plain path sends and reads packet by packet.

A datagram that must arrive whole or not at all (`Datagram.is_whole`) goes out with the don't-fragment flag,
and without regard to what the kernel believes the path to carry. One that does not even fit the first network
is counted; for its link it is lost like any other probe. The option is set for that one send: a second socket
at the same address would take packets away from the first, and probes are rare.

A packet that the socket does not take at once is dropped and counted. The links above recover it and their
congestion windows shrink, just as for a packet lost on the way; a queue here would only hide the congestion
from them and add delay.
"""

import errno
import functools
import socket
import struct
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from antiphon.core.effects import Datagram
from antiphon.errors import ConnectError
from antiphon.runtime.addresses import Addresses, SocketAddress
from antiphon.wire.packet import EVERYBODY

READS_PER_WAKE = 16
"""Then clients and timers get their turn; at most a MiB in trains."""
BUFFER_BYTES = 128 * 1024
"""More than the largest train that the kernel hands over (64 KiB)."""
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
IOVEC_MAX = 1_024

_SOL_UDP = 17
_UDP_SEGMENT = 103
_UDP_GRO = 104
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("9I")
_MEMINFO_DROPS = 8
_MTU_DISCOVER = {
    socket.AF_INET: (socket.IPPROTO_IP, 10),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 23),
}
"""The option IP_MTU_DISCOVER or IPV6_MTU_DISCOVER, by the family of a socket."""
_PMTUDISC_PROBE = 3
_STRIDE = struct.Struct("=H")
_GRO_SEGMENT = struct.Struct("=i")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_GRO_SEGMENT.size)
_FULL = (errno.EAGAIN, errno.ENOBUFS)
_NO_SEGMENTATION = (errno.EINVAL, errno.EMSGSIZE, errno.EIO, errno.EOPNOTSUPP)

Deliver = Callable[[memoryview, int, int | None], None]
"""Called with a datagram or a train, the size of its packets, and whose address it came from: the number of a
daemon, STRANGER, or None if nothing follows from it."""


class Offload(Struct, frozen=True):
    """Which of the kernel's train services to use."""

    gso: bool
    gro: bool


PLAIN = Offload(gso=False, gro=False)


class UdpCounters(Struct):
    """What happened on the socket since the start, in packets unless named otherwise."""

    trains_sent: int = 0
    trains_received: int = 0
    dropped_full: int = 0
    """The socket's send buffer was full."""
    send_errors: int = 0
    receive_errors: int = 0
    gso_refused: int = 0
    """Peers on whose path the kernel would not segment: they get their packets one by one."""
    no_address: int = 0
    """For daemons that have gone, in a cluster without a file."""
    too_large: int = 0
    """Probes of a path that were larger than the first network carries."""
    last_error: str = ""


class UdpSocket:
    """Sends the node's datagrams and reads what other daemons sent."""

    def __init__(
        self, address: tuple[str, int], peers: Mapping[int, tuple[str, int]], offload: Offload | None = None
    ) -> None:
        self.offload = probe() if offload is None else offload
        self.counters = UdpCounters()
        self.addresses = Addresses(address, peers)
        self._own, self._peers = self.addresses.own, self.addresses.targets
        self._one_by_one: set[int] = set()
        self._gso_options: dict[int, list[tuple[int, int, bytes]]] = {}
        self._socket = _bind(self.addresses.family, self._own, address)
        if address[1] == 0:
            self._own = self.addresses.own = self._socket.getsockname()
        self._reader = self.reader_of(self._socket)
        self._discover = _MTU_DISCOVER[self._socket.family]
        self._discover_usual = self._socket.getsockopt(*self._discover)

    def reader_of(self, source: socket.socket) -> "TrainReader":
        """A reader of what our peers send to a socket."""
        return TrainReader(source, self.offload, self.counters, self.addresses.origin)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def kernel_drops(self) -> int:
        """Packets that the kernel threw away because this socket was not read fast enough."""
        try:
            figures = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            return int(_MEMINFO.unpack(figures)[_MEMINFO_DROPS])
        except (OSError, struct.error):
            return 0

    # Sending ----------------------------------------------------------------------------------------------

    @property
    def address(self) -> SocketAddress:
        """Our own."""
        return self._own

    @property
    def is_version_4(self) -> bool:
        """Whether addresses are of IP version 4."""
        return self._socket.family == socket.AF_INET

    def add_group(self, address: tuple[str, int]) -> None:
        """From now on, datagrams for the receiver `EVERYBODY` go to this multicast group."""
        interface = socket.inet_aton(str(self._own[0]))
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        self._peers[EVERYBODY] = address

    def send(self, datagram: Datagram) -> None:
        """Hand the datagram's packets to the kernel, once for each receiver; never raises for what the
        network does."""
        buffers = datagram.buffers
        if len(buffers) > IOVEC_MAX:
            buffers = [b"".join(buffers)]
        for receiver in datagram.receivers or (datagram.receiver,):
            try:
                address = self._peers[receiver]
            except KeyError:
                self.counters.no_address += 1
                continue
            if datagram.is_whole:
                self._send_whole(buffers, address)
            else:
                self._send_to(receiver, address, datagram, buffers)

    def send_to_group(self, datagram: Datagram) -> None:
        """Hand the datagram's packets to the kernel once, for the multicast group."""
        buffers = datagram.buffers
        if len(buffers) > IOVEC_MAX:
            buffers = [b"".join(buffers)]
        self._send_to(EVERYBODY, self._peers[EVERYBODY], datagram, buffers)

    def _send_to(
        self, receiver: int, address: SocketAddress, datagram: Datagram, buffers: list[bytes | memoryview]
    ) -> None:
        self.counters.trains_sent += 1
        stride_bytes = datagram.stride_bytes
        if datagram.size_bytes <= stride_bytes:
            self._send(buffers, address)
        elif not self.offload.gso or receiver in self._one_by_one:
            self._send_one_by_one(datagram, address)
        else:
            try:
                self._socket.sendmsg(buffers, self._gso_option(stride_bytes), 0, address)
            except OSError as error:
                self._not_segmented(receiver, datagram, address, error)

    def _send_whole(self, buffers: list[bytes | memoryview], address: SocketAddress) -> None:
        self.counters.trains_sent += 1
        self._socket.setsockopt(*self._discover, _PMTUDISC_PROBE)
        try:
            self._socket.sendmsg(buffers, (), 0, address)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                self.counters.too_large += 1
            else:
                self._failed(error, 1)
        finally:
            self._socket.setsockopt(*self._discover, self._discover_usual)

    def _gso_option(self, stride_bytes: int) -> list[tuple[int, int, bytes]]:
        option = self._gso_options.get(stride_bytes)
        if option is None:
            if len(self._gso_options) >= IOVEC_MAX:
                self._gso_options.clear()
            option = [(_SOL_UDP, _UDP_SEGMENT, _STRIDE.pack(stride_bytes))]
            self._gso_options[stride_bytes] = option
        return option

    def _not_segmented(
        self, receiver: int, datagram: Datagram, address: SocketAddress, error: OSError
    ) -> None:
        """A path may refuse what loopback allowed: packets beyond its MTU, a device without checksums."""
        if error.errno in _NO_SEGMENTATION:
            self._one_by_one.add(receiver)
            self.counters.gso_refused += 1
            self._send_one_by_one(datagram, address)
        else:
            self._failed(error, -(-datagram.size_bytes // datagram.stride_bytes))

    def _send_one_by_one(self, datagram: Datagram, address: SocketAddress) -> None:
        train = memoryview(b"".join(datagram.buffers))
        for at in range(0, datagram.size_bytes, datagram.stride_bytes):
            self._send([train[at : at + datagram.stride_bytes]], address)

    def _send(self, buffers: list[bytes | memoryview], address: SocketAddress) -> None:
        try:
            self._socket.sendmsg(buffers, (), 0, address)
        except OSError as error:
            self._failed(error, 1)

    def _failed(self, error: OSError, packets: int) -> None:
        if error.errno in _FULL:
            self.counters.dropped_full += packets
        else:
            self.counters.send_errors += packets
            self.counters.last_error = error.strerror or str(error)

    # Receiving --------------------------------------------------------------------------------------------

    def drain(self, deliver: Deliver) -> None:
        """Read what waits, up to a fair share, and hand each train to `deliver`; its buffer is reused."""
        self._reader.drain(deliver)

    def discard(self) -> None:
        """Throw away what waits: it came while there was nobody to answer, and a late answer would be taken
        for a long round trip."""
        for _ in range(READS_PER_WAKE):
            before = self.counters.trains_received
            self._reader.drain(lambda data, stride_bytes, origin: None)
            if self.counters.trains_received == before:
                return


class TrainReader:
    """Reads the trains that come to one socket."""

    def __init__(
        self,
        source: socket.socket,
        offload: Offload,
        counters: UdpCounters,
        origin: Callable[[SocketAddress], int | None],
    ) -> None:
        """`origin` says whose address one is."""
        self._socket = source
        self._origin = origin
        self._counters = counters
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._read = self._read_packet
        if offload.gro:
            source.setsockopt(_SOL_UDP, _UDP_GRO, 1)
            self._read = self._read_train

    def drain(self, deliver: Deliver) -> None:
        """Read what waits, up to a fair share, and hand each train to `deliver`; its buffer is reused."""
        read = self._read
        for _ in range(READS_PER_WAKE):
            try:
                size, stride_bytes, address = read()
            except BlockingIOError:
                return
            except OSError as error:  # an ICMP message about something sent earlier
                self._counters.receive_errors += 1
                self._counters.last_error = error.strerror or str(error)
                continue
            self._counters.trains_received += 1
            deliver(self._view[:size], stride_bytes, self._origin(address))

    def _read_packet(self) -> tuple[int, int, SocketAddress]:
        size, address = self._socket.recvfrom_into(self._view)
        return size, size, address

    def _read_train(self) -> tuple[int, int, SocketAddress]:
        size, ancillary, _flags, address = self._socket.recvmsg_into((self._view,), _ANCILLARY_BYTES)
        for level, kind, data in ancillary:
            if level == _SOL_UDP and kind == _UDP_GRO:
                return size, _GRO_SEGMENT.unpack(data)[0], address
        return size, size, address


def enlarge(bound: socket.socket) -> None:
    """Give the socket room for what comes while the daemon is busy with something else."""
    for option, forced in ((socket.SO_RCVBUF, _SO_RCVBUFFORCE), (socket.SO_SNDBUF, _SO_SNDBUFFORCE)):
        try:
            bound.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BUFFER_BYTES)
        except PermissionError:  # only root may go beyond the system's limit
            bound.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)


def _bind(family: int, own: SocketAddress, address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_DGRAM)
    try:
        bound.setblocking(False)
        enlarge(bound)
        bound.bind(own)
    except OSError as error:
        bound.close()
        raise ConnectError(
            f"UDP address {address[0]}:{address[1]} cannot be used: {error.strerror}"
        ) from None
    return bound


# What this kernel can do ------------------------------------------------------------------------------------

_PROBE_STRIDE_BYTES = 100
_PROBE_TRAIN = bytes(range(250))
_PROBE_PATIENCE_S = 0.5


@functools.cache
def probe() -> Offload:
    """What works here, found out once per process by sending a small train over loopback."""
    gso = _probe_train(gro=False) == [_PROBE_TRAIN[at : at + 100] for at in (0, 100, 200)]
    gro = gso and _probe_train(gro=True) == [_PROBE_TRAIN]
    return Offload(gso=gso, gro=gro)


def _probe_train(*, gro: bool) -> list[bytes]:
    """What arrives when a train is sent with GSO; with `gro`, only if its packet size came with it."""
    arrived: list[bytes] = []
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        ):
            receiver.bind(("127.0.0.1", 0))
            if gro:
                receiver.setsockopt(_SOL_UDP, _UDP_GRO, 1)
            option = (_SOL_UDP, _UDP_SEGMENT, _STRIDE.pack(_PROBE_STRIDE_BYTES))
            sender.sendmsg([_PROBE_TRAIN], [option], 0, receiver.getsockname())
            deadline = time.monotonic() + _PROBE_PATIENCE_S
            while sum(map(len, arrived)) < len(_PROBE_TRAIN) and (left := deadline - time.monotonic()) > 0:
                receiver.settimeout(left)
                data, ancillary, _flags, _sender = receiver.recvmsg(BUFFER_BYTES, _ANCILLARY_BYTES)
                if gro and (_SOL_UDP, _UDP_GRO, _GRO_SEGMENT.pack(_PROBE_STRIDE_BYTES)) not in ancillary:
                    return []
                arrived.append(data)
    except OSError:
        return []
    return arrived
