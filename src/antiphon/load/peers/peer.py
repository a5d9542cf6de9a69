"""What every peer must be able to do to be measured beside the others."""

import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.load.peers.work import Work
from antiphon.load.plan import Received, Sent

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where servers are that the PATH of a person often leaves out."""


class Place(Struct, frozen=True):
    """Where a running server is reached."""

    address: str
    prefix: tuple[str, ...] = ()
    """The words before a command that is to run where the server is, such as in a network namespace."""


class Peer(ABC):
    """A system that carries messages from one program to many.

    The process that plays the rounds calls `missing`, `versions` and `server`; a sender's process calls
    `send`, a receiver's `receive`. These two and `serve` may import the peer's client, and nothing else may.
    """

    name: ClassVar[str]
    """The word for it on the command line and in reports."""
    programs: ClassVar[dict[str, str]] = {}
    """Programs that must be installed, each with its Debian package."""
    version_word: ClassVar[str] = "--version"
    """The option with which the programs tell their version."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Python packages that must be installed, by the names that pip knows."""
    helpful: ClassVar[tuple[str, ...]] = ()
    """Python packages that its client uses if they are installed."""

    def missing(self) -> str:
        """What is not installed and the command that installs it, in one line; empty if nothing is."""
        programs = [program for program in self.programs if not find_program(program)]
        packages = [package for package in self.packages if not _package_version(package)]
        commands = []
        if programs:
            commands.append(f"apt-get install {' '.join(sorted({self.programs[name] for name in programs}))}")
        if packages:
            commands.append(f"pip install {' '.join(packages)}")
        return f"no {', no '.join(programs + packages)}; {'; '.join(commands)}" if commands else ""

    def versions(self) -> dict[str, str]:
        """The versions of what is measured; empty for a program that does not tell."""
        found = {program: _program_version(program, self.version_word) for program in self.programs}
        packages = {package: _package_version(package) for package in (*self.packages, *self.helpful)}
        return found | {package: text for package, text in packages.items() if text}

    @abstractmethod
    def server(self, folder: Path) -> AbstractContextManager[Place]:
        """Start a server that keeps its files in `folder`; it has ended when the context is left."""

    @abstractmethod
    def send(self, work: Work, address: str) -> Sent:
        """Send the work's `Stream`, until the server has all of it."""

    @abstractmethod
    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        """Subscribe, call `say_ready`, and `Count` until that is over."""

    def serve(self, address: str) -> None:
        """Be the server until the process is ended, for a peer that has no program of its own for it."""
        raise AntiphonError(
            f"{self.name} has a server program of its own, so it is not served from {address}"
        )


def find_program(name: str) -> str | None:
    """The path of an installed program."""
    return shutil.which(name) or shutil.which(name, path=":".join(_SYSTEM_FOLDERS))


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _program_version(program: str, word: str) -> str:
    path = find_program(program)
    if path is None:
        return ""
    done = subprocess.run([path, word], capture_output=True, text=True, timeout=10, check=False)
    found = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else ""
