"""One group as every daemon knows it, and what an event has done to it.

Follows: thesis 3.4.1 and 6.4.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import structs

from antiphon.core.groups.locks import Locks
from antiphon.core.groups.quorum import Quorum
from antiphon.types import Cause, View, ViewId

Member = tuple[int, int]
"""Daemon number and session number."""
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
        self.listeners: dict[int, int] = {}
        """The daemons that listen to it for edges, each with the number of receivers behind it."""
        self.locks = Locks()
        self.quorum: Quorum | None = None
        """None: no member wishes one."""

    @property
    def may_go_on(self) -> bool:
        """Whether messages may be sent to it, and locks be granted."""
        return self.quorum is None or self.quorum.has

    @property
    def quorum_word(self) -> str:
        """Whether it has a quorum: "yes", "no", "deciding", or "" if nobody wishes one."""
        if self.quorum is None:
            return ""
        return "yes" if self.quorum.has else "deciding" if self.quorum.is_deciding else "no"

    def look_at_locks(self, fence: int) -> None:
        """Whether it may go on decides whether anybody holds a lock."""
        if not self.locks:
            return
        if self.may_go_on:
            self.locks.resume(fence)
        else:
            self.locks.stop()

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

    def listen(self, daemon: int, site: int, receivers: int) -> None:
        """A daemon of a site listens, or tells anew for how many."""
        self.listeners[daemon] = receivers
        self.mask |= 1 << site

    def unlisten(self, daemon: int, site_of: Callable[[int], int]) -> None:
        """A daemon listens no longer."""
        if self.listeners.pop(daemon, None) is not None:
            self._clear(site_of(daemon), site_of)

    def _clear(self, site: int, site_of: Callable[[int], int]) -> None:
        """Take a site out of the mask unless it has members, listeners or joins."""
        if site not in self.joining and all(
            site_of(daemon) != site for daemon in (*self.hosts, *self.listeners)
        ):
            self.mask &= ~(1 << site)

    def sessions_at(self, daemon: int) -> Mapping[int, None]:
        """The sessions of its members at one daemon, in the order of their joins."""
        return self.hosts.get(daemon, _NO_SESSIONS)

    def show(self, cause: Cause = Cause.JOIN) -> View:
        """Its view as it is, for who comes in the middle of it."""
        return Change(self, cause, (), came_along=()).view

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
        view = View(group.name, group.view, members, came_along, self.cause, self._changed, self._parts)
        if group.listeners:
            view = structs.replace(view, receivers=sum(group.listeners.values()))
        if group.quorum is None and not group.locks:
            return view
        return structs.replace(
            view,
            has_quorum=group.may_go_on,
            is_deciding=group.quorum is not None and group.quorum.is_deciding,
            locks=group.locks.show_all(group.members.__getitem__),
        )

    @property
    def steps(self) -> int:
        """How much work it was: that of its view, if it was made."""
        return 1 if self.made is None else 1 + len(self.group.members)
