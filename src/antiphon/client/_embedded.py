"""A daemon of one's own inside the program: a cluster of one site, for a first try, a test or an example."""

import os
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp


def start(trace: Path | None = None) -> tuple[str, Callable[[], None]]:
    """Start a daemon in a thread; where it listens, and how to stop it and remove its folder.

    A program that ends without closing its session removes the folder all the same; a forked child of it
    leaves the folder alone.
    """
    # Imported here: a program that connects to a daemon elsewhere does not need one.
    from antiphon.runtime.daemon import Daemon
    from antiphon.runtime.local import local_config

    directory = mkdtemp(prefix="antiphon-")
    try:
        config = local_config(1, Path(directory))
        daemon = Daemon(config, "d1", trace=trace)
        daemon.start()
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    remove = weakref.finalize(daemon, _remove, directory, os.getpid())

    def stop() -> None:
        daemon.stop()
        remove()

    return config.sites[0].daemon[0].clients[0], stop


def _remove(directory: str, owner_pid: int) -> None:
    if os.getpid() == owner_pid:
        shutil.rmtree(directory, ignore_errors=True)
