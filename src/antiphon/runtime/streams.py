"""TCP connections between daemons: the sockets for `core.streams`, which decides what becomes of them.

All reading and writing of a connection is in `Wire`, so that something else than a plain socket can take its
place, such as one that encrypts.

A path that is cut leaves a connection hanging, and TCP tries ever more rarely. Links notice that by silence.
The connection itself is given up after `USER_TIMEOUT_SUSPICIONS` times as long without an acknowledgement, so
that a fresh one can be had as soon as the path works again.
"""

import errno
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from antiphon.core.streams.channel import Channel, ChannelPhase
from antiphon.core.streams.exchange import Exchange
from antiphon.errors import ConfigError, ConnectError
from antiphon.runtime.loop import READABLE, WRITABLE, Loop, now_us

READ_BYTES = 256 * 1024
READS_PER_WAKE = 4
"""Then clients and timers get their turn."""
UNSENT_BYTES = 128 * 1024
"""What the kernel takes before it sends; more would only wait there, where no update can overtake it."""
BACKLOG = 128
ACCEPTS_PER_WAKE = 16
ACCEPT_PAUSE_US = 500_000
"""How long to wait after the system had no room for a connection."""
USER_TIMEOUT_SUSPICIONS = 2
USER_TIMEOUT_MIN_MS = 2_000
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""Closes an idle connection whose other end has vanished."""

SocketAddress = tuple[str | int | bytes, ...]
Place = tuple[int, SocketAddress]
"""Socket family and address."""


class Wire:
    """The socket of one connection."""

    def __init__(self, plain: socket.socket, user_timeout_ms: int) -> None:
        self._socket = plain
        self.interest = 0
        """What the loop watches for."""
        plain.setblocking(False)
        with suppress(OSError):  # one that has gone again is found out by the first read
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)
            for option, value in _KEEPALIVE:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def fileno(self) -> int:
        return self._socket.fileno()

    def connect(self, address: SocketAddress) -> None:
        """Begin to; OSError if that is hopeless."""
        code = self._socket.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))

    def check_connected(self) -> None:
        """OSError with the reason if the network did not answer as it should."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def read(self, buffer: memoryview) -> int:
        """How many bytes came, 0 at the end; BlockingIOError if none are there now."""
        return self._socket.recv_into(buffer)

    def write(self, channel: Channel) -> int:
        """How many bytes of what waits in the channel were taken."""
        try:
            return self._socket.sendmsg(channel.batch())
        except BlockingIOError:
            return 0

    def close(self) -> None:
        self._socket.close()


