"""The scenario `tokens`: the clusters of `sites`, with the token-site protocol inside of the sites."""

from random import Random

from msgspec import structs

from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios.sites import sites


def tokens(random: Random, seed: int) -> Plan:
    """As `sites`; in a third of the plans some sites have a ring."""
    plan = structs.replace(sites(random, seed), scenario="tokens")
    return plan.inside("both" if plan.chance("how many token sites").random() < 1 / 3 else "token-site")
