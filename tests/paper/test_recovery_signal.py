"""The end of a daemon view: what comes before the signal and after it, and what begins anew.

Thesis 6.1.10, sentence by sentence. The deviations are listed in
`antiphon.core.membership.recovery` and `antiphon.core.membership.changeover`; the tests that show one say so.
"""

import pytest
from lost_words import STRONG, WEAK
from meshes import DELAY_US, with_members
from packets_seen import carries
from small_worlds import Cluster

from antiphon.core.membership.changeover import DONE
from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire.bundle import Flag

ORDERED = (Service.AGREED, Service.SAFE)

# The signal -------------------------------------------------------------------------------------------------


def test_a_change_is_signal_rest_view():
    """1. Deliver a transitional membership. 2. Deliver all messages the server has which meet the appropriate
    guarantees. 3. Deliver a regular membership. (thesis 6.1.10)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.send(clients[0], "g", b"after the cut", service=Service.SAFE)
    cluster.settle({0, 1}, {2})
    assert cluster.story(clients[1]) == ["signal", "after the cut", "network c0 c1"]
    assert cluster.story(clients[2]) == ["signal", "network c2"]
    view = cluster.views(clients[1])[-1]
    assert view.transitional == view.members == tuple(clients[:2])
    assert view.changed == (clients[2],)


def split_after_first_delivery(service: Service) -> tuple[Cluster, list[str], list[int]]:
    """A message of this service is delivered by one daemon. In the same moment the network fails; later that
    daemon finds one of the others again, and the other two find each other.

    The last result has the daemons' numbers: the one that delivered, who comes along, the other two.
    """
    cluster, clients = with_members(4)
    cluster.send(clients[0], "g", b"message", service=service)
    cluster.until(lambda: any(cluster.payloads(client) for client in clients))
    (first,) = (number for number, client in enumerate(clients) if cluster.payloads(client))
    numbers = [first, *(number for number in range(4) if number != first)]
    cluster.partition(set(numbers[:2]), set(numbers[2:]))
    cluster.lose_view()
    assert sum(len(cluster.payloads(client)) for client in clients) == 1
    cluster.settle(set(numbers[:2]), set(numbers[2:]))
    return cluster, clients, numbers


def test_a_safe_message_that_one_has_delivered():
    """If a server s delivers a safe message m before a transsig event in its current view v, then every
    member of that view delivers m, unless that member crashes in v. (theorem 6.13 b)"""
    cluster, clients, (first, along, *others) = split_after_first_delivery(Service.SAFE)
    assert cluster.story(clients[first])[:2] == ["message", "signal"]
    assert cluster.story(clients[along])[:2] == ["message", "signal"], "virtually synchronous"
    for number in others:
        assert cluster.story(clients[number])[:2] == ["signal", "message"], "they could not know"


def test_an_agreed_message_that_one_has_delivered():
    """If two servers are virtually synchronous in a view they both deliver the same sets of agreed messages
    before and after their transsig events. (theorem 6.14 b; figure 6.13 delivers only up to the greatest ARU
    before the signal, although a member may have delivered agreed messages beyond it: ours waits with the
    signal until after the last one that any member has delivered)"""
    cluster, clients, (first, along, *_) = split_after_first_delivery(Service.AGREED)
    assert cluster.story(clients[first])[:2] == ["message", "signal"]
    assert cluster.story(clients[along])[:2] == ["message", "signal"]


def test_a_safe_message_that_nobody_can_have_delivered_comes_after_the_signal():
    """If a server s delivers a safe message m after a transsig event, then every member of s's transitional
    set from s's next view delivers m. (theorem 6.13 c)"""
    cluster, clients = with_members(4)
    cluster.lose = lambda receiver, data: receiver == 3 and b"not everywhere" in data
    cluster.send(clients[0], "g", b"not everywhere", service=Service.SAFE)
    cluster.run(20_000)
    assert all(cluster.payloads(client) == [] for client in clients)
    cluster.partition({0, 1, 2}, {3})
    cluster.settle({0, 1, 2}, {3})
    for client in clients[:3]:
        assert cluster.story(client) == ["signal", "not everywhere", "network c0 c1 c2"]
    assert cluster.story(clients[3]) == ["signal", "network c3"]


