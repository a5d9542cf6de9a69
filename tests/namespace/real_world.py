"""The world of a run on real sockets: processes and namespaces behind the questions that the simulator asks.

The simulator's stage, its actors and the phases of its runs do not know the difference: time passes by
itself here, and what they ask for takes as long as it takes.
"""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from real_client import Entry, RealClient
from real_host import RealHost, Surroundings, read_diary
from real_network import RealNetwork
from watched_daemon import config_of
from wires import Wire, close_all, enter, host_of, lay

from antiphon.runtime.status import has_formed
from antiphon.simulator.incidents import Crash
from antiphon.simulator.plan import Plan
from antiphon.trace import Event, Record

READY_WITHIN_S = 120.0
"""Only to keep a run from hanging whose processes cannot start."""
CONNECTING_MAX = 64
"""Clients that wait for their welcome at the same time, each in a thread of the library."""


class NoTwins:
    """No daemon runs twice in a real world: its addresses are given to one namespace only."""

    def begin(self, number: int, reached_by: frozenset[int], takes_over: bool) -> bool:
        """Nothing happens."""
        return False

    def end_all(self) -> None:
        """Nothing to end."""


class RealWorld:
    """A cluster in namespaces, its network and its clients, in the time of this machine."""

    def __init__(self, plan: Plan, mutants: tuple[str, ...] = (), *, has_multicast: bool = True) -> None:
        self.has_multicast = has_multicast
        self.twins = NoTwins()
        self.chance = plan.chance
        self.records: list[Record] = []
        """What was noted here, in its order; daemons keep diaries of their own."""
        self.entries: list[Entry] = []
        """What was noted here but at clients, with its times."""
        self.when_entered: Callable[[int, str], None] | None = None
        self.directory = Path(mkdtemp(prefix="antiphon-"))
        self.config = config_of(plan, self.directory)
        self.hosts: list[RealHost] = []
        self.edges: list[RealHost] = []
        """There are none here."""
        self.strangers = None
        """Nor is anybody here who sends what he has overheard."""
        self.began_ns = time.monotonic_ns()
        self._failures: list[BaseException] = []
        self._wires: list[Wire] = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(CONNECTING_MAX))
        self._loop.set_exception_handler(self._failed)
        self._network: RealNetwork | None = None
        try:
            self._build(plan, mutants)
        except BaseException:
            self.close()
            raise

    def _build(self, plan: Plan, mutants: tuple[str, ...]) -> None:
        plan_file = self.directory / "plan.json"
        plan_file.write_text(plan.text())
        for number in range(self.config.daemon_count):
            self._wires.append(lay(number))
        self._network = RealNetwork(plan, self._wires, plan_file, has_multicast=self.has_multicast)
        around = Surroundings(
            self._loop, self.directory, plan_file, lambda: self.now_us, self.note, self._entered,
            self._failures.append, mutants,
        )  # fmt: skip
        places = [daemon.clients[0] for _, daemon in self.config.daemons()]
        happening = [*plan.incidents, *(trigger.incident for trigger in plan.triggers)]
        mortal = {incident.daemon for incident in happening if isinstance(incident, Crash)}

        for number, daemon in enumerate(plan.daemons()):
            host = RealHost(
                around, number, daemon, self._wires[number].namespace, places[number],
                random=plan.chance(f"daemon {daemon.name}"), restarts=daemon.name in mortal,
            )  # fmt: skip
            self.hosts.append(host)
        # Time begins when interpreters are there, or it would be over before anything happened.
        for host in self.hosts:
            self._loop.run_until_complete(asyncio.wait_for(host.ready(), READY_WITHIN_S))
        self.began_ns = time.monotonic_ns()
        for host in self.hosts:
            self.schedule(host.daemon.starts_us, host.start)

    @property
    def network(self) -> RealNetwork:
        """What lies between the namespaces."""
        assert self._network is not None
        return self._network

    # Time -------------------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """Since the beginning."""
        return (time.monotonic_ns() - self.began_ns) // 1_000

    def schedule(self, time_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do `action` at `time_us`, or as soon as the machine lets us."""
        self._loop.call_later((time_us - self.now_us) / 1e6, action, *arguments)

    def run(self, until_us: int) -> None:
        """Let time pass; whatever has failed meanwhile ends the run."""
        self._loop.run_until_complete(asyncio.sleep((until_us - self.now_us) / 1e6))
        if self._failures:
            raise self._failures[0]

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._failures.append(context.get("exception") or RuntimeError(context["message"]))

    def hang_up(self, one: int, other: int, is_told: bool) -> None:
        """The first daemon's kernel resets its connections with the second; that one is always told."""

        def reset() -> None:
            enter(self._wires[one].namespace)
            subprocess.run(["ss", "-K", "-t", "dst", host_of(other)], check=True, stdout=subprocess.DEVNULL)

        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(reset).result()

    def _entered(self, number: int, state: str) -> None:
        if self.when_entered is not None:
            self.when_entered(number, state)

    # Clients ----------------------------------------------------------------------------------------------

    def connect(
        self,
        number: int,
        name: str,
        priority: int = 0,
        read_bytes_per_s: int = 0,
        views: bool = True,
        slow: str = "",
        forbidden: tuple[str, ...] = (),
    ) -> RealClient | None:
        """A new session, if the daemon may have it now; real daemons have no list of what is forbidden."""
        assert not forbidden
        return self.hosts[number].connect(name, priority, read_bytes_per_s, views, slow)

    def settle(self, number: int) -> None:
        """Clients of this daemon have new requests."""

    def disconnect(self, number: int, client: RealClient, graceful: bool) -> None:
        """End a session from its own side."""
        client.disconnect(graceful)

    def edges_in_reach(self) -> list[RealHost]:
        """None."""
        return self.edges

    @property
    def machines(self) -> list[RealHost]:
        """Those of daemons: there are no edges here."""
        return self.hosts

    @property
    def clients(self) -> list[RealClient]:
        """All open sessions."""
        return [client for host in self.hosts for client in host.clients.values()]

    # Looking ----------------------------------------------------------------------------------------------

    @property
    def alive(self) -> tuple[int, ...]:
        """The daemons that run."""
        return tuple(host.number for host in self.hosts if host.is_running)

    def names(self, daemons: tuple[int, ...]) -> tuple[str, ...]:
        """What they are called."""
        return tuple(self.config.daemon_names[daemon] for daemon in daemons)

    def has_formed(self, parts: list[tuple[int, ...]]) -> bool:
        """Whether the daemons of each part are in one view of exactly that part, and messages flow."""
        for part in parts:
            told = []
            for daemon in part:
                status = self.hosts[daemon].status()
                if status is None:
                    return False
                told.append(status)
            if not has_formed(told, self.names(part)):
                return False
        return True

    def look(self) -> bool:
        """Note the state of every daemon's buffers; whether all of them are empty."""
        is_empty = True
        for host in self.hosts:
            status: Any = host.status()
            if status is not None:
                fill = {name: (gauge["bytes"], gauge["limit"]) for name, gauge in status["buffers"].items()}
                self.note(Record(0, 0, Event.BUFFERS, host.name, buffers=fill))
                is_empty = is_empty and not any(used for used, _ in fill.values())
        return is_empty

    @property
    def is_busy(self) -> bool:
        """Whether a client waits for its daemon."""
        return any(client.is_busy for client in self.clients)

    is_quiet = True
    """Nobody outside can tell; empty buffers and silence at all clients must do."""

    def note(self, record: Record) -> None:
        """Put into the trace what happens now."""
        self.records.append(record)
        self.entries.append((time.monotonic_ns(), len(self.entries), record))

    def note_restored(self, parts: list[tuple[int, ...]], bound_us: int) -> None:
        """Put into the trace that the faults are over, and what is to come of it."""
        words = tuple(self.names(part) for part in parts)
        self.note(Record(0, 0, Event.RESTORED, "", parts=words, bound_us=bound_us))

    def witnessed(self) -> list[Entry]:
        """All entries but those of clients."""
        entries = list(self.entries)
        for host in self.hosts:
            for file in host.diaries:
                entries += [(when, line, record) for line, (when, record) in enumerate(read_diary(file))]
        return entries

    # The end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing of it is left but the records."""
        for host in self.hosts:
            host.close()
        if self._network is not None:
            self._network.close()
        close_all(self._wires)
        self._loop.run_until_complete(self._abandon())
        self._loop.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    async def _abandon(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()
