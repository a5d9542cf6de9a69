"""Receivers that choose: InterGroup, section 5."""

import pytest
from small_worlds import DELAY_US, Cluster

from antiphon.service import AGREED, FIFO, RELIABLE, Service
from antiphon.types import View

SERVICES = (RELIABLE, FIFO, Service.CAUSAL, AGREED, Service.SAFE)
CHOICES = {"agreed": AGREED, "fifo": FIFO, "arrival": RELIABLE}


def triangle(order: str = "symmetric", delay_us: int = DELAY_US) -> tuple[Cluster, str, dict[str, str]]:
    """Three sites; the sender is alone at the first, and at the second a member for each choice."""
    cluster = Cluster(3, delay_us, mesh=True, order=order)
    sender = cluster.client(0, "sender")
    receivers = {"": cluster.client(1, "plain")}
    receivers |= {choice: cluster.client(1, choice) for choice in CHOICES}
    cluster.join(sender, "g")
    for choice, client in receivers.items():
        cluster.join(client, "g", delivery=CHOICES.get(choice, 0))
    cluster.join(cluster.client(2, "other"), "g")
    cluster.run(2_000_000)
    return cluster, sender, receivers


def lose_once(payload: bytes, receiver: int):
    """Lose the first packet to `receiver` that carries `payload`."""
    lost: list[bytes] = []

    def lose(to: int, data: bytes) -> bool:
        if to == receiver and payload in data and not lost:
            lost.append(data)
            return True
        return False

    return lose


def test_a_message_comes_as_early_as_the_receiver_chose() -> None:
    """Each receiver chooses the order with which it gets messages, whatever others chose. (5)"""
    cluster, sender, receivers = triangle(delay_us=50_000)
    took_ms: dict[tuple[str, str], float] = {}
    for service in SERVICES:
        since_us = cluster.now_us
        cluster.send(sender, "g", service.name.encode(), service=service)
        cluster.run(1_000_000)
        for choice, client in receivers.items():
            took_us = cluster.delay_of(client, service.name.encode(), since_us)
            took_ms[service.name, choice] = took_us / 1_000
    print("\nsent as    as sent    agreed      fifo   arrival")
    for service in SERVICES:
        print(
            f"{service.name:9}" + "".join(f"{took_ms[service.name, choice]:7.0f} ms" for choice in receivers)
        )
    for choice in ("fifo", "arrival"):
        assert {took_ms[service.name, choice] for service in SERVICES} == {50.0}
    assert took_ms["SAFE", ""] > took_ms["SAFE", "agreed"] >= took_ms["AGREED", "agreed"] >= 100
    for service in SERVICES:
        assert took_ms[service.name, "agreed"] <= took_ms[service.name, ""]


@pytest.mark.parametrize("order", ["symmetric", "adaptive"])
def test_every_stream_keeps_the_order_that_was_chosen(order: str) -> None:
    """With "fifo" the order of each sender, with "agreed" the one order, and nothing twice. (5)"""
    cluster, sender, receivers = triangle(order)
    cluster.lose = lose_once(b"one", 1)
    for payload in (b"one", b"two", b"three"):
        cluster.send(sender, "g", payload, service=AGREED)
    cluster.run(2_000_000)
    sent = [b"one", b"two", b"three"]
    for choice in ("", "agreed", "fifo"):
        assert cluster.payloads(receivers[choice]) == sent
    assert sorted(cluster.payloads(receivers["arrival"])) == sorted(sent)


def test_with_arrival_what_is_lost_holds_nothing_back() -> None:
    cluster, sender, receivers = triangle()
    cluster.lose = lose_once(b"one", 1)
    since_us = cluster.now_us
    cluster.send(sender, "g", b"one", service=FIFO)
    cluster.run(1_000)  # so that the two go in different packets
    cluster.send(sender, "g", b"two", service=FIFO)
    cluster.run(2_000_000)
    assert cluster.payloads(receivers["arrival"]) == [b"two", b"one"]
    assert cluster.payloads(receivers["fifo"]) == [b"one", b"two"]
    assert cluster.delay_of(receivers["arrival"], b"two", since_us) <= DELAY_US + 2_000


def test_views_stand_in_every_stream_after_what_came_before_them() -> None:
    """Views and signals are part of every stream. (2.9)"""
    cluster, sender, receivers = triangle()
    before = {client: len(cluster.views(client)) for client in receivers.values()}
    cluster.send(sender, "g", b"last words", service=Service.SAFE)
    cluster.leave(sender, "g")
    cluster.run(2_000_000)
    for client in receivers.values():
        tail = cluster.events[client][-2:]
        assert cluster.payloads(client) == [b"last words"]
        assert isinstance(tail[-1], View) and len(cluster.views(client)) == before[client] + 1


def test_a_choice_is_for_one_group_and_ends_with_the_membership() -> None:
    cluster, sender, receivers = triangle()
    client = receivers["arrival"]
    cluster.join(client, "h")
    cluster.join(sender, "h")
    cluster.leave(client, "g")
    cluster.run(1_000_000)
    cluster.join(client, "g")
    cluster.run(1_000_000)
    since_us = cluster.now_us
    for group in ("g", "h"):
        cluster.send(sender, group, group.encode(), service=AGREED)
    cluster.run(1_000_000)
    assert all(cluster.delay_of(client, group, since_us) >= 2 * DELAY_US for group in (b"g", b"h"))


def test_nothing_overtakes_what_its_receiver_gets_another_way() -> None:
    """A private message comes as it was sent; with "fifo", later ones of its sender follow it."""
    cluster, sender, receivers = triangle()
    private = f"#fifo#{cluster.config.daemon_names[1]}"
    since_us = cluster.now_us
    cluster.send(sender, private, b"private", service=AGREED)
    cluster.send(sender, "g", b"public", service=AGREED)
    cluster.run(1_000_000)
    assert cluster.payloads(receivers["fifo"]) == [b"private", b"public"]
    assert cluster.delay_of(receivers["fifo"], b"public", since_us) >= 2 * DELAY_US
    assert cluster.delay_of(receivers["arrival"], b"public", since_us) <= DELAY_US + 1_000
