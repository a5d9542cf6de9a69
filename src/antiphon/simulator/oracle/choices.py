"""Members that chose less do not wait for more, a promise of our own (InterGroup 5).

A member that chose "arrival" gets a message when its daemon has it; with "fifo", when its daemon also has all
that the sender sent before in the same daemon view. Held to that are members that read at once, have no other
such choice in any of their groups, and joined these before. A message may come later
- while its daemon forms a view or puts groups together, or has an event of a session of its own under way:
  then everything that comes keeps its place in the agreed order, and with "fifo" what follows it, too
- with "fifo", while an event of the sender's daemon that comes before it is on its way to its place, since
  that may be the sender's
- with "fifo", behind a message of the same sender that the member gets in another way, because it is for its
  private name or for a group for which it did not choose so: it comes as soon as that one has come
- with "fifo", right behind one that is for other sites: it may wait until all that the sender's site sent
  before has come, because its daemon cannot tell earlier that nothing is missing
- for its turn, while its daemon delivers one bundle after another: a busy daemon does so in slices.
In the adaptive order a message waits until its place is certain, and in real runs everything takes time: they
are not judged. What members that chose "agreed" get, and in which order, the other properties say.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import history, name
from antiphon.simulator.oracle.needless import CALM, NEVER_US, SLICES_APART_US
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Bundle, Event, Record, Trace, promises

Sender = tuple[int, int, int]
"""A daemon, its incarnation, and its session."""


class _Choices:
    """One pass over a trace, and one over what members got by a choice."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._carriers = trace.known(history).carriers
        self._held: dict[tuple[str, Bundle], Record] = {}
        self._delivered: dict[tuple[str, Bundle], Record] = {}
        self._bound: set[tuple[str, Bundle]] = set()
        """What came while an event of the daemon's own was under way."""
        self._sent: dict[tuple[int, Sender], list[Record]] = {}  # by daemon view and sender
        self._events: dict[tuple[int, int], list[Record]] = {}  # by daemon view and daemon
        self._got: dict[tuple[str, Bundle], Record] = {}  # by process, of the messages in a bundle the last
        self._times_us: dict[str, list[int]] = {}
        self._changes: dict[str, list[int]] = {}  # positions at which a daemon was not calm, or began to be
        self._last_change: dict[str, int] = {}  # by process, where it last joined or left
        self._choices: dict[str, set[str]] = {}

    def look(self) -> Iterator[Finding]:
        if not any(record.delivery in ("fifo", "arrival") for record in self._trace.of(Event.JOIN)):
            return
        own: dict[str, set[Bundle]] = {}
        members: set[tuple[str, str]] = set()
        for record in self._trace.records:
            daemon, bundle = record.daemon, record.bundle
            match record.event:
                case Event.SSEND if bundle is not None:
                    if record.message is None:
                        own.setdefault(daemon, set()).add(bundle)
                        self._events.setdefault(bundle[:2], []).append(record)
                    else:
                        self._sent.setdefault((bundle[0], record.message[:3]), []).append(record)
                case Event.HOLD if bundle is not None:
                    if (daemon, bundle) not in self._held:
                        self._held[daemon, bundle] = record
                        if own.get(daemon):
                            self._bound.add((daemon, bundle))
                case Event.SDELIVER if bundle is not None:
                    self._delivered[daemon, bundle] = record
                    own.get(daemon, set()).discard(bundle)
                    self._times_us.setdefault(daemon, []).append(record.time_us)
                case Event.STATE | Event.SVIEW | Event.RECOVER | Event.CRASH:
                    if record.event is not Event.STATE:
                        own.pop(daemon, None)
                    self._changes.setdefault(daemon, []).append(record.position)
                case Event.VIEW | Event.LEFT:
                    membership = (record.process, record.groups[0])
                    if record.event is Event.LEFT or membership not in members:
                        self._last_change[record.process] = record.position
                        members.symmetric_difference_update((membership,))
                        self._choices.setdefault(record.process, set()).add(record.delivery)
                case Event.DELIVER:
                    self._times_us.setdefault(daemon, []).append(record.time_us)
                    carrier = None if record.message is None else self._carriers.get(record.message)
                    if carrier is not None and carrier.bundle is not None:
                        self._got[record.process, carrier.bundle] = record
        prompt = self._prompt()
        for record in self._trace.of(Event.DELIVER):
            if record.delivery in ("fifo", "arrival") and record.process in prompt:
                yield from self._judge(record)

    def _prompt(self) -> set[str]:
        """The processes that read at once, and chose one thing."""
        slow = set()
        for record in self._trace.of(Event.DELIVER):
            carrier = None if record.message is None else self._carriers.get(record.message)
            if carrier is None or carrier.bundle is None:
                continue
            delivered = self._delivered.get((record.daemon, carrier.bundle))
            if delivered is not None and record.time_us > delivered.time_us:
                slow.add(record.process)
        return {process for process, chosen in self._choices.items() if len(chosen - {""}) == 1} - slow

    def _judge(self, record: Record) -> Iterator[Finding]:
        daemon = record.daemon
        carrier = None if record.message is None else self._carriers.get(record.message)
        if carrier is None or carrier.bundle is None or record.message is None:
            return
        held = self._held.get((daemon, carrier.bundle))
        if held is None or daemon not in carrier.destinations or record.time_us == held.time_us:
            return
        before = [carrier]
        if record.delivery == "fifo":
            before = [one for one in self._up_to(carrier, record.message[:3]) if daemon in one.destinations]
        ready = [self._held.get((daemon, one.bundle)) for one in before if one.bundle is not None]
        if None in ready or self._is_excused(record, carrier, [one for one in ready if one is not None]):
            return
        ready_us = max(one.time_us for one in ready if one is not None)
        if record.delivery == "fifo":
            ready_us = max(ready_us, self._followed_us(record, carrier))
        if record.time_us > ready_us and not self._is_in_turn(daemon, ready_us, record.time_us):
            yield Finding(
                f"{daemon} had {name(carrier.bundle)} and all that it follows at {ready_us} us, and "
                f"{record.process}, which chose {record.delivery}, got it at {record.time_us}",
                (record.process,),
                (record.message,),
                (held.position, record.position),
            )

    def _up_to(self, carrier: Record, sender: Sender) -> list[Record]:
        """What a sender sent in a daemon view up to a bundle, in order."""
        assert carrier.bundle is not None
        sent = self._sent[carrier.bundle[0], sender]
        return sorted((one for one in sent if one.lts <= carrier.lts), key=lambda one: one.lts)

    def _followed_us(self, record: Record, carrier: Record) -> int:
        """When the last bundle that a message may wait for, in its turn, was in the way no longer: an event
        of its daemon, or one of the same sender that the member gets in another way, or that follows one
        which is not for the member's daemon."""
        assert record.message is not None and carrier.bundle is not None
        daemon, followed_us, is_hidden = record.daemon, 0, False
        for one in self._up_to(carrier, record.message[:3]):
            if daemon in one.destinations and one.bundle is not None:
                got = self._got.get((record.process, one.bundle))
                delivered = self._delivered.get((daemon, one.bundle))
                times_us = [told.time_us for told in (got, delivered) if told is not None]
                is_otherwise = got is not None and got.delivery != record.delivery
                if times_us and (is_otherwise or is_hidden):
                    followed_us = max(followed_us, min(times_us))
                is_hidden &= one.service == "reliable"  # which waits for nothing and so proves nothing
            else:
                is_hidden = True
        for event in self._events.get(carrier.bundle[:2], ()):
            if event.lts < carrier.lts and event.bundle is not None:
                delivered = self._delivered.get((daemon, event.bundle))
                followed_us = max(followed_us, NEVER_US if delivered is None else delivered.time_us)
        return followed_us

    def _is_excused(self, record: Record, carrier: Record, held: list[Record]) -> bool:
        daemon = record.daemon
        assert carrier.bundle is not None
        for one in held:
            assert one.bundle is not None
            delivered = self._delivered.get((daemon, one.bundle))
            if delivered is not None and delivered.position < self._held[daemon, carrier.bundle].position:
                continue  # whatever it waited for, it is no longer in the way
            if (daemon, one.bundle) in self._bound:
                return True
            if one.position < self._last_change.get(record.process, 0) or self._is_disturbed(one, record):
                return True
        return False

    def _is_disturbed(self, held: Record, record: Record) -> bool:
        """Whether a daemon was not calm at some time between two events."""
        told = self._changes.get(record.daemon, [])
        at = bisect_left(told, held.position)
        state = self._trace.records[told[at - 1]] if at else None
        was_calm = state is not None and state.event is Event.STATE and state.state in CALM
        return not was_calm or (at < len(told) and told[at] < record.position)

    def _is_in_turn(self, daemon: str, since_us: int, until_us: int) -> bool:
        """Whether a daemon delivered one bundle after another all the while."""
        times = self._times_us[daemon]
        before_us = since_us
        for at in range(bisect_right(times, since_us), bisect_right(times, until_us)):
            if times[at] - before_us > SLICES_APART_US:
                return False
            before_us = times[at]
        return True


def _look(trace: Trace) -> Iterator[Finding]:
    return iter(()) if trace.live or trace.order != "symmetric" else _Choices(trace).look()


PROPERTIES = (Property(promises.CHOICES, _look),)
