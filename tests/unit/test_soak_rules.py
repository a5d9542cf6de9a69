"""The rules of the soak: kept by a healthy run, and each of them broken by what it is there to find."""

from typing import Any

import pytest

from antiphon.errors import UsageError
from antiphon.lab.soak import looks, rules
from antiphon.lab.soak.experiment import faults, lasting
from antiphon.lab.soak.looks import Look
from antiphon.lab.soak.page import sections
from antiphon.lab.soak.plan import KILLED, SECONDS, SoakPlan, Trouble
from antiphon.lab.soak.talk import Tally
from antiphon.plots.page import Page, render

MB = 1_000_000
HEALTHY = ((50, 90, 100), (100, 98, 102), (101, 103, 99))
"""Megabytes of a process, act by act; the last of each act is at rest."""


def story(acts: tuple[tuple[int, ...], ...], descriptors: tuple[int, ...] = (9, 9, 9)) -> list[Look]:
    """The looks at one daemon."""
    found: list[Look] = []
    for act, megabytes in enumerate(acts, 1):
        for place, some in enumerate(megabytes, 1):
            at_rest = place == len(megabytes)
            found.append(
                Look(
                    second=float(len(found)),
                    act=act,
                    at_rest=at_rest,
                    memory_bytes={"d1": some * MB},
                    descriptors={"d1": descriptors[act - 1] if at_rest else 500},
                    waiting_bytes={"d1": 0},
                    happened=("d1 killed",) if place == 1 else (),
                )
            )
    return found


def told(**changes: Any) -> dict[str, Any]:
    """The status of a daemon that has nothing to do."""
    return {
        "daemon": "d1",
        "groups": {},
        "sessions": [],
        "buffers": {"unstable": {"bytes": 0, "limit": 10}, "late": {"bytes": 0, "limit": 20}},
        "runtime": {"output_bytes": {}, "trace": {"records": 7, "lost": 0, "stopped": ""}},
        **changes,
    }


def test_a_healthy_run_keeps_the_rules() -> None:
    (growth,) = rules.growths(story(HEALTHY))
    assert (growth.middle_bytes, growth.last_bytes) == (100 * MB, 101 * MB)
    assert growth.rest_bytes == (100 * MB, 102 * MB, 99 * MB)
    assert not rules.memory([growth]).faults
    assert not rules.descriptors([growth]).faults


def test_memory_that_grows_from_act_to_act_is_found() -> None:
    (growth,) = rules.growths(story(((50, 60, 60), (80, 100, 120), (140, 160, 180))))
    (fault,) = rules.memory([growth]).faults
    assert fault == "d1 grew from 100 MB to 160 MB; at most 141 MB is flat"


def test_memory_may_peak_for_a_moment_and_grow_while_it_warms_up() -> None:
    (growth,) = rules.growths(story(((10, 60, 90), (99, 100, 101), (100, 900, 100))))
    assert not rules.memory([growth]).faults


def test_a_lost_descriptor_is_found_whatever_was_open_under_load() -> None:
    (growth,) = rules.growths(story(HEALTHY, (9, 9, 10)))
    (fault,) = rules.descriptors([growth]).faults
    assert fault == "d1 has 10 descriptors, after the warm-up it had 9"


def test_a_process_that_was_dead_for_some_looks_is_judged_by_the_others() -> None:
    seen = story(HEALTHY)
    seen[4] = Look(4.0, 2, False, {}, {}, {})
    (growth,) = rules.growths(seen)
    assert growth.middle_bytes == 101 * MB


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": {"flood": ["#ada#d1"]}}, "d1 still has 1 groups"),
        ({"sessions": [{"name": "#ada#d1"}]}, "d1 still has 1 sessions"),
        ({"buffers": {"late": {"bytes": 7, "limit": 20}}}, "7 bytes still wait at d1 (late)"),
        (
            {"runtime": {"output_bytes": {"3": 5}, "trace": {"stopped": ""}}},
            "5 bytes still wait at d1 ()",
        ),
        (
            {"runtime": {"output_bytes": {}, "trace": {"stopped": "disk full"}}},
            "the trace of d1 has stopped: disk full",
        ),
    ],
)
def test_what_is_left_over_at_rest_is_found(changes: dict[str, Any], words: str) -> None:
    assert looks.left_over(told()) == []
    assert looks.left_over(told(**changes)) == [words]
    look = Look(9.0, 2, True, {}, {}, {}, left_over=(words,))
    assert rules.emptiness([look]).faults == (f"after act 2: {words}",)


