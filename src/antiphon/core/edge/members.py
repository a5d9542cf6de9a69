"""The groups that an edge listens to, and its clients that are members of them.

A group *flows* from its base on: its members are told of views, signals and messages. Before, members wait
for their first view. When the attachment is lost a group flows on where it stopped, or a gap and another base
come: then its members are told of the gap, and get the view of that base.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import structs

from antiphon.core.groups.delivery import Frames
from antiphon.core.groups.sessions import Session, Sessions
from antiphon.service import UNRELIABLE
from antiphon.types import Cause, Gap, Left, TransitionalSignal, View, ViewId
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Flag, Header, listened_names, parse_names

if TYPE_CHECKING:
    from antiphon.core.edge.node import EdgeNode

_CACHE_MAX = 4_096
GAPS_KEPT = 64
"""How many gaps are remembered, for who asks."""
NO_VIEW = ViewId(0, 0, 0, 0)


class EdgeGroup:
    """A group that somebody at this edge, or behind it, wants."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[int, str] = {}
        """Sessions here that have had a view, and their private names."""
        self.waiting: dict[int, str] = {}
        """Sessions here that wait for their first one."""
        self.is_mailbox = False
        """Whether it is that of the private names here, which has no members, and there are sessions."""
        self.is_wanted_behind = False
        """Whether edges behind this one want it."""
        self.flows = False
        self.catches_up = False
        """Whether it flows only for those who come to the edge's own place."""
        self.view: View | None = None
        """The last one of the feed."""
        self.is_signalled = False
        """Whether the transitional signal of that view was given."""
        self.is_broken = False
        """Whether members were told of a gap, and wait for the view that follows."""

    @property
    def is_wanted(self) -> bool:
        return bool(self.members or self.waiting or self.is_mailbox or self.is_wanted_behind)


