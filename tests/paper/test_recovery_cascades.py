"""The end of a daemon view: attempts that fail, what was promised in them, and daemons that come back.

Thesis 6.1.9 and 6.1.10, sentence by sentence. The deviations are listed in
`antiphon.core.membership.recovery` and `antiphon.core.membership.changeover`; the tests that show one say so.
"""

import pytest
from lost_words import HOLE, STRONG, keeps_from, world_with_a_hole
from meshes import DELAY_US, with_members
from packets_seen import carries
from small_worlds import Cluster

from antiphon.core.membership.changeover import DONE, RESENT
from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import packet
from antiphon.wire.bundle import Flag

# Commitments and cascades -----------------------------------------------------------------------------------


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
    cluster, clients = with_members(5)
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
    cluster, clients = with_members(4)
    # Nor does an update of daemon 3 tell how far it has come: only daemon 2 knows.
    cluster.lose = lambda receiver, data: (
        receiver in (0, 1) and packet.parse(memoryview(data)).head.sender == 3
    )
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
    for number in {0, 1, 2} - {second}:
        assert b"of %d" % number in cluster.payloads(one), "what those send who go on is never dropped"
    is_certain = (second, when) != (2, "statetrans")  # otherwise daemon 3 may have sent something before it
    assert (b"of %d" % second in cluster.payloads(one)) is is_certain


def test_a_cascade_of_cuts_and_merges():
    """(the same: partitions inside partitions while views are formed, then all together again)"""
    cluster, clients = with_members(6)
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


# Restarts ---------------------------------------------------------------------------------------------------


def test_messages_of_a_former_life_come_before_the_new_one():
    """If a process p sends a message m, crashes and later recovers in a view v and a process q delivers m,
    then m is delivered in a view before v. (theorem 6.11 b)"""
    cluster, clients = with_members(3)
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
    cluster, clients = with_members(3)
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
