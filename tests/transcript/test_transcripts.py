"""Conversations of daemons and clients as text: commands, a line of dashes, and exactly what happens.

Each file in `stories/` is run from top to bottom in one small world; what a command prints must equal what
stands below its dashes. After a change that is meant, write them anew and read the difference:

    REWRITE=1 .venv/bin/python -m pytest tests/transcript

Commands:

    sites N [daemons M] [delta MS] [mesh] [lan] [tcp]
                                a chain of sites, or all of them joined, 10 ms a hop, M daemons a site; they
                                are in one view when the story begins; with tcp, sites are joined by TCP
    client NAME at DAEMON       a client of daemon d0, d1, ..., told by its number
    join|leave NAME GROUP       ask, without waiting
    disconnect NAME
    send NAME GROUP[,GROUP] SERVICE TEXT
    lose N to DAEMON            the next N data packets on their way to DAEMON are lost
    crash DAEMON                it is gone, and its clients with it
    restart DAEMON              a new process of it starts, with an empty memory
    partition A,B C,D           only daemons of the same part reach each other
    hangup A B                  their connection breaks with all that is on its way, and they make another
    block A B                   nothing gets from A to B any more
    heal                        all paths work again
    run MS                      let time pass; prints what was sent, but for acks, hellos and beats
    quietly MS                  let time pass without a word
    settle [A,B C,D]            let time pass until each part is in one view and has nothing left to do
    until DAEMON STATE          let things happen until the membership of a daemon, or of its groups, is in a
                                state
    events NAME                 what a client got since it was last asked
    lines                       each daemon's clock, agreed line and stable line
    views                       each daemon's membership state and view
    rounds DAEMON               why its view changed, since it was last asked
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_worlds import Cluster, Event

from antiphon.core.node import Node
from antiphon.limits import SITES_MAX
from antiphon.service import Service
from antiphon.types import Left, Message, TransitionalSignal, View
from antiphon.wire import bundle, frames, membership, packet
from antiphon.wire.bundle import Flag
from antiphon.wire.packet import Data, Fragment, Loose, Nack, PacketKind, Skip, Update

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


class Teller:
    """Carries out the commands of one story."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._names: dict[str, str] = {}
        self._told: dict[str, int] = {}
        self._to_lose: list[int] = []
        self._rounds_told: dict[str, int] = {}

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, "a story begins with `sites`"
        return self._cluster

    def tell(self, command: str) -> Iterator[str]:
        verb, *words = command.split(" ")
        handler = getattr(self, f"do_{verb}", None)
        assert handler is not None, f"unknown command: {command}"
        yield from handler(*words) or ()

    def do_sites(self, count: str, *options: str) -> None:
        words = iter(options)
        wanted: dict[str, float | str] = {"delta_ms": 5.0}
        for word in words:
            if word == "lan":
                wanted["membership"] = "lan"
            elif word == "tcp":
                wanted["protocol"] = "tcp"
            elif word == "mesh":
                wanted["mesh"] = True
            elif word == "daemons":
                wanted["daemons"] = int(next(words))
            else:
                assert word == "delta", word
                wanted["delta_ms"] = float(next(words))
        self._cluster = Cluster(int(count), **wanted)  # type: ignore[arg-type]
        self._cluster.lose = self._loses
        self._cluster.crossed.clear()
        self._rounds_told = {node.name: len(node.membership.rounds.past) for node in self._cluster.nodes}

    def _loses(self, receiver: int, data: bytes) -> bool:
        if receiver in self._to_lose and isinstance(packet.parse(memoryview(data)), Data):
            self._to_lose.remove(receiver)
            return True
        return False

    def do_client(self, name: str, _at: str, daemon: str) -> Iterator[str]:
        self._names[name] = self.cluster.client(int(daemon), name)
        self._told[name] = len(self.cluster.events[self._names[name]])
        yield f"welcome {self._names[name]}"

    def do_join(self, name: str, group: str) -> None:
        self.cluster.join(self._names[name], group)

    def do_leave(self, name: str, group: str) -> None:
        self.cluster.leave(self._names[name], group)

    def do_disconnect(self, name: str) -> None:
        self.cluster.disconnect(self._names[name])

    def do_send(self, name: str, groups: str, service: str, *text: str) -> None:
        destinations = [self._names.get(group, group) for group in groups.split(",")]
        payload = " ".join(text).encode()
        self.cluster.send(self._names[name], destinations, payload, service=Service.parse(service))

    def do_lose(self, count: str, _to: str, daemon: str) -> None:
        self._to_lose += [int(daemon)] * int(count)

    def do_crash(self, daemon: str) -> None:
        self.cluster.crash(int(daemon))

    def do_restart(self, daemon: str) -> None:
        self.cluster.restart(int(daemon))
        self._rounds_told[f"d{daemon}"] = 0

    def do_partition(self, *parts: str) -> None:
        self.cluster.partition(*map(part_of, parts))

    def do_hangup(self, one: str, other: str) -> None:
        self.cluster.hang_up(int(one), int(other))

    def do_block(self, sender: str, receiver: str) -> None:
        self.cluster.block((int(sender), int(receiver)))

    def do_heal(self) -> None:
        self.cluster.heal()

    def do_settle(self, *parts: str) -> Iterator[str]:
        took_us = self.cluster.settle(*map(part_of, parts))
        self.cluster.crossed.clear()
        yield f"after {took_us / 1_000:.0f} ms"

    def do_until(self, daemon: str, state: str) -> Iterator[str]:
        node = self.cluster.nodes[int(daemon)]
        took_us = self.cluster.until(lambda: state in (node.state, node.group_state))
        self.cluster.crossed.clear()
        yield f"after {took_us / 1_000:.0f} ms"

    def do_run(self, milliseconds: str) -> Iterator[str]:
        self.cluster.run(int(milliseconds) * 1_000)
        for sender, receiver, data in self.cluster.crossed:
            for item in described(data):
                yield f"{sender} -> {receiver}  {item}"
        self.cluster.crossed.clear()

    def do_quietly(self, milliseconds: str) -> None:
        self.cluster.run(int(milliseconds) * 1_000)
        self.cluster.crossed.clear()

    def do_events(self, name: str) -> Iterator[str]:
        events = self.cluster.events[self._names[name]]
        for event in events[self._told[name] :]:
            yield told(event)
        self._told[name] = len(events)

    def _nodes(self) -> list[Node]:
        return [self.cluster.nodes[number] for number in sorted(self.cluster.alive)]

    def do_lines(self) -> Iterator[str]:
        for node in self._nodes():
            lines = node.order.lines
            clock, agreed, stable = map(lts, (lines.clock, lines.agreed, lines.stable))
            yield f"{node.name}  clock {clock}, agreed line {agreed}, stable line {stable}"

    def do_views(self) -> Iterator[str]:
        for node in self._nodes():
            members = " ".join(f"d{number}" for number in node.view.members)
            links = " ".join(f"{one}-{other}" for one, other in node.view.links) or "nothing"
            state = f"{node.state} {node.group_state}"
            yield f"{node.name}  {state}  view {lts(node.view.id)}: {members} over {links}"

    def do_rounds(self, daemon: str) -> Iterator[str]:
        node = self.cluster.nodes[int(daemon)]
        past = node.membership.rounds.past
        for record in list(past)[self._rounds_told[node.name] :]:
            states = ", ".join(f"{state} {spent_us / 1_000:.0f} ms" for state, spent_us in record.states)
            yield f"{record.reason.value}: {record.detail}; {record.ended} ({states})"
            if record.lost or record.joined:
                lost, joined = (
                    " ".join(f"d{number}" for number in who) or "nobody"
                    for who in (record.lost, record.joined)
                )
                yield f"  lost {lost}, joined {joined}, bundles recovered: {record.recovered_bundles}"
        self._rounds_told[node.name] = len(past)


