"""A client process of the soak: `python -m antiphon.lab.soak.people ORDERS`.

It hears on stdin when an act begins and when it ends. At the end all of its sessions have gone, and its
tally stands on stdout. It ends with its stdin.
"""

import asyncio
import sys
import time
from contextlib import suppress
from random import Random

import msgspec

import antiphon
from antiphon import Message, Service, Session
from antiphon.client import Reconnected
from antiphon.errors import AntiphonError, ConnectError, Disconnected
from antiphon.lab.soak.talk import BEGIN, REST, Failed, Orders, Tally
from antiphon.types import SlowPolicy, SlowReceiver

FLOODED = "flood"
"""The group of the floods."""
CHATS = ("red", "green", "blue")
"""The groups of the restless."""
SERVICES = tuple(Service)
BURST_EVERY_S = 8.0
BURST_BYTES = 3_000_000
"""The size of a burst of each flooding session."""
BURST_MESSAGES_MAX = 48
SIZES_BYTES = (64_000, 1_000_000, 64_000, 4_000)
"""The sizes of messages, burst by burst. Large ones: many bytes leave few records."""
RESTLESS = 5
"""Sessions that come and go, at a time."""
TRICKLE_S = 0.2
"""The time between two events that a slow receiver takes."""
SLOW_SPELLS_S = (4.0, 18.0)
"""How long it is slow, in turn: to be warned, and to be cut off."""
BRISK_SPELL_S = 6.0
"""How long it keeps up in between."""
POLICIES: tuple[SlowPolicy, ...] = ("disconnect", "drop-unreliable")


class Counts:
    """The tally, while it grows."""

    def __init__(self) -> None:
        self.sessions = self.sent = self.payload_bytes = self.received = self.warned = self.returned = 0

    def took(self, event: object) -> None:
        """An event was delivered to one of the sessions."""
        if isinstance(event, Message):
            self.received += 1
        elif isinstance(event, SlowReceiver):
            self.warned += not event.is_over
        elif isinstance(event, Reconnected):
            self.returned += 1

    def tally(self) -> Tally:
        """The counts as they are now."""
        return Tally(self.sessions, self.sent, self.payload_bytes, self.received, self.warned, self.returned)


