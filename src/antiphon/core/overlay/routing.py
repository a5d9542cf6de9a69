"""A shortest-path tree for every segment of a view, computed alike everywhere.

Follows: Spread paper 3.2, thesis 3.3 (the paper names Dijkstra, the thesis Floyd-Warshall; any shortest-path
algorithm will do as long as all daemons break ties alike: here the smaller daemon number wins).
Deviations: the nodes of a tree are segments, not sites, because a broken path may leave one daemon of a site
connected through another site only. Destinations are still named by their sites.
"""

import heapq
from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_

from msgspec import Struct

from antiphon.config import Config
from antiphon.core.overlay.topology import Segment

Graph = dict[int, dict[int, float]]
"""Each segment's neighbours and the cost of reaching them."""

_VIEWS_REMEMBERED = 4
"""All nodes of one process, as in the simulator, ask about the same view at the same time."""


SITE = -1
"""The neighbour that stands for all other members of a daemon's segment."""


class Branch(Struct, frozen=True):
    """One way out of a daemon for the bundles of one source."""

    neighbour: int
    """Number of the daemon at the other end of the link, or SITE."""
    below: int
    """Mask of the sites of those daemons that are reached through it."""
    is_through: bool = True
    """Whether it leads to other segments."""


class _Tree(Struct, frozen=True):
    """The shortest paths from one segment."""

    children: dict[int, list[int]]
    """By segment that forwards to others, the segments to which it does, ascending."""
    below: dict[int, int]
    """For every segment, the mask of the sites reached through it, its own among them."""


class _Routes(Struct, frozen=True):
    """The trees of a view.

    A segment with a single link sends all it has to its neighbour, which spreads it as if it were its own: so
    the two share one tree.
    """

    masks: dict[int, int]
    """By segment, the bit of its site."""
    ends: dict[tuple[int, int], tuple[int, int]]
    """By two segments, the daemons of the first and of the second that have a link to each other."""
    roots: dict[int, int]
    """By source, the segment whose tree it uses: itself, or its only neighbour."""
    trees: dict[int, _Tree]
    """By root, its tree."""

    def leaving(self, source: int, segment: int, me: int, has_ring: bool) -> tuple[Branch, ...]:
        """The branches that leave `me`, a daemon of `segment`, in the tree of `source`."""
        root = self.roots[source]
        tree = self.trees[root]
        if segment == source != root:
            onward = [
                (root, reduce(or_, (mask for _, mask in self._ways(tree, root, source)), self.masks[root]))
            ]
        else:
            onward = self._ways(tree, segment, source)
        found = []
        inside = self.masks[segment]
        is_through = False
        for child, below in onward:
            here, there = self.ends[segment, child]
            if here == me:
                found.append(Branch(there, below))
            else:
                inside |= below
                is_through = True
        return (*found, Branch(SITE, inside, is_through)) if has_ring else tuple(found)

    def _ways(self, tree: _Tree, segment: int, source: int) -> list[tuple[int, int]]:
        return [(child, tree.below[child]) for child in tree.children.get(segment, ()) if child != source]


def branches(
    config: Config, segments: Sequence[Segment], links: Sequence[tuple[int, int]], me: int
) -> dict[int, tuple[Branch, ...]]:
    """For every member, the branches that leave `me` in the tree of its segment.

    `segments` and `links` are those of the view: together they connect all members.
    """
    source_of = {member: segment[0] for segment in segments for member in segment}
    sites = tuple((segment[0], config.site_of(segment[0])) for segment in segments)
    edges = tuple(
        (source_of[one], source_of[other], config.link_between(one, other).cost, one, other)
        for one, other in links
        if source_of[one] != source_of[other]
    )
    routes = _routes(sites, edges)
    has_ring = any(me in segment and len(segment) > 1 for segment in segments)
    leaving = {source: routes.leaving(source, source_of[me], me, has_ring) for source, _ in sites}
    return {member: leaving[source] for member, source in source_of.items()}


def ways(
    config: Config, segments: Sequence[Segment], links: Sequence[tuple[int, int]], me: int
) -> dict[int, tuple[int, float]]:
    """For every other source, the neighbour of `me` on the shortest path to it, and how many times the cost
    of that link the path has."""
    source_of = {member: segment[0] for segment in segments for member in segment}
    graph: Graph = {segment[0]: {} for segment in segments}
    ends: dict[int, tuple[float, int]] = {}  # by segment next to ours, the cost and the neighbour there
    for pair in links:
        one, other = map(source_of.__getitem__, pair)
        if one != other:
            cost = config.link_between(*pair).cost
            graph[one][other] = graph[other][one] = min(cost, graph[one].get(other, cost))
            if me in pair:
                neighbour = pair[1] if pair[0] == me else pair[0]
                found = (cost, neighbour)
                ends[source_of[neighbour]] = min(found, ends.get(source_of[neighbour], found))
    found_ways: dict[int, tuple[int, float]] = {}
    costs = {source_of[me]: 0.0}
    firsts: dict[int, int] = {}
    for node, parent in paths(graph, source_of[me]).items():
        costs[node] = costs[parent] + graph[parent][node]
        firsts[node] = first = node if parent == source_of[me] else firsts[parent]
        if first in ends:
            found_ways[node] = ends[first][1], costs[node] / ends[first][0]
    return found_ways


@lru_cache(_VIEWS_REMEMBERED)
def _routes(
    sites: tuple[tuple[int, int], ...], edges: tuple[tuple[int, int, float, int, int], ...]
) -> _Routes:
    """From each segment's site and each link's cost and ends, which are all that decides them."""
    graph: Graph = {segment: {} for segment, _ in sites}
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for one, other, cost, at_one, at_other in sorted(edges, key=lambda edge: edge[2], reverse=True):
        graph[one][other] = graph[other][one] = cost
        ends[one, other], ends[other, one] = (at_one, at_other), (at_other, at_one)
    masks = {segment: 1 << site for segment, site in sites}
    roots = {
        segment: next(iter(others)) if len(others) == 1 else segment for segment, others in graph.items()
    }
    trees = {root: _tree(paths(graph, root), masks) for root in set(roots.values())}
    return _Routes(masks, ends, roots, trees)


def paths(graph: Graph, source: int) -> dict[int, int]:
    """The parent of every node but `source` on its shortest path from there, the nearest node first."""
    parents: dict[int, int] = {}
    done: set[int] = set()
    heap: list[tuple[float, int, int]] = [(0.0, source, source)]
    while heap:
        distance, member, parent = heapq.heappop(heap)
        if member in done:
            continue
        done.add(member)
        parents[member] = parent
        for neighbour, cost in graph[member].items():
            if neighbour not in done:
                heapq.heappush(heap, (distance + cost, neighbour, member))
    del parents[source]
    return parents


def _tree(parents: dict[int, int], masks: dict[int, int]) -> _Tree:
    """Those farther away come later in `parents`: what is below them is known before it is asked for."""
    below = dict(masks)
    children: dict[int, list[int]] = {}
    for member, parent in reversed(parents.items()):
        below[parent] |= below[member]
        children.setdefault(parent, []).append(member)
    for some in children.values():
        some.sort()
    return _Tree(children, below)
