"""The members of every group, at all daemons, and the views that follow from each change.

Follows: thesis 3.4.1 and 6.4 (figures 6.18 to 6.27).
Deviations:
- 3.4.2: the thesis prunes conservatively from the moment a join is *seen*. That is not enough: a sender that
  has not seen the join yet may be ahead in lts, so that its message is ordered after the join but was pruned
  from the joiner's site. Here a sender that sees a join retransmits such messages (LATE bundles). The
  joiner's daemon delivers its first join to a group only when every other daemon is known to have seen it,
  and until then acknowledges nothing from the join on; so such messages come in time, and safe ones wait.
- figure 6.22: when daemons are lost and others come at once, the thesis installs one view after the merge.
  Two daemons that were cut off from each other could then both come from the same view of a group without
  having delivered the same messages in it, against 2.7. Here a group that lost members always gets a view of
  those who remain first (cause NETWORK), and the merged view after it (cause MERGE).
- view identifiers carry a branch instead of a negative index, see `types.ViewId`: clients have 2.20, too
- after the signal, leaves are followed by a view as joins are (the thesis leaves it out, figure 6.21)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from antiphon.types import Cause, View, ViewId
from antiphon.wire.events import GroupEvent, HostedGroup

Member = tuple[int, int]
"""Daemon number and session number."""
Mark = Callable[[str], tuple[ViewId, frozenset[int] | None]]
"""For a group that an event is about to change: the identifier of its next view and, after the signal, the
daemons whose members come along to the next daemon view."""
Row = tuple[int, HostedGroup]
"""A daemon, and what it announces of its members of a group."""
_NO_SESSIONS: Mapping[int, None] = {}


class Group:
    """One group as every daemon knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[Member, str] = {}
        """The names of the members, in the order of their joins."""
        self.hosts: dict[int, dict[int, None]] = {}
        """By daemon, the sessions of its members in the order of their joins; only daemons that have some."""
        self.view = ViewId(0, 0, 0, 0)
        self.is_signalled = False
        """Whether the transitional signal of this view was given."""
        self.joining: dict[int, int] = {}
        """Joins per site that were seen and are not delivered yet: conservative pruning."""
        self.mask = 0
        """The sites that must get what is sent to this group."""

    def add(self, member: Member, name: str, site: int) -> None:
        """A member of a site comes."""
        daemon, session = member
        self.members[member] = name
        sessions = self.hosts.get(daemon)
        if sessions is None:
            self.hosts[daemon] = {session: None}
            self.mask |= 1 << site
        else:
            sessions[session] = None

    def remove(self, member: Member, site_of: Callable[[int], int]) -> str:
        """A member goes; its name."""
        daemon, session = member
        sessions = self.hosts[daemon]
        del sessions[session]
        if not sessions:
            del self.hosts[daemon]
            self._clear(site_of(daemon), site_of)
        return self.members.pop(member)

    def join_seen(self, site: int) -> None:
        """A join of a site is under way."""
        self.joining[site] = self.joining.get(site, 0) + 1
        self.mask |= 1 << site

    def join_done(self, site: int, site_of: Callable[[int], int]) -> None:
        """A join of a site has taken effect; one that was recovered was never seen."""
        under_way = self.joining.pop(site, 0) - 1
        if under_way > 0:
            self.joining[site] = under_way
        else:
            self._clear(site, site_of)

    def forget_joins(self, site_of: Callable[[int], int]) -> None:
        """No join is under way any more."""
        for site in list(self.joining):
            del self.joining[site]
            self._clear(site, site_of)

    def _clear(self, site: int, site_of: Callable[[int], int]) -> None:
        """Take a site out of the mask unless it has members or joins."""
        if site not in self.joining and all(site_of(daemon) != site for daemon in self.hosts):
            self.mask &= ~(1 << site)

    def sessions_at(self, daemon: int) -> Mapping[int, None]:
        """The sessions of its members at one daemon, in the order of their joins."""
        return self.hosts.get(daemon, _NO_SESSIONS)

    @property
    def is_needless(self) -> bool:
        return not self.mask

    def is_torn(self, together: frozenset[int]) -> bool:
        """Whether some of its members are at other daemons than these."""
        return any(daemon not in together for daemon in self.hosts)


