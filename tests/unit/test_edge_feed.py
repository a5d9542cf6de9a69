"""What the members of groups at an edge get: the feed in its order, once each, or a word about what is
missing."""

from edge_world import EdgeWorld, messages, view_of

from antiphon import limits
from antiphon.service import Service
from antiphon.types import Cause, TransitionalSignal
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Flag
from antiphon.wire.edges import Held, Listen, Position
from antiphon.wire.frames import GapFrame, Join, Leave, LeftFrame, Problem, SignalFrame, ViewFrame


def joined(world: EdgeWorld, *groups: str, name: str = "bob") -> tuple[int, int]:
    """An attached edge with a member of groups that flow from place 20 on: its link and session."""
    link = world.attach()
    session = world.connect(name)
    world.ask(session, *map(Join, groups))
    for group in groups:
        world.base(link, group, 20, "#core#d1")
    return link, session


def test_an_edge_listens_for_its_members_and_for_their_private_names() -> None:
    world = EdgeWorld()
    link = world.attach()
    assert not world.spoken(link, Listen)
    session = world.connect()
    assert world.spoken(link, Listen) == [Listen("#e1")]
    world.ask(session, Join("chat"))
    assert world.spoken(link, Listen) == [Listen("#e1"), Listen("chat")]


def test_the_base_of_a_group_is_the_first_view_of_those_who_wait() -> None:
    world = EdgeWorld()
    link = world.attach()
    session = world.connect()
    world.ask(session, Join("chat"))
    assert not world.told.get(session)
    base = world.base(link, "chat", 20, "#a#d1", "#b#d2")
    (view,) = world.views(session)
    assert (view.id, view.members) == (base.id, ("#a#d1", "#b#d2"))
    assert (view.cause, view.changed, view.transitional) == (Cause.JOIN, ("#bob#e1",), ())


def test_who_joins_later_gets_the_last_view_at_once() -> None:
    world = EdgeWorld()
    link, _ = joined(world, "chat")
    newest = view_of("chat", 30, "#core#d1", "#x#d1")
    world.hear(link, ViewFrame(newest))
    late = world.connect("late", views=False)
    world.ask(late, Join("chat"))
    (view,) = world.views(late)
    assert (view.id, view.members, view.changed) == (newest.id, newest.members, ("#late#e1",))
    assert world.spoken(link, Listen).count(Listen("chat")) == 1


def test_views_signals_and_messages_come_in_the_order_of_the_feed() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    world.hear(
        link,
        messages(("chat",), 21, b"one", b"two"),
        ViewFrame(view_of("chat", 22, "#core#d1", "#x#d1")),
        messages(("chat",), 23, b"three"),
        SignalFrame(TransitionalSignal("chat", view_of("chat", 22).id)),
        edges.Part(11),
        ViewFrame(view_of("chat", 5, "#core#d1", epoch=11, cause=Cause.NETWORK)),
        messages(("chat",), 6, b"four"),
    )
    kinds = [type(one).__name__ for one in world.told[session]]
    assert kinds == [
        "ViewFrame",
        "Message",
        "Message",
        "ViewFrame",
        "Message",
        "SignalFrame",
        "ViewFrame",
        "Message",
    ]
    assert world.payloads(session) == [b"one", b"two", b"three", b"four"]
    assert world.node.feed.position == Position(11, 0, 6)


def test_a_session_that_wants_no_views_gets_only_the_one_that_answers_its_join() -> None:
    world = EdgeWorld()
    link = world.attach()
    session = world.connect(views=False)
    world.ask(session, Join("chat"))
    world.base(link, "chat", 20)
    world.hear(link, ViewFrame(view_of("chat", 22, "#x#d1")))
    assert len(world.views(session)) == 1


def test_a_message_to_several_groups_comes_once() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat", "news")
    world.hear(link, messages(("chat", "news", "#bob#e1", "else"), 21, b"one"))
    assert world.payloads(session) == [b"one"]


