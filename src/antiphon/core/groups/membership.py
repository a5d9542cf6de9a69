"""Who is a member of which group, everywhere, and who must be told.

Follows: thesis 3.4.1 and 6.4 (figures 6.18 to 6.27).
Deviations:
- 3.4.2: the thesis prunes conservatively from the moment a join is *seen*. That is not enough: a sender that
  has not seen the join yet may be ahead in lts, so that its message is ordered after the join but was pruned
  from the joiner's site. Here a sender that sees a join sends such messages again (LATE bundles). The
  joiner's daemon delivers its first join to a group only when every other daemon is known to have seen it,
  and until then vouches for nothing from the join on; so such messages come in time, and safe ones wait.
- figure 6.22: when daemons are lost and others come at once, the thesis installs one view after the merge.
  Two daemons that were cut off from each other could then both come from the same view of a group without
  having delivered the same messages in it, against 2.7. Here a group that lost members always gets a view of
  those who remain first (cause NETWORK), and the merged view after it (cause MERGE).
- view identifiers carry a branch instead of a negative index, see `types.ViewId`: 2.20 holds for clients, too
- after the signal, leaves are followed by a view as joins are (the thesis leaves it out, figure 6.21)
"""

from collections import Counter
from collections.abc import Callable, Iterable

from antiphon.core.groups.events import GroupEvent, HostedGroup
from antiphon.types import Cause, View, ViewId

Member = tuple[int, int]
"""Daemon number and session number."""
Mark = Callable[[str], tuple[ViewId, frozenset[int] | None]]
"""For a group that an event is about to change: the identifier of its next view and, after the signal, the
daemons whose members come along to the next daemon view."""


