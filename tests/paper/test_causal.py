"""Causal delivery, rule by rule: NAVTECH section 4."""

import pytest
from small_worlds import DELAY_US, Cluster

from antiphon.service import Service
from antiphon.types import Message, View
from antiphon.wire import bundle
from antiphon.wire.history import History, history_of
from antiphon.wire.versions import sender_of

CAUSAL = Service.CAUSAL
ONE_WAY_US = DELAY_US + 1_000
"""After this, what was sent has come."""


class Told:
    """The histories that bundles carried, by payload."""

    def __init__(self, cluster: Cluster) -> None:
        self.by_payload: dict[bytes, History] = {}
        for number, node in enumerate(cluster.nodes):
            sent = cluster.diaries[number].sent

            def note(view_id: int, header: bundle.Header, sent=sent) -> None:
                sent(view_id, header)
                self.last = header

            node.observer.sent = note  # type: ignore[union-attr, method-assign]
        self.last: bundle.Header | None = None

    def take(self) -> History:
        """The history of the bundle that was sent last."""
        assert self.last is not None
        history = history_of(self.last)
        assert history is not None
        return history


def triangle(**settings: float | str) -> tuple[Cluster, list[str]]:
    """Three sites, each linked with the others, a member of the group "g" at each."""
    cluster = Cluster(3, mesh=True, **settings)
    clients = cluster.members()
    cluster.run(1_000_000)
    return cluster, clients


def quiet(cluster: Cluster) -> None:
    cluster.run(1_000_000)


def test_a_causal_message_takes_one_way_although_a_third_site_is_idle() -> None:
    """The causal layer enforces logical precedence, and waits for nothing else. (4)"""
    cluster, (first, second, _) = triangle()
    since_us = cluster.now_us
    cluster.send(first, "g", b"causal", service=CAUSAL)
    cluster.send(first, "g", b"agreed", service=Service.AGREED)
    quiet(cluster)
    assert cluster.delay_of(second, b"causal", since_us) == DELAY_US
    assert cluster.delay_of(second, b"agreed", since_us) >= 2 * DELAY_US


def test_its_own_earlier_messages_come_first() -> None:
    """A message m precedes n if m and n were sent by the same process and n was sent after m. (4)"""
    cluster, (first, second, _) = triangle()
    cluster.lose = once(b"cause", 1)
    cluster.send(first, "g", b"cause", service=Service.RELIABLE)
    cluster.send(first, "g", b"effect", service=CAUSAL)
    quiet(cluster)
    assert cluster.payloads(second) == [b"cause", b"effect"]


def test_what_its_sender_had_got_comes_first() -> None:
    """... or m has been delivered to the emitter of n before n was sent. (4)"""
    cluster, (first, second, third) = triangle()
    cluster.lose = once(b"cause", 2)
    cluster.send(first, "g", b"cause", service=CAUSAL)
    cluster.run(ONE_WAY_US)
    assert cluster.payloads(second) == [b"cause"]
    cluster.send(second, "g", b"effect", service=CAUSAL)
    quiet(cluster)
    assert cluster.payloads(third) == [b"cause", b"effect"]


@pytest.mark.parametrize("service", [Service.UNRELIABLE, Service.RELIABLE, Service.FIFO, CAUSAL])
def test_a_past_is_handed_on_by_messages_of_every_service(service: Service) -> None:
    """... or there exists x such that m -> x and x -> n. Here x goes to one session by its name. (4)"""
    cluster, (first, second, third) = triangle()
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    cluster.lose = once(b"cause", 2)
    cluster.send(first, "g", b"cause", service=CAUSAL)
    cluster.send(first, second, b"by the way", service=service)
    cluster.run(ONE_WAY_US)
    assert b"by the way" in cluster.payloads(second)
    cluster.send(second, third, b"effect", service=CAUSAL)
    quiet(cluster)
    assert cluster.payloads(third)[-2:] == [b"cause", b"effect"]


def test_messages_that_nothing_relates_do_not_wait_for_each_other() -> None:
    """Logical clocks order more messages than those potentially causally related; histories do not. (4.5)"""
    cluster, (first, second, third) = triangle()
    cluster.lose = once(b"unrelated", 2)
    cluster.send(first, "g", b"unrelated", service=CAUSAL)
    since_us = cluster.now_us
    cluster.send(second, "g", b"free", service=CAUSAL)
    quiet(cluster)
    assert cluster.delay_of(third, b"free", since_us) == DELAY_US
    assert cluster.payloads(third) == [b"free", b"unrelated"]


