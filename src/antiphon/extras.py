"""How to get what only some parts of Antiphon need, where it was installed from.

Antiphon is in no package index: its extras come from the folder from which it was installed.
"""

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit


def how_to_get(extra: str) -> str:
    """The command that brings an extra into this Python's environment; without its source, how to find one.

    >>> "[spark]" in how_to_get("spark")
    True
    """
    source = _source(_origin())
    if source is None:
        return f"in a clone of Antiphon, {_command(f'.[{extra}]')}"
    folder, is_editable = source
    return _command(*["--editable"] * is_editable, f"{folder}[{extra}]")


def _command(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *words])


def _origin() -> str | None:
    """What the installer wrote down of where this package came from (PEP 610)."""
    try:
        return distribution("antiphon").read_text("direct_url.json")
    except PackageNotFoundError:
        return None


def _source(origin: str | None) -> tuple[Path, bool] | None:
    """The folder of a clone that is still there, and whether changes in it count at once."""
    told = json.loads(origin) if origin else {}
    url = urlsplit(told.get("url", ""))
    folder = Path(unquote(url.path))
    if url.scheme != "file" or "dir_info" not in told or not (folder / "pyproject.toml").is_file():
        return None
    return folder, bool(told["dir_info"].get("editable"))
