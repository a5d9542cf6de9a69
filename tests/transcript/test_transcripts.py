"""Conversations of daemons and clients as text: commands, a line of dashes, and exactly what happens.

Each file in `stories/` is run from top to bottom in one small world; what a command prints must equal what
stands below its dashes. After a change that is meant, write them anew and read the difference:

    REWRITE=1 .venv/bin/python -m pytest tests/transcript

Commands:

    sites N [delta MS]          a chain of sites, 10 ms a hop
    client NAME at SITE         a client of that site's daemon
    join|leave NAME GROUP       ask, without waiting
    disconnect NAME
    send NAME GROUP[,GROUP] SERVICE TEXT
    lose N to SITE              the next N data packets on their way to SITE are lost
    run MS                      let time pass; prints what was sent on the links, acks and hellos left out
    quietly MS                  let time pass without a word
    events NAME                 what a client got since it was last asked
    lines                       each daemon's clock, agreed line and stable line
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_worlds import Cluster

from antiphon.limits import SITES_MAX
from antiphon.service import Service
from antiphon.types import Left, Message, View
from antiphon.wire import bundle, frames, packet
from antiphon.wire.packet import Data, Fragment, Nack, Skip, Update

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


class Teller:
    """Carries out the commands of one story."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._names: dict[str, str] = {}
        self._told: dict[str, int] = {}
        self._to_lose: list[int] = []

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
        delta_ms = float(options[1]) if options else 5.0
        self._cluster = Cluster(int(count), delta_ms=delta_ms)
        self._cluster.lose = self._loses
        self._cluster.crossed.clear()

    def _loses(self, receiver: int, data: bytes) -> bool:
        if receiver in self._to_lose and isinstance(packet.parse(memoryview(data)), Data):
            self._to_lose.remove(receiver)
            return True
        return False

    def do_client(self, name: str, _at: str, site: str) -> Iterator[str]:
        self._names[name] = self.cluster.client(int(site), name)
        self._told[name] = 0
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

    def do_lose(self, count: str, _to: str, site: str) -> None:
        self._to_lose += [int(site)] * int(count)

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

    def do_lines(self) -> Iterator[str]:
        for node in self.cluster.nodes:
            lines = node.order.lines
            clock, agreed, stable = map(lts, (lines.clock, lines.agreed, lines.stable))
            yield f"{node.name}  clock {clock}, agreed line {agreed}, stable line {stable}"


def lts(value: int) -> str:
    """A Lamport stamp as people read it: time and site."""
    return f"{value // SITES_MAX}.{value % SITES_MAX}"


def described(data: bytes) -> Iterator[str]:
    """What a packet carries; nothing for acks and hellos."""
    parsed = packet.parse(memoryview(data))
    if isinstance(parsed, Nack):
        yield f"nack {parsed.ranges}"
    if not isinstance(parsed, Data):
        return
    number = parsed.head.number or "unreliable"
    for item in parsed.items:
        match item:
            case Fragment():
                yield f"[{number}] {fragment(item)}"
            case Update():
                hold = ", hold" if item.hold else ""
                yield (
                    f"[{number}] update of site {item.source}: sent {item.number}, "
                    f"lts {lts(item.lts)}, aru {lts(item.aru)}{hold}"
                )
            case Skip():
                numbers = f"{item.first} to {item.last}"
                yield f"[{number}] skip {numbers} of site {item.source}, lts {lts(item.lts)}"


def fragment(item: Fragment) -> str:
    header = bundle.parse(item.body)
    sender, *groups = bundle.parse_names(header.names)
    kind = "event of" if header.flags & bundle.Flag.EVENT else header.service.name.lower() + " of"
    if header.flags & bundle.Flag.LATE:
        kind = "late copy from"
    sites = ",".join(str(site) for site in range(SITES_MAX) if item.destinations >> site & 1)
    what = f"{item.source}.{item.number} {kind} {sender} to {' and '.join(groups)}"
    return f"{what} for sites {sites}, lts {lts(header.lts)}"


def told(event: Message | View | frames.FromDaemon) -> str:
    match event:
        case Message():
            service, groups = event.service.name.lower(), " and ".join(event.groups)
            return f"{service} from {event.sender} to {groups}: {event.payload.decode()}"
        case View():
            members, came_along = " ".join(event.members), " ".join(event.transitional) or "nobody"
            why = f"{event.cause.value} of {event.changed[0]}"
            return f"view of {event.group}: {members} ({why}; came along: {came_along})"
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
