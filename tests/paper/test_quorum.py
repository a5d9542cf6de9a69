"""The quorum of a group, sentence by sentence: RMP 4.4.

Deviations are listed in `antiphon.core.groups.quorum`; the tests that show one say so.
"""

from meshes import world
from small_worlds import Cluster

from antiphon.types import ALL, MAJORITY, Cause, View
from antiphon.wire import frames


def with_quorum(sites: int, minimum: int, **options: object) -> tuple[Cluster, list[str]]:
    """A member at each site, the first of which wishes a quorum."""
    cluster = world(sites, **options)
    clients = [cluster.client(daemon, f"c{daemon}", refusals=True) for daemon in range(sites)]
    for number, client in enumerate(clients):
        cluster.join(client, "g", minimum if not number else 0)
        cluster.settle()
    return cluster, clients


def split(cluster: Cluster, *parts: set[int]) -> None:
    cluster.partition(*parts)
    cluster.settle(*parts)


def has_quorum(cluster: Cluster, client: str) -> bool:
    return cluster.views(client)[-1].has_quorum


def refused(cluster: Cluster, client: str) -> list[frames.NotSent]:
    return [event for event in cluster.events[client] if isinstance(event, frames.NotSent)]


def test_the_part_with_more_than_half_goes_on():
    """A member may wish that only a majority of those before goes on. (4.4)"""
    cluster, (one, two, three) = with_quorum(3, MAJORITY)
    split(cluster, {0, 1}, {2})
    assert [has_quorum(cluster, client) for client in (one, two, three)] == [True, True, False]
    cluster.send(one, "g", b"on")
    cluster.send(three, "g", b"off")
    cluster.settle({0, 1}, {2})
    assert cluster.payloads(two) == [b"on"]
    assert cluster.payloads(three) == []
    assert [(event.group, event.count) for event in refused(cluster, three)] == [("g", 1)]


def test_a_decision_is_told_as_a_view():
    """Deviation: after a loss nothing goes on before those who remain are sure that they all know it."""
    cluster, (one, *_) = with_quorum(3, MAJORITY)
    split(cluster, {0, 1}, {2})
    causes = [(view.cause, view.has_quorum, view.is_deciding) for view in cluster.views(one)[-2:]]
    assert causes == [(Cause.NETWORK, False, True), (Cause.QUORUM, True, False)]


def test_messages_wait_while_it_is_decided():
    """Nothing is refused that a decision would let pass."""
    cluster, (one, two, _) = with_quorum(3, MAJORITY)
    cluster.crash(2)
    while not any(view.is_deciding for view in cluster.views(one)):
        assert cluster.step(cluster.now_us + 1_000_000)
    cluster.send(one, "g", b"patience")
    cluster.settle({0, 1})
    assert cluster.payloads(two) == [b"patience"] and not refused(cluster, one)


def test_neither_half_goes_on():
    cluster, clients = with_quorum(4, MAJORITY)
    split(cluster, {0, 1}, {2, 3})
    assert not any(has_quorum(cluster, client) for client in clients)
    cluster.heal()
    cluster.settle()
    assert all(has_quorum(cluster, client) for client in clients)
    cluster.send(clients[3], "g", b"again")
    cluster.settle()
    assert cluster.payloads(clients[0]) == [b"again"]


def test_a_majority_is_of_the_last_view_that_had_it():
    """Deviation: of five, three go on, of these two, and of these two one does not, although it was one of
    those who went on all the time. RMP compares with the list before the failure, which may have had none."""
    cluster, clients = with_quorum(5, MAJORITY)
    split(cluster, {0, 1, 2}, {3, 4})
    split(cluster, {0, 1}, {2}, {3, 4})
    assert has_quorum(cluster, clients[0]) and not has_quorum(cluster, clients[2])
    split(cluster, {0}, {1}, {2, 3, 4})
    assert [has_quorum(cluster, client) for client in clients] == [False] * 5
    split(cluster, {0, 1}, {2, 3, 4})
    assert [has_quorum(cluster, client) for client in clients] == [True, True, False, False, False]


def test_a_number_alone_lets_no_two_parts_go_on():
    """Deviation: with RMP's constant of two, both halves would."""
    cluster, clients = with_quorum(5, 2)
    split(cluster, {0, 1, 2}, {3, 4})
    assert [has_quorum(cluster, client) for client in clients] == [True] * 3 + [False] * 2


def test_a_number_is_needed_besides_the_half():
    """A member may wish a number, below which a part stops. (4.4)"""
    cluster, clients = with_quorum(5, 4)
    split(cluster, {0, 1, 2}, {3, 4})
    assert not any(has_quorum(cluster, client) for client in clients)
    newcomer = cluster.client(0, "late", refusals=True)
    cluster.join(newcomer, "g")
    cluster.settle({0, 1, 2}, {3, 4})
    assert has_quorum(cluster, newcomer) and has_quorum(cluster, clients[2])


