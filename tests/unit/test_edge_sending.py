"""What the clients of an edge send: sponsored, in its order, never twice, and with a word on its fate."""

import pytest
from edge_world import EdgeWorld, messages

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.edges import Sponsor, Sponsored, Unsponsor
from antiphon.wire.frames import Accepted, Join, NotSent, Problem, Unsure


def sender(world: EdgeWorld, **options: bool | int) -> tuple[int, int]:
    """An attached edge with a session that sends: its link and number."""
    link = world.attach()
    return link, world.connect("bob", **options)


def given(world: EdgeWorld, link: int) -> list[tuple[int, int]]:
    """Of the bundles that went to an attachment: in whose name, and how many messages."""
    return [(header.session, header.message_count) for header in world.spoken(link, Header)]


def test_who_sends_is_sponsored_and_waits_for_that() -> None:
    world = EdgeWorld()
    link, session = sender(world, priority=3, refusals=True)
    assert not world.spoken(link, Sponsor)
    world.send(session, b"one")
    world.send(session, b"two")
    assert world.spoken(link, Sponsor) == [Sponsor(session, "bob", "e1", 3, True, True)]
    assert not given(world, link)
    world.sponsor(link, session, 41)
    assert given(world, link) == [(41, 2)]
    world.send(session, b"three")
    assert given(world, link) == [(41, 2), (41, 1)]


def test_a_session_that_sends_nothing_is_not_sponsored() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    world.ask(session, Join("chat"), frames.Disconnect())
    assert not world.spoken(link, Sponsor)
    assert not world.spoken(link, Unsponsor)


def test_what_was_accepted_is_told_under_the_numbers_of_the_client() -> None:
    world = EdgeWorld()
    link, session = sender(world, accepts=True)
    world.ask(session, Join("chat"))  # number 1
    world.send(session, b"2", b"3")
    world.ask(session, Join("news"))  # number 4
    world.send(session, b"5")
    world.send(session, b"6", groups=("news",))
    world.sponsor(link, session, 41)
    assert given(world, link) == [(41, 2), (41, 1), (41, 1)]
    for number in (1, 2, 3, 4):
        world.hear(link, Accepted(number, 41))
    assert [told.sequence for told in world.of(session, Accepted)] == [2, 4, 5, 6]


def test_who_does_not_want_to_hear_of_acceptance_does_not() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    world.send(session, b"one")
    world.sponsor(link, session, 41)
    world.hear(link, Accepted(1, 41))
    assert not world.told.get(session)


def test_refusals_and_problems_are_told_to_the_client() -> None:
    world = EdgeWorld()
    link, session = sender(world, refusals=True)
    world.ask(session, Join("chat"))  # number 1
    world.send(session, b"2", b"3")
    world.ask(session, Join("news"))  # number 4
    world.send(session, b"5", b"6")
    world.sponsor(link, session, 41)
    world.hear(link, NotSent("chat", 2, 2, 41), Problem("odd", "because", 41))
    assert world.of(session, NotSent) == [NotSent("chat", 3, 1), NotSent("chat", 5, 1)]
    assert world.of(session, Problem) == [Problem("odd", "because")]


def test_answers_about_what_was_never_given_end_the_connection() -> None:
    for answer in (Accepted(2, 41), NotSent("chat", 1, 2, 41), NotSent("chat", 0, 1, 41), Accepted(-1, 41)):
        world = EdgeWorld()
        link, session = sender(world)
        world.send(session, b"one")
        world.sponsor(link, session, 41)
        world.hear(link, answer)
        assert world.hung_up == [link]


def test_a_sponsored_that_nobody_asked_for_ends_the_connection() -> None:
    for answer in (
        Sponsored(99, 41, 1, 1),
        Sponsored(2, 1 << 32, 1, 1),
        Sponsored(2, 41, 1, 1, 0, 5),
        Sponsored(2, 41, 1, 1),
    ):
        world = EdgeWorld()
        link, session = sender(world)
        if answer.client == 2:
            other = world.connect("carl")
            assert other == 2
            world.send(session, b"one")
            world.sponsor(link, session, 41)
            world.send(other, b"one")
        world.hear(link, answer)
        assert world.hung_up == [link]


def test_answers_for_sessions_that_are_over_are_nothing() -> None:
    world = EdgeWorld()
    link, session = sender(world, accepts=True)
    world.send(session, b"one")
    world.sponsor(link, session, 41)
    world.ask(session, frames.Disconnect())
    world.hear(link, Accepted(1, 41), NotSent("chat", 1, 1, 41), Problem("odd", "because", 41))
    assert not world.hung_up
    assert not world.told.get(session)


