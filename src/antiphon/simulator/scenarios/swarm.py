"""The scenario `swarm`: each seed draws which kinds of faults its run may have, and then those faults.

Swarm testing: a run that may have every kind of fault has a little of each, and some of them hide what others
would show. So each run leaves many kinds out; one in four has a single kind, and heavily.
"""

from collections.abc import Callable
from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.incidents import (
    AnyIncident,
    Crash,
    Cut,
    Flap,
    Flood,
    Heal,
    OneWay,
    Partition,
    Pause,
    Restart,
    Trigger,
    Trouble,
    Visit,
)
from antiphon.simulator.network import AnyFault, BurstLoss, Delay, Duplicate, Loss, Reorder
from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios import hardships
from antiphon.simulator.scenarios.clusters import Cluster, draw_clients, draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide

STATES = ("seg", "rep", "gather", "statetrans", "evs", "op", "ggather", "gop")
WORKING_MIN_US = 3_000_000
WORKING_MAX_US = 20_000_000
LASTING_LOSS_MAX = 0.05
"""More than that is no network that a cluster must live with for good."""


class Draw:
    """Draws incidents for one cluster."""

    def __init__(self, random: Random, cluster: Cluster, groups: tuple[str, ...], suspect_us: int) -> None:
        self._random = random
        self._names = cluster.names
        self._pairs = cluster.pairs()
        self._groups = groups
        self._suspect_us = suspect_us
        self.kinds: dict[str, Callable[[int], list[AnyIncident]]] = {
            "crash": self.crash,
            "restart": self.restart,
            "partition": self.partition,
            "cut": self.cut,
            "oneway": self.one_way,
            "flap": self.flap,
            "pause": self.pause,
            "trouble": self.trouble,
            "sever": self.sever,
            "visit": self.visit,
            "heal": self.heal,
        }

    def _span_us(self) -> int:
        """A time from far shorter than a suspicion to several of them."""
        return wide(self._random, 2_000, 4 * self._suspect_us)

    def crash(self, at_us: int) -> list[AnyIncident]:
        """A daemon is gone, and mostly back before all others have got over it, or later."""
        daemon = self._random.choice(self._names)
        incidents: list[AnyIncident] = [Crash(daemon=daemon, at_us=at_us)]
        if self._random.random() < 0.75:
            step_us = self._random.choice((0, 0, 0, 1, -1)) * wide(self._random, 1_000, 3_600_000_000)
            incidents.append(Restart(daemon=daemon, at_us=at_us + self._span_us(), step_us=step_us))
        return incidents

    def restart(self, at_us: int) -> list[AnyIncident]:
        """One that is gone is back at last, or a living one is gone and back at once."""
        daemon = self._random.choice(self._names)
        incidents: list[AnyIncident] = [Restart(daemon=daemon, at_us=at_us + wide(self._random, 1, 100_000))]
        if self._random.random() < 0.6:
            incidents.insert(0, Crash(daemon=daemon, at_us=at_us))
        return incidents

    def partition(self, at_us: int) -> list[AnyIncident]:
        """Two parts or more, drawn without regard to who is where; the next partition may come before."""
        count = min(len(self._names), self._random.choice((2, 2, 2, 3, 4)))
        parts: list[list[str]] = [[] for _ in range(count)]
        for at, name in enumerate(self._random.sample(self._names, len(self._names))):
            (parts[at] if at < count else self._random.choice(parts)).append(name)
        for_us = self._random.choice((0, self._span_us(), self._span_us()))
        return [Partition(parts=tuple(tuple(sorted(part)) for part in parts), at_us=at_us, for_us=for_us)]

    def heal(self, at_us: int) -> list[AnyIncident]:
        """All at once."""
        return [Heal(at_us=at_us)]

    def cut(self, at_us: int) -> list[AnyIncident]:
        """Some pairs, so that who can talk to whom is not transitive."""
        pairs = self._some_pairs()
        for_us = self._span_us()
        return [Cut(daemons=pair, at_us=at_us, for_us=for_us) for pair in pairs]

    def one_way(self, at_us: int) -> list[AnyIncident]:
        """Some pairs in one direction."""
        incidents: list[AnyIncident] = []
        for_us = self._span_us()
        for pair in self._some_pairs():
            sender, receiver = self._random.sample(pair, 2)
            incidents.append(OneWay(sender=sender, receiver=receiver, at_us=at_us, for_us=for_us))
        return incidents

    def flap(self, at_us: int) -> list[AnyIncident]:
        """A pair, or one daemon and all others, come and go, faster than they can tell or slower."""
        pairs = [self._random.choice(self._pairs)]
        if self._random.random() < 0.4:
            pairs = [pair for pair in self._pairs if pairs[0][0] in pair]
        down_us = wide(self._random, 5_000, 2 * self._suspect_us)
        up_us = wide(self._random, 5_000, 2 * self._suspect_us)
        times = self._random.randint(2, 8)
        return [Flap(daemons=pair, down_us=down_us, up_us=up_us, times=times, at_us=at_us) for pair in pairs]

    def pause(self, at_us: int) -> list[AnyIncident]:
        """A daemon stops for a blink, or until the others have given it up."""
        for_us = wide(self._random, 5_000, 3 * self._suspect_us)
        return [Pause(daemon=self._random.choice(self._names), at_us=at_us, for_us=for_us)]

    def trouble(self, at_us: int) -> list[AnyIncident]:
        """The paths of one pair, or all paths, are bad for a while."""
        random = self._random
        faults: tuple[AnyFault, ...] = (
            Loss(random.uniform(0.1, 0.7)),
            BurstLoss(enter=random.uniform(0.01, 0.1), leave=random.uniform(0.05, 0.3)),
            Delay(wide(random, 1_000, self._suspect_us)),
            Reorder(random.random(), wide(random, 1_000, 100_000)),
            Duplicate(random.random(), wide(random, 1_000, 1_000_000)),
        )
        daemons = random.choice(self._pairs) if random.random() < 0.5 else ()
        return [Trouble(fault=random.choice(faults), daemons=daemons, at_us=at_us, for_us=self._span_us())]

    def sever(self, at_us: int) -> list[AnyIncident]:
        """A daemon's last packets go over bad paths: others get some of them, and some are lost
        everywhere."""
        random = self._random
        daemon = random.choice(self._names)
        lossy = Trouble(
            fault=Loss(random.uniform(0.3, 0.8)),
            at_us=max(0, at_us - 5_000),
            for_us=wide(random, 8_000, 60_000),
        )
        words = Flood(
            daemon=daemon,
            groups=self._groups,
            bundles=random.randint(5, 25),
            services=tuple(Service)[1:],
            at_us=at_us,
        )
        replies = [
            Flood(
                daemon=other,
                groups=self._groups,
                bundles=random.randint(1, 4),
                services=(Service.CAUSAL, Service.AGREED, Service.SAFE),
                at_us=at_us + random.randrange(1, 20_000),
            )
            for other in random.sample(self._names, min(len(self._names), 2))
        ]
        gone_us = at_us + wide(random, 100, 20_000)
        others = tuple(name for name in self._names if name != daemon)
        end: list[AnyIncident] = [Partition(parts=((daemon,), others), at_us=gone_us, for_us=self._span_us())]
        if random.random() < 0.6:
            end = [
                Crash(daemon=daemon, at_us=gone_us),
                Restart(daemon=daemon, at_us=gone_us + self._span_us()),
            ]
        return [lossy, words, *replies, *end]

    def rush(self, at_us: int) -> list[AnyIncident]:
        """A client joins a group while others send to it, and neither is over when something else happens."""
        group = self._random.choice(self._groups)
        join_us = max(0, at_us - wide(self._random, 100, 50_000))
        visit = Visit(
            daemon=self._random.choice(self._names),
            group=group,
            service=Service.RELIABLE,
            at_us=join_us,
            for_us=10 * self._suspect_us,
        )
        floods = [
            Flood(
                daemon=daemon,
                groups=(group,),
                bundles=self._random.randint(1, 4),
                services=tuple(Service)[1:],
                at_us=join_us + self._random.randrange(10_000),
            )
            for daemon in self._random.sample(self._names, min(len(self._names), 2))
        ]
        return [visit, *floods]

    def visit(self, at_us: int) -> list[AnyIncident]:
        """Clients that join and die within one round."""
        return [
            Visit(
                daemon=self._random.choice(self._names),
                group=self._random.choice(self._groups),
                service=self._random.choice(tuple(Service)),
                graceful=self._random.random() < 0.3,
                at_us=at_us,
                for_us=wide(self._random, 1, self._suspect_us),
            )
            for _ in range(self._random.randint(1, 4))
        ]

    def flood(self, at_us: int) -> list[AnyIncident]:
        """Messages that are under way when something else happens."""
        return [
            Flood(
                daemon=daemon,
                groups=self._groups,
                bundles=self._random.randint(1, 6),
                services=tuple(Service)[1:],
                at_us=max(0, at_us - self._random.randrange(30_000)),
            )
            for daemon in self._random.sample(self._names, min(len(self._names), self._random.randint(1, 3)))
        ]

    def damage(self, kinds: list[str]) -> list[AnyIncident]:
        """What stays for good, of the kinds that this run has."""
        random = self._random
        incidents: list[AnyIncident] = []
        if "cut" in kinds and random.random() < 0.4:
            incidents += [Cut(daemons=pair) for pair in self._some_pairs()]
        if "oneway" in kinds and random.random() < 0.4:
            for pair in self._some_pairs():
                sender, receiver = random.sample(pair, 2)
                incidents.append(OneWay(sender=sender, receiver=receiver))
        if "trouble" in kinds and random.random() < 0.3:
            incidents.append(Trouble(fault=Loss(LASTING_LOSS_MAX * random.random())))
        return incidents

    def _some_pairs(self) -> list[tuple[str, str]]:
        few = max(1, len(self._pairs) // 3)
        return self._random.sample(self._pairs, self._random.randint(1, few))


def swarm(random: Random, seed: int, scenario: str = "swarm", sites_min: int = 1) -> Plan:
    """Anything may happen to a cluster of any kind, but not everything in one run."""
    daemons = random.randint(10, 20) if random.random() < 0.08 else random.randint(2, 9)
    return draw_plan(random, seed, scenario, daemons, random.randint(sites_min, min(6, daemons)), None)


def draw_plan(
    random: Random, seed: int, scenario: str, daemons: int, site_count: int, homes: list[int] | None
) -> Plan:
    """A plan of `swarm` for a cluster of this size; `homes`, if given, are the sites of its daemons."""
    is_near = random.random() < 0.6
    settings = _settings(random, is_near)
    suspect_us = settings.timing().suspect_us
    cluster = draw_cluster(
        random,
        daemons,
        site_count,
        latencies_us=(100, 5_000) if is_near else (1_000, 80_000),
        severity=random.choice((0.0, 0.0, 0.0, 0.01, LASTING_LOSS_MAX)),
        late_us=random.choice((0, 0, 2_000_000)),
        homes=homes,
    )
    groups = tuple(f"g{number}" for number in range(random.randint(1, 8)))
    draw = Draw(random, cluster, groups, suspect_us)
    kinds = _kinds(random, list(draw.kinds))
    incidents, end_us = _incidents(random, draw, kinds, suspect_us)
    working_us = min(max(WORKING_MIN_US, end_us), WORKING_MAX_US)
    incidents = [_within(incident, working_us) for incident in incidents if incident.at_us < working_us]
    clients = draw_clients(
        random, cluster.names, groups, random.randint(daemons, 2 * daemons), working_us,
        bundles=random.randint(40, 120),
    )  # fmt: skip
    hard = Random(f"hardships of {scenario} {seed}")
    if hard.random() < 0.15:
        clients, settings = hardships.slow_readers(hard, clients, settings)
    if hard.random() < 0.3:
        incidents = hardships.rebooted(hard, incidents)
    if hard.random() < 0.15:
        incidents.append(hardships.flipping(hard, working_us))
    return Plan(
        scenario,
        seed,
        cluster.sites,
        cluster.routes,
        clients,
        working_us,
        settings,
        waits=random.random() < 0.7,
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        triggers=_triggers(random, draw, kinds) if random.random() < 0.5 else (),
        dead=_dead(random, cluster.names) if "crash" in kinds and random.random() < 0.4 else (),
        damage=tuple(draw.damage(kinds)),
    )


def _settings(random: Random, is_near: bool) -> Settings:
    settings = Settings(
        delta_ms=wide(random, 5_000, 100_000) / 1_000,
        membership="lan" if is_near or random.random() < 0.3 else "wan",
    )
    if random.random() < 0.3:  # waits that no preset has
        gather_ms = wide(random, 50, 1_000)
        settings = structs.replace(
            settings,
            suspect_ms=float(wide(random, 300, 2_000)),
            gather_ms=float(gather_ms),
            join_ms=float(max(10, gather_ms // 4)),
            probe_ms=float(wide(random, 50, 1_000)),
        )
    return settings


def _kinds(random: Random, known: list[str]) -> list[str]:
    """The kinds of this run; healing alone is no fault."""
    faults = [kind for kind in known if kind not in ("heal", "visit")]
    if random.random() < 0.25:
        return [random.choice(faults)]
    kinds = [kind for kind in known if random.random() < 0.35]
    return kinds if set(kinds) & set(faults) else [*kinds, random.choice(faults)]


def _incidents(
    random: Random, draw: Draw, kinds: list[str], suspect_us: int
) -> tuple[list[AnyIncident], int]:
    """What happens at known times, and until when."""
    incidents: list[AnyIncident] = []
    at_us = random.randrange(100_000, 1_000_000)
    for _ in range(random.randint(3, 15)):
        incidents += draw.kinds[random.choice(kinds)](at_us)
        if random.random() < 0.6:
            incidents += draw.flood(at_us)
        if random.random() < 0.3:
            incidents += draw.rush(at_us)
        if random.random() < 0.4:
            at_us += wide(random, 1_000, 300_000)
        else:
            at_us += wide(random, 100_000, 3 * suspect_us)
    return incidents, at_us + suspect_us


def _triggers(random: Random, draw: Draw, kinds: list[str]) -> tuple[Trigger, ...]:
    """What happens when the membership is just in the middle of something."""
    triggers = []
    for _ in range(random.randint(1, 6)):
        state = random.choice(STATES)
        time = wide(random, 1, 20)
        after_us = random.choice((0, wide(random, 1, 50_000), wide(random, 1_000, 300_000)))
        for incident in draw.kinds[random.choice(kinds)](0):
            wait_us = after_us + incident.at_us
            triggers.append(Trigger(state, structs.replace(incident, at_us=0), wait_us, time=time))
    return tuple(triggers)


def _within(incident: AnyIncident, end_us: int) -> AnyIncident:
    """The incident, cut so that it is over before the end."""
    for_us = getattr(incident, "for_us", 0)
    if not for_us:
        return incident
    return structs.replace(incident, for_us=max(1, min(for_us, end_us - incident.at_us)))


def _dead(random: Random, names: list[str]) -> tuple[str, ...]:
    return tuple(sorted(random.sample(names, random.randint(1, max(1, len(names) // 3)))))