def test_private_messages_come_to_one_session() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    other = world.connect("carl")
    world.hear(link, messages(("#carl#e1",), 21, b"private"), messages(("#bob#e2",), 22, b"elsewhere"))
    assert (world.payloads(session), world.payloads(other)) == ([], [b"private"])


def test_unreliable_messages_come_as_they_come() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    world.hear(
        link,
        messages(("chat",), 30, b"ordered"),
        messages(("chat",), 25, b"loose", service=Service.UNRELIABLE, origin=(1, 7, 5, 2)),
        messages(("chat",), 24, b"late", service=Service.UNRELIABLE, origin=(1, 7, 5, 3)),
        messages(("chat",), 25, b"loose", service=Service.UNRELIABLE, origin=(1, 7, 5, 2)),
    )
    assert world.payloads(session) == [b"ordered", b"loose", b"late"], "each once"
    assert world.node.feed.position == Position(10, 0, 30)


def test_unreliable_messages_that_one_attachment_brought_another_does_not_bring_again() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    loose = Service.UNRELIABLE
    world.hear(link, messages(("chat",), 25, b"1", service=loose, origin=(1, 7, 5, 1)))
    second = world.greet(1)
    world.breaks(link)
    world.hear(
        second,
        messages(("chat",), 25, b"1", service=loose, origin=(1, 7, 5, 1)),
        messages(("chat",), 26, b"2", service=loose, origin=(1, 7, 5, 2)),
        messages(("chat",), 26, b"of another incarnation", service=loose, origin=(1, 8, 5, 1)),
    )
    assert world.payloads(session) == [b"1", b"2", b"of another incarnation"]


def test_nobody_gets_anything_before_the_base() -> None:
    world = EdgeWorld()
    link = world.attach()
    session = world.connect()
    world.ask(session, Join("chat"))
    world.hear(link, messages(("chat",), 15, b"early"), ViewFrame(view_of("chat", 16, "#x#d1")))
    assert not world.told.get(session)


# Leaving --------------------------------------------------------------------------------------------------


def test_a_leave_takes_effect_at_once_and_the_last_one_ends_the_listening() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    other = world.connect("carl")
    world.ask(other, Join("chat"))
    world.ask(session, Leave("chat"))
    assert [type(one) for one in world.told[session]][-1] is LeftFrame
    world.hear(link, messages(("chat",), 21, b"after"))
    assert (world.payloads(session), world.payloads(other)) == ([], [b"after"])
    assert not world.spoken(link, edges.Unlisten)
    world.ask(other, Leave("chat"))
    assert world.spoken(link, edges.Unlisten) == [edges.Unlisten("chat")]
    world.hear(link, messages(("chat",), 22, b"under way"), ViewFrame(view_of("chat", 23)))
    assert world.payloads(other) == [b"after"]


def test_a_group_is_listened_to_until_its_base_has_come() -> None:
    """Otherwise that base could be taken for the one of a later wish, and what is between would be lost."""
    world = EdgeWorld()
    link = world.attach()
    session = world.connect()
    world.ask(session, Join("chat"), Leave("chat"))
    assert not world.spoken(link, edges.Unlisten)
    assert [type(one) for one in world.told[session]] == [LeftFrame, LeftFrame]  # one for each request
    world.base(link, "chat", 20)
    assert world.spoken(link, edges.Unlisten) == [edges.Unlisten("chat")]
    world.ask(session, Join("chat"))
    world.hear(link, messages(("chat",), 21, b"of the former wish"))
    world.base(link, "chat", 25)
    world.hear(link, messages(("chat",), 26, b"mine"))
    assert world.payloads(session) == [b"mine"]
    assert not world.of(session, GapFrame)


def test_without_sessions_nobody_listens_to_private_names() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    world.base(link, "#e1", 21)
    world.ask(session, frames.Disconnect())
    assert world.ended[session].code == "bye"
    assert world.spoken(link, edges.Unlisten) == [edges.Unlisten("chat"), edges.Unlisten("#e1")]


