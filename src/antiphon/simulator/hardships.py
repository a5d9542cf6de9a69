"""What befalls a cluster beside the everyday faults of its paths: busy daemons, pauses, late starts, silence.

Chance for these comes from a generator of their own, made from the same seed: a run that is spared all of
them is what it would be if they did not exist.
"""

from random import Random

from msgspec import structs

from antiphon.config import LinkConfig
from antiphon.simulator.network import Path, Silence
from antiphon.simulator.world import Daemon, Pause

LATE_START_MAX_US = 3_000_000


def wide(random: Random, low: int, high: int) -> int:
    """Between the two, evenly on a logarithmic scale."""
    return int(low * (high / low) ** random.random())


def busy(random: Random, daemons: list[Daemon]) -> list[Daemon]:
    """No daemon, some or all gather events and serve their deadlines late."""
    share = random.choice((0.0, 0.0, 0.4, 1.0))
    return [
        structs.replace(
            daemon, gathers_us=random.choice((50, 300, 1_000)), late_us=random.choice((0, 500, 5_000))
        )
        if random.random() < share
        else daemon
        for daemon in daemons
    ]


def paused(random: Random, daemons: list[Daemon], working_us: int) -> list[Daemon]:
    """One or two daemons stop for up to half a minute."""
    chosen = random.sample(range(len(daemons)), random.randint(1, 2))
    result = list(daemons)
    for number in chosen:
        from_us = daemons[number].starts_us + random.randrange(working_us)
        pause = Pause(from_us, from_us + wide(random, 10_000, 30_000_000))
        result[number] = structs.replace(daemons[number], pauses=(pause,))
    return result


def late(random: Random, daemons: list[Daemon]) -> list[Daemon]:
    """A few daemons start seconds after the others."""
    chosen = set(random.sample(range(len(daemons)), random.randint(1, max(1, len(daemons) // 3))))
    return [
        structs.replace(daemon, starts_us=random.randrange(LATE_START_MAX_US)) if number in chosen else daemon
        for number, daemon in enumerate(daemons)
    ]


def silent(random: Random, paths: dict[tuple[int, int], Path], working_us: int) -> None:
    """Some links carry nothing for up to a minute, in one direction or in both, once or twice."""
    for one, other in random.sample(sorted(paths), min(len(paths), random.randint(1, 3))):
        for _ in range(random.randint(1, 2)):
            from_us = random.randrange(working_us)
            silence = Silence(from_us, from_us + wide(random, 100_000, 60_000_000))
            paths[one, other].suffer(silence)
            if random.random() < 0.6:
                paths[other, one].suffer(silence)


def regulated(random: Random, links: tuple[LinkConfig, ...]) -> tuple[LinkConfig, ...]:
    """About half of the links have a configured top rate."""
    return tuple(
        structs.replace(link, rate_bytes_per_s=wide(random, 300_000, 10_000_000))
        if random.random() < 0.5
        else link
        for link in links
    )


def narrow(random: Random, links: tuple[LinkConfig, ...]) -> tuple[LinkConfig, ...]:
    """The maximum window of some links is small."""
    return tuple(
        structs.replace(link, window_bytes=random.choice((65_536, 262_144, link.window_bytes)))
        for link in links
    )
