"""Causal messages wait for their past and for nothing else, a promise of our own (NAVTECH, R3).

The past is worked out from the trace alone, by sends and deliveries of sessions: before a bundle of a session
come the session's earlier ones, those that its daemon had delivered to it by then, the pasts of all of these,
and the events that made views of groups that it ever joined. Whoever got an unreliable message is taken to
know what its sender knows when the next bundle is sent, and whoever got a message by its choice to know it
once its daemon has it. A causal bundle that a daemon delivers later than it
got it must have waited: for a bundle of its past that is for this daemon, until just now.

A bundle may also wait
- for what a line in its history stands for: everything up to it, as far as it had come everywhere (`stable`),
  or else (`floor`) until an ordered delivery shows that the agreed order has passed it
- while its daemon forms a view or puts groups together, has an event of a session of its own under way, or
  has a late copy to deliver that was born before it: then it keeps its place in the agreed order
- for its place, if it was born without one; and in the adaptive order for what a line stands for: ordered
  deliveries do not show there how far their senders have come
- for its turn, while its daemon delivers one bundle after another: a busy daemon does so in slices.
Sessions that ended may have been handed more than they have read: what was sent to groups that they had
joined counts as delivered to them. Only in virtual time does what a daemon does at once take no time, so real
runs are not judged.
"""

from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct

from antiphon.simulator.oracle.daemons import name
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import ORDERED_SERVICES, Bundle, Event, Identity, Record, Trace, promises

Sender = tuple[int, int, int]
"""A daemon, its incarnation, and its session."""
NEVER_US = 1 << 62
SLICES_APART_US = 10_000
"""A busy daemon of the simulator goes on with its deliveries after so long at the most."""
CALM = ("op", "gop")
"""States in which messages flow."""


class _Past(Struct):
    """What a session knows, or what comes before a bundle."""

    newest: dict[Sender, int]
    """The newest bundle of each sender."""
    event: Record | None = None
    """The newest event of groups; all earlier ones come before it wherever it is delivered."""

    def copy(self) -> "_Past":
        return _Past(self.newest.copy(), self.event)

    def add(self, other: "_Past") -> None:
        newest = self.newest
        for sender, number in other.newest.items():
            if number > newest.get(sender, 0):
                newest[sender] = number
        if other.event is not None:
            self.saw(other.event)

    def saw(self, event: Record) -> None:
        if self.event is None or event.rank > self.event.rank:
            self.event = event


class _Deliveries(Struct):
    """When the bundles of one sender that are for a daemon were delivered there, in the order of numbers."""

    numbers: list[int]
    latest_us: list[int]
    """The latest time up to each."""


