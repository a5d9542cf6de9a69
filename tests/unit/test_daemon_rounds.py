"""The membership machine by itself, with a host that only takes notes: paths that a whole world hides."""

import pytest
from host_notes import Notes
from small_worlds import world_config

from antiphon.config.timing import PRESETS
from antiphon.core.effects import Outbox
from antiphon.core.membership.daemons import DaemonMembership
from antiphon.core.membership.patience import STUCK_RECOVERIES
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.states import State
from antiphon.core.view import DaemonView
from antiphon.wire import membership, packet
from antiphon.wire.membership import Beat, Proposal
from antiphon.wire.packet import Loose, PacketKind

LAN = PRESETS["lan"]
START_US = 1_000_000


class Machine:
    """Daemon 0 of three, each in a site of its own, and what it sends."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.host = Notes()
        self.datagrams = Outbox()
        alone = DaemonView(1_024, (0,), (100,), ())
        config = world_config(3, mesh=True, membership="lan")
        self.membership = DaemonMembership(config, 0, 100, self.host, self.datagrams, alone, START_US)
        self.membership.start(START_US)

    def run(self, until_us: int) -> None:
        """Serve the deadlines up to then."""
        while (due_us := self.membership.next_deadline_us()) is not None and due_us <= until_us:
            self.now_us = max(self.now_us, due_us)
            self.membership.timeout(self.now_us)
        self.now_us = until_us

    def beats(self, receiver: int) -> list[Beat]:
        """What was said to a daemon since this was last asked."""
        said = []
        for datagram in self.datagrams:
            parsed = packet.parse(memoryview(b"".join(datagram.buffers)))
            assert isinstance(parsed, Loose)
            if datagram.receiver == receiver and parsed.head.kind == PacketKind.BEAT:
                said.append(membership.parse_beat(parsed.body, 3))
        self.datagrams.clear()
        return said

    def hear(self, sender: int, *, incarnation: int | None = None, **changes: object) -> None:
        """A beat of a daemon that hears us."""
        known: dict[str, object] = {
            "clock_us": self.now_us,
            "echo_us": self.now_us,
            "question": False,
            "state": int(State.OP),
            "engaged": 0,
            "promised": 0,
            "lts": 0,
            "representative": sender,
        }
        beat = Beat(**{**known, **changes})  # type: ignore[arg-type]
        self.membership.hear(sender, incarnation or 100 + sender, beat, self.now_us)

    def propose(self, id: int, *members: int) -> None:
        """A proposal for these daemons, all linked with the first, comes from daemon 1."""
        links = tuple((members[0], member) for member in members[1:])
        proposal = Proposal.of(id, members, tuple(100 + member for member in members), links)
        self.membership.receive_proposal(1, proposal, self.now_us)


def forming() -> Machine:
    machine = Machine()
    machine.propose(2_049, 0, 1)
    assert machine.membership.state is State.STATETRANS
    return machine


def test_alone_it_ends_up_in_a_view_of_its_own() -> None:
    machine = Machine()
    machine.run(START_US + LAN.segment_us + 3 * LAN.gather_us)
    assert machine.host.told == ["seg: started", "gather: alone", "statetrans: proposed", "form (0,)"]


@pytest.mark.parametrize("state", [State.STATETRANS, State.EVS])
def test_a_view_that_makes_no_progress_is_given_up(state: State) -> None:
    """Statetrans Timeout (figure 6.14): a guard for what the links do not find out."""
    machine = forming()
    if state is State.EVS:
        machine.membership.formation.state_is_known(machine.now_us)
    limit_us = machine.now_us + STUCK_RECOVERIES * LAN.recovery_us
    machine.run(limit_us - 1)
    assert machine.membership.state is state
    machine.run(limit_us + 1_000)
    assert machine.host.told[-2:] == ["give up", "seg: stuck"]


def test_a_member_for_which_views_are_given_up_twice_is_left_out() -> None:
    """No sentence of the thesis: it knows no daemon that is heard and still never tells its state."""
    machine = forming()
    membership = machine.membership
    limit_us = STUCK_RECOVERIES * LAN.recovery_us + 1_000
    machine.run(machine.now_us + limit_us)
    [record] = [one for one in (*membership.rounds.past, membership.rounds.current) if one.peer == 1][-1:]
    assert record.reason is Reason.STUCK
    assert record.detail == "no progress in state statetrans, waiting for d1"
    assert not membership.exclusions.current(machine.now_us)
    machine.propose(1_000_000, 0, 1)
    assert membership.state is State.STATETRANS
    machine.run(machine.now_us + limit_us)
    assert list(membership.exclusions.current(machine.now_us)) == [1]


def test_progress_keeps_it() -> None:
    machine = forming()
    limit_us = machine.now_us + STUCK_RECOVERIES * LAN.recovery_us
    machine.run(limit_us - 1_000)
    machine.membership.formation.progress(machine.now_us)
    machine.run(limit_us + 1_000)
    assert machine.membership.state is State.STATETRANS


def test_a_pause_of_its_own_keeps_it_too() -> None:
    machine = forming()
    machine.membership.excuse(5_000_000)
    machine.run(START_US + STUCK_RECOVERIES * LAN.recovery_us + 1_000)
    assert machine.membership.state is State.STATETRANS


@pytest.mark.parametrize(
    ("id", "members"),
    [(2_048, (0, 1)), (1_025, (0, 1))],
)
def test_of_two_proposals_the_newer_counts(id: int, members: tuple[int, ...]) -> None:
    """newmemb.stid <= FMemb_id: ignore (figure 6.4)."""
    machine = forming()
    machine.membership.loss.lost_link(1, Reason.SILENCE, "", machine.now_us)
    machine.propose(id, *members)
    assert machine.membership.state is State.SEG
    machine.propose(2_050, *members)
    assert machine.membership.state is State.STATETRANS


def test_while_a_view_is_formed_no_other_is_begun() -> None:
    """receive(s, NEWMEMB) in Statetrans and EVS: ignore (figures 6.14 and 6.15)."""
    machine = forming()
    machine.propose(9_999, 0, 1, 2)
    assert machine.membership.standing.forming is not None and machine.membership.standing.forming.id == 2_049


def test_a_proposal_must_come_from_a_neighbour_in_it() -> None:
    machine = Machine()
    proposal = Proposal.of(2_049, (0, 1, 2), (100, 101, 102), ((0, 2), (1, 2)))
    machine.membership.receive_proposal(1, proposal, machine.now_us)
    assert machine.membership.state is State.SEG
    machine.membership.receive_proposal(2, proposal, machine.now_us)
    assert machine.membership.state is State.STATETRANS


@pytest.mark.parametrize(
    ("changes", "is_lost"),
    [
        ({"engaged": 2_049, "promised": 2_049}, False),
        ({"engaged": 0, "promised": 1_025}, False),
        ({"engaged": 0, "promised": 2_049}, True),
        ({"engaged": 3_073, "promised": 3_073}, True),
        ({"engaged": 2_049, "promised": 2_049, "incarnation": 777}, True),
        ({"engaged": 2_049, "promised": 2_049, "incarnation": 777, "echo_us": 1}, False),
    ],
)
def test_what_a_member_says_of_itself(changes: dict[str, object], is_lost: bool) -> None:
    """A member that has not come so far is waited for; one that has given up, or is another process, is not.
    Old words of another process may be an echo of the past."""
    machine = forming()
    machine.hear(1, **changes)  # type: ignore[arg-type]
    assert (machine.membership.state is State.SEG) is is_lost


def test_questions_are_answered_with_the_askers_clock() -> None:
    machine = Machine()
    machine.beats(1)
    machine.hear(1, question=True, clock_us=4_711)
    (answer,) = machine.beats(1)
    assert (answer.question, answer.echo_us, answer.clock_us) == (False, 4_711, machine.now_us)
    machine.hear(1, question=False, clock_us=4_712)
    assert machine.beats(1) == []


def test_it_tells_where_it_stands() -> None:
    machine = forming()
    machine.beats(1)
    machine.hear(1, question=True, engaged=2_049, promised=2_049)
    (answer,) = machine.beats(1)
    assert (answer.state, answer.engaged, answer.promised) == (State.STATETRANS, 2_049, 2_049)
    assert answer.representative == 0
