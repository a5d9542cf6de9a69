"""The command as users run it."""

import os
import subprocess
import sys
from collections.abc import Callable

Finished = subprocess.CompletedProcess[str]
Run = Callable[..., Finished]
Start = Callable[..., "subprocess.Popen[str]"]

COMMAND = [sys.executable, "-m", "antiphon"]
TIMEOUT_S = 60
"""Only so that a fault does not hang; nothing is expected to take this long."""


def environment() -> dict[str, str]:
    """This process's environment without what would change the command's defaults."""
    return {key: value for key, value in os.environ.items() if key != "ANTIPHON"}


def is_one_line(text: str) -> bool:
    """Whether an error is told as it should be."""
    return text.startswith("antiphon: ") and text.count("\n") == 1 and text.endswith("\n")