def test_all():
    """If all members are wished, any failure stops the group. (4.4)"""
    cluster, (one, two, three) = with_quorum(3, ALL)
    split(cluster, {0, 1}, {2})
    assert not has_quorum(cluster, one)
    cluster.leave(two, "g")
    cluster.settle({0, 1}, {2})
    assert not has_quorum(cluster, one)
    cluster.heal()
    cluster.settle()
    assert has_quorum(cluster, one) and has_quorum(cluster, three)


def test_who_leaves_is_not_missed():
    cluster, (one, two, three) = with_quorum(3, MAJORITY)
    cluster.leave(two, "g")
    cluster.disconnect(three)
    cluster.settle()
    assert has_quorum(cluster, one)
    split(cluster, {0}, {1, 2})
    assert has_quorum(cluster, one)


def test_the_first_member_may_wait_for_others():
    cluster = world(2)
    one = cluster.client(0, "one", refusals=True)
    cluster.join(one, "g", 2)
    cluster.settle()
    cluster.send(one, "g", b"alone")
    cluster.settle()
    assert not has_quorum(cluster, one) and len(refused(cluster, one)) == 1
    two = cluster.client(1, "two", refusals=True)
    cluster.join(two, "g")
    cluster.settle()
    assert has_quorum(cluster, one) and has_quorum(cluster, two)


def test_the_wish_of_one_who_is_lost_counts():
    """The greatest wish of the members before the failure counts, also that of one who is gone. (4.4)"""
    cluster, (_, two, three) = with_quorum(3, 3)
    split(cluster, {0}, {1, 2})
    assert not has_quorum(cluster, two) and not has_quorum(cluster, three)


def test_newcomers_do_not_make_a_part_the_greater_one():
    """Deviation: they know nothing of what was decided before them."""
    cluster, clients = with_quorum(5, MAJORITY)
    split(cluster, {0, 1}, {2, 3, 4})
    for name in "abcd":
        cluster.join(cluster.client(0, name), "g")
    cluster.settle({0, 1}, {2, 3, 4})
    assert [has_quorum(cluster, client) for client in clients] == [False] * 2 + [True] * 3


def test_a_part_that_begins_anew_gives_no_other_its_quorum():
    """Deviation: RMP's parts never meet again. The last member of a part leaves, so that the group is
    forgotten there; one that joins then has a quorum of its own, and does not lend it to those who have lost
    theirs."""
    cluster, clients = with_quorum(5, MAJORITY)
    split(cluster, {0, 1, 2}, {3}, {4})
    cluster.leave(clients[4], "g")
    cluster.settle({0, 1, 2}, {3}, {4})
    anew = cluster.client(4, "anew", refusals=True)
    cluster.join(anew, "g", MAJORITY)
    cluster.settle({0, 1, 2}, {3}, {4})
    assert has_quorum(cluster, anew)
    split(cluster, {0, 1, 2}, {3, 4})
    assert has_quorum(cluster, clients[0])
    assert not has_quorum(cluster, anew) and not has_quorum(cluster, clients[3])
    cluster.heal()
    cluster.settle()
    assert all(has_quorum(cluster, client) for client in (*clients[:4], anew))


def test_without_quorum_nobody_holds_a_lock():
    cluster, (one, two, three) = with_quorum(3, MAJORITY)
    for client in (three, one, two):
        cluster.ask(client, frames.AskLock("g", "a", True))
        cluster.settle()
    split(cluster, {0, 1}, {2})
    assert cluster.views(three)[-1].locks == ()
    deciding, decided = (view.locks[0] for view in cluster.views(two)[-2:])
    assert (deciding.holder, deciding.waiting) == ("", (one, two))
    assert (decided.holder, decided.waiting) == (one, (two,))
    cluster.ask(three, frames.AskLock("g", "a", True))
    cluster.settle({0, 1}, {2})
    cluster.heal()
    cluster.settle()
    (merged,) = cluster.views(three)[-1].locks
    assert (merged.holder, merged.waiting) == (one, (two, three))


def test_one_that_cannot_be_told_of_refusals_waits():
    """A client of Spread has no word for it: what it sends goes out when there is a quorum again."""
    cluster, (one, _, three) = with_quorum(3, MAJORITY)
    deaf = cluster.client(2, "deaf")
    split(cluster, {0, 1}, {2})
    cluster.send(deaf, "g", b"later")
    cluster.heal()
    cluster.settle()
    assert cluster.payloads(one) == cluster.payloads(three) == [b"later"]


def test_a_message_for_several_groups_needs_all_of_them():
    cluster, (_, _, three) = with_quorum(3, MAJORITY)
    cluster.join(three, "free")
    split(cluster, {0, 1}, {2})
    cluster.send(three, ["free", "g"], b"both")
    cluster.send(three, "free", b"free")
    cluster.settle({0, 1}, {2})
    assert cluster.payloads(three) == [b"free"]
    assert [event.group for event in refused(cluster, three)] == ["g"]


def test_views_of_groups_without_wishes_are_as_ever():
    cluster, (one, two, _) = with_quorum(3, 0)
    split(cluster, {0}, {1, 2})
    assert [view.cause for view in cluster.views(one)][-1] is Cause.NETWORK
    assert isinstance(cluster.views(two)[-1], View) and has_quorum(cluster, one) and has_quorum(cluster, two)
