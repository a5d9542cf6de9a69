"""Finding the other daemons of a cluster by its name alone, and agreeing with them on a number.

Beacons and time in, beacons out. A newcomer listens, and asks; then it claims a number that is free, and a
name. Whoever hears the claim lists it, unless another one has the better right (`roster`). When all daemons
that the newcomer hears list its claim, it bears the number: that is the agreement. When it learns that
another daemon has the better right to its number or to its name, also later, after a partition, it gives both
up at once, and claims others.

So of two living daemons that hear each other at most one keeps a number, and a number that was borne is not
given to another daemon for `hold_us` after its bearer was last heard, as long as one daemon that knows of it
is there.

Follows: RMP 3.1 (a name leads to a multicast address), 4.4 (a newcomer asks again and again, and founds a
group if none answers).
Deviations: RMP has a newcomer be let in by the token site; here it is let in by all, because numbers are
needed before there is a view. Groups that were founded apart merge, which those of RMP never do.
Checked by: tests/simulation/test_discovery.py, with planted bugs.
"""

from collections import Counter

from msgspec import Struct

from antiphon import limits
from antiphon.core.discovery.roster import Entry, Roster
from antiphon.core.discovery.waits import GREETINGS_US, Waits
from antiphon.wire.discovery import LISTED_MAX, TOLD_MAX, Beacon, State, Told

SLOTS = limits.DAEMONS_PER_SITE_MAX
"""How many daemons a discovered cluster can have: it is one site."""
PROCESSES_MAX = 128
"""Other processes of which something is kept; what further ones send is counted and dropped."""
NAME_ROOM = 3
"""Characters of a daemon's name that are left for what makes it unique, such as -64."""
MISSED = 3
"""Multicasts that are missing for so many times as long as it takes to be silent do not get through."""
SILENT_MAX_MS = (1 << 32) - 1
WAITS_FOR_FORMER = "an earlier process of this daemon may still be there"
FULL = f"all {SLOTS} numbers are taken"

Origin = tuple[str, int]
"""Host and port from which a beacon came."""


class _Heard(Struct):
    """What was heard from another process itself."""

    serial: int
    heard_us: int
    state: State
    name: str
    lists_us: bool
    by_multicast_us: int | None = None
    """When a multicast of it last came."""
    has_left: bool = False


