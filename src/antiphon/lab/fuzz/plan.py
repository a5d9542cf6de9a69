"""What a run of the fuzzer does: doors, kinds of mutants, spells and patience."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.lab.experiment import Choices
from antiphon.lab.fuzz.packets import BREAKING, GREETING, STREAM_KINDS, UDP_KINDS

MUTANTS = 300_000
QUICK_MUTANTS = 300
SECONDS = 600.0
LONGEST_SECONDS = 7 * 24 * 3_600.0
SPELL_MUTANTS = 5_000
SPELL_S = 4.0
"""A spell ends when it has its mutants, or after this: some kinds are rare."""
WARM_UP_S = 2.0
PATIENCE_S = 60.0
"""From the end of a spell until messages flow again from every daemon to every other: that is generous to a
change of the view which itself needs several attempts."""
RATE_PER_S = 4_000.0
"""Mutants of each process that sends them, at most: more would only be dropped by full sockets."""
LOSS = 0.005
"""The share of genuine datagrams that are lost during a spell at the door `udp`: without loss no daemon would
ask for a retransmission."""

KINDS: dict[str, tuple[str, ...]] = {
    "udp": UDP_KINDS,
    "tcp": (*STREAM_KINDS, GREETING, BREAKING),
    "clients": ("connect", "join", "leave", "bundle", "batch", "ask-status", "disconnect", "half", "bytes"),
    "tls": ("handshake", "record", "connect", "join", "bundle", "batch", "half", "bytes"),
    "spread": ("hello", "choice", "join", "message", "leave", "kill", "half", "bytes"),
    "flight": ("ticket", "action", "descriptor", "criteria", "bytes"),
    "member": UDP_KINDS,
    "stranger": ("packet", "again", GREETING),
    "config": ("cluster", "access", "spread", "key", "tokens", "certificate", "certificate-key"),
    "journal": ("last-segment", "segment", "index", "identity"),
    "traces": ("simulated", "daemon", "session"),
}
"""What is mutated at each door."""
DOORS = tuple(KINDS)
OF_DAEMONS = ("udp", "tcp", "member")
"""Doors at which a mutant may be what an honest daemon could have sent."""
TAPPED = (*OF_DAEMONS, "stranger")
"""Doors at which the daemons of the cluster send the mutants."""
BY_DATAGRAM = ("udp", "member", "stranger")
SEALED = ("member", "stranger")
"""Doors of a cluster with a key."""
OF_FILES = ("config", "journal", "traces")
"""Doors at which files are read, and no cluster runs."""


class Spell(Struct, frozen=True):
    """Mutants of one kind, then quiet until messages flow."""

    number: int
    kind: str
    first: int
    mutants: int


class FuzzPlan(Struct, frozen=True):
    """One run at one door."""

    door: str
    seed: int
    mutants: int
    seconds: float
    keep: Path | None = None
    rate_per_s: float = RATE_PER_S

    @property
    def size(self) -> int:
        """The number of mutants in a spell: small enough that every kind has its turn.

        >>> FuzzPlan("udp", 0, 300, 10.0).size, FuzzPlan("udp", 0, 300_000, 10.0).size
        (17, 5000)
        """
        return max(1, min(SPELL_MUTANTS, -(-self.mutants // len(KINDS[self.door]))))

    @property
    def spells(self) -> int:
        """How many there are if each has its mutants."""
        return -(-self.mutants // self.size)

    def each(self) -> Iterator[Spell]:
        """The spells in turn, without an end: the caller decides when to stop."""
        kinds = KINDS[self.door]
        number = 0
        while True:
            yield Spell(number, kinds[number % len(kinds)], number * _NUMBERS_EACH, self.size)
            number += 1


_NUMBERS_EACH = 1_000_000
"""Numbers of mutants that are reserved for a spell: so a mutant's number tells its spell, however long that
was."""


def plans(choices: Choices, quick: bool) -> list[FuzzPlan]:
    """A plan for each door that is wanted; a UsageError for what cannot be."""
    doors = DOORS if choices.door is None else (choices.door,)
    if choices.door is not None and choices.door not in DOORS:
        raise UsageError(f"no door is called {choices.door!r}; known: {', '.join(DOORS)}")
    mutants = choices.mutants if choices.mutants is not None else QUICK_MUTANTS if quick else MUTANTS
    if mutants < 1:
        raise UsageError(f"at least one mutant is needed, not {mutants}")
    seconds = SECONDS if choices.seconds is None else choices.seconds
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UsageError(f"a door is fuzzed for up to a week, not for {seconds:g} s")
    return [FuzzPlan(door, choices.seed or 0, mutants, seconds, choices.keep) for door in doors]
