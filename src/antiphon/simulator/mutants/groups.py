"""Mutants of the groups when daemons come and go: signals, views of those who remain, merges."""

from collections.abc import Callable, Iterator
from typing import Any

from antiphon.core.admission import Admission
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.group import Change, Group, Member
from antiphon.core.groups.membership import Membership, Row
from antiphon.core.groups.merging import Merging
from antiphon.core.groups.transition import Transition
from antiphon.core.node import Node
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.types import Cause, View, ViewId
from antiphon.wire.bundle import Header
from antiphon.wire.events import GroupEvent, HostedGroup

NameView = Callable[[int], ViewId]
Changes = Iterator[Change | None]

# The signal -------------------------------------------------------------------------------------------------


def _signal_once_and_for_all(original: Original) -> Original:
    """A group that has had a signal has none in its later views."""

    def view(membership: Membership, group: Group, *arguments: Any, **others: Any) -> Change:
        signalled = group.is_signalled
        change: Change = original(membership, group, *arguments, **others)
        group.is_signalled = signalled
        return change

    return view


def _signal_to_all_groups(original: Original) -> Original:
    def is_torn(group: Group, together: frozenset[int]) -> bool:
        return True

    return is_torn


def _first_group_forgotten(original: Original) -> Original:
    def signal(delivery: Delivery, group: Group) -> None:
        if group.name != min(delivery.membership.groups):
            original(delivery, group)

    return signal


def _signal_again(original: Original) -> Original:
    def signal(delivery: Delivery, group: Group) -> None:
        group.is_signalled = False
        original(delivery, group)

    return signal


# Views of those who remain ----------------------------------------------------------------------------------


def _with_other_loss(original: Original, **changes: int) -> Original:
    """A loss whose views get another identifier."""

    def lose(membership: Membership, together: frozenset[int], name_view: NameView) -> Changes:
        def rename(first: int) -> ViewId:
            view_id = name_view(first)
            fields = {"epoch": view_id.epoch, "branch": view_id.branch, "lts": view_id.lts}
            fields.update(changes)
            return ViewId(**fields, daemon=view_id.daemon)

        yield from original(membership, together, rename)

    return lose


def _loss_without_branch(original: Original) -> Original:
    return _with_other_loss(original, branch=0)


def _loss_before_the_rest(original: Original) -> Original:
    return _with_other_loss(original, lts=0)


def _loss_of_our_own(original: Original) -> Original:
    """Every daemon puts its own number into the identifier."""

    def lose(delivery: Delivery, together: frozenset[int], name_view: NameView) -> Iterator[int]:
        yield from original(delivery, together, lambda _: name_view(delivery._me))

    return lose


def _ghosts(original: Original) -> Original:
    """The first of the lost members stays."""

    def lose(membership: Membership, together: frozenset[int], name_view: NameView) -> Changes:
        lost = {daemon for group in membership.groups.values() for daemon in group.hosts} - together
        yield from original(membership, together | set(sorted(lost)[:1]), name_view)

    return lose


def _no_view_before_a_merge(original: Original) -> Original:
    """Figure 6.22 as it stands: those who remain wait for the view of the merge."""

    def conclude(transition: Transition) -> Iterator[int]:
        delivery: Any = transition._delivery
        recovery = transition.recovery
        groups = delivery.membership.groups

        def lose(together: frozenset[int], name_view: NameView) -> Iterator[int]:
            views = {name: group.view for name, group in groups.items()}
            yield len(list(delivery.membership.lose(together, name_view)))
            for name, group in groups.items():
                group.view = views[name]

        if recovery.together != recovery.members:
            delivery.lose = lose
        try:
            yield from original(transition)
        finally:
            vars(delivery).pop("lose", None)

    return conclude


def _events_after_the_signal_without_branch(original: Original) -> Original:
    def event(
        delivery: Delivery, source: int, header: Header, event: GroupEvent, mark: Any, place: int
    ) -> int:
        def unbranched(name: str) -> tuple[ViewId, frozenset[int] | None]:
            view_id, together = mark(name)
            return ViewId(view_id.epoch, 0, view_id.lts, view_id.daemon), together

        steps: int = original(delivery, source, header, event, unbranched, place)
        return steps

    return event


# Merges -----------------------------------------------------------------------------------------------------