class Act:
    """One act of one process."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.counts = Counts()
        self.is_over = asyncio.Event()

    async def run(self) -> Tally:
        """Run until the act is over and all sessions have gone."""
        orders = self.orders
        async with asyncio.TaskGroup() as tasks:
            if orders.role == "churn":
                for number in range(RESTLESS):
                    tasks.create_task(self._come_and_go(number))
            for number, home in enumerate(orders.homes):
                if orders.role == "flood":
                    tasks.create_task(self._flood(number, home))
                elif orders.role == "slow":
                    tasks.create_task(self._read_slowly(number, home))
        return self.counts.tally()

    async def _sleep(self, seconds: float) -> None:
        """Sleep for this time, or until the act is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.is_over.wait(), seconds)

    async def _connect(
        self, place: str, name: str, *, comes_back: bool = True, slow: SlowPolicy | None = None
    ) -> Session | None:
        """A session; None if there is none before the act is over."""
        after = self.orders.places.index(place)
        places = self.orders.places[after:] + self.orders.places[:after] if comes_back else (place,)
        while not self.is_over.is_set():
            with suppress(ConnectError):  # killed, paused, or the end of an earlier session is on its way
                session = await antiphon.connect(
                    places, name=name, slow=slow, reconnect=comes_back, trace=self.orders.trace
                )
                self.counts.sessions += 1
                return session
            await self._sleep(0.2)
        return None

    async def _send(self, session: Session, group: str, size_bytes: int, service: Service) -> None:
        await session.send(group, self.counts.sent.to_bytes(8, "big") + bytes(size_bytes), service)
        self.counts.sent += 1
        self.counts.payload_bytes += size_bytes

    async def _listen(self, session: Session) -> None:
        with suppress(Disconnected):
            async for event in session:
                self.counts.took(event)

    async def _part(self, session: Session, listening: "asyncio.Task[None]") -> None:
        with suppress(Disconnected):  # what was under way to a daemon that was killed has an unknown fate
            await session.close()
        await listening

    # Floods -----------------------------------------------------------------------------------------------

    async def _flood(self, number: int, home: str) -> None:
        """Send in bursts, with all others at the same time; a service and a size for each burst."""
        session = await self._connect(home, f"flood{self.orders.seed}{number}")
        if session is None:
            return
        listening = asyncio.create_task(self._listen(session))
        with suppress(Disconnected):
            await session.join(FLOODED)
            while not self.is_over.is_set():
                burst = int(time.time() / BURST_EVERY_S)
                service = SERVICES[(burst + number) % len(SERVICES)]
                size_bytes = SIZES_BYTES[burst % len(SIZES_BYTES)]
                for _ in range(min(BURST_MESSAGES_MAX, BURST_BYTES // size_bytes)):
                    if self.is_over.is_set():
                        break
                    await self._send(session, FLOODED, size_bytes, service)
                await self._sleep(max(0.0, (burst + 1) * BURST_EVERY_S - time.time()))
        await self._part(session, listening)

    # Churn ------------------------------------------------------------------------------------------------

    async def _come_and_go(self, number: int) -> None:
        """Short sessions, one after the other, at any daemon."""
        random = Random(f"{self.orders.seed}/{number}/{time.time_ns()}")
        while not self.is_over.is_set():
            place = random.choice(self.orders.homes)
            session = await self._connect(place, f"rest{number}", comes_back=False)
            if session is None:
                return
            listening = asyncio.create_task(self._listen(session))
            with suppress(Disconnected):
                await self._chat(session, random)
            await self._part(session, listening)
            await self._sleep(random.uniform(0.5, 2.0))

    async def _chat(self, session: Session, random: Random) -> None:
        groups = random.sample(CHATS, random.choice((1, 2)))
        for group in groups:
            await session.join(group)
        for _ in range(random.randrange(6)):
            to = random.choice((*CHATS, session.name))
            await self._send(session, to, random.randrange(20_000), random.choice(SERVICES))
        await self._sleep(random.uniform(0.0, 2.0))
        if random.random() < 0.5:
            await session.leave(groups[0])

    # Slow receivers ---------------------------------------------------------------------------------------

    async def _read_slowly(self, number: int, home: str) -> None:
        """Keep up for a while, then read far too slowly, and so on."""
        session = await self._connect(home, f"slow{number}", slow=POLICIES[number % len(POLICIES)])
        if session is None:
            return
        reading = asyncio.create_task(self._read_in_spells(session))
        with suppress(Disconnected):
            await session.join(FLOODED, wait=False)
            await self.is_over.wait()
        await self._part(session, reading)

    async def _read_in_spells(self, session: Session) -> None:
        longest_s = self.orders.act_s / 2
        spell = 0
        with suppress(Disconnected):
            while True:
                slow_s = min(SLOW_SPELLS_S[spell % len(SLOW_SPELLS_S)], longest_s)
                until_s = time.monotonic() + slow_s
                while time.monotonic() < until_s:
                    self.counts.took(await session.receive())
                    await asyncio.sleep(TRICKLE_S)
                until_s = time.monotonic() + BRISK_SPELL_S
                while time.monotonic() < until_s:
                    for event in await session.receive_many():
                        self.counts.took(event)
                spell += 1


async def live(orders: Orders) -> None:
    """Act and rest as told, until stdin ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    act: Act | None = None
    acting: asyncio.Task[Tally] | None = None
    while line := await reader.readline():
        match line.decode().strip():
            case word if word == BEGIN and acting is None:
                act = Act(orders)
                acting = asyncio.create_task(act.run())
            case word if word == REST and act is not None and acting is not None:
                act.is_over.set()
                _report(await acting)
                acting = None


def _report(value: Tally | Failed) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Carry out the orders on the command line."""
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    try:
        asyncio.run(live(orders))
    except* AntiphonError as group:
        _report(Failed("; ".join(str(error) for error in group.exceptions)))


if __name__ == "__main__":
    main()
