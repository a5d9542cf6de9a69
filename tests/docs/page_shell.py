"""The shell blocks of a page, run from first to last as a reader would, on what looks like a fresh machine.

A page runs in namespaces of its own, so that nothing in it meets other tests or other users of the machine:
/tmp and the home are empty, there is no network but loopback with all of its ports free, and every process
ends with the page. The folder looks like a clone of the repository in which `make setup` was done.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from pages import ROOT, Block, blocks_of

Finished = subprocess.CompletedProcess[str]

BIN = Path(sys.executable).parent
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
AS_ANY_USER = ["--user", "--map-root-user"]

ENTER = """\
set -eu
fresh=$1; shift
while [ "$1" != -- ]; do
  case $1 in /tmp/*) mkdir -p "$fresh/${1#/tmp/}"; mount --rbind "$1" "$fresh/${1#/tmp/}" ;; esac
  shift
done
shift
mount --rbind "$fresh" /tmp
"$1" -I -c "$2"
cd /tmp/antiphon
exec bash "$3"
"""
"""Arguments: what becomes /tmp; folders that must stay visible; --; Python; LOOPBACK_UP; the script."""

LOOPBACK_UP = """\
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(door, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP | IFF_RUNNING))
"""

SHORTER = {"SECONDS_OF_SOAK": "30", "MUTANTS": "3000"}
"""What `make soak` and `make fuzz` take from the environment, since a test has less time than a reader."""

END_OF_FILE = "END-OF-THE-FILE"


def commands_of(block: Block) -> Iterator[str]:
    """The commands of a shell block: lines, with those that continue them.

    >>> list(commands_of(Block("page:1", "sh", "one \\\\\\n  --more\\ntwo &\\n")))
    ['one \\\\\\n  --more\\n', 'two &\\n']
    """
    command = ""
    for line in block.code.splitlines(keepends=True):
        command += line
        if not line.endswith("\\\n"):
            yield command
            command = ""
    assert not command, f"{block.place} ends within a command"


def script_of(page: str, name: str, without: Collection[str] = ()) -> str:
    """A page as one shell script: files are written and commands run in the order of the page.

    Commands that begin with one of the texts of `without` are left out.
    """
    script = ["set -eu"]
    for block in blocks_of(page, name):
        if block.title:
            folder = os.path.dirname(block.title)
            script += [f"mkdir -p {folder}"] if folder else []
            script.append(f"cat > {block.title} <<'{END_OF_FILE}'\n{block.code}{END_OF_FILE}\n")
        elif block.language == "sh":
            script.append(f"echo '>>> {block.place}' >&2\n")
            script += [command for command in commands_of(block) if not command.startswith(tuple(without))]
    return "\n".join(script)


def run_script(script: str, folder: Path, timeout_s: int) -> Finished:
    """Run a script in namespaces of its own; `folder` becomes its /tmp."""
    clone = folder / "antiphon"
    _lay_clone(clone)
    (folder / "home").mkdir()
    (folder / "script.sh").write_text(script)
    visible = {str(ROOT), sys.prefix, sys.base_prefix}
    words = [*_namespaces(), "bash", "-c", ENTER, "enter", str(folder), *sorted(visible), "--"]
    return subprocess.run(
        [*words, sys.executable, LOOPBACK_UP, "/tmp/script.sh"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=timeout_s,
        env={"PATH": f"{BIN}:{SYSTEM_PATH}", "HOME": "/tmp/home", "LANG": "C.UTF-8"} | SHORTER,
        check=False,
    )


def why_not() -> str:
    """What keeps this process from having namespaces; empty if nothing does."""
    if shutil.which("unshare") is None:
        return "needs `unshare` of util-linux, so that pages disturb nothing"
    done = _tried(tuple(_namespaces()))
    return f"needs namespaces, so that pages disturb nothing: {done.strip()}" if done else ""


def _lay_clone(clone: Path) -> None:
    """What a clone has after `make setup`, without a copy of anything."""
    clone.mkdir()
    for entry in ROOT.iterdir():
        if not entry.name.startswith("."):
            (clone / entry.name).symlink_to(entry)
    (clone / ".venv").mkdir()
    for entry in Path(sys.prefix).iterdir():
        (clone / ".venv" / entry.name).symlink_to(entry)
    for stamp in (".installed", ".installed-dev"):  # newer than pyproject.toml: nothing is left to install
        (clone / ".venv" / stamp).unlink(missing_ok=True)
        (clone / ".venv" / stamp).touch()


def _namespaces() -> list[str]:
    """The words that run a command in namespaces: as root, or as a user who is root inside of them."""
    return NAMESPACES if not _tried(tuple(NAMESPACES)) else [*NAMESPACES, *AS_ANY_USER]


@functools.cache
def _tried(words: tuple[str, ...]) -> str:
    """What is wrong with these namespaces; empty if nothing is."""
    done = subprocess.run(
        [*words, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""