class _Needless:
    """One pass over a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._sends: dict[Bundle, Record] = {}
        self._pasts: dict[Bundle, _Past] = {}
        self._knows: dict[str, _Past] = {}
        self._by_sender: dict[tuple[int, Sender], list[Record]] = {}
        self._delivered_us: dict[tuple[str, Bundle], int] = {}
        self._delivered_in: dict[tuple[str, int], list[Record]] = {}  # by daemon and its view
        self._times_us: dict[str, list[int]] = {}  # of all deliveries of each daemon, also of those by choice
        self._held: dict[tuple[str, Bundle], Record] = {}
        self._deliveries: dict[tuple[str, int, Sender], _Deliveries] = {}
        self._disturbed: dict[str, list[tuple[int, bool]]] = {}  # by daemon: from which position on, whether
        self._events_under_way: dict[str, set[Bundle]] = {}
        self._bound_at: dict[tuple[str, Bundle], bool] = {}  # whether it came while an event was under way
        self._waited: list[Record] = []
        self._processes = {message[:3]: record.process for message, record in trace.sends.items()}
        self._handed = self._handed_over()
        self._chosen = {
            (record.process, record.message) for record in trace.of(Event.DELIVER) if record.delivery
        }
        self._loose = self._loose_messages()
        self._joined: dict[str, set[str]] = {}
        for record in trace.of(Event.JOIN):
            self._joined.setdefault(record.process, set()).update(record.groups)
        ended = {record.process for record in trace.of(Event.DISCONNECT)}
        self._unread: dict[str, list[str]] = {}  # by daemon, the sessions that ended
        for process in sorted(ended):
            self._unread.setdefault(process.rpartition("#")[2], []).append(process)

    def _handed_over(self) -> dict[tuple[str, Identity], list[str]]:
        """By daemon and message: the sessions there that got it."""
        found: dict[tuple[str, Identity], list[str]] = {}
        for record in self._trace.of(Event.DELIVER):
            if record.message is not None:
                found.setdefault((record.daemon, record.message), []).append(record.process)
        return found

    def _loose_messages(self) -> dict[str, list[tuple[int, int, str]]]:
        """By session, the unreliable messages that it got: where each was sent and got, and by whom it was
        sent. No record tells when a daemon sent it or handed it over."""
        found: dict[str, list[tuple[int, int, str]]] = {}
        for record in self._trace.of(Event.DELIVER):
            sent = None if record.message is None else self._trace.sends.get(record.message)
            if sent is not None and record.service == "unreliable" and sent.process != record.process:
                found.setdefault(record.process, []).append((sent.position, record.position, sent.process))
        return found

    def look(self) -> Iterator[Finding]:
        if not any(record.service == "causal" for record in self._trace.of(Event.SSEND)):
            return
        for record in self._trace.records:
            match record.event:
                case Event.SSEND:
                    self._sent(record)
                case Event.HOLD:
                    self._came(record)
                case Event.SDELIVER:
                    self._delivered(record)
                case Event.DELIVER if record.delivery:
                    self._times_us.setdefault(record.daemon, []).append(record.time_us)
                case Event.STATE:
                    self._disturb(record, record.state not in CALM)
                case Event.SVIEW | Event.RECOVER | Event.CRASH:
                    self._events_under_way.pop(record.daemon, None)
                    self._disturb(record, record.event is not Event.SVIEW)
        for record in self._waited:
            yield from self._judge(record)

    def _disturb(self, record: Record, is_disturbed: bool) -> None:
        self._disturbed.setdefault(record.daemon, []).append((record.position, is_disturbed))

    # Pasts --------------------------------------------------------------------------------------------------

    def _sent(self, record: Record) -> None:
        bundle = record.bundle
        assert bundle is not None
        self._sends[bundle] = record
        if record.message is None:
            self._events_under_way.setdefault(record.daemon, set()).add(bundle)
            for process, groups in self._joined.items():
                if process.endswith(f"#{record.daemon}"):
                    self._see(process, groups, record)
            return
        sender = record.message[:3]
        self._by_sender.setdefault((bundle[0], sender), []).append(record)
        speaker = self._processes.get(sender)
        if speaker is None:
            return
        knows = self._knows_of(speaker, bundle[0])
        self._take_loose(speaker, record)
        self._pasts[bundle] = knows.copy()
        knows.newest[sender] = bundle[2]

    def _take_loose(self, process: str, sending: Record) -> None:
        """Whoever may have got an unreliable message may know all that its sender knows by now, which may
        have learnt it from unreliable messages, too."""
        assert sending.bundle is not None
        view, position = sending.bundle[0], sending.position
        sources: dict[str, set[str]] = {}
        reached = [process]
        while reached:
            one = reached.pop()
            if one not in sources:
                sources[one] = {sender for sent, _, sender in self._loose.get(one, ()) if sent < position}
                reached += sources[one]
        for _ in range(len(sources) - 1):  # so far is the farthest source
            for one, senders in sources.items():
                for sender in senders:
                    self._knows_of(one, view).add(self._knows_of(sender, view))
        for one in sources:
            self._loose[one] = [told for told in self._loose.get(one, ()) if told[1] > position]

    def _see(self, process: str, groups: set[str], event: Record) -> None:
        if event.bundle is not None and (not event.groups or not groups.isdisjoint(event.groups)):
            self._knows_of(process, event.bundle[0]).saw(event)

    def _knows_of(self, process: str, view: int) -> _Past:
        """What a process knows of a daemon view: all of the one before comes first anyway."""
        return self._knows.setdefault(f"{view} {process}", _Past({}))

    def _delivered(self, record: Record) -> None:
        bundle = record.bundle
        assert bundle is not None
        daemon = record.daemon
        self._delivered_us[daemon, bundle] = record.time_us
        self._times_us.setdefault(daemon, []).append(record.time_us)
        self._delivered_in.setdefault((daemon, bundle[0]), []).append(record)
        if record.message is None:
            self._events_under_way.get(daemon, set()).discard(bundle)
            for process, groups in self._joined.items():
                if process.endswith(f"#{daemon}"):
                    self._see(process, groups, record)
            return
        self._learn(record, self._receivers(record))
        held = self._held.get((daemon, bundle))
        is_born_in_place = not record.place
        if (
            record.service == "causal"
            and is_born_in_place
            and held is not None
            and record.time_us > held.time_us
        ):
            self._waited.append(record)

    def _learn(self, record: Record, processes: list[str]) -> None:
        """Processes know a bundle, and its past."""
        bundle, message = record.bundle, record.message
        assert bundle is not None and message is not None
        past = self._pasts.get(bundle)
        if past is not None:
            for process in processes:
                knows = self._knows_of(process, bundle[0])
                knows.add(past)
                knows.newest[message[:3]] = max(knows.newest.get(message[:3], 0), bundle[2])

    def _receivers(self, record: Record) -> list[str]:
        """The sessions to which a daemon handed a bundle."""
        assert record.message is not None
        daemon, incarnation, session, first = record.message
        found = []
        for sequence in range(first, first + record.count):
            got = self._handed.get((record.daemon, (daemon, incarnation, session, sequence)))
            if got is not None:
                found += got
                break
        for process in self._unread.get(record.daemon, ()):
            if process in record.groups or not self._joined.get(process, set()).isdisjoint(record.groups):
                found.append(process)
        return found

    def _came(self, record: Record) -> None:
        assert record.bundle is not None
        key = (record.daemon, record.bundle)
        if key not in self._held:
            self._held[key] = record
            self._bound_at[key] = bool(self._events_under_way.get(record.daemon))
            if self._chosen and record.message is not None:
                self._learn(record, [one for one in self._receivers(record) if self._is_chosen(one, record)])

    def _is_chosen(self, process: str, record: Record) -> bool:
        """Whether a process got something in a bundle by its choice."""
        assert record.message is not None
        *sender, first = record.message
        return any(
            (process, (*sender, sequence)) in self._chosen for sequence in range(first, first + record.count)
        )

    # Judging ------------------------------------------------------------------------------------------------

    def _judge(self, record: Record) -> Iterator[Finding]:
        bundle, daemon = record.bundle, record.daemon
        assert bundle is not None
        sent, past, held = self._sends.get(bundle), self._pasts.get(bundle), self._held[daemon, bundle]
        if sent is None or past is None or self._is_excused(record, held, sent):
            return
        ready_us = max(
            held.time_us,
            self._past_us(daemon, bundle[0], past),
            self._lines_us(daemon, sent),
            self._passed_us(daemon, sent),
        )
        if record.time_us > ready_us and not self._is_in_turn(daemon, ready_us, record.time_us):
            yield Finding(
                f"{daemon} had {name(bundle)} and everything before it at {ready_us} us, and delivered it at "
                f"{record.time_us}",
                (daemon,),
                (record.message,) if record.message is not None else (),
                (sent.position, held.position, record.position),
            )

    def _is_excused(self, record: Record, held: Record, sent: Record) -> bool:
        assert record.bundle is not None
        daemon, view = record.daemon, record.bundle[0]
        if self._trace.order != "symmetric" and (sent.floor or sent.stable):
            return True
        if self._bound_at[daemon, record.bundle] or self._is_disturbed(
            daemon, held.position, record.position
        ):
            return True
        return any(
            daemon not in other.destinations and other.lts < sent.lts and other.position >= held.position
            for other in self._delivered_at(daemon, view)
        )

    def _is_in_turn(self, daemon: str, since_us: int, until_us: int) -> bool:
        """Whether a daemon delivered one bundle after another all the while."""
        times = self._times_us[daemon]
        before_us = since_us
        for at in range(bisect_right(times, since_us), bisect_right(times, until_us)):
            if times[at] - before_us > SLICES_APART_US:
                return False
            before_us = times[at]
        return True

    def _is_disturbed(self, daemon: str, since: int, until: int) -> bool:
        told = self._disturbed.get(daemon, [])
        at = bisect_right(told, (since, True))
        before = told[at - 1][1] if at else True
        return before or (at < len(told) and told[at][0] < until)

    def _past_us(self, daemon: str, view: int, past: _Past) -> int:
        """When the last bundle of a past that is for a daemon was delivered there."""
        found = 0
        for sender, number in past.newest.items():
            told = self._of_sender(daemon, view, sender)
            at = bisect_right(told.numbers, number)
            if at:
                found = max(found, told.latest_us[at - 1])
        if past.event is not None and past.event.bundle is not None:
            found = max(found, self._delivered_us.get((daemon, past.event.bundle), NEVER_US))
        return found

    def _of_sender(self, daemon: str, view: int, sender: Sender) -> _Deliveries:
        key = (daemon, view, sender)
        told = self._deliveries.get(key)
        if told is None:
            told = self._deliveries[key] = _Deliveries([], [])
            latest_us = 0
            sent = self._by_sender.get((view, sender), [])
            for record in sorted(sent, key=lambda one: one.bundle or (0, 0, 0)):
                if daemon in record.destinations and record.bundle is not None:
                    latest_us = max(latest_us, self._delivered_us.get((daemon, record.bundle), NEVER_US))
                    told.numbers.append(record.bundle[2])
                    told.latest_us.append(latest_us)
        return told

    def _lines_us(self, daemon: str, sent: Record) -> int:
        """When the last bundle was delivered that the lines in a history stand for."""
        line = max(sent.floor, sent.stable)
        assert sent.bundle is not None
        if not line:
            return 0
        return max(
            (
                self._delivered_us.get((daemon, bundle), NEVER_US)
                for bundle, other in self._sends.items()
                if bundle[0] == sent.bundle[0] and other.lts <= line and daemon in other.destinations
            ),
            default=0,
        )

    def _passed_us(self, daemon: str, sent: Record) -> int:
        """When the agreed order at a daemon had passed the floor of a history, for all that is known."""
        if not sent.floor or sent.bundle is None:
            return 0
        view = sent.bundle[0]
        return min(
            (
                record.time_us
                for record in self._delivered_at(daemon, view)
                if record.rank >= sent.floor
                and (record.message is None or record.service in ORDERED_SERVICES)
            ),
            default=NEVER_US,
        )

    def _delivered_at(self, daemon: str, view: int) -> list[Record]:
        """What a daemon delivered in a view."""
        return self._delivered_in.get((daemon, view), [])


def _look(trace: Trace) -> Iterator[Finding]:
    return iter(()) if trace.live else _Needless(trace).look()


PROPERTIES = (Property(promises.NEEDLESS, _look),)
