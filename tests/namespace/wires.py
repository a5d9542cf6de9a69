"""Network namespaces for daemons, each with a single wire whose other end is held by this process.

Neither names nor files: a namespace lives as long as a process is in it or somebody holds its descriptor. So
nothing is left behind, however a run ends, and any number of runs can go on side by side, with the same
addresses.

The wire is a TUN device: what the daemon's kernel sends over it, segmented and with its checksums, can be
read from a descriptor here, and what is written there arrives. It needs no program beside Python, no packet
filter and no queueing discipline, of which kernels have one set or another.
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import IPv4Address

from msgspec import Struct

NETWORK = IPv4Address("10.77.0.0")
MASK = IPv4Address("255.255.255.0")
DAEMONS_MAX = 250
MTU_BYTES = 9_100
"""For the largest packets that a link may be configured for in a plan, and the heads before them."""
QUEUE_PACKETS = 10_000
"""What the kernel holds for a wire whose reader is late; the default of 500 would be a fault of its own."""

_DEVICE = "/dev/net/tun"
_NAME = b"wire0"
_CLONE_NEWNET = 0x4000_0000
_TUNSETIFF = 0x4004_54CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_IFF_UP, _IFF_RUNNING = 0x0001, 0x0040
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
_SIOCSIFMTU, _SIOCSIFTXQLEN = 0x8922, 0x8943


class Wire(Struct, frozen=True):
    """One namespace: where a daemon lives, and the other end of its wire."""

    namespace: int
    """A descriptor to `enter`."""
    end: int
    """A descriptor that gives and takes IP packets, one a call, and never blocks."""

    def close(self) -> None:
        """Let go; the namespace ends with the last process in it."""
        os.close(self.end)
        os.close(self.namespace)


def host_of(daemon: int) -> str:
    """The address of a daemon by its number.

    >>> host_of(0)
    '10.77.0.1'
    """
    return str(NETWORK + daemon + 1)


def daemon_at(address: bytes | memoryview) -> int:
    """The number of the daemon with an address as it stands in an IP packet; some number for any other.

    >>> daemon_at(bytes((10, 77, 0, 1)))
    0
    """
    return address[3] - 1


def lay(daemon: int, mtu_bytes: int = MTU_BYTES) -> Wire:
    """A namespace for one daemon."""
    assert daemon < DAEMONS_MAX
    # Only the thread that asks for it moves to the new namespace, and it ends at once.
    with ThreadPoolExecutor(max_workers=1) as elsewhere:
        return elsewhere.submit(_lay, daemon, mtu_bytes).result()


def enter(namespace: int) -> None:
    """Move this thread, and the threads and processes that it will start, to a namespace."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise _last_error("setns")


def why_not() -> str:
    """What keeps this process from having namespaces; empty if nothing does."""
    try:
        lay(0).close()
    except OSError as error:
        return f"needs network namespaces and {_DEVICE}, which root may have: {error}"
    return ""


def _lay(daemon: int, mtu_bytes: int) -> Wire:
    with ExitStack() as opened:
        # The device belongs to the namespace in which it is opened, but its file is looked up anywhere.
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
            raise _last_error("unshare")
        end = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        opened.callback(os.close, end)
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", _NAME, _IFF_TUN | _IFF_NO_PI))
        _configure(daemon, mtu_bytes)
        namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        opened.pop_all()
        return Wire(namespace, end)


def _configure(daemon: int, mtu_bytes: int) -> None:
    """Addresses and the rest, as `ip` would set them."""
    up = struct.pack("H", _IFF_UP | _IFF_RUNNING)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        for name, request, value in (
            (b"lo", _SIOCSIFFLAGS, up),
            (_NAME, _SIOCSIFADDR, _inet(IPv4Address(host_of(daemon)))),
            (_NAME, _SIOCSIFNETMASK, _inet(MASK)),
            (_NAME, _SIOCSIFMTU, struct.pack("i", mtu_bytes)),
            (_NAME, _SIOCSIFTXQLEN, struct.pack("i", QUEUE_PACKETS)),
            (_NAME, _SIOCSIFFLAGS, up),
        ):
            fcntl.ioctl(door, request, struct.pack("16s24s", name, value))


def _inet(address: IPv4Address) -> bytes:
    return struct.pack("=HH4s", socket.AF_INET, 0, address.packed)


def _last_error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def close_all(wires: Iterable[Wire]) -> None:
    """The end of a whole network."""
    for wire in wires:
        wire.close()
