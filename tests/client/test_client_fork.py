"""Programs that fork: sessions and embedded daemons stay with the parent, and the child may have its own.

Each has an interpreter of its own: what forks must know all threads and sockets of its process, and a process
that runs tests may have those of Spark or of Arrow Flight.
"""

import subprocess
import sys
from collections.abc import Callable

import forking_programs
import pytest


@pytest.mark.parametrize("program", forking_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_that_forks(program: Callable[[], None]) -> None:
    done = subprocess.run(
        [sys.executable, forking_programs.__file__, program.__name__],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