class Members:
    """Turns the feed into frames for the sessions of this edge."""

    def __init__(self, node: "EdgeNode", sessions: Sessions, output: Frames) -> None:
        self.groups: dict[str, EdgeGroup] = {}
        self.gaps = 0
        """How often a group was not whole."""
        self.newest_gaps: deque[Gap] = deque(maxlen=GAPS_KEPT)
        self.changed: dict[str, None] = {}
        """The groups whose number of members here has changed since it was told."""
        self._node = node
        self._sessions = sessions
        self._output = output
        self._mailbox = f"#{node.name}"
        self._catching: list[EdgeGroup] = []
        self._receivers: dict[bytes, tuple[int, ...]] = {}
        self._wanted: dict[bytes, bool] = {}

    # What is wanted ---------------------------------------------------------------------------------------

    @property
    def wanted(self) -> Iterator[str]:
        """The names of all groups that the attachment is to send."""
        return iter(list(self.groups))

    def held(self, group: str) -> edges.Held | None:
        """What members were told of a group last, if it can go on from there."""
        known = self.groups[group]
        if not known.flows or known.view is None:
            return None
        view = known.view.id
        return edges.Held((view.epoch, view.branch, view.lts, view.daemon), known.is_signalled)

    def is_flowing(self, name: str) -> bool:
        """Whether everything comes that is sent to a group."""
        group = self.groups.get(name)
        return group is not None and group.flows

    def is_wanted(self, area: bytes) -> bool:
        """Whether messages with these names are for a group that flows: the attachment would send them to
        this edge alone, too."""
        found = self._wanted.get(area)
        if found is None:
            if len(self._wanted) >= _CACHE_MAX:
                self._wanted.clear()
            found = self._wanted[area] = any(map(self.is_flowing, listened_names(area)))
        return found

    def _forget_receivers(self) -> None:
        self._receivers.clear()
        self._wanted.clear()

    def want(self, name: str) -> EdgeGroup:
        """The group of this name; the attachment is asked for one that is new."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = EdgeGroup(name)
            self._node.links.listen(name)
        return group

    def release(self, group: EdgeGroup) -> None:
        """Somebody does not want a group any more. One whose base is under way is kept until it is here:
        otherwise that base could be taken for the one of a later wish."""
        if group.is_wanted or group.name not in self.groups:
            return
        if group.flows or self._node.links.main is None:
            del self.groups[group.name]
            self._forget_receivers()
            self._node.links.unlisten(group.name)

    def detached(self) -> None:
        """Nothing is under way any more. Groups that had not come to the edge's place begin anew."""
        for group in self._catching:
            group.flows = group.catches_up = False
        self._catching.clear()
        self._forget_receivers()
        for group in list(self.groups.values()):
            self.release(group)

    # Sessions ---------------------------------------------------------------------------------------------

    @property
    def _clients(self) -> Iterator[Session]:
        return (session for session in self._sessions if not session.sponsored_number)

    def open_mailbox(self) -> None:
        """There are sessions here: what is sent to their private names is wanted."""
        self.want(self._mailbox).is_mailbox = True

    def _close_mailbox(self) -> None:
        mailbox = self.groups.get(self._mailbox)
        if mailbox is not None:
            mailbox.is_mailbox = False
            self.release(mailbox)

    def join(self, session: Session, name: str) -> None:
        """A session wants to be a member of a group."""
        group = self.want(name)
        self.changed[name] = None
        if group.flows and not group.catches_up:
            self._let_in(group, session.number, session.private_name)
        else:
            group.waiting[session.number] = session.private_name

    def leave(self, session: Session, name: str) -> None:
        """A session does not want to be a member any more."""
        group = self.groups[name]
        left = frames.LeftFrame(Left(name, NO_VIEW if group.view is None else group.view.id))
        self._write((session.number,), left)
        if session.number in group.waiting:
            # The client counts what has become of its joins and leaves: this is the end of the join.
            self._write((session.number,), left)
        self._take_out(group, session.number)

    def gone(self, session: Session, groups: Iterable[str]) -> None:
        """A session is over, which was in these groups."""
        for name in groups:
            self._take_out(self.groups[name], session.number)
        self._forget_receivers()
        if next(self._clients, None) is None:
            self._close_mailbox()

    def _take_out(self, group: EdgeGroup, number: int) -> None:
        self.changed[group.name] = None
        self._forget_receivers()
        group.members.pop(number, None)
        group.waiting.pop(number, None)
        self.release(group)

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """How many sessions here are members of these groups, or will be."""
        return {name: self.count(name) for name in names}

    def count(self, name: str) -> int:
        group = self.groups.get(name)
        return 0 if group is None else len(group.members) + len(group.waiting)

    # The feed ---------------------------------------------------------------------------------------------

    def base(self, view: View, is_here: bool) -> None:
        """From here on a group flows; unless `is_here`, for members from the edge's own place on."""
        group = self.groups[view.group]
        if not group.is_wanted:
            group.flows = True
            self.release(group)
            return
        group.view, group.is_signalled = view, False
        group.flows, group.catches_up = True, True
        self._forget_receivers()
        self._catching.append(group)
        if is_here:
            self.catch_up()

    def catch_up(self) -> None:
        """The feed has come to the edge's place: groups whose bases came before that flow from here on."""
        if not self._catching:
            return
        catching, self._catching = self._catching, []
        self._forget_receivers()
        for group in catching:
            if group.catches_up and group.flows and self.groups.get(group.name) is group:
                group.catches_up = False
                self._begin(group)

    def _begin(self, group: EdgeGroup) -> None:
        """Members get the view with which their group begins, or goes on after a gap."""
        view = group.view
        assert view is not None
        self._node.behind.begins(group)
        if group.is_broken:
            group.is_broken = False
            again = structs.replace(view, cause=Cause.NETWORK, changed=(), transitional=(), parts=())
            # Whether they want views or not: they are to know from where on nothing is missing.
            self._write(group.members, frames.ViewFrame(again))
        waiting, group.waiting = group.waiting, {}
        is_signalled, group.is_signalled = group.is_signalled, False
        for number, name in waiting.items():
            self._let_in(group, number, name)
        if is_signalled:
            self._node.pass_signal(TransitionalSignal(group.name, view.id))

    def _let_in(self, group: EdgeGroup, number: int, name: str) -> None:
        """A session becomes a member: a view tells it so, whether it wants views or not."""
        assert group.view is not None
        group.members[number] = name
        self._forget_receivers()
        first = structs.replace(group.view, cause=Cause.JOIN, changed=(name,), transitional=(), parts=())
        self._write((number,), frames.ViewFrame(first))
        if group.is_signalled and number in self._sessions.viewers:
            signal = TransitionalSignal(group.name, group.view.id)
            self._write((number,), frames.SignalFrame(signal))

    @property
    def _position(self) -> edges.Position:
        return self._node.feed.position or edges.Position(0, 0, 0)

    def gap(self, gap: edges.Gap) -> None:
        """Something of a group may be missing from here on; nothing comes until its base follows."""
        group = self.groups[gap.group]
        here, after = self._position, gap.after
        if group.flows and here.view == after.view:
            after = max(here, after)  # up to where it was whole, this edge knows best
        if not group.is_broken:
            group.is_broken = True
            self._tell_gap(group, after.place, gap)
        group.flows = group.catches_up = False
        self._forget_receivers()

    def _tell_gap(self, group: EdgeGroup, after: int, gap: edges.Gap) -> None:
        """Tell members, or all whose private names are sent to, what is missing."""
        self.gaps += 1
        until, reason = gap.until.place, gap.reason
        view = None if group.view is None or group.is_mailbox else group.view.id
        told = Gap(group.name, view, after, until, reason)
        self.newest_gaps.append(told)
        if not group.is_mailbox:
            self._write(group.members, frames.GapFrame(told))
            return
        for session in self._clients:
            own = Gap(session.private_name, None, after, until, reason)
            self._write((session.number,), frames.GapFrame(own))

    def note(self, view: View) -> None:
        """A view came that the edge has had, but not of groups whose bases come again."""
        group = self.groups.get(view.group)
        if group is not None and group.catches_up:
            group.view, group.is_signalled = view, False

    def view(self, view: View) -> bool:
        """A view of a group; whether it flows."""
        group = self.groups.get(view.group)
        if group is None or not group.flows:
            return False
        if group.view is not None and group.view.id == view.id:
            return False  # it stood in the base already
        group.view, group.is_signalled = view, False
        self._write(self._viewers(group), frames.ViewFrame(view))
        return True

    def signal(self, signal: TransitionalSignal) -> bool:
        """A transitional signal; whether it is one of a view that is here and was not signalled."""
        group = self.groups.get(signal.group)
        if group is None or not group.flows or group.view is None:
            return False
        if group.is_signalled or group.view.id != signal.id:
            return False
        group.is_signalled = True
        if not group.catches_up:
            self._write(self._viewers(group), frames.SignalFrame(signal))
        return not group.catches_up

    def bundle(self, header: Header, data: bytes, own: Session | None) -> None:
        """Messages, which a session here has sent if it is `own`."""
        receivers = self._receivers.get(header.names)
        if receivers is None:
            if len(self._receivers) >= _CACHE_MAX:
                self._forget_receivers()
            receivers = self._receivers[header.names] = self._find(parse_names(header.names)[1:])
        if own is not None and header.flags & Flag.SELF_DISCARD:
            receivers = tuple(number for number in receivers if number != own.number)
        dropping = self._sessions.dropping
        if header.service is UNRELIABLE and not dropping.isdisjoint(receivers):
            messages = header.message_count - (1 if header.flags & Flag.BATCH else 0)
            for number in dropping.intersection(receivers):
                self._sessions.drop(number, messages, header.length)
            receivers = tuple(number for number in receivers if number not in dropping)
        if receivers:
            self._output.append((receivers, data, header))

    def _find(self, names: tuple[str, ...]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for name in names:
            if name[0] == "#":
                session = self._sessions.named(name)
                if session is not None:
                    found[session.number] = None
                continue
            group = self.groups.get(name)
            if group is not None and group.flows and not group.catches_up:
                found.update(dict.fromkeys(group.members))
        return tuple(found)

    def _viewers(self, group: EdgeGroup) -> list[int]:
        return [number for number in group.members if number in self._sessions.viewers]

    def _write(self, numbers: Iterable[int], value: frames.FromDaemon) -> None:
        receivers = tuple(numbers)
        if receivers:
            self._output.append((receivers, frames.encode_control(value), None))
