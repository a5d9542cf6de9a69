"""How a daemon looks at its neighbours: which it suspects, excuses, or sends the proposal again."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.config.timing import PRESETS
from antiphon.core.links.link import LinkState, Signs
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.suspicion import PAUSE_SHARE, Suspicion

LAN = PRESETS["lan"]
START_US = 50_000_000
NAMES = ("d0", "d1", "d2")


class World:
    """A daemon with two neighbours, and what the membership is told of them."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.links = {number: self.link() for number in (1, 2)}
        self.fading = SimpleNamespace(fading=frozenset())
        membership: Any = SimpleNamespace(
            timing=SimpleNamespace(
                **{name: getattr(LAN, name) for name in ("hello_us", "ask_us", "join_us", "suspect_us")},
                suspect_max_us=LAN.suspect_max_us,
            ),
            presence=SimpleNamespace(flapping=self.fading),
            loss=SimpleNamespace(lost_link=lambda number, reason, *_: self.told.append((number, reason))),
            formation=SimpleNamespace(pass_on=lambda number: self.told.append(("proposal", number))),
            excuse=lambda pause_us: self.told.append(("excuse", pause_us)),
        )
        self.suspicion = Suspicion(membership, lambda: self, NAMES, START_US)

    def neighbours(self) -> Iterator[tuple[int, Any]]:
        return iter(self.links.items())

    def link(self) -> Any:
        return SimpleNamespace(
            heard_us=START_US, state=LinkState.OPEN, reason="", ask_us=LAN.ask_us, slowest_us=0
        )


def test_a_neighbour_is_suspected_after_the_patience_with_it() -> None:
    world = World()
    patience_us = world.suspicion.patience_us(world.links[1])
    world.links[2].heard_us = START_US + patience_us
    world.suspicion.look(False, START_US + patience_us - 1)
    assert (world.told, world.fading.fading) == ([], {1})
    world.suspicion.look(False, START_US + patience_us)
    assert world.told == [(1, Reason.SILENCE)]


def test_a_neighbour_that_has_nothing_to_say_does_not_fade() -> None:
    world = World()
    asked_after_us = Signs(LAN.hello_us, LAN.ask_us).latest_us
    world.suspicion.look(False, START_US + asked_after_us)
    assert not world.fading.fading
    patience_us = world.suspicion.patience_us(world.links[1])
    world.suspicion.look(False, START_US + (asked_after_us + patience_us) // 2)
    assert (world.told, world.fading.fading) == ([], {1, 2})


def test_a_link_that_has_failed_is_lost_at_once() -> None:
    world = World()
    world.links[2].state = LinkState.FAILED
    world.suspicion.look(False, START_US)
    assert world.told == [(2, Reason.LINK_FAILED)]


@pytest.mark.parametrize("is_forming", [True, False])
def test_a_proposal_is_sent_again_until_the_link_answers(is_forming: bool) -> None:
    world = World()
    world.links[1].state = LinkState.CLOSED
    world.suspicion.look(is_forming, START_US)
    assert world.told == ([("proposal", 1)] if is_forming else [])


def test_a_pause_of_our_own_excuses_all() -> None:
    world = World()
    world.suspicion.awaited_us = START_US
    pause_us = LAN.suspect_us // PAUSE_SHARE + 1
    world.suspicion.notice_pause(START_US + pause_us)
    assert world.told == [("excuse", pause_us)]
    assert {link.heard_us for link in world.links.values()} == {START_US + pause_us}
    assert world.suspicion.pauses == 1


def test_a_short_delay_is_no_pause() -> None:
    world = World()
    world.suspicion.awaited_us = START_US
    world.suspicion.notice_pause(START_US + LAN.suspect_us // PAUSE_SHARE)
    assert world.told == []
