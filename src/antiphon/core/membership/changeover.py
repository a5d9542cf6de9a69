"""From one daemon view to the next: exchange state, and recover what is missing of the old view.

Follows: thesis 6.1.9 and 6.1.10 (figures 6.12 to 6.15).
Deviations: the messages of the recovery are FIFO bundles in the numbering of the new view, so that links,
fragments and retransmission are those of any bundle. Each daemon first announces that it has retransmitted
all it must ("resent"), then that it has all it needs ("done"); the thesis derives both from ARU values, which
do not cover bundles that were sent to a daemon because of a late join. A daemon that receives for long tells
the others that it does: they may have everything and would see no progress. What to deliver, drop and signal
is decided in `recovery`, which also lists where it differs from the figures; `groups.transition` does it.
"""

from collections.abc import Callable

import msgspec

from antiphon.config import Config
from antiphon.core.membership.engine import Engine
from antiphon.core.membership.recovery import (
    MemberState,
    Recovery,
    control_bundle,
    parse_state,
    state_bundle,
)
from antiphon.core.membership.rounds import Round
from antiphon.core.ordering.entry import Entry, read_late
from antiphon.errors import BadFrame
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Draft, Flag, Header
from antiphon.wire.events import parse_event
from antiphon.wire.packet import Skip

SendControl = Callable[[Draft, int, int | None], None]
"""Sends a bundle of this daemon in the new view, given the time and the sites that need it; None: all."""
RESENT = b"resent"
DONE = b"done"
RECEIVING = b"receiving"
RECEIVING_MAX_BYTES = 512
"""Bytes of the packet that carries such a message, at most."""


class Commitment:
    """What a daemon has promised in attempts to leave its view, none of which has succeeded yet."""

    def __init__(self, me: int) -> None:
        self.daemons: frozenset[int] = frozenset((me,))
        """The daemons whose messages will be delivered, also after a hole."""
        self.line = 0
        """Everything up to this place will be delivered."""


class Changeover:
    """One attempt to form a view."""

    def __init__(
        self,
        config: Config,
        me: int,
        old: Engine,
        new: Engine,
        send: SendControl,
        commitment: Commitment,
    ) -> None:
        self.new = new
        self.is_finished = False
        """Whether every member is known to have everything."""
        self.recovery: Recovery | None = None
        """What must be recovered; None until the state of every member is known."""
        self._config = config
        self._me = me
        self._old = old
        self._send = send
        self._commitment = commitment
        self._joining: tuple[tuple[str, int], ...] = ()
        self._own_state: MemberState | None = None
        self._states: dict[int, MemberState] = {}
        self._resent: set[int] = set()
        self._done: set[int] = set()
        self._committed = False
        self._told_bytes = 0  # what had come in when the others were told last

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The members for which the next step waits."""
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
        self._send(state_bundle(state), now_us, None)

    def tell_progress(self, now_us: int) -> None:
        """Tell the others that something comes in here, if more has come than such messages of all members.
        Otherwise daemons that wait for nothing but one another would keep each other waiting for ever."""
        came_bytes = self.new.received_bytes - self._told_bytes
        if self._committed or came_bytes <= RECEIVING_MAX_BYTES * len(self.new.view.members):
            return
        self._told_bytes = self.new.received_bytes
        self._send(control_bundle(RECEIVING, Flag.PHASE), now_us, None)

    def _joins_under_way(self) -> tuple[tuple[str, int], ...]:
        """Group and lts of the joins of our own sessions, and of what we listen to, that have not taken
        effect."""
        return tuple(
            (group, entry.header.lts)
            for entry in self._old.order.retained()
            if not entry.delivered and entry.daemon == self._me and entry.header.flags & Flag.EVENT
            if (event := parse_event(entry.bundle, entry.header)).brings_messages
            for group in event.groups
        )

    def take(self, entry: Entry, record: Round | None, now_us: int) -> None:
        """A bundle of the recovery is delivered."""
        header = entry.header
        if not header.flags & Flag.CONTROL:
            raise BadFrame("bundle: ordered before all members of its view were done")
        body = bundles.payloads(bytes(entry.bundle), header)[0]
        if header.flags & Flag.STATE:
            # Our own state is taken as it is: if others refuse it, we can still go on without them.
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
        """The state of every member is known: retransmit what this daemon must."""
        self.recovery = Recovery(self._me, self._old.view.id, self._old.order, self._states)
        for entry, who in self.recovery.to_send(self._old.order.retained()):
            sites = 0
            for daemon in who:
                sites |= 1 << self._config.site_of(daemon)
            wrapped = control_bundle(bytes(entry.bundle), Flag.RECOVERED)
            self._send(wrapped, now_us, sites)
            if record is not None:
                record.resent_bundles += 1
                record.resent_bytes += len(entry.bundle)
        self._send(control_bundle(RESENT, Flag.PHASE), now_us, None)

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
        names = bundles.listened_names(header.names)
        may_follow = self._old.order.may_follow
        return any(group in names and may_follow(header, lts) for group, lts in self._joining)

    def _conclude_step(self, now_us: int) -> None:
        recovery = self.recovery
        if recovery is None:
            return
        if not self._committed and self._resent >= recovery.together:
            self._committed = True
            self._commitment.daemons = recovery.committed
            self._commitment.line = recovery.committed_line
            self._send(control_bundle(DONE, Flag.PHASE), now_us, None)
        if self._committed and len(self._done) == len(self.new.view.members):
            self.is_finished = True
