"""A cluster of real daemon processes on loopback, for measurements."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from msgspec.structs import replace

import antiphon.blocking
from antiphon.client import ask_status
from antiphon.config import Config, Protocol, SiteProtocol, as_toml, build
from antiphon.errors import AntiphonError, ConnectError
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed

_START_TIMEOUT_S = 20.0
_START_EACH_S = 2.0
"""More for each daemon: they start at the same time, on as many cores as there are."""
_STOP_TIMEOUT_S = 15.0
"""More than a daemon takes that is told to stop, whatever the others do."""
SPREAD_SUFFIX = ".spread"
"""The suffix of the sockets for Spread's clients, behind the place of our own."""
_VIEW_LINE = " is in view "
"""Part of the line with which a daemon logs that it has installed a view."""


class DaemonProcesses:
    """The daemons of a cluster, each a process; all of them are gone when the stack is left."""

    def __init__(self, config: Config, directory: Path, stack: ExitStack) -> None:
        self.addresses = [daemon.clients[0] for _, daemon in config.daemons()]
        self._names = config.daemon_names
        self._file = directory / "cluster.toml"
        self._file.write_text(as_toml(config))
        self._logs = [
            stack.enter_context((directory / f"{daemon.name}.log").open("a+"))
            for _, daemon in config.daemons()
        ]
        self._patience_s = _START_TIMEOUT_S + _START_EACH_S * len(self._names)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        stack.callback(self._stop_all)
        for number in range(len(self._names)):
            self._start(number)
        for number in range(len(self._names)):
            self._wait_for(number)
        _wait_formed(self.addresses, self._names, self._patience_s)

    def _start(self, number: int) -> None:
        name = self._names[number]
        words = [sys.executable, "-m", "antiphon", "daemon", "--config", str(self._file), "--name", name]
        # A session of its own: Ctrl-C ends the daemons through `stop_daemon`, after their clients.
        self._processes[number] = subprocess.Popen(words, stderr=self._logs[number], start_new_session=True)

    def _wait_for(self, number: int) -> None:
        process, log = self._processes[number], self._logs[number]
        wait_for_daemon(process, log, self.addresses[number], self._patience_s)

    def kill(self, number: int) -> None:
        """End a daemon as a crash does."""
        self._processes[number].kill()
        self._processes[number].wait()

    def restart(self, number: int) -> None:
        """Start a daemon that was killed again; it answers on return, and is not yet with the others."""
        self._start(number)
        self._wait_for(number)

    def pause(self, number: int) -> None:
        """Stop a daemon's process until it is resumed."""
        self._processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """A paused daemon goes on, with all it knows."""
        self._processes[number].send_signal(signal.SIGCONT)

    def views_told(self, number: int) -> int:
        """How many daemon views a daemon has installed, by its log."""
        log = self._logs[number]
        log.seek(0)
        return sum(_VIEW_LINE in line for line in log)

    def processor_s(self) -> list[float]:
        """How much processor time each daemon has taken."""
        taken = []
        for number in sorted(self._processes):
            fields = Path(f"/proc/{self._processes[number].pid}/stat").read_text().rpartition(")")[2].split()
            taken.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        return taken

    def stop(self, number: int) -> None:
        """End a daemon in order: it takes leave of the others first."""
        self.resume(number)
        stop_daemon(self._processes[number])

    def _stop_all(self) -> None:
        for number in self._processes:
            self.resume(number)
        stop_daemons(self._processes.values())


@contextmanager
def daemons(
    sites: int,
    *,
    per_site: int = 1,
    protocol: Protocol = "hop",
    site_protocol: SiteProtocol = "ring",
    rate_bytes_per_s: int = 0,
    spread: bool = False,
) -> Iterator[list[str]]:
    """Start the daemon processes of so many sites, joined by links of this protocol and with that one inside
    of each, and wait until they have found each other; yields the addresses for their clients, or for
    Spread's. With a rate, the links between sites carry no more. All are gone afterwards."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        config = local_config(
            sites, directory, daemons=per_site, protocol=protocol, site_protocol=site_protocol
        )
        config = _with_rate(with_spread(config) if spread else config, rate_bytes_per_s)
        started = DaemonProcesses(config, directory, stack)
        yield [f"{address}{SPREAD_SUFFIX}" for address in started.addresses] if spread else started.addresses


@contextmanager
def mortal_daemons(sites: int) -> Iterator[DaemonProcesses]:
    """Daemon processes, one for each of so many sites, that can be killed and restarted."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        yield DaemonProcesses(local_config(sites, directory), directory, stack)


def with_spread(config: Config) -> Config:
    """This cluster with a socket for Spread's clients beside each first one of our own."""
    sites = tuple(
        replace(
            site,
            daemon=tuple(
                replace(daemon, spread=(f"{daemon.clients[0]}{SPREAD_SUFFIX}",)) for daemon in site.daemon
            ),
        )
        for site in config.sites
    )
    return build(sites, config.links, config.settings, security=config.security)


def _with_rate(config: Config, rate_bytes_per_s: int) -> Config:
    """This cluster with links of a limited rate."""
    links = tuple(replace(link, rate_bytes_per_s=rate_bytes_per_s) for link in config.links)
    return build(config.sites, links, config.settings)


def wait_for_daemon(process: subprocess.Popen[bytes], log: TextIO, address: str, patience_s: float) -> None:
    """Return when the daemon answers; its own last words if it ends instead."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            antiphon.blocking.connect(address).close()
            return
        except ConnectError:
            if process.poll() is not None:
                log.seek(0)
                words = log.read().splitlines()
                raise AntiphonError(f"a daemon ended early: {words[-1] if words else 'silently'}") from None
            if time.monotonic() > deadline:
                raise AntiphonError(f"a daemon did not start within {patience_s:.0f} s") from None
            time.sleep(0.02)


def _wait_formed(addresses: list[str], names: tuple[str, ...], patience_s: float) -> None:
    """Return when all daemons are in one view."""
    deadline = time.monotonic() + patience_s
    while not has_formed([ask_status(address, groups=0, sessions=0) for address in addresses], names):
        if time.monotonic() > deadline:
            raise AntiphonError(f"the daemons did not meet within {patience_s:.0f} s")
        time.sleep(0.02)


def stop_daemons(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """End daemons in order, or else by force: all are told before any is waited for, so that none takes
    leave of one that is about to go, too."""
    processes = list(processes)
    for process in processes:
        process.terminate()
    for process in processes:
        _wait_for_end(process)


def stop_daemon(process: subprocess.Popen[bytes]) -> None:
    """End a daemon in order, or else by force."""
    process.terminate()
    _wait_for_end(process)


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
