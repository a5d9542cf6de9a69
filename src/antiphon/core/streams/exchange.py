"""The connections of one daemon: when it dials which daemon, which it accepts, which of two that cross stays.

Everything between two daemons whose sites are joined by `tcp` goes over one connection. The driver has the
sockets; it tells the exchange what happens to them and carries out what the exchange leaves behind:

- `dials`: channels to connect, to the address of their peer
- `closings`: channels to close, each after one attempt to write what waits in it
- `outputs`: channels in which something waits to be written; the driver reports how much was `written`
- `next_deadline_us()`: when to call `timeout` at the latest

A packet for a daemon to which there is no connection makes the exchange dial, now or after a pause that grows
with each failed attempt, and is dropped: beats and proposals are repeated anyway; a link sends nothing then.

Both sides may dial, because often only one of them can: the other one is behind a firewall. When both do at
the same time, the connection that the daemon with the smaller number has dialled stays.
"""

from collections import Counter
from typing import Protocol

from antiphon import limits
from antiphon.core.effects import Datagram
from antiphon.core.streams.channel import Channel, ChannelPhase
from antiphon.errors import BadPacket
from antiphon.wire import streams
from antiphon.wire.packet import is_data
from antiphon.wire.streams import Answer, Challenge, Greeting
from antiphon.wire.versions import GREETING_MAX_BYTES, OtherVersion

DIAL_TIMEOUT_US = 3_000_000
GREETING_TIMEOUT_US = 3_000_000
REDIAL_FIRST_US = 100_000
REDIAL_MAX_US = 1_000_000
"""A daemon or a path that works again is noticed within this time."""


class Talker(Protocol):
    """What sends packets to other daemons and receives theirs: the node."""

    def receive_stream(self, peer: int, data: memoryview, now_us: int) -> str:
        """A packet came over the connection to `peer`; why the connection must end, or nothing."""

    def greeted_otherwise(self, found: OtherVersion) -> None:
        """The other side of a connection greets in another version than ours, and the connection ends."""

    def stream_opened(self, peer: int, now_us: int) -> None:
        """There is a connection to `peer`."""

    def stream_lost(self, peer: int, reason: str, now_us: int) -> None:
        """The connection to `peer` is over."""

    def stream_moved(self, peer: int, waiting_bytes: int, now_us: int) -> None:
        """The connection has taken some of what was handed over."""


class Prover(Protocol):
    """What proves that an end of a connection has the cluster's key: `core.sealing.proofs`."""

    def challenge(self) -> Challenge:
        """What is sent before a greeting."""

    def shared(self, told: tuple[int, ...]) -> int | None:
        """The key to prove with to an end that has these; None: we have none of them."""

    def proof(self, number: int, dialler: bytes, acceptor: bytes, said: bytes) -> bytes:
        """The proof of a greeting."""

    def is_proof(self, number: int, dialler: bytes, acceptor: bytes, said: bytes, proof: bytes) -> bool:
        """Whether an end that has the key has said this."""


class _Line:
    """What an exchange knows of one other daemon."""

    def __init__(self) -> None:
        self.open: Channel | None = None
        self.dialling: Channel | None = None
        self.redial_us = -(10**15)
        """The exchange does not dial before this."""
        self.pause_us = REDIAL_FIRST_US
        self.opened_us = 0
        self.reason = ""
        """Why there is no connection, as text."""

    def pause(self, reason: str, now_us: int) -> None:
        """An attempt has failed, or its connection is over: wait before the next attempt."""
        self.reason = reason
        self.redial_us = now_us + self.pause_us
        self.pause_us = min(REDIAL_MAX_US, max(REDIAL_FIRST_US, 2 * self.pause_us))


