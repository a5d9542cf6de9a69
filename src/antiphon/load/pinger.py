"""A session that sends agreed messages to itself at a steady rate, and knows its longest silence.

    python -m antiphon.load.pinger ADDRESS GROUP

Each line of stdin is answered with a `Silence` as JSON on stdout: what was seen since the line before. The
process ends with its stdin.
"""

import os
import select
import sys
import time

import msgspec
from msgspec import Struct

import antiphon.blocking
from antiphon import Message
from antiphon.errors import AntiphonError
from antiphon.load.plan import Failed

INTERVAL_S = 0.01
"""The time between two messages."""
OWN = b"ping"


class Silence(Struct, frozen=True, tag="silence"):
    """What a pinger saw."""

    longest_s: float
    """The longest time from one of its messages to the next, as they were delivered."""
    others: int
    """Messages that others sent to its group."""


class Pinger:
    """Sends and listens."""

    def __init__(self, address: str, group: str) -> None:
        self._group = group
        self._session = antiphon.blocking.connect(address, views=False)
        self._session.join(group)
        self._heard_s = time.monotonic()
        self._longest_s = 0.0
        self._others = 0

    def ping(self) -> None:
        """Send one message and take what has come, for a while."""
        self._session.send(self._group, OWN)
        until_s = time.monotonic() + INTERVAL_S
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                events = self._session.receive_many(left_s)
            except TimeoutError:
                return
            now_s = time.monotonic()
            for event in events:
                if isinstance(event, Message) and event.payload == OWN:
                    self._longest_s = max(self._longest_s, now_s - self._heard_s)
                    self._heard_s = now_s
                elif isinstance(event, Message):
                    self._others += 1

    def take(self) -> Silence:
        """What was seen since the last time; a silence that lasts counts up to now."""
        seen = Silence(max(self._longest_s, time.monotonic() - self._heard_s), self._others)
        self._longest_s, self._others = 0.0, 0
        return seen


def main() -> None:
    """Ping until stdin ends."""
    address, group = sys.argv[1:]
    try:
        pinger = Pinger(address, group)
        while True:
            pinger.ping()
            if select.select((sys.stdin,), (), (), 0)[0]:
                if not os.read(sys.stdin.fileno(), 1):
                    return
                _report(pinger.take())
    except AntiphonError as error:
        _report(Failed(str(error)))


def _report(value: Silence | Failed) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