# Ends -----------------------------------------------------------------------------------------------------


def test_what_a_client_sent_goes_before_its_end_and_its_goodbye_comes_at_once() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    world.send(session, b"one")
    world.ask(session, frames.Disconnect())
    assert world.ended[session].code == "bye"
    assert not world.spoken(link, Unsponsor)
    world.sponsor(link, session, 41)
    said = [one for one in world.said[link] if isinstance(one, Header | Unsponsor)]
    assert [type(one) for one in said] == [Header, Unsponsor]
    assert said[1] == Unsponsor(41)


def test_what_a_lost_client_sent_goes_on_too() -> None:
    world = EdgeWorld(1)
    session = world.connect()
    world.send(session, b"one")
    world.node.lost(session, world.now_us)
    world.settle()
    link = world.attach()
    world.sponsor(link, session, 41)
    assert given(world, link) == [(41, 1)]
    assert world.spoken(link, Unsponsor) == [Unsponsor(41)]


def test_a_name_is_free_at_once_and_its_next_bearer_is_sponsored_after_the_first() -> None:
    world = EdgeWorld()
    link, first = sender(world)
    world.send(first, b"one")
    world.ask(first, frames.Disconnect())
    second = world.connect("bob")
    world.send(second, b"two")
    assert [one.client for one in world.spoken(link, Sponsor)] == [first]
    world.sponsor(link, first, 41)
    said = [one for one in world.said[link] if isinstance(one, Header | Unsponsor | Sponsor)]
    assert [type(one) for one in said] == [Sponsor, Header, Unsponsor, Sponsor]
    world.sponsor(link, second, 42)
    assert given(world, link) == [(41, 1), (42, 1)]


# Own messages ---------------------------------------------------------------------------------------------


def test_what_is_not_for_its_sender_does_not_come_to_it() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    other = world.connect("carl")
    for one in (session, other):
        world.ask(one, Join("chat"))
    world.base(link, "chat", 20)
    world.send(session, b"one", flags=Flag.SELF_DISCARD)
    world.sponsor(link, session, 41)
    flags = Flag.SELF_DISCARD
    world.hear(
        link,
        messages(("chat",), 21, b"mine", flags=flags, origin=(3, 9, 41, 1)),
        messages(("chat",), 22, b"of another incarnation", flags=flags, origin=(3, 8, 41, 1)),
        messages(("chat",), 23, b"of another daemon", flags=flags, origin=(2, 9, 41, 1)),
        messages(("chat",), 24, b"to all", origin=(3, 9, 41, 2)),
    )
    assert world.payloads(session) == [b"of another incarnation", b"of another daemon", b"to all"]
    assert world.payloads(other) == [b"mine", b"of another incarnation", b"of another daemon", b"to all"]


def test_also_if_it_comes_by_another_attachment() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    world.ask(session, Join("chat"))
    world.base(link, "chat", 20)
    world.send(session, b"one", flags=Flag.SELF_DISCARD)
    world.sponsor(link, session, 41)
    second = world.greet(1)
    world.breaks(link)
    mine = messages(("chat",), 21, b"mine", flags=Flag.SELF_DISCARD, origin=(3, 9, 41, 1))
    world.hear(second, edges.Part(10), mine)
    assert not world.payloads(session)


# When the attachment is lost ------------------------------------------------------------------------------


def test_what_waits_goes_to_the_next_attachment_and_what_was_given_is_not_sent_again() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    world.send(session, b"one")
    world.sponsor(link, session, 41)
    second = world.greet(1)
    world.node.waiting(link, limits.EDGE_OUTPUT_BYTES, world.now_us)
    world.send(session, b"two", b"three")
    world.breaks(link)
    assert world.spoken(second, Sponsor) == [Sponsor(session, "bob", "e1", 0, True)]
    world.sponsor(second, session, 7, daemon=4)
    assert given(world, link) == [(41, 1)]
    assert given(world, second) == [(7, 2)]


