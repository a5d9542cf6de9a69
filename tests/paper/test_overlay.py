"""Routing: Spread paper 3.2 and thesis 3.3."""

import random

from antiphon import config
from antiphon.config import DaemonConfig, LinkConfig, SiteConfig
from antiphon.core.overlay import routing


def random_config(seed: int, sites: int) -> config.Config:
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(sites)]
    pairs = {tuple(sorted((names[number], names[chance.randrange(number)]))) for number in range(1, sites)}
    pairs |= {tuple(sorted(chance.sample(names, 2))) for _ in range(sites)}
    return config.build(
        tuple(
            SiteConfig(name, (DaemonConfig(f"d{name}", f"127.0.0.1:{5000 + i}"),))
            for i, name in enumerate(names)
        ),
        tuple(LinkConfig(pair, cost=float(chance.randrange(1, 5))) for pair in sorted(pairs)),
    )


def test_the_sites_of_a_tree_are_reached_exactly_once():
    """Spread builds multicast dissemination trees with each site in the active membership forming one node on
    the tree. (paper 3.2)"""
    for seed in range(40):
        sites = 2 + seed % 12
        graph = routing.adjacency(random_config(seed, sites))
        tables = [routing.branches(graph, site) for site in range(sites)]
        for source in range(sites):
            reached = {source}
            frontier = [(source, (1 << sites) - 1 & ~(1 << source))]
            while frontier:
                site, below = frontier.pop()
                covered = 0
                for branch in tables[site][source]:
                    assert branch.neighbour in graph[site]
                    assert not covered & branch.below, "two branches lead to one site"
                    assert branch.neighbour not in reached
                    covered |= branch.below
                    reached.add(branch.neighbour)
                    frontier.append((branch.neighbour, branch.below & ~(1 << branch.neighbour)))
                assert covered == below
            assert reached == set(range(sites))


def distances(graph: dict[int, dict[int, float]]) -> list[list[float]]:
    """Floyd-Warshall, as the thesis has it: a second opinion."""
    sites = range(len(graph))
    table = [[0.0 if a == b else graph[a].get(b, float("inf")) for b in sites] for a in sites]
    for middle in sites:
        for a in sites:
            for b in sites:
                table[a][b] = min(table[a][b], table[a][middle] + table[middle][b])
    return table


def test_trees_are_shortest_paths():
    """Each Spread server independently calculates a shortest path multicast tree from each site to every
    other. (thesis 3.3)"""
    for seed in range(40):
        graph = routing.adjacency(random_config(seed, 2 + seed % 12))
        table = distances(graph)
        for source in graph:
            parents = routing.tree(graph, source)
            for site in parents:
                length, step = 0.0, site
                while step != source:
                    length += graph[parents[step]][step]
                    step = parents[step]
                assert length == table[source][site]


def test_all_daemons_compute_the_same_trees_whatever_the_order_of_links():
    """They are guaranteed to compute the same routing trees. (thesis 3.3)"""
    for seed in range(20):
        one = random_config(seed, 10)
        links = list(one.links)
        random.Random(seed).shuffle(links)
        other = config.build(one.sites, tuple(links))
        for source in range(10):
            assert routing.tree(routing.adjacency(one), source) == routing.tree(
                routing.adjacency(other), source
            )
