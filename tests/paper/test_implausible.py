"""Packets with numbers that nobody can have reached: refused on arrival, and the cluster goes on.

Every packet here is well-formed and seems to come from a member of the view.
"""

from collections.abc import Callable, Iterator

import pytest
from msgspec import structs
from small_worlds import START_US, Cluster

from antiphon import limits
from antiphon.core.node import Node
from antiphon.service import Service
from antiphon.wire import bundle, membership, packet, token
from antiphon.wire.membership import Beat, Proposal, Station
from antiphon.wire.packet import EVERYBODY, Fragment, PacketKind, Skip, Update
from antiphon.wire.token import NOBODY, Token

YEAR_US = 365 * 86_400_000_000
FAR = limits.COUNTER_MAX - 1_024 * 50


def forge(
    cluster: Cluster, sender: int, receiver: int, kind: PacketKind, body: bytes, number: int = 0
) -> None:
    """A packet comes to a daemon that another member of its view has not sent."""
    node = cluster.nodes[receiver]
    is_loose = kind in (PacketKind.BEAT, PacketKind.PROPOSAL)
    ring = node.working_site_link
    in_ring = ring is not None and sender in ring.mates and kind is not PacketKind.TOKEN
    prefix = packet.prefix(
        kind,
        digest=cluster.config.digest,
        sender=sender,
        receiver=EVERYBODY if in_ring and not is_loose else receiver,
        incarnation=cluster.nodes[sender].incarnation,
        view=0 if is_loose else node.view.id,
    )
    data = packet.whole(prefix, body, number, counter=1)
    node.receive(memoryview(data), len(data), cluster.now_us)
    cluster._drain(receiver)


def beat_of(cluster: Cluster, sender: int, **fields: object) -> bytes:
    """What a daemon would say now, but for some fields."""
    node = cluster.nodes[sender]
    true = Beat(cluster.now_us, 0, False, 1, node.view.id, node.view.id, node.clock, node.me, True)
    return membership.encode(structs.replace(true, **fields))


def pairs(cluster: Cluster) -> Iterator[tuple[int, int]]:
    """Every two daemons that talk to each other, both ways."""
    for daemon in range(cluster.config.daemon_count):
        for other in cluster.config.neighbours_of(daemon):
            yield other, daemon


def goes_on(cluster: Cluster, clients: list[str]) -> None:
    """Messages flow; so they do after a crash, and after the return of the one that crashed."""
    flows(cluster, clients, b"before")
    last = cluster.config.daemon_count - 1
    cluster.crash(last)
    cluster.settle(set(range(last)))
    flows(cluster, clients[:-1], b"without it")
    cluster.restart(last)
    cluster.settle()
    flows(cluster, clients[:-1], b"after")
    assert all(node.clock < 1_000 * limits.LTS_LEAD for node in cluster.nodes), "the clock was burnt"


def flows(cluster: Cluster, clients: list[str], payload: bytes) -> None:
    for service in (Service.FIFO, Service.AGREED, Service.SAFE):
        cluster.send(clients[0], "g", payload + str(service).encode(), service=service)
        cluster.settle()
        assert all(cluster.payloads(client)[-1] == payload + str(service).encode() for client in clients)


# Beats and proposals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"lts": FAR},
        {"lts": limits.COUNTER_MAX},
        {"lts": limits.LTS_CEILING},
        {"lts": FAR, "promised": FAR, "engaged": FAR, "round": FAR},
        {"promised": FAR},
        {"round": FAR},
        {"clock_us": YEAR_US},
        {"clock_us": limits.COUNTER_MAX, "echo_us": limits.COUNTER_MAX},
        {"stations": (Station(0, 100, FAR, 0, 0, b"\7"), Station(1, 7, FAR, FAR, 3, b"\7"))},
    ],
    ids=str,
)
@pytest.mark.parametrize("daemons", [1, 3])
def test_a_beat_with_a_clock_that_nobody_has(fields: dict[str, object], daemons: int):
    cluster = Cluster(2 if daemons > 1 else 3, daemons=daemons, mesh=True, membership="lan")
    clients = cluster.members()
    for sender, receiver in pairs(cluster):
        forge(cluster, sender, receiver, PacketKind.BEAT, beat_of(cluster, sender, **fields))
    assert all(node.counters.total() for node in cluster.nodes), "refused without being counted"
    goes_on(cluster, clients)


