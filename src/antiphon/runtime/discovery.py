"""Discovery on real sockets: the multicast group of a cluster's name, and who is in it.

Two sockets: one is in the group, the other one sends, and gets what is answered to it alone. What comes in is
parsed with limits and handed to the state machine (`core.discovery`); what cannot be read, and what is of
another cluster whose name has the same hash, is counted and dropped. Beacons are few (one a second of each
daemon), and answers to clients have a bound.
"""

import os
import re
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from antiphon import limits
from antiphon.config import UNIX_PATH_MAX_BYTES, Config, discovered, named
from antiphon.core.discovery.discovery import Discovery
from antiphon.core.discovery.roster import Entry
from antiphon.core.discovery.waits import Waits
from antiphon.core.sealing.beacons import GROWS_BYTES, Beacons
from antiphon.core.sealing.keys import Keys
from antiphon.errors import BadPacket, ConfigError
from antiphon.runtime import lan
from antiphon.runtime.loop import now_us, wall_us
from antiphon.runtime.udp import Offload, UdpSocket
from antiphon.types import check_name
from antiphon.wire import discovery as wire
from antiphon.wire.discovery import Answer, Beacon, Question, State
from antiphon.wire.versions import kind_of

READS_PER_WAKE = 32
"""Then other sockets have their turn."""
ANSWERS_PER_S = 200
"""Clients that are answered in a second; the others ask again."""
TOLD_AGAIN_US = 60_000_000
"""The time between two warnings that multicast does not get through."""
ADVICE = "use a configuration file instead: `antiphon config example` prints one"
_NOT_IN_NAMES = re.compile(r"[^$-~]+")


def host_name() -> str:
    """The name of this machine, as that of a daemon."""
    label = socket.gethostname().partition(".")[0]
    return _NOT_IN_NAMES.sub("-", label)[: limits.DAEMON_NAME_MAX_BYTES] or "daemon"


def socket_folder() -> Path:
    """Where the unix sockets of daemons without a file are."""
    return Path(tempfile.gettempdir())


def socket_path(cluster: str, daemon: str) -> Path:
    """The unix socket of a daemon of a cluster without a file, for clients on the same machine."""
    path = socket_folder() / f"antiphon:{quote(cluster, safe='')}:{quote(daemon, safe='')}.sock"
    if len(os.fsencode(path)) > UNIX_PATH_MAX_BYTES:
        raise ConfigError(f"the path {path} of a unix socket would be too long; choose shorter names")
    return path


def local_places(cluster: str) -> list[str]:
    """Where daemons of a cluster may listen on this machine: their sockets, also those of dead ones."""
    found = sorted(socket_folder().glob(f"antiphon:{_literally(quote(cluster, safe=''))}:*.sock"))
    return [f"unix:{path}" for path in found]


