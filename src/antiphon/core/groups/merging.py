"""Groups put together again after daemons have come (the state GGATHER of thesis 6.4.6).

While it lasts no client message is ordered here. Daemons that are done earlier may send already; what they
send is ordered after every GROUPS message, whatever its service (the thesis takes that for granted).
"""

from antiphon.core.groups.events import HostedGroup


class Merging:
    """The GROUPS messages of one daemon view."""

    def __init__(self, members: tuple[int, ...]) -> None:
        self.gathered: dict[int, tuple[HostedGroup, ...]] = {}
        self._missing = set(members)

    @property
    def missing(self) -> tuple[int, ...]:
        """The daemons whose members are not known yet."""
        return tuple(sorted(self._missing))

    def add(self, daemon: int, groups: tuple[HostedGroup, ...]) -> bool:
        """A GROUPS message is delivered; whether it was the last one."""
        self.gathered[daemon] = groups
        self._missing.discard(daemon)
        return not self._missing
