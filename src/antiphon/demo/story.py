"""What is told: groups, views, orders and their price, each shown on a live cluster."""

import asyncio
import sys
import time
from functools import partial
from itertools import combinations
from pathlib import Path
from shutil import which
from statistics import median

from antiphon.client import Event, Reconnected
from antiphon.demo.cluster import DemoCluster
from antiphon.demo.geography import City, farthest
from antiphon.demo.page import Page
from antiphon.demo.pauses import Pauses
from antiphon.demo.people import Person, first_name, speaker
from antiphon.service import Service
from antiphon.types import Cause, Left, Message, SlowReceiver, TransitionalSignal, View
from antiphon.words import counted, described, lagging, returned

GROUP = "tea"
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)
_WORDS = ("green", "black", "mint")
_SIGNAL = "signal"
_DEEDS = {
    Cause.JOIN: "joined",
    Cause.LEAVE: "left",
    Cause.DISCONNECT: "disconnected",
    Cause.NETWORK: "unreachable",
    Cause.MERGE: "reachable again",
    Cause.QUORUM: "enough to go on",
}


class Story:
    """The demo from its first sentence to its last."""

    def __init__(self, cities: tuple[City, ...], cluster: DemoCluster, page: Page, pace: Pauses) -> None:
        self._cities = cities
        self._cluster = cluster
        self._page = page
        self._pace = pace
        self._people: list[Person] = []
        self.is_told = False
        """Whether all of it was told: now it is the reader's turn."""
        one, other = farthest(cities)
        self._diameter_ms = one.delay_ms(other)
        self._delta_ms = cluster.config.settings.delta_ms

    async def tell(self) -> None:
        """Tell the whole story."""
        for chapter in (
            self._set_the_scene,
            self._meet,
            self._speak_at_once,
            self._measure,
            self._open_doors,
            self._part,
            self._fall_apart,
            self._crash,
        ):
            await chapter()
        self.is_told = True

    async def close(self) -> None:
        """Close all sessions."""
        await asyncio.gather(*(person.depart() for person in self._people), return_exceptions=True)

    # Chapters ---------------------------------------------------------------------------------------------

    async def _set_the_scene(self) -> None:
        page = self._page
        page.title("Antiphon: a wide-area cluster on this machine")
        page.chapter("Sites and daemons")
        daemons = counted(len(self._cluster.config.sites[0].daemon), "daemon")
        page.say(
            f"Each site runs {daemons}. A program connects to a daemon next to it, and the daemons carry "
            "messages between the sites. Here all of them live in this process, talk over real UDP sockets, "
            "and delay every packet for as long as it would travel:"
        )
        pairs = combinations(self._cities, 2)
        page.table(
            ("from", "to", "one way"),
            [(one.name, other.name, f"{one.delay_ms(other):.0f} ms") for one, other in pairs],
        )
        page.say(
            f"The longest one-way delay is D = {self._diameter_ms:.0f} ms. An idle site announces that "
            f"it has nothing to send, at most once per delta: D / 4, at most {self._delta_ms:.0f} ms."
        )
        await self._cluster.formed()
        names = self._cluster.config.daemon_names
        page.event(f"the daemons have found each other: a view of {len(names)}: {', '.join(names)}")
        await self._pace.read(8)

    async def _meet(self) -> None:
        page = self._page
        page.chapter("A group and its views")
        page.say(
            "A group is a name. A session that joins a group gets the messages to it. With each change, "
            "every member gets a new view: the members of the group, and why it changed."
        )
        for city in self._cities:
            person = await Person.arrive(city.person, self._cluster.addresses(city), self._cluster.trace)
            self._people.append(person)
            page.event(f"{person.name} connects in {city.name} as {person.session.name} and joins {GROUP!r}")
            await person.session.join(GROUP)
            await self._everyone_sees_members(len(self._people))
        self._views_in_rows()
        page.say(
            "Members that join later see fewer views, but all members agree on every view that they share."
        )
        await self._pace.read(8)

    async def _speak_at_once(self) -> None:
        page = self._page
        page.chapter("One order, or none")
        page.say(
            "All members send at the same moment. RELIABLE messages are delivered as they arrive: nothing is "
            "lost, but each member may see another order."
        )
        self._side_by_side(await self._all_speak(Service.RELIABLE))
        await self._pace.read(6)
        page.say(
            "The same again with AGREED messages: now all members, at all sites, deliver in one order. "
            "Programs that process the same messages in the same order stay equal: so data is replicated."
        )
        heard = await self._all_speak(Service.AGREED)
        self._side_by_side(heard)
        equal = all(column == heard[0] for column in heard)
        page.check("every column is the same", equal, dict(zip(self._names(), heard, strict=True)))
        await self._pace.read(6)

    async def _measure(self) -> None:
        page = self._page
        near, far = farthest(self._cities)
        sender, receiver = (
            next(person for person in self._people if person.name == city.person) for city in (near, far)
        )
        page.chapter("What an order costs")
        page.say(
            f"{sender.name} in {near.name} sends to {receiver.name} in {far.name}, while all others are "
            "silent. For a stronger promise, a message must wait for more sites before it is delivered:"
        )
        theory_ms = {
            Service.RELIABLE: ("on arrival", "D", self._diameter_ms),
            Service.FIFO: ("in its sender's order", "D", self._diameter_ms),
            Service.AGREED: (
                "in one order at all members",
                "2D + delta",
                2 * self._diameter_ms + self._delta_ms,
            ),
            Service.SAFE: (
                "agreed, and all daemons have it",
                "3D + 2 delta",
                3 * self._diameter_ms + 2 * self._delta_ms,
            ),
        }
        rows = []
        for service in SERVICES:
            took_ms = [
                await self._probe(sender, receiver, service) for _ in range(1 if self._pace.abridged else 7)
            ]
            promise, formula, bound_ms = theory_ms[service]
            measured = f"{median(took_ms):.1f} ms"
            rows.append((service.name, promise, f"{formula} = {bound_ms:.0f} ms", measured))
        page.table(("service", "delivered", "theory, at most", "measured"), rows)
        page.say(
            "Measured is the median of a few messages. The theory counts network delays only; this machine "
            "adds some time. When all sites send, AGREED approaches D: no message waits for an idle site."
        )
        await self._pace.read(8)

    async def _open_doors(self) -> None:
        page = self._page
        page.chapter("Open groups and private messages")
        page.say(
            "A sender need not be a member. And each session has a private name, for messages to it alone."
        )
        first, last = self._people[0], self._people[-1]
        marks = self._marks()
        page.event(f"a passer-by in {self._cities[0].name}, not a member, sends to {GROUP!r}")
        guest = await Person.arrive("passer", self._cluster.addresses(self._cities[0]), self._cluster.trace)
        try:
            await guest.session.send(GROUP, b"any seat left?")
            await self._everyone_hears(marks, 1)
        finally:
            await guest.depart()
        page.event(f"{last.name} answers privately, to {first.session.name}")
        await last.session.send(first.session.name, b"one, next to me")
        await first.until_messages(marks[0], 2)
        self._side_by_side(self._texts(marks))
        await self._pace.read(6)

    async def _part(self) -> None:
        page = self._page
        page.chapter("Views and messages are one stream")
        leaver, speakers = self._people[-1], self._people[:-1]
        page.say(
            f"{leaver.name} leaves while the others are sending. Each of them gets the new view at the same "
            "place between the same messages, so all know which members got which message."
        )
        marks = self._marks()
        for number, word in enumerate(_WORDS):
            await asyncio.gather(*(person.session.send(GROUP, word.encode()) for person in speakers))
            if number == 0:
                await leaver.session.leave(GROUP, wait=False)
            await asyncio.sleep(self._diameter_ms / 3000)
        wanted = len(speakers) * len(_WORDS) + 1
        for person, mark in zip(speakers, marks, strict=False):
            await person.until_events(mark, wanted)
        told = [self._retold(person, mark) for person, mark in zip(self._people, marks, strict=True)]
        self._side_by_side(told)
        same = all(column == told[0] for column in told[: len(speakers)])
        page.check("the same view at the same place", same, dict(zip(self._names(), told, strict=True)))
        await self._pace.read(6)

    async def _fall_apart(self) -> None:
        page = self._page
        page.chapter("The network is partitioned, and merges again")
        distant, others = self._people[-1], self._people[:-1]
        city = self._cities[-1].name
        await distant.session.join(GROUP)
        await self._everyone_sees_members(len(self._people))
        page.say(
            f"{distant.name} is back. Now the network between {city} and all other sites is cut. The daemons "
            "detect the silence and agree, on each side, on a new view. A signal says: from here on nothing "
            "is promised about unreachable members. The next view lists the rest; both sides go on."
        )
        marks = self._marks()
        self._cluster.cut_off(self._cities[-1])
        page.event(f"no packet gets into {city} or out of it")
        for person in self._people:
            count = 1 if person is distant else len(others)
            await person.until(partial(_sees_members, count=count), f"a view of {count}")
        await asyncio.gather(
            *(person.session.send(GROUP, b"where are you?") for person in (self._people[0], distant))
        )
        for person, mark in zip(self._people, marks, strict=True):
            await person.until_messages(mark, 1)
        self._cluster.join_up()
        page.event("the network works again; the daemons keep probing for lost daemons, and find them")
        await self._everyone_sees_members(len(self._people))
        told = [self._retold(person, mark) for person, mark in zip(self._people, marks, strict=True)]
        self._side_by_side(told)
        same = all(_unsignalled(column) == _unsignalled(told[0]) for column in told[: len(others)])
        page.check("each side saw the same events", same, dict(zip(self._names(), told, strict=True)))
        page.say(
            "No member got a wrong view, and none had to stop. How to merge the two histories is up to you."
        )
        await self._pace.read(8)

    async def _crash(self) -> None:
        page = self._page
        page.chapter("A daemon dies")
        unlucky = self._people[1]
        others = [person for person in self._people if person is not unlucky]
        daemon = unlucky.session.daemon
        page.say(
            f"{unlucky.name}'s daemon ends without an announcement. The other daemons detect it, exchange "
            "the messages that some of them lack, and only then tell their members which members are lost. "
            f"{unlucky.name}'s library connects to another daemon, under a new name, and joins again."
        )
        marks = self._marks()
        begin_s = time.monotonic()
        page.event(f"{daemon} ends")
        await asyncio.to_thread(self._cluster.end, daemon)
        for person in self._people:
            returned_to = partial(_sees_members, count=len(self._people), lost=daemon)
            await person.until(returned_to, f"{unlucky.name}'s return")
        page.event(f"{time.monotonic() - begin_s:.1f} s later {unlucky.name} is a member again")
        told = [self._retold(person, mark) for person, mark in zip(self._people, marks, strict=True)]
        self._side_by_side(told)
        stayed = [column for column, person in zip(told, self._people, strict=True) if person in others]
        same = all(_unsignalled(column) == _unsignalled(stayed[0]) for column in stayed)
        page.check("all remaining members saw the same", same, dict(zip(self._names(), told, strict=True)))
        self._cluster.start(daemon)
        await self._cluster.formed()
        page.event(f"{daemon} is started again, and found")
        await self._pace.read(8)

    async def stay(self, left_s: float | None) -> None:
        """Keep the cluster for the reader's own experiments, for so long or until this is cancelled, and tell
        what the first person sees of them."""
        page = self._page
        page.chapter("Your turn")
        page.say("The daemons are still here. From another terminal:")
        page.command(f"{_command()} chat {GROUP} --name you --address {self._people[0].session.address}")
        page.command(f"{_command()} status --address {self._people[-1].session.address}")
        until = "until you press Ctrl-C" if left_s is None else f"for another {left_s:.0f} s"
        page.say(f"They run {until}; this terminal shows what {self._people[0].name} receives in {GROUP!r}.")
        self._people[0].on_event = lambda event: page.event(_news(event))
        await asyncio.sleep(left_s if left_s is not None else float("inf"))

    # Steps ------------------------------------------------------------------------------------------------

    async def _everyone_sees_members(self, count: int) -> None:
        for person in self._people:
            await person.until(
                lambda one: (view := one.view(GROUP)) is not None and len(view.members) == count,
                f"a view of {count} members",
            )

    async def _all_speak(self, service: Service) -> list[list[str]]:
        """Everyone sends a few messages at the same time; what each heard."""
        marks = self._marks()
        for word in _WORDS[: 2 if self._pace.abridged else 3]:
            await asyncio.gather(
                *(person.session.send(GROUP, word.encode(), service=service) for person in self._people)
            )
            await asyncio.sleep(self._diameter_ms / 4000)
        await self._everyone_hears(marks, len(self._people) * (2 if self._pace.abridged else 3))
        return self._texts(marks)

    async def _everyone_hears(self, marks: list[int], count: int) -> None:
        for person, mark in zip(self._people, marks, strict=True):
            await person.until_messages(mark, count)

    async def _probe(self, sender: Person, receiver: Person, service: Service) -> float:
        """How long one message takes to the receiver, in milliseconds; returns when all have it."""
        marks = self._marks()
        begin_s = time.monotonic()
        await sender.session.send(GROUP, b"how long?", service=service)
        await self._everyone_hears(marks, 1)
        mark = marks[self._people.index(receiver)]
        arrived_s = next(seen.at_s for seen in receiver.seen[mark:] if isinstance(seen.event, Message))
        return (arrived_s - begin_s) * 1000

    # Telling ----------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return [person.name for person in self._people]

    def _marks(self) -> list[int]:
        """Where each person's memory ends now."""
        return [len(person.seen) for person in self._people]

    def _texts(self, marks: list[int]) -> list[list[str]]:
        return [person.texts(mark) for person, mark in zip(self._people, marks, strict=True)]

    def _retold(self, person: Person, mark: int = 0) -> list[str]:
        return [_line(seen.event) for seen in person.seen[mark:]]

    def _views_in_rows(self) -> None:
        """Every view a row: who had it, and why it came about."""
        views = {seen.event.id: seen.event for seen in self._people[0].seen if isinstance(seen.event, View)}
        rows = []
        for identity, view in views.items():
            had = (identity in person.view_ids() for person in self._people)
            members = ", ".join(map(first_name, view.members))
            rows.append([_because(view), *(members if has else "" for has in had)])
        self._page.table(["because", *self._heads()], rows)

    def _side_by_side(self, columns: list[list[str]]) -> None:
        self._page.columns(self._heads(), columns)

    def _heads(self) -> list[str]:
        return [
            f"{person.name} ({city.name})" for person, city in zip(self._people, self._cities, strict=True)
        ]


