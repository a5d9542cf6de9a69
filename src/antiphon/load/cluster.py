"""A cluster of real daemon processes on loopback, for measurements."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import antiphon.blocking
from antiphon.client import ask_status
from antiphon.config import Config, Protocol
from antiphon.errors import AntiphonError, ConnectError
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed

_START_TIMEOUT_S = 20.0
_START_EACH_S = 2.0
"""More for each daemon: they start at the same time, on as many cores as there are."""
_STOP_TIMEOUT_S = 5.0
_SPREAD = ".spread"
"""Behind the place of our own clients."""


@contextmanager
def daemons(
    sites: int,
    *,
    per_site: int = 1,
    protocol: Protocol = "hop",
    rate_bytes_per_s: int = 0,
    spread: bool = False,
) -> Iterator[list[str]]:
    """Start the daemon processes of so many sites, joined by links of this protocol, and wait until they have
    found each other; yields the addresses for their clients, or for Spread's. With a rate, the links between
    sites carry no more. All are gone afterwards."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        config = local_config(sites, directory, daemons=per_site, protocol=protocol)
        file = directory / "cluster.toml"
        file.write_text(as_toml(config, rate_bytes_per_s, spread=spread))
        started = []
        for _, daemon in config.daemons():
            log = stack.enter_context((directory / f"{daemon.name}.log").open("w+"))
            words = [sys.executable, "-m", "antiphon", "daemon", "--config", str(file), "--name", daemon.name]
            # A session of its own: Ctrl-C ends the daemons through `stop_daemon`, after their clients.
            process = subprocess.Popen(words, stderr=log, start_new_session=True)
            stack.callback(stop_daemon, process)
            started.append((process, log, daemon.clients[0]))
        patience_s = _START_TIMEOUT_S + _START_EACH_S * len(started)
        for process, log, address in started:
            wait_for_daemon(process, log, address, patience_s)
        addresses = [address for _, _, address in started]
        _wait_formed(addresses, config.daemon_names, patience_s)
        yield [f"{address}{_SPREAD}" for address in addresses] if spread else addresses


def as_toml(config: Config, rate_bytes_per_s: int = 0, *, spread: bool = False) -> str:
    """`config` as a file for daemon processes. With a rate, the links between sites carry no more; with
    `spread`, there is a socket for Spread's clients beside each of our own."""
    text = "[cluster]\n"
    for key in config.settings.__struct_fields__:
        value = getattr(config.settings, key)
        if value is not None:  # left to the preset
            text += f"{key} = {json.dumps(value)}\n"  # what JSON and TOML write alike
    for site in config.sites:
        text += f'\n[[site]]\nname = "{site.name}"\n'
        for daemon in site.daemon:
            text += f'[[site.daemon]]\nname = "{daemon.name}"\naddress = "{daemon.address}"\n'
            text += f'clients = ["{daemon.clients[0]}"]\n'
            if spread:
                text += f'spread = ["{daemon.clients[0]}{_SPREAD}"]\n'
            if daemon.tcp_address is not None:
                text += f'tcp_address = "{daemon.tcp_address}"\n'
    for link in config.links:
        one, other = link.sites
        text += f'\n[[link]]\nsites = ["{one}", "{other}"]\ncost = {link.cost}\n'
        text += f'protocol = "{link.protocol}"\nrate_bytes_per_s = {rate_bytes_per_s}\n'
        if link.emulate is not None:
            keys = link.emulate.__struct_fields__
            text += f"emulate = {{{', '.join(f'{key} = {getattr(link.emulate, key)}' for key in keys)}}}\n"
    return text


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
    while not has_formed([ask_status(address) for address in addresses], names):
        if time.monotonic() > deadline:
            raise AntiphonError(f"the daemons did not meet within {patience_s:.0f} s")
        time.sleep(0.02)


def stop_daemon(process: subprocess.Popen[bytes]) -> None:
    """End a daemon in order, or else by force."""
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
