"""The daemons of a soak: three sites with rings, a Hop link and a TCP link, traced, paused and killed."""

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import Any

from antiphon.client import ask_status
from antiphon.config import Config, Emulation, LinkConfig, Settings, SiteConfig, as_toml, build
from antiphon.errors import AntiphonError, ConnectError
from antiphon.lab.soak.plan import Trouble
from antiphon.load.cluster import stop_daemons, wait_for_daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed

START_WITHIN_S = 60.0
WHOLE_WITHIN_S = 60.0
"""How long daemons that were paused or killed may take to be in one view again."""
ANSWER_WITHIN_S = 5.0
SITES = {"north": 3, "middle": 2, "south": 1}
"""How many daemons each has: d1 to d3, d4 and d5, d6."""
SETTINGS = Settings(
    name="soak",
    membership="lan",
    suspect_ms=1_500.0,
    recovery_ms=3_000.0,
    damp_max_ms=4_000.0,  # daemons are lost all the time here; a damped daemon must not stay out for long
    unstable_bytes=2 * 2**20,
    output_soft_bytes=2**20,
    output_hard_bytes=10 * 2**20,
    slow_patience_ms=2_000.0,
)
"""Small queues, so that they fill up in every flood."""
LINKS = (
    LinkConfig(sites=("north", "middle"), emulate=Emulation(delay_ms=3.0, jitter_ms=1.0, loss=0.002)),
    LinkConfig(sites=("middle", "south"), protocol="tcp"),
)


def soak_config(directory: Path) -> Config:
    """The cluster, with free ports and with sockets in `directory`."""
    daemons = local_config(1, directory, daemons=sum(SITES.values()), protocol="tcp").sites[0].daemon
    sites = []
    for name, count in SITES.items():
        sites.append(SiteConfig(name=name, daemon=daemons[:count]))
        daemons = daemons[count:]
    return build(tuple(sites), LINKS, SETTINGS, source="configuration of the soak")


class SoakCluster:
    """Daemon processes. All of them are gone when the stack is left."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.config = soak_config(directory)
        self.places = {daemon.name: daemon.clients[0] for _, daemon in self.config.daemons()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.traces = directory / "traces"
        self.faults: list[str] = []
        """What daemons did unasked."""
        self._directory = directory
        self._file = directory / "cluster.toml"
        self._file.write_text(as_toml(self.config))
        self._timers: list[Timer] = []
        self._paused: set[str] = set()
        self._dead: set[str] = set()
        stack.callback(self.stop)
        for name in self.places:
            self._start(name)
        for name in self.places:
            self._wait_for(name)

    def site_places(self, site: str) -> list[str]:
        """Where the clients of a site connect."""
        return [daemon.clients[0] for one in self.config.sites if one.name == site for daemon in one.daemon]

    @property
    def working(self) -> list[str]:
        """The daemons that can answer now."""
        return [name for name in self.places if name not in self._paused | self._dead]

    def _start(self, name: str) -> None:
        words = [sys.executable, "-m", "antiphon", "daemon", "--config", str(self._file), "--name", name]
        words += ["--trace", str(self.traces)]
        with self._log(name).open("ab") as log:
            # A session of its own: Ctrl-C ends the daemons through `stop`, after their clients.
            self.processes[name] = subprocess.Popen(words, stderr=log, start_new_session=True)

    def _wait_for(self, name: str) -> None:
        with self._log(name).open() as log:
            wait_for_daemon(self.processes[name], log, self.places[name], START_WITHIN_S)

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    # Trouble ----------------------------------------------------------------------------------------------

    def pause(self, trouble: Trouble) -> None:
        """Stop the daemon's process, and let it go on after a while, whatever this process does then."""
        name = trouble.daemon
        self.processes[name].send_signal(signal.SIGSTOP)
        self._paused.add(name)
        timer = Timer(trouble.lasts_s, self._resume, (name,))
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _resume(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGCONT)
        self._paused.discard(name)

    def kill(self, name: str) -> None:
        """Kill the daemon without a warning, as a crash does."""
        self.check()
        self._dead.add(name)
        self.processes[name].kill()
        self.processes[name].wait()

    def restart(self, name: str) -> None:
        """Start again one that was killed; it may take a while to answer."""
        self._start(name)
        self._dead.discard(name)

    def check(self) -> None:
        """Note the daemons that have ended by themselves, and start them again for the others."""
        for name, process in list(self.processes.items()):
            if name not in self._dead and process.poll() is not None:
                self.faults.append(f"{name} ended with exit code {process.returncode}")
                self.restart(name)

    # Answers ----------------------------------------------------------------------------------------------

    def ask(self, name: str) -> dict[str, Any] | None:
        """What a daemon says about itself; None if it does not answer."""
        try:
            return ask_status(self.places[name], ANSWER_WITHIN_S)
        except ConnectError:
            return None

    def wait_whole(self) -> dict[str, dict[str, Any]]:
        """Return what all daemons say when they are in one view; AntiphonError if that does not come."""
        deadline_s = time.monotonic() + WHOLE_WITHIN_S
        while True:
            told = {name: answer for name in self.places if (answer := self.ask(name)) is not None}
            if len(told) == len(self.places) and has_formed(told.values(), self.config.daemon_names):
                return told
            self.check()
            if time.monotonic() > deadline_s:
                raise AntiphonError(f"the daemons were not in one view within {WHOLE_WITHIN_S:.0f} s")
            time.sleep(0.1)

    def complaints(self) -> list[str]:
        """What went wrong inside the daemons: what they did unasked, and what their logs show."""
        crashes = [name for name in self.places if "Traceback" in self._log(name).read_text(errors="replace")]
        return [*self.faults, *(f"the log of {name} has a traceback" for name in crashes)]

    def stop(self) -> None:
        """End all daemons in order, at the same time; they finish their traces."""
        for timer in self._timers:
            timer.cancel()
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
        stop_daemons(self.processes.values())