def test_what_does_not_come_back_is_unsure() -> None:
    world = EdgeWorld()
    link, session = sender(world, accepts=True)
    world.ask(session, Join("chat"))  # number 1
    world.send(session, b"2", b"3", b"4")
    world.send(session, b"5", service=Service.UNRELIABLE)
    world.send(session, b"6")
    world.sponsor(link, session, 41)
    world.hear(link, Accepted(1, 41))
    second = world.greet(1)
    world.breaks(link)
    world.send(session, b"7")
    world.sponsor(second, session, 7)
    world.hear(second, Accepted(1, 7))
    assert not world.of(session, Unsure)
    world.wait(limits.EDGE_UNSURE_US, second)
    told = [one for one in world.told[session] if isinstance(one, Unsure | Accepted)]
    assert told == [Accepted(2), Unsure(3, 2), Unsure(6, 1), Accepted(7)]
    assert world.node.status(world.now_us)["sending"]["unsure_messages"] == 3


def test_what_came_in_the_feed_before_or_comes_after_is_not_unsure() -> None:
    world = EdgeWorld()
    link, session = sender(world, accepts=True)
    world.ask(session, Join("chat"))  # number 1
    world.base(link, "chat", 20)
    for payload in (b"2", b"3", b"4"):
        world.send(session, payload)
        world.settle()
    world.sponsor(link, session, 41)
    world.hear(link, messages(("chat",), 21, b"2", origin=(3, 9, 41, 1)))
    second = world.greet(1)
    world.breaks(link)
    world.hear(second, edges.Part(10), messages(("chat",), 22, b"3", origin=(3, 9, 41, 2)))
    world.wait(limits.EDGE_UNSURE_US, second)
    told = [one for one in world.told[session] if isinstance(one, Unsure | Accepted)]
    assert told == [Accepted(3), Unsure(4, 1)]


def test_what_comes_says_nothing_of_what_was_sent_before() -> None:
    """It may be lost with the daemon that sent it, while others have what came after it."""
    world = EdgeWorld()
    link, session = sender(world, accepts=True)
    world.ask(session, Join("chat"))  # number 1
    world.base(link, "chat", 20)
    world.send(session, b"2", groups=("news",))
    world.send(session, b"3")
    world.send(session, b"4", groups=("news",))
    world.sponsor(link, session, 41)
    second = world.greet(1)
    world.breaks(link)
    world.hear(second, edges.Part(10), messages(("chat",), 22, b"3", origin=(3, 9, 41, 2)))
    world.wait(limits.EDGE_UNSURE_US, second)
    told = [one for one in world.told[session] if isinstance(one, Unsure | Accepted)]
    assert told == [Unsure(2, 1), Accepted(3), Unsure(4, 1)]


def test_nothing_is_in_doubt_once_all_has_come_back() -> None:
    world = EdgeWorld()
    link, session = sender(world, accepts=True)
    world.ask(session, Join("chat"))  # number 1
    world.base(link, "chat", 20)
    world.send(session, b"2", b"3")
    world.sponsor(link, session, 41)
    second = world.greet(1)
    world.breaks(link)
    assert not world.of(session, Accepted)
    world.hear(second, edges.Part(10), messages(("chat",), 22, b"2", b"3", origin=(3, 9, 41, 1)))
    assert world.of(session, Accepted) == [Accepted(3)]
    world.wait(limits.EDGE_UNSURE_US, second)
    assert not world.of(session, Unsure)


def test_an_attachment_that_is_an_edge_may_be_unsure() -> None:
    world = EdgeWorld()
    link, session = sender(world, accepts=True)
    world.ask(session, Join("chat"))  # number 1
    world.send(session, b"2", b"3", b"4")
    world.sponsor(link, session, 41)
    world.hear(link, Unsure(2, 1, 41), Accepted(3, 41))
    told = [one for one in world.told[session] if isinstance(one, Unsure | Accepted)]
    assert told == [Unsure(3, 1), Accepted(4)]


def test_an_attachment_that_is_an_edge_may_send_by_another_daemon_from_now_on() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    world.ask(session, Join("chat"))
    world.base(link, "chat", 20)
    world.send(session, b"1", b"2", flags=Flag.SELF_DISCARD)
    world.hear(link, Sponsored(session, 41, 3, 9, 17))
    world.hear(link, Sponsored(session, 41, 5, 6, 18, 1))
    flags = Flag.SELF_DISCARD
    world.hear(link, messages(("chat",), 21, b"1", flags=flags, origin=(3, 9, 17, 1)))
    world.hear(link, messages(("chat",), 22, b"2", flags=flags, origin=(5, 6, 18, 1)))
    assert not world.payloads(session)
    second = world.greet(1)
    world.breaks(link)
    world.wait(limits.EDGE_UNSURE_US, second)
    assert not world.of(session, Unsure)


# Bounds ---------------------------------------------------------------------------------------------------


