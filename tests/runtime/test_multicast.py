"""One send for a whole site: probes and their answers on real sockets, and when copies take its place."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from local_cluster import Cluster
from raw_client import PATIENCE_S, status, wait_until
from test_udp import free_address

from antiphon import config as configuration
from antiphon.config import Config, DaemonConfig, SiteConfig
from antiphon.core.effects import Datagram, DatagramCounter
from antiphon.runtime.local import local_config
from antiphon.runtime.multicast import (
    ANSWER_GOOD_US,
    PROBE_FIRST_US,
    PROBE_INTERVAL_US,
    Multicast,
    group_of,
)
from antiphon.runtime.udp import UdpSocket
from antiphon.wire import packet
from antiphon.wire.packet import EVERYBODY, PacketKind

START_US = 100_000_000


def site(multicast: str = "auto", daemons: int = 3, name: str = "here") -> Config:
    """One site on the loopback interface."""
    members = []
    for number in range(1, daemons + 1):
        host, port = free_address()
        members.append(DaemonConfig(f"d{number}", f"{host}:{port}"))
    return configuration.build((SiteConfig(name, tuple(members), multicast=multicast),), ())


class Member:
    """A daemon's UDP socket and its multicast group, without a daemon."""

    def __init__(self, config: Config, number: int) -> None:
        addresses = [configuration.address(daemon.address) for _, daemon in config.daemons()]
        peers = {other: address for other, address in enumerate(addresses) if other != number}
        self.udp = UdpSocket(addresses[number], peers)
        self.counter = DatagramCounter()
        self.multicast = Multicast(config, number, 100 + number, self.udp, self.counter, START_US)
        self.got: list[bytes] = []
        """What was for the node."""

    def listen(self, now_us: int, wait_s: float = 0.0) -> bool:
        """Take what has come; whether anything had."""
        sources = [self.udp, *([self.multicast] if self.multicast.is_open else [])]
        readable, _, _ = select.select(sources, [], [], wait_s)
        for source in readable:
            source.drain(lambda data, stride_bytes, origin: self._take(data, now_us, origin))
        return bool(readable)

    def _take(self, data: memoryview, now_us: int, origin: int | None) -> None:
        if not self.multicast.is_probe(data) or not self.multicast.take(data, now_us, origin):
            self.got.append(bytes(data))

    def close(self) -> None:
        self.multicast.close()
        self.udp.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def members_of(config: Config, stack: ExitStack) -> list[Member]:
    found = [Member(config, number) for number in range(config.daemon_count)]
    for member in found:
        stack.callback(member.close)
    return found


def until(members: list[Member], condition, now_us: int = START_US) -> None:
    """Let them all listen until the condition holds."""
    for _ in range(200):
        if condition():
            return
        for member in members:
            member.listen(now_us, PATIENCE_S / 200)
    raise AssertionError("it did not come to that")


def acquainted(config: Config, stack: ExitStack) -> list[Member]:
    """Members who have all heard one another's probes."""
    members = members_of(config, stack)
    for member in members:
        assert member.multicast.is_open, member.multicast.reason
        member.multicast.timeout(START_US)
    everybody = set(range(len(members)))
    until(
        members,
        lambda: (
            not any(
                member.multicast.unheard(everybody - {number}, START_US)
                for number, member in enumerate(members)
            )
        ),
    )
    return members


def data_packet(config: Config, sender: int, receiver: int = EVERYBODY, body: bytes = b"") -> Datagram:
    prefix = packet.prefix(
        PacketKind.HELD, digest=config.digest, sender=sender, receiver=receiver, incarnation=100 + sender
    )
    data = packet.whole(prefix, body, counter=1)
    others = tuple(number for number in range(config.daemon_count) if number != sender)
    return Datagram(receiver, [data], len(data), len(data), others)


def probe_of(
    config: Config, sender: int, kind: PacketKind, receiver: int, digest: int | None = None
) -> bytes:
    return packet.whole(
        packet.prefix(
            kind,
            digest=config.digest if digest is None else digest,
            sender=sender,
            receiver=receiver,
            incarnation=1,
        ),
        counter=1,
    )


