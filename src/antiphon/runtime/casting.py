"""The sockets with which an edge multicasts to those behind it, and hears its coordinator.

An edge joins a group only while its node cares for what comes there: the one of its coordinator, over the
interface over which it is connected with it, and its own as long as edges behind it can hear. Where that
cannot be, nothing is lost: who does not hear is fed over its connection. Inside of one machine that costs
less than packets which fit into a network's, so multicasts are not used there unless they are asked for.

What is multicast comes back to this machine, where other edges may run; an edge knows its own by the address
from which it came.
"""

import ipaddress
import os
import socket
from collections import Counter
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from antiphon.config import address
from antiphon.core.edge.node import EdgeNode
from antiphon.core.sealing.casts import PACKET_MAX_BYTES
from antiphon.errors import AntiphonError, ConfigError
from antiphon.runtime.addresses import is_number
from antiphon.runtime.lan import LOOPBACK, interface_towards, receiver, sender
from antiphon.runtime.loop import READABLE, Loop, now_us
from antiphon.runtime.udp import enlarge
from antiphon.runtime.upstream import UpstreamSockets

PORTS = (20_000, 10_000)
"""Casts use a port of these: from the first on, so many."""
READS_PER_WAKE = 256
"""Datagrams; then connections, clients and timers get their turn."""
ANY_ADDRESS = ("0.0.0.0", "")


def new_place() -> str:
    """Where an edge multicasts: an address for private use, and hardly that of another one."""
    first, span = PORTS
    second, third, fourth = os.urandom(3)
    port = first + int.from_bytes(os.urandom(4), "big") % span
    return f"239.{192 + second % 4}.{third}.{fourth}:{port}"


def own_interface(reach: Sequence[str]) -> str:
    """The address of the interface over which an edge multicasts that others reach at these places; empty
    for the one that the system takes."""
    for place in reach:
        scheme, _, where = place.partition(":")
        if scheme == "unix":
            return LOOPBACK
        host, _ = address(where)
        if is_number(host) and ":" not in host and host not in ANY_ADDRESS:
            return host
    return "" if reach else LOOPBACK


class Joined(Struct):
    """A multicast group of which this edge is a member."""

    group: tuple[str, int]
    incoming: socket.socket
    outgoing: socket.socket


class CastSockets:
    """An edge's multicasts."""

    def __init__(
        self, loop: Loop, node: EdgeNode, upstream: UpstreamSockets, interface: str, *, is_local: bool
    ) -> None:
        """`interface` is the one over which it multicasts to those behind it. With `is_local` it multicasts
        and hears inside of this machine, too."""
        self.reasons: dict[str, str] = {}
        """Why there is no multicast at a place."""
        self.counters: Counter[str] = Counter()
        self._loop = loop
        self._node = node
        self._upstream = upstream
        self._interface = interface
        self._is_local = is_local
        self._wanted: frozenset[str] = frozenset()
        self._joined: dict[str, Joined] = {}
        self._buffer = memoryview(bytearray(PACKET_MAX_BYTES + 1))  # what is longer is none of ours

    def close(self) -> None:
        """All groups are left."""
        for place in list(self._joined):
            self._leave(place)
        self._wanted = frozenset()

    # The daemon's turn ------------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Join and leave as the node wants it, and send what it has left."""
        wanted = self._node.cast_places
        if wanted != self._wanted:
            self._follow(wanted)
        if not self._node.casts:
            return
        sent, self._node.casts[:] = list(self._node.casts), []
        for place, data in sent:
            joined = self._joined.get(place)
            if joined is None:
                continue
            try:
                joined.outgoing.sendto(data, joined.group)
            except OSError:  # no room, or no way: as if it were lost on the way
                self.counters["not_sent"] += 1

    def _follow(self, wanted: frozenset[str]) -> None:
        for place in self._wanted - wanted:
            self._leave(place)
            self.reasons.pop(place, None)
        for place in sorted(wanted - self._wanted):
            try:
                self._join(place)
            except (AntiphonError, OSError) as error:
                self.reasons[place] = str(error)
        self._wanted = wanted

    def _join(self, place: str) -> None:
        group = _checked(place)
        if place == self._node.casts_at:
            interface = self._interface or interface_towards(group)
        else:
            main = self._node.links.main
            interface = "" if main is None else self._upstream.interface_of(main.link)
        if not interface:
            raise ConfigError("its coordinator is not reached over IPv4")
        if ipaddress.IPv4Address(interface).is_loopback and not self._is_local:
            raise ConfigError("inside of one machine copies cost less")
        outgoing = sender(interface)
        try:
            incoming = receiver(group, interface)
        except BaseException:
            outgoing.close()
            raise
        enlarge(incoming)
        joined = self._joined[place] = Joined(group, incoming, outgoing)
        own = outgoing.getsockname()
        self._loop.register(incoming.fileno(), partial(self._read, joined, own), READABLE)

    def _leave(self, place: str) -> None:
        joined = self._joined.pop(place, None)
        if joined is not None:
            self._loop.unregister(joined.incoming.fileno())
            joined.incoming.close()
            joined.outgoing.close()

    # Reading ----------------------------------------------------------------------------------------------

    def _read(self, joined: Joined, own: tuple[str, int], _events: int) -> None:
        now = now_us()
        for _ in range(READS_PER_WAKE):
            try:
                size, origin = joined.incoming.recvfrom_into(self._buffer)
            except OSError:  # nothing more
                return
            if origin != own:
                self.take(self._buffer[:size], now)

    def take(self, data: memoryview, now: int) -> None:
        """A datagram has come."""
        self._node.cast(data, now)

    # Looking ----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        """For `antiphon status`."""
        return {
            "joined": sorted(self._joined),
            "reasons": dict(self.reasons),
            "not_sent": self.counters["not_sent"],
        }


def _checked(place: str) -> tuple[str, int]:
    """The group that a coordinator has told, if it is one for use inside an organisation."""
    host, port = address(place)
    try:
        group = ipaddress.IPv4Address(host)
    except ValueError:
        group = None
    if group is None or group not in ipaddress.IPv4Network("239.0.0.0/8") or port < 1_024:
        raise ConfigError(f"{place} is no multicast address for private use")
    return host, port
