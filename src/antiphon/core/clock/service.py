"""How the daemons of a view come to know the time.

Inside a site, one daemon is the *holder*: the first reference, or else the representative. Another one, the
*pulse*, begins a round every second with one packet to all. Then, without an assumption about the site,

    pulse    -- ROUND ------> all           everyone notes when it came
    others   -- report -----> holder        one small packet each
    holder   -- spray ------> all           the time, and which packets came when: its echo to each of them

and each daemon has an exchange with the holder: its packet left before the spray was made, and the spray came
before now, so the time is that of the spray and at most the round trip, less what the holder waited, more. If
the site says how tightly packets arrive (`tight_ms`), nobody reports: whoever received the ROUND, as the
holder did, at the same moment but for that, knows the time of that moment from the spray. So a round
costs two packets, however many daemons there are.

Between sites, daemons ask those on the other end of their links, unless a reference of their own site
told the time lately. Whatever is read is a span, and spans are intersected, so the nearest reference, that
with the smallest error, counts by itself.

Without the time of any reference, the clock of the view's first daemon is the internal time of the view.

Packets are sent only where the configuration has a reference, or while sessions ask: who asks wants time for
`WANTED_US`, and packets tell for how much longer it is wanted.

Follows: NAVTECH 3.1 (CesiumSpray): tight arrival inside a LAN, external time sprayed by a node that has it.
Deviations: a reference is a daemon with a disciplined system clock, not a GPS receiver; sites without one
read another site's; tight arrival counts only where the configuration promises it, because the bound would
not hold on a busy machine; internal time is the clock of one daemon, not an average.
Checked by: tests/simulation/test_clocks.py, tests/runtime/test_time.py, the oracle's property "time".
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from antiphon.config import Config
from antiphon.core.clock.keeper import Keeper
from antiphon.core.clock.reading import Basis, Reading, Said, drift_us
from antiphon.core.clock.system import SystemClock
from antiphon.core.effects import Datagram, Outbox
from antiphon.errors import BadPacket
from antiphon.wire import clock as wire
from antiphon.wire import frames, packet
from antiphon.wire.clock import Arrival, ClockPacket
from antiphon.wire.packet import EVERYBODY, Head, Loose, PacketKind

if TYPE_CHECKING:
    from antiphon.core.membership.engine import Engine

ROUND_US = 1_000_000
"""From one round of a site to the next."""
ASK_US = 4_000_000
"""From one question to another site to the next."""
QUICK_US = 200_000
"""The same for both while the time is not known."""
COLLECT_US = 2_000
"""How long the holder waits for reports before it sprays."""
FRESH_US = 10_000_000
"""For so long after its last reading a site with a reference does not ask others."""
ECHO_MAX_US = 10_000_000
"""Packets that came longer ago are not echoed."""
SENT_MAX = 64
"""Packets of ours whose echoes are recognised."""
WANTED_US = 30_000_000
"""For how long a session that asks keeps the daemons at work, where there is no reference."""
INTERNAL_AFTER_US = 10_000_000
"""Where there are references, for so long after its start a daemon waits for one of them before it falls back
on internal time."""


class _Place(Struct, frozen=True):
    """The part that a daemon has in a view."""

    view: int
    root: int
    """The view's first daemon."""
    incarnation: int
    """Of the process that it is in this view."""
    mates: tuple[int, ...]
    """The other daemons of the segment."""
    holder: int
    pulse: int
    """-1 if the daemon is alone in its segment."""
    peers: tuple[int, ...]
    """The daemons outside of the segment to which this one has links: it asks them."""


class _Came(Struct, frozen=True):
    """The newest CLOCK packet of another daemon."""

    incarnation: int
    counter: int
    at_us: int
    is_round: bool


class Gate(Protocol):
    """What counts refused packets, as the clock sees it."""

    counters: Counter[str]

    def refuse_contents(self, bad: BadPacket, head: Head, now_us: int) -> None:
        """The contents of a packet are not as they should be."""


class ClockHost(Protocol):
    """The node, as the clock sees it."""

    datagrams: Outbox

    @property
    def gate(self) -> Gate:
        """Where refused packets are counted."""


