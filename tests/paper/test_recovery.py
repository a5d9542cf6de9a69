"""The end of a daemon view: recovery of missing messages, holes, signals and commitments.

Thesis 6.1.9 and 6.1.10, sentence by sentence, and the theorems about messages. The deviations are listed in
`antiphon.core.membership.recovery` and `antiphon.core.changeover`; the tests that show one say so.
"""

import pytest
from packets_seen import bundles_sent, carries, recovered
from small_worlds import Cluster

from antiphon.core.changeover import DONE, RESENT
from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import bundle
from antiphon.wire.bundle import Flag

DELAY_US = 1_000
WEAK = [Service.RELIABLE, Service.FIFO]
STRONG = [Service.CAUSAL, Service.AGREED, Service.SAFE]
HOLE = b"<hole>"


def world(sites: int, **options: object) -> tuple[Cluster, list[str]]:
    """Every two sites joined, a LAN's timing and delay, and a member of group g at each."""
    wanted: dict[str, object] = {"mesh": True, "membership": "lan", **options}
    cluster = Cluster(sites, DELAY_US, **wanted)  # type: ignore[arg-type]
    clients = cluster.members()
    for events in cluster.events.values():
        events.clear()
    for times in cluster.times.values():
        times.clear()
    cluster.crossed.clear()
    return cluster, clients


def keeps_from(*receivers: int, texts: tuple[bytes, ...]):
    """Lose every packet with one of these texts on its way to these daemons, unless it was sent again because
    the view has ended."""

    def lose(receiver: int, data: bytes) -> bool:
        return (
            receiver in receivers
            and any(text in data for text in texts)
            and not carries(data, Flag.RECOVERED)
        )

    return lose


# Missing messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [*WEAK, *STRONG])
def test_what_one_member_has_all_get(service):
    """All the messages that need to be resent are sent by one of the servers who has them. (thesis 6.1.10)"""
    cluster, clients = world(4)
    cluster.lose = keeps_from(0, 2, texts=(b"last words",))
    cluster.send(clients[3], "g", b"last words", service=service)
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle()
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"last words"]] * 3
    (again,) = recovered(cluster)
    assert again[:2] == (1, 3), "by the only one who has it"
    assert again[3] == 0b0111, "for the sites of the two who lack it, and its own"


def test_each_missing_bundle_is_sent_once():
    """Each server compiles a list of which messages it is responsible for resending. (thesis 6.1.10)"""
    cluster, clients = world(4)
    cluster.lose = keeps_from(2, texts=(b"lost to 2",))
    for number in range(5):
        cluster.send(clients[3], "g", b"lost to 2: %d" % number)
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle()
    again = recovered(cluster)
    assert len(again) == len({(source, number) for _, source, number, _ in again}) == 5
    assert {sender for sender, *_ in again} == {0}, "two have them, one sends them"
    assert {destinations for *_, destinations in again} == {0b0101}
    assert all(len(cluster.payloads(client)) == 5 for client in clients[:3])
    record = cluster.nodes[2].membership.rounds.past[-1]
    assert record.recovered_bundles == 5 and record.recovered_bytes > 5 * 80
    assert cluster.nodes[0].membership.rounds.past[-1].resent_bundles == 5


def test_a_living_sender_sends_again_itself():
    """(the same sentence: the source first, because it certainly has it)"""
    cluster, clients = world(4)
    cluster.lose = keeps_from(1, 2, texts=(b"from 0",))
    cluster.send(clients[0], "g", b"from 0")
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle({0, 1, 2})
    assert [sender for sender, *_ in recovered(cluster)] == [0]
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"from 0"]] * 3


def test_nothing_is_sent_again_when_nothing_is_missing():
    """(the same sentence)"""
    cluster, clients = world(3)
    cluster.send(clients[0], "g", b"everybody has it")
    cluster.settle()
    cluster.crash(2)
    cluster.settle()
    assert recovered(cluster) == []
    assert len(bundles_sent(cluster, Flag.PHASE)) == 2 * 2, "resent and done, of two daemons"


def test_daemons_of_other_views_do_not_get_old_messages():
    """The only servers that will process the data messages when they arrive are those servers who came from
    the same prior membership as the sender. (thesis 6.1.10)"""
    cluster, clients = world(4)
    cluster.partition({0, 1, 2}, {3})
    cluster.settle({0, 1, 2}, {3})
    cluster.lose = keeps_from(1, texts=(b"of three",))
    cluster.send(clients[0], "g", b"of three")
    cluster.run(3 * DELAY_US)
    cluster.crash(2)
    cluster.heal()
    cluster.settle({0, 1, 3})
    assert cluster.payloads(clients[1]) == [b"of three"]
    assert cluster.payloads(clients[3]) == []


