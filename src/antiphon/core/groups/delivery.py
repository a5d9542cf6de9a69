"""The local receivers of a bundle: the members of its groups at this daemon, each once.

Costs are per bundle: the receivers of a set of groups are worked out once and kept until a local
membership changes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from msgspec import structs

from antiphon.core.groups.choices import Choices
from antiphon.core.groups.group import Change, Group, Member
from antiphon.core.groups.membership import Mark, Membership
from antiphon.core.groups.merging import Merging
from antiphon.core.groups.sessions import Sessions
from antiphon.core.observer import Observer
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.histories import Histories
from antiphon.core.ordering.order import Order
from antiphon.service import SAFE, UNRELIABLE
from antiphon.types import Left, LockCause, TransitionalSignal, ViewId
from antiphon.wire import frames
from antiphon.wire.bundle import Flag, Header, parse_names
from antiphon.wire.events import GroupEvent

_CACHE_MAX = 4_096

Frames = list[tuple[tuple[int, ...], bytes | bytearray | memoryview, Header | None]]
"""Session numbers, a frame for them, and the header of a bundle, which need not be parsed again."""
Endings = list[tuple[int, frames.Goodbye]]


class Feeding(Protocol):
    """What is told of the groups to which this daemon listens for edges (`core.feeds`)."""

    @property
    def is_active(self) -> bool:
        """Whether it listens to any."""

    def message(self, entry: Entry) -> None:
        """A bundle of messages is delivered."""

    def unreliable(self, header: Header, bundle: bytes | bytearray | memoryview) -> None:
        """An unreliable one has come."""

    def view(self, change: Change) -> None:
        """A group has a new view."""

    def merged(self, group: Group, place: int) -> None:
        """A group was put together, and all of its members come from one view."""

    def signal(self, group: Group) -> None:
        """A group's transitional signal is given."""

    def listens(self, event: GroupEvent, place: int) -> None:
        """This daemon listens to groups from here on, or no longer."""