class Change:
    """What one event did to one group: look at it before the next one, since it copies nothing.

    Most changes of a large group have no receiver at most daemons, so the view, which is as large as the
    group, is made when it is asked for.
    """

    def __init__(
        self,
        group: Group,
        cause: Cause,
        changed: tuple[str, ...],
        *,
        gone: Member | None = None,
        departed: tuple[Member, ...] = (),
        newcomer: Member | None = None,
        together: frozenset[int] | None = None,
        came_along: tuple[str, ...] | None = None,
        parts: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        self.group = group
        self.cause = cause
        self.gone = gone
        """The member that has left, if it is a single one."""
        self._departed = departed
        self.made: View | None = None
        self._changed = changed
        self._newcomer = newcomer
        self._together = together
        self._came_along = came_along
        self._parts = parts

    @property
    def sessions(self) -> Iterator[Member]:
        """The sessions that the view names: its members, then those in `changed` that are gone."""
        yield from self.group.members
        yield from self._departed if self.gone is None else (self.gone,)

    @property
    def view(self) -> View:
        """The view as it is for the members that were in the group before."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def _make(self) -> View:
        group = self.group
        members = tuple(group.members.values())
        came_along = self._came_along
        if came_along is None:
            together, newcomer = self._together, self._newcomer
            came_along = members
            if together is not None or newcomer is not None:
                came_along = tuple(
                    name
                    for member, name in group.members.items()
                    if member != newcomer and (together is None or member[0] in together)
                )
        return View(group.name, group.view, members, came_along, self.cause, self._changed, self._parts)

    @property
    def steps(self) -> int:
        """How much work it was: that of its view, if it was made."""
        return 1 if self.made is None else 1 + len(self.group.members)


class Membership:
    """All groups."""

    def __init__(self, site_of: Callable[[int], int]) -> None:
        self.groups: dict[str, Group] = {}
        self._site_of = site_of
        self._of: dict[Member, set[str]] = {}

    def destinations(self, names: Iterable[str]) -> int:
        """The sites that have, or are about to have, members of these groups."""
        mask = 0
        for name in names:
            group = self.groups.get(name)
            if group is not None:
                mask |= group.mask
        return mask

    def saw(self, member: Member, event: GroupEvent) -> None:
        """An event came in; it takes effect when it is delivered, but a join counts for pruning at once."""
        if event.kind == "join":
            self._group(event.group).join_seen(self._site_of(member[0]))

    def forget_joins(self) -> None:
        """A daemon view has ended: no join is under way any more."""
        for group in [group for group in self.groups.values() if group.joining]:
            group.forget_joins(self._site_of)
            if group.is_needless:
                del self.groups[group.name]

    def groups_of(self, *members: Member) -> list[str]:
        """The groups of which one of these is a member."""
        found: set[str] = set()
        for member in members:
            found |= self._of.get(member, frozenset())
        return sorted(found)

    def count_of(self, member: Member) -> int:
        """The number of groups of which `member` is one."""
        return len(self._of.get(member, ()))

    def apply(
        self,
        member: Member,
        name: str,
        event: GroupEvent,
        mark: Mark,
    ) -> list[Change]:
        """An event is delivered: the changes that it makes, each group once."""
        if event.kind == "join":
            return self._join(member, name, event.group, mark)
        if event.kind == "leave":
            return self._leave(member, event.group, mark)
        return self._depart(event.departed(member), mark)

    def is_member(self, member: Member, group: str) -> bool:
        return group in self._of.get(member, ())

    def _group(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group

    def _join(self, member: Member, name: str, group_name: str, mark: Mark) -> list[Change]:
        group = self._group(group_name)
        site = self._site_of(member[0])
        if member in group.members:
            group.join_done(site, self._site_of)
            return []
        view_id, together = mark(group_name)
        group.add(member, name, site)
        group.join_done(site, self._site_of)
        self._of.setdefault(member, set()).add(group_name)
        change = Change(group, Cause.JOIN, (name,), newcomer=member, together=together)
        return [self._view(group, view_id, change)]

    def _leave(self, member: Member, name: str, mark: Mark) -> list[Change]:
        group = self.groups.get(name)
        if group is None or member not in group.members:
            return []
        view_id, together = mark(name)
        left = self._take_out(group, member)
        if group.is_needless:
            del self.groups[name]
        change = Change(group, Cause.LEAVE, (left,), gone=member, together=together)
        return [self._view(group, view_id, change)]

    def _depart(self, members: tuple[Member, ...], mark: Mark) -> list[Change]:
        """Sessions are over, one or many: each of their groups gets one view without them."""
        changes = []
        leaving: dict[str, list[Member]] = {}
        for member in members:
            for name in self._of.get(member, ()):
                leaving.setdefault(name, []).append(member)
        for name in sorted(leaving):
            group = self.groups[name]
            view_id, together = mark(name)
            gone = tuple(self._take_out(group, member) for member in leaving[name])
            if group.is_needless:
                del self.groups[name]
            departed = tuple(leaving[name])
            change = Change(group, Cause.DISCONNECT, gone, departed=departed, together=together)
            changes.append(self._view(group, view_id, change))
        for member in members:
            self._of.pop(member, None)
        return changes

    def _take_out(self, group: Group, member: Member) -> str:
        self._of[member].discard(group.name)
        return group.remove(member, self._site_of)

    def _view(self, group: Group, view_id: ViewId, change: Change) -> Change:
        """Give a group its next view."""
        group.view = view_id
        group.is_signalled = False
        return change

    # When daemons come and go ---------------------------------------------------------------------------

    def lose(self, together: frozenset[int], name_view: Callable[[int], ViewId]) -> Iterator[Change | None]:
        """Only the members at these daemons remain: the views of the groups that lost some, one by one, and
        None after other parts of the work.

        A view is named after the first daemon that has members in it. If groups were still to be put
        together, members of one group may be in several views, and no two of these get the same name.
        """
        lost = [member for member in self._of if member[0] not in together]
        torn: list[tuple[int, str]] = []
        for name in set().union(*map(self._of.__getitem__, lost)):
            hosts = self.groups[name].hosts
            torn.append((min((daemon for daemon in hosts if daemon in together), default=-1), name))
            yield None
        for first, name in sorted(torn):  # all see them in one order, by the identifiers and then by group
            group = self.groups[name]
            gone = [member for member in group.members if member[0] not in together]
            names = tuple(self._take_out(group, member) for member in gone)
            if group.is_needless:
                del self.groups[name]
                yield None
            else:
                change = Change(group, Cause.NETWORK, names, departed=tuple(gone))
                yield self._view(group, name_view(first), change)
        for member in lost:
            self._of.pop(member, None)

    def hosted(self, daemon: int) -> Iterator[HostedGroup]:
        """What a daemon announces in its GROUPS messages."""
        for name in sorted(self.groups):
            group = self.groups[name]
            if daemon not in group.hosts:
                continue
            local = tuple(
                (place, session, member_name)
                for place, ((host, session), member_name) in enumerate(group.members.items())
                if host == daemon
            )
            view = group.view
            yield HostedGroup(name, (view.epoch, view.branch, view.lts, view.daemon), local)

    def merge(
        self, rows: dict[str, list[Row]], view_id: ViewId, is_known: bool
    ) -> Iterator[tuple[Group, Change | None]]:
        """All members of all groups are known (ComputeNotify, figure 6.24): group by group, the view of each
        whose members do not all come from the same view.

        `is_known`: the members at the daemons that came along are known here. Then `rows` has only what other
        daemons announced, and groups that these did not announce are as they were.
        """
        before = dict(self.groups)
        if not is_known:
            self.groups.clear()
            self._of.clear()
        for name in sorted(rows):
            parts: dict[ViewId, list[tuple[int, int, int, str]]] = {}
            old = before.get(name)
            if is_known and old is not None:
                parts[old.view] = [
                    (place, daemon, session, member_name)
                    for place, ((daemon, session), member_name) in enumerate(old.members.items())
                ]
            for daemon, hosted in rows[name]:
                part = parts.setdefault(ViewId(*hosted.view), [])
                part.extend((place, daemon, session, member) for place, session, member in hosted.members)
            yield self._put_together(name, parts, old, view_id)

    def _put_together(
        self,
        name: str,
        parts: dict[ViewId, list[tuple[int, int, int, str]]],
        old: Group | None,
        view_id: ViewId,
    ) -> tuple[Group, Change | None]:
        """One group from the members that come from each of several views, or from one."""
        group = self.groups[name] = Group(name)
        for part_id in sorted(parts):
            parts[part_id].sort()
            for _, daemon, session, member_name in parts[part_id]:
                group.add((daemon, session), member_name, self._site_of(daemon))
                self._of.setdefault((daemon, session), set()).add(name)
        if len(parts) == 1:  # all from one view: nothing has happened to them
            (group.view,) = parts
            group.is_signalled = old is not None and old.is_signalled
            return group, None
        mine = parts.get(view_id if old is None else old.view, ())
        came_along = {(daemon, session): member_name for _, daemon, session, member_name in mine}
        newcomers = tuple(
            member_name for member, member_name in group.members.items() if member not in came_along
        )
        came_from = tuple(tuple(name for *_, name in parts[part_id]) for part_id in sorted(parts))
        change = Change(group, Cause.MERGE, newcomers, came_along=tuple(came_along.values()), parts=came_from)
        return group, self._view(group, view_id, change)