def test_no_message_is_delivered_twice():
    """A server never delivers a message more than once. (theorem 6.6)"""
    cluster, clients = world(4)
    for number in range(20):
        service = [*WEAK, *STRONG][number % 5]
        cluster.send(clients[number % 4], "g", b"%d" % number, service=service)
        cluster.run(500)
    cluster.partition({0, 1}, {2, 3})
    cluster.settle({0, 1}, {2, 3})
    cluster.heal()
    cluster.settle()
    for client in clients:
        payloads = cluster.payloads(client)
        assert len(payloads) == len(set(payloads))
        assert set(payloads) >= {b"%d" % number for number in range(20) if clients[number % 4] == client}
    assert set(cluster.payloads(clients[0])) == set(cluster.payloads(clients[1]))
    assert set(cluster.payloads(clients[2])) == set(cluster.payloads(clients[3]))


# Holes ----------------------------------------------------------------------------------------------------


def world_with_a_hole(*afterwards: tuple[int, bytes, Service]) -> tuple[Cluster, list[str]]:
    """Daemon 3 sends a message that nobody gets, and others send `afterwards`; then daemon 3 crashes."""
    cluster, clients = world(4)
    cluster.lose = keeps_from(0, 1, 2, texts=(HOLE,))
    cluster.send(clients[3], "g", HOLE)
    for sender, text, service in afterwards:
        cluster.send(clients[sender], "g", text, service=service)
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    return cluster, clients


@pytest.mark.parametrize("service", STRONG)
def test_a_lost_senders_message_after_a_hole_is_dropped_by_all(service):
    """Messages that were sent by servers not in the Commit set and which are ordered after a hole in the
    message sequence are discarded without being delivered. (thesis 6.2, theorem 6.8)"""
    cluster, clients = world_with_a_hole((3, b"after the hole", service))
    cluster.settle()
    assert all(cluster.payloads(client) == [] for client in clients[:3])
    assert [node.counters["bundle: after a hole"] for node in cluster.nodes[:3]] == [1, 1, 1]


@pytest.mark.parametrize("service", WEAK)
def test_a_reliable_message_after_a_hole_is_delivered(service):
    """(deviation from figure 6.16, line 9: some member may have delivered it long ago, so dropping it would
    break virtual synchrony, property 2.7)"""
    cluster, clients = world(4)
    other = cluster.client(3, "other")
    hole, after = keeps_from(0, 1, 2, texts=(HOLE,)), keeps_from(1, 2, texts=(b"after the hole",))
    cluster.lose = lambda receiver, data: hole(receiver, data) or after(receiver, data)
    cluster.send(clients[3], "g", HOLE)
    cluster.send(other, "g", b"after the hole", service=service)
    cluster.run(3 * DELAY_US)
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"after the hole"], [], []]
    cluster.crash(3)
    cluster.settle()
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"after the hole"]] * 3


@pytest.mark.parametrize("service", STRONG)
def test_messages_of_those_who_remain_are_kept_after_a_hole(service):
    """Since the Commit set of a server always includes the server itself, the server will never discard
    messages that it sent. (theorem 6.8; by the exchange it includes all who come along)"""
    cluster, clients = world_with_a_hole(
        (0, b"of 0", service), (1, b"of 1", service), (3, b"after the hole", service)
    )
    cluster.settle()
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"of 0", b"of 1"]] * 3


def test_a_message_before_the_hole_is_delivered():
    """hole_found = FALSE: sdeliver. (figure 6.16)"""
    cluster, clients = world(4)
    cluster.lose = keeps_from(0, 1, 2, texts=(HOLE,))
    cluster.send(clients[3], "g", b"before")
    cluster.send(clients[3], "g", HOLE)
    cluster.send(clients[3], "g", b"after")
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    cluster.settle()
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"before"]] * 3