class Delivery:
    """Turns delivered bundles into frames for the sessions of this daemon."""

    def __init__(
        self,
        me: int,
        site_of: Callable[[int], int],
        sessions: Sessions,
        output: Frames,
        endings: Endings,
        observer: Observer | None = None,
    ) -> None:
        self.membership = Membership(site_of)
        self.feeding: Feeding | None = None
        """The feed for edges, if there may be some."""
        self.histories: Histories | None = None
        """The pasts of the sessions in the installed view; None until all of the view before is delivered."""
        self._me = me
        self._sessions = sessions
        self._output = output
        self._endings = endings
        self._observer = observer
        self._receivers: dict[bytes, tuple[int, ...]] = {}
        self.choices = Choices(me, sessions, self.membership, self._find_receivers, self._hand)
        """What sessions here get before it is delivered."""

    def begin_view(self, histories: Histories | None, order: Order | None) -> None:
        """What is delivered from now on is of the view with these; None: of one that ends."""
        self.histories = histories
        self.choices.begin_view(order)

    def changed(self) -> None:
        """A session of this daemon came, went, joined or left."""
        self._receivers.clear()
        self.choices.changed()

    def has_staying_member(self, group: str) -> bool:
        """Whether a session here is a member of `group` and has not asked to leave it."""
        known = self.membership.groups.get(group)
        return known is not None and any(
            (session := self._sessions.get(number)) is not None and session.is_staying_in(group)
            for number in known.sessions_at(self._me)
        )

    def message(
        self,
        source: int,
        header: Header,
        bundle: bytes | bytearray | memoryview,
        handed: tuple[int, ...] = (),
    ) -> None:
        """A bundle of messages is delivered to all but the sessions to which it was `handed` before."""
        receivers = self._receivers.get(header.names)
        if receivers is None:
            if len(self._receivers) >= _CACHE_MAX:
                self._receivers.clear()
            receivers = self._receivers[header.names] = self._find_receivers(parse_names(header.names)[1:])
        if header.flags & Flag.SELF_DISCARD and source == self._me:
            receivers = tuple(number for number in receivers if number != header.session)
        if header.service is UNRELIABLE:
            if self.feeding is not None and self.feeding.is_active:
                self.feeding.unreliable(header, bundle)
            if not self._sessions.dropping.isdisjoint(receivers):
                receivers = self._drop_for_the_slow(receivers, header)
        if handed:
            receivers = tuple(number for number in receivers if number not in handed)
        if receivers:
            self._hand(receivers, header, bundle)

    def _hand(
        self, receivers: tuple[int, ...], header: Header, bundle: bytes | bytearray | memoryview
    ) -> None:
        self._output.append((receivers, bundle, header))
        if self.histories is not None and self.histories.is_active:
            self.histories.heard(receivers, header)

    def _drop_for_the_slow(self, receivers: tuple[int, ...], header: Header) -> tuple[int, ...]:
        """The receivers that get an unreliable bundle; what the others miss is counted."""
        dropping = self._sessions.dropping
        messages = header.message_count - (1 if header.flags & Flag.BATCH else 0)
        for number in receivers:
            if number in dropping:
                self._sessions.drop(number, messages, header.length)
        return tuple(number for number in receivers if number not in dropping)

    def _find_receivers(self, names: tuple[str, ...]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for name in names:
            if name[0] == "#":
                session = self._sessions.named(name)
                if session is not None:
                    found[session.number] = None
                continue
            group = self.membership.groups.get(name)
            if group is not None:
                found.update(group.sessions_at(self._me))
        return tuple(number for number in found if self._is_listening(number))

    def _is_listening(self, number: int) -> bool:
        session = self._sessions.get(number)
        return session is not None and not session.is_leaving

    def event(
        self,
        source: int,
        header: Header,
        event: GroupEvent,
        mark: Mark,
        place: int,
    ) -> int:
        """An event of a group takes effect; how many steps of work it was."""
        member = (source, header.session)
        if event.kind in ("lock", "unlock"):
            self._lock(member, event, header, place)
            return 1
        if event.kind in ("listen", "unlisten"):
            self.membership.listen(source, event)
            if source == self._me and self.feeding is not None:
                self.feeding.listens(event, place)
            return 1 + len(event.listened)
        if event.kind == "quorum" and header.service is not SAFE:
            return 1  # no daemon of ours sends that, and it would decide nothing
        name = parse_names(header.names)[0]
        changes = self.membership.apply(member, name, event, mark)
        if source == self._me:
            self.changed()
            if event.kind == "disconnect":
                for _, number in event.departed(member):
                    self._end(number)
            elif event.kind == "join" and (session := self._sessions.get(header.session)) is not None:
                session.joins_done += 1
        for change in changes:
            self._tell(change, member)
            if self.histories is not None and self.histories.is_active:
                self.histories.heard(change.group.sessions_at(self._me), header)
        if event.kind in ("join", "leave") and source == self._me:
            self.choices.choose(header.session, event)
        return 1 + len(event.sessions) + sum(change.steps for change in changes)

    def _lock(self, member: Member, event: GroupEvent, header: Header, place: int) -> None:
        """A lock is asked for, or given back: told to all members that want views, and to who asked."""
        change = self.membership.lock(member, event, place)
        if change is None:
            return
        daemon, number = member
        numbers = self._viewers(self.membership.groups[event.group])
        if daemon == self._me:
            session = self._sessions.get(number)
            if session is not None and change.cause is not LockCause.ASKED:
                session.locks.discard((event.group, event.lock))
            if number not in numbers:
                numbers.append(number)
        self._write(numbers, frames.LockFrame(change))
        if self.histories is not None and self.histories.is_active:
            self.histories.heard(numbers, header)

    def _end(self, number: int) -> None:
        """A session is over, and its name is free. Its client gets the Goodbye now and not when the end is
        ordered: a client that has it may come back with the same name at once."""
        session = self._sessions.get(number)
        if session is None:
            return
        self._sessions.remove(session)
        self.choices.forget(number)
        if self.histories is not None:
            self.histories.forget(number)
        if session.is_connected:
            self._endings.append((number, frames.Goodbye("bye", "disconnected as asked")))

    def tell_accepted(self, accepted: dict[int, int]) -> None:
        """Acknowledge to the sessions that want it which of their messages are everywhere: by session, the
        sequence of the newest one. Empties `accepted`."""
        for number, sequence in accepted.items():
            session = self._sessions.get(number)
            if session is not None and session.accepts and not session.is_leaving:
                accepted_frame = frames.Accepted(sequence, session.sponsored_number)
                self._output.append(((session.speaker,), frames.encode_control(accepted_frame), None))
        accepted.clear()

    def signal(self, group: Group) -> None:
        """Some members of a group are lost: give its transitional signal, once in each of its views."""
        if group.is_signalled:
            return
        group.is_signalled = True
        if self.feeding is not None and self.feeding.is_active:
            self.feeding.signal(group)
        numbers = self._viewers(group)
        self._write(numbers, frames.SignalFrame(TransitionalSignal(group.name, group.view)))

    def lose(self, together: frozenset[int], name_view: Callable[[int], ViewId]) -> Iterator[int]:
        """Only the members at these daemons remain; `name_view` makes an identifier with a daemon in it.

        In parts: yields how many steps of work each was.
        """
        for change in self.membership.lose(together, name_view):
            if change is not None:
                self._tell(change)
            yield 1 if change is None else change.steps

    def merge(self, merging: Merging, view_id: ViewId) -> Iterator[int]:
        """All members of all groups are known again; in parts as `lose`."""
        self.changed()
        for group, change in self.membership.merge(merging.rows, view_id, bool(merging.known)):
            if change is not None:
                self._tell(change)
            elif self.feeding is not None:
                self.feeding.merged(group, view_id.lts)
            yield 1 + len(group.members)
        self.changed()

    def _tell(self, change: Change, cause: Member | None = None) -> None:
        """Deliver a view to every local member that wants views, and in any case to the session that
        joined or left, because it waits for that; a newcomer has no previous view."""
        self._tell_local(change, cause)
        if self.feeding is not None and self.feeding.is_active:
            self.feeding.view(change)
        if self._observer is not None and change.made is not None:
            self._observer.regrouped(change.made, change.sessions)

    def _tell_local(self, change: Change, cause: Member | None) -> None:
        others = self._viewers(change.group)
        if cause is not None and cause[0] == self._me and cause[1] in others:
            others.remove(cause[1])
        if others:
            self._write(others, frames.ViewFrame(change.view))
        if cause is None or cause[0] != self._me:
            return
        if cause in change.group.members:
            view = change.view
            first = structs.replace(view, transitional=(), parts=())
            self._write((cause[1],), frames.ViewFrame(first))
        elif change.gone == cause:
            self._write((cause[1],), frames.LeftFrame(Left(change.group.name, change.group.view)))

    def _viewers(self, group: Group) -> list[int]:
        """The local members that want views."""
        viewers = self._sessions.viewers
        return [number for number in group.sessions_at(self._me) if number in viewers] if viewers else []

    def _write(self, numbers: Iterable[int], value: frames.FromDaemon) -> None:
        receivers = tuple(number for number in numbers if self._is_listening(number))
        if receivers:
            self._output.append((receivers, frames.encode_control(value), None))