# Going on elsewhere ---------------------------------------------------------------------------------------


def test_an_edge_goes_on_at_its_standby_from_where_it_was() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    second = world.greet(1)
    assert world.spoken(second, edges.Attach) == [edges.Attach(frames.PROTOCOL_VERSION, "e1", 77, True)]
    assert world.spoken(second, Listen) == [Listen("#e1"), Listen("chat")]
    world.hear(link, messages(("chat",), 21, b"one"), ViewFrame(view_of("chat", 22, "#x#d1")))
    world.breaks(link)
    held = Held((10, 0, 22, 0))
    assert Listen("chat", held) in world.spoken(second, Listen)
    assert world.spoken(second, edges.Go) == [edges.Go(Position(10, 0, 22, "chat"))]
    world.hear(
        second,
        edges.Part(10),
        messages(("chat",), 21, b"one"),
        ViewFrame(view_of("chat", 22, "#x#d1")),
        messages(("chat",), 23, b"two"),
    )
    assert world.payloads(session) == [b"one", b"two"]
    assert len(world.views(session)) == 2
    assert not world.of(session, GapFrame)
    assert world.node.feed.again == 2


def test_an_edge_that_nothing_flows_to_tells_its_place_too() -> None:
    """A group that began before that place at another attachment would lack what lies between."""
    world = EdgeWorld()
    link = world.attach()
    world.hear(link, edges.Reached(Position(10, 0, 40)))
    second = world.greet(1)
    session = world.connect()
    world.ask(session, Join("chat"))
    world.breaks(link)
    assert world.spoken(second, edges.Go) == [edges.Go(Position(10, 0, 40))]


def test_without_a_standby_the_next_address_is_dialled() -> None:
    world = EdgeWorld(3)
    link, session = joined(world, "chat")
    world.breaks(world.link(1))
    world.breaks(link)
    assert world.dialled[-1][1] == 2
    third = world.greet(2)
    assert world.said[third] == [
        edges.Attach(frames.PROTOCOL_VERSION, "e1", 77),
        Listen("#e1"),
        Listen("chat", Held((10, 0, 19, 0))),
        edges.Go(Position(10, 0, 20)),
        edges.Receivers({"chat": 1}),
    ]
    world.hear(third, edges.Part(10), messages(("chat",), 21, b"one"))
    assert world.payloads(session) == [b"one"]


def test_a_signal_that_was_given_is_held_and_not_given_again() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    second = world.greet(1)
    signal = SignalFrame(TransitionalSignal("chat", view_of("chat", 19).id))
    world.hear(link, signal, signal)
    world.breaks(link)
    assert Listen("chat", Held((10, 0, 19, 0), True)) in world.spoken(second, Listen)
    world.hear(second, edges.Part(10), signal)
    assert world.of(session, SignalFrame) == [signal]


def test_a_gap_is_told_with_the_view_that_follows() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    world.hear(link, messages(("chat",), 30, b"one"))
    second = world.greet(1)
    world.breaks(link)
    world.told.clear()
    world.hear(
        second,
        edges.Part(12),
        edges.Gap("chat", Position(10, 0, 30), Position(12, 0, 40), "the attachment has forgotten it"),
        messages(("chat",), 41, b"before the base"),
    )
    assert [type(one).__name__ for one in world.told[session]] == ["GapFrame"]
    base = view_of("chat", 39, "#x#d1", epoch=12)
    world.hear(second, edges.Base(base, Position(12, 0, 42)), messages(("chat",), 43, b"two"))
    told = world.told[session]
    assert [type(one).__name__ for one in told] == ["GapFrame", "ViewFrame", "Message"]
    gap = told[0].gap
    assert (gap.group, gap.after, gap.after_lts, gap.until_lts) == ("chat", view_of("chat", 19).id, 30, 40)
    assert gap.reason == "the attachment has forgotten it"
    view = told[1].view
    assert (view.id, view.cause, view.transitional, view.changed) == (base.id, Cause.NETWORK, (), ())


