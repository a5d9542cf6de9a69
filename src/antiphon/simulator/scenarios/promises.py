"""Promises of attempts that failed: what a daemon has agreed to deliver binds it when the next attempt has
other members.

It matters only when many things come together. A lost daemon leaves a hole behind, so that messages after it
are in doubt; those who remain agree to deliver one another's; one of them learns that all have agreed and
delivers, and before the others learn it, too, a second daemon is lost, after whose messages they must not
fall back behind the hole.
"""

from random import Random

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Flood, Partition, Restart, Trigger, Trouble
from antiphon.simulator.network import Loss
from antiphon.simulator.plan import ClientPlan, Daemon, Plan, Site
from antiphon.simulator.scenarios.parts import coalesce_of, mesh, wide

GROUPS = ("g0", "g1")
LATENCIES_US = (1_000, 15_000)
LAST_WORDS_US = 1_000_000
LOSS = (0.4, 0.85)
OVER_US = 3_000_000
"""How long the second daemon is kept away at most."""
WORKING_US = 8_000_000


def promises(random: Random, seed: int) -> Plan:
    """Four to six sites, each 1 to 15 ms from the others. One daemon is lost while it speaks over bad paths,
    a second one as soon as any daemon has installed the view without the first."""
    names = [f"d{number}" for number in range(random.randint(4, 6))]
    first, second = random.sample(names, 2)
    return Plan(
        "promises",
        seed,
        tuple(
            Site(f"s{number}", (Daemon(name, clock_us=random.randrange(10**12)),))
            for number, name in enumerate(names)
        ),
        mesh(random, len(names), LATENCIES_US),
        tuple(
            ClientPlan(f"c{name}", name, Habits(1_000_000, GROUPS, len(GROUPS), churn=0.0, starts_us=0))
            for name in names
        ),
        WORKING_US,
        Settings(delta_ms=wide(random, 2_000, 50_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(_last_words(random, names, first)),
        triggers=tuple(_second_loss(random, names, second)),
    )


def _last_words(random: Random, names: list[str], first: str) -> list[AnyIncident]:
    """Some messages of the first daemon reach no other; the answers of the others come after that."""
    gone_us = LAST_WORDS_US + wide(random, 1_000, 20_000)
    words: list[AnyIncident] = [
        Trouble(
            fault=Loss(random.uniform(*LOSS)),
            at_us=LAST_WORDS_US - 1_000,
            for_us=wide(random, 10_000, 50_000),
        ),
        Flood(
            daemon=first,
            groups=GROUPS,
            bundles=random.randint(10, 25),
            services=(Service.FIFO, Service.AGREED),
            at_us=LAST_WORDS_US,
        ),
    ]
    words += [
        Flood(
            daemon=name,
            groups=GROUPS,
            bundles=random.randint(1, 6),
            services=(Service.CAUSAL, Service.AGREED, Service.SAFE),
            at_us=LAST_WORDS_US + random.randrange(1, 30_000),
        )
        for name in names
        if name != first
    ]
    others = tuple(name for name in names if name != first)
    if random.random() < 0.5:
        away = Partition(parts=((first,), others), at_us=gone_us, for_us=OVER_US)
        return [*words, away]
    return [*words, Crash(daemon=first, at_us=gone_us), Restart(daemon=first, at_us=gone_us + OVER_US)]


def _second_loss(random: Random, names: list[str], second: str) -> list[Trigger]:
    """Paths are bad once the recovery has begun, so that some learn of its end before others."""
    lossy = Trouble(
        fault=Loss(random.uniform(*LOSS)), at_us=LAST_WORDS_US, for_us=wide(random, 20_000, 300_000)
    )
    triggers = [Trigger("evs", lossy, wide(random, 1, 10_000) - 1, time=random.randint(1, len(names) - 1))]
    after_us = wide(random, 1, 3_000) - 1
    if random.random() < 0.5:
        crash, back = Crash(daemon=second, at_us=LAST_WORDS_US), Restart(daemon=second, at_us=LAST_WORDS_US)
        triggers.append(Trigger("op", crash, after_us))
        triggers.append(Trigger("op", back, after_us + wide(random, 500_000, OVER_US)))
    else:
        part = tuple(sorted({second, *random.sample(names, random.randint(1, len(names) // 2))}))
        for_us = wide(random, 500_000, OVER_US)
        triggers.append(Trigger("op", Partition(parts=(part,), at_us=LAST_WORDS_US, for_us=for_us), after_us))
    return triggers
