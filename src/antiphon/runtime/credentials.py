"""What a client shows of itself and whom it trusts: TLS and a token, from arguments or the environment."""

import os
from collections.abc import Sequence
from pathlib import Path
from ssl import SSLContext

from msgspec import Struct

from antiphon.errors import ConfigError, UsageError
from antiphon.runtime.secret_files import read_tokens
from antiphon.runtime.tls import Tls

TLS_CA_VARIABLE = "ANTIPHON_TLS_CA"
TLS_CERTIFICATE_VARIABLE = "ANTIPHON_TLS_CERTIFICATE"
TLS_KEY_VARIABLE = "ANTIPHON_TLS_KEY"
TLS_SERVER_NAME_VARIABLE = "ANTIPHON_TLS_SERVER_NAME"
TOKEN_FILE_VARIABLE = "ANTIPHON_TOKEN_FILE"


class Credentials:
    """How a client speaks TLS, and its token; the token is shown nowhere."""

    def __init__(self, tls: Tls, token: str = "") -> None:
        self.tls = tls
        self.token = token
        self._context: SSLContext | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.tls!r}, {'with' if self.token else 'without'} a token)"

    def context(self) -> SSLContext:
        """For connections with TLS, read once."""
        if self._context is None:
            self._context = self.tls.context()
        return self._context


class CredentialFiles(Struct, frozen=True):
    """The same as names of files: it may travel to other machines that have these files, and holds no
    secret."""

    tls: Tls = Tls()
    token_file: str = ""

    def load(self) -> Credentials:
        """What stands in the files. UsageError for those that cannot be used."""
        return Credentials(self.tls, _token(Path(self.token_file)) if self.token_file else "")


def files_of_environment() -> CredentialFiles:
    """The files that the environment names."""
    return CredentialFiles(_tls(None), os.environ.get(TOKEN_FILE_VARIABLE, ""))


def credentials(
    tls: Tls | str | Path | None, token: str | Path | None, places: Sequence[str] = ()
) -> Credentials:
    """What these arguments of `connect` mean: TLS as given, by a file with roots, or by the environment; a
    token as text, or from a file. UsageError for what cannot be used at these places."""
    if tls is not None and places and all(place.startswith(("unix:", "tcp:")) for place in places):
        raise UsageError("tls is for addresses that begin with tls:, and there is none")
    found = Credentials(_tls(tls), _token(token))
    if tls is not None or any(place.startswith("tls:") for place in places):
        found.context()  # files that cannot be used are found out now
    return found


def _tls(tls: Tls | str | Path | None) -> Tls:
    if isinstance(tls, Tls):
        return tls
    if isinstance(tls, str | Path):
        return Tls(ca=str(tls))
    if tls is not None:
        raise UsageError(f"tls must be an antiphon.Tls or a file with roots, not {type(tls).__name__}")
    variables = (TLS_CA_VARIABLE, TLS_CERTIFICATE_VARIABLE, TLS_KEY_VARIABLE, TLS_SERVER_NAME_VARIABLE)
    return Tls(*(os.environ.get(variable, "") for variable in variables))


def _token(token: str | Path | None) -> str:
    if token is None:
        named = os.environ.get(TOKEN_FILE_VARIABLE)
        token = Path(named) if named else ""
    if isinstance(token, Path):
        try:
            return read_tokens(token)[0]
        except ConfigError as error:
            raise UsageError(str(error)) from None
    if not isinstance(token, str):
        raise UsageError(f"token must be text, or a Path of a file with it, not {type(token).__name__}")
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise UsageError("the token is not printable ASCII without spaces")
    return token
