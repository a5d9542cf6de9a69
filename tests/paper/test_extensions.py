"""Bundles whose headers have extensions that no daemon knows travel as any other; the papers say nothing."""

import pytest
from small_worlds import Cluster

from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import bundle
from antiphon.wire.extensions import Extension

FIELDS = (Extension(0x8001, b"what a later version says"), Extension(0x8100, bytes(2_000)))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Three sites in a row, whose daemons let clients write what none of them understands."""
    monkeypatch.setattr(bundle, "CLIENT_TYPES", frozenset(field.type for field in FIELDS))
    return Cluster(3)


def send(cluster: Cluster, client: str, payload: bytes, service: Service) -> None:
    """A bundle of several packets, because its extensions fill more than one."""
    names = bundle.names_area(client, ["g"])
    cluster.submit(client, b"".join(bundle.encode(names, 1, service, [payload], extensions=FIELDS)))


@pytest.mark.parametrize("service", list(Service))
def test_they_are_forwarded_and_delivered(cluster: Cluster, service: Service) -> None:
    clients = cluster.members()
    send(cluster, clients[0], b"extended", service)
    cluster.send(clients[0], "g", b"plain", service=service)
    cluster.run(100_000)  # nobody waits for what may be lost
    for client in clients:
        assert sorted(cluster.payloads(client)) == [b"extended", b"plain"]
    messages = [event for event in cluster.events[clients[2]] if isinstance(event, Message)]
    assert {message.service for message in messages} == {service}


def test_they_are_kept_when_a_view_ends(cluster: Cluster) -> None:
    """What is sent again to those who lack it is the whole bundle, as it was."""
    clients = cluster.members()
    cluster.blocked |= {(1, 2), (0, 2)}
    send(cluster, clients[0], b"extended", Service.AGREED)
    cluster.run(100_000)
    cluster.crash(0)
    cluster.blocked.clear()
    cluster.settle({1, 2})
    assert cluster.payloads(clients[1]) == cluster.payloads(clients[2]) == [b"extended"]
