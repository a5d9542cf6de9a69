"""What every link between two daemons has in common, whatever carries its packets.

A handshake (HELLO) shows each side that the other has built its end before data flows, measures the round
trip, and repeats as a sign of life. A link belongs to one daemon view and dies with it.
"""

from abc import abstractmethod
from enum import Enum
from typing import ClassVar, NamedTuple

from antiphon.core.effects import Outbox
from antiphon.core.links.carrier import Carrier
from antiphon.core.links.flow import Regulator
from antiphon.wire import packet
from antiphon.wire.packet import Hello, PacketKind

HELLO_FIRST_US = 20_000


class Signs(NamedTuple):
    """How often the ends of a link look for signs of life of each other."""

    hello_us: int
    """After so long without a packet of the other end, a hello requests an answer."""
    ask_us: int
    """Until the answer comes, a hello is repeated after this, or after the time that an answer may take."""

    @property
    def latest_us(self) -> int:
        """After so long without a packet of the other end, an open link has sent a hello."""
        return self.hello_us * 5 // 4

    @property
    def round_us(self) -> int:
        """The token of a ring goes round at least so often. A round shows each of its daemons that all others
        are alive, and has more packets than two hellos."""
        return self.hello_us * 3 // 2


def slowest(answer_us: int, before_us: int) -> int:
    """The longest time that an answer took lately, after one more: it fades by 1/16 each time."""
    return max(answer_us, before_us * 15 // 16)


class LinkState(Enum):
    """Where a link stands with its other end."""

    CLOSED = "closed"
    """The other side has not answered yet."""
    OPEN = "open"
    FAILED = "failed"
    """Declared failed; the membership decides what follows from that."""


class Ends(NamedTuple):
    """The two daemons of a link, and its view: what stands in the heads of its packets."""

    me: int
    peer: int
    digest: int
    view: int
    incarnation: int
    peer_incarnation: int
    seal: int = 0
    """That of the outbox."""

    def prefix(self, kind: PacketKind) -> bytes:
        """The part of the head that is the same in all packets of one kind."""
        return packet.prefix(
            kind,
            digest=self.digest,
            sender=self.me,
            receiver=self.peer,
            incarnation=self.incarnation,
            view=self.view,
            seal=self.seal,
        )


class Link(Carrier):
    """One end of a reliable link."""

    protocol: ClassVar[str]
    """Its name in the configuration."""

    def __init__(
        self,
        ends: Ends,
        packet_bytes: int,
        regulator: Regulator,
        *,
        signs: Signs,
        datagrams: Outbox,
        now_us: int,
    ) -> None:
        super().__init__(packet_bytes, {kind: ends.prefix(kind) for kind in PacketKind}, datagrams)
        self.peer = ends.peer
        self.state = LinkState.CLOSED
        self.reason = "no answer yet"
        """Why the state is what it is, as text."""
        self.heard_us = now_us
        """When a packet of the peer last came in; a link without traffic hears a hello now and then."""
        self.slowest_us = 0
        """The longest time that an answer to a hello took lately, hellos that got lost included."""
        self.regulator = regulator
        self._peer_incarnation = ends.peer_incarnation
        self._refill_us: int | None = None  # when the rate allows the next packet
        self._signs = signs
        self._hello_us = now_us  # when to see whether the peer must be sent a hello
        self._hello_wait_us = HELLO_FIRST_US
        self._is_larger = ends.me > ends.peer
        self._has_asked = False  # whether this end was the last to send a hello that wants an answer
        self._asked_us: int | None = None  # when the first hello since the peer's last packet was sent

    @abstractmethod
    def pump(self, now_us: int) -> None:
        """Send what may be sent now."""

    # Handshake --------------------------------------------------------------------------------------------

    def _say_hello(self, now_us: int, echo_us: int, answered_bytes: int = 0) -> None:
        prefix, counter = self._prefixes[PacketKind.HELLO], self._counter.take()
        data = packet.hello(prefix, now_us, echo_us, answered_bytes=answered_bytes, counter=counter)
        self._emit_alone(self.peer, data)

    def _ask(self, now_us: int) -> None:
        """Send a hello that wants an answer, if it is time."""
        if self.state is LinkState.CLOSED:
            self._hello_us = now_us + self._hello_wait_us
            self._hello_wait_us = min(self._signs.hello_us, self._hello_wait_us * 3 // 2)
        else:
            due_us = self.heard_us + self._quiet_us
            if self._asked_us is None and due_us > now_us:
                self._hello_us = due_us
                return
            self._hello_us = now_us + self.ask_us
            self._has_asked = True
            if self._asked_us is None:
                self._asked_us = now_us
        self._say_hello(now_us, 0)

    @property
    def _quiet_us(self) -> int:
        """How long to wait for a packet of the other end before a hello. On an idle link the two ends send it
        in turn, so that one exchange shows both that the other is alive, and each measures the round trip."""
        if self._is_larger:
            return self._signs.hello_us * 9 // 8
        return self._signs.latest_us if self._has_asked else self._signs.hello_us

    @property
    def ask_us(self) -> int:
        """How long to wait for an answer before the next hello."""
        return max(self._signs.ask_us, self.regulator.patience_us)

    def _heard(self, now_us: int) -> None:
        """A packet of the other end came in."""
        self.heard_us = now_us
        if self._asked_us is not None:
            self.slowest_us = slowest(now_us - self._asked_us, self.slowest_us)
            self._asked_us = None

    def _receive_hello(self, hello: Hello, now_us: int) -> None:
        if hello.echo_us and hello.echo_us <= now_us and not hello.head.number:
            self.regulator.measured(now_us - hello.echo_us, now_us)
        is_first = self.state is LinkState.CLOSED
        if is_first:
            self._open_up("answered")
        if not hello.echo_us or is_first:
            self._say_hello(now_us, hello.clock_us, hello.size_bytes if hello.padding_bytes else 0)
            self._has_asked = False
        self.pump(now_us)

    def _open_up(self, reason: str) -> None:
        self.state = LinkState.OPEN
        self.reason = reason

    def _fail(self, reason: str) -> None:
        if self.state is not LinkState.FAILED:
            self.counters["failures"] += 1
            self.state = LinkState.FAILED
            self.reason = reason
