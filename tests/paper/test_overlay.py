"""Routing: Spread paper 3.2 and thesis 3.3."""

import random
from itertools import combinations

from antiphon import config
from antiphon.config import Config, DaemonConfig, LinkConfig, SiteConfig
from antiphon.core.overlay import routing, topology
from antiphon.core.overlay.routing import SITE, Branch, Graph

SEEDS = range(60)
Pair = tuple[int, int]


def random_config(seed: int) -> Config:
    """Two to nine sites of one to four daemons, linked at random."""
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(chance.randint(2, 9))]
    pairs = {tuple(sorted((name, names[chance.randrange(at)]))) for at, name in enumerate(names) if at}
    pairs |= {tuple(sorted(chance.sample(names, 2))) for _ in names}
    return config.build(
        tuple(
            SiteConfig(
                name,
                tuple(
                    DaemonConfig(f"d{name}-{at}", f"{name}:{1 + at}") for at in range(chance.randint(1, 4))
                ),
            )
            for name in names
        ),
        tuple(LinkConfig(pair, cost=float(chance.randrange(1, 5))) for pair in sorted(pairs)),
    )


def random_view(seed: int) -> tuple[Config, tuple[int, ...], tuple[Pair, ...]]:
    """A configuration, members of a view and the links that the overlay chooses, where some paths fail."""
    chance = random.Random(seed)
    layout = random_config(seed)
    failing = chance.choice((0.0, 0.1, 0.4))
    pairs = [pair for pair in combinations(range(layout.daemon_count), 2) if layout.are_neighbours(*pair)]
    works = [pair for pair in pairs if chance.random() >= failing]
    members = topology.component(chance.randrange(layout.daemon_count), works)
    live = [pair for pair in works if pair[0] in members]
    return layout, tuple(sorted(members)), topology.choose_links(layout, members, live)


class View:
    """A view with the routes of every member."""

    def __init__(self, seed: int) -> None:
        self.layout, self.members, self.links = random_view(seed)
        self.segments = topology.segments(self.layout, self.members, self.links)
        self.mates = {member: set(segment) - {member} for segment in self.segments for member in segment}
        self.tables = {
            member: routing.branches(self.layout, self.segments, self.links, member)
            for member in self.members
        }

    def graph(self) -> Graph:
        """Of the members; inside a segment everything is near."""
        graph: Graph = {member: {} for member in self.members}
        for one, other in self.links:
            cost = 0.0 if other in self.mates[one] else self.layout.link_between(one, other).cost
            graph[one][other] = graph[other][one] = cost
        return graph

    def parents(self, source: int) -> dict[int, int]:
        """Who gets the bundles of `source` from whom; nobody may get them twice."""
        parents: dict[int, int] = {}
        frontier = [(source, False)]
        while frontier:
            member, from_site = frontier.pop()
            for branch in self.tables[member][source]:
                is_ring = branch.neighbour == SITE
                if is_ring and from_site:
                    continue
                for other in self.mates[member] if is_ring else {branch.neighbour}:
                    assert other not in parents and other != source, "reached twice"
                    parents[other] = member
                    frontier.append((other, is_ring))
        return parents

    def below(self, source: int) -> dict[int, set[int]]:
        """For every member, those who get what it has got, and itself."""
        parents = self.parents(source)
        below: dict[int, set[int]] = {member: {member} for member in self.members}
        for member in parents:
            step = member
            while step != source:
                step = parents[step]
                below[step].add(member)
        return below


def sites(layout: Config, members: set[int]) -> int:
    """The mask of their sites."""
    return sum(1 << site for site in {layout.site_of(member) for member in members})


def test_the_members_of_a_view_are_reached_exactly_once():
    """Spread builds multicast dissemination trees with each site in the active membership forming one node on
    the tree. (paper 3.2; here each segment of a site is a node)"""
    for seed in SEEDS:
        view = View(seed)
        graph = view.graph()
        for source in view.members:
            parents = view.parents(source)
            assert {*parents, source} == set(view.members)
            assert all(member in graph[parent] for member, parent in parents.items())


def test_a_branch_names_the_sites_below_it():
    """Pruning: packets are not forwarded to child links of the tree which have no members interested in the
    packet. (paper 3.2)"""
    for seed in SEEDS:
        view = View(seed)
        for source in view.members:
            below = view.below(source)
            parents = view.parents(source)
            for member in view.members:
                for branch in view.tables[member][source]:
                    if branch.neighbour != SITE:
                        assert branch.below == sites(view.layout, below[branch.neighbour])
                    elif any(parents.get(mate) == member for mate in view.mates[member]):
                        reached = set().union(*(below[mate] for mate in view.mates[member]))
                        assert branch.below == sites(view.layout, reached)
                        assert branch.is_through == (reached != view.mates[member])


