"""One daemon of a run on real sockets: its processes, one after another, and its clients."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct
from real_client import Home, RealClient
from watched_daemon import READY, Entry

from antiphon.client import ask_status
from antiphon.errors import ConnectError
from antiphon.simulator.plan import Daemon
from antiphon.trace import Event, Record

_PROGRAM = Path(__file__).with_name("watched_daemon.py")
STARTS_APART_S = 0.1
"""A daemon takes its incarnation from the clock, which has sixteenths of a second. Nobody can start two
processes that fast, except for us, who have one in reserve."""
ANSWER_WITHIN_S = 5.0
NEAR_EPOCH_US = 1_000_000


class Life(Struct, eq=False):
    """A daemon's process, from its start to its end."""

    process: "subprocess.Popen[bytes]"
    diary: Path
    ready: "asyncio.Future[None]"
    """When it waits for the word."""
    incarnation: "asyncio.Future[int]"
    """When it has had the word; 0 if it was killed before it could do anything."""
    heard: bytes = b""
    """The beginning of a line that is not complete."""


class Surroundings(Struct, frozen=True):
    """What hosts have in common: the world that they are in."""

    loop: asyncio.AbstractEventLoop
    directory: Path
    plan_file: Path
    now_us: Callable[[], int]
    note: Callable[[Record], None]
    entered: Callable[[int, str], None]
    fail: Callable[[BaseException], None]
    mutants: tuple[str, ...]
    """In what way all daemons are broken, if they are."""


