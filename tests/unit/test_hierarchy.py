"""Edges find their places: who becomes a coordinator, whom children choose, and who follows a lost one."""

from collections.abc import Iterator

import pytest

from antiphon import limits
from antiphon.core.edge.hierarchy import Choice, Hierarchy, Reason, Role
from antiphon.wire.edges import Neighbour, Probed

CORE = ("core0", "core1")


def coordinators(*names: str, room: int = 8) -> tuple[Neighbour, ...]:
    return tuple(Neighbour(name, (f"at-{name}",), room) for name in names)


def core(*names: str, few: int = 2, room: int = 8) -> Probed:
    """What a daemon of the core answers that has these coordinators."""
    return Probed(0, "d0", room, len(names), (), few, coordinators(*names))


def edge(name: str, *others: str, room: int = 8, few: int = 2, children: int = 0) -> Probed:
    return Probed(0, name, room, children, (name,), few, coordinators(name, *others))


class Watch:
    """One edge that is asked again and again; what it asks is answered by a table."""

    def __init__(self, name: str = "e9") -> None:
        self.now_us = 0
        self.hierarchy = Hierarchy(name, CORE, 0)
        self.answers: dict[str, tuple[Probed, int]] = {}
        self.asked: list[str] = []

    def turn(self, for_us: int = 0) -> None:
        """Time passes; whatever is asked is answered, or not."""
        end_us = self.now_us + for_us
        while True:
            while asked := self.hierarchy.probes(self.now_us):
                self.asked += asked
                for address in asked:
                    if address in self.answers:
                        answer, took_us = self.answers[address]
                        self.hierarchy.probed(address, answer, took_us, self.now_us)
            due_us = self.hierarchy.next_deadline_us()
            if due_us > end_us:
                break
            assert due_us > self.now_us
            self.now_us = due_us
        self.now_us = end_us

    def knows(self, distances_us: dict[str, int], few: int = 2, **options: int) -> "Watch":
        """The core has these coordinators, at these distances."""
        names = tuple(distances_us)
        self.answers["core0"] = (core(*names, few=few), 20_000)
        for name, took_us in distances_us.items():
            others = [one for one in names if one != name]
            self.answers[f"at-{name}"] = (edge(name, *others, few=few, **options), took_us)
        return self


@pytest.fixture
def watch() -> Iterator[Watch]:
    yield Watch()


def test_while_there_are_few_an_edge_starts_as_a_coordinator(watch: Watch) -> None:
    watch.knows({"e1": 1_000})
    watch.turn()
    assert (watch.hierarchy.role, watch.hierarchy.reason) == (Role.COORDINATOR, Reason.FEW)
    assert watch.hierarchy.choice().feeds[0] == "core0"


def test_where_there_are_enough_it_goes_to_the_nearest(watch: Watch) -> None:
    watch.knows({"e1": 9_000, "e2": 1_000, "e3": 5_000})
    watch.turn(10)
    assert (watch.hierarchy.role, watch.hierarchy.coordinator) == (Role.CHILD, "e2")
    assert watch.hierarchy.choice() == Choice(("at-e2",), ("at-e3", "at-e1"))


def test_one_without_room_is_left_alone(watch: Watch) -> None:
    watch.knows({"e1": 9_000, "e2": 1_000, "e3": 5_000})
    watch.answers["at-e2"] = (edge("e2", room=0), 1_000)
    watch.turn(10)
    assert watch.hierarchy.coordinator == "e3"


def test_the_search_asks_a_few_at_a_time(watch: Watch) -> None:
    watch.knows({f"e{number}": 1_000 + number for number in range(20, 60)})
    watch.hierarchy.probed("core0", watch.answers["core0"][0], 20_000, 0)
    assert len(watch.hierarchy.probes(0)) == limits.EDGE_PROBES


def test_edges_that_start_together_do_not_all_ask_the_same_ones() -> None:
    first = []
    for name in ("e1", "e2", "e3", "e4"):
        one = Watch(name).knows({f"c{number}": 1_000 for number in range(20)})
        one.hierarchy.probed("core0", one.answers["core0"][0], 20_000, 0)
        first.append(frozenset(one.hierarchy.probes(0)))
    assert len(set(first)) > 1


