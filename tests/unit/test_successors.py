"""How long a client waits for the name of a session that is on its way out."""

from typing import Any

from antiphon.core.groups.sessions import Sessions
from antiphon.runtime.connection import Phase
from antiphon.runtime.successors import PATIENCE_MAX_US, PATIENCE_US, Successors


class Client:
    """A connection that asks for a name."""

    phase = Phase.GREETING


def waiting_since_0(flows: bool) -> tuple[Successors, Client]:
    sessions = Sessions("d1")
    sessions.add("ann", priority=0, views=True).is_leaving = True
    successors = Successors(sessions, {}, lambda: flows)
    client: Any = Client()
    assert successors.must_wait(client, "ann", 0)
    successors.postpone(client, "ann", [])
    return successors, client


def refused_at(flows: bool) -> int:
    successors, client = waiting_since_0(flows)
    while True:
        now = successors.next_deadline_us()
        assert now is not None
        if successors.ready(now):
            assert not successors.must_wait(client, "ann", now)  # type: ignore[arg-type]
            return now


def test_a_client_waits_for_some_seconds() -> None:
    assert refused_at(flows=True) == PATIENCE_US


def test_time_without_a_view_does_not_count_within_a_bound() -> None:
    assert refused_at(flows=False) == PATIENCE_MAX_US
