"""What simulated clients do: each acts at random times by its habits until the working phase is over."""

from random import Random

from antiphon.simulator.client import Client, payload
from antiphon.simulator.habits import Habits
from antiphon.simulator.world import World


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
        self._random: Random = world.chance(f"client {name}")

    def start(self, from_us: int, within_us: int) -> None:
        """It comes at the time of its habits, or else at any within the given span."""
        start_us = self._habits.starts_us
        if start_us is None:
            start_us = self._random.randint(0, within_us)
        self._world.schedule(from_us + start_us, self._act)

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
            self._daemon, name, habits.priority, habits.read_bytes_per_s, habits.views, habits.slow
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
        known = [other.name for other in self._world.clients]
        return self._random.choice(known) if known else client.process
