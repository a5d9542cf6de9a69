"""The verb `daemon`: run one daemon of a cluster."""

import ipaddress
import logging
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from msgspec import structs

from antiphon import config as configuration
from antiphon.cli.options import TraceFolder, read_file
from antiphon.config import EdgeMulticast, Security
from antiphon.errors import ConfigError, UsageError
from antiphon.runtime.cluster_daemon import ClusterDaemon
from antiphon.runtime.credentials import credentials
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.discovery import host_name
from antiphon.runtime.edge import DEFAULT_PLACE, EdgeDaemon, edge_of
from antiphon.runtime.local import alone_config


def daemon(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The cluster's configuration file.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The name of this daemon or edge in the file; without --config, any name.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="Without a file: find the other daemons of this cluster in the LAN.",
        ),
    ] = None,
    interface: Annotated[
        str | None,
        typer.Option("--interface", metavar="IP", help="With --cluster: the network interface to use."),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="With --cluster: the key of the cluster (see `antiphon config keygen`).",
        ),
    ] = None,
    next_key_file: Annotated[
        Path | None,
        typer.Option(
            "--next-key-file",
            metavar="FILE",
            help="With --key-file: the next key, for a change of keys; the file need not exist yet.",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Without a file: allow other machines without a key, and their clients over plain TCP.",
        ),
    ] = False,
    edge: Annotated[
        bool, typer.Option("--edge", help="Run an edge without a file, for clients that mostly receive.")
    ] = False,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            "--attach",
            metavar="ADDRESS",
            help="With --edge: address of a daemon or another edge; repeat in order of preference.",
        ),
    ] = None,
    clients: Annotated[
        list[str] | None,
        typer.Option(
            "--clients",
            metavar="ADDRESS",
            help="With --edge, or for a single daemon: where clients connect; default: "
            "unix:/tmp/antiphon.sock.",
        ),
    ] = None,
    reach: Annotated[
        list[str] | None,
        typer.Option(
            "--reach",
            metavar="ADDRESS",
            help="With --edge: where other edges connect; default: the TCP addresses of --clients.",
        ),
    ] = None,
    stay: Annotated[
        bool,
        typer.Option(
            "--stay", help="With --edge: stay at the given attachments, do not organise with other edges."
        ),
    ] = False,
    multicast: Annotated[
        EdgeMulticast,
        typer.Option("--multicast", help="With --edge: whether to use multicast among edges."),
    ] = "auto",
    trace: TraceFolder = None,
) -> None:
    """Run one daemon in the foreground until SIGTERM or Ctrl-C stops it; it logs to stderr.

    On SIGTERM or Ctrl-C the daemon announces its stop to its clients and to the other daemons, so that they
    need no timeout to notice it; a second signal ends it at once. On SIGHUP it reads its keys, its access
    list and its certificate again; if it logs to a terminal, SIGHUP ends it.

    With --cluster no file is needed: daemons in one LAN with the same cluster name find each other by
    multicast, agree on numbers and names (by default the machines' names), and form one site. All of them
    need the same key file, or --insecure if other machines can reach the daemon.

    Without --config and --cluster it is a single daemon on this machine, enough to try everything.

    An edge is a daemon that is in no view and that no other daemon waits for. It gets the groups of its
    clients from the daemon or edge to which it is attached, and switches to the next one when that is lost.
    To run an edge of the file, give its --name; with --edge no file is needed.

    \b
    Example:
      antiphon daemon
      antiphon daemon --config cluster.toml --name oslo1
      antiphon daemon --cluster tea --key-file tea.key
      antiphon daemon --edge --attach tcp:10.0.0.7:4811 --attach tcp:10.0.0.8:4811
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    if edge:
        others = (config, cluster, interface, trace, key_file, next_key_file)
        if any(one is not None for one in others):
            raise UsageError(
                "--edge goes with --attach, --name, --clients, --reach, --stay, --multicast, --insecure only"
            )
        running: Daemon | ClusterDaemon | EdgeDaemon = _edge(
            name, attach, clients, reach, stay, multicast, insecure
        )
    elif attach or reach or stay or multicast != "auto":
        raise UsageError(
            "--attach, --reach, --stay and --multicast are for --edge; a file has them in its [[edge]] tables"
        )
    elif config is None and cluster is None:
        if interface is not None:
            raise UsageError("--interface is for --cluster")
        running = _alone(name, clients, trace, insecure)
    elif clients:
        raise UsageError("--clients is for --edge, or one daemon alone; a file has the places of clients")
    else:
        if insecure and cluster is None:
            raise UsageError("a file has it in its table [security]: --insecure is for daemons without one")
        security = Security(
            insecure=insecure, key_file=str(key_file or ""), next_key_file=str(next_key_file or "")
        )
        running = _made(config, name, cluster, interface, trace, security)
    told: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        if len(told) == 1:
            running.leave()
        else:
            running.stop()

    def reload(_number: int, _frame: FrameType | None) -> None:
        running.reload()

    signal.signal(signal.SIGTERM, stop)
    if not sys.stderr.isatty():  # at a terminal it means that the terminal is gone
        signal.signal(signal.SIGHUP, reload)
    signal.signal(signal.SIGINT, stop)
    running.run()
    if signal.SIGINT in told:
        raise KeyboardInterrupt  # so that it ends as every verb does on Ctrl-C


def _made(
    config: Path | None,
    name: str | None,
    cluster: str | None,
    interface: str | None,
    trace: Path | None,
    security: Security,
) -> Daemon | ClusterDaemon | EdgeDaemon:
    """The daemon that the options mean."""
    if config is not None and cluster is not None:
        raise UsageError("give --config FILE with --name DAEMON, or --cluster NAME, not both")
    if config is not None:
        if name is None:
            raise UsageError("--config needs --name: which of its daemons this one is")
        if interface is not None:
            raise UsageError("--interface is for --cluster; a file has the addresses")
        if security != Security():
            raise UsageError(
                "--key-file, --next-key-file and --insecure are for --cluster; a file has a table [security]"
            )
        parsed = configuration.resolved(
            configuration.parse(read_file(config), str(config)), str(config.parent)
        )
        if parsed.edge(name) is None:
            return Daemon(parsed, name, trace=trace)
        return edge_of(parsed, name, trace, credentials(None, None).token)
    assert cluster is not None
    if trace is not None:
        raise UsageError("--trace needs --config: a trace names all daemons of a cluster from its start")
    if interface is not None:
        _check_interface(interface)
    if security.next_key_file and not security.key_file:
        raise UsageError("--next-key-file needs --key-file: the key that it follows")
    return ClusterDaemon(cluster, name=name, interface=interface, security=security)


def _alone(name: str | None, clients: list[str] | None, trace: Path | None, insecure: bool) -> Daemon:
    """One daemon without a file and without others."""
    name = name or host_name()
    try:
        config = alone_config(name, tuple(clients or (DEFAULT_PLACE,)))
        config = structs.replace(config, security=Security(insecure=insecure))
        return Daemon(config, name, trace=trace)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _edge(
    name: str | None,
    attach: list[str] | None,
    clients: list[str] | None,
    reach: list[str] | None,
    stay: bool,
    multicast: EdgeMulticast,
    insecure: bool,
) -> EdgeDaemon:
    """An edge without a file."""
    if not attach:
        raise UsageError("--edge needs --attach: the address of a daemon, or of another edge")
    try:
        return EdgeDaemon(
            name or host_name(),
            attach,
            clients or (DEFAULT_PLACE,),
            organises=not stay,
            reach=reach or (),
            multicast=multicast,
            security=Security(insecure=insecure),
            shown=credentials(None, None, attach),
        )
    except ConfigError as error:
        raise UsageError(f"address{str(error).removeprefix('listener')}") from None


def _check_interface(interface: str) -> None:
    try:
        ipaddress.IPv4Address(interface)
    except ValueError:
        raise UsageError(f"--interface is the IPv4 address of an interface, not {interface!r}") from None
