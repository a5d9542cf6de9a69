"""The one door between a node and other daemons, where packets are sealed as they leave and opened as they
come.

Whatever protocol made a packet, it leaves through the node's `Outbox`, and that of a sealed node seals it: no
protocol can forget to. What comes in is opened before anything else of it counts, and counts once, and only
if its sender has introduced itself (`introductions`).

A nonce never repeats: it is the packet's counter, of which a process has one for all that it sends, with a
key that no other process has, because it follows from a random salt. What is retransmitted has a new counter.

Which of two cluster keys seals a packet follows from its receivers: the newer one if all of them have it. So
keys can change one daemon after the other, in parts of a cluster that do not hear each other, too.
"""

from collections import Counter
from collections.abc import Callable
from itertools import chain
from struct import Struct as Layout
from typing import Protocol

from cryptography.exceptions import InvalidTag
from msgspec import Struct

from antiphon import limits
from antiphon.config import Config
from antiphon.core.effects import Datagram, Outbox
from antiphon.core.gate import Gate
from antiphon.core.sealing.introductions import (
    OTHER_KEY,
    REPEATED,
    UNREADABLE,
    Introductions,
)
from antiphon.core.sealing.keys import ClusterKey, Keys, Seal, Suite
from antiphon.core.sealing.processes import Process
from antiphon.core.sealing.proofs import Proofs
from antiphon.errors import BadPacket, Nonsense
from antiphon.wire import packet, sealed, trains, versions
from antiphon.wire.packet import (
    CHECK_BYTES,
    EVERYBODY,
    HEAD_BYTES,
    MAGIC,
    SEAL_AT,
    SEAL_TAG_BYTES,
    TO_BE_SEALED,
    VERSION,
    Data,
    Head,
    Packet,
    PacketKind,
)
from antiphon.wire.sealed import Introduction

_HEAD = Layout("!BBBBIHHIQQQ")
assert _HEAD.size == HEAD_BYTES
_COUNTER_AT, _COUNTER_END = 24, 32
_COUNTER_BYTES = _COUNTER_END - _COUNTER_AT
_ZEROS = bytes(4)
"""Before the counter in a nonce."""
_GROWS_BYTES = SEAL_TAG_BYTES - CHECK_BYTES
"""By so much a packet is longer with its seal than with the place of a checksum."""
_INTRODUCTION = int(PacketKind.INTRODUCTION)
UNINTRODUCED = "seal: of a process that has not introduced itself"
PLAIN = "packet: not sealed"
CHOICES_MAX = 256
"""Sets of receivers whose key is known without asking for that of each."""

Receivers = int | tuple[int, ...]


class Sealing(Struct, frozen=True):
    """What a sealed node needs besides its configuration."""

    keys: Keys
    chance: Callable[[int], bytes]
    """So many random bytes that nobody can guess."""
    suite: Suite = Suite.AES_GCM

    def door(self, node: "SealedNode") -> "Door":
        """The door of one process."""
        return Door(self, node)


class SealedMembership(Protocol):
    """The membership of a node, as its door sees it."""

    def ask(self, number: int, echo_us: int, now_us: int) -> None:
        """Have a neighbour send a beat at once."""


class SealedNode(Protocol):
    """A node, as its door sees it."""

    me: int
    incarnation: int
    config: Config
    gate: Gate
    counters: Counter[str]

    @property
    def membership(self) -> SealedMembership:
        """Hears of the daemons that are there as another process than before."""


class SealedOutbox(Outbox):
    """Seals whatever is put into it."""

    seal = TO_BE_SEALED

    def __init__(self, door: "Door") -> None:
        super().__init__()
        self._door = door

    def append(self, datagram: Datagram) -> None:
        """One more; what is sealed is longer."""
        super().append(self._door.sealed(datagram))

    def append_sealed(self, datagram: Datagram) -> None:
        """One more, which is sealed already."""
        super().append(datagram)


