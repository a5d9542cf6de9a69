"""Where other daemons are: to which address we send, and from which ones we believe that they did.

Daemons send from the address that the configuration gives them, so a datagram in the name of one that comes
from elsewhere is not its own. That costs one look-up for each train. Names are resolved when the daemon
starts, and again, in a thread of its own, when datagrams come from an address that is none of those known: a
daemon may have moved. An address that says nothing about the host (such as 0.0.0.0) is not checked, nor is
any where the configuration says so, for networks that rewrite addresses.
"""

import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping

from antiphon.errors import ConfigError

SocketAddress = tuple[str | int | bytes, ...]

STRANGER = -1
"""Stands for a daemon's number where the sender's address is that of no daemon."""
RESOLVE_INTERVAL_US = 30_000_000
"""How often names are resolved."""


class Addresses:
    """The addresses of the daemons that one daemon talks to."""

    def __init__(self, own: tuple[str, int], peers: Mapping[int, tuple[str, int]]) -> None:
        """ConfigError if one cannot be resolved."""
        self.family, self.own, found = _resolve_all(own, peers)
        self.targets = {number: places[0] for number, places in found.items()}
        """The address to send to, by daemon number."""
        self.is_checked = True
        """Whether it matters from where something comes."""
        self._names = {number: peer for number, peer in peers.items() if not is_number(peer[0])}
        self._places = found
        self._resolve_us = 0
        self._know()

    def _know(self) -> None:
        self._origins: dict[SocketAddress, int | None] = {}
        self._others: int | None = STRANGER
        for number, places in self._places.items():
            for place in places:
                host, port = place[:2]
                if ipaddress.ip_address(str(host).partition("%")[0]).is_unspecified:
                    self._others = None
                known = self._origins.get((host, port), number)
                self._origins[host, port] = number if known == number else None

    def origin(self, address: SocketAddress) -> int | None:
        """Whose address this is: a daemon's number, or STRANGER; None if nothing follows from it."""
        if not self.is_checked:
            return None
        return self._origins.get(address[:2], self._others)

    def assign(self, places: Mapping[int, tuple[str, int]]) -> None:
        """These are the other daemons from now on, by number: in a cluster without a file they come and go.
        Hosts are given as numbers."""
        for number in [number for number in self._places if number not in places]:
            del self.targets[number]
        self._places = {number: [place] for number, place in places.items()}
        self.targets.update(places)
        self._know()

    def find_out(self, call_soon: Callable[[Callable[[], None]], object], now_us: int) -> None:
        """A stranger has sent something: resolve the names again, unless that was done lately. `call_soon`
        has a function called in the thread that uses this object."""
        if not self._names or now_us < self._resolve_us:
            return
        self._resolve_us = now_us + RESOLVE_INTERVAL_US

        def resolve() -> None:
            found: dict[int, list[SocketAddress]] = {}
            for number, peer in self._names.items():
                try:
                    found[number] = [place for _, place in _resolve(peer, self.family)]
                except ConfigError:
                    continue  # what was known stays
            call_soon(lambda: self._moved(found))

        threading.Thread(target=resolve, name="antiphon-resolver", daemon=True).start()

    def _moved(self, found: dict[int, list[SocketAddress]]) -> None:
        self._places.update(found)
        for number, places in found.items():
            if self.targets[number] not in places:
                self.targets[number] = places[0]
        self._know()


def is_number(host: str) -> bool:
    """Whether a host is given as an IP address, so that nobody has to be asked for it."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_on_loopback(connection: socket.socket) -> bool:
    """Whether a TCP socket is bound to this machine alone, or connected to it."""
    try:
        host = connection.getpeername()[0]
    except OSError:
        host = connection.getsockname()[0]
    address = ipaddress.ip_address(str(host).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _resolve_all(
    own: tuple[str, int], peers: Mapping[int, tuple[str, int]]
) -> tuple[int, SocketAddress, dict[int, list[SocketAddress]]]:
    """The socket family, our own address and those of each peer, all of that one family.

    A host name may have addresses of both families: the first one of ours in which every peer can be
    reached is taken.
    """
    first_error: ConfigError | None = None
    for family, address in _resolve(own):
        try:
            found = {number: [place for _, place in _resolve(peer, family)] for number, peer in peers.items()}
        except ConfigError as error:
            first_error = first_error or error
        else:
            return family, address, found
    assert first_error is not None
    raise first_error


def _resolve(address: tuple[str, int], family: int = socket.AF_UNSPEC) -> list[tuple[int, SocketAddress]]:
    """The socket families and addresses of (host, port), at least one."""
    host, port = address
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)
    except OSError as error:
        raise ConfigError(f"UDP address {host}:{port} cannot be resolved: {error.strerror}") from None
    return [(kind, place) for kind, _, _, _, place in found]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a host whose name says nothing counts as any other."""
    try:
        found = {str(place[4][0]).partition("%")[0] for place in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(one).is_loopback for one in found)
