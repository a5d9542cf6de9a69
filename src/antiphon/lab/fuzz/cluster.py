"""The cluster that is fuzzed: real daemons, each of them tapped, and a journal of what honest clients say."""

import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from antiphon.client import ask_status
from antiphon.config import Config, LinkConfig, Security, Settings, SiteConfig, as_toml, build
from antiphon.errors import AntiphonError, ConnectError
from antiphon.lab.fuzz.certificates import make_certificate
from antiphon.lab.fuzz.ending import peak_bytes
from antiphon.lab.fuzz.orders import Board
from antiphon.lab.fuzz.talkers import GROUP
from antiphon.load.cluster import SPREAD_SUFFIX, stop_daemons, wait_for_daemon, with_spread
from antiphon.load.crowds import resident_bytes
from antiphon.runtime import key_files
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed

START_WITHIN_S = 60.0
ANSWER_WITHIN_S = 5.0
STATUS_WITHIN_S = 60.0
SITES = {"north": 3, "middle": 1, "south": 1}
"""How many daemons each has: d1 to d3 with a ring, d4 behind a Hop link, d5 behind a TCP link."""
LINKS = (
    LinkConfig(sites=("north", "middle")),
    LinkConfig(sites=("middle", "south"), protocol="tcp"),
)
SETTINGS = Settings(
    name="fuzz",
    membership="lan",
    suspect_ms=1_500.0,
    recovery_ms=3_000.0,
    damp_max_ms=2_000.0,  # daemons are lost all the time here
)
MISTAKES = ("Traceback", "a mistake of its own")


def fuzz_config(directory: Path, *, is_sealed: bool = False, has_tls: bool = False) -> Config:
    """The cluster, with free ports, and with sockets in `directory`; perhaps with a key there, or with TLS at
    the TCP places of clients."""
    daemons = (
        local_config(1, directory, daemons=sum(SITES.values()), tcp=True, protocol="tcp").sites[0].daemon
    )
    if has_tls:
        daemons = tuple(
            structs.replace(daemon, clients=tuple(place.replace("tcp:", "tls:") for place in daemon.clients))
            for daemon in daemons
        )
    first = structs.replace(daemons[0], time="reference")  # so that they tell one another the time
    daemons = (first, *daemons[1:])
    sites = []
    for name, count in SITES.items():
        sites.append(SiteConfig(name=name, daemon=daemons[:count]))
        daemons = daemons[count:]
    security = Security(tls=make_certificate(directory) if has_tls else None)
    if is_sealed:
        security = structs.replace(security, key_file=str(directory / "cluster.key"))
        key_files.make(Path(security.key_file))
    return with_spread(
        build(tuple(sites), LINKS, SETTINGS, source="configuration of the fuzzer", security=security)
    )


