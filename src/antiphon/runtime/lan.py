"""The LAN of this machine: its interfaces, and sockets for multicasts that stay in it."""

import fcntl
import socket
import struct
from collections.abc import Iterator

from antiphon.errors import ConnectError

LOOPBACK = "127.0.0.1"
INTERFACES_MAX = 16
"""Interfaces of a machine that are looked at."""

_SIOCGIFFLAGS = 0x8913
_SIOCGIFADDR = 0x8915
_IFF_UP = 0x1
_IFF_LOOPBACK = 0x8
_IFF_MULTICAST = 0x1000


def interfaces() -> Iterator[str]:
    """The IPv4 address of each interface that is up: first of those that are said to multicast, last that of
    loopback."""
    others = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex()[:INTERFACES_MAX]:
            request = struct.pack("256s", name.encode()[:15])
            try:
                (flags,) = struct.unpack_from("H", fcntl.ioctl(asking, _SIOCGIFFLAGS, request), 16)
                address = socket.inet_ntoa(fcntl.ioctl(asking, _SIOCGIFADDR, request)[20:24])
            except OSError:
                continue  # it has no IPv4 address, or is gone
            if not flags & _IFF_UP or flags & _IFF_LOOPBACK:
                continue
            if flags & _IFF_MULTICAST:
                yield address
            else:
                others.append(address)
    yield from others
    yield LOOPBACK


def interface_towards(group: tuple[str, int]) -> str:
    """The address of the interface over which this machine multicasts: the one to which the system routes the
    group; or the first one that can."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(group)
            return str(asking.getsockname()[0])
        except OSError:
            return next(interfaces())


def sender(interface: str) -> socket.socket:
    """A socket at a free port of an interface, whose multicasts stay in its LAN and come back to this
    machine, too."""
    sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sending.setblocking(False)
        sending.bind((interface, 0))
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    except OSError as error:
        sending.close()
        raise ConnectError(f"cannot multicast over {interface}: {error.strerror or error}") from None
    return sending


def receiver(group: tuple[str, int], interface: str) -> socket.socket:
    """A socket that receives what is multicast to a group over an interface."""
    joined = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        joined.setblocking(False)
        joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # daemons of one machine share it
        joined.bind(group)
        place = socket.inet_aton(group[0]) + socket.inet_aton(interface)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, place)
    except OSError as error:
        joined.close()
        raise ConnectError(
            f"cannot join multicast group {group[0]}:{group[1]} over {interface}: {error.strerror or error}"
        ) from None
    return joined