def test_what_was_not_for_a_site_is_no_hole():
    """(ours: numbers that a site skips, because it has no receiver, are no holes to it)"""
    cluster, clients = world(4)
    outsider = cluster.client(3, "outsider")
    listener = cluster.client(0, "listener")
    cluster.join(listener, "other")
    cluster.settle()
    cluster.send(outsider, "other", b"for site 0 alone")
    cluster.send(clients[3], "g", b"for all")
    cluster.run(10 * DELAY_US)
    cluster.lose = keeps_from(0, 1, 2, texts=(b"later",))
    cluster.send(clients[3], "g", b"later")
    cluster.crash(3)
    cluster.settle()
    assert cluster.payloads(listener) == [b"for site 0 alone"]
    assert [cluster.payloads(client) for client in clients[:3]] == [[b"for all"]] * 3


def test_own_messages_are_delivered_on_either_side_of_a_cut():
    """If a server s sends a message m, then s delivers m unless it crashes. (theorem 6.8)"""
    cluster, clients = world(4)
    cluster.partition({0, 1}, {2, 3})
    for service in (*WEAK, *STRONG):
        for number, client in enumerate(clients):
            cluster.send(client, "g", b"%d %s" % (number, service.name.encode()), service=service)
    cluster.settle({0, 1}, {2, 3})
    for number, client in enumerate(clients):
        own = [text for text in cluster.payloads(client) if text.startswith(b"%d " % number)]
        assert len(own) == 5
    assert len(cluster.payloads(clients[0])) == 10
    assert set(cluster.payloads(clients[0])) == set(cluster.payloads(clients[1]))
    assert set(cluster.payloads(clients[2])) == set(cluster.payloads(clients[3]))


def test_what_is_sent_during_a_change_waits_for_the_next_view():
    """(ours: sends wait, nothing is lost or refused; the thesis blocks its clients, 6.4.6)"""
    cluster, clients = world(3)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].state == "seg")
    old = cluster.nodes[0].view.id
    cluster.send(clients[0], "g", b"patience", service=Service.FIFO)
    cluster.send(clients[0], "g", b"pays", service=Service.AGREED)
    cluster.settle()
    sent = [
        view
        for view, header in cluster.diaries[0].of("sent")
        if header.service is Service.FIFO and not header.flags
    ]
    assert sent[-1] == cluster.nodes[0].view.id > old
    assert cluster.story(clients[1]) == ["signal", "network c0 c1", "patience", "pays"]


# The signal -----------------------------------------------------------------------------------------------


def test_a_change_is_signal_rest_view():
    """1. Deliver a transitional membership. 2. Deliver all messages the server has which meet the appropriate
    guarantees. 3. Deliver a regular membership. (thesis 6.1.10)"""
    cluster, clients = world(3)
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
    cluster, clients = world(4)
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
    cluster, clients = world(4)
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
        cluster, clients = world(4)
        for number in range(12):
            cluster.send(clients[number % 4], "g", b"%d" % number, service=STRONG[number % 3])
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
    cluster, _ = world(3)
    idle = cluster.client(0, "idle")
    cluster.crash(2)
    cluster.settle()
    cluster.restart(2)
    cluster.settle()
    assert cluster.events[idle] == []


# The new view ---------------------------------------------------------------------------------------------


def test_what_is_sent_in_the_new_view_waits_for_its_installation():
    """It is possible for the server to receive data messages sent in the new membership before installing
    the membership itself; they can treat the message as an indication that they can install. (thesis 6.1.10;
    ours: the message waits, the missing word comes by itself)"""
    cluster, clients = world(3)
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
    cluster, clients = world(3)
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
    cluster, clients = world(3)
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


# Commitments and cascades ---------------------------------------------------------------------------------


AFTER_THE_HOLE = (
    (3, b"shows that there is one", Service.AGREED),
    (2, b"of 2, after the hole", Service.AGREED),
)


def is_done(cluster: Cluster, daemon: int) -> bool:
    """Whether a daemon has said in the attempt under way that it has all that it needs."""
    changeover = cluster.nodes[daemon]._changeover
    return changeover is not None and changeover._committed


def test_a_promise_outlives_the_attempt_in_which_it_was_made():
    """After that point the server is committed to delivering those members' messages in whatever membership
    ends up forming, even if some of the others fail before the membership completes. (thesis 6.1.10)"""
    cluster, clients = world_with_a_hole(*AFTER_THE_HOLE)
    cluster.lose = lambda receiver, data: HOLE in data or (receiver == 1 and carries(data, Flag.PHASE, DONE))
    cluster.until(lambda: cluster.nodes[0].state == "op" and len(cluster.nodes[0].view.members) == 3)
    assert b"of 2, after the hole" in cluster.payloads(clients[0]), "0 has installed the view of three"
    assert is_done(cluster, 1) and cluster.nodes[1].state == "evs", "1 has promised and does not know more"
    cluster.lose = lambda receiver, data: False
    cluster.crash(0)
    cluster.crash(2)
    cluster.settle()
    assert cluster.story(clients[1]) == ["signal", "of 2, after the hole", "network c1"]


