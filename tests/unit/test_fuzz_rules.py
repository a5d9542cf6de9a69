"""The rules of the fuzzer: each is kept by what should be, and broken by what should not."""

from pathlib import Path

import pytest

from antiphon.errors import UsageError
from antiphon.lab.experiment import Choices
from antiphon.lab.fuzz import rules
from antiphon.lab.fuzz.experiment import faults
from antiphon.lab.fuzz.plan import DOORS, KINDS, plans
from antiphon.lab.fuzz.rules import Look
from antiphon.lab.fuzz.talkers import Talker, Talkers, body, read_body
from antiphon.service import Service
from antiphon.types import Cause, Envelope, Message, View, ViewId

GOOD = Look(3, "beat", 3_000_000, 20, 1.0, 0.5)
WHOLE = {"d1": "", "d2": ""}


def look(**fields: object) -> Look:
    return Look(**({name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | fields))  # type: ignore[arg-type]


def test_messages_must_flow_after_every_spell() -> None:
    assert not rules.flow([GOOD]).faults
    (fault,) = rules.flow([GOOD, look(flows_after_s=None, unheard=("from d1 to d2",))]).faults
    assert "spell 3 (beat, mutants from 3000000)" in fault
    assert "from d1 to d2" in fault


def test_status_must_not_call_a_silent_cluster_whole() -> None:
    assert not rules.status([look(flows_after_s=None, complaints={"d1": "NOT WHOLE", "d2": ""})]).faults
    assert rules.status([look(flows_after_s=None, complaints=WHOLE)]).faults


def test_status_must_not_go_on_complaining_when_messages_flow() -> None:
    assert not rules.status([look(complaints=WHOLE)]).faults
    (fault,) = rules.status([look(complaints={"d1": "", "d2": "NOT WHOLE"})]).faults
    assert "d2: NOT WHOLE" in fault


def test_no_process_may_end_and_no_log_may_have_a_traceback() -> None:
    assert not rules.processes([GOOD], []).faults
    assert rules.processes([look(ended=("d1 ended with exit code 1",))], []).faults
    assert rules.processes([GOOD], ["the log of d1 has: Traceback"]).faults


def test_memory_must_be_flat_and_bounded() -> None:
    flat = [look(memory_bytes={"d1": 50_000_000}) for _ in range(9)]
    assert not rules.memory(flat, {"d1": 60_000_000}).faults
    assert rules.memory(flat, {"d1": rules.PEAK_BYTES + 1}).faults
    rising = [look(memory_bytes={"d1": 50_000_000 * step}) for step in range(1, 10)]
    (fault,) = rules.memory(rising, {}).faults
    assert "d1 grew" in fault
    assert not rules.memory(rising[:8], {}).faults  # too few to tell


def test_no_honest_session_may_end_and_none_may_get_a_broken_frame() -> None:
    ends = ["the session at d1 ended: bundle: payloads do not fill it"]
    assert rules.frames(ends).faults
    assert not rules.frames(["the session at d1 ended: the daemon is gone"]).faults
    assert rules.sessions(ends, 0).faults
    assert not rules.sessions(ends, 1).faults
    assert not rules.sessions([], 0).faults


def test_honest_clients_notice_nothing_at_the_doors_of_clients() -> None:
    assert not rules.messages(0, [], [], [], []).faults
    assert rules.messages(1, [], [], [], []).faults
    for place in range(4):
        lists: list[list[str]] = [[], [], [], []]
        lists[place] = ["something"]
        assert rules.messages(0, *lists).faults


def test_the_journal_must_be_readable_and_every_kind_must_have_been_tried() -> None:
    assert not rules.journal(10, "").faults
    assert rules.journal(10, "OverflowError").faults
    assert not rules.trials([GOOD], ("beat",), 1).faults
    assert rules.trials([look(mutants=0)], ("beat",), 1).faults
    assert not rules.trials([GOOD], ("beat", "ack"), 1).faults  # its turn did not come


def test_broken_rules_are_told_with_door_and_seed() -> None:
    rows = [
        {"part": "doors", "door": "udp", "seed": 7},
        {"part": "rules", "door": "udp", "rule": "flow", "verdict": "broken", "faults": "nothing came"},
        {"part": "rules", "door": "udp", "rule": "memory", "verdict": "kept", "faults": "none"},
    ]
    assert faults(rows) == ["flow at the door udp, seed 7: nothing came"]


# What is wanted -------------------------------------------------------------------------------------------


def test_a_plan_for_each_door_unless_one_is_named(tmp_path: Path) -> None:
    assert [plan.door for plan in plans(Choices(), quick=False)] == list(DOORS)
    (plan,) = plans(Choices(door="tcp", seed=4, mutants=90, seconds=5.0, keep=tmp_path), quick=True)
    assert (plan.door, plan.seed, plan.mutants, plan.seconds, plan.keep) == ("tcp", 4, 90, 5.0, tmp_path)
    spells = [spell.kind for _, spell in zip(KINDS["tcp"], plan.each(), strict=False)]
    assert spells == list(KINDS["tcp"])
    assert plan.size * len(KINDS["tcp"]) >= 90


@pytest.mark.parametrize("choices", [Choices(door="back"), Choices(mutants=0), Choices(seconds=-1.0)])
def test_what_cannot_be_is_wrong_use(choices: Choices) -> None:
    with pytest.raises(UsageError):
        plans(choices, quick=False)


# Honest clients -------------------------------------------------------------------------------------------


def message(talker: int, place: int, *, payload: bytes | None = None) -> Message:
    said = body(talker, 1, place, 5.0, 40) if payload is None else payload
    envelope = Envelope(f"#t{talker}x1#d1", ("talk",), Service.AGREED, 0, 0, 1, 1, place, place, 0)
    return Message(said, envelope, 0)


def view(*members: str, cause: Cause = Cause.JOIN) -> View:
    return View("talk", ViewId(1, 0, 1, 0), members, members, cause, ())


def test_a_body_is_read_back_and_an_altered_one_is_not() -> None:
    said = body(1, 2, 3, 4.0, 100)
    assert read_body(said) == ((1, 2, 3), 4.0)
    assert read_body(said[:-1] + b"x") is None
    assert read_body(b"short") is None


def test_a_talker_notices_what_is_missed_repeated_and_altered() -> None:
    talker = Talker(0, "d1", "", 2)
    for place in (0, 1, 3, 3):
        talker._took(message(1, place))
    assert talker.missed == ["2 to 2 of talker 1, at d1"]
    assert talker.repeated == ["3 of talker 1 after 3, at d1"]
    talker._took(message(1, 4, payload=b"in another one's name"))
    assert talker.altered == 1


def test_a_talker_excuses_what_is_lost_while_another_is_away() -> None:
    talker = Talker(0, "d1", "", 2)
    talker._took(message(1, 0))
    talker._saw(view("#t0x1#d1", cause=Cause.NETWORK))
    talker._took(message(1, 5))
    assert not talker.missed
    assert len(talker.views) == 1
    talker._took(message(1, 7))
    assert len(talker.missed) == 1


def test_silence_and_disorder_between_talkers_are_found() -> None:
    talkers = Talkers({"d1": "", "d2": ""})
    first, second = talkers.all
    assert len(list(talkers.unheard(4.0))) == 4
    for talker in talkers.all:
        for number in (0, 1):
            talker._took(message(number, 0))
    assert not list(talkers.unheard(4.0))
    assert len(list(talkers.unheard(5.0))) == 4
    assert not talkers.disorder()
    for place in (1, 2):
        first._took(message(1, place))
    for place in (2, 1):
        second._took(message(1, place))
    assert len(talkers.disorder()) == 1
