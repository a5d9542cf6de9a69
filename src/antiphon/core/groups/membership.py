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

from collections.abc import Callable, Iterable, Iterator

from antiphon.core.groups import locks, quorum
from antiphon.core.groups.group import Change, Group, Member
from antiphon.core.groups.locks import Locks
from antiphon.core.groups.quorum import Quorum
from antiphon.core.ordering.stability import round_of
from antiphon.types import Cause, LockCause, LockChanged, ViewId
from antiphon.wire.events import GroupEvent, HostedGroup

Mark = Callable[[str], tuple[ViewId, frozenset[int] | None]]
"""For a group that an event is about to change: the identifier of its next view and, after the signal, the
daemons whose members come along to the next daemon view."""
Row = tuple[int, HostedGroup]
"""A daemon, and what it announces of its members of a group."""


class Membership:
    """All groups."""

    def __init__(self, site_of: Callable[[int], int]) -> None:
        self.groups: dict[str, Group] = {}
        self.blocked: dict[str, bool] = {}
        """Groups without quorum, each with whether that is being decided."""
        self.undecided: set[str] = set()
        """Groups of which a safe event would decide about their quorum, or move its base."""
        self.is_eased = False
        """Whether messages that wait for a quorum may have to wait no longer; who looks at it clears it."""
        self._site_of = site_of
        self._of: dict[Member, set[str]] = {}
        self._listened: set[str] = set()  # groups to which daemons listen

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
        if event.brings_messages:
            for name in event.groups:
                self._group(name).join_seen(self._site_of(member[0]))

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
        """An event that may change members or quorum is delivered: the changes that it makes, each group
        once."""
        if event.kind == "join":
            return self._join(member, name, event, mark)
        if event.kind == "leave":
            return self._leave(member, event.group, mark)
        if event.kind == "quorum":
            return self._decide(event.group, mark)
        return self._depart(event.departed(member), mark)

    def listen(self, daemon: int, event: GroupEvent) -> None:
        """A daemon begins to listen to groups, or tells anew for how many receivers, or listens no longer."""
        site = self._site_of(daemon)
        for name, receivers in event.listened:
            if event.kind == "listen":
                group = self._group(name)
                group.listen(daemon, site, receivers)
                group.join_done(site, self._site_of)
                self._listened.add(name)
            elif (known := self.groups.get(name)) is not None:
                known.unlisten(daemon, self._site_of)
                self._look_at_listeners(known)

    def _look_at_listeners(self, group: Group) -> None:
        if not group.listeners:
            self._listened.discard(group.name)
            if group.is_needless:
                self._delete(group)

    def is_member(self, member: Member, group: str) -> bool:
        return group in self._of.get(member, ())

    def _group(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group

    def _join(self, member: Member, name: str, event: GroupEvent, mark: Mark) -> list[Change]:
        group = self._group(event.group)
        site = self._site_of(member[0])
        if member in group.members:
            group.join_done(site, self._site_of)
            return []
        view_id, together = mark(group.name)
        group.add(member, name, site)
        group.join_done(site, self._site_of)
        self._of.setdefault(member, set()).add(group.name)
        if event.minimum or group.quorum is not None:
            is_first, group.quorum = group.quorum is None, group.quorum or Quorum()
            group.quorum.came((member,), view_id.lts, event.minimum)
            if is_first:
                group.quorum.came(group.members, view_id.lts)
                group.quorum.begin(view_id.lts)
            self._look(group, view_id.lts)
        change = Change(group, Cause.JOIN, (name,), newcomer=member, together=together)
        return [self._view(group, view_id, change)]

    def _leave(self, member: Member, name: str, mark: Mark) -> list[Change]:
        group = self.groups.get(name)
        if group is None or member not in group.members:
            return []
        view_id, together = mark(name)
        left = self._take_out(group, member)
        self._released(group, (member,), view_id.lts)
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
            departed = tuple(leaving[name])
            self._released(group, departed, view_id.lts)
            change = Change(group, Cause.DISCONNECT, gone, departed=departed, together=together)
            changes.append(self._view(group, view_id, change))
        for member in members:
            self._of.pop(member, None)
        return changes

    def _released(self, group: Group, gone: tuple[Member, ...], place: int) -> None:
        """Members have gone by their own will, or with their connections."""
        if not group.members:
            self._emptied(group)
            return
        if group.locks:
            group.locks.forget(gone)
        if group.quorum is not None:
            group.quorum.left(gone)
            self._look(group, place)
        else:
            group.look_at_locks(place)

    def _emptied(self, group: Group) -> None:
        """The last member is gone: so are locks and wishes, and the group, unless daemons listen to it or
        join."""
        self._delete(group)
        if not group.is_needless:
            group.locks, group.quorum = Locks(), None
            self.groups[group.name] = group

    def _delete(self, group: Group) -> None:
        del self.groups[group.name]
        self.undecided.discard(group.name)
        self.is_eased |= self.blocked.pop(group.name, None) is not None

    # Quorum and locks ---------------------------------------------------------------------------------------

    def _look(self, group: Group, place: int) -> None:
        """An event has changed the members of a group with a quorum."""
        if group.quorum is not None:
            group.quorum.look(not group.is_signalled)
            self._settle(group, place)

    def _settle(self, group: Group, place: int) -> None:
        """Whatever follows from what is known of a quorum now."""
        if group.quorum is not None and group.quorum.is_needless:
            group.quorum = None
        group.look_at_locks(place)
        self._note(group)

    def _note(self, group: Group) -> None:
        """Whether a group may go on, or a decision is wanted, may have changed."""
        told = group.quorum
        if told is None or told.has:
            self.is_eased |= self.blocked.pop(group.name, None) is not None
        elif self.blocked.get(group.name) is not told.is_deciding:
            self.blocked[group.name] = told.is_deciding
            self.is_eased = True
        if told is not None and told.wants_decision:
            self.undecided.add(group.name)
        else:
            self.undecided.discard(group.name)

    def to_decide(self, me: int, view_id: int) -> list[str]:
        """The groups for which this daemon is to send an event that decides about their quorum: it is the
        first that has members of them, and has sent none in this view."""
        found = []
        for name in sorted(self.undecided):
            group = self.groups[name]
            if group.quorum is not None and group.quorum.asked != view_id and min(group.hosts) == me:
                group.quorum.asked = view_id
                found.append(name)
        self.undecided.clear()
        return found

    def _decide(self, name: str, mark: Mark) -> list[Change]:
        """An event to decide about a quorum: a view says so if that makes a difference."""
        group = self.groups.get(name)
        if group is None or group.quorum is None:
            return []
        had, group.quorum.asked = group.quorum.has, 0
        view_id, together = mark(name)
        group.quorum.decide(view_id.lts, not group.is_signalled)
        self._settle(group, view_id.lts)
        if had or not group.may_go_on:
            return []
        return [self._view(group, view_id, Change(group, Cause.QUORUM, (), together=together))]

    def lock(self, member: Member, event: GroupEvent, place: int) -> LockChanged | None:
        """A request for a lock, or to give one back, is delivered; None if its session is no member."""
        group = self.groups.get(event.group)
        if group is None or member not in group.members:
            return None
        may_grant = group.may_go_on and not (group.quorum is not None and group.is_signalled)
        cause = LockCause.RELEASED
        if event.kind == "lock":
            cause = group.locks.ask(member, event.lock, event.wait, place, may_grant)
        else:
            group.locks.release(member, event.lock, place, may_grant)
        name_of = group.members.__getitem__
        shown = group.locks.show(event.lock, name_of)
        return LockChanged(group.name, group.view, shown, cause, name_of(member))

    def blocking(self, names: Iterable[str]) -> str | None:
        """The first of these groups that has no quorum."""
        return next((name for name in names if name in self.blocked), None)

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
        self._lose_listeners(together)
        lost = [member for member in self._of if member[0] not in together]
        torn: list[tuple[int, str]] = []
        for name in set().union(*map(self._of.__getitem__, lost)):
            group = self.groups[name]
            here = [daemon for daemon in group.hosts if daemon in together] or group.listeners
            torn.append((min(here, default=-1), name))
            yield None
        for first, name in sorted(torn):  # all see them in one order, by the identifiers and then by group
            group = self.groups[name]
            gone = [member for member in group.members if member[0] not in together]
            names = tuple(self._take_out(group, member) for member in gone)
            if group.is_needless:
                self._delete(group)
                yield None
            else:
                view_id = name_view(first)
                if not group.members:
                    self._emptied(group)
                # Later than all grants of the view that ends, earlier than those of the next one. The parts
                # of a group lose members at the same time: the first daemon tells their numbers apart.
                self._lost(group, gone, max(round_of(view_id.branch), view_id.lts) | first)
                change = Change(group, Cause.NETWORK, names, departed=tuple(gone))
                yield self._view(group, view_id, change)
        for member in lost:
            self._of.pop(member, None)

    def _lose_listeners(self, together: frozenset[int]) -> None:
        for group in [self.groups[name] for name in sorted(self._listened)]:
            for daemon in [daemon for daemon in group.listeners if daemon not in together]:
                group.unlisten(daemon, self._site_of)
            self._look_at_listeners(group)

    def _lost(self, group: Group, gone: list[Member], fence: int) -> None:
        """Members of a group are lost: whether the others may go on must be decided; what these held passes
        on at once, or at that decision."""
        if group.quorum is not None:
            group.quorum.lost(gone)
            self._note(group)
        if group.locks:
            group.locks.forget(gone)
            group.look_at_locks(fence)

    def hosted(self, daemon: int) -> Iterator[HostedGroup]:
        """What a daemon announces in its GROUPS messages."""
        for name in sorted(self.groups):
            group = self.groups[name]
            if daemon not in group.hosts and daemon not in group.listeners:
                continue
            local = tuple(
                (place, session, member_name)
                for place, ((host, session), member_name) in enumerate(group.members.items())
                if host == daemon
            )
            view = group.view
            told = None
            if group.quorum is not None and min(group.hosts) == daemon:
                told = group.quorum.hosted()
            receivers = group.listeners.get(daemon)
            yield HostedGroup(
                name,
                (view.epoch, view.branch, view.lts, view.daemon),
                local,
                group.locks.hosted(daemon) if group.locks else (),
                told,
                receivers,
            )

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
            self._listened.clear()
            self.blocked.clear()
            self.undecided.clear()
            self.is_eased = True
        for name in sorted(rows):
            parts: dict[ViewId, list[tuple[int, int, int, str]]] = {}
            old = before.get(name)
            if is_known and old is not None and old.members:
                parts[old.view] = [
                    (place, daemon, session, member_name)
                    for place, ((daemon, session), member_name) in enumerate(old.members.items())
                ]
            for daemon, hosted in rows[name]:
                if hosted.members:
                    part = parts.setdefault(ViewId(*hosted.view), [])
                    part.extend((place, daemon, session, member) for place, session, member in hosted.members)
            group, change = self._put_together(name, parts, old, view_id)
            if parts:
                self._put_states_together(group, rows[name], old if is_known else None, sorted(parts))
            self._put_listeners_together(group, rows[name], old if is_known else None)
            yield group, change

    def _put_together(
        self,
        name: str,
        parts: dict[ViewId, list[tuple[int, int, int, str]]],
        old: Group | None,
        view_id: ViewId,
    ) -> tuple[Group, Change | None]:
        """One group from the members that come from each of several views, or from one."""
        group = self.groups[name] = Group(name)
        self.undecided.discard(name)
        if not parts:  # some listen, and there are no members
            return group, None
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

    def _put_listeners_together(self, group: Group, rows: list[Row], old: Group | None) -> None:
        """Who listens to a group, as the daemons announce it, or as it is known."""
        told = {} if old is None else dict(old.listeners)
        told |= {daemon: hosted.receivers for daemon, hosted in rows if hosted.receivers is not None}
        for daemon, receivers in sorted(told.items()):
            group.listen(daemon, self._site_of(daemon), receivers)
            self._listened.add(group.name)

    def _put_states_together(
        self, group: Group, rows: list[Row], old: Group | None, part_ids: list[ViewId]
    ) -> None:
        """The locks and the quorum of a group from those of its parts. `old` is this daemon's part, if that
        is known without having been announced."""
        held: dict[ViewId, Locks] = {}
        quorums: dict[ViewId, Quorum] = {}
        for part_id in part_ids:
            told = [(daemon, hosted) for daemon, hosted in rows if ViewId(*hosted.view) == part_id]
            if old is not None and old.view == part_id:
                held[part_id] = old.locks
                if old.quorum is not None:
                    quorums[part_id] = old.quorum
                continue
            held[part_id] = locks.announced(
                ((daemon, hosted.locks) for daemon, hosted in told), group.members
            )
            for _, hosted in told:
                if hosted.quorum is not None:
                    quorums[part_id] = quorum.announced(hosted.quorum, group.members)
        if len(part_ids) == 1:
            group.locks = held[part_ids[0]]
            group.quorum = quorums.get(part_ids[0])
            self._note(group)
            return
        place = group.view.lts
        if quorums:
            group.quorum = quorum.merged(list(quorums.values()), group.members, place)
            self._note(group)
        if any(held.values()):
            leading = sorted(part_ids, key=lambda part: (part not in quorums or not quorums[part].has, part))
            group.locks = locks.merged((held[part] for part in leading), place, group.may_go_on)
