"""A daemon's status as JSON, page by page, and what several of them tell.

A daemon may have tens of thousands of groups, and the thread that orders messages answers. So a page has
`PAGE_BYTES` of groups and sessions at most, and is made in steps of a fraction of a millisecond each (but for
the first, the overview), between which other work goes on. Pages show what is so when each is made.

The first page has the overview, and then groups by name and sessions by number as far as they fit. `next`
says where the following page begins, and is null in the last one.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.core.groups.sessions import Sessions
from antiphon.core.status import session_row
from antiphon.errors import BadFrame
from antiphon.wire.frames import AskStatus

STATUS_MAX_BYTES = limits.CONTROL_FRAME_MAX_BYTES - 1_024
"""Leaves room for the frame around it."""
PAGE_BYTES = 64 * 1024
"""The approximate size of one page of groups and sessions."""
PAGE_GROUPS = 2_048
PAGE_SESSIONS = 512
SEARCHED_AT_ONCE = 2_000
"""Names that are compared in one step."""
TOLD_AT_ONCE = 200
"""Groups, and members of one group, that are told in one step."""
ROW_BYTES = 240
"""What a session's row has besides names."""

Steps = Generator[None, None, bytes]


class Place(Struct, frozen=True):
    """Where a page begins: behind a group, behind some members of it, or behind a session.

    >>> Place.parse("g tea 500"), Place.parse("s 17").session, str(Place("tea", 500)), str(Place(session=17))
    (Place(group='tea', member=500, session=None), 17, 'g tea 500', 's 17')
    """

    group: str = ""
    member: int = 0
    """How many members of `group` were told; 0: all of them."""
    session: int | None = None
    """The last session that was told; None while there are groups to tell."""

    def __str__(self) -> str:
        return f"g {self.group} {self.member}" if self.session is None else f"s {self.session}"

    @classmethod
    def parse(cls, text: str) -> "Place":
        """The place that `str` made, or the beginning for an empty text; BadFrame for anything else."""
        try:
            match text.split(" "):
                case [""]:
                    return cls()
                case ["g", group, member] if member.isdecimal():
                    return cls(group, int(member))
                case ["s", session]:
                    return cls(session=int(session))
        except ValueError:
            pass
        raise BadFrame("control frame: no place in a status")


class Group(Protocol):
    """A group with the private names of its members."""

    @property
    def members(self) -> Mapping[Any, str]: ...


def page(
    groups: Mapping[str, Group],
    sessions: Sessions,
    request: AskStatus,
    overview: Callable[[], dict[str, Any]],
    output: "Output",
) -> Steps:
    """The steps that make a page; the last one returns it as JSON. BadFrame at once for a bad request."""
    return _Page(groups, sessions, request, Place.parse(request.after), overview, output).steps()


Output = Callable[[Iterable[int]], dict[int, int]]
"""How many bytes wait for each of these sessions for which some do."""


