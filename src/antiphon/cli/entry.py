"""Where the `antiphon` command begins: Ctrl-C is quiet even while the verbs are still being loaded."""

import signal
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Load the command, carry out what the command line says, and exit."""
    try:
        from antiphon.cli import main

        main.run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