class Exchange:
    """One daemon's connections to the daemons that it reaches over TCP."""

    def __init__(
        self,
        me: int,
        digest: int,
        incarnation: int,
        peers: tuple[int, ...],
        talker: Talker,
        prover: Prover | None = None,
    ) -> None:
        """With a `prover`, greetings bear proofs, and count for nothing without one."""
        self.dials: list[Channel] = []
        self.closings: list[Channel] = []
        self.outputs: dict[Channel, None] = {}
        self.counters: Counter[str] = Counter()
        """What was refused, by reason."""
        self.facts: Counter[str] = Counter()
        """Events that are no fault, by kind."""
        self._me = me
        self._digest = digest
        self._incarnation = incarnation
        self._talker = talker
        self._prover = prover
        self._lines = {peer: _Line() for peer in peers}
        self._opening: dict[Channel, None] = {}
        """The channels that are not open yet, which have a deadline, oldest first."""

    # Questions --------------------------------------------------------------------------------------------

    def serves(self, peer: int) -> bool:
        """Whether everything to this daemon goes over a connection."""
        return peer in self._lines

    def describe(self) -> dict[int, dict[str, object]]:
        """The state of each line, ready for JSON."""
        return {
            peer: {
                "state": "open" if line.open else "dialling" if line.dialling else "closed",
                "dialled": None if line.open is None else line.open.is_dialled,
                "waiting_bytes": 0 if line.open is None else line.open.waiting_bytes,
                "reason": line.reason,
            }
            for peer, line in self._lines.items()
        }

    def next_deadline_us(self) -> int | None:
        """When `timeout` has something to do."""
        return min((channel.deadline_us for channel in self._opening), default=None)

    # Events: the node -------------------------------------------------------------------------------------

    def send(self, datagram: Datagram, now_us: int) -> None:
        """Packets of the node, for a daemon that this exchange serves; each becomes a frame."""
        line = self._lines[datagram.receiver]
        channel = line.open
        if channel is None:
            self.facts["dropped unconnected"] += 1
            if line.dialling is None and now_us >= line.redial_us:
                self._dial(datagram.receiver, line, now_us)
        elif channel.waiting_bytes + datagram.size_bytes > limits.STREAM_OUTPUT_MAX_BYTES and not is_data(
            datagram.buffers[0]
        ):  # data is bounded by the link, and must not be lost
            self.facts["dropped full"] += 1
        else:
            assert datagram.size_bytes <= datagram.stride_bytes, "a train on a connection"
            channel.queue(streams.length(datagram.size_bytes), *datagram.buffers)
            self.outputs[channel] = None

    def hang_up(self, peer: int, reason: str, now_us: int) -> None:
        """End the connection to a daemon, if there is one."""
        channel = self._lines[peer].open
        if channel is not None:
            self._close(channel, reason, now_us)

    def _dial(self, peer: int, line: _Line, now_us: int) -> None:
        line.dialling = channel = Channel(peer, now_us + DIAL_TIMEOUT_US)
        self._opening[channel] = None
        self.dials.append(channel)

    # Events: the sockets ----------------------------------------------------------------------------------

    def connected(self, channel: Channel, now_us: int) -> None:
        """The connection that we dialled is established."""
        if channel.phase is not ChannelPhase.DIALLING:
            return
        assert channel.peer is not None
        channel.phase = ChannelPhase.GREETING
        channel.deadline_us = now_us + GREETING_TIMEOUT_US
        if self._prover is None:
            self._greet(channel, channel.peer, Answer.WELCOME)
        else:
            self._challenge(channel, self._prover)

    def accepted(self, now_us: int) -> Channel:
        """Another process has opened a connection to this daemon."""
        strangers = [channel for channel in self._opening if channel.peer is None]
        if len(strangers) >= limits.STREAM_STRANGERS_MAX:
            self.counters["stream: too many strangers"] += 1
            self._close(strangers[0], "too many strangers", now_us)
        channel = Channel(None, now_us + GREETING_TIMEOUT_US)
        self._opening[channel] = None
        return channel

    def received(self, channel: Channel, data: memoryview, now_us: int) -> None:
        """Bytes came in."""
        if channel.phase is ChannelPhase.CLOSED:
            return
        is_greeting = channel.phase is ChannelPhase.GREETING
        try:
            longest_bytes = limits.PACKET_MAX_BYTES
            if is_greeting and channel.peer is None:  # a stranger may send a greeting only
                longest_bytes = GREETING_MAX_BYTES
            for frame in channel.split(data, longest_bytes):
                if channel.phase is ChannelPhase.GREETING:
                    if self._prover is not None and channel.heard is None:
                        self._challenged(channel, self._prover, streams.parse_challenge(frame))
                    else:
                        self._greeted(channel, self._proven(channel, frame), now_us)
                elif channel.phase is ChannelPhase.OPEN:
                    assert channel.peer is not None
                    reason = self._talker.receive_stream(channel.peer, frame, now_us)
                    if reason:
                        raise BadPacket(reason)
        except BadPacket as error:
            if isinstance(error, OtherVersion) and self._is_expected(channel, error.sender):
                self._talker.greeted_otherwise(error)
            self.counters[f"stream: {error.reason}"] += 1
            self._close(channel, f"bad input: {error.reason}", now_us)

    def _is_expected(self, channel: Channel, sender: int) -> bool:
        """Whether this daemon may be at the other end."""
        return sender in self._lines and channel.peer in (None, sender)

    def written(self, channel: Channel, size_bytes: int, now_us: int) -> None:
        """The connection has taken so much of the channel's batch."""
        channel.written(size_bytes)
        if not channel.waiting_bytes:
            self.outputs.pop(channel, None)
        if channel.phase is ChannelPhase.OPEN:
            assert channel.peer is not None
            self._talker.stream_moved(channel.peer, channel.waiting_bytes, now_us)

    def ended(self, channel: Channel, reason: str, now_us: int) -> None:
        """The connection is over, or could not be established."""
        self._close(channel, reason, now_us)

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""
        for channel in [channel for channel in self._opening if channel.deadline_us <= now_us]:
            self._close(channel, "no answer", now_us)

    # Greetings --------------------------------------------------------------------------------------------

    def _challenge(self, channel: Channel, prover: Prover) -> None:
        """Have the other side prove that it has the key."""
        channel.said = prover.challenge()
        channel.queue(streams.challenge(channel.said))
        self.outputs[channel] = None

    def _challenged(self, channel: Channel, prover: Prover, heard: Challenge) -> None:
        """The other side has sent its challenge: the one that has dialled greets."""
        channel.heard = heard
        if prover.shared(heard.keys) is None:
            raise BadPacket("challenge: no key in common")
        if channel.is_dialled:
            assert channel.peer is not None
            self._greet(channel, channel.peer, Answer.WELCOME)
        else:
            self._challenge(channel, prover)

    def _proven(self, channel: Channel, frame: memoryview) -> Greeting:
        """The greeting in a frame; BadPacket if it should have a proof, and has not."""
        if self._prover is None:
            return streams.parse_greeting(frame)
        words, key, proof = streams.split_proof(frame)
        if not self._prover.is_proof(key, *channel.nonces, bytes(words), proof):
            raise BadPacket("greeting: its proof is none")
        return streams.parse_greeting(words)

    def _greet(self, channel: Channel, peer: int, answer: Answer) -> None:
        said = Greeting(self._digest, self._me, peer, self._incarnation, answer)
        if self._prover is None:
            channel.queue(streams.greeting(said))
        else:
            assert channel.heard is not None
            key = self._prover.shared(channel.heard.keys)
            if key is None:  # our keys have changed since the challenge came
                raise BadPacket("challenge: no key in common")
            words = streams.greeting_words(said)
            channel.queue(
                streams.proven_greeting(words, key, self._prover.proof(key, *channel.nonces, words))
            )
        self.outputs[channel] = None

    def _greeted(self, channel: Channel, said: Greeting, now_us: int) -> None:
        """The greeting of the other side has come."""
        if channel.is_dialled:
            self._answered(channel, said, now_us)
            return
        if said.digest != self._digest:
            self._refuse(channel, said, Answer.OTHER_CONFIGURATION, now_us)
        elif said.receiver != self._me or said.sender not in self._lines:
            self._refuse(channel, said, Answer.NOT_A_NEIGHBOUR, now_us)
        else:
            self._let_in(channel, said, now_us)

    def _answered(self, channel: Channel, said: Greeting, now_us: int) -> None:
        assert channel.peer is not None
        if said.answer is not Answer.WELCOME:
            if said.answer is not Answer.CROSSED:
                self.counters[f"stream: refused, {said.answer.words}"] += 1
            self._close(channel, f"refused: {said.answer.words}", now_us)
        elif said.digest != self._digest or said.sender != channel.peer or said.receiver != self._me:
            raise BadPacket("greeting: from somebody else")
        else:
            self._open(channel, said, now_us)

    def _let_in(self, channel: Channel, said: Greeting, now_us: int) -> None:
        """A neighbour has dialled. It has no connection to us, or had none when it dialled."""
        line = self._lines[said.sender]
        ours_stays = self._me < said.sender
        if line.open is not None:
            if ours_stays and line.open.is_dialled and line.open.incarnation == said.incarnation:
                # It dialled before it had our connection; or it has lost that, and a frame will show so.
                line.open.queue(streams.SIGN_OF_LIFE)
                self.outputs[line.open] = None
                self._refuse(channel, said, Answer.CROSSED, now_us)
                return
            self._close(line.open, "the other side has begun a new one", now_us)
        if line.dialling is not None:
            if ours_stays and line.dialling.phase is ChannelPhase.GREETING:
                self._refuse(channel, said, Answer.CROSSED, now_us)
                return
            self._close(line.dialling, "the other side was faster", now_us)
        channel.peer = said.sender
        self._greet(channel, said.sender, Answer.WELCOME)
        self._open(channel, said, now_us)

    def _refuse(self, channel: Channel, said: Greeting, answer: Answer, now_us: int) -> None:
        if answer is not Answer.CROSSED:
            self.counters[f"stream: refused a caller, {answer.words}"] += 1
        self._greet(channel, said.sender, answer)
        self._close(channel, answer.words, now_us)

    def _open(self, channel: Channel, said: Greeting, now_us: int) -> None:
        channel.phase = ChannelPhase.OPEN
        channel.incarnation = said.incarnation
        self._opening.pop(channel, None)
        line = self._lines[said.sender]
        line.open, line.dialling = channel, None
        line.opened_us = now_us
        line.reason = ""
        self.facts["opened"] += 1
        self._talker.stream_opened(said.sender, now_us)

    def _close(self, channel: Channel, reason: str, now_us: int) -> None:
        if channel.phase is ChannelPhase.CLOSED:
            return
        channel.phase = ChannelPhase.CLOSED
        self._opening.pop(channel, None)
        self.outputs.pop(channel, None)
        self.closings.append(channel)
        line = None if channel.peer is None else self._lines[channel.peer]
        if line is None:
            return
        assert channel.peer is not None
        if line.dialling is channel:
            line.dialling = None
            line.pause(reason, now_us)
        elif line.open is channel:
            line.open = None
            if now_us - line.opened_us > REDIAL_MAX_US:
                line.pause_us = 0  # it was fine
            line.pause(reason, now_us)
            self.facts["lost"] += 1
            self._talker.stream_lost(channel.peer, reason, now_us)