def _last_groups_not_awaited(original: Original) -> Original:
    def add(merging: Merging, daemon: int, groups: tuple[HostedGroup, ...], is_last: bool) -> bool:
        return bool(original(merging, daemon, groups, is_last)) or len(merging.missing) == 1

    return add


def _with_other_merge(original: Original, change: Callable[[View, Change, int], View]) -> Original:
    """A merge whose views are changed by `change(view, what happened, daemon)`."""

    def tell(delivery: Delivery, told: Change, cause: Member | None = None) -> None:
        if told.cause is Cause.MERGE:
            told.made = change(told.view, told, delivery._me)
        original(delivery, told, cause)

    return tell


def _merged_with_everybody(original: Original) -> Original:
    def change(view: View, told: Change, me: int) -> View:
        return View(view.group, view.id, view.members, view.members, view.cause, view.changed)

    return _with_other_merge(original, change)


def _merged_under_our_number(original: Original) -> Original:
    def change(view: View, told: Change, me: int) -> View:
        own = ViewId(view.id.epoch, view.id.branch, view.id.lts, me)
        return View(view.group, own, view.members, view.transitional, view.cause, view.changed)

    return _with_other_merge(original, change)


def _we_come_first(original: Original) -> Original:
    """Members who came along stand before the others."""

    def change(view: View, told: Change, me: int) -> View:
        ours = set(view.transitional)
        members = tuple(sorted(view.members, key=lambda name: name not in ours))
        return View(view.group, view.id, members, view.transitional, view.cause, view.changed)

    return _with_other_merge(original, change)


def _only_our_own_come_along(original: Original) -> Original:
    """The transitional set of a merge has the members at this daemon only."""

    def change(view: View, told: Change, me: int) -> View:
        local = {name for (daemon, _), name in told.group.members.items() if daemon == me}
        stay = tuple(name for name in view.transitional if name in local)
        return View(view.group, view.id, view.members, stay, view.cause, view.changed)

    return _with_other_merge(original, change)


def _sides_taken_for_one(original: Original) -> Original:
    """A daemon takes the view of which another one tells for its own."""

    def merge(membership: Membership, rows: dict[str, list[Row]], view_id: ViewId, is_known: bool) -> Any:
        for name, told in rows.items():
            group = membership.groups.get(name)
            if group is not None:
                view = (group.view.epoch, group.view.branch, group.view.lts, group.view.daemon)
                rows[name] = [(daemon, HostedGroup(name, view, hosted.members)) for daemon, hosted in told]
        return original(membership, rows, view_id, is_known)

    return merge


def _one_member_a_daemon(original: Original) -> Original:
    """A daemon tells of one member of each group."""

    def hosted(membership: Membership, daemon: int) -> Iterator[HostedGroup]:
        for group in original(membership, daemon):
            yield HostedGroup(group.name, group.view, group.members[:1])

    return hosted


def _early_joins_forgotten(original: Original) -> Original:
    """Joins that are seen before the groups are whole do not count for pruning."""

    def groups_are_whole(node: Node) -> None:
        node._early_joins.clear()

    return groups_are_whole


def _open_before_merged(_original: object) -> object:
    """Messages flow while the groups are still being put together."""
    return property(lambda node: node._changeover is not None)


def _accepts_before_merged(_original: object) -> object:
    """Clients' messages are ordered while the groups are still being put together."""

    def has_leave(admission: Admission) -> bool:
        node = admission._node
        settings = node.config.settings
        unstable_bytes = node.order.own_unstable_bytes
        return node.membership.is_active and unstable_bytes < settings.unstable_bytes

    return property(has_leave)


def _merge_without_a_view(original: Original) -> Original:
    """Members of a group that lost no member are not told of those who came."""

    def tell(delivery: Delivery, change: Change, cause: Member | None = None) -> None:
        if change.view.cause is not Cause.MERGE or len(change.view.transitional) > 1:
            original(delivery, change, cause)

    return tell


def _cut_short_taken_for_whole(original: Original) -> Original:
    """Groups whose merge a fault cut short are not put together again."""

    def conclude(transition: Transition) -> Iterator[int]:
        yield from original(transition)
        transition.were_apart = False

    return conclude


