"""The verb `config token`: make a token for a user of the access list."""

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from antiphon.errors import UsageError

TOKEN_BYTES = 32


def token(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist yet.")],
) -> None:
    """Make a token, in a new file that only its owner can read.

    The daemon's access list names the file as `token_file`; a client has a copy, named with
    --token-file or ANTIPHON_TOKEN_FILE.

    \b
    Example:
      antiphon config token orders.token
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(f"cannot make {file}: {error.strerror}") from None
    with open(descriptor, "w") as opened:
        opened.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    print(f"{file}: a new token")
