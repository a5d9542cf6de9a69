"""What simulated clients do: each acts at random times by its habits until the working phase is over."""

from random import Random

from msgspec import Struct

from antiphon.service import Service
from antiphon.simulator.client import Client, payload
from antiphon.simulator.world import World

EVERY_SERVICE = tuple(Service)


class Habits(Struct, frozen=True):
    """How one client behaves."""

    interval_us: int
    """Mean time between actions; the times are exponentially distributed."""
    groups: tuple[str, ...]
    """Groups that it may join and send to."""
    joins: int = 1
    """How many of them it joins at first."""
    services: tuple[Service, ...] = EVERY_SERVICE
    size_max_bytes: int = 2_000
    large: float = 0.0
    """Probability of a message of up to `large_bytes`."""
    large_bytes: int = 300_000
    batch_max: int = 6
    """Messages per bundle."""
    several_groups: float = 0.15
    private: float = 0.1
    self_discard: float = 0.1
    churn: float = 0.05
    """Probability that an action is a join or a leave."""
    quits: float = 0.0
    """Probability that an action is the end of the session; another one takes its place."""
    answers: float = 0.0
    """Probability that an action sends several bundles in a row at different services."""
    read_bytes_per_s: int = 0
    """For a slow reader."""
    priority: int = 0
    views: bool = True
    """Whether it wants to be told of the joins and leaves of others."""
    keeps_name: bool = False
    """Whether the session that takes the place of one that ended has its name, too."""
    hasty: float = 0.0
    """Probability that a join or leave is asked for before the one before it has taken effect."""
    starts_us: int | None = None
    """When it connects; at random in the first quarter of the working phase unless told."""


class Actor:
    """One client after another at one daemon, each with the same habits."""

    def __init__(self, world: World, daemon: int, name: str, habits: Habits, until_us: int) -> None:
        self._world = world
        self._daemon = daemon
        self._name = name
        self._habits = habits
        self._until_us = until_us
        self._sessions = 0
        self._client: Client | None = None
        self._random: Random = world.random

    def start(self, time_us: int) -> None:
        self._world.schedule(time_us, self._act)

    def _act(self) -> None:
        world = self._world
        if world.now_us >= self._until_us:
            return
        if self._client is None or not self._client.open:
            self._connect()
        else:
            self._do(self._client)
        pause_us = self._random.expovariate(1.0 / self._habits.interval_us)
        world.schedule(world.now_us + 1 + int(pause_us), self._act)

    def _connect(self) -> None:
        habits = self._habits
        name = self._name if habits.keeps_name else f"{self._name}.{self._sessions}"
        client = self._world.connect(
            self._daemon, name, habits.priority, habits.read_bytes_per_s, habits.views
        )
        if client is None:
            return
        self._sessions += 1
        self._client = client
        for group in self._random.sample(habits.groups, min(habits.joins, len(habits.groups))):
            client.join(group)
        self._world.settle(self._daemon)

    def _do(self, client: Client) -> None:
        random = self._random
        habits = self._habits
        chance = random.random()
        if chance < habits.quits:
            self._world.disconnect(self._daemon, client, graceful=random.random() < 0.6)
            return
        if chance < habits.quits + habits.churn:
            self._churn(client)
        else:
            for _ in range(random.randint(2, 5) if random.random() < habits.answers else 1):
                self._send(client)
        self._world.settle(self._daemon)

    def _churn(self, client: Client) -> None:
        if self._habits.hasty and self._random.random() < self._habits.hasty:
            group = self._random.choice(self._habits.groups)
            for _ in range(self._random.randint(1, 3)):
                if group in client.wanted:
                    client.leave(group)
                else:
                    client.join(group)
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
                client.join(group)

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
        client.send(groups, random.choice(habits.services), payloads, random.random() < habits.self_discard)

    def _size(self) -> int:
        random = self._random
        habits = self._habits
        if random.random() < habits.large:
            return random.randint(habits.size_max_bytes, habits.large_bytes)
        # Squared, so that small messages are the rule; 0 bytes must occur.
        return int(habits.size_max_bytes * random.random() ** 3) if random.random() > 0.03 else 0

    def _somebody(self, client: Client) -> str:
        known = [other.name for clients in self._world.clients for other in clients.values()]
        return self._random.choice(known) if known else client.process