def _literally(text: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", text)


class Discovering:
    """The part of one process in the discovery of its cluster."""

    def __init__(
        self,
        cluster: str,
        *,
        wish: str | None = None,
        interface: str | None = None,
        offload: Offload | None = None,
        waits: Waits | None = None,
    ) -> None:
        """`wish` is the name that the daemon would like to have, by default the machine's; `interface` the
        address of the network interface to use."""
        check_name(cluster, "cluster", limits.GROUP_NAME_MAX_BYTES)
        check_name(wish or host_name(), "daemon", limits.DAEMON_NAME_MAX_BYTES)
        self.cluster = cluster
        self.group = wire.group_of(cluster)
        self.interface = interface or lan.interface_towards(self.group)
        self.places: tuple[str, ...] = ()
        """Where clients connect, once the daemon listens."""
        self.counters: Counter[str] = Counter()
        self.udp: UdpSocket | None = None
        """The socket to other daemons, until a daemon has taken it."""
        self._offload = offload
        self._beacons: Beacons | None = None
        self._config = discovered(cluster)
        self._answers = 0
        self._answers_until_us = 0
        self._tell_us = 0
        self._sender = lan.sender(self.interface)
        try:
            self._receiver = lan.receiver(self.group, self.interface)
            self.machine = Discovery(
                cluster,
                int.from_bytes(os.urandom(8), "big"),
                wish or host_name(),
                (self.interface, self._bind()),
                now_us=now_us(),
                wall_us=wall_us(),
                waits=waits,
            )
        except BaseException:
            self.close()
            raise

    def seal_with(self, keys: Keys | None) -> None:
        """From now on beacons are sealed with these keys; None: they are not."""
        if keys is None or self._beacons is None:
            self._beacons = None if keys is None else Beacons(keys, os.urandom)
        else:
            self._beacons.keys = keys

    def _bind(self) -> int:
        """Take a free port for packets between daemons."""
        self.udp = UdpSocket((self.interface, 0), {}, self._offload)
        return int(self.udp.address[1])

    def take_udp(self) -> UdpSocket:
        """The bound socket, for a daemon that closes it at its end."""
        taken, self.udp = self.udp, None
        assert taken is not None
        return taken

    def begin_again(self) -> None:
        """The number was lost, and the daemon that had it has ended: the next one has a socket of its own."""
        self.places = ()
        self.machine.losses.clear()
        self.machine.port = self._bind()

    def close(self) -> None:
        """Close the sockets."""
        self._sender.close()
        if hasattr(self, "_receiver"):
            self._receiver.close()
        if self.udp is not None:
            self.udp.close()

    def leave(self) -> None:
        """Tell the others that this daemon has ended by its own word."""
        self.machine.leave(now_us())
        self._carry_out()

    # Events -----------------------------------------------------------------------------------------------

    def filenos(self) -> tuple[int, int]:
        """The descriptors on which something may come in."""
        return self._receiver.fileno(), self._sender.fileno()

    def drain(self, _events: int = 0) -> None:
        """Read what waits, up to a fair share."""
        for source, by_multicast in ((self._receiver, True), (self._sender, False)):
            for _ in range(READS_PER_WAKE):
                try:
                    data, origin = source.recvfrom(wire.PACKET_MAX_BYTES + GROWS_BYTES + 1)
                except BlockingIOError:
                    break
                except OSError:  # an ICMP message about something sent earlier
                    self.counters["discovery: errors of the socket"] += 1
                    continue
                self._receive(data, (str(origin[0]), int(origin[1])), by_multicast)
        self._carry_out()

    def _receive(self, data: bytes, origin: tuple[str, int], by_multicast: bool) -> None:
        now = now_us()
        try:
            if self._beacons is not None and kind_of(data) == wire.Kind.BEACON:
                data = self._beacons.open(data)
            packet = wire.parse(data)
        except BadPacket as error:
            self.counters[error.reason] += 1
            return
        match packet:
            case Beacon():
                self.machine.receive(packet, origin, now, by_multicast=by_multicast)
            case Question(cluster, number) if cluster == self.cluster:
                self._answer(number, origin, now)
            case Question():
                self.counters["discovery: of another cluster"] += 1
            case Answer():
                self.counters["discovery: answers that nobody waits for"] += 1

    def _answer(self, question: int, origin: tuple[str, int], now: int) -> None:
        """Tell a client where to connect."""
        machine = self.machine
        if now >= self._answers_until_us:
            self._answers, self._answers_until_us = 0, now + 1_000_000
        self._answers += 1
        if self._answers > ANSWERS_PER_S:
            self.counters["discovery: questions that came too fast"] += 1
        elif machine.state is State.BEARS and machine.number is not None and self.places:
            answer = Answer(self.cluster, question, machine.number, machine.name, self.places)
            self._send(wire.encode(answer), origin)

    def timeout(self, now: int) -> None:
        """Do what is due."""
        due_us = self.machine.next_deadline_us()
        if due_us is not None and now >= due_us:
            self.machine.timeout(now)
            self._carry_out()

    def next_due_us(self) -> int | None:
        """When `timeout` has something to do."""
        return self.machine.next_deadline_us()

    def _carry_out(self) -> None:
        for beacon in self.machine.multicasts:
            self._send(self._encoded(beacon), self.group)
        for origin, beacon in self.machine.replies:
            self._send(self._encoded(beacon), origin)
        self.machine.multicasts.clear()
        self.machine.replies.clear()

    def _encoded(self, beacon: Beacon) -> bytes:
        plain = wire.encode(beacon)
        return plain if self._beacons is None else self._beacons.seal(plain)

    def _send(self, data: bytes, address: tuple[str, int]) -> None:
        try:
            self._sender.sendto(data, address)
        except OSError:
            self.counters["discovery: packets that could not be sent"] += 1

    # What was found ---------------------------------------------------------------------------------------

    def vacant(self) -> frozenset[int]:
        """The numbers that no daemon bears."""
        borne = {number for number, entry in self._entries.items() if entry.state is State.BEARS}
        return frozenset(range(self._config.daemon_count)) - borne

    def config(self) -> Config:
        """The configuration as it is now."""
        return named(self._config, {number: entry.name for number, entry in self._entries.items()})

    def peers(self) -> dict[int, tuple[str, int]]:
        """The addresses of the other daemons, by number. Those whose claims stand are among them: what they
        send may come before the news that they bear their numbers."""
        return {
            number: (entry.host, entry.port)
            for number, entry in self._entries.items()
            if number != self.machine.number
        }

    @property
    def _entries(self) -> dict[int, Entry]:
        return self.machine.roster.entries

    # For people -------------------------------------------------------------------------------------------

    def trouble(self, now: int) -> str:
        """What is wrong with multicast, and what to do, in one line; nothing if nothing is."""
        where = f"{self.group[0]}:{self.group[1]} over {self.interface}"
        if not self.machine.is_echoed:
            return f"multicast to {where} does not even reach this machine itself; {ADVICE}"
        one_way = self.machine.one_way(now)
        if one_way:
            names = ", ".join(one_way)
            return (
                f"other daemons are running ({names}), but multicast to {where} does not reach us; {ADVICE}"
            )
        if self.machine.deaf:
            names = ", ".join(self.machine.deaf)
            return f"our multicast to {where} does not reach {names}, which we hear; {ADVICE}"
        return ""

    def news(self, now: int) -> Iterator[str]:
        """What is wrong, if it was not told lately."""
        if now >= self._tell_us:
            trouble = self.trouble(now)
            if trouble:
                self._tell_us = now + TOLD_AGAIN_US
                yield trouble

    def living(self, now: int) -> list[str]:
        """The names of the daemons that were heard lately, by number."""
        roster = self.machine.roster
        return [
            entry.name for _, entry in sorted(roster.entries.items())
            if entry.state is State.BEARS and roster.is_alive(entry, now)
        ]  # fmt: skip

    def status(self, now: int) -> dict[str, object]:
        """For `antiphon status`."""
        machine, roster = self.machine, self.machine.roster
        return {
            "multicast": f"{self.group[0]}:{self.group[1]}",
            "interface": self.interface,
            "number": machine.number,
            "trouble": self.trouble(now),
            "hold_us": machine.waits.hold_us,
            "counters": dict(sorted((self.counters + machine.counters).items())),
            "roster": [
                {
                    "number": entry.number,
                    "name": entry.name,
                    "address": f"{entry.host}:{entry.port}",
                    "state": entry.state.name.lower(),
                    "is_there": roster.is_alive(entry, now),
                    "has_left": entry.has_left,
                    "silent_us": max(0, now - entry.heard_us),
                }
                for _, entry in sorted(roster.entries.items())
            ],
        }
