"""What the membership asks of the node around it."""

from typing import Protocol

from antiphon.core.view import DaemonView


class MembershipHost(Protocol):
    """The node, as the membership sees it: a Lamport clock, and the working parts of its views."""

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

    def tell_progress(self, now_us: int) -> None:
        """Tell the members of the view that is being formed that something comes in here, if it does."""

    def entered(self, state: str, reason: str, now_us: int) -> None:
        """A state was entered, for observers."""