GROUPS: tuple[Mutant, ...] = (
    Mutant(
        "signal once and for all", "a group that has had a signal has none in its later views",
        frozenset(("2.8",)), Membership, "_view", _signal_once_and_for_all, "partition",
    ),
    Mutant(
        "signal to all groups", "groups that lost no member are told that they did",
        frozenset(("2.17", "2.8")), Group, "is_torn", _signal_to_all_groups, "swarm", shown_by=1,
    ),
    Mutant(
        "first group forgotten", "one group is not told that members are lost",
        frozenset(("2.8",)), Delivery, "signal", _first_group_forgotten, "swarm",
    ),
    Mutant(
        "signal again", "a group is told more than once in one view that members are lost",
        frozenset(("2.8",)), Delivery, "signal", _signal_again, "swarm",
    ),
    Mutant(
        "loss without branch", "the views of those who remain do not say on which side of the cut they are",
        frozenset(("2.3", "2.20")), Membership, "lose", _loss_without_branch, "partition",
    ),
    Mutant(
        "loss before the rest", "the view of those who remain is numbered before the last of the old one",
        frozenset(("2.3",)), Membership, "lose", _loss_before_the_rest, "swarm",
        shown_by=4,
    ),
    Mutant(
        "loss of our own", "every daemon names the view of those who remain after itself",
        frozenset(("2.4", "2.17", "2.20")), Delivery, "lose", _loss_of_our_own, "crash",
    ),
    Mutant(
        "ghosts", "members at one of the lost daemons stay in their groups",
        frozenset(("2.8", "2.17")), Membership, "lose", _ghosts, "crash", shown_by=2,
    ),
    Mutant(
        "no view before a merge", "a loss and a merge at once make one view, or none",
        frozenset(("2.4", "2.7", "2.8", "2.17")), Transition, "conclude", _no_view_before_a_merge, "swarm",
        shown_by=4,
    ),
    Mutant(
        "events without branch", "views after the signal do not say on which side of the cut they are",
        frozenset(("2.4", "2.20")), Delivery, "event", _events_after_the_signal_without_branch, "swarm",
        seeds=40,
        shown_by=10,
    ),
    Mutant(
        "last GROUPS not awaited", "groups are put together before the last daemon has told its members",
        frozenset(("2.17", "2.20")), Merging, "add", _last_groups_not_awaited, "swarm", shown_by=1,
    ),
    Mutant(
        "merged with everybody", "in a merged view all members come from the same view",
        frozenset(("2.4",)), Delivery, "_tell", _merged_with_everybody, "partition",
    ),
    Mutant(
        "merged under our number", "every daemon names the merged view after itself",
        frozenset(("2.4", "2.17")), Delivery, "_tell", _merged_under_our_number, "partition",
    ),
    Mutant(
        "we come first", "every daemon lists the members of a merged view from its own side",
        frozenset(("2.20",)), Delivery, "_tell", _we_come_first, "partition",
    ),
    Mutant(
        "only our own come along", "the transitional set of a merge has the members at one daemon only",
        frozenset(("2.4",)), Delivery, "_tell", _only_our_own_come_along, "partition",
    ),
    Mutant(
        "sides taken for one", "the two sides of a cut take each other's view for their own",
        frozenset(("2.4",)), Membership, "merge", _sides_taken_for_one, "partition",
    ),
    Mutant(
        "one member a daemon", "a daemon with several members of a group tells of one",
        frozenset(("2.2", "2.17", "2.20")), Membership, "hosted", _one_member_a_daemon, "partition",
    ),
    Mutant(
        "early joins forgotten", "a join that is seen during a merge does not count for pruning",
        frozenset(("2.7", "2.10", "2.17")), Node, "groups_are_whole", _early_joins_forgotten, "swarm",
        seeds=40, shown_by=7,
    ),
    Mutant(
        "open before merged", "what comes while groups are put together counts before they are",
        frozenset(("2.7", "2.10", "2.11")), Node, "is_between_views", _open_before_merged, "cascade",
    ),
    Mutant(
        "accepts before merged", "clients' messages are ordered before it is known to whom they must go",
        frozenset(("2.7", "2.10")), Admission, "has_leave", _accepts_before_merged, "swarm",
        seeds=40,
        shown_by=4,
    ),
    Mutant(
        "merge without a view", "a member who comes into a merge alone is not told",
        frozenset(("2.4", "2.8", "2.9")), Delivery, "_tell", _merge_without_a_view, "swarm",
    ),
    Mutant(
        "cut short, taken for whole", "a merge of groups that was cut short is not made good",
        frozenset(("2.4", "2.7", "2.20")), Transition, "conclude", _cut_short_taken_for_whole, "apart",
        shown_by=9,
    ),
)  # fmt: skip
