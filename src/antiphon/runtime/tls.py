"""TLS over a connected socket, for both of its ends: bytes in, bytes out, as a socket has them.

TLS 1.3 and nothing older, with the standard library's `ssl`. A `TlsSocket` stands where a socket stood: it
takes the calls that connections of daemons and of the library make, blocking or not. What it has been given
counts as written only when the system has taken it, so that whoever writes need not know that there is
something between.

`recv_into` hands out all that has come, as far as there is room; what does not fit makes `has_unread` true,
and no descriptor tells of it.
"""

import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from msgspec import Struct

from antiphon.config import TlsConfig
from antiphon.errors import BadFrame, ConfigError, UsageError
from antiphon.runtime.secret_files import check_secret

CHUNK_BYTES = 256 * 1024
"""Read from a socket, and sealed for it, at once."""
_HANDSHAKE = 0x16
"""The first byte of every TLS connection. No frame of ours begins with it: it would be too long."""
_ALERT = 0x15
"""The first byte of an answer that is none."""


class TlsFault(BadFrame):
    """What came is not TLS, or not from somebody with whom it can be spoken."""


class Tls(Struct, frozen=True):
    """How a client speaks TLS: whom it trusts, and what it shows.

    - `ca`: a file with the roots from which the daemon's certificate must come; without it, those of the
      system
    - `certificate` and `key`: files with what the client shows if the daemon asks for it
    - `server_name`: the name that the daemon's certificate must have, if it is not that of the address
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""

    def context(self) -> ssl.SSLContext:
        """For connections as a client. UsageError for files that cannot be used."""
        if bool(self.certificate) != bool(self.key):
            raise UsageError("a certificate for TLS needs its key, and a key its certificate")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            if self.ca:
                _load_roots(context, self.ca)
            else:
                context.load_default_certs(ssl.Purpose.SERVER_AUTH)
            if self.certificate:
                _load_certificate(context, self.certificate, self.key)
        except ConfigError as error:
            raise UsageError(str(error)) from None
        return context


def daemon_context(tls: TlsConfig) -> ssl.SSLContext:
    """For connections of clients. ConfigError for files that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a connection lasts: coming back the quick way would gain nothing
    _load_certificate(context, tls.certificate, tls.key)
    if tls.ca:
        _load_roots(context, tls.ca)
    context.verify_mode = {
        "none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED,
    }[tls.client_certificates]  # fmt: skip
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    _check_readable("certificate", certificate)
    check_secret(Path(key), "the key of a certificate")
    try:
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"cannot use the certificate {certificate} with the key {key}: {_words(error)}"
        ) from None


def _load_roots(context: ssl.SSLContext, ca: str) -> None:
    _check_readable("roots", ca)
    try:
        context.load_verify_locations(cafile=ca)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot use the roots in {ca}: {_words(error)}") from None


def _check_readable(what: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"cannot read the {what} {path}: {error.strerror}") from None


