"""Which links a view of daemons uses: few of those that work, and enough to connect all members.

Follows: thesis 3.2 and 6.1: the daemons of a site form a segment, and its representative, the member with the
smallest number, represents it to the other sites.
Deviations: where two daemons of a site cannot reach each other, it has several segments, in each of which
all daemons reach one another. Where two representatives cannot reach each other, another pair that works is
taken instead. A path that is broken, or open in one direction only, is thereby routed around rather than
making the membership fail.
Checked by: tests/unit/test_topology.py.
"""

from collections.abc import Collection, Sequence

from antiphon.config import Config

Pair = tuple[int, int]
"""Two daemons, the smaller number first."""
Segment = tuple[int, ...]
"""Daemons of one site that all reach one another, ascending; the first one represents them."""


def choose_links(config: Config, members: Collection[int], live: Collection[Pair]) -> tuple[Pair, ...]:
    """The links of a view of `members`, sorted: a function of its arguments, so that all daemons agree.

    `live` are the pairs of members that work in both directions; they connect all members.
    """
    works = frozenset(live)
    chosen = _between_sites(config, works)
    for segment in segments(config, members, works):
        chosen.update((one, other) for one in segment for other in segment if one < other)
    parts = _Parts(members)
    for pair in chosen:
        parts.join(pair)
    if parts.count > 1:
        by_cost = sorted(works - chosen, key=lambda pair: (config.link_between(*pair).cost, pair))
        chosen.update(pair for pair in by_cost if parts.join(pair))
    assert parts.count == 1, "the live pairs do not connect the members"
    return tuple(sorted(chosen))


def segments(config: Config, members: Collection[int], pairs: Collection[Pair]) -> tuple[Segment, ...]:
    """The `members` of each site, put together so that all of a segment are joined by pairs.

    The links that were chosen from some pairs give the same segments as these.
    """
    joined = frozenset(pairs)
    found: list[list[int]] = []
    for member in sorted(members):
        site = config.site_of(member)
        for segment in found:
            if config.site_of(segment[0]) == site and all((mate, member) in joined for mate in segment):
                segment.append(member)
                break
        else:
            found.append([member])
    return tuple(map(tuple, found))


def component(start: int, live: Collection[Pair]) -> frozenset[int]:
    """The daemons that a chain of live pairs connects with `start`, and `start` itself."""
    neighbours: dict[int, list[int]] = {}
    for one, other in live:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    reached = {start}
    frontier = [start]
    while frontier:
        for neighbour in neighbours.get(frontier.pop(), ()):
            if neighbour not in reached:
                reached.add(neighbour)
                frontier.append(neighbour)
    return frozenset(reached)


def _between_sites(config: Config, works: frozenset[Pair]) -> set[Pair]:
    """For every two sites the smallest pair that works: that of their representatives, if it does."""
    smallest: dict[tuple[int, int], Pair] = {}
    for pair in works:
        sites = config.site_of(pair[0]), config.site_of(pair[1])
        if sites[0] != sites[1] and (sites not in smallest or pair < smallest[sites]):
            smallest[sites] = pair
    return set(smallest.values())


class _Parts:
    """Daemons that are in one part with those they were joined to (Kruskal's forest)."""

    def __init__(self, members: Collection[int]) -> None:
        self.count = len(members)
        self._above = {member: member for member in members}

    def join(self, pair: Pair) -> bool:
        """Whether the two were in different parts until now."""
        one, other = map(self._top, pair)
        if one == other:
            return False
        self._above[one] = other
        self.count -= 1
        return True

    def _top(self, member: int) -> int:
        above = self._above
        while above[member] != member:
            above[member] = member = above[above[member]]
        return member


def site_representative(config: Config, members: Sequence[int], daemon: int) -> int:
    """The member of a view that represents a daemon's site: the smallest one there."""
    site = config.site_of(daemon)
    return min(member for member in members if config.site_of(member) == site)


def missing_links(
    config: Config, members: Sequence[int], neighbours: Collection[int], me: int
) -> frozenset[int]:
    """The members of a view to which a daemon should have a link and has none: its representative, or if it
    is one, those of neighbouring sites."""
    wanted = {site_representative(config, members, me)}
    if wanted == {me}:
        smallest: dict[int, int] = {}
        for number in members:  # ascending
            smallest.setdefault(config.site_of(number), number)
        wanted = set(smallest.values()) & set(config.neighbours_of(me))
    return frozenset(wanted - {me, *neighbours})
