"""Who bears which number, as one daemon knows it.

Each number has one entry at most. When two processes want one number, the same rule decides at every daemon:

1. a daemon that bears it and is heard keeps it against everybody; of two such, the one with the older claim
2. the number of an absent daemon is kept for it, against every claim of another one, for `hold_us`
3. of two claims, the older one counts

A daemon is its name and its host: the next process of a daemon, which was restarted, may claim the number of
the one before it as soon as that one is silent.

Follows no paper: RMP has no numbers (3.1: a process is known by its address and port).
Checked by: tests/unit/test_roster.py, tests/simulation/test_discovery.py.
"""

from enum import IntEnum

from msgspec import Struct

from antiphon.core.discovery.waits import Waits
from antiphon.wire.discovery import State


class Entry(Struct):
    """A number, and the process that bears or claims it."""

    number: int
    process: int
    claim_us: int
    """When it was claimed, by the wall clock of its process."""
    name: str
    host: str
    port: int
    state: State
    heard_us: int
    """When it was heard, by us or by others that told us."""
    has_left: bool = False
    """Whether it has left by its own word."""
    is_rumour: bool = False
    """Whether `heard_us` is what others told."""
    inherits: bool = False
    """Whether it claims what an earlier process of its daemon bore: then the number is kept for the daemon,
    though this process may end before it bears it."""

    def is_same_daemon(self, other: "Entry") -> bool:
        """Whether both are processes of one daemon."""
        return (self.name, self.host) == (other.name, other.host)

    @property
    def age(self) -> tuple[int, int]:
        """Orders claims: the oldest is the least."""
        return self.claim_us, self.process


class _Rank(IntEnum):
    """How strong the right to a number is; of two equal ones the claim decides."""

    LAPSED = 0
    CLAIMED = 1
    HELD = 2
    INHERITED = 3
    BORNE = 4


class Roster:
    """The entries that one daemon knows, its own included."""

    def __init__(self, waits: Waits) -> None:
        self.entries: dict[int, Entry] = {}
        """By number."""
        self.version = 0
        """Grows with every change of who bears or claims what, and where."""
        self._waits = waits

    # Questions --------------------------------------------------------------------------------------------

    def is_alive(self, entry: Entry, now_us: int) -> bool:
        """Whether an entry's process was heard lately."""
        return not entry.has_left and now_us - entry.heard_us < self._waits.silent_us

    def of_name(self, name: str) -> Entry | None:
        """The entry with this name; of several, the one with the oldest claim."""
        found = [entry for entry in self.entries.values() if entry.name == name]
        return min(found, key=lambda entry: entry.age, default=None)

    def of_process(self, process: int) -> Entry | None:
        """The entry of a process."""
        return next((entry for entry in self.entries.values() if entry.process == process), None)

    def outranks(self, one: Entry, other: Entry, now_us: int) -> bool:
        """Whether the first of two processes has the better right to what both want."""
        rank = self._rank(one, other, now_us)
        against = self._rank(other, one, now_us)
        if rank != against:
            return rank > against
        if rank in (_Rank.HELD, _Rank.LAPSED):
            return one.age > other.age  # it was given again since
        return one.age < other.age

    def _rank(self, entry: Entry, other: Entry, now_us: int) -> _Rank:
        is_alive = self.is_alive(entry, now_us)
        if entry.state is State.BEARS:
            return _Rank.BORNE if is_alive else _Rank.HELD
        if not is_alive:
            return _Rank.HELD if entry.inherits else _Rank.LAPSED
        return _Rank.INHERITED if entry.is_same_daemon(other) else _Rank.CLAIMED

    # Changes ----------------------------------------------------------------------------------------------

    def take(self, entry: Entry, now_us: int) -> bool:
        """A process claims or bears a number; whether it stands in the roster now."""
        before = self.of_process(entry.process)
        if before is not None:
            if entry.claim_us < before.claim_us:
                return False  # an earlier number of the same process
            if before.number != entry.number:
                self._remove(before.number)
        known = self.entries.get(entry.number)
        if known is not None and known.process != entry.process and not self.outranks(entry, known, now_us):
            return False
        if known is not None and entry.state is State.CLAIMS and known.is_same_daemon(entry):
            entry.inherits = known.inherits or known.state is State.BEARS
        is_news = (
            known is None
            or (known.process, known.state, known.name) != (entry.process, entry.state, entry.name)
            or (known.host, known.port, known.has_left) != (entry.host, entry.port, entry.has_left)
        )
        self.entries[entry.number] = entry
        self.version += is_news
        if entry.state is State.BEARS and self.is_alive(entry, now_us):
            self._supersede(entry, now_us)
        return True

    def _supersede(self, entry: Entry, now_us: int) -> None:
        """A daemon bears a number: what was kept for an earlier process of it is free."""
        for other in list(self.entries.values()):
            if (
                other.process != entry.process
                and other.is_same_daemon(entry)
                and not self.is_alive(other, now_us)
            ):
                self._remove(other.number)

    def hear(self, numbers: tuple[int, ...], now_us: int) -> None:
        """These daemons are in the view, and so they are there, whatever their beacons do."""
        for number in numbers:
            entry = self.entries.get(number)
            if entry is not None and entry.state is State.BEARS:
                entry.heard_us, entry.is_rumour = max(entry.heard_us, now_us), False

    def left(self, entry: Entry) -> None:
        """A process has left by its own word, as others tell."""
        entry.has_left = True
        self.version += 1

    def give_up(self, process: int) -> None:
        """A process has no number any more, by its own word."""
        entry = self.of_process(process)
        if entry is not None:
            self._remove(entry.number)

    def expire(self, now_us: int) -> None:
        """Give back the numbers of those that were absent for too long."""
        for entry in list(self.entries.values()):
            is_kept = entry.state is State.BEARS or entry.inherits
            lasts_us = self._waits.hold_us if is_kept else self._waits.silent_us
            if now_us - entry.heard_us >= lasts_us:
                self._remove(entry.number)

    def _remove(self, number: int) -> None:
        del self.entries[number]
        self.version += 1
