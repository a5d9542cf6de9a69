"""From one daemon view to the next: exchange state, recover what is missing, take leave of the old view.

Follows: thesis 6.1.9, 6.1.10 (figures 6.12 to 6.16) and, for groups, the state GTRANS of 6.4.5.
Deviations: the messages of the recovery are FIFO bundles in the numbering of the new view, so that links,
fragments and repetition are those of any bundle. Each daemon first says when it has sent all it owes
("resent"), then when it has got all it needs ("done"); the thesis derives both from ARU values, which would
not know of bundles that were sent to a daemon because of a late join. What to deliver, drop and signal is
decided in `membership.recovery`, which also lists where it differs from the figures.
"""

from collections import deque
from collections.abc import Iterator

import msgspec

from antiphon.config import Config
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.events import HostedGroup, is_last_of_groups, parse_event, parse_groups
from antiphon.core.groups.membership import Group
from antiphon.core.groups.merging import Merging
from antiphon.core.intake import read_late
from antiphon.core.membership.recovery import (
    MemberState,
    Recovery,
    control_bundle,
    parse_state,
    state_bundle,
)
from antiphon.core.membership.rounds import Round
from antiphon.core.observer import Observer
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import round_of, stamp_after
from antiphon.core.origin import Origin
from antiphon.core.term import Term
from antiphon.errors import BadFrame
from antiphon.types import ViewId
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.packet import Skip

RESENT = b"resent"
DONE = b"done"


class Commitment:
    """What a daemon has promised in attempts to leave its view, none of which has succeeded yet."""

    def __init__(self, me: int) -> None:
        self.daemons: frozenset[int] = frozenset((me,))
        """Their messages will be delivered, also after a hole."""
        self.line = 0
        """Everything up to this place will be delivered."""