def _sees_members(person: Person, count: int, lost: str = "") -> bool:
    """Whether the latest view has so many members, none of them at the `lost` daemon."""
    view = person.view(GROUP)
    return (
        view is not None
        and len(view.members) == count
        and not any(name.endswith(f"#{lost}") for name in view.members)
    )


def _unsignalled(column: list[str]) -> list[str]:
    """What was promised to be the same everywhere: one daemon may signal a little earlier than another."""
    return [line for line in column if line != _SIGNAL]


def _people_of(members: tuple[str, ...]) -> str:
    """Their first names; with the daemon where two members have the same."""
    names = [first_name(member) for member in members]
    return ", ".join(
        name if names.count(name) == 1 else member[1:].replace("#", "@")
        for name, member in zip(names, members, strict=True)
    )


def _command() -> str:
    """What starts Antiphon in another terminal, where its environment may not be active."""
    beside_python = Path(sys.executable).with_name("antiphon")
    return "antiphon" if which("antiphon") or not beside_python.exists() else str(beside_python)


def _line(event: Event) -> str:
    """An event in a few words."""
    match event:
        case Message():
            return f"{speaker(event)}: {event.payload.decode('utf-8', 'backslashreplace')}"
        case View():
            return f"view: {_people_of(event.members)}"
        case TransitionalSignal():
            return _SIGNAL
        case Left():
            return f"(left {event.group})"
        case Reconnected():
            return f"reconnected to {event.daemon}"
        case SlowReceiver():
            return lagging(event)
        case _:
            return described(event)


def _because(view: View) -> str:
    """Why there is this view: `carol joined`."""
    return f"{', '.join(map(first_name, view.changed))} {_DEEDS[view.cause]}"


def _news(event: Event) -> str:
    """An event as it is told when it happens."""
    match event:
        case View():
            return f"{_line(event)} ({_because(event)})"
        case TransitionalSignal():
            return "signal: some members cannot be reached"
        case Reconnected():
            return f"reconnected: {returned(event)}"
        case _:
            return _line(event)