class RealHost:
    """A daemon that can be started, paused and killed."""

    def __init__(
        self,
        around: Surroundings,
        number: int,
        daemon: Daemon,
        namespace: int,
        place: str,
        *,
        random: Random,
        restarts: bool,
    ) -> None:
        self.number = number
        self.daemon = daemon
        self.name = daemon.name
        self.is_running = False
        """Whether it has been told to run."""
        self.is_paused = False
        self.all_clients: list[RealClient] = []
        """Also those whose time is over."""
        self.diaries: list[Path] = []
        """One for each of its lives."""
        self._around = around
        self._namespace = namespace
        self._place = place
        self._random = random
        self._restarts = restarts
        self._step_us = 0
        self._pauses = 0
        self._ended: Callable[[], None] | None = None
        """What to do when the daemon, which is told to stop, has ended."""
        self._life: Life | None = None
        self._launch: asyncio.Task[None] | None = None
        self._burial: asyncio.Task[None] | None = None
        self._started_s = 0.0
        self._reserve: Life | None = self._spawn()

    @property
    def clients(self) -> dict[str, RealClient]:
        """Its open sessions."""
        return {client.name: client for client in self.all_clients if client.open}

    async def ready(self) -> None:
        """Until it can be started at once."""
        if self._reserve is not None:
            await self._reserve.ready

    # The daemon's life ------------------------------------------------------------------------------------

    def start(self, step_us: int = 0, uptime_us: int | None = None) -> None:
        """The daemon starts with an empty memory, if it does not run; the wall clock has moved before. The
        machine is not rebooted: its monotonic clock, of which `uptime_us` speaks, goes on."""
        if not self.is_running:
            self.is_running = True
            self._step_us += step_us
            self._launch = self._watched(self._launch_after(self._burial))

    async def _launch_after(self, burial: asyncio.Task[None] | None) -> None:
        if burial is not None:
            await burial
        await asyncio.sleep(self._started_s + STARTS_APART_S - time.monotonic())
        life, self._reserve = self._reserve, None
        if life is None:
            life = self._spawn()
        self._started_s = time.monotonic()
        self._life = life
        assert life.process.stdin is not None
        life.process.stdin.write(b"%d\n" % self._wall_us())
        life.process.stdin.flush()
        if self._restarts:
            self._reserve = self._spawn()

    def _spawn(self) -> Life:
        """A process that waits for the word."""
        diary = self._around.directory / f"{self.name}.{len(self.diaries)}.diary"
        self.diaries.append(diary)
        words = [sys.executable, str(_PROGRAM), str(self._around.plan_file), self.name]
        with (self._around.directory / f"{self.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*words, str(self._namespace), str(diary), *self._around.mutants],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[self._namespace],
            )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        loop = self._around.loop
        life = Life(process, diary, loop.create_future(), loop.create_future())
        loop.add_reader(process.stdout.fileno(), self._hear, life)
        return life

    def _wall_us(self) -> int:
        """As on a simulated machine."""
        wall_us = self._around.now_us() + self.daemon.wall_us + self._step_us
        return wall_us if wall_us >= 0 else self._random.randrange(NEAR_EPOCH_US)

    def _hear(self, life: Life) -> None:
        """The daemon has something to tell, or is gone."""
        assert life.process.stdout is not None
        data = os.read(life.process.stdout.fileno(), 65_536)
        if not data:
            self._around.loop.remove_reader(life.process.stdout.fileno())
            if life is self._life and self._ended is not None:
                ended = self._ended
                self.crash()
                ended()
            elif life in (self._life, self._reserve):
                ended = AssertionError(f"daemon {self.name} ended:\n{self.log()}")
                self._around.fail(ended)
                if not life.ready.done():
                    life.ready.set_exception(ended)
            return
        *lines, life.heard = (life.heard + data).split(b"\n")
        if not life.ready.done():
            assert lines.pop(0) == READY
            life.ready.set_result(None)
        if lines and not life.incarnation.done():
            life.incarnation.set_result(incarnation_in(life.diary))
        if life is self._life:
            for state in lines:
                self._around.entered(self.number, state.decode())

    @property
    def is_leaving(self) -> bool:
        """Whether the daemon is told to stop and has not ended."""
        return self._ended is not None

    def stop(self, bound_us: int, ended: Callable[[], None]) -> None:
        """The daemon is told to stop, takes leave and ends; then `ended` is called. On a real machine nobody
        can promise `bound_us`."""
        if self._life is None or self.is_leaving:
            return
        self._ended = ended
        self._around.note(Record(0, 0, Event.STOP, self.name))
        self._life.process.send_signal(signal.SIGTERM)

    def crash(self) -> None:
        """The daemon is gone, and with it all sessions and its pause."""
        if not self.is_running:
            return
        self.is_running = self.is_paused = False
        self._ended = None
        assert self._launch is not None
        self._launch.cancel()
        life, self._life = self._life, None
        if life is None:
            return
        life.process.kill()
        life.process.wait()
        mourners = list(self.clients.values())
        for client in mourners:
            client.crash()
        self._burial = self._watched(self._bury(life, mourners))

    async def _bury(self, life: Life, mourners: list[RealClient]) -> None:
        """The crash counts when its clients have read what the daemon had written."""
        if not life.incarnation.done():
            life.incarnation.set_result(incarnation_in(life.diary))
        if mourners:
            await asyncio.wait([client.life for client in mourners if client.life is not None])
        if life.incarnation.result():
            crash = Record(0, 0, Event.CRASH, self.name, incarnation=life.incarnation.result())
            self._around.note(crash)

    def pause(self, for_us: int) -> None:
        """From now on the daemon handles nothing; for so long, unless that is for ever."""
        if self._life is None:
            return
        self._pauses += 1
        self.is_paused = True
        self._life.process.send_signal(signal.SIGSTOP)
        self._around.loop.call_later(min(for_us / 1e6, 86_400.0), self._end_pause, self._pauses)

    def _end_pause(self, pause: int) -> None:
        if self._pauses == pause:
            self.resume()

    def resume(self) -> None:
        """A pause ends early."""
        if self.is_paused and self._life is not None:
            self.is_paused = False
            self._life.process.send_signal(signal.SIGCONT)

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose failure is the run's."""
        task = self._around.loop.create_task(work)
        task.add_done_callback(self._look_after)
        return task

    def _look_after(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._around.fail(error)

    def log(self) -> str:
        """What its processes have complained about."""
        return (self._around.directory / f"{self.name}.log").read_text()

    def close(self) -> None:
        """The end of the run."""
        self.is_running = False
        lives = [life for life in (self._life, self._reserve) if life is not None]
        self._life = self._reserve = None
        for life in lives:
            life.process.kill()
            life.process.wait()

    # Clients ----------------------------------------------------------------------------------------------

    def connect(
        self, name: str, priority: int, read_bytes_per_s: int, views: bool, slow: str
    ) -> RealClient | None:
        """A new session, if the daemon runs and is awake. Whether it will be had is not known yet."""
        life = self._life
        if life is None or self.is_paused:
            return None
        home = Home(self.name, self.number, self._place, life.process.pid, lambda: life.incarnation)
        client = RealClient(home, name, read_bytes_per_s, views)
        client.life = self._watched(client.live(name, priority, slow))
        self.all_clients.append(client)
        return client

    def settle(self) -> None:
        """Clients have new requests, which they see to themselves."""

    # Looking ----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any] | None:
        """What the daemon says about itself; None if it does not."""
        if self._life is None or self.is_paused:
            return None
        try:
            return ask_status(self._place, ANSWER_WITHIN_S)
        except ConnectError:  # it is about to start
            return None


def read_diary(file: Path) -> list[Entry]:
    """What a daemon wrote down; nothing if it never began."""
    if not file.exists():
        return []
    decode = msgspec.json.Decoder(Entry).decode
    return [decode(line) for line in file.read_bytes().split(b"\n")[:-1]]


def incarnation_in(file: Path) -> int:
    """From the entry of its start; 0 if there is none."""
    starts = (record for _, record in read_diary(file) if record.event is Event.RECOVER)
    return next((record.incarnation for record in starts), 0)
