"""Bugs that were found once, and the runs and stories that showed them."""

from pathlib import Path

import pytest

from antiphon import limits
from antiphon.config import LinkConfig, OrderName
from antiphon.core.effects import Outbox
from antiphon.core.links.hop import HopLink
from antiphon.core.links.link import Ends, LinkState, Signs
from antiphon.core.links.receiving import Reception
from antiphon.core.node import Node
from antiphon.simulator.plan import Daemon, Plan, Route, Site, read
from antiphon.simulator.play import form, play
from antiphon.simulator.run import run_plan, run_seed
from antiphon.simulator.stage import Stage
from antiphon.trace import Event
from antiphon.trace.bearers import process_name
from antiphon.wire import frames, packet
from antiphon.wire.packet import Fragment

SEEDS = [
    ("mixed", 2, "a bundle born with the lts of a join was not sent again to the joiner"),
    ("mixed", 3, "an answer to an unreliable message was ordered before what its sender had sent earlier"),
    ("mixed", 4, "a bundle born with the lts of a join was not sent again to the joiner"),
    ("stops", 90, "the oracle compared views of two lives of a daemon whose clock was behind"),
    ("stops", 370, "the bound of a planned stop had no time for a large bundle that is resent by slow start"),
    ("far", 441, "the oracle compared views of two lives of a daemon whose clock was behind"),
    ("mixed", 205, "a slow path was taken for a standstill"),
    ("mixed", 70, "a long recovery was given up by daemons that saw nothing of it, again and again"),
    ("streams", 123, "a message came in a view older than that in which it was sent"),
    ("streams", 131, "a message came without an earlier one of the same lost daemon"),
    ("sites", 363, "a daemon was started twice in one microsecond"),
    ("lasting", 412, "a trial that was over began anew, because the daemon was asked seldom from then on"),
    ("lasting", 196, "daemons that were well kept each other out of views"),
    ("holes", 85, "a restarted daemon was taken in over a path that loses all large packets"),
    ("clocks", 24, "the internal time of a process that had ended was told on for ever"),
    ("clocks", 37, "a site did not hear the internal time over the link of a daemon that speaks for nobody"),
    ("clocks", 58, "the same, with two such links at one site"),
    ("locks", 181, "a part of a group that had just begun gave the minority of another part a quorum"),
    ("calls", 66, "two parts of a group granted a lock under one number"),
    ("calls", 92, "the same, with parts that were divided at the same time"),
    ("refusals", 1, "a member worked at a call that another part had answered and forgotten"),
    ("refusals", 62, "the oracle let a newcomer vote of whom nobody had decided"),
    ("choices", 55, "the oracle took a bundle for other sites for one that cannot be missed"),
    ("choices", 902, "what a member that chose agreed had got was dropped at the end of its view"),
    ("choices", 415, "the oracle took a reliable message for a proof that nothing before it was missing"),
    ("choices", 243, "causal messages waited behind what was only offered to members that chose less"),
    ("mixed", 38, "a safe message was delivered before a joining site had its late copy"),
    ("edges", 50, "a message was accepted before its daemon, which was alone and crashed, had delivered it"),
    ("rim", 360, "a daemon that told for how many it listens took a join of its own for done"),
    ("refusals", 21, "a member told that it remembers all of a part that had just come together"),
]


SLOW = {
    ("mixed", 4), ("mixed", 70), ("mixed", 205), ("holes", 85), ("clocks", 24), ("far", 441), ("calls", 66),
    ("calls", 92), ("refusals", 1), ("refusals", 21), ("refusals", 62), ("choices", 55), ("choices", 243),
    ("rim", 360),
}  # fmt: skip
"""Those that take more than three seconds; `make test-long` has them."""


@pytest.mark.parametrize(
    ("scenario", "seed", "showed"),
    [pytest.param(*one, marks=[pytest.mark.long] if one[:2] in SLOW else []) for one in SEEDS],
)
def test_a_seed_that_showed_a_bug_is_clean(scenario: str, seed: int, showed: str) -> None:
    outcome = run_seed(seed, scenario)
    assert outcome.is_clean, f"{showed}, once\n{outcome.error}" + "\n".join(map(str, outcome.violations))


