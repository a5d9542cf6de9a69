"""Damage that stays for minutes while clients work: what flaps must not keep the others from working."""

from itertools import combinations
from random import Random

from msgspec import Struct

from antiphon.config import Settings
from antiphon.config.timing import PRESETS, Preset
from antiphon.simulator.incidents import AnyIncident, Flap, OneWay, Trouble
from antiphon.simulator.network import Loss
from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios.clusters import Cluster, draw_clients, draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide
from antiphon.simulator.steadiness import steady

GROUPS = ("g0", "g1", "g2")
BEGINS_US = 5_000_000
LASTS_US = (120_000_000, 600_000_000)
FLAPS_US = (300_000, 8_000_000)
BUNDLES_PER_MIN = 30
LOSS = 0.3
NEAR: tuple[Preset, tuple[int, int]] = ("lan", (100, 5_000))
FAR: tuple[Preset, tuple[int, int]] = ("wan", (5_000, 60_000))
NETWORKS = (NEAR, FAR, FAR)
"""Preset and latencies between sites in microseconds."""
FOR_EVER_US = 1 << 60


class _Damage(Struct, frozen=True):
    """One thing that is not well."""

    incidents: tuple[AnyIncident, ...]
    sick: tuple[str, ...]
    """Daemons that are themselves the problem."""
    holds_us: int
    """The longest time for which it works; 0: it never does."""


def lasting(random: Random, seed: int) -> Plan:
    """Two to ten minutes with one or two lasting troubles: a pair that works in one direction or loses 30 %
    of its packets, a pair, a daemon or a site that flaps."""
    preset, latencies_us = random.choice(NETWORKS)  # far daemons give fewer signs of life, and cost less
    sites = random.randint(2, 4)
    daemons = random.randint(max(3, sites), 5)
    mesh = list(combinations(range(sites), 2))
    cluster = draw_cluster(random, daemons, sites, latencies_us=latencies_us, pairs=mesh)
    shortest_us, longest_us = LASTS_US
    working_us = wide(random, shortest_us, wide(random, shortest_us, longest_us))
    suspect_us = PRESETS[preset].suspect_us
    damages = [_damage(random, cluster, working_us, suspect_us) for _ in range(random.choice((1, 1, 2)))]
    sick = {name for damage in damages for name in damage.sick}
    settings = Settings(delta_ms=wide(random, 5_000, 50_000) / 1_000, membership=preset)
    bundles = BUNDLES_PER_MIN * working_us // 60_000_000
    return Plan(
        "lasting",
        seed,
        cluster.sites,
        cluster.routes,
        draw_clients(random, cluster.names, GROUPS, daemons, working_us, bundles),
        working_us,
        settings,
        coalesce=coalesce_of(random),
        incidents=tuple(incident for damage in damages for incident in damage.incidents),
        steady=steady(
            settings.timing(),
            [name for name in cluster.names if name not in sick],
            [damage.holds_us for damage in damages],
            latencies_us[1],
            BEGINS_US,
            working_us,
        ),
    )


def _damage(random: Random, cluster: Cluster, working_us: int, suspect_us: int) -> _Damage:
    """Something that begins early and does not end by itself."""
    pairs = cluster.pairs()
    pair = random.choice(pairs)
    sick: tuple[str, ...] = ()
    kind = random.choice(("oneway", "loss", "pair", "daemon", "site"))
    if kind == "oneway":
        sender, receiver = random.sample(pair, 2)
        return _Damage((OneWay(sender=sender, receiver=receiver, at_us=BEGINS_US),), sick, 0)
    if kind == "loss":
        return _Damage((Trouble(fault=Loss(LOSS), daemons=pair, at_us=BEGINS_US),), sick, FOR_EVER_US)
    if kind != "pair":
        sick = (random.choice(cluster.names),)
    if kind == "site":
        site = random.choice(cluster.sites)
        sick = tuple(daemon.name for daemon in site.daemons)
    down_us, up_us = wide(random, *FLAPS_US), wide(random, *FLAPS_US)
    flaps = tuple(
        Flap(
            daemons=each,
            down_us=down_us,
            up_us=up_us,
            times=working_us // (down_us + up_us) + 1,
            at_us=BEGINS_US,
        )
        for each in pairs
        if (each == pair if not sick else (each[0] in sick) != (each[1] in sick))
    )
    # Silences that are shorter than the suspicion need not cost a link: then the path may hold for any time.
    return _Damage(flaps, sick, up_us if down_us > suspect_us else FOR_EVER_US)
