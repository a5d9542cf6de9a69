"""The end of a view, merges and departures in slices: no daemon is away for long, and no client notices.

Not in the thesis: `antiphon.core.groups.regrouping` says what is done differently and why.
"""

from typing import Any

import msgspec
import pytest
from meshes import DELAY_US, forget, world
from packets_seen import bundles_sent
from small_worlds import Cluster

from antiphon import limits
from antiphon.service import Service
from antiphon.types import View
from antiphon.wire import bundle, frames
from antiphon.wire.bundle import Flag
from antiphon.wire.events import GroupEvent

GROUPS = tuple(f"g{number:02}" for number in range(30))
STEPS = 8


def sliced(sites: int, *, of: tuple[int, ...] = (0, 1), groups: tuple[str, ...] = GROUPS) -> Cluster:
    """Daemons that do little at a time, with one member of every group at some of them."""
    cluster = world(sites)
    for daemon in of:
        client = cluster.client(daemon, f"c{daemon}")
        for group in groups:
            cluster.join(client, group)
    cluster.settle()
    forget(cluster)
    for node in cluster.nodes:
        node.regrouping.slice_steps = node.regrouping.part_steps = STEPS
    return cluster


def told_at_once(cluster: Cluster, client: str) -> int:
    """The most views that a client got at one moment."""
    times = [
        time_us
        for event, time_us in zip(cluster.events[client], cluster.times[client], strict=True)
        if isinstance(event, View)
    ]
    return max(times.count(time_us) for time_us in times)


def test_the_end_of_a_view_and_a_merge_are_worked_off_in_slices():
    cluster = sliced(2)
    cluster.slice_us = 1_000
    cluster.partition({0}, {1})
    cluster.settle({0}, {1})
    assert len(cluster.views("#c0#d0")) == len(GROUPS)
    assert told_at_once(cluster, "#c0#d0") <= STEPS
    forget(cluster)
    cluster.heal()
    cluster.settle()
    assert {view.members for view in cluster.views("#c0#d0")} == {("#c0#d0", "#c1#d1")}
    assert len(cluster.views("#c0#d0")) == len(cluster.views("#c1#d1")) == len(GROUPS)
    assert told_at_once(cluster, "#c0#d0") <= STEPS


def test_a_daemon_that_is_merely_busy_is_not_lost():
    """Its work for a merge takes many times longer than its neighbours wait for a sign of life."""
    cluster = sliced(3, of=(0, 1))
    cluster.partition({0, 2}, {1})
    cluster.settle({0, 2}, {1})
    suspect_us = cluster.config.settings.timing().suspect_us
    cluster.slice_us = suspect_us // 2
    before = [len(diary.views) for diary in cluster.diaries]
    forget(cluster)
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].group_state == "ggather")
    took_us = cluster.settle()
    assert took_us > 5 * suspect_us
    assert [len(diary.views) for diary in cluster.diaries] == [count + 1 for count in before]


def test_messages_wait_until_all_slices_are_done():
    """One who is done early may send already; with us it comes after all views, for every group."""
    cluster = sliced(3, of=(0, 1))
    late = cluster.client(2, "late")
    cluster.join(late, GROUPS[0])
    cluster.settle()
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    for node in (cluster.nodes[0], cluster.nodes[2]):
        node.regrouping.slice_steps = node.regrouping.part_steps = limits.SLICE_STEPS
    cluster.nodes[1].regrouping.slice_steps = 1
    cluster.slice_us = 20 * DELAY_US
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].is_operational and len(cluster.nodes[0].view.members) == 3)
    cluster.until(lambda: cluster.nodes[0].group_state == "gop" and cluster.nodes[1].regrouping.is_blocking)
    cluster.send("#c0#d0", GROUPS[0], b"early")
    cluster.send("#c0#d0", GROUPS[-1], b"early")
    cluster.run(10 * DELAY_US)
    assert cluster.nodes[1].regrouping.is_blocking
    assert cluster.payloads("#c1#d1") == []
    cluster.settle()
    assert cluster.story("#c1#d1") == ["merge c0 c1 late", "early", "early"]


def test_a_message_is_accepted_when_the_rest_of_its_view_is_done():
    """A daemon that is left alone and crashes before that was the only one that had it."""
    cluster = world(2)
    asker = cluster.client(0, "asker", accepts=True)
    for group in GROUPS:
        cluster.join(asker, group)
    for client in cluster.members(GROUPS[0], of=[1]):
        for group in GROUPS[1:]:
            cluster.join(client, group)
    cluster.settle()
    forget(cluster)
    cluster.nodes[0].regrouping.slice_steps = cluster.nodes[0].regrouping.part_steps = 1
    cluster.slice_us = DELAY_US
    cluster.partition({0}, {1})
    cluster.send(asker, GROUPS[0], b"to itself alone")
    cluster.settle({0}, {1})
    told = [type(event).__name__ for event in cluster.events[asker]]
    assert told.index("Message") < told.index("Accepted")


@pytest.mark.parametrize("state", ["gtrans", "ggather"])
def test_a_view_that_is_lost_between_two_slices_is_left_in_order(state: str):
    """What is left to do is done first: nobody misses a view, and those who go on together have the same."""
    cluster = sliced(3, of=(0, 1, 2))
    cluster.slice_us = 2 * DELAY_US
    cluster.partition({0, 1}, {2})
    if state == "ggather":
        cluster.settle({0, 1}, {2})
        forget(cluster)
        cluster.heal()
    cluster.until(
        lambda: cluster.nodes[0].regrouping.is_blocking and cluster.nodes[0].group_state == state
        and len(cluster.views("#c0#d0")) > 3
    )  # fmt: skip
    assert len(cluster.views("#c0#d0")) < len(GROUPS)
    cluster.lose_view()
    cluster.heal()
    cluster.settle()
    stories = [
        [(view.group, view.id, view.members) for view in cluster.views(client)]
        for client in ("#c0#d0", "#c1#d1")
    ]
    for group in GROUPS:
        first, second = ([one for one in story if one[0] == group] for story in stories)
        assert first == second
        assert first[-1][2] == tuple(f"#c{number}#d{number}" for number in range(3))


