"""What one connection has sent and how much of it has been accepted: is known to be at every daemon.

The daemon numbers a session's messages, joins and leaves from 1; the library counts along, so that a number
in an `Accepted` tells exactly which messages are meant.
"""

from collections import deque

from msgspec import Struct

from antiphon.client.events import Sent
from antiphon.service import Service
from antiphon.types import Resilience
from antiphon.wire import frames

KEPT_MAX_BYTES = 32 * 1024 * 1024
"""Payloads kept until they are accepted: more than a daemon lets one session have under way. Beyond it the
oldest are only counted."""
MESSAGE_COST_BYTES = 64
"""What keeping a message costs besides its payload."""
UNCOUNTED_MAX = 4_096
"""Numbers told apart from those that count when asked what is unaccepted; older ones count, too."""


class BundleKey(Struct, frozen=True, gc=False):
    """What the messages of one bundle share, checked, and the bytes it becomes."""

    groups: tuple[str, ...]
    names: bytes
    service: Service
    flags: int
    tag: int
    self_discard: bool
    resilience: Resilience | None = None


class _Kept(Struct, frozen=True, gc=False):
    """A closed bundle whose messages may have to be told."""

    first: int
    key: BundleKey
    payloads: list[bytes]
    size_bytes: int


class Ledger:
    """The account of one connection.

    Only senders change what is kept and only receivers change `accepted`: so no lock is needed, and a forked
    child can ask, too.
    """

    def __init__(self) -> None:
        self.welcome: frames.Welcome | None = None
        """The daemon's answer, with the identity that it gave to this connection."""
        self.accepted = 0
        """The daemon has accepted everything up to this number."""
        self._sequence = 0
        """What the daemon will call our last closed message: joins and leaves are numbered with them."""
        self._uncounted: deque[tuple[int, int]] = deque(maxlen=UNCOUNTED_MAX)
        """First and last number of what has no fate to tell: joins, leaves and unreliable messages."""
        self._refused: deque[tuple[int, int]] = deque(maxlen=UNCOUNTED_MAX)
        """First and last number of what the daemon has not sent on, or does not know about; written by
        receivers."""
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0

    @property
    def sequence(self) -> int:
        """What the daemon will call the last message, join, leave or request for a lock."""
        return self._sequence

    def note_request(self) -> None:
        """A join, a leave or a lock was asked for, or given back."""
        self._sequence += 1
        self._uncounted.append((self._sequence, self._sequence))

    def note_stamp(self) -> None:
        """The bundle that is noted next begins with the stamp of a batch, which is numbered, too."""
        self.note_request()

    def note_bundle(self, key: BundleKey, payloads: list[bytes], size_bytes: int) -> None:
        """A bundle was closed; `payloads` is not changed after this."""
        first = self._sequence + 1
        self._sequence += len(payloads)
        if key.service is Service.UNRELIABLE:
            self._uncounted.append((first, self._sequence))
            return
        cost_bytes = size_bytes + MESSAGE_COST_BYTES * len(payloads)
        self._kept.append(_Kept(first, key, payloads, cost_bytes))
        self._kept_bytes += cost_bytes
        self.forget()

    def accept(self, sequence: int) -> None:
        """The daemon has accepted everything up to `sequence`."""
        if sequence > self.accepted:
            self.accepted = sequence

    def refuse(self, sequence: int, count: int) -> tuple[Sent, ...]:
        """The daemon has not sent on `count` messages, from this one on; those of them that are kept."""
        last = sequence + count - 1
        self._refused.append((sequence, last))
        return tuple(
            sent
            for kept in [*self._kept]
            for sent in as_sent(
                kept.key, kept.payloads[max(0, sequence - kept.first) : max(0, last - kept.first + 1)]
            )
        )

    def doubt(self, sequence: int, count: int) -> tuple[tuple[Sent, ...], int]:
        """Nobody knows what became of `count` numbers from this one on: those of the messages that are kept,
        and how many messages there are. They are told now, and are not waited for any more."""
        doubted = self._unsettled(max(sequence, self.accepted + 1), sequence + count - 1)
        kept = [sent for first, last in doubted for sent in self.refuse(first, last - first + 1)]
        return tuple(kept), sum(last - first + 1 for first, last in doubted)

    def _unsettled(self, first: int, last: int) -> list[tuple[int, int]]:
        """The numbers from `first` to `last` without those that have no fate to tell, or another one."""
        found = []
        for begin, end in sorted((*self._uncounted, *self._refused)):
            if first < begin <= last:
                found.append((first, begin - 1))
            first = max(first, end + 1)
        return [*found, (first, last)] if first <= last else found

    def forget(self) -> None:
        """Keep no longer what is accepted, or too much; for senders."""
        kept = self._kept
        while kept and (
            kept[0].first + len(kept[0].payloads) - 1 <= self.accepted
            or (self._kept_bytes > KEPT_MAX_BYTES and len(kept) > 1)
        ):
            self._kept_bytes -= kept.popleft().size_bytes

    def unaccepted(self) -> int:
        """Messages that are not known to be accepted; unreliable ones promise nothing and do not count."""
        accepted = self.accepted
        # A copy, and nothing removed: any thread may ask while another sends.
        settled = (*self._uncounted, *self._refused)
        uncounted = sum(max(0, last - max(first - 1, accepted)) for first, last in settled)
        return max(0, self._sequence - accepted - uncounted)

    def unknown(self) -> tuple[Sent, ...]:
        """These messages, oldest first, as far as they are kept."""
        accepted = self.accepted
        refused = [*self._refused]
        return tuple(
            sent
            for kept in [*self._kept]
            # Bundles are refused whole, as far as they are not accepted.
            if not any(first <= max(kept.first, accepted + 1) <= last for first, last in refused)
            for sent in as_sent(kept.key, kept.payloads[max(0, accepted - kept.first + 1) :])
        )


def as_sent(key: BundleKey, payloads: list[bytes]) -> list[Sent]:
    """The messages of a bundle as they were given to `send`."""
    shared = (key.service, key.tag, key.self_discard, key.resilience)
    return [Sent(key.groups, payload, *shared) for payload in payloads]