def test_members_that_come_along_see_the_same_on_both_sides_of_the_signal():
    """They both deliver the same sets of agreed messages before and after their transsig events in v.
    (theorem 6.14 b)"""
    for cut_after_us in range(0, 12_000, 500):
        cluster, clients = with_members(4)
        for number in range(12):
            cluster.send(clients[number % 4], "g", b"%d" % number, service=ORDERED[number % 2])
            cluster.run(300)
        cluster.run(cut_after_us)
        cluster.partition({0, 1}, {2, 3})
        cluster.settle({0, 1}, {2, 3})
        stories = [cluster.story(client) for client in clients]
        assert stories[0] == stories[1], cut_after_us
        assert stories[2] == stories[3], cut_after_us


def test_views_of_daemons_are_not_shown_to_clients():
    """The server membership event is not directly delivered to any process except the server itself.
    (thesis 6.1.10)"""
    cluster, _ = with_members(3)
    idle = cluster.client(0, "idle")
    cluster.crash(2)
    cluster.settle()
    cluster.restart(2)
    cluster.settle()
    assert cluster.events[idle] == []


# The new view -----------------------------------------------------------------------------------------------


def test_what_is_sent_in_the_new_view_waits_for_its_installation():
    """It is possible for the server to receive data messages sent in the new membership before installing
    the membership itself; they can treat the message as an indication that they can install. (thesis 6.1.10;
    ours: the message waits, the missing word comes by itself)"""
    cluster, clients = with_members(3)
    cluster.crash(2)
    cluster.lose = lambda receiver, data: receiver == 1 and carries(data, Flag.PHASE, DONE)
    cluster.until(lambda: cluster.nodes[0].state == "op" and len(cluster.nodes[0].view.members) == 2)
    assert cluster.nodes[1].state == "evs"
    cluster.send(clients[0], "g", b"early", service=Service.RELIABLE)
    cluster.run(2 * DELAY_US)
    assert cluster.nodes[1].state == "evs"
    assert cluster.payloads(clients[1]) == []
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    assert cluster.story(clients[1]) == ["signal", "network c0 c1", "early"]


def test_counters_start_anew_in_each_view():
    """Reset all protocol level counters and variables for a new membership. (thesis 6.1.10)"""
    cluster, clients = with_members(3)
    for number in range(10):
        cluster.send(clients[0], "g", b"%d" % number)
    cluster.settle()
    before = cluster.nodes[0].order.issued
    cluster.crash(2)
    cluster.settle()
    assert cluster.nodes[0].order.issued < before
    cluster.send(clients[0], "g", b"first")
    cluster.settle()
    assert cluster.payloads(clients[1])[-1] == b"first"


@pytest.mark.parametrize("service", [*WEAK, *STRONG])
def test_a_sessions_messages_keep_their_order_across_views(service):
    """These properties hold across membership changes because nothing in the membership algorithm modifies
    the session_seq. (thesis 6.2; reliable messages have no order to keep)"""
    cluster, clients = with_members(3)
    sent = []
    for number in range(30):
        sent.append(b"%d" % number)
        cluster.send(clients[0], "g", sent[-1], service=service)
        cluster.run(1_500)
        if number == 10:
            cluster.crash(2)
    cluster.settle()
    for client in clients[:2]:
        got = cluster.payloads(client)
        assert (sorted(got, key=int) if service is Service.RELIABLE else got) == sent
    ids = [event.id for event in cluster.events[clients[1]] if isinstance(event, Message)]
    assert len(set(ids)) == 30
