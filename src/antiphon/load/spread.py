"""Load by way of Spread's protocol: what a program with one of the toolkit's libraries would do.

One write a message, since the libraries do not gather messages; the time of sending stands in the body.
"""

import socket
import struct
import sys
import time
from collections.abc import Callable

from antiphon.errors import AntiphonError, Refused
from antiphon.load.crowd import dial
from antiphon.load.plan import END_TAG, Plan, Received, Sent
from antiphon.load.tally import Tally
from antiphon.service import Service
from antiphon.spreadwire import greeting, layout

_READ_BYTES = 256 * 1024
_TIME = struct.Struct("<q")
_SILENCE_TIMEOUT_S = 60.0


class SpreadConnection:
    """A session at a place where Spread is spoken."""

    def __init__(self, address: str, *, priority: int, views: bool) -> None:
        self._socket = dial(address)
        self._socket.settimeout(_SILENCE_TIMEOUT_S)
        self._kept = b""
        self._socket.sendall(bytes((*greeting.VERSION, priority << 4 | views, 0)))
        self._take(self._code())
        self._socket.sendall(greeting.METHODS.strip().ljust(greeting.CHOICE_BYTES, b"\0"))
        self._code()
        self._take(len(greeting.VERSION))
        self._sender = self._take(self._take(1)[0])

    def _code(self) -> int:
        (code,) = struct.unpack("b", self._take(1))
        if code < 0:
            raise Refused(str(code), "the daemon does not take this client")
        return int(code)

    def _take(self, size: int) -> bytes:
        return self._socket.recv(size, socket.MSG_WAITALL)

    def start(self, kind: int, group: str, tag: int, size: int) -> bytes:
        """What stands before the body of a message to one group."""
        hint = layout.pack_hint(tag, True)
        return layout.pack_header(kind, self._sender, 1, hint, size) + layout.pack_name(group)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def join(self, group: str) -> None:
        """Join, and wait for the first view."""
        self.send(self.start(layout.JOIN, group, 0, 0))
        while not any(kind & layout.REGULAR_VIEW for kind, *_ in self.receive()):
            pass

    def receive(self) -> list[tuple[int, bytes, memoryview]]:
        """Type, hint and body of each frame that has come, of one at least."""
        found: list[tuple[int, bytes, memoryview]] = []
        while not found:
            more = self._socket.recv(_READ_BYTES)
            if not more:
                raise AntiphonError("the daemon closed the connection")
            data = memoryview(self._kept + more)
            at = 0
            while len(data) - at >= layout.HEADER_BYTES:
                kind, _, count, hint, size = layout.parse_header(data, at)
                body_at = at + layout.HEADER_BYTES + layout.NAME_BYTES * count
                if body_at + size > len(data):
                    break
                found.append((kind, hint, data[body_at : body_at + size]))
                at = body_at + size
            self._kept = bytes(data[at:])
        return found

    def close(self) -> None:
        self.send(self.start(layout.KILL, self._sender.decode("ascii"), 0, 0))
        self._socket.close()


def send(plan: Plan) -> Sent:
    """Send what the plan says, and the end mark."""
    assert plan.address is not None
    session = SpreadConnection(plan.address, priority=plan.priority, views=False)
    start = session.start(layout.BIT_OF[plan.service], plan.group, 0, plan.size_bytes)
    rest = bytes(plan.size_bytes - _TIME.size)
    time.sleep(plan.after_s)
    begin = time.monotonic()
    limit = plan.count or sys.maxsize
    sent = 0
    while sent < limit and (now := time.monotonic()) - begin < plan.seconds:
        if plan.rate_per_s:
            due_s = begin + sent / plan.rate_per_s
            if due_s > now:
                time.sleep(due_s - now)
        session.send(start + _TIME.pack(time.time_ns() // 1_000) + rest)
        sent += 1
    seconds = time.monotonic() - begin
    last = layout.BIT_OF[max(plan.service, Service.AGREED)]
    session.send(session.start(last, plan.group, END_TAG, 0))
    session.close()
    return Sent(sent, seconds)


def receive(plan: Plan, address: str, say_ready: Callable[[], None]) -> Received:
    """Join, say so, and count until the end mark."""
    session = SpreadConnection(address, priority=plan.priority, views=True)
    session.join(plan.group)
    say_ready()
    tally = Tally()
    end = layout.pack_hint(END_TAG, True)
    while True:
        found = session.receive()
        now_us = time.time_ns() // 1_000
        for kind, hint, body in found:
            if hint == end:
                session.close()
                return tally.report()
            if kind & layout.SERVICES:
                (sent_us,) = _TIME.unpack_from(body)
                tally.count([len(body)], now_us - sent_us, now_us)