def _words(error: Exception) -> str:
    """OpenSSL's word for what is wrong, in lower case.

    >>> _words(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"))
    'wrong version number'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    text = str(error.args[-1]) if error.args else str(error)
    if text.startswith("["):
        text = text.partition("] ")[2]
    return text.partition(" (_ssl.c")[0] or type(error).__name__


class TlsSocket:
    """One end of a TLS connection over a connected socket.

    One thread may write while another one reads.
    """

    def __init__(
        self, plain: socket.socket, context: ssl.SSLContext, *, server_name: str | None = None
    ) -> None:
        """Without a `server_name` it is the daemon's end."""
        self._plain = plain
        self._is_daemon = server_name is None
        self._came = ssl.MemoryBIO()
        self._sealed = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._came, self._sealed, server_side=self._is_daemon, server_hostname=server_name
        )
        self._guard = threading.Lock()
        self._unsent = memoryview(b"")
        """What is sealed and not with the system yet."""
        self._sealed_bytes = 0
        """How many of the bytes that whoever writes gives next are sealed already."""
        self._has_begun = False
        self._is_plain = False
        """Whether what came is not TLS: then the last words go out as they are."""
        self._is_broken = False
        """Whether TLS has failed: then nothing that is written can be read."""
        self.has_unread = False
        """Whether more may be there to read than was asked for."""

    # As a socket ------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._plain.fileno()

    def close(self) -> None:
        self._plain.close()

    def setblocking(self, flag: bool) -> None:
        self._plain.setblocking(flag)

    def settimeout(self, timeout_s: float | None) -> None:
        self._plain.settimeout(timeout_s)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._plain.setsockopt(level, option, value)

    def shutdown(self, how: int) -> None:
        """Say that nothing more comes, also in the words of TLS."""
        with self._guard:
            if not (self._is_plain or self._is_broken) and how != socket.SHUT_RD:
                with suppress(ssl.SSLError, ValueError):
                    self._tls.unwrap()
                with suppress(OSError):
                    self._send_sealed()
        self._plain.shutdown(how)

    def recv_into(self, buffer: bytearray | memoryview, size: int = 0) -> int:
        """As of a socket, with as much as there is and fits; 0 at the end."""
        view = memoryview(buffer)[: size or None]
        at = 0
        if self._is_plain or self._is_broken:
            return self._plain.recv_into(view)
        with self._guard:
            while at < len(view):
                try:
                    count = cast(int, self._tls.read(len(view) - at, view[at:]))
                except ssl.SSLWantReadError:
                    self._send_soon()
                    self.has_unread = False
                    if at or not self._receive():
                        return at
                    continue
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    self.has_unread = False
                    return at
                except ssl.SSLError as error:
                    self._send_soon()  # the alert that tells the other end
                    self._is_broken, self.has_unread = True, False
                    raise TlsFault(f"tls: {_words(error)}") from None
                if not count:
                    return at
                at += count
            self.has_unread = True
        return at

    def _receive(self) -> bool:
        """More bytes from the other end, or False if it has closed; BlockingIOError if there are none."""
        data = self._plain.recv(CHUNK_BYTES)
        if not self._has_begun and data:
            self._has_begun = True
            if self._is_daemon and data[0] != _HANDSHAKE:
                self._is_plain = True
                raise TlsFault("tls: this place speaks TLS, and what came is not TLS")
            if data[0] not in (_HANDSHAKE, _ALERT):
                raise TlsFault("tls: what answers is not TLS")
        if not data:
            self._came.write_eof()
            return False
        self._came.write(data)
        return True

    def sendmsg(self, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
        """As of a socket. After a BlockingIOError, what is given next has to begin with the same bytes; how
        many, `sealed_bytes` says."""
        with self._guard:
            if self._is_plain:
                return self._plain.sendmsg(buffers)
            if not self._sealed_bytes and not self._is_broken:
                self._seal(buffers)
            if self._is_broken:
                return sum(map(len, buffers))
            self._send_sealed()
            written, self._sealed_bytes = self._sealed_bytes, 0
            return written

    @property
    def sealed_bytes(self) -> int:
        """How much of what was given last is sealed and has to be given again, because it is not out."""
        return self._sealed_bytes

    def sendall(self, data: bytes) -> None:
        """As of a socket that blocks. The two ends introduce themselves first."""
        self.handshake()
        at = memoryview(data)
        while at:
            at = at[self.sendmsg([at]) :]

    def handshake(self) -> bool:
        """Introduce the two ends to one another; whether that is done. On a socket that does not block, call
        it again when there is something to read."""
        with self._guard:
            while True:
                try:
                    self._tls.do_handshake()
                except ssl.SSLWantReadError:
                    self._send_soon()
                    try:
                        if not self._receive():
                            raise TlsFault("tls: the other end has closed the connection") from None
                    except BlockingIOError:
                        return False
                except ssl.SSLError as error:
                    self._send_soon()
                    raise TlsFault(f"tls: {_words(error)}") from None
                else:
                    self._send_soon()
                    return True

    def certificate_names(self) -> tuple[str, ...]:
        """Under which names the other end is known, by a certificate that was checked: its common name and
        its alternative names."""
        try:
            found = self._tls.getpeercert() or {}
        except ValueError:  # not introduced yet
            return ()
        subject = cast(Sequence[Sequence[tuple[str, str]]], found.get("subject", ()))
        alternatives = cast(Sequence[tuple[str, str]], found.get("subjectAltName", ()))
        names = [value for part in subject for kind, value in part if kind == "commonName"]
        names += [value for _, value in alternatives]
        return tuple(dict.fromkeys(names))

    # Between TLS and the socket ---------------------------------------------------------------------------

    def _seal(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        """Seal a part of what is given. Whoever is not introduced yet hears nothing."""
        pieces: list[bytes | bytearray | memoryview] = []
        size = 0
        for buffer in buffers:
            pieces.append(buffer)
            size += len(buffer)
            if size >= CHUNK_BYTES:
                break
        data = b"".join(pieces)[:CHUNK_BYTES]
        at = memoryview(data)
        try:
            while at:
                at = at[self._tls.write(at) :]
        except ssl.SSLError:
            self._is_broken = True
            return
        self._sealed_bytes = len(data)

    def _send_sealed(self) -> None:
        """Give the system all that is sealed; BlockingIOError if it does not take all of it."""
        while True:
            if not self._unsent:
                self._unsent = memoryview(self._sealed.read())
                if not self._unsent:
                    return
            self._unsent = self._unsent[self._plain.send(self._unsent) :]

    def _send_soon(self) -> None:
        """The same; what is not taken goes out with what is written next."""
        with suppress(OSError):
            self._send_sealed()