def part_of(text: str) -> set[int]:
    return set(map(int, text.split(",")))


def lts(value: int) -> str:
    """A Lamport stamp as people read it: time and daemon."""
    time, daemon = divmod(value, 1_024)
    return f"{time}.{daemon}"


def described(data: bytes) -> Iterator[str]:
    """What a packet carries; nothing for acks, hellos and beats."""
    parsed = packet.parse(memoryview(data))
    if isinstance(parsed, Nack):
        yield f"nack {parsed.ranges}"
    elif isinstance(parsed, Loose) and parsed.head.kind == PacketKind.PROPOSAL:
        proposal = membership.parse_proposal(parsed.body, 1_024)
        members = " ".join(f"d{number}" for number in proposal.members)
        yield f"proposal {lts(proposal.id)}: {members}"
    if not isinstance(parsed, Data):
        return
    number = parsed.head.number or "unreliable"
    for item in parsed.items:
        match item:
            case Fragment():
                yield f"[{number}] {fragment(item)}"
            case Update():
                yield (
                    f"[{number}] update of d{item.source}: sent {item.number}, "
                    f"lts {lts(item.lts)}, aru {lts(item.aru)}"
                )
            case Skip():
                numbers = f"{item.first} to {item.last}"
                yield f"[{number}] skip {numbers} of d{item.source}, lts {lts(item.lts)}"