class FuzzCluster:
    """Daemon processes and a journal. All of them are gone when the stack is left."""

    def __init__(
        self, directory: Path, stack: ExitStack, *, is_sealed: bool = False, has_tls: bool = False
    ) -> None:
        self.directory = directory
        self.config = fuzz_config(directory, is_sealed=is_sealed, has_tls=has_tls)
        self.places = {daemon.name: daemon.clients[0] for _, daemon in self.config.daemons()}
        self.tcp_places = {daemon.name: daemon.clients[1] for _, daemon in self.config.daemons()}
        self.spread_places = {name: f"{place}{SPREAD_SUFFIX}" for name, place in self.places.items()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.endpoint = ""
        """Where the journal is served."""
        self.restarts = 0
        self._file = directory / "cluster.toml"
        self._file.write_text(as_toml(self.config))
        self.board = Board(directory, len(self.places), make=True)
        stack.callback(self.stop)
        self.start()

    def start(self) -> None:
        """All daemons, and then the journal; returns when the daemons are in one view."""
        for name in self.places:
            words = [
                sys.executable,
                "-m",
                "antiphon.lab.fuzz.tap",
                str(self._file),
                name,
                str(self.directory),
            ]
            with self._log(name).open("ab") as log:
                # A session of its own: Ctrl-C ends the daemons through `stop`, after their clients.
                self.processes[name] = subprocess.Popen(words, stderr=log, start_new_session=True)
        for name, place in self.places.items():
            with self._log(name).open() as log:
                wait_for_daemon(self.processes[name], log, place, START_WITHIN_S)
        deadline_s = time.monotonic() + START_WITHIN_S
        while not self.is_whole():
            if time.monotonic() > deadline_s:
                raise AntiphonError(f"the daemons did not meet within {START_WITHIN_S:.0f} s")
            time.sleep(0.1)
        self._start_journal()

    def _start_journal(self) -> None:
        words = [sys.executable, "-m", "antiphon", "journal", "--groups", GROUP, "--json", "--reconnect"]
        words += ["--dir", str(self.directory / "journal"), "--address", self.places["d2"]]
        with self._log("journal").open("ab") as log:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        self.processes["journal"] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            words_of_it = self._log("journal").read_text(errors="replace").splitlines()
            raise AntiphonError(
                f"the journal did not start: {words_of_it[-1] if words_of_it else 'silently'}"
            )
        self.endpoint = msgspec.json.decode(line)["endpoint"]

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    # Answers ----------------------------------------------------------------------------------------------

    def ask(self, name: str) -> dict[str, Any] | None:
        """What a daemon says about itself; None if it does not answer."""
        try:
            return ask_status(self.places[name], ANSWER_WITHIN_S)
        except ConnectError:
            return None

    def is_whole(self) -> bool:
        """Whether all daemons say that they are in one view."""
        told = [answer for name in self.places if (answer := self.ask(name)) is not None]
        return len(told) == len(self.places) and has_formed(told, self.config.daemon_names)

    def left_out_s(self) -> float:
        """For how much longer any daemon is left out of views, by what the daemons say; 0 if none is."""
        told = [answer for name in self.places if (answer := self.ask(name)) is not None]
        return max((row["remaining_us"] for answer in told for row in answer["left_out"]), default=0) / 1e6

    def complaints(self) -> dict[str, str]:
        """What `antiphon status` complains of at every daemon, in its own words; empty where it exits 0."""
        asked = {
            name: subprocess.Popen(
                [sys.executable, "-m", "antiphon", "status", "--address", place],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for name, place in self.places.items()
        }
        return {name: _complaint(process) for name, process in asked.items()}

    def memory_bytes(self) -> dict[str, int]:
        """Resident, of every process that lives."""
        found = {}
        for name, process in self.processes.items():
            try:
                found[name] = resident_bytes(process.pid)
            except OSError:
                continue
        return found

    def peak_bytes(self) -> dict[str, int]:
        """The most that each process ever had."""
        found = {}
        for name, process in self.processes.items():
            most = peak_bytes(process.pid)
            if most is not None:
                found[name] = most
        return found

    @property
    def has_lost_a_daemon(self) -> bool:
        """Whether a daemon has ended by itself: then there is nothing to wait for."""
        return any(self.processes[name].poll() is not None for name in self.places)

    def ended(self) -> list[str]:
        """The processes that have ended by themselves, in words."""
        return [
            f"{name} ended with exit code {process.returncode}"
            for name, process in self.processes.items()
            if process.poll() is not None
        ]

    def mistakes(self) -> list[str]:
        """The logs that tell of a mistake in a program of ours, in words."""
        found = []
        for name in self.processes:
            for line in self._log(name).read_text(errors="replace").splitlines():
                if any(words in line for words in MISTAKES):
                    found.append(f"the log of {name} has: {line[:_SHOWN]}")
                    break
        return found

    # Trouble ----------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """End everything and start it again: what is broken for good must not hide what comes after."""
        self.stop()
        self.restarts += 1
        self.start()

    def keep(self, folder: Path, what: str) -> None:
        """Copy logs and the newest mutants to where they stay."""
        target = folder / what
        target.mkdir(parents=True, exist_ok=True)
        for path in (*self.directory.glob("*.log"), *self.directory.glob("*.jsonl"), self._file):
            shutil.copy(path, target)

    def stop(self) -> None:
        """End all processes, the journal first."""
        names = [name for name in ("journal", *self.places) if name in self.processes]
        stop_daemons(self.processes[name] for name in names)
        for process in self.processes.values():
            if process.stdout is not None:
                process.stdout.close()


def _complaint(process: "subprocess.Popen[str]") -> str:
    try:
        told, _ = process.communicate(timeout=STATUS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"no answer for {STATUS_WITHIN_S:.0f} s"
    if process.returncode == 0:
        return ""
    lines = [line.strip() for line in told.splitlines()]
    at = next((place for place, line in enumerate(lines) if "NOT" in line or "do not flow" in line), 0)
    return " ".join(lines[at : at + 2])[:_SHOWN] or f"exit code {process.returncode}"


_SHOWN = 200
