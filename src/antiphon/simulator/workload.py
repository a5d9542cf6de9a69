"""What simulated clients do: each acts at random times by its habits until the working phase is over."""

from random import Random

from antiphon.service import Service
from antiphon.simulator.calling import Calling
from antiphon.simulator.client import Client, payload
from antiphon.simulator.habits import RESILIENCES, Habits
from antiphon.simulator.world import World
from antiphon.types import Resilience, private_name

SUCCESSION_US = 20_000
"""The most that a successor waits before it asks, again and again, for the name of the session before it."""
SUCCESSION_TRIES = 40

Names = dict[int, dict[str, None]]
"""By daemon, the names that sessions of any client have had there and that are free for all: not those that a
client keeps."""


class Actor:
    """One client after another at one daemon, each with the same habits."""

    def __init__(
        self, world: World, daemon: int, name: str, habits: Habits, until_us: int, names: Names | None = None
    ) -> None:
        self._world = world
        self._daemon = daemon
        self._name = name
        self._habits = habits
        self._until_us = until_us
        self._sessions = 0
        self._began_us = 0
        self._client: Client | None = None
        self._random: Random = world.chance(f"client {name}")
        # What follows decides about names alone: everything else is drawn as if they were never used again.
        self._heirs: Random = world.chance(f"names of client {name}")
        self._names: Names = {} if names is None else names
        self._locking: Random = world.chance(f"locks of client {name}")
        self._choosing: Random = world.chance(f"choices of client {name}")
        # Messages are the same however they are divided into bundles.
        self._division: Random = world.chance(f"bundles of client {name}")
        self._asking: Random = world.chance(f"resilience of client {name}")
        self._calling: Calling | None = None
        self._call_random: Random | None = None
        if habits.calls:
            self._call_random = world.chance(f"calls of client {name}")
            self._calling = Calling(
                name, self._call_random, serves=habits.serves, views=habits.views,
                patience_us=habits.patience_us,
            )  # fmt: skip

    def start(self, from_us: int, within_us: int) -> None:
        """It comes at the time of its habits, or else at any within the given span."""
        start_us = self._habits.starts_us
        if start_us is None:
            start_us = self._random.randint(0, within_us)
        self._began_us = from_us + start_us
        self._world.schedule(self._began_us, self._act)

    def _act(self) -> None:
        world = self._world
        if world.now_us >= self._until_us:
            return
        rests_us = self._rests_us()
        if rests_us:
            world.schedule(world.now_us + rests_us, self._act)
            return
        if self._client is None or not self._client.open:
            self._connect()
        else:
            self._do(self._client)
        pause_us = self._random.expovariate(1.0 / self._habits.interval_us)
        world.schedule(world.now_us + 1 + int(pause_us), self._act)

    def _rests_us(self) -> int:
        """How long it rests from now on."""
        habits = self._habits
        if not habits.busy_us:
            return 0
        span_us = habits.busy_us + habits.idle_us
        passed_us = (self._world.now_us - self._began_us) % span_us
        return 0 if passed_us < habits.busy_us else span_us - passed_us

    def _connect(self) -> None:
        habits = self._habits
        name = self._name if habits.keeps_name else f"{self._name}.{self._sessions}"
        heir = self._former_name()
        client = None if heir is None else self._ask(heir)
        if client is None:
            client = self._ask(name)
            if client is not None and not habits.keeps_name:
                self._names.setdefault(self._daemon, {})[name] = None
        if client is not None:
            self._begin(client, self._random)

    def _ask(self, name: str) -> Client | None:
        habits = self._habits
        return self._world.connect(
            self._daemon, name, habits.priority, habits.read_bytes_per_s, habits.views, habits.slow,
            habits.forbidden,
        )  # fmt: skip

    def _begin(self, client: Client, random: Random) -> None:
        habits = self._habits
        self._sessions += 1
        self._client = client
        for group in random.sample(habits.groups, min(habits.joins, len(habits.groups))):
            client.join(group, habits.minimum, self._choice())
        if self._calling is not None:
            self._calling.begin(client)
        self._world.settle(self._daemon)

    def _choice(self) -> str:
        """What it chooses with its next join."""
        deliveries = self._habits.deliveries
        return self._choosing.choice(deliveries) if deliveries else ""

    def _former_name(self) -> str | None:
        """The name of a session that has ended, or is about to, for the one that begins now."""
        if not self._habits.inherits or self._heirs.random() >= self._habits.inherits:
            return None
        used = {client.name for client in self._world.clients}
        daemon = self._world.machines[self._daemon].name
        free = [name for name in self._names.get(self._daemon, ()) if private_name(name, daemon) not in used]
        return self._heirs.choice(free) if free else None

    def _follow(self, name: str, tries: int) -> None:
        """Begin the next session with the name of the last one, as soon as it is free."""
        world = self._world
        if world.now_us >= self._until_us or (self._client is not None and self._client.open):
            return
        client = self._ask(name)
        if client is not None:
            self._begin(client, self._heirs)
        elif tries:
            self._later(name, tries - 1)

    def _later(self, name: str, tries: int) -> None:
        world = self._world
        world.schedule(world.now_us + self._heirs.randrange(SUCCESSION_US), self._follow, name, tries)

    def _do(self, client: Client) -> None:
        random = self._random
        habits = self._habits
        if self._calling is not None and self._call_random is not None:
            self._calling.work(self._world.now_us)
            if self._call_random.random() < habits.calls:
                self._calling.call(self._call_random.choice(habits.groups), self._world.now_us)
                self._world.settle(self._daemon)
                return
        if habits.locking and self._locking.random() < habits.locking:
            self._lock(client)
            self._world.settle(self._daemon)
            return
        chance = random.random()
        if chance < habits.quits:
            self._world.disconnect(self._daemon, client, graceful=random.random() < 0.6)
            if habits.inherits and self._heirs.random() < habits.inherits:
                self._later(client.name[1:].partition("#")[0], SUCCESSION_TRIES)
            return
        if chance < habits.quits + habits.churn:
            self._churn(client)
        else:
            for _ in range(random.randint(2, 5) if random.random() < habits.answers else 1):
                self._send(client)
        self._world.settle(self._daemon)

    def _lock(self, client: Client) -> None:
        """Ask for a lock, with or without waiting for it, or give one back."""
        random = self._locking
        if client.locks and random.random() < 0.5:
            client.unlock(*random.choice(sorted(client.locks)))
            return
        groups = sorted(client.wanted - client.joining)
        if groups:
            client.lock(random.choice(groups), random.choice(self._habits.locks), random.random() < 0.8)

    def _churn(self, client: Client) -> None:
        if self._habits.hasty and self._random.random() < self._habits.hasty:
            group = self._random.choice(self._habits.groups)
            for _ in range(self._random.randint(1, 3)):
                if group in client.wanted:
                    client.leave(group)
                else:
                    client.join(group, self._habits.minimum, self._choice())
            return
        settled = [
            group
            for group in self._habits.groups
            if group not in client.joining and group not in client.leaving
        ]
        if settled:
            group = self._random.choice(settled)
            if group in client.wanted:
                client.leave(group)
            else:
                client.join(group, self._habits.minimum, self._choice())

    def _send(self, client: Client) -> None:
        random = self._random
        habits = self._habits
        if random.random() < habits.private:
            groups: tuple[str, ...] = (self._somebody(client),)
        elif len(habits.groups) > 1 and random.random() < habits.several_groups:
            groups = tuple(random.sample(habits.groups, random.randint(2, min(4, len(habits.groups)))))
        else:
            groups = (random.choice(habits.groups),)
        payloads = [
            payload(random, self._size())
            for _ in range(random.choice((1, 1, 1, random.randint(1, habits.batch_max))))
        ]
        service, self_discard = random.choice(habits.services), random.random() < habits.self_discard
        is_single = len(payloads) > 1 and self._division.random() < habits.singly
        for bundle in [[body] for body in payloads] if is_single else [payloads]:
            client.send(groups, service, bundle, self_discard, self._resilience(service))

    def _resilience(self, service: Service) -> Resilience | None:
        resilient = self._habits.resilient
        if service is not Service.AGREED or not resilient or self._asking.random() >= resilient:
            return None
        return self._asking.choice(RESILIENCES)

    def _size(self) -> int:
        random = self._random
        habits = self._habits
        if random.random() < habits.large:
            return random.randint(habits.size_max_bytes, habits.large_bytes)
        # Squared, so that small messages are the rule; 0 bytes must occur.
        return int(habits.size_max_bytes * random.random() ** 3) if random.random() > 0.03 else 0

    def _somebody(self, client: Client) -> str:
        known = [other.name for other in self._world.clients]
        return self._random.choice(known) if known else client.process
