"""Every example runs by itself and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LAST_LINES = {
    "hello.py": "message: hello from bob (sent by #bob#d1)",
    "replicated_counter.py": "all equal",
    "ordered_chat.py": "all heard the same",
    "lock.py": "a worker with an old fence was refused",
    "replicated_service.py": "the others agree: True",
}


def test_every_example_is_known_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(LAST_LINES)


@pytest.mark.parametrize("name", LAST_LINES)
def test_example(name):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == LAST_LINES[name]