def test_a_false_clock_that_was_the_first_one_heard_gives_way_to_the_true_one():
    cluster = Cluster(3, mesh=True, membership="lan")
    clients = cluster.members()
    cluster.crash(2)
    cluster.settle({0, 1})
    cluster.nodes[2] = cluster._node(2)  # it hears this before it has heard anybody
    for sender in (0, 1):
        forge(cluster, sender, 2, PacketKind.BEAT, beat_of(cluster, sender, clock_us=YEAR_US))
    cluster.alive.add(2)
    cluster.settle()
    flows(cluster, clients[:2], b"all")


def test_a_proposal_with_a_stamp_that_nobody_has():
    cluster = Cluster(3, mesh=True, membership="lan")
    clients = cluster.members()
    for sender, receiver in pairs(cluster):
        incarnations = tuple(node.incarnation for node in cluster.nodes)
        proposal = Proposal.of(FAR, (0, 1, 2), incarnations, [(0, 1), (0, 2), (1, 2)])
        forge(cluster, sender, receiver, PacketKind.PROPOSAL, membership.encode(proposal))
    assert all(node.view.members == (0, 1, 2) and node.state == "op" for node in cluster.nodes)
    goes_on(cluster, clients)


def test_a_proposal_whose_identifier_no_member_has_made():
    """The smallest member proposes, and its number stands in the identifier. A view with any other number
    could be contradicted by a proposal, which ended every daemon that looked for the name of its proposer."""
    cluster = Cluster(3, mesh=True, membership="lan")
    clients = cluster.members()
    view_id = cluster.nodes[0].view.id
    incarnations = tuple(node.incarnation for node in cluster.nodes)
    stranger = (view_id | 1_023) + 1_024
    for links in ([(0, 1), (0, 2), (1, 2)], [(0, 1), (0, 2)]):
        proposal = Proposal.of(stranger, (0, 1, 2), incarnations, links)
        for sender, receiver in pairs(cluster):
            forge(cluster, sender, receiver, PacketKind.PROPOSAL, membership.encode(proposal))
    assert all(node.view.id == view_id for node in cluster.nodes)
    goes_on(cluster, clients)


def test_a_proposal_with_links_that_the_configuration_does_not_have():
    """It ended the daemon that was to build such a link."""
    cluster = Cluster(3, membership="lan")
    clients = cluster.members()
    incarnations = tuple(node.incarnation for node in cluster.nodes)
    for sender, receiver in pairs(cluster):
        proposal = Proposal.of(
            cluster.nodes[0].clock + 1_024, (0, 1, 2), incarnations, [(0, 2), (0, 1), (1, 2)]
        )
        forge(cluster, sender, receiver, PacketKind.PROPOSAL, membership.encode(proposal))
    refused = sum(
        node.counters["proposal: links that the configuration does not have"] for node in cluster.nodes
    )
    assert refused == len(list(pairs(cluster)))
    goes_on(cluster, clients)


def test_an_echo_from_the_future_does_not_prove_a_restart():
    """Nobody can have heard what we have not said yet."""
    cluster = Cluster(2, membership="lan")
    before = cluster.nodes[0].view.id
    body = beat_of(cluster, 1, echo_us=cluster.now_us + 1_000_000)
    prefix = packet.prefix(
        PacketKind.BEAT, digest=cluster.config.digest, sender=1, receiver=0, incarnation=4_711
    )
    data = packet.whole(prefix, body, counter=1)
    cluster.nodes[0].receive(memoryview(data), len(data), cluster.now_us)
    cluster._drain(0)
    cluster.run(2_000_000)
    assert cluster.nodes[0].view.id == before


# Daemons that are honest and far ahead --------------------------------------------------------------------


