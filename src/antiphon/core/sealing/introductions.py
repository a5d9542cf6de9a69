"""Which process a daemon is now.

A packet counts only if it is of the process that its daemon is now, as far as it has proven that. Something
recorded long ago was genuine once; so a process proves that it is there by answering:

    any packet of it    --->   comes from a process that has not introduced itself: it is dropped
                        <---   INTRODUCTION: our salt, and a challenge, which is random
    INTRODUCTION        --->   its salt, and an echo of the challenge: it was made after that, so it is there;
                               and a challenge of its own, if we have not introduced ourselves to it
                        <---   INTRODUCTION: an echo of its challenge

A challenge counts once. Who answers takes the place of the process that the daemon was before, whatever its
incarnation: the older one is refused from then on. A process that still lives can prove it again (two with
one name do, in turns: see `membership.identities`).

The same packets tell which cluster keys their sender has: a daemon whose keys have changed challenges all
that have introduced themselves until each of them has answered.

Nothing here needs a timer but that. A packet of a stranger costs no more than a look-up and, now and then, a
challenge to the daemon that it names.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from cryptography.exceptions import InvalidTag
from msgspec import Struct

from antiphon import limits
from antiphon.core.sealing.keys import Keys, Open
from antiphon.core.sealing.processes import Process, opener_of
from antiphon.errors import BadPacket
from antiphon.wire import sealed
from antiphon.wire.packet import HEAD_BYTES, Head
from antiphon.wire.sealed import NO_CHALLENGE, Introduction

CHALLENGE_LASTS_US = limits.ROUND_TRIP_MAX_US
"""What answers a challenge later than this was no answer."""
AGAIN_US = 20_000
"""A process that has not introduced itself is asked for it no more often than this."""
TELL_US = 500_000
TELL_MAX_US = 8_000_000
"""Keys that have changed are told again after this, and after twice as long each time, up to this."""
INTRODUCTIONS_PER_S = 200
"""How many introductions that name one daemon are looked at in a second, besides those of the process that it
is: each costs as much as some twenty other packets."""
OPENS_AT = HEAD_BYTES + sealed.SALT_BYTES

UNREADABLE = "seal: not genuine"
REPEATED = "seal: a packet that came before"
TOO_MANY = "introduction: too many"
STALE = "introduction: not an answer to our last challenge"
OTHER_KEY = "seal: with a key that is not ours"


class _Challenge(Struct):
    """What a process of another daemon is to echo."""

    value: bytes
    since_us: int
    sent_us: int


class _Telling(Struct):
    """A daemon that is yet to answer since our keys have changed."""

    due_us: int
    wait_us: int


class Sender(Protocol):
    """The door, as introductions see it."""

    keys: Keys
    counters: Counter[str]

    def introduce(self, receiver: int, introduction: Introduction, to_keys: frozenset[int] | None) -> None:
        """Send an introduction; `to_keys` are those that the receiver has, None if that is not known."""

    def introduced(self, process: Process, now_us: int, *, is_fresh: bool) -> None:
        """A process has proven that it is there, for the first time or again, or has told of its keys."""


class Introductions:
    """The processes that have introduced themselves to one daemon, and what others are asked."""

    def __init__(self, door: Sender, chance: Callable[[int], bytes]) -> None:
        self.processes: dict[int, Process] = {}
        """By daemon."""
        self._door = door
        self._chance = chance
        self._challenges: dict[int, _Challenge] = {}
        self._telling: dict[int, _Telling] = {}
        self._budgets: dict[int, tuple[int, int]] = {}  # by daemon: a second, and how many came in it

    # Asking -------------------------------------------------------------------------------------------------

    def ask(self, daemon: int, now_us: int) -> None:
        """A packet of a process came that has not introduced itself, or with a key that we do not have."""
        challenge = self._challenges.get(daemon)
        if challenge is None or now_us - challenge.sent_us >= AGAIN_US:
            self._introduce(daemon, self._challenge(daemon, now_us), NO_CHALLENGE, None)

    def _challenge(self, daemon: int, now_us: int) -> bytes:
        """What it is to echo; from now on for a while."""
        challenge = self._challenges.get(daemon)
        if challenge is None or now_us - challenge.since_us > CHALLENGE_LASTS_US:
            fresh = self._chance(sealed.CHALLENGE_BYTES)
            challenge = self._challenges[daemon] = _Challenge(fresh, now_us, now_us)
        challenge.sent_us = now_us
        return challenge.value

    def _introduce(self, daemon: int, challenge: bytes, echo: bytes, to_keys: frozenset[int] | None) -> None:
        ours = frozenset(self._door.keys.by_number)
        self._door.introduce(daemon, Introduction(challenge, echo, ours), to_keys)

    # Answers ------------------------------------------------------------------------------------------------

    def receive(self, head: Head, seal: int, data: memoryview, nonce: bytes, now_us: int) -> None:
        """An INTRODUCTION that names a neighbour as its sender; BadPacket if it is none."""
        if len(data) < OPENS_AT:
            raise BadPacket("introduction: too short")
        salt = bytes(data[HEAD_BYTES:OPENS_AT])
        process = self.processes.get(head.sender)
        if process is not None and (process.incarnation, process.salt) != (head.incarnation, salt):
            process = None
        if process is None:
            self._spend(head.sender, now_us)
            opener = opener_of(head.sender, head.incarnation, salt, seal, self._door.keys)
        else:
            opener = process.opener(seal, self._door.keys)
            if not process.window.is_new(head.counter):
                raise BadPacket(REPEATED)
        said = _opened(opener, nonce, data)
        if process is not None:
            process.window.note(head.counter)
        is_answer = self._is_answer(head.sender, said, now_us)
        if process is None and is_answer:
            process = Process(head.sender, head.incarnation, salt, said.keys, head.counter)
            self.processes[head.sender] = process
            self._go_on(process, said, now_us, is_fresh=True)
        elif process is not None:
            self._go_on(process, said, now_us, is_fresh=False)
        elif said.challenge != NO_CHALLENGE:
            # It may be there: our answer harms nobody, and it has a challenge for it.
            self._introduce(head.sender, self._challenge(head.sender, now_us), said.challenge, said.keys)
        else:
            raise BadPacket(STALE)

    def _go_on(self, process: Process, said: Introduction, now_us: int, *, is_fresh: bool) -> None:
        """A process that has introduced itself, now or before, tells more."""
        process.keys = said.keys
        if said.challenge != NO_CHALLENGE:
            self._introduce(process.daemon, NO_CHALLENGE, said.challenge, said.keys)
        if is_fresh:
            self._telling.pop(process.daemon, None)  # what it was told is new
        self._door.introduced(process, now_us, is_fresh=is_fresh)

    def _is_answer(self, daemon: int, said: Introduction, now_us: int) -> bool:
        """Whether an introduction echoes our challenge, which counts only once."""
        challenge = self._challenges.get(daemon)
        if (
            challenge is None
            or said.echo != challenge.value
            or now_us - challenge.since_us > CHALLENGE_LASTS_US
        ):
            return False
        del self._challenges[daemon]
        self._telling.pop(daemon, None)
        return True

    def _spend(self, daemon: int, now_us: int) -> None:
        second = now_us // 1_000_000
        before, count = self._budgets.get(daemon, (second, 0))
        count = count + 1 if before == second else 1
        self._budgets[daemon] = (second, count)
        if count > INTRODUCTIONS_PER_S:
            raise BadPacket(TOO_MANY)

    # Other keys ---------------------------------------------------------------------------------------------

    def tell_keys(self, now_us: int) -> None:
        """Our keys have changed: tell all who have introduced themselves, until they have answered."""
        for process in self.processes.values():
            process.forget_keys()
            self._challenges.pop(process.daemon, None)  # whose answer would be to what we told before
            self._telling[process.daemon] = _Telling(now_us, TELL_US)

    def timeout(self, now_us: int) -> None:
        """Tell those that have not answered again."""
        for daemon, telling in self._telling.items():
            if telling.due_us <= now_us:
                telling.due_us = now_us + telling.wait_us
                telling.wait_us = min(TELL_MAX_US, 2 * telling.wait_us)
                self._introduce(daemon, self._challenge(daemon, now_us), NO_CHALLENGE, None)

    def next_deadline_us(self) -> int | None:
        """When `timeout` has something to do."""
        return min((telling.due_us for telling in self._telling.values()), default=None)


def _opened(opener: Open | None, nonce: bytes, data: memoryview) -> Introduction:
    if opener is None:
        raise BadPacket(OTHER_KEY)
    try:
        body = opener(nonce, data[OPENS_AT:], data[:OPENS_AT])
    except InvalidTag:
        raise BadPacket(UNREADABLE) from None
    return sealed.parse(body)