class Clock:
    """The time at one daemon, and its part in telling others."""

    def __init__(
        self,
        config: Config,
        me: int,
        incarnation: int,
        host: ClockHost,
        working: "Callable[[], Engine | None]",
        *,
        wall_us: int,
        now_us: int,
    ) -> None:
        self.keeper = Keeper()
        self.references = config.references
        """By daemon number, the error of each reference in microseconds."""
        self.system = SystemClock(me, self.references[me]) if me in self.references else None
        """Our system clock, if this daemon is a reference."""
        self._working = working
        self.config = config
        self._me = me
        self._incarnation = incarnation
        self._datagrams = host.datagrams
        self._gate = host.gate
        tight_ms = config.sites[config.site_of(me)].tight_ms
        self._tight_us = None if tight_ms is None else round(tight_ms * 1_000)
        self._ahead_us = wall_us - now_us
        self._began_us = now_us
        self._place = _Place(0, me, incarnation, (), me, -1, ())
        self._wanted_until_us = now_us
        self._is_wanted = False  # or no longer, as far as the last timeout could see
        self._asks_holder = False
        self._came: dict[int, _Came] = {}
        self._sent: dict[int, int] = {}  # by counter, when
        self._round_us = self._ask_us = now_us
        self._spray_us: int | None = None

    # Questions --------------------------------------------------------------------------------------------

    def ask(self, now_us: int) -> Said | None:
        """A session asks for the time; None if it is not known yet. From now on it is wanted."""
        self._follow(now_us)
        self._want(now_us + WANTED_US, now_us)
        return self.say(now_us)

    def _want(self, until_us: int, now_us: int) -> None:
        """The time is wanted, here or by others that read it from here."""
        if until_us <= now_us:
            return
        if not self.is_active(now_us):
            self._round_us = self._ask_us = now_us
            self._asks_holder = True
            if self._place.holder == self._me and self._place.mates:
                self._spray_us = now_us + COLLECT_US  # the pulse is to begin rounds
        self._is_wanted = True
        self._wanted_until_us = max(self._wanted_until_us, until_us)

    def answer(self, question: frames.AskTime, now_us: int) -> bytes:
        """The frame that answers a session's question."""
        said = self.ask(now_us)
        if said is None:
            return frames.encode_control(frames.Time(number=question.number))
        root = self.config.daemon_names[said.basis.root]
        basis = frames.TimeBasis.REFERENCE if said.basis.is_external else frames.TimeBasis.INTERNAL
        time_us = max(0, said.time_us)
        return frames.encode_control(frames.Time(basis, root, time_us, said.error_us, question.number))

    def say(self, now_us: int) -> Said | None:
        """The time, if it is known."""
        self._follow(now_us)
        self._found_internal(now_us)
        return self.keeper.say(now_us)

    def describe(self, now_us: int) -> dict[str, object]:
        """What `antiphon status` shows, ready for JSON; it does not count as a wish to know the time."""
        keeper, system = self.keeper, self.system
        said = keeper.say(now_us)
        names = self.config.daemon_names
        return {
            "basis": "unknown" if said is None else "reference" if said.basis.is_external else "internal",
            "source": None if said is None else names[said.basis.root],
            "time_us": None if said is None else said.time_us,
            "error_us": None if said is None else said.error_us,
            "read_us_ago": None if said is None else now_us - keeper.read_us,
            "rate_ppm": keeper.rate_ppb / 1_000,
            "contradictions": keeper.conflicts,
            "references": [names[number] for number in self.references],
            "is_reference": system is not None,
            "is_trusted": None if system is None else system.is_trusted(now_us),
        }

    def is_active(self, now_us: int) -> bool:
        """Whether daemons tell one another the time."""
        return bool(self.references) or now_us < self._wanted_until_us

    def read_system(self, wall_us: int, within_us: int, now_us: int) -> None:
        """The system clock of this reference shows `wall_us`, at most `within_us` after `now_us`."""
        assert self.system is not None
        reading = self.system.read(wall_us, within_us, now_us)
        if reading is not None:
            self.keeper.take(reading, now_us, gain=1)

    def _found_internal(self, now_us: int) -> None:
        """Let our clock be the internal time, if that is our part and there is no better one."""
        if self._place.root != self._me or self.keeper.is_external(now_us):
            return
        if not self.references or now_us >= self._began_us + INTERNAL_AFTER_US:
            self.keeper.be_root(self._me, self._incarnation, self._ahead_us + now_us, now_us)

    # The view ---------------------------------------------------------------------------------------------

    def _follow(self, now_us: int) -> bool:
        """Find our part in the view over whose links the daemon works; False if there is none now."""
        engine = self._working()
        if engine is None:
            return False
        if engine.view.id == self._place.view:
            return True
        me = self._me
        segment = next(segment for segment in engine.segments if me in segment)
        mates = tuple(mate for mate in segment if mate != me)
        holder = next((mate for mate in segment if mate in self.references), segment[0])
        pulse = next((mate for mate in segment if mate != holder), -1)
        view = engine.view
        root, incarnation = view.members[0], view.incarnations[0]
        self._place = _Place(view.id, root, incarnation, mates, holder, pulse, tuple(engine.links))
        self._round_us = self._ask_us = now_us
        self._spray_us = None
        return True

    # Time -------------------------------------------------------------------------------------------------

    def next_deadline_us(self) -> int | None:
        """When there is something to do; None if nobody wants to know the time."""
        if not (self.references or self._is_wanted) or (engine := self._working()) is None:
            return None
        if engine.view.id != self._place.view:
            return 0
        place = self._place
        due: list[int] = []
        if place.mates and self._me != place.holder:
            due.append(self._round_us)
        if place.peers:
            due.append(self._ask_us)
        if self._spray_us is not None:
            due.append(self._spray_us)
        return min(due, default=None)

    def timeout(self, now_us: int) -> None:
        """Do what is due."""
        self._is_wanted = self._is_wanted and now_us < self._wanted_until_us
        if not self.is_active(now_us) or not self._follow(now_us):
            return
        self._found_internal(now_us)
        place = self._place
        is_known = self._knows_shared_time(now_us)
        if self._spray_us is not None and now_us >= self._spray_us:
            self._spray(now_us)
        if place.mates and place.holder != self._me and now_us >= self._round_us:
            self._round_us = now_us + (ROUND_US if is_known else QUICK_US)
            if place.pulse == self._me:
                self._send_to_mates(wire.ROUND, now_us)
            elif self._asks_holder or not is_known:
                self._send(place.holder, wire.QUESTION, now_us)
            self._asks_holder = False
        if place.peers and now_us >= self._ask_us:
            self._ask_us = now_us + (ASK_US if is_known else QUICK_US)
            if self._needs_others(now_us):
                for peer in place.peers:
                    self._send(peer, wire.QUESTION, now_us)

    def _knows_shared_time(self, now_us: int) -> bool:
        """Whether we know the time of a reference, or the internal time of our view and not of another."""
        known = self.keeper.at(now_us)
        if known is None:
            return False
        return known.basis.is_external or known.basis.is_internal_of(
            self._place.root, self._place.incarnation
        )

    def _needs_others(self, now_us: int) -> bool:
        """Whether other sites are to be asked: not if a reference of our own site told the time lately, nor
        if everybody's time is ours."""
        basis = self.keeper.basis
        if basis is None:
            return True
        if not basis.is_external:
            return self._me != self._place.root or bool(self.references)
        is_near = basis.root == self._me or basis.root in self._place.mates
        return not is_near or now_us >= self.keeper.read_us + FRESH_US

    # Packets ----------------------------------------------------------------------------------------------

    def receive(self, incoming: Loose, now_us: int) -> None:
        """A CLOCK packet came; it is not made before it was sent, and `now_us` is not before it came."""
        head = incoming.head
        try:
            told = wire.parse(incoming.body, self.config.daemon_count)
        except BadPacket as error:
            self._gate.refuse_contents(error, head, now_us)
            return
        sender = head.sender
        before = self._came.get(sender)
        if before is not None and (before.incarnation, before.counter) == (head.incarnation, head.counter):
            return
        is_working = self._follow(now_us)
        self._want(now_us + told.wanted_s * 1_000_000, now_us)
        is_round = bool(told.flags & wire.ROUND)
        if before is None or before.incarnation != head.incarnation or before.counter < head.counter:
            self._came[sender] = _Came(head.incarnation, head.counter, now_us, is_round)
        self._read(sender, told, now_us)
        if not is_working:
            return
        if told.flags & wire.QUESTION:
            self._found_internal(now_us)
            self._send(sender, 0, now_us)
        if is_round and sender in self._place.mates:
            self._go_round(now_us)

    def _go_round(self, now_us: int) -> None:
        """A round of our site has begun."""
        place = self._place
        if place.holder != self._me:
            # Who has links to other sites may know a time of which the holder has not heard.
            if self._tight_us is None or place.peers:
                self._send(place.holder, 0, now_us)
        elif self._tight_us is not None or len(place.mates) == 1:
            self._spray(now_us)
        elif self._spray_us is None:
            self._spray_us = now_us + COLLECT_US

    def _spray(self, now_us: int) -> None:
        self._spray_us = None
        self._found_internal(now_us)
        self._send_to_mates(0, now_us)

    def _read(self, sender: int, told: ClockPacket, now_us: int) -> None:
        """Take what a packet says of the time, if it is of the time that counts here."""
        if told.basis == wire.NO_TIME:
            return
        basis = Basis(told.basis, told.root, told.since_us, told.incarnation)
        if not basis.is_external and not self._is_followed(basis, now_us):
            return
        for arrival in told.arrivals:
            reading = None
            if arrival.daemon == self._me:
                reading = self._exchanged(arrival, told, basis, now_us)
            elif self._tight_us is not None and sender in self._place.mates:
                reading = self._arrived_together(arrival, told, basis, self._tight_us)
            if reading is not None and not self.keeper.take(reading, now_us):
                self._gate.counters["clock: contradicts what is known"] += 1

    def _is_followed(self, basis: Basis, now_us: int) -> bool:
        """Whether an internal time counts here: it is that of our view's first daemon, of the process that is
        in the view, and not one that this process has given up for a newer one."""
        place, held = self._place, self.keeper.basis
        if place.root == self._me or self.keeper.is_external(now_us):
            return False
        if not basis.is_internal_of(place.root, place.incarnation):
            return False
        is_of_same_process = held is not None and held.is_internal_of(place.root, place.incarnation)
        return held is None or not is_of_same_process or basis.since_us >= held.since_us

    def _exchanged(self, echo: Arrival, told: ClockPacket, basis: Basis, now_us: int) -> Reading | None:
        """What a packet says that echoes one of ours."""
        sent_us = self._sent.get(echo.counter)
        if sent_us is None or echo.incarnation != self._incarnation:
            return None
        trip_us = now_us - sent_us - echo.ago_us
        # It was made `ago_us` or more after ours, by a clock that may be fast: so it came at most this later.
        slack_us = drift_us(now_us - sent_us) + drift_us(echo.ago_us)
        most_us = trip_us + basis.drifting * slack_us + 1
        if most_us < 0:
            self._gate.counters["clock: impossible echo"] += 1
            return None
        return Reading(
            now_us, told.low_us, told.high_us + most_us, told.estimate_us + max(0, trip_us) // 2, basis
        )

    def _arrived_together(
        self, arrival: Arrival, told: ClockPacket, basis: Basis, tight_us: int
    ) -> Reading | None:
        """What a packet says that tells when its sender had a packet that came to us at the same moment."""
        came = self._came.get(arrival.daemon)
        if came is None or not came.is_round:
            return None
        if (came.incarnation, came.counter) != (arrival.incarnation, arrival.counter):
            return None  # another packet of that daemon
        reading = Reading(
            came.at_us, told.low_us - arrival.ago_us, told.high_us - arrival.ago_us,
            told.estimate_us - arrival.ago_us, basis,
        )  # fmt: skip
        return reading.widened(tight_us + basis.drifting * drift_us(arrival.ago_us) + 1)

    # Sending ----------------------------------------------------------------------------------------------

    def _send(self, receiver: int, flags: int, now_us: int) -> None:
        self._send_to(receiver, (), flags, (receiver,), now_us)

    def _send_to_mates(self, flags: int, now_us: int) -> None:
        mates = self._place.mates
        if len(mates) == 1:
            self._send(mates[0], flags, now_us)
        else:
            self._send_to(EVERYBODY, mates, flags, mates, now_us)

    def _send_to(
        self, receiver: int, receivers: tuple[int, ...], flags: int, echoed: tuple[int, ...], now_us: int
    ) -> None:
        arrivals = tuple(
            Arrival(daemon, came.incarnation, came.counter, now_us - came.at_us)
            for daemon in echoed
            if (came := self._came.get(daemon)) is not None and now_us - came.at_us <= ECHO_MAX_US
        )
        wanted_s = max(0, self._wanted_until_us - now_us) // 1_000_000
        said = self._claim(flags, wanted_s, arrivals, now_us)
        prefix = packet.prefix(
            PacketKind.CLOCK, digest=self.config.digest, sender=self._me, receiver=receiver,
            incarnation=self._incarnation, seal=self._datagrams.seal,
        )  # fmt: skip
        counter = self._datagrams.counter.take()
        data = packet.whole(prefix, wire.encode(said), counter=counter)
        self._datagrams.append(Datagram(receiver, [data], len(data), len(data), receivers))
        self._sent[counter] = now_us
        while len(self._sent) > SENT_MAX:
            del self._sent[next(iter(self._sent))]

    def _claim(self, flags: int, wanted_s: int, arrivals: tuple[Arrival, ...], now_us: int) -> ClockPacket:
        """What we know of the time, for others."""
        known = self.keeper.at(now_us)
        if known is None or known.high_us < 0:
            return ClockPacket(flags=flags, wanted_s=wanted_s, arrivals=arrivals)
        return ClockPacket(
            max(0, known.low_us), known.high_us, max(0, known.estimate_us), known.basis.kind, flags,
            known.basis.root, known.basis.since_us, known.basis.incarnation, wanted_s, arrivals,
        )  # fmt: skip