def test_a_gap_whose_attachment_is_lost_before_the_base_is_told_once() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    second = world.greet(1)
    world.breaks(link)
    world.hear(second, edges.Part(12), edges.Gap("chat", Position(10, 0, 20), Position(12, 0, 40), "first"))
    world.wait(200_000)
    third = world.greet(0)
    world.breaks(second)
    assert world.spoken(third, Listen)[-1] == Listen("chat")
    world.hear(third, edges.Base(view_of("chat", 50, epoch=12), Position(12, 0, 51)))
    (told,) = world.of(session, GapFrame)
    assert (told.gap.reason, told.gap.after_lts, told.gap.until_lts) == ("first", 20, 40)


def test_a_gap_of_private_names_is_told_to_their_sessions() -> None:
    world = EdgeWorld()
    link = world.attach()
    session = world.connect()
    world.base(link, "#e1", 20)
    assert not world.told.get(session)
    world.hear(link, edges.Gap("#e1", Position(10, 0, 20), Position(10, 0, 30), "old"))
    world.base(link, "#e1", 30)
    (told,) = world.told[session]
    assert (told.gap.group, told.gap.after) == ("#bob#e1", None)


def test_a_base_of_a_group_that_flows_is_a_view_from_elsewhere() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    view = view_of("chat", 3, "#x#d9", epoch=8, cause=Cause.MERGE)
    world.hear(link, edges.Base(view, Position(10, 0, 25, "chat")))
    world.hear(link, edges.Base(view, Position(10, 0, 26)), messages(("chat",), 27, b"one"))
    assert world.views(session)[1:] == [view]
    assert not world.of(session, GapFrame)


def test_where_an_attachment_is_behind_new_groups_begin_at_the_place_of_the_edge() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    world.hear(link, messages(("chat",), 80, b"far"))
    second = world.greet(1)
    world.breaks(link)
    world.ask(session, Join("news"))
    changed = view_of("news", 55, "#x#d1", "#y#d1")
    world.hear(
        second,
        edges.Base(view_of("news", 40, "#x#d1"), Position(10, 0, 50)),
        ViewFrame(changed),
        messages(("news",), 70, b"before the place of the edge"),
    )
    assert len(world.views(session)) == 1
    world.hear(second, messages(("chat", "news"), 90, b"new"))
    assert world.payloads(session) == [b"far", b"new"]
    assert [view.id for view in world.views(session)][1:] == [changed.id]


def test_an_attachment_that_leads_back_to_a_known_view_brings_nothing_twice() -> None:
    world = EdgeWorld()
    link, session = joined(world, "chat")
    world.hear(link, messages(("chat",), 50, b"in 10"))
    second = world.greet(1)
    world.breaks(link)
    world.hear(
        second,
        edges.Part(9),
        edges.Gap("chat", Position(10, 0, 50), Position(9, 0, 40), "elsewhere"),
        edges.Base(view_of("chat", 39, epoch=9), Position(9, 0, 40)),
        messages(("chat",), 41, b"in 9"),
        edges.Part(10),
        messages(("chat",), 30, b"before"),
        messages(("chat",), 50, b"in 10"),
        messages(("chat",), 51, b"more in 10"),
    )
    assert world.payloads(session) == [b"in 10", b"in 9", b"more in 10"]


def test_reached_moves_the_place_and_is_what_the_edge_goes_on_after() -> None:
    world = EdgeWorld()
    link, _ = joined(world, "chat")
    second = world.greet(1)
    world.hear(link, edges.Reached(Position(10, 0, 60)), edges.Reached(Position(10, 11, 61)))
    world.breaks(link)
    assert world.said[second][-2] == edges.Go(Position(10, 11, 61))