# Probes ---------------------------------------------------------------------------------------------------


def test_a_probe_is_answered_and_one_send_reaches_all(stack: ExitStack) -> None:
    config = site()
    members = acquainted(config, stack)
    sent = members[0].udp.counters.trains_sent
    assert members[0].multicast.send(data_packet(config, 0, body=b"to all"), START_US)
    assert members[0].udp.counters.trains_sent == sent + 1
    until(members, lambda: members[1].got and members[2].got)
    assert [data[-10:-4] for data in members[1].got + members[2].got] == [b"to all"] * 2


def test_our_own_copy_is_left_out(stack: ExitStack) -> None:
    config = site()
    members = acquainted(config, stack)
    for sender, member in enumerate(members):
        assert member.multicast.send(data_packet(config, sender), START_US)
    until(members, lambda: all(len(member.got) == 2 for member in members))
    for member in members:
        member.listen(START_US, 0.05)
    assert [len(member.got) for member in members] == [2, 2, 2]


def test_nothing_is_multicast_before_all_have_answered(stack: ExitStack) -> None:
    config = site()
    members = members_of(config, stack)
    assert not members[0].multicast.send(data_packet(config, 0), START_US)
    members[0].multicast.timeout(START_US)
    until(members[:2], lambda: members[0].multicast.unheard((1, 2), START_US) == [2])
    assert not members[0].multicast.send(data_packet(config, 0), START_US)  # the third does not listen yet
    told = members[0].multicast.status(config.daemon_names, START_US)
    assert (told["works"], told["unheard_by"]) == (False, ["d3"])
    until(members, lambda: not members[0].multicast.unheard((1, 2), START_US))
    assert members[0].multicast.send(data_packet(config, 0), START_US)
    assert members[0].multicast.status(config.daemon_names, START_US)["works"]


def test_an_answer_is_believed_for_a_while_only(stack: ExitStack) -> None:
    config = site()
    members = acquainted(config, stack)
    good_us = START_US + ANSWER_GOOD_US
    assert members[0].multicast.unheard((1, 2), good_us) == []
    assert members[0].multicast.unheard((1, 2), good_us + 1) == [1, 2]
    assert not members[0].multicast.send(data_packet(config, 0), good_us + 1)


def test_who_is_not_meant_need_not_have_answered(stack: ExitStack) -> None:
    """A daemon of the site that is down does not keep the others from it."""
    config = site()
    members = members_of(config, stack)
    members[0].multicast.timeout(START_US)
    until(members[:2], lambda: not members[0].multicast.unheard((1,), START_US))
    only = data_packet(config, 0)
    assert members[0].multicast.send(Datagram(EVERYBODY, only.buffers, 32, only.size_bytes, (1,)), START_US)


def test_probes_come_ever_more_seldom_up_to_an_interval(stack: ExitStack) -> None:
    (member, *_) = members_of(site(), stack)
    times = [START_US]
    for _ in range(12):
        due_us = member.multicast.next_due_us()
        assert due_us is not None
        times.append(due_us)
        member.multicast.timeout(due_us)
    waits = [later - earlier for earlier, later in pairwise(times[1:])]
    assert waits[0] == PROBE_FIRST_US
    assert waits == sorted(waits)
    assert waits[-1] == PROBE_INTERVAL_US


