"""What a node reports to an observer: the events of the thesis at the boundary below groups (B3).

Nothing depends on an observer: it is for traces and the questions that are asked of them.
"""

from collections.abc import Iterable, Sequence

from antiphon.core.view import DaemonView
from antiphon.types import View
from antiphon.wire.bundle import Header


class Observer:
    """Does nothing; a watcher overrides the methods for the events that it wants."""

    def sent(self, view_id: int, header: Header) -> None:
        """A bundle of this daemon got its place in the order (ssend)."""

    def refused(self, message: tuple[int, int, int, int], count: int) -> None:
        """Messages of a session here were not sent, because a group has no quorum: `count` of them, from
        this one on (daemon, incarnation, session, sequence)."""

    def retained(self, view_id: int, header: Header) -> None:
        """All bytes of a bundle that takes part in the order are here; also told of own bundles."""

    def delivered(self, view_id: int, header: Header, place: int) -> None:
        """A bundle is delivered (sdeliver): handed to the groups of this daemon. `place` is where it stands
        in the agreed order; a reliable or FIFO bundle may be delivered earlier than that."""

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

    def regrouped(self, view: View, sessions: Iterable[tuple[int, int]]) -> None:
        """A view of a group goes to clients of this daemon. `sessions` are those that it means, as daemon and
        session number, in the order of their names: its members, then those in `changed` who are gone. They
        belong to the processes of the daemon view `view.id.epoch`: names alone do not tell, since a session
        that is lost to this daemon may end, and another one take its name, before the view is made."""

    def sponsored(self, session: int, private_name: str) -> None:
        """This daemon sends in the name of a session at an edge from now on: as `session`."""

    def submitted(self, session: int, bundles: Sequence[bytes | bytearray | memoryview]) -> None:
        """Bundles of such a session have come, and wait for their turn."""

    def unsponsored(self, session: int) -> None:
        """Nothing more comes of such a session."""

    def entered(self, state: str, reason: str, now_us: int) -> None:
        """The membership entered a state ("op", "seg", ...; groups: "gop", ...) for a named reason."""