class Group:
    """One group as every daemon knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[Member, str] = {}
        """In the order of their joins."""
        self.view = ViewId(0, 0, 0, 0)
        self.is_signalled = False
        """Whether the transitional signal of this view was given."""
        self.sites: Counter[int] = Counter()
        """Members per site."""
        self.joining: Counter[int] = Counter()
        """Joins per site that were seen and are not delivered yet: conservative pruning."""
        self.mask = 0
        """The sites that must get what is sent to this group."""

    def count(self, *, site: int, members: int = 0, joining: int = 0) -> None:
        """So many members and joins under way of a site come (or, below zero, go)."""
        self.sites[site] += members
        self.joining[site] += joining
        if self.sites[site] or self.joining[site]:
            self.mask |= 1 << site
        else:
            self.mask &= ~(1 << site)
            del self.sites[site], self.joining[site]

    @property
    def is_needless(self) -> bool:
        return not self.mask

    def is_torn(self, together: frozenset[int]) -> bool:
        """Whether some of its members are at other daemons than these."""
        return any(daemon not in together for daemon, _ in self.members)


class Change:
    """What one event did to one group."""

    __slots__ = ("gone", "members", "view")

    def __init__(self, view: View, members: dict[Member, str], gone: Member | None = None) -> None:
        self.view = view
        """As the members that were there before see it."""
        self.members = members
        self.gone = gone
        """The member that is no longer there, if any."""


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
            self._group(event.group).count(site=self._site_of(member[0]), joining=1)

    def forget_joins(self) -> None:
        """A daemon view has ended: no join is under way any more."""
        for group in list(self.groups.values()):
            for site in list(group.joining):
                group.count(site=site, joining=-group.joining[site])
            if group.is_needless:
                del self.groups[group.name]

    def groups_of(self, member: Member) -> list[str]:
        return sorted(self._of.get(member, ()))

    def apply(
        self,
        member: Member,
        name: str,
        event: GroupEvent,
        mark: Mark,
    ) -> list[Change]:
        """An event is delivered: the changes that it makes."""
        if event.kind == "join":
            return self._join(member, name, event.group, mark)
        if event.kind == "leave":
            return self._remove(member, [event.group], Cause.LEAVE, mark)
        changes = self._remove(member, self.groups_of(member), Cause.DISCONNECT, mark)
        self._of.pop(member, None)
        return changes

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
            group.count(site=site, joining=-1)
            return []
        view_id, together = mark(group_name)
        group.count(site=site, members=1, joining=-1)
        transitional = _coming_along(group.members, together)
        group.members[member] = name
        self._of.setdefault(member, set()).add(group_name)
        return [self._view(group, view_id, transitional, Cause.JOIN, (name,))]

    def _remove(
        self,
        member: Member,
        names: list[str],
        cause: Cause,
        mark: Mark,
    ) -> list[Change]:
        changes = []
        for group_name in names:
            group = self.groups.get(group_name)
            if group is None or member not in group.members:
                continue
            view_id, together = mark(group_name)
            name = self._take_out(group, member)
            transitional = _coming_along(group.members, together)
            changes.append(self._view(group, view_id, transitional, cause, (name,), member))
            if group.is_needless:
                del self.groups[group_name]
        return changes

    def _take_out(self, group: Group, member: Member) -> str:
        name = group.members.pop(member)
        group.count(site=self._site_of(member[0]), members=-1)
        self._of[member].discard(group.name)
        return name

    def _view(
        self,
        group: Group,
        view_id: ViewId,
        transitional: tuple[str, ...],
        cause: Cause,
        changed: tuple[str, ...],
        gone: Member | None = None,
        *,
        parts: tuple[tuple[str, ...], ...] = (),
    ) -> Change:
        """Give a group its next view."""
        group.view = view_id
        group.is_signalled = False
        members = tuple(group.members.values())
        view = View(group.name, view_id, members, transitional, cause, changed, parts)
        return Change(view, dict(group.members), gone)

    # When daemons come and go ---------------------------------------------------------------------------

    def lose(self, together: frozenset[int], name_view: Callable[[int], ViewId]) -> list[Change]:
        """Only the members at these daemons remain: the views of the groups that lost some.

        A view is named after the first daemon that has members in it. If groups were still to be put
        together, members of one group may be in several views, and no two of these get the same name.
        """
        changes = []
        for name in sorted(self.groups):
            group = self.groups[name]
            lost = [member for member in group.members if member[0] not in together]
            if not lost:
                continue
            names = tuple(self._take_out(group, member) for member in lost)
            for member in lost:
                if not self._of[member]:
                    del self._of[member]
            if group.is_needless:
                del self.groups[name]
            else:
                remaining = tuple(group.members.values())
                view_id = name_view(min(daemon for daemon, _ in group.members))
                changes.append(self._view(group, view_id, remaining, Cause.NETWORK, names))
        changes.sort(
            key=lambda change: change.view.id.daemon
        )  # all see them in one order, whatever the group
        return changes

    def hosted(self, daemon: int) -> tuple[HostedGroup, ...]:
        """What a daemon says in its GROUPS message."""
        found = []
        for name in sorted(self.groups):
            group = self.groups[name]
            local = tuple(
                (place, session, member_name)
                for place, ((host, session), member_name) in enumerate(group.members.items())
                if host == daemon
            )
            if local:
                view = group.view
                found.append(HostedGroup(name, (view.epoch, view.branch, view.lts, view.daemon), local))
        return tuple(found)

    def merge(self, gathered: dict[int, tuple[HostedGroup, ...]], view_id: ViewId, me: int) -> list[Change]:
        """All members of all groups are known (ComputeNotify, figure 6.24): the views of the groups whose
        members do not all come from the same view, as the members at daemon `me` see them."""
        before = {name: group.view for name, group in self.groups.items()}
        signalled = {name for name, group in self.groups.items() if group.is_signalled}
        parts: dict[str, dict[ViewId, list[tuple[int, int, int, str]]]] = {}
        for daemon, groups in gathered.items():
            for hosted in groups:
                part = parts.setdefault(hosted.name, {}).setdefault(ViewId(*hosted.view), [])
                part.extend((place, daemon, session, name) for place, session, name in hosted.members)
        self.groups.clear()
        self._of.clear()
        changes = []
        for name in sorted(parts):
            group = self._group(name)
            for part_id in sorted(parts[name]):
                for _, daemon, session, member_name in sorted(parts[name][part_id]):
                    group.members[daemon, session] = member_name
                    group.count(site=self._site_of(daemon), members=1)
                    self._of.setdefault((daemon, session), set()).add(name)
            if len(parts[name]) == 1:  # all from one view: nothing has happened to them
                (group.view,) = parts[name]
                group.is_signalled = name in signalled
                continue
            mine = sorted(parts[name].get(before.get(name, view_id), ()))
            came_along = tuple(member_name for *_, member_name in mine)
            newcomers = tuple(
                member_name for member_name in group.members.values() if member_name not in came_along
            )
            came_from = tuple(
                tuple(member_name for *_, member_name in sorted(part))
                for _, part in sorted(parts[name].items())
            )
            changes.append(self._view(group, view_id, came_along, Cause.MERGE, newcomers, parts=came_from))
        return changes


def _coming_along(members: dict[Member, str], together: frozenset[int] | None) -> tuple[str, ...]:
    return tuple(name for (daemon, _), name in members.items() if together is None or daemon in together)