def distances(graph: Graph) -> dict[Pair, float]:
    """Floyd-Warshall, as the thesis has it: a second opinion."""
    table = {
        (one, other): 0.0 if one == other else graph[one].get(other, float("inf"))
        for one in graph
        for other in graph
    }
    for middle in graph:
        for one in graph:
            for other in graph:
                table[one, other] = min(table[one, other], table[one, middle] + table[middle, other])
    return table


def test_trees_are_shortest_paths():
    """Each Spread server independently calculates a shortest path multicast tree from each site to every
    other. (thesis 3.3)"""
    for seed in SEEDS:
        view = View(seed)
        graph = view.graph()
        table = distances(graph)
        for source in view.members:
            parents = view.parents(source)
            for member in parents:
                length, step = 0.0, member
                while step != source:
                    length += graph[parents[step]][step]
                    step = parents[step]
                assert abs(length - table[source, member]) < 1e-9


def test_all_daemons_compute_the_same_trees_whatever_the_order_of_links():
    """They are guaranteed to compute the same routing trees. (thesis 3.3)"""
    for seed in SEEDS:
        view = View(seed)
        shuffled = random.Random(seed).sample(view.links, len(view.links))
        for member in view.members:
            routing._routes.cache_clear()
            again = routing.branches(view.layout, view.segments, shuffled, member)
            assert again == view.tables[member]


def test_a_daemon_that_comes_or_goes_in_one_site_does_not_change_the_routes_of_others():
    """(thesis 6.1: sites see one another's representatives)"""
    layout = config.build(
        tuple(
            SiteConfig(
                f"s{site}", tuple(DaemonConfig(f"d{site}-{at}", f"h{site}:{1 + at}") for at in range(3))
            )
            for site in range(3)
        )
    )
    pairs = list(combinations(range(9), 2))
    tables = []
    for members in (tuple(range(9)), (0, 1, 2, 3, 5, 6, 7)):
        live = [pair for pair in pairs if set(pair) <= set(members)]
        links = topology.choose_links(layout, members, live)
        found = topology.segments(layout, members, links)
        tables.append({member: routing.branches(layout, found, links, member) for member in (0, 3, 6)})
    for member in (0, 3, 6):
        for source in (0, 3, 6):
            assert tables[0][member][source] == tables[1][member][source]


def test_of_two_paths_of_equal_cost_the_one_through_the_smaller_number_is_taken():
    layout = config.build(
        tuple(SiteConfig(f"s{site}", (DaemonConfig(f"d{site}", f"h:{1 + site}"),)) for site in range(4)),
        tuple(LinkConfig((f"s{one}", f"s{other}")) for one, other in ((0, 2), (0, 1), (2, 3), (1, 3))),
    )
    links = ((0, 1), (0, 2), (1, 3), (2, 3))
    assert routing.branches(layout, ((0,), (1,), (2,), (3,)), links, 0)[0] == (
        Branch(1, 0b1010),
        Branch(2, 0b0100),
    )
    assert routing.branches(layout, ((0,), (1,), (2,), (3,)), links, 3)[3] == (
        Branch(1, 0b0011),
        Branch(2, 0b0100),
    )


def test_a_site_may_lie_below_two_branches():
    """A daemon that its own site cannot reach hangs below another site; both ways lead to its site."""
    layout = config.build(
        (
            SiteConfig("s0", (DaemonConfig("d0", "h:1"),)),
            SiteConfig("s1", (DaemonConfig("d1", "h:2"), DaemonConfig("d2", "h:3"))),
        )
    )
    assert routing.branches(layout, ((0,), (1,), (2,)), ((0, 1), (0, 2)), 0)[0] == (
        Branch(1, 0b10),
        Branch(2, 0b10),
    )
    assert routing.branches(layout, ((0,), (1,), (2,)), ((0, 1), (0, 2)), 0)[1] == (Branch(2, 0b10),)
    assert routing.branches(layout, ((0,), (1,), (2,)), ((0, 1), (0, 2)), 1)[1] == (Branch(0, 0b11),)


def test_a_daemon_alone_has_no_branches():
    layout = random_config(1)
    assert routing.branches(layout, ((1,),), (), 1) == {1: ()}
