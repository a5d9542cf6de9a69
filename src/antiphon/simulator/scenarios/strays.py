"""Edges that go astray, for scenarios with edges: they go on where daemons went another way.

The core falls apart, in both directions or in one, so that one part stays ahead of the other; and while its
view ends, edges lose their attachments: one that was in the first part goes on at a daemon of the second, and
in some runs comes back to the first while the core is still apart. Or connections break while unreliable
messages are on their way, which reach the next attachment later than the last one.

This has a generator of its own, so that the other plans of a scenario do not depend on it.
"""

from collections.abc import Iterator
from random import Random

from msgspec import Struct, structs

from antiphon.service import UNRELIABLE
from antiphon.simulator.habits import EVERY_SERVICE
from antiphon.simulator.incidents import (
    AnyIncident,
    Crash,
    Cut,
    Flood,
    Hangup,
    OneWay,
    Restart,
    Trigger,
)
from antiphon.simulator.plan import Edge, Plan
from antiphon.simulator.scenarios.clusters import Cluster
from antiphon.simulator.scenarios.parts import wide

SHARE = 0.4
"""Of the plans in which edges go astray."""
OVERTAKEN = 0.3
"""How often connections break while unreliable messages are on their way, and the core stays whole."""
BACK = 0.4
"""How many of these plans have edges that come back."""
STATES = ("seg", "gather", "statetrans", "evs", "op", "op")
"""Where a daemon may stand, at the end of its view, when edges lose it."""
NOTICED_US = 1_500_000
"""A cut is noticed within this time."""


class _Moment(Struct, frozen=True):
    """When something happens: at a time, or after a daemon has entered a state."""

    at_us: int
    """Or from when on to wait for the state."""
    state: str = ""
    daemon: str = ""
    after_us: int = 0


def with_strays(plan: Plan, random: Random) -> Plan:
    """The same plan; in some, edges go astray, once or several times."""
    if random.random() >= SHARE:
        return plan
    drawn = _Draw(plan, random)
    at_us = random.randrange(200_000, 1_000_000)
    while at_us < plan.working_us:
        for_us = wide(random, 800_000, 3_000_000)
        if random.random() < OVERTAKEN:
            for_us = 0
            drawn.overtaken(at_us)
        else:
            drawn.apart(at_us, for_us)
        at_us += for_us + wide(random, 50_000, 1_500_000)
    if random.random() < BACK:
        drawn.back()
    return structs.replace(plan, incidents=tuple(drawn.incidents), triggers=tuple(drawn.triggers))


