"""`status` and `explain`: whether the cluster is whole, and why its view is what it is."""

import json
import os
import re
import signal
from typing import Any

import pytest
from command_line import Run, Start

from antiphon.blocking import connect
from antiphon.cli.explain import told
from antiphon.cli.status import SILENCE_MAX_US, _causal, _sessions, _time, faults_of
from antiphon.client import ask_status
from antiphon.load.cluster import daemons
from antiphon.service import Service


def test_status_of_a_whole_cluster(antiphon: Run, start: Start, addresses: list[str]) -> None:
    listener = start("listen", "tea", "--name", "lily", "--address", addresses[0])
    assert listener.stdout is not None and listener.stdout.readline()
    people = antiphon("status", "--address", addresses[0])
    assert (people.returncode, people.stderr) == (0, "")
    for words in (
        "daemon d1 at site site1",
        "whole: 2 of 2 daemons in the view",
        ": d1, d2; links d1-d2\n",
        "because: this daemon was started. Found d2.",
        "ordering: ",
        "#lily#d1",
    ):
        assert words in people.stdout
    programs = antiphon("status", "--address", addresses[0], "--json")
    assert programs.returncode == 0
    answer = json.loads(programs.stdout)
    assert answer["runtime"]["pid"] > 0
    assert answer["view"]["members"] == ["d1", "d2"]
    assert answer["links"][0]["silent_us"] < SILENCE_MAX_US
    assert answer["slow_sessions"] == []


def test_status_tells_of_slow_sessions() -> None:
    session: dict[str, Any] = {"name": "#sloth#d1", "number": 1, "groups": [], "sent_messages": 0}
    session |= {"input_bytes": 0, "slow_policy": "drop-unreliable", "is_slow": True, "warned": 2}
    session |= {"dropped_messages": 7}
    answer = {
        "sessions": [session, session | {"name": "#swift#d1", "number": 2, "is_slow": False}],
        "runtime": {"output_bytes": {"1": 9_000_000}},
        "slow_sessions": [],
    }
    sloth, swift = _sessions(answer)
    assert (sloth["slow"], sloth["output_bytes"]) == ("slow: no unreliable messages", "8.6 MiB")
    assert (sloth["warned"], sloth["dropped_messages"]) == (2, 7)
    assert swift["slow"] == ""
    answer["slow_sessions"] = ["#sloth#d1"]
    assert next(_sessions(answer))["slow"] == "slow: senders wait"


def test_status_tells_what_causal_histories_cost(antiphon: Run, addresses: list[str]) -> None:
    quiet = antiphon("status", "--address", addresses[0])
    assert "causal:" not in quiet.stdout
    with connect(addresses[0], name="ann") as ann:
        ann.join("tea")
        for _ in range(2):
            ann.send("tea", b"once more", service=Service.CAUSAL)
        ann.wait_accepted()
        told = antiphon("status", "--address", addresses[0])
    assert re.search(r"causal: histories of \d bundles? told, \d\.\d causes each and \d+ bytes", told.stdout)
    cut = {"histories_told": 4, "causes_told": 6, "cut_short": 1, "largest_bytes": 2_040}
    assert next(_causal({**cut, "causes_kept": 1, "waiting": 0})) == (
        "causal: histories of 4 bundles told, 1 of them cut short, 1.5 causes each and 2,040 bytes at most; "
        "1 cause kept, 0 bundles wait for their causes"
    )


def known(**changes: Any) -> dict[str, Any]:
    """What a daemon answers of the time when it has read that of o1."""
    return {
        "basis": "reference", "source": "o1", "time_us": 1_700_000_000_000_000, "error_us": 776,
        "read_us_ago": 400_000, "references": ["o1"], "is_reference": False, "is_trusted": None,
        "offset_us": 1_500, **changes,
    }  # fmt: skip


UNKNOWN = known(basis="unknown", source=None, time_us=None, error_us=None, read_us_ago=None, offset_us=None)
DISTRUST = "; the clock of this reference was set, and is not trusted"


@pytest.mark.parametrize(
    ("time", "line"),
    [
        (
            known(),
            "time: by reference o1, within 0.776 ms, read 400 ms ago, 1.500 ms ahead of the system clock",
        ),
        (
            known(basis="internal", source="d1", error_us=23_000, offset_us=-12),
            "time: internal, by d1, within 23 ms, read 400 ms ago, 0.012 ms behind the system clock",
        ),
        (
            known(is_reference=True, is_trusted=False, offset_us=-60_000_000),
            "time: by reference o1, within 0.776 ms, read 400 ms ago, 60.0 s behind the system clock"
            + DISTRUST,
        ),
        (UNKNOWN, "time: not known yet"),
        (UNKNOWN | {"is_reference": True, "is_trusted": False}, f"time: not known yet{DISTRUST}"),
        (UNKNOWN | {"references": []}, ""),
        (None, ""),
    ],
)
def test_status_tells_the_time(time: dict[str, Any] | None, line: str) -> None:
    assert "\n".join(_time(time)) == line