def test_what_another_session_of_the_daemon_got_is_not_in_the_past() -> None:
    """A session's message depends on what that session sent and got. (4, with sessions as processes)"""
    cluster, (first, second, third) = triangle()
    neighbour = cluster.client(1, "neighbour")
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    cluster.lose = once(b"heard by second", 2)
    cluster.send(first, "g", b"heard by second", service=CAUSAL)
    cluster.run(ONE_WAY_US)
    assert cluster.payloads(second)[-1] == b"heard by second"
    cluster.send(neighbour, "g", b"knows nothing", service=CAUSAL)
    quiet(cluster)
    assert cluster.payloads(third)[-2:] == [b"knows nothing", b"heard by second"]


def test_histories_begin_empty_and_are_not_told_before_somebody_needs_them() -> None:
    """R1: when p starts execution, H, D and C are empty. (4.2)"""
    cluster, (first, *_) = triangle()
    told = Told(cluster)
    cluster.send(first, "g", b"plain", service=Service.FIFO)
    assert told.last is not None and not told.last.extensions
    quiet(cluster)
    cluster.send(first, "g", b"causal", service=CAUSAL)
    assert told.take().causes == ()


def test_a_message_is_stamped_with_the_past_of_its_session() -> None:
    """R2: m is timestamped with p's causal history; R4: when p sends m it adds m to H. (4.2)"""
    cluster, (first, second, _) = triangle()
    told = Told(cluster)
    cluster.send(first, "g", b"one", service=CAUSAL)
    one = told.last
    cluster.send(first, second, b"two", service=Service.FIFO)
    assert one is not None
    (cause,) = told.take().causes
    assert (cause.daemon, cause.number, cause.sites) == (0, one.number, 0b111)


def test_what_was_reported_is_left_to_the_message_that_reported_it() -> None:
    """R6: after sending m, C(i) grows by the destinations of m; R8: what was reported to all of its
    destinations is removed. (4.2)"""
    cluster, (first, second, third) = triangle()
    told = Told(cluster)
    cluster.send(first, "g", b"one", service=CAUSAL)
    cluster.send(first, second, b"two", service=CAUSAL)
    cluster.send(first, third, b"three", service=CAUSAL)
    sites = {cause.number: cause.sites for cause in told.take().causes}
    one, two = sorted(sites)
    assert sites == {one: 0b100, two: 0b011}  # the other sites of "one" learn of it by "two"
    cluster.send(first, "g", b"four", service=CAUSAL)
    cluster.send(first, "g", b"five", service=CAUSAL)
    assert [cause.sites for cause in told.take().causes] == [0b111]


def test_messages_between_sessions_of_one_daemon_do_not_leave_it() -> None:
    """R9: a separator omits what was addressed to the backward set alone; messages exchanged between
    processes of the same node are filtered out by the node's router. (4.3)"""
    cluster, (first, *_) = triangle()
    here, there = cluster.client(0, "here"), cluster.client(0, "there")
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    told = Told(cluster)
    for _ in range(3):
        cluster.send(here, there, b"local", service=CAUSAL)
        cluster.send(there, here, b"local, too", service=CAUSAL)
    cluster.send(there, "g", b"to all", service=CAUSAL)
    assert {cause.daemon for cause in told.take().causes} == {0}
    assert len(told.take().causes) == 1  # its own message before, whose sender's site must have it


def test_a_view_is_part_of_the_past() -> None:
    """A session that got a view speaks in it: nobody delivers what it says in an older one. (2.9)"""
    cluster, (first, second, third) = triangle()
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    newcomer = cluster.client(0, "newcomer")
    cluster.join(newcomer, "g")
    # The third daemon does not hear that the second one has the join.
    cluster.lose = lambda receiver, data: receiver == 2 and sender_of(data) == 1
    cluster.run(3 * DELAY_US)
    assert newcomer in cluster.views(second)[-1].members and newcomer not in cluster.views(third)[-1].members
    cluster.lose = lambda receiver, data: False
    cluster.send(second, "g", b"welcome", service=CAUSAL)
    quiet(cluster)
    story = [event for event in cluster.events[third] if isinstance(event, Message | View)]
    at = next(place for place, event in enumerate(story) if getattr(event, "payload", b"") == b"welcome")
    views = [event for event in story[:at] if isinstance(event, View)]
    assert newcomer in views[-1].members


def test_agreed_messages_come_after_the_causal_ones_in_their_past() -> None:
    """Causal messages that precede an agreed one have smaller timestamps. (DESIGN, Ordering)"""
    cluster, (first, second, third) = triangle()
    cluster.lose = once(b"cause", 2)
    cluster.send(first, "g", b"cause", service=CAUSAL)
    cluster.run(ONE_WAY_US)
    cluster.send(second, "g", b"effect", service=Service.AGREED)
    quiet(cluster)
    assert cluster.payloads(third) == [b"cause", b"effect"]


