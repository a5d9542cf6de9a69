"""The client library against simulated daemons that crash, restart and are cut off: what it promises of each
message and group when a session comes back."""

from collections.abc import Callable, Iterator
from random import Random

import pytest
from virtual_library import Library, VirtualSession, use_library

from antiphon.client import _reconnecting
from antiphon.client._base import SessionBase
from antiphon.client._ledger import Ledger
from antiphon.client._reconnecting import Ask, ReconnectPlan, Wait
from antiphon.client._send_queue import SendQueue
from antiphon.client.events import Event, Reconnected
from antiphon.config import LinkConfig, Settings
from antiphon.errors import Disconnected
from antiphon.service import Service
from antiphon.simulator.incidents import AnyIncident, Crash, Partition, Restart
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.play import form
from antiphon.simulator.stage import Stage
from antiphon.types import Cause, Message, View
from antiphon.wire import frames

NAMES = ("d0", "d1", "d2")
WORKING_US = 3_000_000
STEP_US = 250_000
RESTED_US = 30_000_000
"""Longer than the longest wait of a session that looks for a daemon, and than the forming of a view."""
SERVICES = (Service.UNRELIABLE, Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)
ORDERED = (Service.FIFO, Service.AGREED, Service.SAFE)
GROUP = "g"
OTHERS = ("h", "i")


def plan_of(seed: int) -> Plan:
    """Three sites; two or three times, something happens to one of them."""
    random = Random(f"library {seed}")
    incidents: list[AnyIncident] = []
    for _ in range(random.randint(2, 3)):
        name = random.choice(NAMES)
        at_us = random.randrange(WORKING_US)
        for_us = random.randint(1_000, 2_500_000)
        if random.random() < 0.6:
            incidents += [Crash(daemon=name, at_us=at_us), Restart(daemon=name, at_us=at_us + for_us)]
        else:
            parts = ((name,), tuple(other for other in NAMES if other != name))
            incidents.append(Partition(parts=parts, at_us=at_us, for_us=for_us))
    pairs = [(one, other) for one in range(3) for other in range(one)]
    return Plan(
        "library",
        seed,
        tuple(Site(f"s{number}", (Daemon(name),)) for number, name in enumerate(NAMES)),
        tuple(
            Route(LinkConfig((f"s{one}", f"s{other}")), random.randint(500, 10_000)) for one, other in pairs
        ),
        (),
        WORKING_US,
        Settings(membership="lan", delta_ms=20.0),
        incidents=tuple(incidents),
    )


class Program:
    """One program: it sends and joins at random, and loses its connection by a fault of its own at times."""

    def __init__(self, library: Library, name: str, until_us: int) -> None:
        self.name = name
        self.log: list[Event] = []
        self.session: VirtualSession | None = None
        self.places = tuple(library.random.sample(NAMES, library.random.randint(1, 3)))
        self.limit_s = library.random.choice((0.2, 600.0, 600.0))
        self._library = library
        self._until_us = until_us
        self._serial = 0

    def act(self) -> None:
        random = self._library.random
        if self._library.world.now_us < self._until_us:
            self._do(random)
            self._library.later(int(random.expovariate(1 / 120_000)), self.act)

    def _do(self, random: Random) -> None:
        session = self.session
        if session is None:
            session = self.session = self._library.connect(self.places, self.name, self.limit_s)
            if session is not None:
                session.join(GROUP)
            return
        if random.random() < 0.5:
            self.take()
        if not session.is_present:
            return
        chance = random.random()
        if chance < 0.04:
            session._socket.breaks()  # type: ignore[attr-defined]
        elif chance < 0.15:
            group = random.choice(OTHERS)
            (session.leave if group in session.groups else session.join)(group)
        elif session.is_member(GROUP):
            for _ in range(random.choice((1, 1, 2, 5))):
                self.send(random.choice(SERVICES), writes=random.random() < 0.7)

    def send(self, service: Service, *, writes: bool = True) -> bytes:
        assert self.session is not None
        self._serial += 1
        payload = f"{self.name} {self._serial}".encode().ljust(self._library.random.choice((10, 900)), b".")
        if self.session.is_present:
            self.session.send(GROUP, payload, service, writes=writes)
        return payload

    def take(self) -> None:
        if self.session is not None:
            self.log += self.session.take()

    @property
    def is_present(self) -> bool:
        return self.session is not None and self.session.is_present

    def heard(self) -> list[bytes]:
        return [bytes(event.payload) for event in self.log if isinstance(event, Message)]

    def heard_by_connection(self) -> list[list[bytes]]:
        heard: list[list[bytes]] = [[]]
        for event in self.log:
            if isinstance(event, Reconnected):
                heard.append([])
            elif isinstance(event, Message):
                heard[-1].append(bytes(event.payload))
        return heard