def test_without_a_promise_the_same_message_is_dropped():
    """It is only reset to the local server when it first enters a membership change from the OP state.
    (thesis 6.1.10: the set grows when everything has come; before that nobody can have delivered anything)"""
    cluster, clients = world_with_a_hole(*AFTER_THE_HOLE)
    cluster.lose = lambda receiver, data: HOLE in data or carries(data, Flag.PHASE, RESENT)
    cluster.until(lambda: cluster.nodes[1].state == "evs")
    assert not is_done(cluster, 0) and not is_done(cluster, 1) and not is_done(cluster, 2)
    cluster.lose = lambda receiver, data: False
    cluster.crash(0)
    cluster.crash(2)
    cluster.settle()
    assert cluster.story(clients[1]) == ["signal", "network c1"]


def test_promises_are_passed_on():
    """If a cascading membership occurs, each server adds anyone in their Commit to their Statetrans message.
    Every server who receives the statetrans message will add the members to their FCommit. (thesis 6.1.10)"""
    cluster, clients = world(5)
    cluster.lose = keeps_from(0, 1, 2, 4, texts=(HOLE,))
    cluster.send(clients[3], "g", HOLE)
    cluster.send(clients[3], "g", b"shows that there is one")
    cluster.send(clients[4], "g", b"of 4, after the hole")
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    # First attempt: 0, 1, 2 and 4. Daemon 1 is ready and says so; nobody gets so far as to install.
    cluster.lose = lambda receiver, data: HOLE in data or carries(data, Flag.PHASE, DONE)
    cluster.until(lambda: is_done(cluster, 1))
    not_done = [number for number in (0, 2) if not is_done(cluster, number)]
    cluster.crash(4)
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    stories = [cluster.story(clients[number]) for number in (0, 1, 2)]
    assert stories[0] == stories[1] == stories[2]
    assert stories[0] == ["signal", "of 4, after the hole", "network c0 c1 c2"], not_done


@pytest.mark.parametrize("when", ["statetrans", "evs", "done"])
@pytest.mark.parametrize("second", [0, 1, 2])
def test_cascades_lose_nothing(when, second):
    """Once they fail they will not be allowed back into the membership until this instance of the algorithm
    has completed. (thesis 6.3: and those who remain deliver the same)"""
    cluster, clients = world(4)
    cluster.lose = keeps_from(0, 1, texts=(b"of 3",))
    cluster.send(clients[3], "g", b"of 3")
    for number in range(3):
        cluster.send(clients[number], "g", b"of %d" % number, service=STRONG[number])
    cluster.run(3 * DELAY_US)
    cluster.crash(3)
    if when == "done":
        cluster.until(lambda: is_done(cluster, second))
    else:
        cluster.until(lambda: cluster.nodes[second].state == when)
    cluster.crash(second)
    cluster.settle()
    one, other = (clients[number] for number in range(3) if number != second)
    assert cluster.story(one) == cluster.story(other)
    for number in (0, 1, 2):
        assert b"of %d" % number in cluster.payloads(one), "those two had it before the first crash"


def test_a_cascade_of_cuts_and_merges():
    """(the same: partitions inside partitions while views are formed, then all together again)"""
    cluster, clients = world(6)
    for number, client in enumerate(clients):
        cluster.send(client, "g", b"before %d" % number, service=Service.SAFE)
    cluster.run(1_500)
    cluster.partition({0, 1, 2, 3}, {4, 5})
    cluster.until(lambda: cluster.nodes[1].state == "evs")
    cluster.partition({0, 4}, {1, 2}, {3, 5})
    cluster.until(lambda: cluster.nodes[1].state == "statetrans")
    cluster.heal()
    cluster.settle()
    (last,) = {cluster.views(client)[-1].members for client in clients}
    assert sorted(last) == clients
    for number, client in enumerate(clients):
        assert b"before %d" % number in cluster.payloads(client), "self delivery"
    for client in clients:
        cluster.send(client, "g", b"after " + client.encode())
    cluster.settle()
    tails = [cluster.payloads(client)[-6:] for client in clients]
    assert all(tail == tails[0] for tail in tails)


