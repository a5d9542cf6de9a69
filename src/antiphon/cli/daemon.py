"""The verb `daemon`: run one daemon of a cluster."""

import ipaddress
import logging
import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from antiphon import config as configuration
from antiphon.cli.options import TraceFolder, read_file
from antiphon.errors import UsageError
from antiphon.runtime.cluster_daemon import ClusterDaemon
from antiphon.runtime.daemon import Daemon


def daemon(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The cluster's configuration file.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="DAEMON", help="Which of its daemons this one is; with --cluster, its name."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="NAME", help="Find the other daemons in this LAN by the cluster's name."
        ),
    ] = None,
    interface: Annotated[
        str | None,
        typer.Option("--interface", metavar="IP", help="With --cluster: the network interface to use."),
    ] = None,
    trace: TraceFolder = None,
) -> None:
    """Run one daemon in the foreground until SIGTERM or Ctrl-C stops it; it logs to stderr.

    A daemon that is told to stop takes leave of its clients and of the other daemons first, so that none has
    to find out by silence; a second SIGTERM or Ctrl-C ends it at once.

    With --cluster there is no file: daemons in one LAN that name the same cluster find each other by
    multicast, agree on numbers and names (by default the machines' names), and are one site.

    \b
    Example:
      antiphon daemon --config cluster.toml --name oslo1
      antiphon daemon --cluster tea
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    running = _made(config, name, cluster, interface, trace)
    told: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        if len(told) == 1:
            running.leave()
        else:
            running.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    running.run()
    if signal.SIGINT in told:
        raise KeyboardInterrupt  # so that it ends as every verb does on Ctrl-C


def _made(
    config: Path | None, name: str | None, cluster: str | None, interface: str | None, trace: Path | None
) -> Daemon | ClusterDaemon:
    """The daemon that the options mean."""
    if (config is None) == (cluster is None):
        raise UsageError("give --config FILE with --name DAEMON, or --cluster NAME")
    if config is not None:
        if name is None:
            raise UsageError("--config needs --name: which of its daemons this one is")
        if interface is not None:
            raise UsageError("--interface is for --cluster; a file has the addresses")
        return Daemon(configuration.parse(read_file(config), str(config)), name, trace=trace)
    assert cluster is not None
    if trace is not None:
        raise UsageError("--trace needs --config: a trace names all daemons of a cluster from its start")
    if interface is not None:
        _check_interface(interface)
    return ClusterDaemon(cluster, name=name, interface=interface)


def _check_interface(interface: str) -> None:
    try:
        ipaddress.IPv4Address(interface)
    except ValueError:
        raise UsageError(f"--interface is the IPv4 address of an interface, not {interface!r}") from None
