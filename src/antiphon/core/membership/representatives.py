"""Which daemon of a view speaks for a site, and which links such daemons should have."""

from antiphon.config import Config
from antiphon.core.membership.view import DaemonView


def site_representative(config: Config, view: DaemonView, me: int) -> int:
    """The member that speaks for the site of `me`: the smallest."""
    return min(number for number in view.members if config.site_of(number) == config.site_of(me))


def missed_links(config: Config, view: DaemonView, me: int) -> frozenset[int]:
    """The members to which `me` should have a link and has none: its representative, or if it is one, those
    of neighbouring sites."""
    representative = site_representative(config, view, me)
    wanted = {representative}
    if representative == me:
        smallest: dict[int, int] = {}
        for number in view.members:
            smallest.setdefault(config.site_of(number), number)
        wanted = set(smallest.values()) & set(config.neighbours_of(me))
    return frozenset(wanted - {me, *view.neighbours(me)})
