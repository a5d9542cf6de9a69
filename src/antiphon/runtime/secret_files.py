"""Files with secrets: read only if nobody but their owner can."""

import os
import stat
from pathlib import Path

from antiphon import limits
from antiphon.errors import ConfigError

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_secret(path: Path, what: str) -> None:
    """ConfigError if this file, which holds `what`, is not there or is open to others."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}, {what}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path}, {what}, is not a file")
    if found.st_mode & OTHERS:
        raise ConfigError(f"{path}, {what}, is open to others: chmod 600 {path}")


def read_tokens(path: Path) -> tuple[str, ...]:
    """The tokens of a file, one in each line. Errors name the file and the line, never what stands there."""
    check_secret(path, "a file of tokens")
    try:
        with path.open("rb") as file:
            data = file.read(limits.SECRET_FILE_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}, a file of tokens: {error.strerror}") from None
    if len(data) > limits.SECRET_FILE_MAX_BYTES:
        raise ConfigError(f"{path} is too long for a file of tokens")
    tokens = []
    for number, line in enumerate(data.splitlines(), 1):
        token = line.decode("ascii", "replace").strip()
        if not token:
            continue
        if not limits.TOKEN_MIN_CHARACTERS <= len(token) <= limits.TOKEN_MAX_CHARACTERS:
            least, most = limits.TOKEN_MIN_CHARACTERS, limits.TOKEN_MAX_CHARACTERS
            raise ConfigError(f"{path}, line {number}: expected a token of {least} to {most} characters")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(f"{path}, line {number}: expected a token of printable ASCII without spaces")
        tokens.append(token)
    if not tokens:
        raise ConfigError(f"{path} has no token")
    return tuple(tokens)