def test_a_causal_message_comes_after_the_agreed_ones_in_its_past() -> None:
    """Agreed and safe messages in the past count. (DESIGN, Ordering)"""
    for service in (Service.AGREED, Service.SAFE):
        cluster, (first, second, _) = triangle()
        cluster.send(first, "g", b"cause", service=service)
        cluster.send(first, "g", b"effect", service=CAUSAL)
        quiet(cluster)
        assert cluster.payloads(first) == cluster.payloads(second) == [b"cause", b"effect"]


def test_a_history_that_is_too_large_is_cut_short_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a history beyond its bound, older causes become a line: the message waits for the agreed order."""
    monkeypatch.setattr("antiphon.limits.HISTORY_MAX_BYTES", 80)
    cluster, (first, second, third) = triangle()
    many = [cluster.client(0, f"m{number}") for number in range(12)]
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    cluster.lose = lambda receiver, data: receiver == 2 and any(b"many %d." % n in data for n in range(12))
    for number, client in enumerate(many):
        cluster.send(client, "g", b"many %d." % number, service=CAUSAL)
    cluster.run(ONE_WAY_US)
    told = Told(cluster)
    cluster.send(second, "g", b"effect", service=CAUSAL)
    assert told.take().floor and cluster.nodes[1].engine.histories.cut_short == 1
    cluster.run(3 * DELAY_US)
    assert b"effect" not in cluster.payloads(third)
    cluster.lose = lambda receiver, data: False
    quiet(cluster)
    assert cluster.payloads(third)[-1] == b"effect" and len(cluster.payloads(third)) == 14


def test_what_one_has_delivered_ahead_of_its_place_all_who_come_along_deliver() -> None:
    """At the end of a view members tell what they have delivered ahead of its place (2.7)."""
    cluster, (first, second, third) = triangle()
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    # The third member misses what the first one says, and the second cannot tell it before the first is gone.
    cluster.blocked |= {(0, 2), (1, 2), (2, 1), (2, 0)}
    cluster.send(first, third, b"lost for good", service=CAUSAL)  # without this, nothing would be in doubt
    cluster.send(first, "g", b"last words", service=CAUSAL)
    cluster.run(ONE_WAY_US)
    assert cluster.payloads(second)[-1] == b"last words"
    cluster.crash(0)
    cluster.blocked.clear()
    cluster.settle({1, 2})
    assert cluster.payloads(third)[-1] == b"last words"


def test_a_message_whose_cause_is_recovered_keeps_its_place() -> None:
    """Once a view has stopped, what comes is delivered at its end, in the agreed order. (thesis 6.1.10)"""
    cluster, (first, second, third) = triangle()
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    cluster.lose = lambda receiver, data: receiver == 2 and b"cause" in data
    cluster.send(first, "g", b"cause", service=CAUSAL)
    cluster.run(ONE_WAY_US)
    cluster.send(second, "g", b"effect", service=CAUSAL)
    cluster.run(ONE_WAY_US)
    assert cluster.payloads(third)[-1] == b"begin"
    cluster.crash(0)
    cluster.lose = lambda receiver, data: False
    cluster.settle({1, 2})
    assert cluster.payloads(second)[-2:] == cluster.payloads(third)[-2:] == [b"cause", b"effect"]


def test_a_late_copy_comes_before_what_it_caused() -> None:
    """A site that joins while a message is under way gets a copy of it, before its effects. (2.12)"""
    cluster, (first, second, third) = triangle()
    cluster.send(first, "g", b"begin", service=CAUSAL)
    quiet(cluster)
    for client in (first, second):
        cluster.join(client, "h")
    quiet(cluster)
    cluster.join(third, "h")
    cluster.send(first, second, b"so that the next is later than the join", service=CAUSAL)
    cluster.lose = once(b"cause", 2)  # the copy, not the message itself: the join has not come here
    cluster.send(first, "h", b"cause", service=CAUSAL)
    cluster.run(ONE_WAY_US)
    assert cluster.payloads(second)[-1] == b"cause"
    cluster.send(second, "g", b"effect", service=CAUSAL)
    quiet(cluster)
    assert cluster.payloads(third)[-2:] == [b"cause", b"effect"]


def once(payload: bytes, receiver: int):
    """Lose the first packet to `receiver` that carries `payload`."""
    lost: list[bytes] = []

    def lose(to: int, data: bytes) -> bool:
        if to == receiver and payload in data and not lost:
            lost.append(data)
            return True
        return False

    return lose
