"""Edges by the hundred, in virtual time: what they cost the core, and how soon they find a new coordinator.

Three sites with one daemon each, 15 ms apart. Edges stand in towns on a map, and organise themselves; each
has one member of one group. One session of the core sends, then nobody does, then the coordinator with the
most children crashes, then packets between edges are lost. It is the same code as in real edges, under
simulated time.

Follows: InterGroup 4 and 6: the core is to notice the coordinators, not the edges.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from antiphon.config import LinkConfig, Settings
from antiphon.core.edge.hierarchy import Role
from antiphon.core.edge.node import EdgeNode
from antiphon.lab.experiment import Experiment, Row
from antiphon.plots.charts import Line, LineChart
from antiphon.plots.page import Figure, Section, Table
from antiphon.plots.words import count, duration, size
from antiphon.service import Service
from antiphon.simulator.edge_host import EdgeHost
from antiphon.simulator.network import Loss, Pair
from antiphon.simulator.plan import Daemon, Edge, Plan, Route, Site
from antiphon.simulator.play import form
from antiphon.simulator.stage import Stage
from antiphon.trace import Event

COUNTS = (10, 30, 100, 300, 1_000)
QUICK_COUNTS = (5, 10)
SITES = 3
BETWEEN_SITES_US = 15_000
MAP_US = 60_000
TOWNS = 24
TOWN_US = 1_500
STARTS_US = 5_000_000
SETTLES_S = 30
"""Edges have this time to find their places."""
SENDS = 100
SEND_EVERY_US = 20_000
PAYLOAD = bytes(1_000)
IDLE_S = 10
CRASH_MOST_S = 30
LOSS = 0.05
GROUP = "news"
SECOND_US = 1_000_000


class Rim:
    """A core and its edges, and what was carried between machines since the last look."""

    def __init__(self, edges: int, seed: int = 7) -> None:
        random = Random(seed)
        towns = [(random.randrange(MAP_US), random.randrange(MAP_US)) for _ in range(TOWNS)]
        sites = tuple(Site(f"s{number}", (Daemon(f"d{number}"),)) for number in range(SITES))
        pairs = [(one, other) for one in range(SITES) for other in range(one + 1, SITES)]
        routes = tuple(Route(LinkConfig((f"s{one}", f"s{other}")), BETWEEN_SITES_US) for one, other in pairs)
        placed = tuple(self._edge(random, number, random.choice(towns)) for number in range(edges))
        plan = Plan("edges", seed, sites, routes, (), 1, Settings(membership="lan"), edges=placed)
        self.world = Stage(plan).world
        self.world.network.meter = self._count
        self.packets: Counter[int] = Counter()
        """By machine, those sent and those that came."""
        self.bytes: Counter[int] = Counter()
        form(self.world)

    @staticmethod
    def _edge(random: Random, number: int, town: tuple[int, int]) -> Edge:
        """Those of one town are in one LAN, and can multicast to one another."""
        at = (town[0] + random.randrange(TOWN_US), town[1] + random.randrange(TOWN_US))
        core = tuple(f"d{(number + place) % SITES}" for place in range(SITES))
        far_us = random.randrange(10_000, 30_000)
        machine = Daemon(f"e{number}", starts_us=random.randrange(STARTS_US))
        return Edge(machine, core, far_us, (), True, at, lan=f"{town[0]}.{town[1]}")

    def _count(self, pair: Pair, packets: int, size_bytes: int) -> None:
        for number in pair:
            self.packets[number] += packets
            self.bytes[number] += size_bytes

    def look(self) -> None:
        """Count anew from here on."""
        self.packets.clear()
        self.bytes.clear()
        self.world.connections.repairs.clear()

    def run(self, for_us: int) -> None:
        self.world.run(self.world.now_us + for_us)

    @property
    def nodes(self) -> list[tuple[EdgeHost, EdgeNode]]:
        return [(host, host.node) for host in self.world.edges if isinstance(host.node, EdgeNode)]

    def roles(self) -> Counter[Role]:
        return Counter(role_of(node) for _, node in self.nodes)

    def join(self) -> None:
        """Each edge gets a member."""
        for host in self.world.edges:
            client = host.connect("m", 0, 0, True, "")
            if client is not None:
                client.join(GROUP)
                host.settle()
        self.run(3 * SECOND_US)

    def send(self) -> float:
        """One session sends; the part of the deliveries at edges that took place."""
        host = self.world.hosts[0]
        sender = host.connect("sender", 0, 0, True, "")
        assert sender is not None
        before = self._delivered()
        for _ in range(SENDS):
            sender.send((GROUP,), Service.AGREED, [PAYLOAD])
            host.settle()
            self.run(SEND_EVERY_US)
        self.run(5 * SECOND_US)
        host.disconnect(sender, graceful=True)
        return (self._delivered() - before) / (SENDS * len(self.nodes))

    def _delivered(self) -> int:
        return sum(record.event is Event.DELIVER for record in self.world.records)

    def busiest(self, counts: Counter[int]) -> int:
        """The most of any daemon of the core."""
        return max(counts[number] for number in range(SITES))

    def crash_coordinator(self) -> tuple[int, float | None]:
        """The coordinator with the most children crashes: how many those are, and how many seconds pass
        until the last of them is fed again."""
        children: dict[str, list[EdgeNode]] = {}
        for _, node in self.nodes:
            main = node.links.main
            if main is not None and main.attached is not None and role_of(node) is Role.CHILD:
                children.setdefault(main.attached.name, []).append(node)
        if not children:
            return 0, None
        name = max(children, key=lambda one: (len(children[one]), one))
        orphans = children[name]
        next(host for host in self.world.edges if host.name == name).crash()
        begun_us = self.world.now_us
        while self.world.now_us - begun_us < CRASH_MOST_S * SECOND_US:
            self.run(50_000)
            if all(is_fed(node, name) for node in orphans):
                return len(orphans), (self.world.now_us - begun_us) / SECOND_US
        return len(orphans), None

    def lose(self, rate: float) -> None:
        """Packets between edges, and between these and the core, are lost from here on."""
        for pair, path in self.world.network.paths.items():
            if max(pair) >= SITES:
                path.suffer(Loss(rate))
        for path in self.world.cast_paths.values():
            path.suffer(Loss(rate))

    @property
    def lost(self) -> int:
        """Packets of connections, and between daemons."""
        return sum(path.lost for path in self.world.network.paths.values())

    @property
    def casts(self) -> Counter[str]:
        """What coordinators and children have multicast up to now, and how much of it was lost."""
        found: Counter[str] = Counter()
        for host in self.world.edges:
            found += host.casts
        found["lost"] = sum(path.lost for path in self.world.cast_paths.values())
        return found


def role_of(node: EdgeNode) -> Role:
    """What an edge is among the others."""
    organiser = node.links.organiser
    assert organiser is not None
    return organiser.hierarchy.role


def is_fed(node: EdgeNode, former: str) -> bool:
    """Whether an edge has another attachment than its former one."""
    main = node.links.main
    return main is not None and main.attached is not None and main.attached.name != former


def steps(quick: bool) -> int:
    """How many measurements there are."""
    return len(QUICK_COUNTS if quick else COUNTS)


def measure(quick: bool) -> Iterator[Row]:
    """One row for each number of edges."""
    for number in QUICK_COUNTS if quick else COUNTS:
        yield measured(number)


def measured(number: int) -> Row:
    """What so many edges cost."""
    rim = Rim(number)
    rim.run(SETTLES_S * SECOND_US)
    roles = rim.roles()
    rim.join()
    rim.look()
    begun_us = rim.world.now_us
    delivered = rim.send()
    sent_s = (rim.world.now_us - begun_us) / SECOND_US
    busy_packets, busy_bytes = rim.busiest(rim.packets) / sent_s, rim.busiest(rim.bytes) / sent_s
    rim.look()
    rim.run(IDLE_S * SECOND_US)
    control = [rim.bytes[host.number] / IDLE_S for host in rim.world.edges]
    idle_bytes = rim.busiest(rim.bytes) / IDLE_S
    orphans, healed_s = rim.crash_coordinator()
    rim.run(5 * SECOND_US)
    rim.look()
    lost_before, casts_before = rim.lost, rim.casts
    rim.lose(LOSS)
    rim.send()
    lost = max(1, rim.lost - lost_before)
    casts = rim.casts - casts_before
    cast_losses = max(1, casts["lost"])
    repairs = casts["repairs of coordinators"] + casts["repairs of others"]
    core_repairs = sum(rim.world.connections.repairs[one] for one in range(SITES))
    return {
        "part": "edges",
        "edges": number,
        "coordinators": roles[Role.COORDINATOR],
        "children": roles[Role.CHILD],
        "delivered": delivered,
        "core_packets_per_s": busy_packets,
        "core_bytes_per_s": busy_bytes,
        "core_idle_bytes_per_s": idle_bytes,
        "control_bytes_per_s": sum(control) / len(control),
        "control_most_bytes_per_s": max(control),
        "orphans": orphans,
        "healed_s": "-" if healed_s is None else healed_s,
        "losses": lost,
        "core_repairs_per_loss": core_repairs / lost,
        "cast_pieces": casts["cast: pieces"],
        "cast_losses": casts["lost"],
        "requests_per_loss": casts["requests"] / cast_losses,
        "repairs_per_loss": repairs / cast_losses,
        "escalated_per_loss": casts["escalated"] / cast_losses,
    }


def faults(rows: Sequence[Row]) -> list[str]:
    """Messages that did not come, and orphans that nobody took."""
    found = [
        f"{row['edges']} edges: {row['delivered']:.1%} of the deliveries took place"
        for row in rows
        if row["delivered"] != 1
    ]
    found += [
        f"{row['edges']} edges: after a coordinator's crash not all children were fed again"
        for row in rows
        if row["orphans"] and row["healed_s"] == "-"
    ]
    return found


def sections(rows: Sequence[Row]) -> list[Section]:
    """The plots."""

    def line(name: str, key: str) -> Line:
        return Line(name, tuple((float(row["edges"]), float(row[key])) for row in rows))

    core = LineChart(
        "Bytes per second at the busiest daemon of the core",
        (line("while 50 KB/s are sent", "core_bytes_per_s"), line("idle", "core_idle_bytes_per_s")),
        ("edges", "bytes per second"), (count, size), by_factors=True,
    )  # fmt: skip
    control = LineChart(
        "Control bytes per second and edge",
        (line("the busiest edge", "control_most_bytes_per_s"), line("mean", "control_bytes_per_s")),
        ("edges", "bytes per second"), (count, size), by_factors=True,
    )  # fmt: skip
    table = Table("In numbers", tuple(COLUMNS), [list(map(str, cells(row))) for row in rows], numbers_from=0)
    return [
        Section(
            "edges",
            "Edges",
            [
                Figure("The core feeds coordinators, whatever the number of edges", core),
                Figure("When nothing is sent; counts by factors", control),
                table,
            ],
        )
    ]


COLUMNS = (
    "edges", "coordinators", "packets/s at the core", "orphans", "fed again after", "core's repairs per loss",
    "losses of multicasts", "requests per loss", "repairs per loss", "asked over connections per loss",
)  # fmt: skip


def cells(row: Row) -> Iterator[str]:
    """A row of the table."""
    yield from map(count, (row["edges"], row["coordinators"], row["core_packets_per_s"], row["orphans"]))
    yield "-" if row["healed_s"] == "-" else duration(row["healed_s"] * 1e6)
    yield f"{row['core_repairs_per_loss']:.3f}"
    yield count(row["cast_losses"])
    for key in ("requests_per_loss", "repairs_per_loss", "escalated_per_loss"):
        yield f"{row[key]:.2f}"


ABOUT = (
    "The core feeds its coordinators, and these feed their children: so its costs follow the number of "
    "coordinators. A loss is repaired over the connection on which it happened, or by multicast in the local "
    "group where a coordinator multicasts to its children."
)

EXPERIMENT = Experiment(
    name="edges",
    about="what edges cost the core, and how they organise themselves (in virtual time)",
    steps=steps,
    measure=measure,
    title="Edges by the hundred",
    intro=ABOUT,
    sections=sections,
    faults=faults,
)
