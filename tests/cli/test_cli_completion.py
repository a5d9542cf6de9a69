"""Shells complete the verbs, their options, and those values of which there are few."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import TIMEOUT_S, environment

PROGRAMS = Path(sys.executable).parent
PROMPT = b"ready> "


def at_home(home: Path) -> dict[str, str]:
    """An environment with a home of its own and `antiphon` on the path."""
    return environment() | {"HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}


class Bash:
    """An interactive bash at a terminal."""

    def __init__(self, home: Path) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=at_home(home) | {"TERM": "dumb", "BASH_SILENCE_DEPRECATION_WARNING": "1"}, cwd=home,
        )  # fmt: skip
        os.close(theirs)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def shows(self, text: bytes) -> None:
        """Wait until this is written."""
        seen = b""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([self._ours], [], [], 0.1)[0]:
                seen += os.read(self._ours, 65_536)

    def leave(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


def test_a_bash_into_which_it_is_installed_completes(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text(f"PS1='{PROMPT.decode()}'\n")
    installing = subprocess.run(
        ["bash", "-c", "antiphon --install-completion; exit $?"],
        env=at_home(tmp_path), capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert installing.returncode == 0, installing.stderr
    bash = Bash(tmp_path)
    try:
        bash.shows(PROMPT)
        bash.type(b"antiphon lis\t")
        bash.shows(b"antiphon listen ")
        bash.type(b"tea --deliv\t")
        bash.shows(b"tea --delivery ")
        bash.type(b"fi\t")
        bash.shows(b"fifo ")
    finally:
        bash.leave()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("antiphon li", ["listen"]),
        ("antiphon listen tea --del", ["--delivery"]),
        ("antiphon listen --delivery ", ["agreed", "fifo", "arrival"]),
        ("antiphon config im", ["import-spread"]),
        ("antiphon bench throughput --case ring", ["ring", "ring-unbundled"]),
        ("antiphon simulate --scenario resi", ["resilient"]),
        ("antiphon lab so", ["soak"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_each_shell_is_told(line: str, completed: list[str], shell: str) -> None:
    """As the scripts ask, which `--show-completion` prints."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = subprocess.run(
        [PROGRAMS / "antiphon"],
        env=environment() | {"_ANTIPHON_COMPLETE": f"complete_{shell}"} | asked,
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.stderr == ""
    for word in completed:
        assert word in done.stdout, done.stdout
    if shell == "bash":
        assert done.stdout.split() == completed