def test_who_finds_nobody_becomes_a_coordinator(watch: Watch) -> None:
    watch.answers["core0"] = (core("e1", "e2", "e3"), 20_000)
    watch.turn(2 * limits.EDGE_SEARCH_US)
    assert (watch.hierarchy.role, watch.hierarchy.reason) == (Role.COORDINATOR, Reason.NONE_FOUND)


def test_a_core_that_does_not_answer_is_not_the_only_one(watch: Watch) -> None:
    watch.answers["core1"] = (core(), 20_000)
    watch.turn(3 * limits.EDGE_PROBE_US)
    assert watch.hierarchy.role is Role.COORDINATOR
    assert watch.hierarchy.choice().feeds[0] == "core1"


def test_a_core_without_room_makes_children(watch: Watch) -> None:
    watch.knows({"e1": 1_000}, few=8)
    watch.turn()
    assert watch.hierarchy.role is Role.COORDINATOR
    watch.hierarchy.refused("core0", watch.now_us)
    watch.turn(10)
    assert (watch.hierarchy.role, watch.hierarchy.coordinator) == (Role.CHILD, "e1")


def test_a_child_whose_coordinator_is_lost_goes_to_the_next_nearest(watch: Watch) -> None:
    watch.knows({"e1": 9_000, "e2": 1_000, "e3": 5_000})
    watch.turn(10)
    watch.hierarchy.lost("at-e2", watch.now_us)
    assert (watch.hierarchy.role, watch.hierarchy.coordinator) == (Role.CHILD, "e3")
    assert watch.hierarchy.reason is Reason.LOST


def test_a_child_moves_to_one_that_is_much_nearer_and_only_then(watch: Watch) -> None:
    watch.knows({"e1": 9_000, "e2": 4_000, "e3": 5_000})
    watch.turn(10)
    assert watch.hierarchy.coordinator == "e2"
    watch.answers["at-e3"] = (watch.answers["at-e3"][0], 3_000)
    watch.turn(4 * limits.EDGE_DETERMINE_US)
    assert watch.hierarchy.coordinator == "e2"
    watch.answers["at-e3"] = (watch.answers["at-e3"][0], 1_000)
    watch.turn(4 * limits.EDGE_DETERMINE_US)
    assert (watch.hierarchy.coordinator, watch.hierarchy.reason) == ("e3", Reason.NEARER)


def test_about_as_many_children_take_over_as_coordinators_are_missing() -> None:
    """Four of six are missing, and forty children ask themselves."""
    chosen = 0
    for number in range(40):
        one = Watch(f"child{number}").knows({"e1": 1_000, "e2": 2_000, "e3": 2_000}, few=2, children=20)
        one.turn(10)
        assert one.hierarchy.role is Role.CHILD
        one.knows({"e1": 1_000, "e2": 2_000}, few=6, children=20)
        one.turn(limits.EDGE_DETERMINE_US)
        chosen += one.hierarchy.role is Role.COORDINATOR
    assert 3 <= chosen <= 16


def test_of_too_many_coordinators_only_those_without_children_go() -> None:
    left = 0
    for number in range(40):
        one = Watch(f"c{number}").knows({}, few=4)
        one.turn()
        assert one.hierarchy.role is Role.COORDINATOR
        one.knows({f"e{other}": 1_000 for other in range(15)}, few=4)
        one.hierarchy.children = number % 2
        one.turn(2 * limits.EDGE_DETERMINE_US)
        left += one.hierarchy.role is Role.CHILD
        assert one.hierarchy.role is not Role.CHILD or not one.hierarchy.children
    assert left


def test_each_edge_asks_a_bounded_number_whatever_their_number(watch: Watch) -> None:
    watch.knows({f"e{number}": 1_000 + number for number in range(60)})
    watch.turn(10)
    watch.asked.clear()
    watch.turn(100 * limits.EDGE_DETERMINE_US)
    assert len(watch.asked) <= 101 * limits.EDGE_PROBES


def test_nobody_attaches_to_one_that_gets_its_feed_from_here(watch: Watch) -> None:
    watch.knows({"e1": 9_000, "e2": 1_000, "e3": 5_000})
    watch.answers["at-e2"] = (Probed(0, "e2", 8, 0, ("e2", "e9"), 2, ()), 1_000)
    watch.turn(10)
    assert watch.hierarchy.coordinator == "e3"
