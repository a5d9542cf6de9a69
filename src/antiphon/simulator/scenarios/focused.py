"""Scenarios with one kind of fault, for those who want to understand it, and one that is large."""

from random import Random

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import (
    AnyIncident,
    Crash,
    Cut,
    Flap,
    Flood,
    OneWay,
    Partition,
    Restart,
    Trigger,
    Trouble,
)
from antiphon.simulator.network import Loss
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios import hardships
from antiphon.simulator.scenarios.clusters import Cluster, draw_clients, draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide

GROUPS = ("g0", "g1", "g2")
NEAR_US = (100, 5_000)
BUNDLES = 120
HUNDRED_SITES = 10
CASCADE_STATES = ("seg", "gather", "statetrans", "evs", "op")
GROUPS_ROUND_US = 5_000
"""No longer than groups need to be put together in a small network."""


def _plan(
    name: str,
    seed: int,
    random: Random,
    cluster: Cluster,
    settings: Settings,
    working_us: int,
    incidents: list[AnyIncident],
    *,
    triggers: tuple[Trigger, ...] = (),
    damage: tuple[AnyIncident, ...] = (),
    dead: tuple[str, ...] = (),
    slow_readers: float = 0.0,
) -> Plan:
    names = cluster.names
    clients = draw_clients(random, names, GROUPS, 2 * len(names), working_us, BUNDLES)
    hard = Random(f"hardships of {name} {seed}")
    if hard.random() < slow_readers:
        clients, settings = hardships.slow_readers(hard, clients, settings)
    return Plan(
        name,
        seed,
        cluster.sites,
        cluster.routes,
        clients,
        working_us,
        settings,
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        triggers=triggers,
        damage=damage,
        dead=dead,
    )


def _near(random: Random) -> Settings:
    return Settings(delta_ms=wide(random, 5_000, 50_000) / 1_000, membership="lan")


def _small_cluster(random: Random, low: int = 3, high: int = 8) -> Cluster:
    daemons = random.randint(low, high)
    return draw_cluster(random, daemons, random.randint(1, min(4, daemons)), latencies_us=NEAR_US)


def partition(random: Random, seed: int) -> Plan:
    """Three to ten sites; some are cut off from the others and come back, once or several times."""
    sites = random.randint(3, 10)
    daemons = random.randint(sites, min(sites + 4, 12))
    cluster = draw_cluster(random, daemons, sites, latencies_us=NEAR_US)
    incidents: list[AnyIncident] = []
    at_us = 1_000_000
    for _ in range(random.randint(1, 3)):
        far = random.sample(range(sites), random.randint(1, sites - 1))
        parts: tuple[list[str], list[str]] = ([], [])
        for number, site in enumerate(cluster.sites):
            parts[number in far].extend(daemon.name for daemon in site.daemons)
        for_us = wide(random, 2_000_000, 5_000_000)
        incidents.append(Partition(parts=tuple(map(tuple, parts)), at_us=at_us, for_us=for_us))
        at_us += for_us + 3_000_000
    settings = _near(random)
    return _plan("partition", seed, random, cluster, settings, at_us, incidents, slow_readers=0.3)


def crash(random: Random, seed: int) -> Plan:
    """Daemons crash one by one; some come back, some never do."""
    cluster = _small_cluster(random)
    victims = random.sample(cluster.names, random.randint(1, len(cluster.names) - 1))
    dead = tuple(sorted(victim for victim in victims if random.random() < 0.4))
    incidents: list[AnyIncident] = []
    at_us = 1_000_000
    for victim in victims:
        incidents.append(Crash(daemon=victim, at_us=at_us))
        if victim not in dead:
            incidents.append(Restart(daemon=victim, at_us=at_us + wide(random, 500_000, 4_000_000)))
        at_us += wide(random, 200_000, 3_000_000)
    return _plan(
        "crash", seed, random, cluster, _near(random), at_us + 2_000_000, incidents, dead=dead,
        slow_readers=0.3,
    )  # fmt: skip


def restart(random: Random, seed: int) -> Plan:
    """Daemons crash and are back before the others have noticed, again and again, with any clocks."""
    cluster = _small_cluster(random, 2, 6)
    incidents: list[AnyIncident] = []
    at_us = 1_000_000
    for _ in range(random.randint(3, 10)):
        daemon = random.choice(cluster.names)
        back_us = at_us + wide(random, 1_000, 800_000)
        step_us = random.choice((0, 0, 1, -1)) * wide(random, 1_000, 3_600_000_000)
        incidents += [
            Crash(daemon=daemon, at_us=at_us),
            Restart(daemon=daemon, at_us=back_us, step_us=step_us),
        ]
        at_us += wide(random, 50_000, 2_000_000)
    incidents = hardships.rebooted(Random(f"reboots of restart {seed}"), incidents)
    return _plan("restart", seed, random, cluster, _near(random), at_us + 1_000_000, incidents)