class _Draw:
    """What is added to a plan."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self.incidents = list(plan.incidents)
        self.triggers = list(plan.triggers)
        self._random = random
        self._edges = plan.edges
        self._cluster = Cluster(plan.sites, plan.routes)
        self._daemons = self._cluster.names
        self._groups = tuple(sorted({group for client in plan.clients for group in client.habits.groups}))
        self._strayed: list[tuple[list[Edge], int, int]] = []
        """Edges that lost their attachments, since when, and for how long the core was apart."""

    def overtaken(self, at_us: int) -> None:
        """Connections of some edges break shortly after what reaches them soon, and others late."""
        random = self._random
        for edge in self._some_edges():
            name = edge.attachments[0]
            self._flood(
                name if name in self._daemons else random.choice(self._daemons), at_us, unreliable=True
            )
            breaks_us = at_us + edge.latency_us + wide(random, 100, 20_000)
            self.incidents.append(Hangup(daemons=(edge.name, name), at_us=breaks_us))

    def apart(self, at_us: int, for_us: int) -> None:
        """The core falls apart, and edges lose attachments in one part."""
        random = self._random
        edges = self._some_edges()
        here = self._part(edges)
        is_oneway = random.random() < 0.4
        for pair in self._cluster.pairs():
            inner, outer = pair if pair[0] in here else pair[::-1]
            if outer in here or inner not in here:
                continue
            self.incidents.append(
                OneWay(sender=outer, receiver=inner, at_us=at_us, for_us=for_us)
                if is_oneway
                else Cut(daemons=(inner, outer), at_us=at_us, for_us=for_us)
            )
        for _ in range(random.randint(2, 8)):
            self._flood(random.choice(self._daemons), at_us + random.randrange(-30_000, NOTICED_US // 2))
        for edge in edges:
            self._lose(edge, at_us, for_us)
        self._strayed.append((edges, at_us, for_us))

    def back(self) -> None:
        """Those who have gone astray lose their next attachments, too, and then perhaps the first ones again,
        mostly while the core is apart."""
        random = self._random
        for edges, at_us, for_us in self._strayed:
            for edge in edges:
                breaks_us = at_us + NOTICED_US // 2 + random.randrange(for_us // 2)
                for turn in range(random.randint(1, 3)):
                    for name in edge.attachments[:1] if turn % 2 else edge.attachments[1:]:
                        self.incidents.append(Hangup(daemons=(edge.name, name), at_us=breaks_us))
                    breaks_us += wide(random, 150_000, 1_000_000)

    def _some_edges(self) -> list[Edge]:
        return self._random.sample(self._edges, min(len(self._edges), self._random.randint(1, 6)))

    def _part(self, edges: list[Edge]) -> set[str]:
        """Some of the daemons, not all: those to which an edge goes last may be among the others."""
        random = self._random
        inner, outer = random.sample(self._daemons, 2)
        for edge in edges:
            near = [name for name in edge.attachments if name in self._daemons]
            if len(near) > 1:
                inner, outer = near[:2]
                break
        others = [name for name in self._daemons if name not in (inner, outer)]
        return {inner, *random.sample(others, random.randint(0, len(others)))}

    def _flood(self, daemon: str, at_us: int, unreliable: bool = False) -> None:
        self.incidents.append(
            Flood(
                daemon=daemon,
                groups=self._groups,
                bundles=self._random.randint(1, 6),
                services=(UNRELIABLE,) if unreliable else EVERY_SERVICE,
                at_us=max(0, at_us),
            )
        )

    def _lose(self, edge: Edge, at_us: int, for_us: int) -> None:
        """An edge loses its first attachment, or more, while a view of daemons ends or at any time before."""
        random = self._random
        first = edge.attachments[0]
        moment = _Moment(at_us + wide(random, 1_000, NOTICED_US))
        if random.random() < 0.7:
            daemon = first if first in self._daemons else random.choice(self._daemons)
            after_us = random.choice((0, edge.latency_us)) + wide(random, 1, 60_000) - 1
            moment = _Moment(at_us, random.choice(STATES), daemon, after_us)
        for name in edge.attachments[: random.choice((1, 1, 2))]:
            for incident, later_us in self._losses(edge, name, for_us):
                self._plan(incident, moment, later_us)

    def _losses(self, edge: Edge, name: str, for_us: int) -> Iterator[tuple[AnyIncident, int]]:
        """How an edge loses an attachment, and how much later."""
        random = self._random
        how = random.random()
        if how < 0.6 or (how >= 0.8 and name not in self._daemons):
            yield Hangup(daemons=(edge.name, name), is_told=random.random() < 0.8), 0
        elif how < 0.8:
            yield Cut(daemons=(edge.name, name), for_us=for_us), 0
        else:
            yield Crash(daemon=name), 0
            yield Restart(daemon=name), wide(random, 5_000, 2_000_000)

    def _plan(self, incident: AnyIncident, moment: _Moment, later_us: int) -> None:
        if not moment.state:
            self.incidents.append(structs.replace(incident, at_us=moment.at_us + later_us))
            return
        incident = structs.replace(incident, at_us=moment.at_us)
        self.triggers.append(Trigger(moment.state, incident, moment.after_us + later_us, moment.daemon))
