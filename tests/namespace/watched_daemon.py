"""A daemon in a process and a namespace of its own that keeps a diary of what its node does.

It is the daemon that users run, but for three things: an observer, a wall clock that may show anything, and a
start in two steps. It is ready when the interpreter and its modules are there, and begins at a word on its
standard input, so that a restart can be as quick as the plan wants it.

Each entry of the diary is written with one system call before anything else happens, so nothing that others
can have seen is missing when the process is killed. Standard output tells the runner of states, for triggers.
"""

import ctypes
import logging
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from time import monotonic_ns

import msgspec
from wires import enter, host_of

from antiphon import config as configuration
from antiphon.config import Config, DaemonConfig, Security, SiteConfig
from antiphon.core.view import DaemonView
from antiphon.runtime import daemon as runtime
from antiphon.runtime.loop import now_us
from antiphon.simulator import plan as plans
from antiphon.simulator.mutants import MUTANTS
from antiphon.simulator.plan import Plan
from antiphon.trace import Event, Record
from antiphon.trace.watcher import Watcher

PORT = 4_810
READY = b"ready"
"""The first line on standard output; each of the others is a state that was entered."""
_PR_SET_PDEATHSIG = 1

Entry = tuple[int, Record]
"""When, in nanoseconds of the machine's monotonic clock, and what."""


def config_of(plan: Plan, directory: Path) -> Config:
    """The plan's configuration with addresses in the namespaces, and sockets for clients in `directory`."""
    numbers = iter(range(len(plan.daemons())))
    sites = tuple(
        SiteConfig(
            site.name,
            tuple(
                DaemonConfig(
                    daemon.name,
                    f"{host_of(next(numbers))}:{PORT}",
                    (f"unix:{directory / daemon.name}.sock",),
                )
                for daemon in site.daemons
            ),
        )
        for site in plan.sites
    )
    return configuration.build(
        sites, tuple(route.link for route in plan.routes), plan.settings, security=Security(insecure=True)
    )


class Pen(list[Record]):
    """Takes records as a list does, and puts them on disk."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        self._encode = msgspec.json.Encoder().encode

    def append(self, record: Record) -> None:
        entry: Entry = (monotonic_ns(), record)
        os.write(self._descriptor, self._encode(entry) + b"\n")


class DiaryWatcher(Watcher):
    """Notes the start of a daemon, too."""

    def __init__(self, config: Config, name: str, pen: Pen) -> None:
        super().__init__(config, config.daemon_number(name), pen, lambda: 0, self._tell)
        self._daemon = name
        self._pen = pen
        self._is_born = False

    def installed(self, view: DaemonView, transitional: tuple[int, ...]) -> None:
        """The first view, in the moment of its birth, has the daemon alone and its incarnation."""
        if not self._is_born:
            self._is_born = True
            self._pen.append(Record(0, 0, Event.RECOVER, self._daemon, incarnation=view.incarnations[0]))
        super().installed(view, transitional)

    def _tell(self, number: int, state: str) -> None:
        _say(state.encode())


def _say(word: bytes) -> None:
    os.write(sys.stdout.fileno(), word + b"\n")


def main() -> None:
    """With a plan's file, the daemon's name, the descriptor of its namespace, the file of its diary and, to
    see whether anybody notices, perhaps the names of mutants."""
    plan_file, name, namespace, diary, *mutants = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # whatever becomes of the runner
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    enter(int(namespace))
    config = config_of(plans.read(Path(plan_file)), Path(plan_file).parent)
    _say(READY)
    word = sys.stdin.readline()
    if not word:
        return
    ahead_us = int(word) - now_us()
    runtime.wall_us = lambda: ahead_us + now_us()  # type: ignore[attr-defined]
    with ExitStack() as stack:
        for mutant in MUTANTS:
            if mutant.name in mutants:
                stack.enter_context(mutant.active())
        daemon = runtime.Daemon(config, name, observer=DiaryWatcher(config, name, Pen(Path(diary))))
        signal.signal(signal.SIGTERM, lambda *_: daemon.leave())
        daemon.run()


if __name__ == "__main__":
    main()