def test_members_are_told_in_parts_and_the_last_one_is_marked():
    """With all groups in one message, its parts would be a long time on the way, and its parsing one step."""
    cluster = sliced(2)
    cluster.partition({0}, {1})
    cluster.settle({0}, {1})
    cluster.crossed.clear()
    cluster.heal()
    cluster.settle()
    parts = [carried for carried in bundles_sent(cluster, Flag.GROUPS) if carried.header.daemon == 0]
    assert len(parts) == -(-2 * len(GROUPS) // STEPS)
    parts.sort(key=lambda carried: carried.header.number)
    assert [carried.header.tag for carried in parts] == [1] * (len(parts) - 1) + [0]


def test_what_came_along_is_not_put_together_again():
    """The cost of a return is that of what the one who returns brings, not of all groups."""
    cluster = sliced(3, of=(0, 1))
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    groups = dict(cluster.nodes[0].delivery.membership.groups)
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].regrouping.merging is not None)
    merging = cluster.nodes[0].regrouping.merging
    cluster.settle()
    assert merging is not None and merging.known == {0, 1} and merging.rows == {}
    merged = cluster.nodes[0].delivery.membership.groups
    assert all(merged[name] is group for name, group in groups.items())
    assert merged.keys() == cluster.nodes[2].delivery.membership.groups.keys()


# Departures -------------------------------------------------------------------------------------------------


def crowd(cluster: Cluster, daemon: int, count: int, *groups: str) -> list[int]:
    """Sessions of a daemon that do not want views; their numbers."""
    numbers = []
    for number in range(count):
        name = cluster.client(daemon, f"m{daemon}x{number}", views=False)
        for group in groups:
            cluster.join(name, group)
        numbers.append(cluster.nodes[daemon].sessions.named(name).number)  # type: ignore[union-attr]
    cluster.settle()
    return numbers


def test_sessions_that_end_together_make_one_view():
    cluster = world(2)
    leaving = crowd(cluster, 0, 50, "g")
    witness = cluster.client(1, "witness")
    cluster.join(witness, "g")
    cluster.settle()
    forget(cluster)
    for number in leaving:
        cluster.nodes[0].lost(number, cluster.now_us)
    cluster._drain(0)
    cluster.settle()
    (told,) = bundles_sent(cluster, Flag.EVENT)
    assert told.header.session == 0
    (view,) = cluster.views(witness)
    assert (view.members, view.transitional, len(view.changed)) == ((witness,), (witness,), 50)
    assert len(cluster.nodes[0].sessions) == 0
    assert cluster.nodes[1].delivery.membership._of.keys() == {(1, 1)}


def test_what_a_session_sent_before_its_end_comes_before_it_also_among_many():
    cluster = world(2)
    leaving = [cluster.client(0, f"m{number}") for number in range(3)]
    witness = cluster.client(1, "witness")
    for client in (*leaving, witness):
        cluster.join(client, "g")
    cluster.settle()
    forget(cluster)
    node = cluster.nodes[0]
    for client in leaving:
        names = bundle.names_area(client, ["g"])
        data = bytearray(b"".join(bundle.encode(names, 1, Service.AGREED, [client.encode()])))
        number = cluster._clients[client][1]
        node.submit(number, (data,), cluster.now_us)
        node.control(number, frames.Disconnect(), cluster.now_us)
    cluster._drain(0)
    cluster.settle()
    assert cluster.story(witness) == [*leaving, "disconnect witness"]


def test_departures_in_one_bundle_are_bounded_by_their_memberships(monkeypatch: pytest.MonkeyPatch):
    """A bundle takes effect at one point, so it is no more work than a slice."""
    monkeypatch.setattr(limits, "DEPARTURES_STEPS", 12)
    cluster = world(2)
    leaving = crowd(cluster, 0, 9, "a", "b")
    forget(cluster)
    for number in leaving:
        cluster.nodes[0].lost(number, cluster.now_us)
    cluster._drain(0)
    cluster.settle()
    events = [
        msgspec.msgpack.decode(told.body, type=GroupEvent) for told in bundles_sent(cluster, Flag.EVENT)
    ]
    assert [len(event.sessions) for event in events] == [4, 4, 0]
    assert not cluster.nodes[1].delivery.membership.groups


def test_a_view_that_nobody_here_wants_is_not_made():
    """Otherwise each join and leave would cost what its group is large, at every daemon."""
    cluster = world(2)
    crowd(cluster, 0, 40, "g")
    delivery = cluster.nodes[1].delivery
    spent: list[int] = []
    original = delivery.event

    def event(*told: Any) -> int:
        spent.append(original(*told))
        return spent[-1]

    delivery.event = event  # type: ignore[method-assign]
    joiner = cluster.client(0, "joiner", views=False)
    cluster.join(joiner, "g")
    cluster.settle()
    cluster.leave(joiner, "g")
    cluster.settle()
    assert spent == [2, 2]
    witness = cluster.client(1, "witness")
    cluster.join(witness, "g")
    cluster.settle()
    assert spent[-1] > 40
