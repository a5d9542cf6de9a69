"""Daemons for the tests of this folder, each in a process of its own, as users run them."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from raw_client import RawClient, status, wait_until

from antiphon.config import Config
from antiphon.errors import AntiphonError
from antiphon.wire import frames


def as_toml(config: Config) -> str:
    """`config` as a file that gives the same configuration."""
    lines = ["[cluster]"]
    for field in config.settings.__struct_fields__:
        value = getattr(config.settings, field)
        lines.append(f'{field} = "{value}"' if isinstance(value, str) else f"{field} = {value}")
    for site in config.sites:
        lines += ["[[site]]", f'name = "{site.name}"']
        for daemon in site.daemon:
            clients = ", ".join(f'"{place}"' for place in daemon.clients)
            lines += ["[[site.daemon]]", f'name = "{daemon.name}"', f'address = "{daemon.address}"']
            lines.append(f"clients = [{clients}]")
    for link in config.links:
        lines += ["[[link]]", f'sites = ["{link.sites[0]}", "{link.sites[1]}"]', f"cost = {link.cost}"]
        if link.emulate is not None:
            path = link.emulate
            lines.append(
                f"emulate = {{delay_ms = {path.delay_ms}, jitter_ms = {path.jitter_ms}, loss = {path.loss}}}"
            )
    return "\n".join(lines) + "\n"


class ProcessCluster:
    """Starts every daemon of a configuration; they end with the stack."""

    def __init__(self, config: Config, directory: Path, stack: ExitStack) -> None:
        self.config = config
        self.places = [daemon.clients[0] for _, daemon in config.daemons()]
        self.processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        file = directory / "cluster.toml"
        file.write_text(as_toml(config))
        for _, daemon in config.daemons():
            self._logs.append(directory / f"{daemon.name}.log")
            words = [sys.executable, "-m", "antiphon", "daemon", "--config", str(file), "--name", daemon.name]
            with self._logs[-1].open("wb") as log:
                process = subprocess.Popen(words, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            self.processes.append(process)
        wait_until(self._is_up)

    def _is_up(self) -> bool:
        for process, log in zip(self.processes, self._logs, strict=True):
            assert process.poll() is None, log.read_text()
        try:
            links = [link for place in self.places for link in status(place)["links"]]
        except (OSError, AntiphonError, AssertionError):
            return False
        return all(link["state"] == "open" for link in links)

    def assert_well(self) -> None:
        """Every daemon runs and has nothing to regret."""
        for process, log in zip(self.processes, self._logs, strict=True):
            assert process.poll() is None, log.read_text()
            assert "Traceback" not in log.read_text(), log.read_text()

    def descriptors(self, index: int) -> int:
        """Open descriptors of a daemon, without the one that asks."""
        with RawClient(self.places[index]) as asking:
            for _ in range(2):  # by the second answer it has seen the ends of connections closed before
                asking.say(frames.AskStatus())
                asking.hear(frames.Status)
            return len(os.listdir(f"/proc/{self.processes[index].pid}/fd")) - 1

    def resident_bytes(self, index: int) -> int:
        pages = Path(f"/proc/{self.processes[index].pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