class Apart(Cluster):
    """Daemons whose wall clocks are years apart."""

    walls_us: tuple[int, ...] = (0, 0, 0)

    def _node(self, number: int) -> Node:
        node = super()._node(number)
        return Node(
            self.config,
            node.name,
            incarnation=node.incarnation,
            now_us=self.now_us,
            wall_us=self.walls_us[number] + self.now_us - START_US,
            observer=self.diaries[number],
        )


@pytest.mark.parametrize(
    "years",
    [(0, 0, 56), (56, 0, 0), (0, 56, 0), (56, 30, 0), (0, 30, 106), (0, 106, 56), (0, 56, 140), (500, 0, 56)],
    ids=str,
)
@pytest.mark.parametrize("mesh", [True, False], ids=["mesh", "chain"])
def test_wall_clocks_that_are_wrong_by_years_do_not_keep_daemons_apart(
    years: tuple[int, int, int], mesh: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Apart, "walls_us", tuple(year * YEAR_US for year in years))
    cluster = Apart(3, mesh=mesh, membership="lan")
    clients = cluster.members()
    flows(cluster, clients, b"all")
    for daemon in range(3):
        cluster.restart(daemon)
        cluster.settle()
    assert all(node.clock < limits.LTS_CEILING for node in cluster.nodes)