class _Page:
    """One page that is being made."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        sessions: Sessions,
        request: AskStatus,
        place: Place,
        overview: Callable[[], dict[str, Any]],
        output: Output,
    ) -> None:
        self._all_groups = groups
        self._all_sessions = sessions
        self._request = request
        self._place = place
        self._overview = overview
        self._output = output
        self._groups: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        self._sessions: list[dict[str, object]] = []
        self._room_bytes = PAGE_BYTES
        self._left_groups = self._left_sessions = self._left_members = 0
        self._next: Place | None = None

    def steps(self) -> Steps:
        told: dict[str, Any] = {"runtime": {}}
        if not self._request.after:
            told = self._overview()
            yield
        if self._place.session is None:
            yield from self._tell_groups()
        yield from self._tell_sessions()
        numbers = [int(str(row["number"])) for row in self._sessions]
        told["runtime"]["output_bytes"] = self._output(numbers)
        told |= {"groups": self._groups, "sessions": self._sessions}
        not_shown = {
            "groups": self._left_groups,
            "sessions": self._left_sessions,
            "members": self._left_members,
        }
        if any(not_shown.values()):
            told["not_shown"] = not_shown
        if self._sizes:
            told["group_sizes"] = self._sizes
        told["next"] = None if self._next is None else str(self._next)
        yield
        return _encoded(told)

    def _tell_groups(self) -> Generator[None, None, None]:
        groups = self._all_groups
        most = _least(self._request.groups, PAGE_GROUPS)
        names, beyond = yield from _search(list(groups), self._place, most)
        wanted = _least(self._request.groups, beyond)
        self._left_groups = beyond
        for told, name in enumerate(names, 1):
            self._left_groups -= 1
            if name not in groups:  # its last member has left meanwhile
                continue
            last = yield from self._tell_members(name)
            if last or (told < wanted and (self._room_bytes <= 0 or told == len(names))):
                self._next = Place(name, last)
                return
            if not told % TOLD_AT_ONCE:
                yield

    def _tell_members(self, name: str) -> Generator[None, None, int]:
        """Put a group on the page; how many members were told if there is no room for all, else 0."""
        members = self._all_groups[name].members
        start = self._place.member if name == self._place.group else 0
        told = self._groups.setdefault(name, [])
        self._room_bytes -= len(name) + 6
        most = _least(self._request.members, len(members))
        while start < most:
            some = list(islice(members.values(), start, min(start + TOLD_AT_ONCE, most)))
            told += some
            start += len(some)
            self._room_bytes -= sum(map(len, some)) + 3 * len(some)
            if self._room_bytes <= 0 and start < most:
                return start
            yield
            if self._all_groups.get(name) is None or not some:
                break
        left = max(0, len(members) - start)
        if left:
            self._left_members += left
            self._sizes[name] = len(members)
        return 0

    def _tell_sessions(self) -> Generator[None, None, None]:
        sessions = self._all_sessions
        after = -1 if self._place.session is None else self._place.session
        numbers = [session.number for session in sessions if session.number > after]
        most = _least(self._request.sessions, len(numbers))
        self._left_sessions = len(numbers)
        yield
        if self._next is not None:
            return
        for told, number in enumerate(numbers[:most]):
            if self._room_bytes <= 0 or told >= PAGE_SESSIONS:
                self._next = Place(session=numbers[told - 1] if told else after)
                return
            self._left_sessions -= 1
            session = sessions.get(number)
            if session is None:  # it has ended meanwhile
                continue
            self._sessions.append(session_row(session))
            self._room_bytes -= ROW_BYTES + sum(map(len, session.groups)) + 3 * len(session.groups)
            if not told % 16:
                yield


def _least(wanted: int | None, bound: int) -> int:
    return bound if wanted is None else min(wanted, bound)


def _search(names: list[str], place: Place, most: int) -> Generator[None, None, tuple[Sequence[str], int]]:
    """The first `most` names from a place on, in order, and how many there are from there on in all."""
    found: list[str] = []
    count = 0
    for start in range(0, len(names), SEARCHED_AT_ONCE):
        some = names[start : start + SEARCHED_AT_ONCE]
        some = [name for name in some if name > place.group or (place.member and name == place.group)]
        count += len(some)
        found = sorted(found + some)[:most]
        yield
    return found, count


def _encoded(told: dict[str, Any]) -> bytes:
    """As JSON that fits a frame: of a cluster of hundreds of daemons, perhaps without its oldest rounds."""
    answer = msgspec.json.encode(told)
    while len(answer) > STATUS_MAX_BYTES and told.get("rounds"):
        told["rounds"] = told["rounds"][(len(told["rounds"]) + 1) // 2 :]
        answer = msgspec.json.encode(told)
    return answer


def has_formed(told: Iterable[Mapping[str, Any]], daemons: Collection[str]) -> bool:
    """Whether those who told this are in one view of exactly `daemons`, and messages flow in it.

    >>> one, other = ({"view": {"id": 7, "members": ["a", "b"]}, "state": "op", "group_state": "gop"},) * 2
    >>> has_formed([one, other], ["a", "b"])
    True
    >>> has_formed([one, {**other, "state": "gather"}], ["a", "b"]), has_formed([one], ["a", "b", "c"])
    (False, False)
    """
    answers = list(told)
    return len({answer["view"]["id"] for answer in answers}) == 1 and all(
        set(answer["view"]["members"]) == set(daemons)
        and (answer["state"], answer["group_state"]) == ("op", "gop")
        for answer in answers
    )
