"""A daemon of one's own inside the program: a cluster of one site, for a first try, a test or an example."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def start() -> tuple[str, Callable[[], None]]:
    """Start a daemon in a thread; where it listens, and how to stop it and remove its folder.

    A program that ends without closing its session removes the folder all the same.
    """
    # Imported here: a program that connects to a daemon elsewhere does not need one.
    from antiphon.runtime.daemon import Daemon
    from antiphon.runtime.local import local_config

    directory = TemporaryDirectory(prefix="antiphon-", ignore_cleanup_errors=True)
    try:
        config = local_config(1, Path(directory.name))
        daemon = Daemon(config, "d1")
        daemon.start()
    except BaseException:
        directory.cleanup()
        raise

    def stop() -> None:
        daemon.stop()
        directory.cleanup()

    return config.sites[0].daemon[0].clients[0], stop