class Discovery:
    """One process on its way to a number, and then with it."""

    def __init__(
        self,
        cluster: str,
        process: int,
        wish: str,
        address: Origin,
        *,
        now_us: int,
        wall_us: int,
        waits: Waits | None = None,
    ) -> None:
        """`wish` is the name that the daemon would like to have, `address` where its UDP socket is, `wall_us`
        Unix time."""
        self.waits = waits or Waits()
        self.cluster = cluster
        self.process = process
        self.host, self.port = address
        self.state = State.LISTENS
        self.number: int | None = None
        self.name = wish
        self.roster = Roster(self.waits)
        self.counters: Counter[str] = Counter()
        self.multicasts: list[Beacon] = []
        """To be sent to all; the driver sends and clears them."""
        self.replies: list[tuple[Origin, Beacon]] = []
        """To be sent to one address each; the driver sends and clears them."""
        self.losses: list[str] = []
        """Why a number that was borne is lost: the driver ends the node that has it, and clears them."""
        self.waits_for = ""
        """Why a newcomer claims nothing, though it has listened for long enough."""
        self.is_echoed = False
        """Whether a multicast of our own has come back."""
        self.deaf: tuple[str, ...] = ()
        """Daemons that did not list our claim, though we hear them."""
        self._wish = wish
        self._wall_ahead_us = wall_us - now_us
        self._heard: dict[int, _Heard] = {}  # by process
        self._serial = 0
        self._claim_us = 0
        self._since_us = now_us  # of the state
        self._due_us = now_us  # of the next beacon
        self._decide_us = now_us + self.waits.listen_us
        self._sent_us = now_us - self.waits.gap_us
        self._replied_us = now_us - self.waits.gap_us
        self._greetings = 0
        self._told = 0  # where the next beacon goes on in the roster
        self._urgent: set[int] = set()  # numbers whose entries are told first
        self._is_leaving = False

    # Events -----------------------------------------------------------------------------------------------

    def receive(self, beacon: Beacon, origin: Origin, now_us: int, *, by_multicast: bool = True) -> None:
        """A beacon came in."""
        if beacon.cluster != self.cluster:
            self.counters["discovery: of another cluster"] += 1
            return
        if beacon.process == self.process:
            self.is_echoed = self.is_echoed or by_multicast
            return
        if origin[0] != beacon.host:
            self.counters["discovery: from a host that is not its sender's"] += 1
            return
        if self._is_leaving or not self._note(beacon, now_us, by_multicast):
            return
        self._refresh(now_us)
        self._take(beacon, now_us)
        for told in beacon.told:
            self._learn(told, now_us)
        self._check_right(now_us)
        if self.state is State.CLAIMS:
            self._confirm(now_us)
        if beacon.asks:
            self._answer(beacon, origin, now_us)

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""
        if self._is_leaving:
            return
        self.roster.expire(now_us)
        if self.state is State.LISTENS:
            if now_us >= self._decide_us:
                self._choose(now_us)
        else:
            self._refresh(now_us)
            if self.state is State.CLAIMS:
                self._confirm(now_us)
        if now_us >= self._due_us:
            self._send(now_us)

    def next_deadline_us(self) -> int | None:
        """When `timeout` has something to do."""
        if self._is_leaving:
            return None
        return min(self._due_us, self._decide_us) if self.state is State.LISTENS else self._due_us

    def in_view(self, numbers: tuple[int, ...], now_us: int) -> None:
        """These daemons work in one view with ours."""
        self.roster.hear(numbers, now_us)

    def leave(self, now_us: int) -> None:
        """The daemon ends by its own word."""
        if not self._is_leaving and self.number is not None:
            self._serial += 1
            self.multicasts.append(self._beacon(now_us, asks=False, leaves=True))
        self._is_leaving = True

    # What is heard ----------------------------------------------------------------------------------------

    def _note(self, beacon: Beacon, now_us: int, by_multicast: bool) -> bool:
        """Note who was heard; False if the beacon is old or there is no room for its sender."""
        known = self._heard.get(beacon.process)
        if known is None:
            if len(self._heard) >= PROCESSES_MAX and not self._make_room(now_us):
                self.counters["discovery: too many processes"] += 1
                return False
            known = _Heard(beacon.serial, now_us, beacon.state, beacon.name, False)
            self._heard[beacon.process] = known
        elif beacon.serial <= known.serial or known.has_left:
            if beacon.serial == known.serial and by_multicast:
                known.by_multicast_us = now_us
            self.counters["discovery: overtaken or a copy"] += 1
            return False
        known.serial, known.heard_us = beacon.serial, now_us
        known.state, known.name, known.has_left = beacon.state, beacon.name, beacon.leaves
        known.lists_us = self.number is not None and (self.process, self.number) in beacon.listed
        if by_multicast:
            known.by_multicast_us = now_us
        return True

    def _make_room(self, now_us: int) -> bool:
        """Forget the process that was silent for longest, if it is absent."""
        process, oldest = min(self._heard.items(), key=lambda one: one[1].heard_us)
        if now_us - oldest.heard_us < self.waits.silent_us:
            return False
        del self._heard[process]
        return True

    def _take(self, beacon: Beacon, now_us: int) -> None:
        """Enter a process into the roster, if it has the right to its number."""
        if beacon.number is None:
            self.roster.give_up(beacon.process)
            return
        entry = Entry(
            beacon.number, beacon.process, beacon.claim_us, beacon.name, beacon.host, beacon.port,
            beacon.state, now_us, beacon.leaves,
        )  # fmt: skip
        if not self.roster.take(entry, now_us):
            self._urgent.add(beacon.number)
            self._hurry(self.waits.gap_us, now_us)

    def _learn(self, told: Told, now_us: int) -> None:
        """Another daemon tells an entry of its roster."""
        silent_us = told.silent_ms * 1_000
        if told.process == self.process or silent_us >= self.waits.hold_us:
            return
        heard_us = now_us - silent_us
        known = self.roster.of_process(told.process)
        direct = self._heard.get(told.process)
        if known is not None:
            is_same = told.number == known.number and told.claim_us == known.claim_us
            if is_same and not known.has_left and heard_us > known.heard_us:
                known.heard_us, known.is_rumour = heard_us, True
            if is_same and told.has_left and not known.has_left:
                self.roster.left(known)
            if told.claim_us <= known.claim_us:
                return
        if direct is not None and now_us - direct.heard_us < self.waits.silent_us:
            return  # it tells us itself what it has
        entry = Entry(
            told.number, told.process, told.claim_us, told.name, told.host, told.port, told.state, heard_us,
            told.has_left, is_rumour=True,
        )  # fmt: skip
        self.roster.take(entry, now_us)

    # The right to a number and a name ---------------------------------------------------------------------

    def _check_right(self, now_us: int) -> None:
        """Give the number and the name up, if another daemon has the better right to one of them."""
        if self.number is None:
            return
        self._refresh(now_us)
        mine = self.roster.entries.get(self.number)
        if mine is None or mine.process != self.process:
            owner = "another daemon" if mine is None else f"{mine.name} at {mine.host}:{mine.port}"
            self._lose(f"number {self.number} belongs to {owner}", now_us)
            return
        for other in self.roster.entries.values():
            if (
                other.process != self.process
                and other.name == self.name
                and self.roster.outranks(other, mine, now_us)
            ):
                self._lose(f"the name {self.name} belongs to {other.host}:{other.port}", now_us)
                return

    def _refresh(self, now_us: int) -> None:
        """Enter ourselves into the roster."""
        if self.number is not None:
            mine = Entry(
                self.number, self.process, self._claim_us, self.name, self.host, self.port, self.state, now_us
            )
            self.roster.take(mine, now_us)

    def _lose(self, reason: str, now_us: int) -> None:
        if self.state is State.BEARS:
            self.losses.append(reason)
            self.counters["discovery: numbers given up"] += 1
        self.roster.give_up(self.process)
        self._enter(State.LISTENS, None, now_us)
        self._decide_us = now_us + self.waits.gap_us + self._jitter(self.waits.answer_us)
        self._hurry(0, now_us)

    def _choose(self, now_us: int) -> None:
        """Claim a number that is free, or the one that an earlier process of this daemon has left."""
        self.waits_for = ""
        for place in range(1, SLOTS + 2):
            name = unique_name(self._wish, place)
            holder = self.roster.of_name(name)
            if holder is None:
                self._claim_free(name, now_us)
                return
            if holder.host != self.host or self._is_there(holder.process, now_us):
                continue
            if self.roster.is_alive(holder, now_us):
                self.waits_for = WAITS_FOR_FORMER
                self._decide_us = now_us + self.waits.answer_us
                return
            self._claim(holder.number, name, now_us)
            return
        self._claim_free(unique_name(self._wish, SLOTS + 1), now_us)

    def _is_there(self, process: int, now_us: int) -> bool:
        """Whether we have heard a process ourselves, and lately."""
        heard = self._heard.get(process)
        return heard is not None and not heard.has_left and now_us - heard.heard_us < self.waits.silent_us

    def _claim_free(self, name: str, now_us: int) -> None:
        free = [number for number in range(SLOTS) if number not in self.roster.entries]
        if not free:
            self.waits_for = FULL
            self._decide_us = now_us + self.waits.listen_us
            return
        # Newcomers of one moment claim different numbers, in the order of their process numbers.
        before = sum(
            process < self.process
            for process, heard in self._heard.items()
            if heard.state is State.LISTENS and now_us - heard.heard_us < self.waits.silent_us
        )
        self._claim(free[min(before, len(free) - 1)], name, now_us)

    def _claim(self, number: int, name: str, now_us: int) -> None:
        self.name = name
        self._claim_us = max(now_us + self._wall_ahead_us, self._claim_us + 1)
        self._enter(State.CLAIMS, number, now_us)
        self._check_right(now_us)
        self._hurry(0, now_us)

    def _confirm(self, now_us: int) -> None:
        """Bear the number, if all that we hear have listed the claim."""
        waited_us = now_us - self._since_us
        missing = [
            heard.name
            for heard in self._heard.values()
            if not heard.lists_us and not heard.has_left and now_us - heard.heard_us < self.waits.silent_us
        ]
        if waited_us < self.waits.claim_us or (missing and waited_us < self.waits.confirm_us):
            return
        self.deaf = tuple(sorted(missing))
        self._enter(State.BEARS, self.number, now_us)
        self._refresh(now_us)
        self._hurry(0, now_us)

    def _enter(self, state: State, number: int | None, now_us: int) -> None:
        self.state, self.number, self._since_us = state, number, now_us
        self._greetings = 0
        if state is not State.BEARS:
            for heard in self._heard.values():
                heard.lists_us = False

    # Beacons ----------------------------------------------------------------------------------------------

    def _answer(self, beacon: Beacon, origin: Origin, now_us: int) -> None:
        """A newcomer wants to know who is there. Besides the beacon to all, it gets one of its own, so that
        it learns of us where our multicasts do not get through."""
        self._hurry(self._jitter(self.waits.answer_us), now_us)
        if now_us - self._replied_us >= self.waits.gap_us:
            self._replied_us = now_us
            self._serial += 1
            self.replies.append((origin, self._beacon(now_us, asks=False)))

    def _hurry(self, wait_us: int, now_us: int) -> None:
        """Send the next beacon soon."""
        self._due_us = min(self._due_us, max(now_us + wait_us, self._sent_us + self.waits.gap_us))

    def _send(self, now_us: int) -> None:
        self._serial += 1
        self._sent_us = now_us
        self.multicasts.append(self._beacon(now_us, asks=self.state is not State.BEARS))
        if self.state is State.BEARS:
            wait_us = self.waits.beacon_us * 7 // 8 + self._jitter(self.waits.beacon_us // 4)
        elif self._greetings < len(GREETINGS_US):
            wait_us = GREETINGS_US[self._greetings]
        else:
            wait_us = self.waits.beacon_us // 2
        self._greetings += 1
        self._due_us = now_us + wait_us

    def _beacon(self, now_us: int, *, asks: bool, leaves: bool = False) -> Beacon:
        listed = tuple(
            (entry.process, entry.number)
            for entry in self.roster.entries.values()
            if self.roster.is_alive(entry, now_us)
        )
        return Beacon(
            self.cluster, self.process, self._serial, self.state, self.number, self._claim_us, self.host,
            self.port, self.name, asks, leaves, listed[:LISTED_MAX], self._tell(now_us),
        )  # fmt: skip

    def _tell(self, now_us: int) -> tuple[Told, ...]:
        """A part of the roster: what a claim was refused for first, then all in turn."""
        entries = self.roster.entries
        numbers = sorted(entries)
        start = self._told % len(numbers) if numbers else 0
        turn = numbers[start:] + numbers[:start]
        first = [number for number in sorted(self._urgent) if number in entries]
        chosen = (first + [number for number in turn if number not in self._urgent])[:TOLD_MAX]
        self._told = start + max(0, len(chosen) - len(first))
        self._urgent.clear()
        return tuple(self._told_of(entries[number], now_us) for number in chosen)

    def _told_of(self, entry: Entry, now_us: int) -> Told:
        silent_us = max(0, now_us - entry.heard_us) + self.waits.rumour_us * entry.is_rumour
        silent_ms = -(-silent_us // 1_000)
        state = State.BEARS if entry.inherits and not self.roster.is_alive(entry, now_us) else entry.state
        return Told(
            entry.number, state, entry.process, entry.claim_us, min(silent_ms, SILENT_MAX_MS),
            entry.host, entry.port, entry.name, entry.has_left,
        )  # fmt: skip

    def _jitter(self, span_us: int) -> int:
        """A time up to `span_us` that differs from process to process and from beacon to beacon."""
        mixed = (self.process ^ self._serial * 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        return (mixed >> 32) * span_us >> 32

    # For people -------------------------------------------------------------------------------------------

    def company(self, now_us: int) -> int:
        """How many other processes of the cluster were heard lately."""
        return sum(
            not heard.has_left and now_us - heard.heard_us < self.waits.silent_us
            for heard in self._heard.values()
        )

    def one_way(self, now_us: int) -> tuple[str, ...]:
        """The daemons that are there, for they answer or work with us, and whose multicasts do not come
        here."""
        return tuple(
            sorted(
                heard.name
                for process, heard in self._heard.items()
                if self._is_unheard(heard, now_us) and self._is_known_to_be_there(process, now_us)
            )
        )

    def _is_unheard(self, heard: _Heard, now_us: int) -> bool:
        """Whether no multicast of a process has come, or none for far too long."""
        last_us = heard.by_multicast_us
        return last_us is None or now_us - last_us >= MISSED * self.waits.silent_us

    def _is_known_to_be_there(self, process: int, now_us: int) -> bool:
        entry = self.roster.of_process(process)
        return self._is_there(process, now_us) or (entry is not None and self.roster.is_alive(entry, now_us))


def unique_name(wish: str, place: int) -> str:
    """The name of the daemon that would like to be called `wish` and is the so-and-so-many-th of that name.

    >>> unique_name("oslo", 1), unique_name("oslo", 2), unique_name("a-very-long-host-name", 12)
    ('oslo', 'oslo-2', 'a-very-long-host-12')
    """
    if place == 1:
        return wish[: limits.DAEMON_NAME_MAX_BYTES]
    return f"{wish[: limits.DAEMON_NAME_MAX_BYTES - NAME_ROOM]}-{place}"
