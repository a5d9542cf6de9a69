"""To whom a bundle goes here: local members of its groups, each once.

Costs are per bundle: the receivers of a set of groups are worked out once and kept until a local
membership changes.
"""

from collections.abc import Callable, Iterable

from antiphon.core.groups.events import GroupEvent, HostedGroup
from antiphon.core.groups.membership import Change, Group, Mark, Member, Membership
from antiphon.core.groups.sessions import Sessions
from antiphon.service import Service
from antiphon.types import Left, TransitionalSignal, View, ViewId
from antiphon.wire import frames
from antiphon.wire.bundle import Flag, Header, parse_names

_CACHE_MAX = 4_096

Frames = list[tuple[tuple[int, ...], bytes | bytearray | memoryview]]


class Delivery:
    """Turns delivered bundles into frames for the sessions of this daemon."""

    def __init__(self, me: int, site_of: Callable[[int], int], sessions: Sessions, output: Frames) -> None:
        self.membership = Membership(site_of)
        self._me = me
        self._sessions = sessions
        self._output = output
        self._receivers: dict[bytes, tuple[int, ...]] = {}

    def changed(self) -> None:
        """A session of this daemon came, went, joined or left."""
        self._receivers.clear()

    def has_settled_member(self, group: str) -> bool:
        """Whether a session here is a member of `group` and has not asked to leave it."""
        known = self.membership.groups.get(group)
        return known is not None and any(
            daemon == self._me
            and (session := self._sessions.get(number)) is not None
            and session.is_settled_in(group)
            for daemon, number in known.members
        )

    def message(self, source: int, header: Header, bundle: bytes | bytearray | memoryview) -> None:
        """A bundle of messages is delivered."""
        receivers = self._receivers.get(header.names)
        if receivers is None:
            if len(self._receivers) >= _CACHE_MAX:
                self._receivers.clear()
            receivers = self._receivers[header.names] = self._find_receivers(parse_names(header.names)[1:])
        if header.flags & Flag.SELF_DISCARD and source == self._me:
            receivers = tuple(number for number in receivers if number != header.session)
        if header.service is Service.UNRELIABLE and not self._sessions.dropping.isdisjoint(receivers):
            receivers = self._drop_for_the_slow(receivers, header)
        if receivers:
            self._output.append((receivers, bundle))

    def _drop_for_the_slow(self, receivers: tuple[int, ...], header: Header) -> tuple[int, ...]:
        """Those of the receivers who get an unreliable bundle; what the others miss is counted."""
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
                found.update((number, None) for daemon, number in group.members if daemon == self._me)
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
    ) -> None:
        """A join, leave or disconnect takes effect."""
        member = (source, header.session)
        name = parse_names(header.names)[0]
        changes = self.membership.apply(member, name, event, mark)
        if source == self._me:
            self.changed()
            session = self._sessions.get(header.session)
            if session is not None and event.kind == "join":
                session.joins_done += 1
            elif session is not None and event.kind == "disconnect":
                self._sessions.remove(session)
        for change in changes:
            self._tell(change, member)

    def signal(self, group: Group) -> None:
        """Some members of a group are lost: give its transitional signal, once in each of its views."""
        if group.is_signalled:
            return
        group.is_signalled = True
        numbers = [
            number for daemon, number in group.members if daemon == self._me and self._wants_views(number)
        ]
        self._write(numbers, frames.SignalFrame(TransitionalSignal(group.name, group.view)))

    def lose(self, together: frozenset[int], name_view: Callable[[int], ViewId]) -> None:
        """Only the members at these daemons remain; `name_view` makes an identifier with a daemon in it."""
        for change in self.membership.lose(together, name_view):
            self._tell(change)

    def merge(self, gathered: dict[int, tuple[HostedGroup, ...]], view_id: ViewId) -> None:
        """All members of all groups are known again."""
        self.changed()
        for change in self.membership.merge(gathered, view_id, self._me):
            self._tell(change)

    def _tell(self, change: Change, cause: Member | None = None) -> None:
        """Views go to every local member that wants them, and to whoever joined or left in any case, because
        it waits for that; a newcomer has no previous view."""
        view = change.view
        others = [
            number
            for daemon, number in change.members
            if daemon == self._me and (daemon, number) != cause and self._wants_views(number)
        ]
        self._write(others, frames.ViewFrame(view))
        if cause is None or cause[0] != self._me:
            return
        if cause in change.members:
            first = View(view.group, view.id, view.members, (), view.cause, view.changed)
            self._write((cause[1],), frames.ViewFrame(first))
        elif change.gone == cause:
            self._write((cause[1],), frames.LeftFrame(Left(view.group, view.id)))

    def _write(self, numbers: Iterable[int], value: frames.FromDaemon) -> None:
        receivers = tuple(number for number in numbers if self._is_listening(number))
        if receivers:
            self._output.append((receivers, frames.encode_control(value)))

    def _wants_views(self, number: int) -> bool:
        session = self._sessions.get(number)
        return session is not None and session.views
