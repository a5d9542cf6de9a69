"""Groups put together again after daemons have come.

Follows: thesis 6.4.6 (the state GGATHER, figures 6.23 to 6.25).
Deviations: a daemon may need several GROUPS messages for its members. No message of a client is ordered in
this state, but daemons that have left it earlier may send already: what they send is ordered after every
GROUPS message, whatever its service, where the thesis takes for granted that nothing else comes in.
Checked by: tests/paper/test_group_merging.py.
"""

from collections.abc import Iterable

from antiphon.core.groups.membership import Row
from antiphon.wire.events import HostedGroup


class Merging:
    """The GROUPS messages of one daemon view: each daemon announces its members in one or more of them.

    The members at the daemons in `known` are known already: these daemons have come along from the same view,
    and groups were whole in it. Their GROUPS messages are not read.
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
