"""Proposals by themselves: which view follows from what was gathered, and which proposals are ignored."""

from typing import Any

import pytest
from host_notes import Notes
from small_worlds import world_config

from antiphon.core.membership.gathering import Gathering
from antiphon.core.membership.proposals import Proposals
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Proposal, Station, mask_bytes

ME, INCARNATION = 0, 100
ALONE = DaemonView(1_024, (ME,), (INCARNATION,), ())


class Accepted:
    """A formation that only notes what is accepted."""

    def __init__(self) -> None:
        self.views: list[DaemonView] = []

    def accept(self, view: DaemonView, now_us: int) -> None:
        self.views.append(view)


class Daemon:
    """Daemon 0 of three in a mesh of sites."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.standing = Standing(ME, self.notes, ALONE, 0)
        self.gathering = Gathering()
        self.accepted: Any = Accepted()
        self.proposals = Proposals(
            world_config(3, mesh=True),
            ME,
            INCARNATION,
            self.notes,
            self.standing,
            self.gathering,
            self.accepted,
        )


def proposal(id: int = 2_049, incarnation: int = INCARNATION) -> Proposal:
    """A view of three daemons, of which 1 has links to both others."""
    return Proposal.of(id, (0, 1, 2), (incarnation, 101, 102), ((0, 1), (1, 2)))


def test_a_view_is_proposed_with_a_new_stamp_and_the_links_that_work() -> None:
    daemon = Daemon()
    for number, live in ((0, (1,)), (1, (0, 2)), (2, (1,))):
        daemon.gathering.learn(Station(number, 100 + number, 1, 0, 0, mask_bytes(live)), 0)
    daemon.proposals.propose(frozenset((0, 1, 2)), {(0, 1), (1, 2)}, 7)
    (view,) = daemon.accepted.views
    assert view.id == daemon.notes.clock > ALONE.id
    assert (view.members, view.incarnations) == ((0, 1, 2), (100, 101, 102))
    assert view.links == ((0, 1), (1, 2)), "the pair that does not work is routed around"


def test_a_proposal_of_a_neighbour_is_accepted() -> None:
    daemon = Daemon()
    daemon.proposals.receive(1, proposal(), 7)
    assert daemon.accepted.views == [DaemonView(2_049, (0, 1, 2), (100, 101, 102), ((0, 1), (1, 2)))]


@pytest.mark.parametrize(
    ("sender", "proposed", "state"),
    [
        pytest.param(1, proposal(1_024), State.GATHER, id="not newer than what was accepted"),
        pytest.param(1, proposal(incarnation=99), State.GATHER, id="for a former process"),
        pytest.param(2, proposal(), State.GATHER, id="from no neighbour in it"),
        pytest.param(1, proposal(), State.STATETRANS, id="while a view is formed"),
        pytest.param(1, proposal(), State.EVS, id="while a view is recovered"),
    ],
)
def test_other_proposals_are_ignored(sender: int, proposed: Proposal, state: State) -> None:
    daemon = Daemon()
    daemon.standing.state = state
    daemon.proposals.receive(sender, proposed, 7)
    assert daemon.accepted.views == []
