"""The states of the daemon membership, and what it asks of the node around it."""

from enum import IntEnum
from typing import Protocol

from antiphon.core.view import DaemonView


class State(IntEnum):
    """Where the membership of a daemon stands (thesis 6.1.1)."""

    OP = 1
    """A view is installed and works."""
    SEG = 2
    """The view is lost: who is there in this site?"""
    REP = 3
    """Another daemon of this site speaks for this one."""
    GATHER = 4
    """Who else is there, in other sites and in other views?"""
    STATETRANS = 5
    """A view is being formed: every member tells its state."""
    EVS = 6
    """Every member gets what it lacks of its old view."""

    @property
    def word(self) -> str:
        return self.name.lower()


FORMING = (State.STATETRANS, State.EVS)
"""A view was proposed and accepted, and is not complete."""


class Host(Protocol):
    """What the membership asks of the node around it."""

    @property
    def clock(self) -> int:
        """The Lamport clock."""

    def tick(self) -> int:
        """A new stamp of the Lamport clock."""

    def witness(self, lts: int) -> None:
        """Another daemon's clock shows this."""

    def freeze(self) -> None:
        """The installed view stops working: nothing more is sent or received in it."""

    def form(self, view: DaemonView, now_us: int) -> None:
        """Build the links of `view` and begin to exchange state over them."""

    def give_up(self) -> None:
        """Drop the view that is being formed."""

    def waits_for(self) -> tuple[int, ...]:
        """The members of the view that is being formed without which its next step cannot be done."""

    def entered(self, state: str, reason: str, now_us: int) -> None:
        """A state was entered, for those who watch."""
