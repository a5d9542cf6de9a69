"""The scenario `sites`: a swarm of few sites with up to eight daemons each, joined by Hop, TCP or both."""

from random import Random

from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios.streams import joined_by_tcp
from antiphon.simulator.scenarios.swarm import draw_plan

DAEMONS_MAX = 14
SHARES = (0.0, 0.0, 0.5, 1.0)
"""How many of the pairs of sites are joined by TCP, by chance."""


def sites(random: Random, seed: int) -> Plan:
    """The faults of `swarm`, but most daemons have others in their site."""
    sizes = [random.randint(1, 8) for _ in range(random.choice((1, 2, 2, 3)))]
    while sum(sizes) < 2 or sum(sizes) > DAEMONS_MAX:
        largest = sizes.index(max(sizes))
        sizes[largest] = random.randint(2, 8) if sum(sizes) < 2 else sizes[largest] - 1
    homes = [site for site, size in enumerate(sizes) for _ in range(size)]
    plan = draw_plan(random, seed, "sites", len(homes), len(sizes), homes)
    chance = Random(f"protocols of sites {seed}")
    return joined_by_tcp(chance, plan, chance.choice(SHARES))