def test_a_buffer_above_its_limit_is_found() -> None:
    assert looks.overfull(told()) == []
    (words,) = looks.overfull(told(buffers={"late": {"bytes": 21, "limit": 20}}))
    assert words == "late of d1 held 21 of 20 bytes"
    assert rules.bounds([Look(9.0, 2, False, {}, {}, {}, overfull=(words,))]).faults == (f"at 9 s {words}",)
    assert not rules.bounds(story(HEALTHY)).faults


def test_a_daemon_that_ended_a_broken_property_and_a_trial_that_did_not_happen_are_found() -> None:
    assert rules.health(["d1 ended with exit code 1"]).faults == ("d1 ended with exit code 1",)
    assert not rules.health([]).faults
    assert rules.properties(["2.7 virtual synchrony: ..."], 12).faults
    assert not rules.properties([], 12).faults
    tally = Tally(sessions=3, sent=9, payload_bytes=900, received=20, warned=1, returned=1)
    assert not rules.trials(tally, 1).faults
    assert rules.trials(tally, 0).faults == ("no slow receiver was cut off",)
    assert len(rules.trials(Tally(), 0).faults) == 4


def test_tallies_add_up() -> None:
    one = Tally(sessions=1, sent=2, payload_bytes=3, received=4, warned=5, returned=6)
    assert one + one == Tally(sessions=2, sent=4, payload_bytes=6, received=8, warned=10, returned=12)


# The plan and the page ------------------------------------------------------------------------------------


def test_a_whole_soak_kills_and_pauses_many_in_every_act() -> None:
    troubles = SoakPlan(SECONDS).troubles()
    assert [trouble.second for trouble in troubles] == sorted(trouble.second for trouble in troubles)
    assert {trouble.daemon for trouble in troubles if trouble.kind == "kill"} == set(KILLED)
    assert {trouble.lasts_s for trouble in troubles if trouble.kind == "pause"} == {0.5, 3.0}
    assert all(trouble.second < SoakPlan(SECONDS).act_s for trouble in troubles)
    assert Trouble(0.0, "kill", "d6", 2.5).words == "d6 killed"


@pytest.mark.parametrize("seconds", [0.0, -1.0, 5.0, 1e9, float("nan")])
def test_a_length_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="from 6 s to a week"):
        lasting(seconds)


def made_up_rows(verdict: str, words: str) -> list[dict[str, Any]]:
    seen = [
        {"part": "looks", "second": look.second, "happened": look.happened}
        | {"memory_bytes": look.memory_bytes, "descriptors": look.descriptors, "waiting_bytes": {"d1": 5}}
        for look in story(HEALTHY)
    ]
    process = {"part": "processes", "process": "d1", "second_act_bytes": 100 * MB, "last_act_bytes": 101 * MB}
    process |= {"limit_bytes": 141 * MB, "rest_bytes": 99 * MB}
    process |= {"warm_descriptors": 9, "end_descriptors": 9}
    traffic = {"part": "traffic", "sessions": 3, "sent": 4, "payload_bytes": 5, "received": 6, "warned": 7}
    traffic |= {"returned": 8, "cut_off": 9, "records": 1_234}
    rule = {"part": "rules", "rule": "memory", "promise": "flat", "verdict": verdict, "faults": words}
    return [*seen, process, traffic, rule]


def test_the_page_and_the_command_tell_what_is_broken() -> None:
    assert faults(made_up_rows("kept", "none")) == []
    assert faults(made_up_rows("broken", "d1 grew")) == ["memory: d1 grew"]
    verdict, process, happened = (
        render(Page("Soak", (), (section,), "")) for section in sections(made_up_rows("broken", "d1 grew"))
    )
    for words in ("Broken: memory.", "d1 grew", "1,234", "141 MB"):
        assert words in verdict
    kept, *_ = sections(made_up_rows("kept", "none"))
    assert "Every rule was kept." in render(Page("Soak", (), (kept,), ""))
    assert process.count("<svg role") == 2 * 3
    assert "d1 killed" in process
    assert "d1 killed" in happened