class Run:
    """One seed, played to its end."""

    def __init__(self, seed: int) -> None:
        stage = Stage(plan_of(seed))
        self.world = stage.world
        library = Library(self.world, Random(f"programs {seed}"))
        form(self.world)
        stage.begin()
        self.programs = [Program(library, f"c{number}", stage.ends_us) for number in range(3)]
        for program in self.programs:
            library.later(library.random.randrange(500_000), program.act)
        self.world.run(stage.ends_us)
        stage.restore()
        self._wait(self._is_settled)
        self.living = [program for program in self.programs if program.is_present]
        self.last_words = [program.send(Service.AGREED) for program in self.living]
        self._wait(self._is_said)

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Let time pass until something has happened, or should have."""
        until_us = self.world.now_us + RESTED_US
        while True:
            self.world.run(self.world.now_us + STEP_US)
            for program in self.programs:
                program.take()
            if is_done() or self.world.now_us >= until_us:
                return

    def _is_settled(self) -> bool:
        """All daemons are together, and every session that goes on has a daemon and its groups."""
        sessions = [program.session for program in self.programs if program.session is not None]
        return self.world.has_formed([(0, 1, 2)]) and all(
            session._is_over or (session.is_present and all(map(session.is_member, session.groups)))
            for session in sessions
        )

    def _is_said(self) -> bool:
        words = set(self.last_words)
        return all(
            words <= set(program.heard()) and not program.session._send_queue.unaccepted()
            for program in self.living
            if program.session is not None
        )

    # The rules --------------------------------------------------------------------------------------------

    def faults(self) -> Iterator[str]:
        everything = {payload for program in self.programs for payload in program.heard()}
        for program in self.programs:
            session = program.session
            if session is None:
                continue
            yield from (f"{program.name} is told: {complaint}" for complaint in session.complaints)
            yield from self._judge_stream(program)
            yield from self._judge_fates(program, session, everything)
            yield from self._judge_searches(program, session)
            if program in self.living:
                yield from self._judge_end(program, session)

    def _judge_stream(self, program: Program) -> Iterator[str]:
        """No message twice; those of one connection in their order; none of a group before it is joined.

        What is delivered on arrival may have come to the old session and come to the new one, at another
        daemon, again. Agreed and safe messages have one place in the order, before the new join or after it.
        """
        agreed = [
            bytes(event.payload)
            for event in program.log
            if isinstance(event, Message) and event.service >= Service.AGREED
        ]
        if len(set(agreed)) < len(agreed):
            yield f"{program.name} has an agreed message twice"
        for heard in program.heard_by_connection():
            if len(set(heard)) < len(heard):
                yield f"{program.name} has a message twice"
            for other in self.programs:
                for sent in other.session.connections if other.session is not None else ():
                    place = {one: index for index, (one, service) in enumerate(sent) if service in ORDERED}
                    places = [place[payload] for payload in heard if payload in place]
                    if places != sorted(places):
                        yield f"{program.name} has messages of {other.name} out of order"
        is_member = False
        name = ""
        for event in program.log:
            if isinstance(event, Reconnected):
                is_member, name = False, event.name
            elif isinstance(event, View) and event.group == GROUP and event.cause is Cause.JOIN:
                is_member |= not name or name in event.changed
            elif isinstance(event, Message) and not is_member:
                yield f"{program.name} got a message before it was a member again"

    def _judge_fates(
        self, program: Program, session: VirtualSession, everything: set[bytes]
    ) -> Iterator[str]:
        """Each message was delivered, or has an unknown fate and is told so."""
        told = [
            (event.unknown, event.unknown_fate) for event in program.log if isinstance(event, Reconnected)
        ]
        if not session.is_present:
            end: Disconnected = session._disconnected()
            told.append((end.unknown, end.unknown_fate))
        elif (left := session._send_queue.unaccepted()) != 0:
            yield f"{left} messages of {program.name} are not accepted in the end"
        fates = [*told, ((), 0)] if session.is_present else told
        if len(fates) != len(session.connections):
            count = len(session.connections)
            yield f"{program.name} had {count} connections and was told of {len(told)} ends"
        for sent, (unknown, count) in zip(session.connections, fates, strict=False):
            counted = [payload for payload, service in sent if service is not Service.UNRELIABLE]
            payloads = [one.payload for one in unknown]
            if count != len(payloads) or counted[len(counted) - count :] != payloads:
                yield f"{program.name} is told of other messages than the last ones that it sent"
            for payload in counted[: len(counted) - count]:
                if payload not in everything:
                    yield f"{payload[:10]!r} was accepted, and nobody has it"

    def _judge_searches(self, program: Program, session: VirtualSession) -> Iterator[str]:
        """Places are asked in turn, the lost one last, with waits that grow between rounds."""
        for lost, search in session.searches:
            asked = [step.place for step in search.steps if isinstance(step, Ask)]
            waits = [step.seconds for step in search.steps if isinstance(step, Wait)]
            places = program.places
            turn = places[places.index(lost) + 1 :] + places[: places.index(lost) + 1]
            if asked != [turn[index % len(turn)] for index in range(len(asked))]:
                yield f"{program.name} lost {lost} and asked {asked}"
            for index, wait_s in enumerate(waits):
                most_s = min(_reconnecting.FIRST_WAIT_S * 2**index, _reconnecting.LAST_WAIT_S)
                if not most_s * (1 - _reconnecting.SPREAD) <= wait_s <= most_s:
                    yield f"{program.name} waited {wait_s} s"

    def _judge_end(self, program: Program, session: VirtualSession) -> Iterator[str]:
        """All is healed: each session is in the groups that its program wants, and has all last words."""
        node = self.world.node(NAMES.index(session.daemon))
        assert node is not None
        joined = {
            group
            for group in (GROUP, *OTHERS)
            if node.delivery.membership.is_member((node.me, session.number), group)
        }
        if joined != session.groups:
            yield f"{program.name} wants {sorted(session.groups)} and is in {sorted(joined)}"
        if not all(session.is_member(group) for group in session.groups):
            yield f"{program.name} waits for groups"
        missing = set(self.last_words) - set(program.heard())
        if missing and GROUP in joined:
            yield f"{program.name} lacks {len(missing)} last words"


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    use_library(monkeypatch)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 260), marks=pytest.mark.long)])
def test_every_message_is_delivered_or_told_and_every_group_joined_again(seeds: range) -> None:
    reconnections = unknown = ends = 0
    for seed in seeds:
        run = Run(seed)
        faults = list(run.faults())
        assert not faults, (seed, faults)
        for program in run.programs:
            events = [event for event in program.log if isinstance(event, Reconnected)]
            reconnections += len(events)
            unknown += sum(event.unknown_fate for event in events)
            ends += program.session is not None and not program.session.is_present
    least = len(seeds)
    assert reconnections > least and unknown > least and ends > least // 20, (reconnections, unknown, ends)


def forgets_groups(original: object) -> object:
    def come_back(self: SessionBase, opened: object) -> None:
        groups, self._groups = self._groups, {}
        original(self, opened)  # type: ignore[operator]
        self._groups = groups

    return come_back


def accepts_too_much(original: object) -> object:
    def accept(self: Ledger, sequence: int) -> None:
        original(self, sequence + 1)  # type: ignore[operator]

    return accept


def keeps_the_account(original: object) -> object:
    def begin_again(self: SendQueue, sender: str, most: int, ledger: Ledger, diary: object = None) -> None:
        original(self, sender, most, self._ledger, diary)  # type: ignore[operator]

    return begin_again


def asks_the_lost_one_first(original: object) -> object:
    def order(self: ReconnectPlan, lost: str) -> tuple[str, ...]:
        return self.places

    return order


@pytest.mark.parametrize(
    ("owner", "method", "plant"),
    [
        (SessionBase, "_come_back", forgets_groups),
        (Ledger, "accept", accepts_too_much),
        (SendQueue, "begin_again", keeps_the_account),
        (ReconnectPlan, "order", asks_the_lost_one_first),
    ],
    ids=["forgets groups", "accepts too much", "keeps the account", "asks the lost one first"],
)
def test_planted_bugs_are_found(
    owner: type, method: str, plant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, plant(getattr(owner, method)))  # type: ignore[operator]
    assert any(next(Run(seed).faults(), None) is not None for seed in range(30))


def test_the_route_begins_behind_the_lost_place_and_ends_in_time() -> None:
    reconnect_plan = ReconnectPlan(("a", "b"), frames.Connect(2), 1.0, 0.3)
    now_s = 0.0
    steps = reconnect_plan.route("a", may_try=lambda: True, now_s=lambda: now_s, chance=lambda: 0.0)
    told: list[Ask | Wait] = []
    failure: str | None = None
    with pytest.raises(StopIteration) as end:
        while True:
            told.append(steps.send(failure))
            failure = f"not at {told[-1].place}" if isinstance(told[-1], Ask) else None
            now_s += told[-1].seconds if isinstance(told[-1], Wait) else 0.0
    rounds = [Ask("b"), Ask("a")]
    assert told == [*rounds, Wait(0.05), *rounds, Wait(0.1), *rounds]
    assert end.value.value == "no daemon took the session again within 0.3 s: not at b; not at a"
