"""One send for a whole site: IP multicast, wherever a probe has shown that it gets through.

Each daemon of a site that has others joins the site's group and sends a probe to it now and then; a daemon
that receives the probe answers by unicast. A daemon multicasts what is for several others only while all of
them have answered lately, and otherwise sends a copy to each. So the choice is every sender's own, needs no
agreement, and follows the network: where multicast stops working, copies take its place a few seconds later,
and what was lost meanwhile the ring sends again.

The group's address follows from the configuration, which all daemons share (RMP, section 4, does the same
with a name).
"""

import socket
from collections.abc import Collection
from typing import TYPE_CHECKING

from antiphon import config as configuration
from antiphon.config import Config
from antiphon.core.effects import Datagram, DatagramCounter
from antiphon.errors import BadPacket
from antiphon.runtime.udp import Deliver, UdpSocket, enlarge
from antiphon.wire import packet, trains, versions
from antiphon.wire.packet import EVERYBODY, Loose, Packet, PacketKind

if TYPE_CHECKING:
    from antiphon.core.sealing.seal import Door

PROBE_INTERVAL_US = 2_000_000
PROBE_FIRST_US = 50_000
"""The wait after the first probe; it doubles up to the interval."""
ANSWER_GOOD_US = 3 * PROBE_INTERVAL_US
"""How long an answer to a probe is valid."""
PORTS = (20_000, 10_000)
"""Groups use a port of these: from the first on, so many."""

_PROBE_KINDS = (int(PacketKind.PROBE), int(PacketKind.PROBED))


def group_of(config: Config, site: int) -> tuple[str, int]:
    """The site's multicast address: one of those for private use, and hardly that of another cluster."""
    chosen = config.sites[site].multicast
    if chosen not in ("auto", "off"):
        return configuration.address(chosen)
    mixed = (config.digest * 2_654_435_761 + site * 40_503) & 0xFFFFFFFF
    first, span = PORTS
    return f"239.{192 + (mixed >> 24) % 4}.{mixed >> 16 & 0xFF}.{mixed >> 8 & 0xFF}", first + mixed % span


class Multicast:
    """The multicast group of one daemon's site."""

    def __init__(
        self,
        config: Config,
        me: int,
        incarnation: int,
        udp: UdpSocket,
        counter: DatagramCounter,
        now_us: int,
        seal: "Door | None" = None,
    ) -> None:
        """`counter` and `seal` are those of the node, because probes are datagrams of the same process."""
        site = config.site_of(me)
        self.address = group_of(config, site)
        self.reason = ""
        """Why there is no multicast, if there is none."""
        self._mates = frozenset(config.daemons_of(site)) - {me}
        self._digest = config.digest
        self._me = me
        self._incarnation = incarnation
        self._udp = udp
        self._counter = counter
        self._seal = seal
        self._answered_us: dict[int, int] = {}
        self._probe_us = now_us
        self._wait_us = PROBE_FIRST_US
        self._socket: socket.socket | None = None
        if config.sites[site].multicast == "off":
            self.reason = "switched off in the configuration"
        elif not udp.is_version_4:
            self.reason = "only with addresses of IP version 4"
        else:
            self._open()

    def _open(self) -> None:
        joined = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            joined.setblocking(False)
            joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # daemons of one machine share it
            enlarge(joined)
            joined.bind(self.address)
            place = socket.inet_aton(self.address[0]) + socket.inet_aton(str(self._udp.address[0]))
            joined.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, place)
            self._udp.add_group(self.address)
            self._reader = self._udp.reader_of(joined)
            self._socket = joined
        except OSError as error:
            joined.close()
            self.reason = f"{self.address[0]}:{self.address[1]}: {error.strerror or error}"

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def fileno(self) -> int:
        assert self._socket is not None
        return self._socket.fileno()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # Sending ----------------------------------------------------------------------------------------------

    def send(self, datagram: Datagram, now_us: int) -> bool:
        """Multicast what is for several daemons; False, and nothing was sent, if not all would get it."""
        if self._socket is None or self.unheard(datagram.receivers, now_us):
            return False
        self._udp.send_to_group(datagram)
        return True

    def unheard(self, receivers: Collection[int], now_us: int) -> list[int]:
        """The receivers that have answered no probe lately."""
        good_us = now_us - ANSWER_GOOD_US
        answered_us = self._answered_us
        return [number for number in receivers if answered_us.get(number, -1) < good_us]

    # Receiving --------------------------------------------------------------------------------------------

    def drain(self, deliver: Deliver) -> None:
        """Read what others sent to the group; our own comes back to us, and is left out."""
        me = self._me

        def take(data: memoryview, stride_bytes: int, origin: int | None) -> None:
            if versions.sender_of(data) != me:
                deliver(data, stride_bytes, origin)

        self._reader.drain(take)

    def is_probe(self, data: memoryview) -> bool:
        """Whether a datagram is for this class and not for the node."""
        return versions.kind_of(data) in _PROBE_KINDS

    def take(self, data: memoryview, now_us: int, origin: int | None = None) -> bool:
        """A probe, or the answer to one, of the daemon `origin` if that is known; False if it is neither."""
        found = self._read(data, now_us, origin)
        if found is None:
            return self._seal is not None  # what was sealed cannot be opened again
        head = found.head
        if (
            not isinstance(found, Loose)
            or head.digest != self._digest
            or head.sender not in self._mates
            or origin not in (None, head.sender)
        ):
            return self._seal is not None
        if head.kind == PacketKind.PROBE:
            self._send(PacketKind.PROBED, head.sender)
        elif head.receiver == self._me:
            self._answered_us[head.sender] = now_us
        return True

    def _read(self, data: memoryview, now_us: int, origin: int | None) -> Packet | None:
        """The packet, if it can be read."""
        if self._seal is None:
            read = trains.parse_train(data, len(data))
        else:
            read = self._seal.read(data, len(data), now_us, origin)
        for found in read:
            if not isinstance(found, BadPacket):
                return found
            if self._seal is not None:
                self._seal.counters[found.reason] += 1
        return None

    # Probing ----------------------------------------------------------------------------------------------

    def next_due_us(self) -> int | None:
        """When to probe again."""
        return None if self._socket is None else self._probe_us

    def timeout(self, now_us: int) -> None:
        """Probe, if it is time."""
        if self._socket is None or now_us < self._probe_us:
            return
        self._probe_us = now_us + self._wait_us
        self._wait_us = min(PROBE_INTERVAL_US, 2 * self._wait_us)
        self._send(PacketKind.PROBE, EVERYBODY)

    def _send(self, kind: PacketKind, receiver: int) -> None:
        data = packet.whole(
            packet.prefix(
                kind,
                digest=self._digest,
                sender=self._me,
                receiver=receiver,
                incarnation=self._incarnation,
                seal=0 if self._seal is None else self._seal.outbox.seal,
            ),
            counter=self._counter.take(),
        )
        datagram = Datagram(receiver, [data], len(data), len(data))
        self._udp.send(datagram if self._seal is None else self._seal.sealed(datagram))

    # Looking ----------------------------------------------------------------------------------------------

    def status(
        self, names: tuple[str, ...], now_us: int, vacant: frozenset[int] = frozenset()
    ) -> dict[str, object]:
        """For `antiphon status`: the address, and who would not hear a multicast of ours. No daemon bears the
        `vacant` numbers."""
        unheard = self.unheard(sorted(self._mates - vacant), now_us)
        return {
            "address": f"{self.address[0]}:{self.address[1]}",
            "works": self.is_open and not unheard,
            "unheard_by": [names[number] for number in unheard],
            "reason": self.reason,
        }