def test_probes_and_answers_take_their_counters_from_the_process(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = site()
    (member, *_) = members_of(config, stack)
    sent: list[bytes] = []
    monkeypatch.setattr(member.udp, "send", lambda datagram: sent.append(b"".join(datagram.buffers)))
    assert member.counter.take(9) == 1
    member.multicast.timeout(START_US)
    member.multicast.take(memoryview(probe_of(config, 1, PacketKind.PROBE, EVERYBODY)), START_US)
    heads = [packet.parse(memoryview(data)).head for data in sent]
    assert [(head.kind, head.counter) for head in heads] == [(PacketKind.PROBE, 10), (PacketKind.PROBED, 11)]
    assert member.counter.take() == 12


# Strangers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stranger", ["other cluster", "no daemon of the site", "junk", "cut short"])
def test_strangers_are_ignored(stranger: str, stack: ExitStack) -> None:
    config = site(daemons=2)
    one, other = members_of(config, stack)
    data = {
        "other cluster": probe_of(config, 1, PacketKind.PROBED, 0, digest=config.digest ^ 1),
        "no daemon of the site": probe_of(config, 7, PacketKind.PROBED, 0),
        "junk": b"\xa7\x03" + bytes([PacketKind.PROBED]) + b"junk",
        "cut short": probe_of(config, 1, PacketKind.PROBED, 0)[:-1],
    }[stranger]
    assert one.multicast.is_probe(memoryview(data))
    one.multicast.take(memoryview(data), START_US)
    assert one.multicast.unheard((1,), START_US) == [1]
    one.multicast.take(
        memoryview(data.replace(bytes([PacketKind.PROBED]), bytes([PacketKind.PROBE]))), START_US
    )
    assert not other.listen(START_US, 0.05)


def test_an_answer_to_somebody_else_says_nothing(stack: ExitStack) -> None:
    config = site()
    (one, *_) = members_of(config, stack)
    one.multicast.take(memoryview(probe_of(config, 1, PacketKind.PROBED, 2)), START_US)
    assert one.multicast.unheard((1,), START_US) == [1]
    one.multicast.take(memoryview(probe_of(config, 1, PacketKind.PROBED, 0)), START_US)
    assert one.multicast.unheard((1,), START_US) == []


# Addresses ------------------------------------------------------------------------------------------------


def test_sites_and_clusters_have_groups_of_their_own() -> None:
    """All private addresses, alike for all daemons of a site."""
    configs = [site(name=f"s{number}") for number in range(20)]
    groups = [group_of(config, 0) for config in configs]
    assert len(set(groups)) == 20
    for address, port in groups:
        assert address.startswith("239.19")
        assert 20_000 <= port < 30_000
    assert group_of(configs[0], 0) == groups[0]


def test_the_configuration_may_name_the_group(stack: ExitStack) -> None:
    host, port = "239.192.7.7", free_address()[1]
    config = site(multicast=f"{host}:{port}")
    members = acquainted(config, stack)
    assert members[0].multicast.address == (host, port)


def test_it_can_be_switched_off(stack: ExitStack) -> None:
    config = site(multicast="off")
    (one, *_) = members_of(config, stack)
    assert not one.multicast.is_open
    assert one.multicast.next_due_us() is None
    assert not one.multicast.send(data_packet(config, 0), START_US)
    assert (
        one.multicast.status(config.daemon_names, START_US)["reason"] == "switched off in the configuration"
    )


def test_a_group_that_cannot_be_joined_is_told_and_copies_go_out(stack: ExitStack) -> None:
    """Its port belongs to somebody who does not share it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as selfish:
        selfish.bind(("", 0))
        config = site(multicast=f"239.192.7.8:{selfish.getsockname()[1]}")
        (one, *_) = members_of(config, stack)
        assert not one.multicast.is_open
        assert "239.192.7.8" in one.multicast.reason
        assert not one.multicast.send(data_packet(config, 0), START_US)


# Daemons --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("multicast", ["auto", "off"])
def test_status_shows_how_a_ring_sends(tmp_path: Path, stack: ExitStack, multicast: str) -> None:
    plain = local_config(3, tmp_path)
    members = tuple(daemon for _, daemon in plain.daemons())
    config = configuration.build((SiteConfig("here", members, multicast=multicast),), (), plain.settings)
    cluster = Cluster(tmp_path, stack)
    daemons = cluster.start(config)
    places = [daemon.places[0] for daemon in daemons]
    works = multicast == "auto"
    wait_until(lambda: all(status(place)["runtime"]["multicast"]["works"] is works for place in places))
    for place in places:
        told = status(place)
        assert told["ring"]["members"] == ["d1", "d2", "d3"]
        assert told["ring"]["representative"] == "d1"
        assert told["runtime"]["multicast"]["reason"] == (
            "" if works else "switched off in the configuration"
        )