@pytest.mark.parametrize("delay_us", [60_000, 150_000, 300_000])
def test_a_daemon_that_is_days_ahead_is_believed_over_a_long_path(
    delay_us: int, monkeypatch: pytest.MonkeyPatch
):
    """Every answer is under way while the question is repeated."""
    monkeypatch.setattr(Apart, "walls_us", (0, 3 * YEAR_US // 365, 0))
    cluster = Apart(2, delay_us)
    flows(cluster, cluster.members(), b"all")


def test_a_daemon_that_comes_back_years_ahead_loses_no_time(monkeypatch: pytest.MonkeyPatch):
    """Its clock started right, and that of the others years ago: this is what a restart looks like."""
    times = []
    for years in (0, 3):
        monkeypatch.setattr(Apart, "walls_us", (0, 0, 0))
        cluster = Apart(3, membership="lan")
        cluster.crash(2)
        cluster.settle({0, 1})
        monkeypatch.setattr(Apart, "walls_us", (0, 0, years * YEAR_US))
        cluster.restart(2)
        times.append(cluster.settle())
    assert times[1] <= times[0] + 1_000_000


# Data, skips, updates, tokens -----------------------------------------------------------------------------


def bundle_of(cluster: Cluster, sender: int, *, number: int, lts: int, aru: int) -> Fragment:
    view = cluster.nodes[0].engine
    names = bundle.names_area(f"#c{sender}#d{sender}", ["g"])
    data = bytearray(b"".join(bundle.encode(names, 1, Service.AGREED, [b"forged"])))
    header = structs.replace(
        bundle.parse(data), daemon=sender, session=1, number=number, lts=lts, aru=aru, destinations=1
    )
    bundle.stamp(data, header)
    return Fragment(view.source_of[sender], number, (1 << 63) - 1, len(data), 0, data)


def items() -> dict[str, Callable[[Cluster, int], bytes]]:
    """Items in the name of a daemon, each with something impossible."""

    def fragment(**fields: int) -> Callable[[Cluster, int], bytes]:
        def write(cluster: Cluster, sender: int) -> bytes:
            true = {"number": _next(cluster, sender), "lts": _lts(cluster) + 1_024, "aru": _view(cluster)}
            made = bundle_of(cluster, sender, **{**true, **fields})
            return b"".join(packet.fragment_item(made, 0, len(made.body)))

        return write

    def update(**fields: int) -> Callable[[Cluster, int], bytes]:
        def write(cluster: Cluster, sender: int) -> bytes:
            source = cluster.nodes[0].engine.source_of[sender]
            true = Update(source, 99, 0, _lts(cluster), _view(cluster))
            return packet.update_item(structs.replace(true, **fields))

        return write

    def skip(**fields: int) -> Callable[[Cluster, int], bytes]:
        def write(cluster: Cluster, sender: int) -> bytes:
            source, number = cluster.nodes[0].engine.source_of[sender], _next(cluster, sender)
            true = Skip(source, number, number, _lts(cluster), _view(cluster))
            return packet.skip_item(structs.replace(true, **fields))

        return write

    return {
        "fragment number": fragment(number=FAR),
        "fragment lts": fragment(lts=FAR),
        "fragment aru": fragment(aru=FAR),
        "update number": update(number=FAR),
        "update lts": update(lts=FAR),
        "update aru": update(aru=FAR),
        "skip number": skip(last=FAR),
        "skip lts": skip(lts=FAR),
        "skip aru": skip(aru=FAR),
    }


def _view(cluster: Cluster) -> int:
    return cluster.nodes[0].view.id


def _lts(cluster: Cluster) -> int:
    return max(node.order.lines.clock for node in cluster.nodes)


def _next(cluster: Cluster, sender: int) -> int:
    return cluster.nodes[sender].order.issued + 1


@pytest.mark.parametrize("what", items())
@pytest.mark.parametrize("sites", [3, 1], ids=["links", "ring"])
def test_an_item_with_a_number_that_its_source_cannot_have(what: str, sites: int):
    cluster = Cluster(sites, daemons=3 // sites, mesh=sites > 1, membership="lan")
    clients = cluster.members()
    for sender, receiver in pairs(cluster):
        node = cluster.nodes[receiver]
        link = node.working_site_link or node.working_links[sender]
        reception = link.reception  # type: ignore[union-attr]
        body = items()[what](cluster, sender)
        forge(cluster, sender, receiver, PacketKind.DATA, body, number=reception.highest + 1)
    assert all(node.counters.total() for node in cluster.nodes), "refused without being counted"
    goes_on(cluster, clients)
    assert all(b"forged" not in cluster.payloads(client) for client in clients)


@pytest.mark.parametrize("number", [1 << 61, 1 << 20])
@pytest.mark.parametrize("sites", [3, 1], ids=["links", "ring"])
def test_a_place_on_a_link_that_was_never_reached(sites: int, number: int):
    cluster = Cluster(sites, daemons=3 // sites, mesh=sites > 1, membership="lan")
    clients = cluster.members()
    for sender, receiver in pairs(cluster):
        forge(cluster, sender, receiver, PacketKind.DATA, b"", number=number)
    assert all(node.counters.total() for node in cluster.nodes)
    goes_on(cluster, clients)


def test_acknowledgements_of_what_was_never_sent():
    cluster = Cluster(3, mesh=True, membership="lan")
    clients = cluster.members()
    for sender, receiver in pairs(cluster):
        for body in (
            (1 << 61).to_bytes(8) + (0).to_bytes(12),
            (0).to_bytes(8) + (1 << 61).to_bytes(8) + (0).to_bytes(4),
        ):
            forge(cluster, sender, receiver, PacketKind.ACK, body)
    assert all(node.counters.total() == 4 for node in cluster.nodes)
    goes_on(cluster, clients)


def test_a_round_trip_of_hours_does_not_hide_a_crash():
    """After a hello that echoes the beginning of time, a link would be patient for as long."""
    cluster = Cluster(3, mesh=True, membership="lan")
    clients = cluster.members()
    cluster.now_us += 3 * 3_600_000_000
    for daemon in cluster.alive:
        cluster.nodes[daemon].timeout(cluster.now_us)
        cluster._drain(daemon)
    cluster.settle()
    for sender, receiver in pairs(cluster):
        body = (1).to_bytes(8) + (1).to_bytes(8)
        for _ in range(20):
            forge(cluster, sender, receiver, PacketKind.HELLO, body)
    goes_on(cluster, clients)


@pytest.mark.parametrize(
    "fields",
    [
        {"site_sequence": FAR},
        {"site_lts": FAR},
        {"site_aru": FAR},
        {"link_sequence": FAR},
        {"serial": FAR},
    ],
    ids=str,
)
def test_a_token_with_numbers_that_its_ring_cannot_have(fields: dict[str, int]):
    cluster = Cluster(1, daemons=3, membership="lan")
    clients = cluster.members()
    for receiver in range(3):
        ring = cluster.nodes[receiver].working_site_link
        assert ring is not None
        sender, view = (receiver - 1) % 3, cluster.nodes[receiver].view.id
        true = Token(
            ring._serial + 2, ring.reception.highest, ring.reception.aru, NOBODY, NOBODY, 0,
            ring.site_sequence, ring.site_lts, view,
        )  # fmt: skip
        bad = structs.replace(true, **fields)
        forge(cluster, sender, receiver, PacketKind.TOKEN, token.encode_token(bad))
    assert all(node.counters.total() for node in cluster.nodes), "refused without being counted"
    goes_on(cluster, clients)


# Bundles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [Service.UNRELIABLE, Service.FIFO, Service.AGREED])
def test_no_client_gets_a_bundle_whose_messages_do_not_fill_it(service: Service):
    cluster = Cluster(2, membership="lan")
    clients = cluster.members()
    node = cluster.nodes[0]
    names = bundle.names_area(clients[1], ["g"])
    data = bytearray(b"".join(bundle.encode(names, 1, service, [b"one", b"another"])))
    at = bundle.HEADER_BYTES + len(names)
    data[at : at + 4] = (200).to_bytes(4)
    number = 1 if service is Service.UNRELIABLE else _next(cluster, 1)
    header = structs.replace(
        bundle.parse(data), daemon=1, session=1, number=number, lts=_lts(cluster) + 1_024, aru=_view(cluster)
    )
    bundle.stamp(data, header)
    item = b"".join(packet.fragment_item(Fragment(1, number, 3, len(data), 0, data), 0, len(data)))
    kind = PacketKind.UNRELIABLE if service is Service.UNRELIABLE else PacketKind.DATA
    forge(cluster, 1, 0, kind, item, number=node.working_links[1].reception.highest + 1)  # type: ignore[attr-defined]
    assert node.counters["bundle: payloads do not fill it"] == 1
    cluster.run(100_000)
    assert cluster.payloads(clients[0]) == []


def test_a_group_event_that_cannot_be_read_is_refused_before_it_has_a_place_in_the_order():
    """When it is delivered, it is too late to refuse it."""
    cluster = Cluster(2, membership="lan")
    clients = cluster.members()
    node = cluster.nodes[0]
    for text in (
        b"\x82\xa4kind\xa4join",
        b"\x81\xa4kind\xa5dance",
        b"\x82\xa4kind\xa4join\xa5group\xa2\xff\xff",
    ):
        names = bundle.names_area(clients[1], ["g"])
        data = bytearray(b"".join(bundle.encode(names, 1, Service.AGREED, [text], flags=bundle.Flag.EVENT)))
        number = _next(cluster, 1)
        header = structs.replace(
            bundle.parse(data), daemon=1, session=1, number=number, lts=_lts(cluster) + 1_024
        )
        bundle.stamp(data, header)
        item = b"".join(packet.fragment_item(Fragment(1, number, 3, len(data), 0, data), 0, len(data)))
        forge(cluster, 1, 0, PacketKind.DATA, item, node.working_links[1].reception.highest + 1)  # type: ignore[attr-defined]
    assert sum(count for reason, count in node.counters.items() if reason.startswith("group event")) == 3
    assert not any("dance" in reason for reason in node.counters), "a counter for each text of a stranger"
    assert node.order.contiguous(1) == _next(cluster, 1) - 1
    cluster.run(2_000_000)
    assert [view.cause.value for view in cluster.views(clients[0])] == ["join", "join"]


def test_a_word_in_our_own_name_is_overruled():
    """Of two words of one daemon, the one with the greater serial is the newer."""
    cluster = Cluster(3, mesh=True, membership="lan")
    forged = Station(0, cluster.nodes[0].incarnation, cluster.nodes[0].clock + 10**9, 0, 0, b"")
    body = beat_of(cluster, 1, round=cluster.nodes[1].clock + 1_024, stations=(forged,))
    forge(cluster, 1, 0, PacketKind.BEAT, body)
    cluster.run(500_000)
    said = [
        station.serial
        for sender, _, data in cluster.crossed
        if sender == 0 and data[2] == PacketKind.BEAT
        for station in membership.parse_beat(data[packet.HEAD_BYTES : -packet.CHECK_BYTES], 3).stations
        if station.daemon == 0
    ]
    assert max(said) > forged.serial
