"""The verb `daemon`: run one daemon of a cluster."""

import logging
import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from antiphon import config as configuration
from antiphon.cli.options import TraceFolder, read_file
from antiphon.runtime.daemon import Daemon


def daemon(
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="The cluster's configuration file.")
    ],
    name: Annotated[str, typer.Option("--name", metavar="DAEMON", help="Which of its daemons this one is.")],
    trace: TraceFolder = None,
) -> None:
    """Run one daemon in the foreground until SIGTERM or Ctrl-C stops it; it logs to stderr.

    A daemon that is told to stop takes leave of its clients and of the other daemons first, so that none has
    to find out by silence; a second SIGTERM or Ctrl-C ends it at once.

    \b
    Example:
      antiphon daemon --config cluster.toml --name oslo1
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    running = Daemon(configuration.parse(read_file(config), str(config)), name, trace=trace)
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
