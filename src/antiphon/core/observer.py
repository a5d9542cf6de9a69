"""What a node tells those who watch it: the events of the thesis at the boundary below groups (B3).

Nothing depends on an observer: it is for traces and the questions that are asked of them.
"""

from antiphon.core.membership.view import DaemonView
from antiphon.wire.bundle import Header


class Observer:
    """Does nothing; whoever wants to know overrides what it wants to know."""

    def sent(self, view_id: int, header: Header) -> None:
        """A bundle of this daemon got its place in the order (ssend)."""

    def held(self, view_id: int, header: Header) -> None:
        """All bytes of a bundle that takes part in the order are here; also told of own bundles."""

    def delivered(self, view_id: int, header: Header) -> None:
        """A bundle is delivered (sdeliver): handed to the groups of this daemon at its place in the order."""

    def signalled(
        self,
        view_id: int,
        transitional: tuple[int, ...],
        committed: tuple[int, ...],
        groups: tuple[str, ...],
    ) -> None:
        """The transitional signal in the daemon view `view_id` (stranssig), once per view that ends, with no
        `groups`. Before it there may be early ones for some groups alone: what is delivered to these after
        such a signal counts as after the signal. What `committed` sent is delivered whatever is missing."""

    def installed(self, view: DaemonView, transitional: tuple[int, ...]) -> None:
        """A daemon view is installed (sview), also the first one, which has this daemon alone."""

    def entered(self, state: str, reason: str, now_us: int) -> None:
        """The membership entered a state ("op", "seg", ...; groups: "gop", ...) for a named reason."""