class Changeover:
    """One attempt to form a view."""

    def __init__(
        self,
        config: Config,
        me: int,
        old: Term,
        new: Term,
        origin: Origin,
        delivery: Delivery,
        merging: Merging | None,
        commitment: Commitment,
        observer: Observer | None,
    ) -> None:
        self.new = new
        self.origin = origin
        self.is_finished = False
        """Whether everybody is known to have everything."""
        self.recovery: Recovery | None = None
        """Once the state of every member is known."""
        self.dropped_bundles = 0
        self.were_apart = False
        """Once all is concluded: whether the groups must be put together anew, because they were not when the
        view ended."""
        self._config = config
        self._me = me
        self._old = old
        self._delivery = delivery
        self._merging = merging
        self._commitment = commitment
        self._observer = observer
        self._joining: tuple[tuple[str, int], ...] = ()
        self._own_state: MemberState | None = None
        self._states: dict[int, MemberState] = {}
        self._resent: set[int] = set()
        self._done: set[int] = set()
        self._committed = False
        self._known_joins: dict[str, list[tuple[int, int]]] = {}  # by group: place and daemon
        self._signalled: set[str] = set()  # groups whose signal came before the general one
        self._ends: deque[tuple[int, str]] | None = None  # where the certain part of each group ends
        self._is_signalled = False

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The members without which the next step cannot be done."""
        missing = set(self.new.view.members)
        if self.recovery is None:
            missing -= self._states.keys()
        elif not self._committed:
            missing = set(self.recovery.together) - self._resent
        else:
            missing -= self._done
        return tuple(sorted(missing))

    # Exchange -------------------------------------------------------------------------------------------

    def begin(self, now_us: int) -> None:
        """SendStateTrans (figure 6.12)."""
        self._joining = self._joins_under_way()
        self._own_state = state = MemberState(
            view=self._old.view.id,
            committed=tuple(sorted(self._commitment.daemons)),
            committed_line=self._commitment.line,
            joining=self._joining,
            order=msgspec.Raw(self._old.order.tell()),
        )
        self.origin.send_control(state_bundle(state), now_us)

    def _joins_under_way(self) -> tuple[tuple[str, int], ...]:
        """Group and lts of the joins of our own sessions that have not taken effect."""
        return tuple(
            (event.group, entry.header.lts)
            for entry in self._old.order.held()
            if not entry.delivered and entry.daemon == self._me and entry.header.flags & Flag.EVENT
            if (event := parse_event(entry.bundle, entry.header)).kind == "join"
        )

    def take(self, entry: Entry, record: Round | None, now_us: int) -> None:
        """A bundle of the recovery is delivered."""
        header = entry.header
        if not header.flags & Flag.CONTROL:
            raise BadFrame("bundle: ordered before all members of its view were done")
        body = bundles.payloads(bytes(entry.bundle), header)[0]
        if header.flags & Flag.STATE:
            # Our own is taken as it is: if others refuse it, we can still go on without them.
            own = self._own_state if entry.daemon == self._me else None
            self._states[entry.daemon] = parse_state(body, self._old.order) if own is None else own
            if len(self._states) == len(self.new.view.members):
                self._compare(record, now_us)
        elif header.flags & Flag.RECOVERED:
            self._recover(entry.daemon, body, record, now_us)
        elif body == RESENT:
            self._resent.add(entry.daemon)
        elif body == DONE:
            self._done.add(entry.daemon)
        self._conclude_step(now_us)

    def _compare(self, record: Round | None, now_us: int) -> None:
        """Everybody's state is known: send what is ours to send."""
        self.recovery = Recovery(self._me, self._old.view.id, self._old.order, self._states)
        for entry, who in self.recovery.to_send(self._old.order.held()):
            sites = 0
            for daemon in who:
                sites |= 1 << self._config.site_of(daemon)
            wrapped = control_bundle(bytes(entry.bundle), Flag.RECOVERED)
            self.origin.send_control(wrapped, now_us, sites)
            if record is not None:
                record.resent_bundles += 1
                record.resent_bytes += len(entry.bundle)
        self.origin.send_control(control_bundle(RESENT, Flag.PHASE), now_us)

    def _recover(self, sender: int, body: bytes, record: Round | None, now_us: int) -> None:
        state = self._states.get(sender)
        if state is None or state.view != self._old.view.id or sender == self._me:
            return  # it belongs to a view that was never ours
        header = bundles.parse_from_daemon(body)
        if header.daemon not in self._old.view.members:
            raise BadFrame("recovered bundle: from outside of its view")
        if header.flags & Flag.EVENT:
            parse_event(body, header)
        order = self._old.order
        source = self._old.source_of[header.daemon]
        self._old.reach.check_entry(Entry(source, header, body), now_us)
        if not self._is_newly_joined(header):
            if order.has(source, header.number):
                return  # it is for another daemon of this site
            if not header.destinations >> self._config.site_of(self._me) & 1:
                order.skip(Skip(source, header.number, header.number, header.lts, header.aru))
                return
        if order.recover(Entry(source, header, body)):
            if header.flags & Flag.LATE and header.tag == self._me:
                late = read_late(source, body, header)
                if self._old.source_of.get(late.daemon) != source:
                    raise BadFrame("recovered bundle: from outside of its view")
                self._old.reach.check_entry(late, now_us)
                order.recover(late)
            if record is not None:
                record.recovered_bundles += 1
                record.recovered_bytes += len(body)

    def _is_newly_joined(self, header: Header) -> bool:
        """Whether a bundle that was pruned from this site is now for this daemon."""
        names = bundles.parse_names(header.names)[1:]
        may_follow = self._old.order.may_follow
        return any(group in names and may_follow(header.lts, lts) for group, lts in self._joining)

    def _conclude_step(self, now_us: int) -> None:
        recovery = self.recovery
        if recovery is None:
            return
        if not self._committed and self._resent >= recovery.together:
            self._committed = True
            self._commitment.daemons = recovery.committed
            self._commitment.line = recovery.committed_line
            self.origin.send_control(control_bundle(DONE, Flag.PHASE), now_us)
        if self._committed and len(self._done) == len(self.new.view.members):
            self.is_finished = True

    # The end of the old view ----------------------------------------------------------------------------

    def conclude(self) -> Iterator[int]:
        """DeliverMembership (figure 6.16), up to the new view: deliver the rest, signal, part with those who
        are lost. In parts: yields how many steps of work each was."""
        recovery = self.recovery
        assert recovery is not None and self.is_finished
        rest = self._old.order.undelivered()
        for entry in rest:
            entry.delivered = True
        kept = [entry for entry in rest if recovery.is_delivered(entry)]
        self.dropped_bundles += len(rest) - len(kept)
        will_merge = self._will_merge(kept)
        self._find_known_joins(kept, recovery)
        for entry in kept:
            is_merge = will_merge and entry.header.flags & Flag.GROUPS
            if entry.place > recovery.certain_line and not is_merge:
                yield from self._signal_all(recovery)
            elif self._merging is None:
                yield from self._signal_up_to(entry.place, kept, recovery)
            yield from self._deliver(entry, recovery)
        yield from self._signal_all(recovery)
        self._delivery.membership.forget_joins()
        last = round_of(stamp_after(recovery.ending.last_line, self._me))
        ending, coming = self._old.view.id, self.new.view.id
        yield from self._delivery.lose(recovery.together, lambda first: ViewId(ending, coming, last, first))
        self._delivery.changed()
        self.were_apart = self._merging is not None

    def _will_merge(self, rest: list[Entry]) -> bool:
        """Whether the groups are put together after all. Then they are before any signal, because daemons
        that are lost to us may have done so without one (figure 6.26 signals first, against 2.8)."""
        if self._merging is None:
            return False
        coming = {
            entry.daemon
            for entry in rest
            if entry.header.flags & Flag.GROUPS and is_last_of_groups(entry.header)
        }
        return coming.issuperset(self._merging.missing)

    def _signal_all(self, recovery: Recovery) -> Iterator[int]:
        """Nothing that follows is certain to reach those who are lost (stranssig)."""
        if self._is_signalled:
            return
        self._is_signalled = True
        membership = self._delivery.membership
        for name in sorted(membership.groups):
            if membership.groups[name].is_torn(recovery.together):
                self._delivery.signal(membership.groups[name])
            yield 1
        self._tell_observer_of_signal(recovery, ())

    def _tell_observer_of_signal(self, recovery: Recovery, groups: tuple[str, ...]) -> None:
        if self._observer is not None:
            together, committed = tuple(sorted(recovery.together)), tuple(sorted(recovery.committed))
            self._observer.signalled(self._old.view.id, together, committed, groups)

    def _deliver(self, entry: Entry, recovery: Recovery) -> Iterator[int]:
        header = entry.header
        if header.flags & (Flag.LATE | Flag.CONTROL):
            return
        if header.flags & Flag.GROUPS:
            self._tell_observer(entry)
            yield from self._gather(entry)
        elif self._merging is not None:
            self.dropped_bundles += 1  # sent after a merge that has not taken place here
        elif header.flags & Flag.EVENT:
            yield self._deliver_event(entry, recovery)
        else:
            names = bundles.parse_names(header.names)[1:]
            self._signal_before(names, entry.place, recovery)
            self._tell_observer(entry)
            self._delivery.message(entry.daemon, header, entry.bundle)
            yield 1

    def _tell_observer(self, entry: Entry) -> None:
        if self._observer is not None:
            self._observer.delivered(self._old.view.id, entry.header)

    def _gather(self, entry: Entry) -> Iterator[int]:
        """A GROUPS message (figure 6.26): its merge may still take place."""
        merging = self._merging
        if merging is None:
            return
        groups: tuple[HostedGroup, ...] = ()
        if entry.daemon not in merging.known:
            try:
                groups = parse_groups(entry.bundle, entry.header)
            except BadFrame:  # as where it was delivered in its view
                groups = ()
            yield len(groups)
        if merging.add(entry.daemon, groups, is_last_of_groups(entry.header)):
            view_id = ViewId(self._old.view.id, 0, entry.place, entry.daemon)
            yield from self._delivery.merge(merging, view_id)
            self._merging = None

    def _find_known_joins(self, rest: list[Entry], recovery: Recovery) -> None:
        """Find the joins that the daemon of the joining session has delivered already."""
        for entry in rest:
            header = entry.header
            if header.flags & Flag.EVENT and recovery.ending.has_delivered(entry.daemon, entry.place):
                event = parse_event(entry.bundle, header)
                if event.kind == "join":
                    self._known_joins.setdefault(event.group, []).append((entry.place, entry.daemon))

    def _line_of(self, group: Group, place: int, recovery: Recovery, joiner: int | None = None) -> int:
        """Where the certain part of a group's stream ends, as it looks at a bundle with this place. A session
        that joins later, and whose daemon has told it so already, counts: it got no signal before."""
        hosts = set(group.hosts)
        hosts.update(daemon for joined, daemon in self._known_joins.get(group.name, ()) if joined >= place)
        if joiner is not None:
            hosts.add(joiner)
        return recovery.ending.line_of(hosts)

    def _signal_before(self, names: tuple[str, ...], place: int, recovery: Recovery) -> None:
        """Signal the torn groups among these for which the certain part of the stream is over."""
        groups = self._delivery.membership.groups
        for name in names:
            group = groups.get(name)
            if group is None:  # a private name, or nobody is left
                if place > recovery.ending.line_of(()):
                    self._tell_signal(name, recovery)
            elif place > self._line_of(group, place, recovery):
                self._signal(group, recovery)

    def _signal_up_to(self, place: int, rest: list[Entry], recovery: Recovery) -> Iterator[int]:
        """Signal the groups whose certain part is over before a bundle, also one for other groups: what is
        before it may be a hole, and nobody knows for which group that was. Groups that somebody joins wait
        for a bundle of their own, or for the general signal: that join may move where their part ends."""
        membership = self._delivery.membership
        if self._ends is None:
            events = (parse_event(one.bundle, one.header) for one in rest if one.header.flags & Flag.EVENT)
            joined = {event.group for event in events if event.kind == "join"}
            ends = []
            for name, one in membership.groups.items():
                if name not in joined:
                    ends.append((self._line_of(one, 0, recovery), name))
                    yield 1
            self._ends = deque(sorted(ends))
        while self._ends and self._ends[0][0] < place:
            _, name = self._ends.popleft()
            group = membership.groups.get(name)
            if group is not None:
                self._signal(group, recovery)
                yield 1

    def _signal(self, group: Group, recovery: Recovery) -> None:
        """The certain part of a group's stream is over; its members care only if some of them are lost."""
        if group.is_torn(recovery.together):
            self._delivery.signal(group)
        self._tell_signal(group.name, recovery)

    def _tell_signal(self, name: str, recovery: Recovery) -> None:
        if not self._is_signalled and name not in self._signalled:
            self._signalled.add(name)
            self._tell_observer_of_signal(recovery, (name,))

    def _deliver_event(self, entry: Entry, recovery: Recovery) -> int:
        header = entry.header
        place = entry.place
        event = parse_event(entry.bundle, header)
        membership = self._delivery.membership
        after: list[str] = []
        departed = () if event.group else event.departed((entry.daemon, header.session))
        names = [event.group] if event.group else membership.groups_of(*departed)
        for name in names:
            group = membership.groups.get(name)
            if group is not None and place > self._line_of(group, place, recovery, entry.daemon):
                self._signal(group, recovery)
        self._tell_observer(entry)

        def mark(name: str) -> tuple[ViewId, frozenset[int] | None]:
            group = membership.groups[name]
            if place <= self._line_of(group, place, recovery, entry.daemon):
                return ViewId(self._old.view.id, 0, place, entry.daemon), None
            after.append(name)
            return ViewId(self._old.view.id, self.new.view.id, place, entry.daemon), recovery.together

        steps = self._delivery.event(entry.daemon, header, event, mark)
        for name in after:
            group = membership.groups.get(name)
            if group is not None:
                self._signal(group, recovery)
        return steps