class StreamSockets:
    """A daemon's connections to other daemons, and the place where they call it."""

    def __init__(self, own: tuple[str, int], peers: Mapping[int, tuple[str, int]], suspect_us: int) -> None:
        """ConfigError or ConnectError if an address cannot be had."""
        self._peers = {number: _resolve(address) for number, address in peers.items()}
        self._user_timeout_ms = max(USER_TIMEOUT_MIN_MS, USER_TIMEOUT_SUSPICIONS * suspect_us // 1_000)
        self._wires: dict[Channel, Wire] = {}
        self._shared = memoryview(bytearray(READ_BYTES))
        self._accepts_at_us: int | None = None
        """When to go on accepting, while that is paused."""
        self._listener = _listen(own)
        self.exchange: Exchange
        self._loop: Loop

    def serve(self, loop: Loop, exchange: Exchange) -> None:
        """Begin to accept calls for this exchange."""
        self._loop = loop
        self.exchange = exchange
        loop.register(self._listener.fileno(), self._accept, READABLE)

    def close(self) -> None:
        """All connections are over."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()
        self._listener.close()

    # The daemon's turn ------------------------------------------------------------------------------------

    def carry_out(self, now: int) -> None:
        """Dial, write and close what the exchange wants dialled, written and closed."""
        exchange = self.exchange
        while exchange.dials:
            self._dial(exchange.dials.pop(), now)
        for channel in list(exchange.outputs):
            wire = self._wires.get(channel)
            if wire is not None and not wire.interest & WRITABLE and channel.is_writable:
                self._write(channel, wire, now)
        while exchange.closings:
            self._close(exchange.closings.pop())

    def next_deadline_us(self) -> int | None:
        deadline_us = self.exchange.next_deadline_us()
        if self._accepts_at_us is not None and (deadline_us is None or self._accepts_at_us < deadline_us):
            return self._accepts_at_us
        return deadline_us

    def timeout(self, now: int) -> None:
        self.exchange.timeout(now)
        if self._accepts_at_us is not None and now >= self._accepts_at_us:
            self._accepts_at_us = None
            self._loop.register(self._listener.fileno(), self._accept, READABLE)

    # Beginning and end ------------------------------------------------------------------------------------

    def _dial(self, channel: Channel, now: int) -> None:
        assert channel.peer is not None
        if channel.phase is ChannelPhase.CLOSED:
            return
        family, address = self._peers[channel.peer]
        try:
            wire = Wire(socket.socket(family, socket.SOCK_STREAM), self._user_timeout_ms)
        except OSError as error:  # no descriptor left
            self.exchange.ended(channel, error.strerror or str(error), now)
            return
        self._wires[channel] = wire
        try:
            wire.connect(address)
        except OSError as error:
            self.exchange.ended(channel, error.strerror or str(error), now)
            return
        wire.interest = WRITABLE
        self._loop.register(wire.fileno(), partial(self._happened, channel, wire), WRITABLE, urgent=True)

    def _accept(self, _events: int) -> None:
        for _ in range(ACCEPTS_PER_WAKE):
            try:
                caller, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                self.exchange.facts["accept errors"] += 1
                self._loop.unregister(self._listener.fileno())
                self._accepts_at_us = now_us() + ACCEPT_PAUSE_US
                return
            channel = self.exchange.accepted(now_us())
            wire = self._wires[channel] = Wire(caller, self._user_timeout_ms)
            wire.interest = READABLE
            self._loop.register(wire.fileno(), partial(self._happened, channel, wire), READABLE, urgent=True)

    def _close(self, channel: Channel) -> None:
        wire = self._wires.pop(channel, None)
        if wire is None:
            return
        if channel.waiting_bytes and wire.interest:
            with suppress(OSError):  # its last words, if it still listens
                wire.write(channel)
        if wire.interest:
            self._loop.unregister(wire.fileno())
        wire.close()

    # Reading and writing ----------------------------------------------------------------------------------

    def _happened(self, channel: Channel, wire: Wire, events: int) -> None:
        now = now_us()
        if channel.phase is ChannelPhase.DIALLING:
            self._dialled(channel, wire, now)
            return
        if events & ~WRITABLE:  # errors and the end are read, too
            self._read(channel, wire, now)
        if events & WRITABLE and channel.phase is not ChannelPhase.CLOSED:
            self._write(channel, wire, now)

    def _dialled(self, channel: Channel, wire: Wire, now: int) -> None:
        try:
            wire.check_connected()
        except OSError as error:
            self.exchange.ended(channel, error.strerror or str(error), now)
            return
        self._watch(wire, READABLE)
        self.exchange.connected(channel, now)

    def _read(self, channel: Channel, wire: Wire, now: int) -> None:
        for _ in range(READS_PER_WAKE):
            try:
                size = wire.read(self._shared)
            except BlockingIOError:
                return
            except OSError as error:
                self.exchange.ended(channel, error.strerror or str(error), now)
                return
            if not size:
                self.exchange.ended(channel, "the other side has closed it", now)
                return
            self.exchange.received(channel, self._shared[:size], now_us())  # not before what it says came
            if size < READ_BYTES or channel.phase is ChannelPhase.CLOSED:
                return

    def _write(self, channel: Channel, wire: Wire, now: int) -> None:
        while channel.waiting_bytes:
            try:
                taken = wire.write(channel)
            except OSError as error:
                self.exchange.ended(channel, error.strerror or str(error), now)
                return
            if not taken:
                break
            self.exchange.written(channel, taken, now)
        self._watch(wire, READABLE | WRITABLE if channel.waiting_bytes else READABLE)

    def _watch(self, wire: Wire, interest: int) -> None:
        if wire.interest != interest:
            wire.interest = interest
            self._loop.change(wire.fileno(), interest)


def _resolve(address: tuple[str, int]) -> Place:
    host, port = address
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"TCP address {host}:{port} cannot be resolved: {error.strerror}") from None
    return family, place


def _listen(own: tuple[str, int]) -> socket.socket:
    family, place = _resolve(own)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConnectError(f"TCP address {own[0]}:{own[1]} cannot be used: {error.strerror}") from None
    return listening
