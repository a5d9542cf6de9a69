"""Options that every verb has which talks to a daemon: how it speaks TLS, and who it is.

They are handed on in the environment, where the library and every process that a verb starts find them. A
token is never among the words of a command: other users of the machine can read these.
"""

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from antiphon.runtime.credentials import (
    TLS_CA_VARIABLE,
    TLS_CERTIFICATE_VARIABLE,
    TLS_KEY_VARIABLE,
    TLS_SERVER_NAME_VARIABLE,
    TOKEN_FILE_VARIABLE,
)

_File = Path | None
_VARIABLES = {
    "tls_ca": TLS_CA_VARIABLE,
    "tls_certificate": TLS_CERTIFICATE_VARIABLE,
    "tls_key": TLS_KEY_VARIABLE,
    "tls_server_name": TLS_SERVER_NAME_VARIABLE,
    "token_file": TOKEN_FILE_VARIABLE,
}
_HINTS: dict[str, object] = {
    "tls_ca": Annotated[
        _File,
        typer.Option(
            "--tls-ca",
            metavar="FILE",
            envvar=TLS_CA_VARIABLE,
            help="For tls: addresses: trusted root certificates; default: those of the system.",
        ),
    ],
    "tls_certificate": Annotated[
        _File,
        typer.Option(
            "--tls-certificate",
            metavar="FILE",
            envvar=TLS_CERTIFICATE_VARIABLE,
            help="The client certificate.",
        ),
    ],
    "tls_key": Annotated[
        _File,
        typer.Option(
            "--tls-key", metavar="FILE", envvar=TLS_KEY_VARIABLE, help="The private key of --tls-certificate."
        ),
    ],
    "tls_server_name": Annotated[
        str | None,
        typer.Option(
            "--tls-server-name",
            metavar="NAME",
            envvar=TLS_SERVER_NAME_VARIABLE,
            help="The name in the daemon's certificate, if it differs from the address.",
        ),
    ],
    "token_file": Annotated[
        _File,
        typer.Option(
            "--token-file",
            metavar="FILE",
            envvar=TOKEN_FILE_VARIABLE,
            help="A file with a token that identifies this client in the daemon's access list.",
        ),
    ],
}


def with_credentials(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with these options behind its own if it takes the address of a daemon."""
    signature = inspect.signature(verb)
    if "address" not in signature.parameters:
        return verb

    @functools.wraps(verb)
    def carry_out(**options: object) -> None:
        for name, variable in _VARIABLES.items():
            value = options.pop(name)
            if value is not None:
                os.environ[variable] = str(value)
        verb(**options)

    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in _HINTS.items()
    ]
    carry_out.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *own]
    )
    carry_out.__annotations__ = {**verb.__annotations__, **_HINTS}
    return carry_out
