"""A shortest-path tree per source site, computed alike everywhere.

Follows: Spread paper 3.2, thesis 3.3 (the paper names Dijkstra, the thesis Floyd-Warshall; any shortest-path
algorithm will do as long as all daemons break ties alike: here the smaller site number wins).
"""

import heapq

from msgspec import Struct

from antiphon.config import Config


class Branch(Struct, frozen=True):
    """One way out of a site for the bundles of one source."""

    neighbour: int
    """Site number at the other end of the link."""
    below: int
    """Mask of the sites that are reached through it."""


def adjacency(config: Config) -> dict[int, dict[int, float]]:
    """Each site's neighbours and the cost of reaching them."""
    graph: dict[int, dict[int, float]] = {number: {} for number in range(len(config.sites))}
    for link in config.links:
        one, other = (config.site_number(name) for name in link.sites)
        graph[one][other] = graph[other][one] = link.cost
    return graph


def tree(graph: dict[int, dict[int, float]], source: int) -> dict[int, int]:
    """The parent of every site but `source` on its shortest path from `source`."""
    parents: dict[int, int] = {}
    done: set[int] = set()
    heap: list[tuple[float, int, int]] = [(0.0, source, source)]
    while heap:
        distance, site, parent = heapq.heappop(heap)
        if site in done:
            continue
        done.add(site)
        if site != source:
            parents[site] = parent
        for neighbour, cost in graph[site].items():
            if neighbour not in done:
                heapq.heappush(heap, (distance + cost, neighbour, site))
    return parents


def branches(graph: dict[int, dict[int, float]], site: int) -> list[tuple[Branch, ...]]:
    """For every source, the branches that leave `site` in that source's tree."""
    result = []
    for source in sorted(graph):
        parents = tree(graph, source)
        below: dict[int, int] = {}
        for target in parents:
            step = target
            while step != source and parents[step] != site:
                step = parents[step]
            if step != source:
                below[step] = below.get(step, 0) | 1 << target
        result.append(tuple(Branch(neighbour, below[neighbour]) for neighbour in sorted(below)))
    return result