def test_no_more_is_written_than_the_connection_takes() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    world.send(session, b"x" * 1_000)
    world.sponsor(link, session, 41)
    world.node.waiting(link, limits.EDGE_OUTPUT_BYTES, world.now_us)
    for _ in range(5):
        world.send(session, b"y" * 1_000, b"z")
    assert len(given(world, link)) == 1
    world.node.waiting(link, limits.EDGE_OUTPUT_BYTES // 4, world.now_us)
    world.settle()
    assert sum(count for _, count in given(world, link)) == 11


def test_what_is_written_in_one_turn_is_bounded() -> None:
    world = EdgeWorld()
    link = world.attach()
    numbers = [world.connect(f"c{number}") for number in range(8)]
    for session in numbers:
        world.send(session, b"x" * 400_000)
    for session in numbers:
        frame = frames.encode_control(Sponsored(session, 40 + session, 3, 9))
        world.node.heard(link, 2, memoryview(frame), world.now_us)
    world.node.settle(world.now_us)
    assert sum(len(frame) for _, frame in world.node.upstream) < 2 * limits.EDGE_OUTPUT_BYTES
    assert not world.node.is_settled
    world.settle()
    assert len(given(world, link)) == 8


def test_full_queues_stop_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    world = EdgeWorld(1)
    session, other = world.connect("bob"), world.connect("carl")
    assert world.node.reads(session)
    while world.node.reads(session):
        world.send(session, b"x" * 100_000)
    assert world.node.sessions.input_bytes < 700_000
    assert world.node.reads(other)
    monkeypatch.setattr(limits, "EDGE_QUEUE_BYTES", 600_000)
    while world.node.reads(other):
        world.send(other, b"x" * 10_000)
    assert not world.node.reads(world.connect("dora"))
    link = world.attach()
    world.sponsor(link, session, 41)
    assert world.node.reads(session)
    assert world.node.reads(other)


def test_too_many_sessions_that_send_are_told_and_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EDGE_SPONSORED_MAX", 1)
    world = EdgeWorld()
    link, session = sender(world)
    other = world.connect("carl")
    world.send(session, b"one")
    world.sponsor(link, session, 41)
    world.send(other, b"two")
    world.send(other, b"three")
    assert [told.code for told in world.of(other, Problem)] == ["too-many-senders"]
    world.ask(session, frames.Disconnect())
    world.sponsor(link, other, 42)
    assert given(world, link) == [(41, 1), (42, 2)]


def test_who_is_not_sponsored_is_told_and_asks_again_after_a_while() -> None:
    world = EdgeWorld()
    link, session = sender(world)
    other = world.connect("carl")
    world.send(session, b"one")
    refusal = Problem("not-sponsored", "too many", client=session)
    for _ in range(2):
        world.hear(link, refusal)
        world.send(session, b"two")
        world.wait(limits.EDGE_DIAL_MOST_US - 1, link)
        asked = len(world.spoken(link, Sponsor))
        world.wait(1, link)
        assert len(world.spoken(link, Sponsor)) == asked + 1
    assert world.of(session, Problem) == [Problem("not-sponsored", "too many")]
    world.sponsor(link, session, 41)
    assert sum(count for _, count in given(world, link)) == 3
    world.hear(link, refusal)
    assert world.hung_up[-1] == link
    assert not world.of(other, Problem)


def test_clients_send_as_themselves() -> None:
    world = EdgeWorld()
    _, session = sender(world)
    with pytest.raises(BadFrame):
        world.send(session, b"one", name="#carl#e1")


def test_a_session_that_has_to_wait_at_the_attachment_does_not_stop_the_others() -> None:
    """What is open of one session is bounded: the queue of that session at the attachment never fills."""
    world = EdgeWorld()
    link, session = sender(world)
    other = world.connect("carl")
    for one, number in ((session, 41), (other, 42)):
        world.send(one, b"first")
        world.sponsor(link, one, number)
    for _ in range(6):
        world.send(session, b"x" * 100_000)
    assert len([one for one, _ in given(world, link) if one == 41]) == 5
    world.send(other, b"second")
    assert given(world, link)[-1] == (42, 1)
    world.hear(link, Accepted(3, 41))
    assert len([one for one, _ in given(world, link) if one == 41]) == 7
    world.hear(link, Accepted(7, 41))
    world.send(session, b"x" * 2_000_000)
    world.send(session, b"x" * 10)
    assert len([one for one, _ in given(world, link) if one == 41]) == 8
    world.hear(link, NotSent("chat", 8, 1, 41))
    assert len([one for one, _ in given(world, link) if one == 41]) == 9
