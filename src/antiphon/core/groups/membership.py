"""Who is a member of which group, everywhere, and who must be told.

Follows: thesis 3.4.1 and 6.4 as far as it goes while no daemon comes or goes.
Deviation from 3.4.2: the thesis prunes conservatively from the moment a join is *seen*. That is not enough:
a sender that has not seen the join yet may be ahead in lts, so that its message is ordered after the join but
was pruned from the joiner's site. Here a sender that sees a join sends such messages again (LATE bundles).
The joiner's site delivers its first join to a group only when every other site is known to have seen it, and
until then vouches for nothing from the join on; so such messages come in time, and safe ones wait for them.
"""

from collections import Counter
from collections.abc import Iterable

from antiphon.core.groups.events import GroupEvent
from antiphon.types import Cause, View, ViewId

Member = tuple[int, int]
"""Daemon number and session number."""


class Group:
    """One group as every daemon knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[Member, str] = {}
        """In the order of their joins."""
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


class Change:
    """What one event did to one group."""

    __slots__ = ("gone", "members", "view")

    def __init__(self, view: View, members: dict[Member, str], gone: Member | None) -> None:
        self.view = view
        """As the members that were there before see it."""
        self.members = members
        self.gone = gone
        """The member that is no longer there, if any."""


class Membership:
    """All groups. With one daemon a site, a daemon's number is its site's."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
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
            self._group(event.group).count(site=member[0], joining=1)

    def apply(self, member: Member, name: str, event: GroupEvent, lts: int) -> list[Change]:
        """An event is delivered: the changes that it makes."""
        view_id = ViewId(0, lts, member[0])
        if event.kind == "join":
            return self._join(member, name, event.group, view_id)
        if event.kind == "leave":
            return self._remove(member, [event.group], Cause.LEAVE, view_id)
        changes = self._remove(member, sorted(self._of.get(member, ())), Cause.DISCONNECT, view_id)
        self._of.pop(member, None)
        return changes

    def is_member(self, member: Member, group: str) -> bool:
        return group in self._of.get(member, ())

    def _group(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group

    def _join(self, member: Member, name: str, group_name: str, view_id: ViewId) -> list[Change]:
        group = self._group(group_name)
        if member in group.members:
            group.count(site=member[0], joining=-1)
            return []
        group.count(site=member[0], members=1, joining=-1)
        before = tuple(group.members.values())
        group.members[member] = name
        self._of.setdefault(member, set()).add(group_name)
        view = View(group_name, view_id, (*before, name), before, Cause.JOIN, (name,))
        return [Change(view, dict(group.members), None)]

    def _remove(self, member: Member, names: list[str], cause: Cause, view_id: ViewId) -> list[Change]:
        changes = []
        for group_name in names:
            group = self.groups.get(group_name)
            if group is None or member not in group.members:
                continue
            name = group.members.pop(member)
            group.count(site=member[0], members=-1)
            self._of[member].discard(group_name)
            after = tuple(group.members.values())
            view = View(group_name, view_id, after, after, cause, (name,))
            changes.append(Change(view, dict(group.members), member))
            if group.is_needless:
                del self.groups[group_name]
        return changes
