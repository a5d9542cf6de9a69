"""The states of the membership of groups, with every way from one to another.

Follows: thesis 6.4.1 and figure 6.17; 6.4.4 to 6.4.7 for each of them.
Deviations: daemons agree on all that is left of a view before they leave it, so that GTRANS and GGT begin
when the next daemon view is installed and end when everything of the old one is delivered, rather than
lasting while daemons form a view. With few groups that takes no time.
"""

from enum import Enum


class GroupState(Enum):
    """How far the groups of a daemon have come in a daemon view."""

    GOP = "gop"
    """Messages flow."""
    GTRANS = "gtrans"
    """What is left of the last daemon view is delivered to its groups."""
    GGATHER = "ggather"
    """Daemons have come, and announce their members to one another (GROUPS messages)."""
    GGT = "ggt"
    """As GTRANS, after a daemon view in which groups were not whole yet."""


GOP = GroupState.GOP
"""A plain name for what is asked with every bundle, as in `service`."""


class GroupReason(Enum):
    """Why a state is entered."""

    VIEW_ENDED = "view-ended"
    """A new daemon view is installed."""
    SAME_MEMBERS = "same-members"
    """All daemons of the new view have come along from the old one, so that groups are whole."""
    DAEMONS_CAME = "merge"
    """The new view has daemons whose members are not known here."""
    STILL_APART = "apart"
    """Groups were not whole in the view that has ended, and are put together in the new one."""
    MERGED = "merged"
    """The members of all daemons are known."""


TRANSITIONS: dict[GroupState, dict[GroupReason, GroupState]] = {
    GroupState.GOP: {GroupReason.VIEW_ENDED: GroupState.GTRANS},
    GroupState.GTRANS: {
        GroupReason.SAME_MEMBERS: GroupState.GOP,
        GroupReason.DAEMONS_CAME: GroupState.GGATHER,
    },
    GroupState.GGATHER: {
        GroupReason.MERGED: GroupState.GOP,
        GroupReason.VIEW_ENDED: GroupState.GGT,
    },
    GroupState.GGT: {
        GroupReason.MERGED: GroupState.GTRANS,
        GroupReason.STILL_APART: GroupState.GGATHER,
    },
}
"""What may happen in each state, and where it leads."""
