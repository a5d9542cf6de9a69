"""Who may read a journal over the network: TLS, certificates and tokens of its server.

Whoever may read may read all that the journal has: a journal is made of groups that belong together, and a
second one of others costs little. Over plain connections it serves this machine alone, unless it is told that
the network is trusted.
"""

import hmac
import socket
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
from msgspec import Struct

from antiphon.errors import ConfigError, UsageError
from antiphon.runtime.access import digest_of
from antiphon.runtime.secret_files import check_secret, read_tokens

AUTHORIZATION = "authorization"
BEARER = "Bearer "


class Guard(Struct, frozen=True):
    """What the server of a journal shows, and what it asks for; names of files."""

    certificate: str = ""
    key: str = ""
    ca: str = ""
    """With it, readers must have certificates that come from these roots."""
    token_file: str = ""
    """With it, readers must have one of these tokens."""
    insecure: bool = False
    """Whether to serve other machines over plain connections."""

    def options(self, location: str) -> dict[str, Any]:
        """What the server is made with. UsageError for files that cannot be used, and for a place that is
        open to others without protection."""
        try:
            return self._options(location)
        except ConfigError as error:
            raise UsageError(str(error)) from None

    def _options(self, location: str) -> dict[str, Any]:
        scheme, _, place = location.partition("://")
        found: dict[str, Any] = {}
        if scheme == "grpc+tls":
            if not (self.certificate and self.key):
                raise UsageError(f"{location} needs a certificate and its key")
            check_secret(Path(self.key), "the key of a certificate")
            found["tls_certificates"] = [(read_pem(self.certificate), read_pem(self.key))]
            if self.ca:
                found |= {"verify_client": True, "root_certificates": read_pem(self.ca)}
        elif self.certificate or self.key or self.ca:
            raise UsageError(f"a certificate is for grpc+tls://HOST:PORT, not for {location}")
        elif not self.insecure and not is_local(place.rpartition(":")[0]):
            raise UsageError(
                f"{location} is plain, and other machines may reach it: use grpc+tls://, or say that the "
                "network is trusted (insecure)"
            )
        if self.token_file:
            digests = [digest_of(token) for token in read_tokens(Path(self.token_file))]
            found["middleware"] = {AUTHORIZATION: _Doorkeeper(digests)}
        return found


class _Doorkeeper(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who has a token."""

    def __init__(self, digests: list[bytes]) -> None:
        self._digests = digests

    def start_call(self, info: Any, headers: Any) -> None:
        """A call has come: refuse it if no token is shown, or another one."""
        for value in headers.get(AUTHORIZATION) or headers.get(AUTHORIZATION.title()) or ():
            shown = digest_of(str(value).removeprefix(BEARER))
            if sum(hmac.compare_digest(shown, digest) for digest in self._digests):  # all of them, always
                return
        raise flight.FlightUnauthenticatedError("this journal is for readers with a token that it knows")


def is_local(host: str) -> bool:
    """Whether a host is this machine by a loopback address, whatever else it is called.

    >>> is_local("127.0.0.1"), is_local("[::1]"), is_local("0.0.0.0")
    (True, True, False)
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    places = [str(one[4][0]) for one in found]
    return all(place == "::1" or place.startswith("127.") for place in places)


def read_pem(path: str) -> bytes:
    """What stands in a file of certificates or keys."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
