"""Many groups, connections, members and daemons on one machine: everything still works."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from process_cluster import ProcessCluster
from raw_client import wait_until

import antiphon.blocking
from antiphon import Message
from antiphon.client import ask_status
from antiphon.load.cluster import daemons
from antiphon.load.crowds import crowd
from antiphon.runtime.local import local_config

PATIENCE_S = 120.0
"""Only to keep a failing test from hanging."""


def payload_of_next(session: antiphon.blocking.Session) -> bytes:
    """Of the next message, whatever else comes before it."""
    while True:
        event = session.receive(PATIENCE_S)
        if isinstance(event, Message):
            return event.payload


@pytest.mark.parametrize(
    "members", [pytest.param(100, id="hundred"), pytest.param(2_000, id="thousands", marks=pytest.mark.long)]
)
def test_many_connections_are_members_of_one_group(members: int) -> None:
    with (
        daemons(1) as (place,),
        crowd(place) as others,
        antiphon.blocking.connect(place, name="ada", views=False) as ada,
    ):
        assert others.grow(members - 1, "all").sessions == members - 1
        ada.join("all")
        told = ask_status(place)
        assert len(told["groups"]["all"]) == members
        assert len(told["sessions"]) == members
        ada.send("all", b"everybody")
        assert payload_of_next(ada) == b"everybody"
        ada.leave("all")
        wait_until(lambda: len(ask_status(place)["groups"]["all"]) == members - 1)


@pytest.mark.long
def test_ten_thousand_groups_survive_a_crash_and_a_merge(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = ProcessCluster(local_config(2, tmp_path), tmp_path, stack)
        idle = stack.enter_context(crowd(cluster.places[0]))
        for start in range(0, 10_000, 1_000):
            idle.grow(1, *(f"g{start + number}" for number in range(1_000)))
        ada = stack.enter_context(antiphon.blocking.connect(cluster.places[0], name="ada"))
        ada.join("g9999")
        cluster.kill(1)
        cluster.wait_formed([0])
        cluster.restart(1)
        cluster.wait_formed()
        with antiphon.blocking.connect(cluster.places[1], name="bob") as bob:
            bob.send("g9999", b"still known")
            assert payload_of_next(ada) == b"still known"
        cluster.assert_well()


@pytest.mark.long
def test_thirty_daemons_form_one_view() -> None:
    with daemons(6, per_site=5) as places, ExitStack() as stack:
        assert len(places) == 30
        sessions = [
            stack.enter_context(antiphon.blocking.connect(place, timeout_s=PATIENCE_S)) for place in places
        ]
        for session in sessions:
            session.join("all")
        sessions[0].send("all", b"from one end")
        assert {payload_of_next(session) for session in sessions} == {b"from one end"}