def cascade(random: Random, seed: int) -> Plan:
    """Whenever daemons are about to agree on a new view, the next fault comes."""
    cluster = _small_cluster(random, 4, 8)
    names = cluster.names
    pairs = cluster.pairs()
    first = random.choice(names)
    incidents: list[AnyIncident] = [Crash(daemon=first, at_us=1_000_000)]
    triggers = []
    for turn in range(random.randint(3, 8)):
        state = random.choice(CASCADE_STATES)
        daemon = random.choice(names)
        after_us = wide(random, 1, 50_000)
        time = 1 + turn * random.randint(0, len(names))
        from_us = 1_000_000
        kind = random.random()
        if kind < 0.35:
            triggers.append(Trigger(state, Crash(daemon=daemon, at_us=from_us), after_us, time=time))
            back = Restart(daemon=daemon, at_us=from_us)
            triggers.append(Trigger(state, back, after_us + wide(random, 1_000, 2_000_000), time=time))
        elif kind < 0.7:
            cut = Cut(daemons=random.choice(pairs), at_us=from_us, for_us=wide(random, 10_000, 2_000_000))
            triggers.append(Trigger(state, cut, after_us, time=time))
        else:
            part = tuple(random.sample(names, random.randint(1, len(names) - 1)))
            split = Partition(parts=(part,), at_us=from_us, for_us=wide(random, 10_000, 2_000_000))
            triggers.append(Trigger(state, split, after_us, time=time))
    triggers += _amid_groups(Random(f"groups of cascade {seed}"), names)
    return _plan(
        "cascade", seed, random, cluster, _near(random), 8_000_000, incidents, triggers=tuple(triggers)
    )


def _amid_groups(random: Random, names: list[str]) -> list[Trigger]:
    """Faults while groups are being put together, which lasts for one agreed round only: a daemon's
    announcement of its members is still under way."""
    triggers = []
    for _ in range(random.randint(1, 4)):
        time = random.randint(1, 3 * len(names))
        after_us = wide(random, 1, GROUPS_ROUND_US) - 1
        happens: list[tuple[AnyIncident, int]] = []
        if random.random() < 0.5:  # bad paths make the round longer
            lossy = Trouble(
                fault=Loss(random.uniform(0.3, 0.9)), at_us=1_000_000, for_us=wide(random, 5_000, 200_000)
            )
            happens.append((lossy, 0))
        if random.random() < 0.6:
            daemon = random.choice(names)
            back_us = after_us + wide(random, 100_000, 3_000_000)
            happens.append((Crash(daemon=daemon, at_us=1_000_000), after_us))
            happens.append((Restart(daemon=daemon, at_us=1_000_000), back_us))
        else:
            part = tuple(random.sample(names, random.randint(1, len(names) - 1)))
            for_us = wide(random, 10_000, 3_000_000)
            happens.append((Partition(parts=(part,), at_us=1_000_000, for_us=for_us), after_us))
        triggers += [Trigger("ggather", incident, wait_us, time=time) for incident, wait_us in happens]
    return triggers


def oneway(random: Random, seed: int) -> Plan:
    """Pairs of daemons that hear each other in one direction only, for a while or for ever."""
    cluster = _small_cluster(random)
    pairs = cluster.pairs()
    incidents: list[AnyIncident] = []
    at_us = 1_000_000
    for _ in range(random.randint(1, 4)):
        for pair in random.sample(pairs, random.randint(1, max(1, len(pairs) // 3))):
            sender, receiver = random.sample(pair, 2)
            for_us = wide(random, 100_000, 5_000_000)
            incidents.append(OneWay(sender=sender, receiver=receiver, at_us=at_us, for_us=for_us))
        at_us += wide(random, 500_000, 4_000_000)
    damage: list[AnyIncident] = []
    for pair in random.sample(pairs, random.randint(0, max(1, len(pairs) // 3))):
        sender, receiver = random.sample(pair, 2)
        damage.append(OneWay(sender=sender, receiver=receiver))
    return _plan(
        "oneway", seed, random, cluster, _near(random), at_us + 2_000_000, incidents, damage=tuple(damage)
    )


def flap(random: Random, seed: int) -> Plan:
    """A daemon loses some of the others, or all of them, again and again."""
    cluster = _small_cluster(random)
    incidents: list[AnyIncident] = []
    for daemon in random.sample(cluster.names, random.randint(1, 2)):
        down_us = wide(random, 20_000, 2_000_000)
        up_us = wide(random, 20_000, 3_000_000)
        at_us = wide(random, 500_000, 3_000_000)
        times = random.randint(3, 8)
        share = random.choice((0.5, 1.0, 1.0))
        incidents += [
            Flap(daemons=pair, down_us=down_us, up_us=up_us, times=times, at_us=at_us)
            for pair in cluster.pairs()
            if daemon in pair and random.random() < share
        ]
    return _plan("flap", seed, random, cluster, _near(random), 12_000_000, incidents)


def hundred(random: Random, seed: int) -> Plan:
    """A hundred daemons at ten sites fall into two halves and come together again, with modest traffic."""
    ring = [(site, (site + 1) % HUNDRED_SITES) for site in range(HUNDRED_SITES)]
    cluster = draw_cluster(
        random, HUNDRED_SITES**2, HUNDRED_SITES, latencies_us=(5_000, 30_000), pairs=ring, even=True
    )
    names = cluster.names
    half = len(names) // 2
    split = Partition(parts=(tuple(names[:half]), tuple(names[half:])), at_us=2_000_000, for_us=8_000_000)
    floods: list[AnyIncident] = [
        Flood(
            daemon=random.choice(names),
            groups=GROUPS,
            bundles=2,
            services=(Service.AGREED, Service.SAFE),
            at_us=at_us,
        )
        for at_us in range(500_000, 16_000_000, 500_000)
    ]
    clients = tuple(
        ClientPlan(
            f"c{name}",
            name,
            Habits(
                interval_us=10**12,
                groups=GROUPS,
                joins=random.randint(1, 2),
                starts_us=random.randrange(400_000),
            ),
        )
        for name in random.sample(names, 30)
    )
    return Plan(
        "hundred",
        seed,
        cluster.sites,
        cluster.routes,
        clients,
        16_000_000,
        Settings(delta_ms=100.0),
        incidents=(split, *floods),
    )
