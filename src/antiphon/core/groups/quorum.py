"""Whether the members of a group that are here may go on.

Follows: RMP 4.4: who joins names the least size of a part that may go on: a number, a majority or all; the
greatest of all wishes counts.
Deviations:
- RMP compares a part with the list of members before the failure. Here the yardstick is the *base*: the
  members of whom it was decided last that they have quorum. A part has quorum if it has more than half of the
  base, whatever was wished, and as many members as the greatest wish says. So no two parts both have quorum:
  RMP's constants alone would let two.
- A view may be installed by some of its members and never by the others, so that being in one does not prove
  that the others are, too. So after members are lost nothing goes on before a *decision*: the first daemon
  that has members sends a safe event (kind "quorum"). If one member has delivered it before the transitional
  signal, every other one delivers it or crashes; then the base is who is here. Delivered after the signal it
  is an *attempt*: others may have decided, or not, so that more than half of both bases is needed.
- Who leaves, or ends its session, leaves every base: it votes nowhere else. Newcomers are in the base from
  the next decision on.
- A group may begin in several parts that know nothing of each other, each with a wish and a base of its own:
  these are *lineages*, named by the places of their first wishes. When such parts merge, more than half of
  the newest base of every lineage is needed: a part that has just begun cannot give the minority of another
  lineage the quorum that the majority of it has. The next decision makes one of them.
- A member is known by the place at which the group took notice of it, so that a session that takes the place
  of a lost one is no member of the base: it knows nothing of what the lost one had decided. It counts for the
  number of members, not for the half.

Checked by: the oracle's *quorum*, tests/unit/test_quorum_decisions.py, tests/paper/test_quorum.py.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct

from antiphon import limits
from antiphon.types import ALL, MAJORITY
from antiphon.wire.events import HostedBase, HostedMember, HostedQuorum

Member = tuple[int, int]
Identity = tuple[int, int, int]
"""Daemon, session, and the place at which the group took notice of it."""


class _Base(Struct):
    """Members who may have been decided on, with their wishes."""

    wishes: dict[Identity, int]
    decided: dict[int, int] = {}
    """By lineage, the place of the decision that made it this base, or after which it was attempted."""
    is_whole: bool = False
    """Whether all of them are needed, and not only more than half."""

    def has_enough(self, current: Collection[Identity]) -> bool:
        present = sum(identity in current for identity in self.wishes)
        size = len(self.wishes)
        return present == size if self.is_whole else 2 * present > size or not size


class Quorum:
    """The quorum of one group of which somebody wishes one."""

    def __init__(self) -> None:
        self.has = False
        """Whether the group may go on."""
        self.is_deciding = False
        """Whether the members that are here would be enough, and make sure of it."""
        self.asked = 0
        """The daemon view in which this daemon has sent an event to decide it; 0: it has not."""
        self._bases: list[_Base] = []
        """Those that were decided on, one for each lineage, or for all of them."""
        self._attempts: list[_Base] = []
        self._members: dict[Member, tuple[int, int]] = {}  # mark and wish of each member

    # What happens to the group ----------------------------------------------------------------------------

    def begin(self, place: int) -> None:
        """The first wish: all who are members now are the base."""
        self._bases, self.has = [_Base(self._current(), {place: place})], True
        self.look()

    def came(self, members: Iterable[Member], place: int, wish: int = 0) -> None:
        """Members come, or are noticed."""
        for member in members:
            self._members.setdefault(member, (place, wish))

    def left(self, members: Iterable[Member]) -> None:
        """Members go by their own will, or with their connections."""
        for member in members:
            mark, _ = self._members.pop(member, (0, 0))
            for base in (*self._bases, *self._attempts):
                base.wishes.pop((*member, mark), None)

    def lost(self, members: Iterable[Member]) -> None:
        """Members are cut off or have crashed: what the others may do must be decided."""
        for member in members:
            self._members.pop(member, None)
        self.has = False
        self.look()

    def look(self, is_certain: bool = True) -> None:
        """Members have come or gone: a quorum may be lost by that, and is got by a decision alone. After the
        signal (`is_certain` is False) there is none: the group is about to lose members."""
        is_enough = self._is_enough()
        self.has = self.has and is_enough and is_certain
        self.is_deciding = is_enough and not self.has

    def decide(self, place: int, is_certain: bool) -> None:
        """A safe event at this place; `is_certain`: before the signal."""
        if not self._is_enough():
            self.has = self.is_deciding = False
        elif is_certain:
            self._bases, self._attempts = [_Base(self._current(), dict.fromkeys(self._decided, place))], []
            self.has, self.is_deciding = True, False
        else:
            self._attempts.append(_Base(self._current(), self._decided))
            self._limit_attempts()
            self.has, self.is_deciding = False, True

    def _limit_attempts(self) -> None:
        while len(self._attempts) > limits.QUORUM_ATTEMPTS_MAX:
            first, second, *others = self._attempts
            both = {**first.wishes, **second.wishes}
            self._attempts = [_Base(both, {**first.decided, **second.decided}, is_whole=True), *others]

    @property
    def _decided(self) -> dict[int, int]:
        """By lineage, the place of the last decision that is known."""
        return {lineage: place for base in self._bases for lineage, place in base.decided.items()}

    @property
    def wants_decision(self) -> bool:
        """Whether a safe event would change something."""
        is_settled = len(self._bases) == 1 and self._bases[0].wishes == self._current()
        return self.is_deciding or (self.has and not is_settled)

    @property
    def is_needless(self) -> bool:
        """Whether nobody wishes a quorum any more."""
        wishes = [wish for _, wish in self._members.values()]
        for base in (*self._bases, *self._attempts):
            wishes += base.wishes.values()
        return not any(wishes)

    def _current(self) -> dict[Identity, int]:
        return {(*member, mark): wish for member, (mark, wish) in self._members.items()}

    def _is_enough(self) -> bool:
        current = self._current()
        bases = (*self._bases, *self._attempts)
        if not all(base.has_enough(current) for base in bases):
            return False
        for base in bases:
            size = len(base.wishes)
            wishes = (*base.wishes.values(), *current.values())
            if len(current) < max((_least(wish, size) for wish in wishes if wish), default=0):
                return False
        return True

    # Parts ------------------------------------------------------------------------------------------------

    def hosted(self) -> HostedQuorum:
        """What the first daemon of the group announces."""
        return HostedQuorum(
            self.has,
            tuple(map(_told, self._bases)),
            tuple(map(_told, self._attempts)),
            tuple((*member, mark, wish) for member, (mark, wish) in self._members.items()),
        )


def _told(base: _Base) -> HostedBase:
    members: tuple[HostedMember, ...] = tuple((*identity, wish) for identity, wish in base.wishes.items())
    return members, tuple(base.decided.items()), base.is_whole


def announced(told: HostedQuorum, known: Collection[Member]) -> Quorum:
    """The quorum of a part, as it was announced; `known` are the members of the group."""
    quorum = Quorum()
    quorum.has = told.has_quorum
    quorum._bases = [_heard(base) for base in told.bases]
    quorum._attempts = [_heard(base) for base in told.attempts]
    quorum._limit_attempts()
    quorum._members = {
        (daemon, session): (mark, wish)
        for daemon, session, mark, wish in told.members
        if (daemon, session) in known
    }
    quorum.look()
    return quorum


def _heard(told: HostedBase) -> _Base:
    members, decided, is_whole = told
    wishes = {(daemon, session, mark): wish for daemon, session, mark, wish in members}
    return _Base(wishes, dict(decided), is_whole)


def merged(parts: Collection[Quorum], members: Iterable[Member], place: int) -> Quorum:
    """The quorum of a group from those of its parts; `members` are all of them.

    A base counts if it is the newest of one of its lineages, and an attempt if nothing newer is known to have
    been decided. Parts that have the same base may differ in who has left since. The group has the quorum if
    all parts whose bases count have it.
    """
    quorum = Quorum()
    for part in parts:
        quorum._members.update(part._members)
    quorum.came(members, place)
    newest: dict[int, int] = {}
    for part in parts:
        for lineage, decided in part._decided.items():
            newest[lineage] = max(decided, newest.get(lineage, 0))

    def counts(base: _Base) -> bool:
        return any(newest.get(lineage) == decided for lineage, decided in base.decided.items())

    quorum.has = True
    for part in parts:
        for base in filter(counts, part._bases):
            quorum.has = quorum.has and part.has
            known = next((one for one in quorum._bases if one.decided == base.decided), None)
            if known is None:
                quorum._bases.append(_Base(dict(base.wishes), base.decided))
            else:
                known.wishes = {one: wish for one, wish in known.wishes.items() if one in base.wishes}
        quorum._attempts += [one for one in filter(counts, part._attempts) if one not in quorum._attempts]
    quorum._limit_attempts()
    quorum.look()
    return quorum


def _least(wish: int, size: int) -> int:
    """How many members a wish asks for, where the base has `size`."""
    if wish == MAJORITY:
        return size // 2 + 1
    return size if wish == ALL else wish
