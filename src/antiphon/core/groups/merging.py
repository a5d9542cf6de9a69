"""Groups put together again after daemons have come (the state GGATHER of thesis 6.4.6).

While it lasts no client message is ordered here. Daemons that are done earlier may send already; what they
send is ordered after every GROUPS message, whatever its service (the thesis takes that for granted).
"""

from collections.abc import Iterable

from antiphon.core.groups.membership import Row
from antiphon.wire.events import HostedGroup


class Merging:
    """The GROUPS messages of one daemon view: each daemon tells its members in one or more of them.

    What daemons tell that have come along from the same view is `known` already, if groups were whole in it,
    and is not looked at.
    """

    def __init__(self, members: Iterable[int], known: frozenset[int] = frozenset()) -> None:
        self.rows: dict[str, list[Row]] = {}
        """What was told, by group."""
        self.known = known
        self._missing = set(members)

    @property
    def missing(self) -> tuple[int, ...]:
        """The daemons whose members are not all known yet."""
        return tuple(sorted(self._missing))

    def add(self, daemon: int, groups: tuple[HostedGroup, ...], is_last: bool = True) -> bool:
        """A GROUPS message is delivered; whether that was the last one of all."""
        for group in groups:
            self.rows.setdefault(group.name, []).append((daemon, group))
        if is_last:
            self._missing.discard(daemon)
        return not self._missing
