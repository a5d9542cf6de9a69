"""The places where clients connect: unix sockets and TCP ports."""

import os
import socket
import stat
from contextlib import suppress
from typing import Literal

from antiphon.config import address
from antiphon.errors import ConnectError
from antiphon.runtime.addresses import is_on_loopback

BACKLOG = 1_024
CLIENT_BUFFER_BYTES = 4 * 1024 * 1024
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A client whose machine has vanished is noticed within a minute (seconds, seconds, probes)."""


Protocol = Literal["antiphon", "spread"]
"""What its clients speak."""


class Listener:
    """One listening socket, from `unix:PATH`, `tls:HOST:PORT` or `tcp:HOST:PORT`.

    A unix socket that a dead daemon left behind is replaced; one on which a process answers is an error. Ours
    is removed on close, unless another daemon has put its own in place since.
    """

    def __init__(self, place: str, protocol: Protocol = "antiphon") -> None:
        self.protocol: Protocol = protocol
        scheme, _, where = place.partition(":")
        self.is_tls = scheme == "tls"
        self._path = where if scheme == "unix" else None
        try:
            self._socket = _listen_unix(where) if self._path else _listen_tcp(where)
        except OSError as error:
            if isinstance(error, ConnectError):
                raise
            raise ConnectError(f"cannot listen on {place}: {error.strerror or error}") from None
        if self._path and protocol == "spread":
            os.chmod(self._path, 0o666)  # as in Spread: every user of this machine may connect
        self._file = os.stat(self._path) if self._path else None
        self._socket.setblocking(False)

    @property
    def place(self) -> str:
        """Where clients connect, with the port that the system chose if the configuration says 0."""
        if self._path:
            return f"unix:{self._path}"
        host, port = self._socket.getsockname()[:2]
        scheme = "tls" if self.is_tls else "tcp"
        return f"{scheme}:[{host}]:{port}" if ":" in host else f"{scheme}:{host}:{port}"

    @property
    def is_exposed(self) -> bool:
        """Whether it is plain, and other machines may reach it."""
        return not self.is_tls and not self._path and not is_on_loopback(self._socket)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> socket.socket | None:
        """The next client, ready for use, or None if no client waits; OSError if the system has no room
        left."""
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        client.setblocking(False)
        with suppress(OSError):  # a client that has gone again is found out by the first read
            self._tune(client)
        return client

    def _tune(self, client: socket.socket) -> None:
        if self._path:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CLIENT_BUFFER_BYTES)
        else:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, value in _KEEPALIVE:
                client.setsockopt(socket.IPPROTO_TCP, option, value)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def close(self) -> None:
        if self._path and self._file:
            with suppress(OSError):
                if os.path.samestat(os.stat(self._path), self._file):
                    os.unlink(self._path)
        self._socket.close()

    def forget(self) -> None:
        """Close only this process's copy: the parent process still listens."""
        self._socket.close()


def _listen_unix(path: str) -> socket.socket:
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _remove_stale(path: str) -> None:
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise ConnectError(f"cannot listen on unix:{path}: a file that is not a socket is in the way")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.setblocking(False)
        try:
            visitor.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:  # a process listens, and its queue of clients is full
            pass
        raise ConnectError(f"cannot listen on unix:{path}: another daemon answers there")


def _listen_tcp(where: str) -> socket.socket:
    host, port = address(where, "listener")
    family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