CAUSAL = [
    ("mixed", 1016, "adaptive", "sources that had fallen silent changed their roles for ever"),
    ("mixed", 1029, "symmetric", "the oracle lost a past that went over two unreliable messages"),
    ("streams", 2004, "symmetric", "a search that a daemon began which is no neighbour ended the daemon"),
    pytest.param(
        "partition", 2068, "symmetric", "a neighbour was suspected while its last answer was on its way",
        marks=pytest.mark.long,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("scenario", "seed", "order", "showed"), CAUSAL)
def test_a_seed_with_causal_messages_that_showed_a_bug_is_clean(
    scenario: str, seed: int, order: OrderName, showed: str
) -> None:
    outcome = run_seed(seed, scenario, order=order, causal=True)
    assert outcome.is_clean, f"{showed}, once\n{outcome.error}" + "\n".join(map(str, outcome.violations))


PLANS = Path(__file__).parent / "plans"
"""Runs that showed a bug, as plans: seeds draw other runs when a scenario changes, plans stay."""


@pytest.mark.parametrize("plan", sorted(path.stem for path in PLANS.glob("*.json")))
def test_a_plan_that_showed_a_bug_is_clean(plan: str) -> None:
    outcome = run_plan(read(PLANS / f"{plan}.json"))
    assert outcome.is_clean, outcome.error + "\n".join(map(str, outcome.violations))


def open_link(datagrams: Outbox) -> HopLink:
    """One end of a link whose other end has answered, with a window of few packets."""
    ends = Ends(0, 1, digest=7, view=9, incarnation=1, peer_incarnation=2)
    path = LinkConfig(("s0", "s1"), packet_bytes=1_400, window_bytes=65_536)
    link = HopLink(ends, path, signs=Signs(600_000, 40_000), datagrams=datagrams, now_us=0)
    prefix = packet.prefix(packet.PacketKind.HELLO, digest=7, sender=1, receiver=0, incarnation=2, view=9)
    link.receive(packet.parse(memoryview(packet.hello(prefix, 5, 0, counter=1))), 0)
    assert link.state is LinkState.OPEN
    datagrams.clear()
    return link


def test_a_failed_link_with_unreliable_traffic_lets_its_daemon_sleep() -> None:
    """What paces unreliable packets kept its deadline in the past when the link failed."""
    link = open_link(Outbox())
    link.send(Fragment(0, 1, 2, 4, 0, b"void"))
    link.pump(0)
    now_us = 0
    while link.state is LinkState.OPEN:
        link.send_unreliable(Fragment(0, 1, 2, 300_000, 0, bytes(300_000)))
        link.pump(now_us)
        now_us = max(now_us, link.next_deadline_us())
        link.timeout(now_us)
    for _ in range(3):
        now_us = link.next_deadline_us()
        link.timeout(now_us)
        assert link.next_deadline_us() > now_us


def test_a_loss_beyond_what_can_be_tracked_is_asked_for_piece_by_piece() -> None:
    """A sender that was far ahead when everything was lost was never asked for anything."""
    reception = Reception()
    far = 3 * limits.LINK_MISSING_MAX
    for _ in range(3):
        reception.announced(far, 0)
        assert reception.missing == limits.LINK_MISSING_MAX
        for number in range(reception.aru + 1, reception.highest + 1):
            assert reception.accept(number, 1, 0)
    assert (reception.aru, reception.missing) == (far, 0)


def deserted_node() -> tuple[Node, int]:
    """A node whose only companion has just crashed, which it does not know, and what its clock shows."""
    sites = tuple(Site(f"s{number}", (Daemon(f"d{number}"),)) for number in range(2))
    world = Stage(Plan("pair", 0, sites, (Route(LinkConfig(("s0", "s1")), 1_000),), (), 1)).world
    form(world)
    world.hosts[1].crash()
    node = world.node(0)
    assert node is not None
    return node, world.hosts[0].clock_us


def test_whom_a_view_has_lost_was_in_the_view_before() -> None:
    """A daemon crashed, came back and gave a session's name to another before the others had lost the first:
    the trace said that they lost the second."""
    outcome = play(read(PLANS / "name-taken-again-while-a-view-ends.json"))
    before: dict[tuple[str, str], tuple[str, ...]] = {}
    lost = []
    for record in outcome.world.records:
        if record.event is Event.VIEW:
            known = before.get((record.process, record.groups[0]), ())
            if record.cause == "network":
                lost += record.changed
                assert set(record.changed) <= set(known)
            before[record.process, record.groups[0]] = record.members
    connected = {record.process for record in outcome.world.records if record.event is Event.CONNECT}
    assert any(process_name(process, 2) in connected for process in lost)


def test_a_join_that_is_over_does_not_count_for_the_next_one() -> None:
    """Join, leave, join: the first join took effect and made the second, still to be ordered, look settled,
    so that a join of another session did not wait for the other sites."""
    node, now_us = deserted_node()
    welcome = node.connect(frames.Connect(frames.PROTOCOL_VERSION, "alice"), now_us)
    assert isinstance(welcome, frames.Welcome)
    session = node.sessions.get(welcome.session)
    assert session is not None
    node.control(session.number, frames.Join("g"), now_us)
    node.settle(now_us)
    (join,) = node.order.undelivered(frozenset())
    node.control(session.number, frames.Leave("g"), now_us)
    node.control(session.number, frames.Join("g"), now_us)
    node.deliver(join)
    assert node.delivery.membership.is_member((0, session.number), "g")
    assert not node.delivery.has_staying_member("g")


def test_a_daemon_that_never_sleeps_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator notices a deadline that stays in the past, however late deadlines are served."""
    monkeypatch.setattr(HopLink, "next_deadline_us", lambda link: 0)
    outcome = run_seed(2, "mixed")
    assert "never sleeps" in outcome.error


def test_the_track_record_names_every_seed_and_plan() -> None:
    text = (Path(__file__).parents[2] / "docs" / "track-record.md").read_text()
    for path in PLANS.glob("*.json"):
        assert f"plans/{path.name}" in text
    for scenario, seed, _ in SEEDS:
        assert f"`{scenario}`" in text
        assert str(seed) in text