class Door:
    """The door of one process."""

    def __init__(self, sealing: Sealing, node: SealedNode) -> None:
        self.keys = sealing.keys
        self.suite = sealing.suite
        self.outbox = SealedOutbox(self)
        self.opened = 0
        """How many packets were genuine, and new."""
        self.counters = node.counters
        self.strange: dict[int, str] = {}
        """Why packets that name a daemon as their sender were refused last, until it introduces itself: what
        to tell people when it is missed. A stranger can have sent them."""
        self.introductions = Introductions(self, sealing.chance)
        self.proofs = Proofs(self, sealing.chance)
        """For greetings on connections."""
        self._node = node
        self._gate = node.gate
        self._me = node.me
        self._incarnation = node.incarnation
        self._digest = node.config.digest
        self._salt = sealing.chance(sealed.SALT_BYTES)
        self._processes = self.introductions.processes
        self._seals: dict[int, Seal] = {}
        self._choices: dict[Receivers, tuple[Seal, bytes]] = {}

    # Out ----------------------------------------------------------------------------------------------------

    def sealed(self, datagram: Datagram) -> Datagram:
        """A datagram of packets that are yet to be sealed, sealed."""
        receivers: Receivers = datagram.receivers or datagram.receiver
        choice = self._choices.get(receivers)
        if choice is None:
            choice = self._choose(receivers)
        seal, mark = choice
        buffers = datagram.buffers
        data = b"".join(buffers) if len(buffers) > 1 else bytes(buffers[0])
        assert data[SEAL_AT] == TO_BE_SEALED, "a packet whose maker does not know that it will be sealed"
        size, stride_bytes = len(data), datagram.stride_bytes
        # The packets of a train differ in counters and numbers alone; the last one may be shorter.
        start = data[:SEAL_AT] + mark + data[SEAL_AT + 1 : _COUNTER_AT]
        body = memoryview(data)
        out: list[bytes | memoryview] = []
        packets = 0
        for at in range(0, size, stride_bytes):
            tail = data[at + _COUNTER_AT : at + HEAD_BYTES]
            head = start + tail
            end = at + stride_bytes
            ends_at = (end if end < size else size) - CHECK_BYTES
            out += head, seal(_ZEROS + tail[:_COUNTER_BYTES], body[at + HEAD_BYTES : ends_at], head)
            packets += 1
        return Datagram(
            datagram.receiver,
            out,
            stride_bytes + _GROWS_BYTES,
            size + packets * _GROWS_BYTES,
            datagram.receivers,
            datagram.is_whole,
        )

    def _choose(self, receivers: Receivers) -> tuple[Seal, bytes]:
        """With which key to seal what is for these: the newer one if all of them have it."""
        if len(self._choices) >= CHOICES_MAX:
            self._choices.clear()
        if receivers == EVERYBODY:
            found = list(self._processes.values())
        else:
            named = receivers if isinstance(receivers, tuple) else (receivers,)
            found = [process for one in named if (process := self._processes.get(one)) is not None]
        common = frozenset.intersection(*(process.keys for process in found)) if found else frozenset()
        known = [key for key in self.keys.preferred if key.number in common]
        choice = self._choices[receivers] = self._mark(known[0] if known else self.keys.current)
        return choice

    def _mark(self, key: ClusterKey) -> tuple[Seal, bytes]:
        """What seals with a key, and the byte that says so."""
        seal = self._seals.get(key.number)
        if seal is None:
            cipher = key.cipher(self._me, self._incarnation, self._salt, self.suite)
            seal = self._seals[key.number] = cipher.encrypt
        return seal, bytes((key.number | self.suite,))

    def introduce(self, receiver: int, introduction: Introduction, to_keys: frozenset[int] | None) -> None:
        """Send an introduction, with each key where it is not known which ones the receiver has."""
        keys = self.keys.preferred
        if to_keys is not None:
            keys = tuple(key for key in keys if key.number in to_keys)[:1]
        for key in keys:
            seal, mark = self._mark(key)
            start = packet.prefix(
                PacketKind.INTRODUCTION, digest=self._digest, sender=self._me, receiver=receiver,
                incarnation=self._incarnation, seal=mark[0],
            )  # fmt: skip
            head = packet.head(start, counter=self.outbox.counter.take())
            nonce = _ZEROS + head[_COUNTER_AT:_COUNTER_END]
            data = head + self._salt + seal(nonce, sealed.encode(introduction), head + self._salt)
            self.outbox.append_sealed(Datagram(receiver, [data], len(data), len(data)))

    # In -----------------------------------------------------------------------------------------------------

    def read(
        self, data: memoryview, stride_bytes: int, now_us: int, origin: int | None
    ) -> list[Packet | BadPacket]:
        """Every genuine packet of a datagram or of a train, in order, as `trains.parse_train` does; what
        cannot be read stands as a BadPacket in its place. Introductions are dealt with here."""
        size = len(data)
        if 0 < stride_bytes < size:
            count = size // stride_bytes
            whole = self._read_train(data[: count * stride_bytes], stride_bytes, count)
            if whole is not None:
                rest = data[count * stride_bytes :]
                return [whole, *self.read(rest, stride_bytes, now_us, origin)] if rest else [whole]
            parts = [data[at : at + stride_bytes] for at in range(0, size, stride_bytes)]
        else:
            parts = [data]
        return list(chain.from_iterable(self._read(part, now_us, origin) for part in parts))

    def _read(self, data: memoryview, now_us: int, origin: int | None) -> tuple[Packet | BadPacket, ...]:
        """The packet in one datagram, if there is one for the node."""
        try:
            found = self._open(data, now_us, origin)
        except BadPacket as error:
            return (error,)
        return () if found is None else (found,)

    def _open(self, data: memoryview, now_us: int, origin: int | None) -> Packet | None:
        if len(data) < HEAD_BYTES + SEAL_TAG_BYTES:
            versions.check(data, "packet", MAGIC, VERSION)
            raise BadPacket("packet: too short")
        (
            magic, version, kind, seal, digest, sender, receiver, incarnation, view, counter, number,
        ) = _HEAD.unpack_from(data)  # fmt: skip
        if magic != MAGIC:
            raise BadPacket("packet: not ours")
        if version != VERSION:
            raise versions.OtherVersion(data, "packet", VERSION)
        head = Head(kind, digest, sender, receiver, incarnation, view, counter, number)
        if seal == 0:
            if self._gate.admits(head, origin):
                self.strange[sender] = PLAIN
            raise BadPacket(PLAIN)
        if not self._gate.is_for_us(receiver, sender):
            self._gate.admits(head, origin)  # it is not, and is counted
            return None
        process = self._processes.get(sender)
        if kind == _INTRODUCTION or process is None or process.incarnation != incarnation:
            self._meet(head, seal, data, now_us, origin)
            return None
        opener = process.opener(seal, self.keys)
        if opener is None:
            self._ask(head, OTHER_KEY, now_us, origin)
            return None
        if not process.window.is_new(counter):
            raise BadPacket(REPEATED)
        try:
            body = opener(_nonce(data), data[HEAD_BYTES:], data[:HEAD_BYTES])
        except InvalidTag:
            raise BadPacket(UNREADABLE) from None
        process.window.note(counter)
        self.opened += 1
        try:
            return packet.opened(head, body, len(data))
        except Nonsense as error:
            self._gate.hold_against(error, head, now_us)
            raise

    def _meet(self, head: Head, seal: int, data: memoryview, now_us: int, origin: int | None) -> None:
        """A packet that introduces a process, or of one that has not introduced itself."""
        if head.kind != _INTRODUCTION:
            self._ask(head, UNINTRODUCED, now_us, origin)
        elif head.receiver == self._me and self._gate.admits(head, origin):
            try:
                self.introductions.receive(head, seal, data, _nonce(data), now_us)
            except BadPacket as error:  # late ones are usual, and no reason to end a connection
                self.counters[error.reason] += 1
                if error.reason == OTHER_KEY:
                    self.strange[head.sender] = OTHER_KEY
                    self.introductions.ask(head.sender, now_us)

    def _ask(self, head: Head, reason: str, now_us: int, origin: int | None) -> None:
        """Challenge the process that a daemon seems to be now."""
        if self._gate.admits(head, origin):
            if reason == OTHER_KEY:
                self.strange[head.sender] = reason
            self.counters[reason] += 1
            self.introductions.ask(head.sender, now_us)

    def _read_train(self, data: memoryview, stride_bytes: int, count: int) -> Data | None:
        """A train as a whole, if it is one bundle's consecutive bytes; None to open its packets one by one,
        and nothing has happened."""
        if count < 2 or not HEAD_BYTES + SEAL_TAG_BYTES < stride_bytes <= limits.PACKET_MAX_BYTES:
            return None
        first = trains.continuing_head(data, stride_bytes, count)
        if first is None or data[0] != MAGIC or data[1] != VERSION or first.kind == _INTRODUCTION:
            return None
        process = self._processes.get(first.sender)
        if process is None or process.incarnation != first.incarnation:
            return None
        if not self._gate.is_for_us(first.receiver, first.sender):
            return None
        opener = process.opener(data[SEAL_AT], self.keys)
        if opener is None or not process.window.is_new(first.counter, count):
            return None
        start, numbered, size = bytes(data[:_COUNTER_AT]), trains.numbered(data, stride_bytes), len(data)
        try:
            bodies = [
                opener(
                    _ZEROS + tail[:_COUNTER_BYTES], data[at + HEAD_BYTES : at + stride_bytes], start + tail
                )
                for at, tail in zip(range(0, size, stride_bytes), numbered, strict=True)
            ]
        except InvalidTag:
            return None
        found = trains.opened_train(first, bodies, len(data))
        if found is not None:
            process.window.note(first.counter, count)
            self.opened += count
        return found

    # Who is there -------------------------------------------------------------------------------------------

    def introduced(self, process: Process, now_us: int, *, is_fresh: bool) -> None:
        """A process is there, and has told which keys it has."""
        self._choices.clear()
        self.strange.pop(process.daemon, None)
        if is_fresh:  # what it sent before was dropped
            self._node.membership.ask(process.daemon, 0, now_us)

    def change_keys(self, keys: Keys, now_us: int) -> None:
        """Others than before; all who are there are told."""
        self.keys = keys
        self._choices.clear()
        self._seals.clear()
        self.introductions.tell_keys(now_us)

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""
        self.introductions.timeout(now_us)

    def next_deadline_us(self) -> int | None:
        """When `timeout` has something to do."""
        return self.introductions.next_deadline_us()

    def lacking(self, key: ClusterKey, daemons: frozenset[int]) -> list[int]:
        """Those of these daemons that do not have a key, as far as is known."""
        return [
            daemon for daemon in sorted(daemons)
            if (process := self._processes.get(daemon)) is None or key.number not in process.keys
        ]  # fmt: skip

    def describe(self, names: tuple[str, ...], daemons: frozenset[int]) -> dict[str, object]:
        """For `antiphon status`: `daemons` are the numbers of those that there may be."""
        following = self.keys.following
        return {
            "suite": self.suite.label,
            "key": self.keys.current.name,
            "next_key": None if following is None else following.name,
            "next_key_lacks": []
            if following is None
            else [names[number] for number in self.lacking(following, daemons)],
            "strange": {names[number]: reason for number, reason in sorted(self.strange.items())},
            "introduced": [names[number] for number in sorted(self._processes)],
            "opened": self.opened,
        }


def _nonce(data: memoryview) -> bytes:
    return _ZEROS + bytes(data[_COUNTER_AT:_COUNTER_END])