# Restarts -------------------------------------------------------------------------------------------------


def test_messages_of_a_former_life_come_before_the_new_one():
    """If a process p sends a message m, crashes and later recovers in a view v and a process q delivers m,
    then m is delivered in a view before v. (theorem 6.11 b)"""
    cluster, clients = world(3)
    cluster.lose = keeps_from(1, texts=(b"former life",))
    cluster.send(clients[2], "g", b"former life")
    cluster.run(2 * DELAY_US)
    cluster.restart(2)
    cluster.settle()
    assert (
        cluster.story(clients[0]) == cluster.story(clients[1]) == ["signal", "former life", "network c0 c1"]
    )
    assert cluster.nodes[1].view.incarnation(2) == cluster.nodes[2].incarnation


def test_a_restarted_daemon_knows_nothing_of_its_former_life():
    """It will know that it crashed and has zero state. (theorem 6.11)"""
    cluster, clients = world(3)
    cluster.send(clients[2], "g", b"former life")
    cluster.settle()
    former = next(event for event in cluster.events[clients[0]] if isinstance(event, Message))
    cluster.restart(2)
    cluster.settle()
    again = cluster.client(2, "c2")
    assert again == clients[2]
    cluster.events[again].clear()
    cluster.join(again, "g")
    cluster.settle()
    cluster.send(again, "g", b"new life")
    cluster.settle()
    assert cluster.story(again) == ["join c0 c1 c2", "new life"]
    new = cluster.events[clients[0]][-1]
    assert (
        isinstance(new, Message)
        and new.id != former.id
        and new.envelope.incarnation != former.envelope.incarnation
    )
    assert (new.id.daemon, new.id.session) == (former.id.daemon, former.id.session)


# A join that is under way when its view ends --------------------------------------------------------------


def test_a_join_under_way_takes_effect_with_the_end_of_the_view():
    """(6.4.5: joins of those who come along are applied at their place in the order)"""
    cluster, clients = world(3)
    newcomer = cluster.client(1, "newcomer")
    cluster.partition({0, 1}, {2})
    cluster.join(newcomer, "g")
    cluster.settle({0, 1}, {2})
    assert cluster.story(clients[0]) == cluster.story(clients[1])
    assert cluster.story(clients[0])[-1] == "network c0 c1 newcomer"
    assert cluster.story(newcomer)[-1] == "network c0 c1 newcomer"


def test_a_message_that_was_pruned_from_a_joiner_is_recovered_for_it():
    """(ours: normally its sender sends it again when it sees the join; here the sender is gone, and one who
    has the message does)"""
    cluster, _ = world(3)
    listener, newcomer = cluster.client(0, "listener"), cluster.client(1, "newcomer")
    sender = cluster.client(2, "sender")
    cluster.join(listener, "h")
    cluster.settle()
    cluster.block((1, 2))
    cluster.send(sender, "nobody", b"lets the sender's clock run ahead of the joiner's")
    cluster.join(newcomer, "h")
    cluster.send(sender, "h", b"crossing the join")
    number = cluster.nodes[2].order.issued
    cluster.run(20_000)
    assert cluster.nodes[1].order.has(2, number), "site 1 knows that the message is not for it"
    assert cluster.story(listener)[-2:] == ["join listener newcomer", "crossing the join"]
    assert cluster.events[newcomer] == []
    cluster.crash(2)
    cluster.settle()
    assert cluster.story(newcomer) == ["join listener newcomer", "crossing the join"]
    assert [(sender, source) for sender, source, *_ in recovered(cluster)] == [(0, 2)]


def test_a_large_message_is_recovered_whole():
    """(ours: recovered bundles are bundles, with fragments and repetition as any other)"""
    cluster, clients = world(3)
    large = bytes(range(256)) * 400
    cluster.lose = lambda receiver, data: receiver == 1 and len(data) > 1_000
    cluster.send(clients[2], "g", large)
    cluster.run(40_000)
    assert cluster.nodes[0].order.has(2, cluster.nodes[2].order.issued)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].state == "statetrans")
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    assert cluster.payloads(clients[1]) == [large]
    record = cluster.nodes[1].membership.rounds.past[-1]
    assert record.recovered_bytes > bundle.HEADER_BYTES + len(large)