def test_status_of_a_daemon_that_was_asked_for_the_time(antiphon: Run, addresses: list[str]) -> None:
    with connect(addresses[1]) as session:
        assert session.now().source == "d1"
    people = antiphon("status", "--address", addresses[1])
    assert re.search(
        r"^time: internal, by d1, within [0-9.]+ m?s, read .+ ago, [0-9.]+ .+ the system clock$",
        people.stdout,
        re.MULTILINE,
    ), people.stdout


def test_status_of_a_cluster_that_has_not_formed(antiphon: Run, lonely: str) -> None:
    people = antiphon("status", "--address", lonely)
    assert (people.returncode, people.stderr) == (1, "")
    assert "NOT WHOLE: 1 of 2 daemons in the view\n  d2 is not in the view: never heard\n" in people.stdout
    programs = antiphon("status", "--address", lonely, "--json")
    assert programs.returncode == 1
    assert json.loads(programs.stdout)["view"]["members"] == ["d1"]


def test_status_names_the_protocol_of_links_and_why_there_is_no_connection(antiphon: Run) -> None:
    with daemons(2, protocol="tcp") as (here, there):
        people = antiphon("status", "--address", here)
        assert (people.returncode, people.stderr) == (0, "")
        assert ["d2", "tcp", "open"] in [line.split()[:3] for line in people.stdout.splitlines()]
        os.kill(ask_status(there)["runtime"]["pid"], signal.SIGKILL)
        while "no connection: Connection refused" not in (found := " ".join(faults_of(ask_status(here)))):
            pass
        assert "d2 is not in the view: heard" in found


def test_status_shows_the_ring_of_a_site(antiphon: Run) -> None:
    with daemons(1, per_site=3) as addresses:
        people = antiphon("status", "--address", addresses[1])
        assert (people.returncode, people.stderr) == (0, "")
        assert "ring of d1, d2, d3, representative d1: " in people.stdout
        assert "; a round takes " in people.stdout


def test_of_several_addresses_the_first_that_answers_is_asked(antiphon: Run, addresses: list[str]) -> None:
    done = antiphon("status", "--address", f"unix:nobody.sock,{addresses[1]}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "daemon d2 at site site2" in done.stdout


def test_a_crash_is_explained(antiphon: Run) -> None:
    with daemons(3) as (here, there, _):
        before = ask_status(here)["view"]["id"]
        os.kill(ask_status(there)["runtime"]["pid"], signal.SIGKILL)
        while (answer := ask_status(here))["view"]["id"] == before or answer["state"] != "op":
            pass
        status = antiphon("status", "--address", here)
        assert status.returncode == 1
        assert "NOT WHOLE: 2 of 3 daemons in the view\n  d2 is not in the view: heard " in status.stdout
        people = antiphon("explain", "--address", here)
        programs = antiphon("explain", "--address", here, "--json", "--last", "1")
    assert (people.returncode, people.stderr) == (0, "")
    paragraphs = people.stdout.splitlines()
    assert " ago: this daemon was started. " in paragraphs[0]
    assert any(" Found " in line for line in paragraphs), "at once, or after a view of its own"
    last = next(line for line in paragraphs if "Lost d2." in line)
    whole = str(answer["view"]["id"])
    assert re.search(rf"New view \d*{whole[-6:]} of 2 daemons after ", last) and whole not in last
    assert "gather " in last and " ms" in last
    (record,) = map(json.loads, programs.stdout.splitlines())
    assert programs.returncode == 0
    assert record["reason"] and record["ago_us"] > 0


def whole(**changes: Any) -> dict[str, Any]:
    """What a daemon in a whole cluster says, changed."""
    return {
        "daemons": ["d1", "d2"],
        "view": {"id": 7, "members": ["d1", "d2"]},
        "state": "op",
        "group_state": "gop",
        "links": [{"to": "d2", "state": "open", "reason": "answered", "silent_us": 5}],
        "peers": [],
        **changes,
    }


def absent(**known: Any) -> dict[str, Any]:
    peer = {
        "name": "d2",
        "heard_us_ago": 2_000_000,
        "hears_us_us_ago": 9,
        "losses": 0,
        "damped_us": 0,
    } | known
    return whole(view={"id": 8, "members": ["d1"]}, links=[], peers=[peer])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (whole(), None),
        (
            whole(links=[{"to": "d2", "state": "open", "reason": "", "silent_us": 7_900_000}]),
            "link to d2 has been silent for 7.9 s",
        ),
        (
            whole(links=[{"to": "d2", "state": "failed", "reason": "no answer", "silent_us": 5}]),
            "link to d2 is failed: no answer",
        ),
        (whole(state="gather"), "the view is about to change: looking for the other sites (gather)"),
        (
            whole(group_state="ggather", view={"id": 7, "members": ["d1", "d2"], "groups_wait_for": ["d2"]}),
            "groups are being merged (ggather): waiting for d2",
        ),
        (whole(group_state="gtrans"), "clients are being told about the end of a view (gtrans)"),
        (absent(), "d2 is not in the view: heard 2.0 s ago"),
        (absent(heard_us_ago=None), "d2 is not in the view: never heard"),
        (absent(name="d3"), "d2 is not in the view: this daemon has no direct path to it"),
        (
            absent(hears_us_us_ago=None),
            "d2 is not in the view: heard 2.0 s ago, but it does not hear this daemon",
        ),
        (
            absent(losses=3, damped_us=1_500_000),
            "d2 is not in the view: heard 2.0 s ago, but lost 3 times: not trusted for another 1.5 s",
        ),
        (
            whole(flow={"is_flowing": False, "stopped_us_ago": 7_900_000, "detail": "waiting for d2"}),
            "messages do not flow, for 7.9 s: waiting for d2",
        ),
        (
            absent() | {"left_out": [{"daemon": "d2", "reason": "stalled", "remaining_us": 8_000_000}]},
            "d2 is not in the view: heard 2.0 s ago; left out for another 8.0 s: stalled",
        ),
        (
            absent(heard_us_ago=None)
            | {"other_versions": [{"daemon": "d2", "of": "packet", "version": 4, "ours": 6}]},
            "d2 is not in the view: never heard; it speaks version 4, this daemon 6",
        ),
        (
            absent(heard_us_ago=None)
            | {"other_versions": [{"daemon": "d2", "of": "greeting", "version": 2, "ours": 1}]},
            "d2 is not in the view: never heard; it speaks version 2 of greetings, this daemon 1",
        ),
    ],
)
def test_each_fault_is_told(answer: dict[str, Any], expected: str | None) -> None:
    assert list(faults_of(answer)) == ([] if expected is None else [expected])


