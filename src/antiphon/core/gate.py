"""What must be true of a packet's head before anything else of it counts.

What is refused is counted by its reason.

Follows no paper: the papers trust every packet.
Checked by: tests/paper/test_implausible.py, tests/paper/test_other_versions.py.
"""

from collections import Counter
from typing import Protocol

from antiphon.config import Config
from antiphon.core.other_versions import OtherVersions
from antiphon.errors import BadPacket, Nonsense
from antiphon.wire.packet import EVERYBODY, Head
from antiphon.wire.versions import OtherVersion


class Judge(Protocol):
    """What becomes of daemons that send nonsense, as the gate sees it."""

    def note(self, sender: int, incarnation: int, reason: str, is_connected: bool, now_us: int) -> None:
        """Nonsense came of a neighbour, under its seal."""


class Gate:
    """Lets in what the daemons of our configuration send to one daemon."""

    def __init__(self, config: Config, me: int, counters: Counter[str]) -> None:
        self.other_versions = OtherVersions(me, config.digest, config.neighbours_of(me))
        self._me = me
        self._digest = config.digest
        self._neighbours = frozenset(config.neighbours_of(me))
        self._mates = frozenset(config.daemons_of(config.site_of(me)))
        self._over_streams = frozenset(config.stream_peers_of(me))
        self.counters = counters
        self.judge: Judge | None = None
        """Hears of nonsense, where seals tell from whom it is."""

    def refuse(self, bad: BadPacket, origin: int | None) -> None:
        """A datagram cannot be read. It came from the address of `origin`, if that is known."""
        self.counters[bad.reason] += 1
        if isinstance(bad, OtherVersion) and bad.sender not in self._over_streams:
            self.other_versions.hear(bad, origin)

    def refuse_contents(self, bad: BadPacket, head: Head, now_us: int) -> None:
        """The head of a packet is as it should be, its contents are not."""
        self.counters[bad.reason] += 1
        self.hold_against(bad, head, now_us)

    def hold_against(self, bad: BadPacket, head: Head, now_us: int) -> None:
        """What was sealed is held against its sender, if it is nonsense in our configuration."""
        if isinstance(bad, Nonsense) and self.judge is not None and head.digest == self._digest:
            is_connected = head.sender in self._over_streams
            self.judge.note(head.sender, head.incarnation, bad.reason, is_connected, now_us)

    def is_for_us(self, receiver: int, sender: int) -> bool:
        """Whether a packet is for this daemon: what is for everybody is for the daemons of its sender's site.
        In another one it would be taken for a packet of a link."""
        return receiver == self._me or (receiver == EVERYBODY and sender in self._mates)

    def admits(self, head: Head, origin: int | None) -> bool:
        """Whether a packet comes from a neighbour, and is for us."""
        if head.digest != self._digest:
            self.counters["packet: other configuration"] += 1
        elif not self.is_for_us(head.receiver, head.sender) or head.sender not in self._neighbours:
            if head.sender != self._me:  # a multicast comes back to its sender, too
                self.counters["packet: not from a neighbour"] += 1
        elif origin not in (None, head.sender):
            self.counters["packet: from an address that is not its sender's"] += 1
        else:
            if self.other_versions.heard:
                self.other_versions.forget(head.sender)
            return True
        return False
