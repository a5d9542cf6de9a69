"""A shortest-path tree for every member of a view, computed alike everywhere.

Follows: Spread paper 3.2, thesis 3.3 (the paper names Dijkstra, the thesis Floyd-Warshall; any shortest-path
algorithm will do as long as all daemons break ties alike: here the smaller daemon number wins).
Deviations: the nodes of a tree are daemons, not sites, because a broken path may leave one daemon of a site
connected through another site only. Destinations are still named by their sites.
"""

import heapq
from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_

from msgspec import Struct

from antiphon.config import Config

Graph = dict[int, dict[int, float]]
"""Each member's neighbours and the cost of reaching them."""

_VIEWS_REMEMBERED = 4
"""All nodes of one process, as in the simulator, ask about the same view at the same time."""


class Branch(Struct, frozen=True):
    """One way out of a daemon for the bundles of one source."""

    neighbour: int
    """Number of the daemon at the other end of the link."""
    below: int
    """Mask of the sites of those daemons that are reached through it."""


class _Tree(Struct, frozen=True):
    """The shortest paths from one member."""

    children: dict[int, list[int]]
    """Of those members that pass something on, ascending."""
    below: dict[int, int]
    """For every member, the mask of the sites reached through it, its own among them."""


class _Routes(Struct, frozen=True):
    """The trees of a view.

    A member with a single link sends all it has to its neighbour, which spreads it as if it were its own: so
    the two share one tree, and most members of large sites need none.
    """

    masks: dict[int, int]
    """By member, the bit of its site."""
    roots: dict[int, int]
    """By source, the member whose tree it uses: itself, or its only neighbour."""
    trees: dict[int, _Tree]
    """By root."""

    def leaving(self, source: int, me: int) -> tuple[Branch, ...]:
        """The branches that leave `me` in the tree of `source`."""
        root = self.roots[source]
        tree = self.trees[root]
        if me == source != root:
            others = self._ways(tree, root, source)
            return (Branch(root, reduce(or_, (way.below for way in others), self.masks[root])),)
        return self._ways(tree, me, source)

    def _ways(self, tree: _Tree, member: int, source: int) -> tuple[Branch, ...]:
        return tuple(
            Branch(child, tree.below[child]) for child in tree.children.get(member, ()) if child != source
        )


def branches(
    config: Config, members: Sequence[int], links: Sequence[tuple[int, int]], me: int
) -> dict[int, tuple[Branch, ...]]:
    """For every source among `members`, the branches that leave `me` in that source's tree.

    `links` are those of the view: together they connect all members.
    """
    sites = tuple((member, config.site_of(member)) for member in members)
    edges = tuple((one, other, config.link_between(one, other).cost) for one, other in links)
    routes = _routes(sites, edges)
    return {source: routes.leaving(source, me) for source in members}


@lru_cache(_VIEWS_REMEMBERED)
def _routes(sites: tuple[tuple[int, int], ...], edges: tuple[tuple[int, int, float], ...]) -> _Routes:
    """From each member's site and each link's cost, which are all that decides them."""
    graph: Graph = {member: {} for member, _ in sites}
    for one, other, cost in edges:
        graph[one][other] = graph[other][one] = cost
    masks = {member: 1 << site for member, site in sites}
    roots = {member: next(iter(others)) if len(others) == 1 else member for member, others in graph.items()}
    trees = {root: _tree(paths(graph, root), masks) for root in set(roots.values())}
    return _Routes(masks, roots, trees)


def paths(graph: Graph, source: int) -> dict[int, int]:
    """The parent of every member but `source` on its shortest path from there, the nearest member first."""
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