def test_a_round_is_told_in_a_few_sentences() -> None:
    record = {
        "ago_us": 12_300_000,
        "took_us": 412_000,
        "reason": "silence",
        "peer": "d3",
        "detail": "d3 was silent for 2.6 s (limit 2.5 s)",
        "ended": "installed",
        "view": 5821,
        "members": ["d1", "d2"],
        "joined": ["d4"],
        "lost": ["d3"],
        "states": [["seg", 40_000], ["gather", 120_000]],
        "recovered_bundles": 12,
        "recovered_bytes": 3_174,
        "resent_bundles": 1,
        "resent_bytes": 100,
    }
    assert told(record) == (
        "12.3 s ago: d3 was silent for 2.6 s (limit 2.5 s). Lost d3. Found d4. New view 5821 of 2 daemons "
        "after 412 ms: seg 40 ms, gather 120 ms. Recovered 12 bundles (3.1 KiB). "
        "Retransmitted 1 bundle (100 bytes)."
    )
    vain = {key: record[key] for key in ("ago_us", "reason", "peer", "states")} | {"ended": "nothing new"}
    assert told(vain) == (
        "12.3 s ago: silence (d3). No new view (nothing new) after 160 ms: seg 40 ms, gather 120 ms."
    )
    assert told({"reason": "found", "ended": ""}) == "found. Still running."


def test_status_shows_as_many_groups_as_a_person_can_take_in(antiphon: Run, addresses: list[str]) -> None:
    with connect(addresses[0], name="ada") as ada:
        for number in range(60):
            ada.join(f"g{number:02d}")
        shown = antiphon("status", "--address", addresses[0])
        assert "g49" in shown.stdout and "g50" not in shown.stdout
        assert "10 more groups; `--most N` shows more, `--json` all" in shown.stdout
        assert "memory for clients: input 0 bytes of 128.0 MiB, output" in shown.stdout
        more = antiphon("status", "--address", addresses[0], "--most", "60")
        assert "g59" in more.stdout and "more group" not in more.stdout
        everything = json.loads(antiphon("status", "--address", addresses[0], "--json").stdout)
        assert len(everything["groups"]) == 60
        some = json.loads(antiphon("status", "--address", addresses[0], "--json", "--most", "2").stdout)
        assert (list(some["groups"]), some["not_shown"]["groups"]) == (["g00", "g01"], 58)
