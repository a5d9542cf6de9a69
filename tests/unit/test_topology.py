"""The links of a view: enough to reach everybody, no more than needed when all works, alike everywhere."""

from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon import config
from antiphon.config import Config, DaemonConfig, LinkConfig, SiteConfig
from antiphon.core.overlay.topology import Pair, choose_links, component, segments

often = settings(deadline=None, max_examples=200)


def cluster(sizes: list[int], links: dict[Pair, float] | None = None) -> Config:
    """Sites of these sizes, linked at these costs; without links, each with each."""
    numbers = iter(range(1, 1 + sum(sizes)))
    return config.build(
        tuple(
            SiteConfig(
                f"s{site}",
                tuple(DaemonConfig(f"d{next(numbers)}", f"h{site}:{1 + at}") for at in range(size)),
            )
            for site, size in enumerate(sizes)
        ),
        tuple(
            LinkConfig((f"s{one}", f"s{other}"), cost=cost) for (one, other), cost in (links or {}).items()
        ),
    )


def configured_pairs(layout: Config) -> list[Pair]:
    return [pair for pair in combinations(range(layout.daemon_count), 2) if layout.are_neighbours(*pair)]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Config, frozenset[int], list[Pair]]:
    """A configuration, some members of it, and live pairs that connect them."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    tree = {(draw(st.integers(0, site - 1)), site): 1.0 for site in range(1, len(sizes))}
    more = [pair for pair in combinations(range(len(sizes)), 2) if pair not in tree and draw(st.booleans())]
    costs = {pair: float(draw(st.integers(1, 3))) for pair in [*tree, *more]}
    layout = cluster(sizes, costs)
    works = [pair for pair in configured_pairs(layout) if draw(st.integers(0, 2))]
    members = component(draw(st.integers(0, layout.daemon_count - 1)), works)
    return layout, members, [pair for pair in works if pair[0] in members]


# Properties -----------------------------------------------------------------------------------------------


@often
@given(worlds())
def test_everybody_is_reached_over_links_that_work(world: tuple[Config, frozenset[int], list[Pair]]) -> None:
    layout, members, live = world
    links = choose_links(layout, members, live)
    assert set(links) <= set(live)
    assert component(min(members), links) == members
    assert list(links) == sorted(set(links))


@often
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_known_does_not_matter(
    world: tuple[Config, frozenset[int], list[Pair]], chance: Random
) -> None:
    layout, members, live = world
    order = chance.sample(sorted(members), len(members))
    assert choose_links(layout, order, chance.sample(live, len(live))) == choose_links(layout, members, live)


@often
@given(worlds())
def test_no_link_goes_where_others_already_lead(world: tuple[Config, frozenset[int], list[Pair]]) -> None:
    """Those inside of segments, one link for two sites, and what connects the rest."""
    layout, members, live = world
    links = choose_links(layout, members, live)
    inside = {
        pair for segment in segments(layout, sorted(members), live) for pair in combinations(segment, 2)
    }
    joined: dict[Pair, Pair] = {}
    for one, other in sorted(live):
        if layout.site_of(one) != layout.site_of(other):
            joined.setdefault((layout.site_of(one), layout.site_of(other)), (one, other))
    wanted = inside | set(joined.values())
    assert wanted <= set(links)
    for extra in set(links) - wanted:
        assert component(extra[0], set(links) - {extra}) != members, "this link was not needed"


@often
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_when_all_works_each_site_is_one_segment_and_representatives_speak(sizes: list[int]) -> None:
    layout = cluster(sizes)
    firsts = [sum(sizes[:site]) for site in range(len(sizes))]
    inside = [
        pair
        for first, size in zip(firsts, sizes, strict=True)
        for pair in combinations(range(first, first + size), 2)
    ]
    links = choose_links(layout, range(layout.daemon_count), configured_pairs(layout))
    assert links == tuple(sorted([*inside, *combinations(firsts, 2)]))


@often
@given(worlds())
def test_the_chosen_links_give_the_same_segments_as_all_pairs_that_work(
    world: tuple[Config, frozenset[int], list[Pair]],
) -> None:
    layout, members, live = world
    found = segments(layout, sorted(members), live)
    assert segments(layout, sorted(members), choose_links(layout, members, live)) == found
    assert sorted(member for segment in found for member in segment) == sorted(members)
    for segment in found:
        assert len({layout.site_of(member) for member in segment}) == 1
        assert set(combinations(segment, 2)) <= set(live)


# Examples -------------------------------------------------------------------------------------------------


def test_a_view_of_one_needs_no_links() -> None:
    assert choose_links(cluster([2, 1]), [1], []) == ()


def test_sites_that_no_link_joins_are_reached_through_others() -> None:
    layout = cluster([1, 1, 1], {(0, 1): 1.0, (1, 2): 1.0})
    assert choose_links(layout, range(3), configured_pairs(layout)) == ((0, 1), (1, 2))


def test_the_next_member_stands_in_for_a_representative_that_is_gone() -> None:
    layout = cluster([2, 3])
    live = [pair for pair in configured_pairs(layout) if 2 not in pair]
    assert choose_links(layout, [0, 1, 3, 4], live) == ((0, 1), (0, 3), (3, 4))


def test_representatives_that_cannot_reach_each_other_leave_it_to_the_smallest_pair_that_can() -> None:
    layout = cluster([2, 2])
    live = [pair for pair in configured_pairs(layout) if pair not in ((0, 2), (0, 3))]
    assert choose_links(layout, range(4), live) == ((0, 1), (1, 2), (2, 3))


def test_a_member_cut_off_from_its_representative_goes_through_its_site_before_another() -> None:
    layout = cluster([3, 1])
    live = [pair for pair in configured_pairs(layout) if pair != (0, 2)]
    assert choose_links(layout, range(4), live) == ((0, 1), (0, 3), (1, 2))
    live.remove((1, 2))
    assert choose_links(layout, range(4), live) == ((0, 1), (0, 3), (2, 3))


def test_a_site_in_two_halves_is_held_together_by_the_cheapest_pairs() -> None:
    layout = cluster([2, 1, 1], {(0, 1): 5.0, (0, 2): 2.0, (1, 2): 1.0})
    live = [pair for pair in configured_pairs(layout) if pair != (0, 1)]
    assert choose_links(layout, range(4), live) == ((0, 2), (0, 3), (1, 3), (2, 3))


def test_members_that_nothing_connects_are_a_mistake() -> None:
    with pytest.raises(AssertionError):
        choose_links(cluster([2, 2]), range(4), [(0, 1), (2, 3)])


def test_a_component_is_all_that_chains_of_pairs_reach() -> None:
    live = [(0, 3), (1, 2), (3, 4), (5, 6)]
    assert component(4, live) == {0, 3, 4}
    assert component(6, live) == {5, 6}
    assert component(7, live) == {7}
    assert component(0, list(product([0], range(1, 100)))) == set(range(100))