# What no attachment should say ----------------------------------------------------------------------------


def bad(world: EdgeWorld, link: int, *values: edges.OnlyToEdge | frames.FromDaemon | bytes) -> None:
    """An attachment that says this is hung up."""
    before = world.node.counters["attachment: bad frame"]
    world.hear(link, *values)
    assert world.hung_up[-1:] == [link]
    assert world.node.counters["attachment: bad frame"] == before + 1


def test_frames_that_cannot_be_end_the_connection() -> None:
    good = messages(("chat",), 25, b"x")
    event = messages(("chat",), 25, b"x", flags=Flag.EVENT)
    for frame in (
        b"\0\0\0\x06\2\xff",
        good[:-1],
        event,
        messages(("chat",), 20, b"at the place of the base"),
        edges.Part(-1),
        edges.Base(view_of("nobody's", 1), Position(10, 0, 25)),
        edges.Gap("nobody's", Position(10, 0, 1), Position(10, 0, 2), ""),
        edges.Base(view_of("chat", 1), Position(10, 0, -5)),
        edges.Reached(Position(10, 0, 3)),
        edges.Reached(Position(0, 0, 3)),
        edges.Reached(Position(1 << 62, 0, 3)),
        edges.Sponsored(4711, 1, 1, 1),
        frames.Welcome(1, 1, "#a#b", "b", 1, 1),
        frames.Refuse("full", "too late"),
        ViewFrame(view_of("chat", 19)),
    ):
        world = EdgeWorld()
        link, _ = joined(world, "chat")
        bad(world, link, frame)


def test_nothing_of_the_feed_comes_before_a_daemon_view_or_before_go() -> None:
    world = EdgeWorld()
    link = world.greet()
    bad(world, link, messages(("chat",), 25, b"x"))
    world = EdgeWorld()
    world.greet(0)
    standby = world.greet(1)
    bad(world, standby, messages(("chat",), 25, b"x"))
    assert world.node.is_operational


# What an edge cannot do for its clients -------------------------------------------------------------------


def test_locks_and_minimums_are_for_clients_of_the_core() -> None:
    world = EdgeWorld()
    _, session = joined(world, "chat")
    world.ask(session, frames.AskLock("chat", "l"), frames.Unlock("chat", "l"), Join("news", minimum=2))
    problems = world.of(session, Problem)
    assert [problem.code for problem in problems] == ["at-an-edge"] * 3
    assert "news" not in world.node.members.groups


def test_joins_are_checked() -> None:
    world = EdgeWorld()
    _, session = joined(world, "chat")
    world.ask(session, Join("no name"), Join("chat"), Leave("other"), Join("news", delivery=99))
    codes = [problem.code for problem in world.of(session, Problem)]
    assert codes == ["group-name", "already-joined", "not-joined", "delivery"]


def test_an_edge_listens_to_so_many_groups_at_most(monkeypatch) -> None:
    monkeypatch.setattr(limits, "EDGE_GROUPS_MAX", 2)
    world = EdgeWorld()
    _, session = joined(world, "chat")
    world.ask(session, Join("news"))
    assert [problem.code for problem in world.of(session, Problem)] == ["too-many-groups"]


def test_the_time_is_not_known() -> None:
    world = EdgeWorld()
    session = world.connect()
    world.ask(session, frames.AskTime(7))
    assert world.told[session] == [frames.Time(number=7)]


def test_after_a_gap_the_view_comes_also_to_who_wants_no_views() -> None:
    """It tells from where on nothing is missing."""
    world = EdgeWorld()
    link = world.attach()
    session = world.connect(views=False)
    world.ask(session, Join("chat"))
    world.base(link, "chat", 20)
    world.hear(link, edges.Gap("chat", Position(10, 0, 20), Position(10, 0, 30), "old"))
    world.base(link, "chat", 30)
    assert [type(one) for one in world.told[session]] == [ViewFrame, GapFrame, ViewFrame]
