"""A LAN in virtual time for the state machine of discovery: loss, copies, delay, parts, restarts."""

import heapq
import random
from collections.abc import Callable

from antiphon.core.discovery.discovery import Discovery, Origin
from antiphon.core.discovery.waits import Waits
from antiphon.wire import discovery as wire
from antiphon.wire.discovery import Beacon, State

WAITS = Waits(hold_us=60_000_000)
"""Numbers are given again after a minute instead of ten."""
Make = Callable[..., Discovery]


class Host:
    """A process of a daemon on the LAN."""

    def __init__(self, machine: Discovery, part: int) -> None:
        self.machine = machine
        self.part = part
        self.is_alive = True
        self.bore: list[tuple[int, int]] = []
        """Numbers that it has borne, and since when."""


class Lan:
    """Hosts that multicast to one another."""

    def __init__(
        self, seed: int, *, loss: float = 0.0, delay_us: int = 300_000, make: Make = Discovery
    ) -> None:
        self.chance = random.Random(seed)
        self.now_us = 1_000_000_000
        self.loss = loss
        self.hosts: list[Host] = []
        self.faults: list[str] = []
        """Broken promises."""
        self._delay_us = delay_us
        self._make = make
        self._events: list[tuple[int, int, Host, bytes, Origin, bool]] = []
        self._count = 0
        self._last_borne: dict[int, tuple[Host, int]] = {}
        self.is_ever_parted = False
        """Whether the LAN was in parts, or a host was: then a number may be given twice."""

    def start(self, cluster: str = "tea", wish: str = "host", host: str | None = None) -> Host:
        """A process starts."""
        number = len(self.hosts) + 1
        machine = self._make(
            cluster, self.chance.getrandbits(64), wish, (host or f"10.0.0.{number}", 40_000 + number),
            now_us=self.now_us, wall_us=self.chance.randrange(10**15, 10**15 + 10**12), waits=WAITS,
        )  # fmt: skip
        self.hosts.append(Host(machine, 0))
        return self.hosts[-1]

    def kill(self, host: Host) -> None:
        """It ends without a word."""
        host.is_alive = False

    def leave(self, host: Host) -> None:
        """It ends by its own word."""
        host.machine.leave(self.now_us)
        self._carry(host)
        host.is_alive = False

    def split(self, parts: int) -> None:
        """Every host goes to one of so many parts."""
        self.is_ever_parted = True
        for host in self.hosts:
            host.part = self.chance.randrange(parts)

    def heal(self) -> None:
        """One part again."""
        for host in self.hosts:
            host.part = 0

    def alive(self, cluster: str = "tea") -> list[Host]:
        """The processes of a cluster that live."""
        return [host for host in self.hosts if host.is_alive and host.machine.cluster == cluster]

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end_us = self.now_us + round(seconds * 1e6)
        while True:
            due = [
                (due_us, place)
                for place, host in enumerate(self.hosts)
                if host.is_alive and (due_us := host.machine.next_deadline_us()) is not None
            ]
            next_us = min(min(due, default=(end_us, 0))[0], self._events[0][0] if self._events else end_us)
            if next_us >= end_us:
                self.now_us = end_us
                return
            self.now_us = max(self.now_us, next_us)
            if self._events and self._events[0][0] <= self.now_us:
                _, _, host, data, origin, by_multicast = heapq.heappop(self._events)
                if host.is_alive:
                    beacon = wire.parse(data)
                    assert isinstance(beacon, Beacon)
                    host.machine.receive(beacon, origin, self.now_us, by_multicast=by_multicast)
                    self._carry(host)
                continue
            host = self.hosts[min(due)[1]]
            host.machine.timeout(self.now_us)
            self._carry(host)

    def _carry(self, host: Host) -> None:
        """Take what a machine left behind, and look whether it keeps what is promised."""
        machine = host.machine
        origin = (machine.host, 50_000)
        for beacon in machine.multicasts:
            data = wire.encode(beacon)
            for other in self.hosts:
                self._send(host, other, data, origin, by_multicast=True)
        for to, beacon in machine.replies:
            data = wire.encode(beacon)
            for other in self.hosts:
                if other.machine.host == to[0]:
                    self._send(host, other, data, origin, by_multicast=False)
        machine.multicasts.clear()
        machine.replies.clear()
        self._watch(host)

    def _send(self, host: Host, other: Host, data: bytes, origin: Origin, *, by_multicast: bool) -> None:
        if not other.is_alive or host.part != other.part:
            return
        for _ in range(1 + (self.chance.random() < 0.05)):
            if other is not host and self.chance.random() < self.loss:
                continue
            self._count += 1
            at_us = self.now_us + self.chance.randrange(100, self._delay_us)
            heapq.heappush(self._events, (at_us, self._count, other, data, origin, by_multicast))

    # Promises ---------------------------------------------------------------------------------------------

    def _watch(self, host: Host) -> None:
        machine = host.machine
        if machine.losses:
            machine.losses.clear()
        if machine.state is not State.BEARS:
            return
        assert machine.number is not None
        if not host.bore or host.bore[-1][0] != machine.number:
            self._began(host, machine.number)
        self._last_borne[machine.number] = (host, self.now_us)

    def _began(self, host: Host, number: int) -> None:
        """A process bears a number from now on."""
        host.bore.append((number, self.now_us))
        other, at_us = self._last_borne.get(number, (host, 0))
        was, now = other.machine, host.machine
        if was.cluster != now.cluster or other is host or self.is_ever_parted or other.is_alive:
            return
        is_same_daemon = (was.name, was.host) == (now.name, now.host)
        if not is_same_daemon and self.now_us - at_us < WAITS.hold_us - WAITS.silent_us:
            self.faults.append(
                f"number {number} of {was.name} at {was.host} was given to {now.name} at {now.host} "
                f"{(self.now_us - at_us) / 1e6:.1f} s later"
            )

    def judge(self) -> list[str]:
        """What is wrong when messages have got through for a while."""
        faults = list(self.faults)
        for cluster in {host.machine.cluster for host in self.hosts}:
            faults += self._judge(cluster)
        return faults

    def _judge(self, cluster: str) -> list[str]:
        alive = self.alive(cluster)
        faults = [
            f"{host.machine.process:x} has no number: {host.machine.state.name} {host.machine.waits_for}"
            for host in alive
            if host.machine.state is not State.BEARS
        ]
        for what in ("number", "name"):
            found = [getattr(host.machine, what) for host in alive]
            faults += [f"{what} {one} is borne twice" for one in set(found) if found.count(one) > 1]
        rosters = [_known(host.machine, self.now_us, WAITS.hold_us) for host in alive]
        for host in alive:  # what is about to be given up may be known to some only
            young = _known(host.machine, self.now_us, WAITS.hold_us - 10_000_000)
            faults += [f"rosters differ: {young - roster}" for roster in rosters if not young <= roster]
        living = {host.machine.process for host in alive}
        for roster in rosters[:1]:
            listed = {process for _, process, _, _, is_alive in roster if is_alive}
            if listed != living:
                faults.append(f"the living are {living}, listed are {listed}")
        return faults


def _known(machine: Discovery, now_us: int, silent_us: int) -> set[tuple[object, ...]]:
    """What a roster says of daemons that were silent for less than this."""
    return {
        (entry.number, entry.process, entry.name, entry.host, machine.roster.is_alive(entry, now_us))
        for entry in machine.roster.entries.values()
        if now_us - entry.heard_us < silent_us
    }
