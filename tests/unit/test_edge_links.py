"""Which attachments an edge dials, which one it keeps, and when it gives one up."""

from edge_world import EdgeWorld, messages

from antiphon import limits
from antiphon.types import Cause
from antiphon.wire import edges, frames
from antiphon.wire.edges import Attach, Attached, Position
from antiphon.wire.frames import Connect, Join

VERSION = frames.PROTOCOL_VERSION


def test_addresses_are_dialled_in_the_order_of_preference() -> None:
    world = EdgeWorld(3)
    for place in range(3):
        assert [where for _, where in world.dialled] == list(range(place + 1))
        world.breaks(world.link(place))
    assert len(world.dialled) == 3


def test_an_address_that_failed_is_left_alone_twice_as_long_each_time() -> None:
    world = EdgeWorld(1)
    waits = []
    for _ in range(8):
        world.breaks(world.link())
        before_us, count = world.now_us, len(world.dialled)
        while len(world.dialled) == count:
            world.now_us = world.node.next_deadline_us()
            world.node.timeout(world.now_us)
            world.settle()
        waits.append((world.now_us - before_us) // 1_000)
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


def test_a_connection_that_lasted_ends_the_row_of_failures() -> None:
    world = EdgeWorld(1)
    for _ in range(4):
        world.breaks(world.link())
        world.wait(5_000_000)
    link = world.attach()
    world.wait(limits.EDGE_DIAL_MOST_US, link)
    world.breaks(link)
    assert world.node.links.places[0].until_us == world.now_us + limits.EDGE_DIAL_FIRST_US


def test_dials_and_answers_that_do_not_come_are_given_up() -> None:
    world = EdgeWorld(2)
    first = world.link(0)
    world.wait(limits.EDGE_ANSWER_US)
    assert world.hung_up == [first]
    second = world.link(1)
    world.node.dialled(second, world.now_us)
    world.wait(limits.EDGE_ANSWER_US)
    assert world.hung_up == [first, second]


def test_the_first_attachment_feeds_and_the_second_stands_by() -> None:
    world = EdgeWorld(3)
    first = world.greet(0)
    second = world.greet(1)
    assert world.spoken(first, Attach) == [Attach(VERSION, "e1", 77)]
    assert world.spoken(first, edges.Go) == [edges.Go()]
    assert world.spoken(second, Attach) == [Attach(VERSION, "e1", 77, True)]
    assert not world.spoken(second, edges.Go)
    assert len(world.dialled) == 2


def test_a_refused_edge_tries_the_next_address() -> None:
    world = EdgeWorld(2)
    link = world.link(0)
    world.node.dialled(link, world.now_us)
    world.hear(link, frames.Refuse("full", "no room"))
    assert world.hung_up == [link]
    assert world.dialled[-1][1] == 1
    (row, _) = world.node.status(world.now_us)["attachments"]
    assert row["reason"] == "refused: no room (full)"


def test_silence_for_three_beats_is_the_end_of_a_connection() -> None:
    world = EdgeWorld(2)
    first = world.attach(0)
    second = world.greet(1)
    world.wait(1_400_000, second)
    assert not world.hung_up
    world.wait(200_000, second)
    assert world.hung_up == [first]
    assert world.spoken(second, edges.Go)


def test_an_edge_that_stood_still_itself_takes_nobody_for_silent() -> None:
    world = EdgeWorld(2)
    first = world.attach(0)
    second = world.greet(1)
    world.now_us += 10_000_000
    world.node.timeout(world.now_us)
    world.settle()
    assert not world.hung_up
    world.hear(first, edges.Beat())
    world.wait(1_400_000, first)
    assert world.hung_up == []
    world.wait(200_000, first)
    assert world.hung_up == [second]


def test_an_edge_beats_when_it_has_nothing_to_say() -> None:
    world = EdgeWorld(2)
    first, second = world.attach(0), world.greet(1)
    world.wait(2_100_000, first, second)
    assert len(world.spoken(first, edges.Beat)) in (4, 5)
    assert len(world.spoken(second, edges.Beat)) in (4, 5)


def test_what_comes_over_a_lost_connection_is_nothing() -> None:
    world = EdgeWorld(2)
    first = world.attach(0)
    world.breaks(first)
    world.hear(first, messages(("chat",), 1, b"late"), edges.Part(99))
    world.breaks(first)
    world.node.dialled(first, world.now_us)
    world.node.waiting(first, 5, world.now_us)
    assert not world.node.is_operational


# Circles of edges -----------------------------------------------------------------------------------------


def test_an_attachment_that_is_fed_through_this_edge_is_not_taken() -> None:
    world = EdgeWorld(2)
    link = world.greet(0, path=("e2", "e1"))
    assert world.hung_up == [link]
    assert world.node.counters["attachment: loop"] == 1
    assert not world.node.is_operational
    world.greet(1, path=("e2", "e3"))
    assert world.node.is_operational


def test_a_way_that_comes_to_lead_in_a_circle_is_left() -> None:
    world = EdgeWorld(2)
    link = world.greet(0, path=("e2",))
    standby = world.greet(1, path=("e3",))
    world.hear(standby, Attached(VERSION, "e3", "d1", ("e3", "e1"), 1, 500_000))
    assert world.hung_up == [standby]
    world.hear(link, Attached(VERSION, "e2", "d2", ("e2", "e5"), 1, 500_000))
    assert world.node.is_operational
    world.hear(link, Attached(VERSION, "e2", "d2", ("e2", "e1"), 1, 500_000))
    assert world.hung_up == [standby, link]


# Without an attachment ------------------------------------------------------------------------------------


def test_clients_connect_and_wait_while_nothing_is_attached() -> None:
    world = EdgeWorld(1)
    session = world.connect()
    world.ask(session, Join("chat"))
    world.send(session, b"one")
    assert not world.told.get(session)
    status = world.node.status(world.now_us)
    assert (status["state"], status["attachment"]) == ("unattached", None)
    assert status["flow"]["waiting"] == ["#e1", "chat"]
    assert status["sending"]["waiting_bundles"] == 1
    link = world.attach()
    assert world.spoken(link, edges.Listen) == [edges.Listen("#e1"), edges.Listen("chat")]
    assert world.node.status(world.now_us)["state"] == "attached"


def test_what_is_not_wanted_any_more_is_forgotten_while_nothing_is_attached() -> None:
    world = EdgeWorld(1)
    session = world.connect()
    world.ask(session, Join("chat"), frames.Leave("chat"))
    assert list(world.node.members.groups) == ["#e1"]
    world.ask(session, frames.Disconnect())
    assert not world.node.members.groups
    link = world.attach()
    assert not world.spoken(link, edges.Listen)


def test_clients_are_welcomed_as_those_of_an_edge() -> None:
    world = EdgeWorld(1)
    welcome = world.node.connect(Connect(VERSION, "bob"), world.now_us)
    assert (welcome.name, welcome.daemon, welcome.daemon_number) == ("#bob#e1", "e1", frames.AT_AN_EDGE)
    refused = world.node.connect(Connect(VERSION, "bob"), world.now_us)
    assert refused.code == "name-taken"


# Counts of receivers --------------------------------------------------------------------------------------


def test_members_are_counted_now_and_then_and_told_if_that_has_changed() -> None:
    world = EdgeWorld(1)
    link = world.attach()
    for name in ("bob", "carl"):
        world.ask(world.connect(name), Join("chat"))
    world.base(link, "chat", 20)
    told = world.spoken(link, edges.Receivers)
    world.wait(limits.EDGE_RECEIVERS_US, link)
    told = world.spoken(link, edges.Receivers)
    assert len(told) <= 2
    assert told[-1] == edges.Receivers({"chat": 2})
    session = world.connect("dora")
    world.ask(session, Join("chat"), frames.Leave("chat"))
    world.wait(limits.EDGE_RECEIVERS_US, link)
    assert world.spoken(link, edges.Receivers)[-1] == edges.Receivers({"chat": 2})


def test_another_attachment_is_told_all_counts() -> None:
    world = EdgeWorld(2)
    link = world.attach()
    session = world.connect()
    world.ask(session, Join("chat"), Join("news"))
    world.base(link, "chat", 20)
    world.base(link, "news", 20)
    second = world.greet(1)
    assert not world.spoken(second, edges.Receivers)
    world.breaks(link)
    assert world.spoken(second, edges.Receivers) == [edges.Receivers({"chat": 1, "news": 1})]
    world.hear(second, edges.Part(10), edges.Reached(Position(10, 0, 90)))
    world.ask(session, frames.Leave("news"))
    world.wait(limits.EDGE_RECEIVERS_US, second)
    assert world.spoken(second, edges.Receivers)[-1] == edges.Receivers({"news": 0})
    assert world.views(session)[0].cause is Cause.JOIN
