"""The view that follows from what was gathered, and whether it is worth a change."""

from collections.abc import Mapping

from antiphon.config import Config
from antiphon.core.membership.gathering import Pair
from antiphon.core.overlay.topology import choose_links
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Station


def view_of(
    config: Config, id: int, members: frozenset[int], pairs: set[Pair], stations: Mapping[int, Station]
) -> DaemonView:
    """The view to propose for daemons of which these pairs work with each other."""
    ordered = tuple(sorted(members))
    incarnations = tuple(stations[number].incarnation for number in ordered)
    return DaemonView(id, ordered, incarnations, choose_links(config, ordered, pairs))


def is_better(
    config: Config,
    view: DaemonView,
    members: frozenset[int],
    pairs: set[Pair],
    leavers: frozenset[int] = frozenset(),
) -> bool:
    """Whether what was gathered makes a better view than one that works: one with more daemons or links, or
    without those who leave."""
    if not members <= frozenset(view.members) or not leavers.isdisjoint(view.members):
        return True
    if len(members) < len(view.members) or pairs <= set(view.links):
        return False
    return bool(set(choose_links(config, sorted(members), pairs)) - set(view.links))
