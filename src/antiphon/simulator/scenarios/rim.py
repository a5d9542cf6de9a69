"""Edges that organise themselves, with all that happens to edges in the scenario `edges`.

Few of them are wanted as coordinators, so that most have to look for one, and move when it is lost, or when
another one turns out to be nearer. In most runs edges of the same LAN multicast to one another, over ways on
which packets are lost, overtake one another or come twice; some edges are in no LAN, or in one of their own
(more of that in `casts`).
"""

from random import Random

from msgspec import structs

from antiphon.simulator.network import AnyFault, BurstLoss, Duplicate, Jitter, Loss, Reorder
from antiphon.simulator.plan import Edge, Plan
from antiphon.simulator.scenarios.edges import draw
from antiphon.simulator.scenarios.strays import with_strays

MAP_US = 20_000
LOSSES = (0.0, 0.02, 0.05, 0.1, 0.2)
"""Of multicasts on the way to one edge, at the most."""
ALONE = 0.15
"""How many edges are in no LAN with others."""


def rim(random: Random, seed: int) -> Plan:
    """As `edges`, but those that would attach to daemons find their places themselves."""
    plan = draw(random, seed)
    daemons = {daemon.name for daemon in plan.daemons()}
    placed = tuple(_placed(random, edge, daemons) for edge in plan.edges)
    if random.random() < 0.8:
        lans = random.choice((1, 1, 1, 2))
        loss = random.choice(LOSSES)
        placed = tuple(_in_lan(random, edge, lans, loss) for edge in placed)
    found = structs.replace(
        plan,
        scenario="rim",
        settings=structs.replace(plan.settings, edge_coordinators=random.choice((1, 1, 2, 3))),
        edges=placed,
    )
    return with_strays(found, Random(f"strays of rim {seed}"))


def _placed(random: Random, edge: Edge, daemons: set[str]) -> Edge:
    """An edge somewhere on the map."""
    at = (random.randrange(MAP_US), random.randrange(MAP_US))
    return structs.replace(edge, at=at, organises=daemons.issuperset(edge.attachments))


def _in_lan(random: Random, edge: Edge, lans: int, loss: float) -> Edge:
    """An edge that is in a LAN, alone in one, or in none; what multicasts to it suffer."""
    lan = f"l{random.randrange(lans)}"
    if random.random() < ALONE:
        lan = random.choice(("", edge.name))
    faults: list[AnyFault] = []
    if random.random() < 0.9:
        faults.append(Loss(loss * random.random()))
    if random.random() < 0.2:
        faults.append(BurstLoss(loss / 10, 0.3))
    if random.random() < 0.3:
        faults.append(Jitter(random.randrange(5_000)))
    if random.random() < 0.3:
        faults.append(Reorder(0.1 * random.random(), random.randrange(1, 20_000)))
    if random.random() < 0.3:
        faults.append(Duplicate(0.1 * random.random()))
    return structs.replace(edge, lan=lan, cast_faults=tuple(faults))