OF_DAEMONS = {Flag.STATE: "state", Flag.GROUPS: "groups"}


def fragment(item: Fragment) -> str:
    header = bundle.parse(item.body)
    sender, *groups = bundle.parse_names(header.names)
    sites = ",".join(str(site) for site in range(SITES_MAX) if item.destinations >> site & 1)
    where = f"for sites {sites}, lts {lts(header.lts)}"
    name = f"{item.source}.{item.number}"
    if header.flags & (Flag.STATE | Flag.GROUPS):
        return f"{name} {OF_DAEMONS[header.flags]} of d{item.source} {where}"
    if header.flags & Flag.PHASE:
        return f"{name} {bundle.payloads(bytes(item.body), header)[0].decode()} {where}"
    if header.flags & Flag.RECOVERED:
        again = bundle.parse(bundle.payloads(bytes(item.body), header)[0])
        return f"{name} again: {again.daemon}.{again.number} with lts {lts(again.lts)} {where}"
    kind = "event of" if header.flags & Flag.EVENT else header.service.name.lower() + " of"
    if header.flags & Flag.LATE:
        kind = "late copy from"
    return f"{name} {kind} {sender} to {' and '.join(groups)} {where}"


def told(event: Event) -> str:
    match event:
        case Message():
            service, groups = event.service.name.lower(), " and ".join(event.groups)
            return f"{service} from {event.sender} to {groups}: {event.payload.decode()}"
        case View():
            members, came_along = " ".join(event.members), " ".join(event.transitional) or "nobody"
            why = f"{event.cause.value} of {' '.join(event.changed)}"
            return f"view of {event.group}: {members} ({why}; came along: {came_along})"
        case TransitionalSignal():
            return f"signal in {event.group}"
        case frames.LeftFrame(left=Left(group=group)):
            return f"left {group}"
        case _:
            return repr(event)


def play(text: str) -> str:
    """The story with what really happens below each command."""
    teller = Teller()
    result: list[str] = []
    skipping = False
    for line in text.splitlines():
        if line == "----":
            skipping = True
        elif not line:
            skipping = False  # an empty line ends what happened
            if result and result[-1]:
                result.append("")
        elif line.startswith("#"):
            result.append(line)
        elif not skipping:
            result.append(line)
            happened = list(teller.tell(line))
            if happened:
                result += ["----", *happened, ""]
    return "\n".join(result).rstrip("\n") + "\n"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    text = path.read_text()
    happened = play(text)
    if os.environ.get("REWRITE"):
        path.write_text(happened)
    assert happened == path.read_text()


def test_a_wrong_line_is_noticed() -> None:
    story = "sites 1\nclient alice at 0\n----\nwelcome #alice#d0\n"
    assert play(story) == story
    assert play(story.replace("welcome", "farewell")) == story
