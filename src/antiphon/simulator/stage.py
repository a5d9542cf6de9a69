"""A plan on its way: incidents happen at their times, or when the membership gives the cue.

All times of a plan count from the beginning of its working phase.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from antiphon.service import Service
from antiphon.simulator.client import Client, payload
from antiphon.simulator.hostile import usurping
from antiphon.simulator.incidents import (
    AnyIncident,
    Babble,
    Crash,
    Crowd,
    Cut,
    Exodus,
    Flap,
    Flood,
    Hangup,
    Heal,
    OneWay,
    Partition,
    Pause,
    Rekey,
    Restart,
    Step,
    Stop,
    Strangers,
    Trigger,
    Trouble,
    Twin,
    Usurp,
    Visit,
)
from antiphon.simulator.key_files import settle_keys
from antiphon.simulator.network import Pair
from antiphon.simulator.plan import Plan
from antiphon.simulator.workload import Actor, Names
from antiphon.simulator.world import World
from antiphon.trace import Event, Record

FOR_EVER_US = 1 << 62
LAST_SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)


class Stage:
    """Where a plan is played."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(
            plan.config(), plan.daemons(), plan.paths(), plan.chance, plan.edges, is_sealed=plan.is_sealed
        )
        self.happened: Counter[str] = Counter()
        """How many incidents of each kind took effect."""
        self.is_over = False
        """Whether everything was restored: no incident happens any more."""
        self.begins_us = 0
        self.begins_position = 0
        """Where the working phase begins in the trace."""
        self._babbling = self.world.chance("babble")
        self._cues: list[tuple[Trigger, Counter[str]]] = [(trigger, Counter()) for trigger in plan.triggers]
        """Triggers that wait, with what they have seen."""
        self._healed = 0
        self._visits = 0
        self._number = {host.name: host.number for host in self.world.machines}

    def begin(self) -> None:
        """The working phase begins: clients come, incidents are planned."""
        world = self.world
        plan = self.plan
        self.begins_us = world.now_us
        self.begins_position = len(world.records)
        names: Names = {}
        for client in plan.clients:
            number = self._number[client.daemon]
            until_us = self.begins_us + plan.working_us
            actor = Actor(world, number, client.name, client.habits, until_us, names)
            actor.start(self.begins_us, plan.working_us // 4)
        for incident in plan.incidents:
            world.schedule(self.begins_us + incident.at_us, self._happen, incident)
        if plan.asks_time_us:
            world.schedule(self.begins_us, self._ask_time)
        if plan.steady is not None:
            world.schedule(self.begins_us + plan.steady.from_us, world.note_steady, plan.steady)
        world.when_entered = self._cue

    @property
    def ends_us(self) -> int:
        """When the last incident is over, as far as their times are known."""
        plan = self.plan
        ends = [incident.at_us + getattr(incident, "for_us", 0) for incident in plan.incidents]
        return self.begins_us + max([plan.working_us, *ends])

    def restore(self) -> list[tuple[int, ...]]:
        """Everything is healed, except for the damage that stays; the parts that can then form."""
        world = self.world
        world.twins.end_all()
        if world.strangers is not None:
            settle_keys(world.hosts)
        for host in world.hosts:
            host.resume()
            if host.name in self.plan.dead or host.is_leaving:
                host.crash()
            if host.name not in self.plan.dead:
                host.start()
        for edge in world.edges:
            edge.resume()
            if edge.name in self.plan.dead:
                edge.crash()
            else:
                edge.start()
        self._heal()
        for incident in self.plan.damage:
            self._happen(incident)
        self.is_over = True
        world.when_entered = None
        return world.network.components(world.alive)

    # Cues -------------------------------------------------------------------------------------------------

    def _cue(self, number: int, state: str) -> None:
        """A daemon enters a state: some triggers may have waited for it."""
        world = self.world
        for cue in self._cues[:]:
            trigger, seen = cue
            if trigger.state != state or self.begins_us + trigger.incident.at_us > world.now_us:
                continue
            if trigger.daemon and self._number[trigger.daemon] != number:
                continue
            seen[state] += 1
            if seen[state] == trigger.time:
                self._cues.remove(cue)
                world.schedule(world.now_us + trigger.after_us, self._happen, trigger.incident)

    # Incidents --------------------------------------------------------------------------------------------

    def _happen(self, incident: AnyIncident) -> None:
        if self.is_over:
            return
        self.happened[type(incident).__name__.lower()] += 1
        match incident:
            case Crash():
                self.world.machines[self._number[incident.daemon]].crash()
            case Restart():
                self.world.machines[self._number[incident.daemon]].start(incident.step_us, incident.uptime_us)
            case Stop():
                self._stop(incident)
            case Pause():
                self.world.machines[self._number[incident.daemon]].pause(incident.for_us or FOR_EVER_US)
            case Step():
                self._step(incident)
            case Twin():
                self._twin(incident)
            case Partition():
                self._partition(incident)
            case Heal():
                self._heal()
            case Cut():
                self._block(self._both_ways(incident.daemons), incident.for_us)
            case OneWay():
                back = (self._number[incident.receiver], self._number[incident.sender])
                self._block([back], incident.for_us)
            case Flap():
                self._flap(incident, incident.times)
            case Hangup():
                one, other = (self._number[name] for name in incident.daemons)
                self.world.hang_up(one, other, incident.is_told)
            case Trouble():
                self._trouble(incident)
            case Usurp():
                self._usurp(incident, incident.times)
            case Babble():
                self._babble(incident, incident.times)
            case Strangers():
                self._strike(incident, self.world.now_us + (incident.for_us or FOR_EVER_US))
            case Rekey():
                self.world.hosts[self._number[incident.daemon]].key_files.change(incident.step)
            case Flood():
                self._flood(incident)
            case Visit():
                self._visit(incident)
            case Crowd():
                self._crowd(incident)
            case Exodus():
                number = self._number[incident.daemon]
                for client in list(self.world.machines[number].clients.values()):
                    self._end_visit(number, client, False)

    def _stop(self, incident: Stop) -> None:
        host = self.world.hosts[self._number[incident.daemon]]

        def come_back() -> None:
            if not self.is_over:
                host.start()

        def ended() -> None:
            if incident.back_us is not None:
                # No process is started twice in one microsecond: the stamps of its lives would be the same.
                back_us = max(self.world.now_us + incident.back_us, host.started_us + 1)
                self.world.schedule(back_us, come_back)

        host.stop(self.plan.stop_bound_us, ended)

    def _step(self, incident: Step) -> None:
        host = self.world.hosts[self._number[incident.daemon]]
        host.step(incident.step_us)
        if incident.for_us:
            self.world.schedule(self.world.now_us + incident.for_us, host.step, -incident.step_us)

    def _ask_time(self) -> None:
        """Ask every daemon for the time, again and again until the faults are over."""
        if not self.is_over:
            for host in self.world.hosts:
                host.tell_time()
            self.world.schedule(self.world.now_us + self.plan.asks_time_us, self._ask_time)

    def _twin(self, incident: Twin) -> None:
        number = self._number[incident.daemon]
        twins = self.world.twins
        reached_by = frozenset(self._number[name] for name in incident.reached_by)
        if twins.begin(number, reached_by, incident.takes_over) and incident.for_us:
            self.world.schedule(self.world.now_us + incident.for_us, twins.end, number)

    def _both_ways(self, daemons: tuple[str, str]) -> list[Pair]:
        one, other = (self._number[name] for name in daemons)
        return [(one, other), (other, one)]

    def _partition(self, incident: Partition) -> None:
        network = self.world.network
        network.split([tuple(self._number[name] for name in part) for part in incident.parts])
        if incident.for_us:
            serial = network.splits
            self._later(incident.for_us, lambda: network.unite() if network.splits == serial else None)

    def _block(self, pairs: list[Pair], for_us: int) -> None:
        for pair in pairs:
            self.world.network.block(pair)
        if for_us:
            self._later(for_us, partial(self._unblock, pairs))

    def _unblock(self, pairs: list[Pair]) -> None:
        for pair in pairs:
            self.world.network.unblock(pair)

    def _flap(self, incident: Flap, times: int) -> None:
        if self.is_over or not times:
            return
        self._block(self._both_ways(incident.daemons), incident.down_us)
        self._later(incident.down_us + incident.up_us, partial(self._flap, incident, times - 1))

    def _trouble(self, incident: Trouble) -> None:
        paths = self.world.network.paths
        if incident.daemons:
            numbers = {self._number[name] for name in incident.daemons}
            pairs = [pair for pair in paths if numbers.issuperset(pair)]
            if incident.is_oneway:
                first = self._number[incident.daemons[0]]
                pairs = [pair for pair in pairs if pair[0] == first]
        else:
            pairs = list(paths)
        for pair in pairs:
            paths[pair].suffer(incident.fault)
        if incident.for_us:
            self._later(incident.for_us, partial(self._end_trouble, incident, pairs))

    def _end_trouble(self, incident: Trouble, pairs: list[Pair]) -> None:
        for pair in pairs:
            self.world.network.paths[pair].recover(incident.fault)

    def _usurp(self, incident: Usurp, times: int) -> None:
        if self.is_over or not times:
            return
        sender, receiver = self._number[incident.sender], self._number[incident.receiver]
        data = usurping(self.world.node(receiver), sender)
        if data is not None:
            self._forged(incident.receiver, sender, receiver, data)
        self._later(incident.every_us, partial(self._usurp, incident, times - 1))

    def _forged(self, name: str, sender: int, receiver: int, data: bytes) -> None:
        """A packet that its sender did not send has come; where packets are sealed, it must not count."""
        world = self.world
        if world.strangers is not None:
            world.strangers.usurp(world.hosts[receiver], sender, data)
            return
        world.records.append(Record(len(world.records), world.now_us, Event.FORGED, name))
        world.hosts[receiver].arrive(world.network.paths[sender, receiver], data, len(data))

    def _babble(self, incident: Babble, times: int) -> None:
        world = self.world
        if self.is_over or not times:
            return
        sender, receiver = self._number[incident.sender], self._number[incident.receiver]
        world.babble.send(world.hosts[sender], receiver, self._babbling)
        world.schedule(world.now_us + incident.every_us, self._babble, incident, times - 1)

    def _strike(self, incident: Strangers, until_us: int) -> None:
        world = self.world
        if self.is_over or world.strangers is None or world.now_us >= until_us:
            return
        world.strangers.strike()
        world.schedule(world.now_us + incident.every_us, self._strike, incident, until_us)

    def _heal(self) -> None:
        self._healed += 1
        self.world.network.heal()

    def _later(self, after_us: int, action: Callable[[], None]) -> None:
        """Do something later, unless all is healed until then."""
        healed = self._healed

        def act() -> None:
            if self._healed == healed:
                action()

        self.world.schedule(self.world.now_us + after_us, act)

    # Clients ----------------------------------------------------------------------------------------------

    def _flood(self, incident: Flood) -> None:
        world = self.world
        number = self._number[incident.daemon]
        clients = list(world.machines[number].clients.values())
        if not clients:
            return
        random = world.chance(f"flood {incident.at_us} {incident.daemon}")
        client = random.choice(clients)
        for _ in range(incident.bundles):
            bodies = [
                payload(random, random.randint(incident.size_min_bytes, incident.size_max_bytes))
                for _ in range(incident.messages)
            ]
            client.send((random.choice(incident.groups),), random.choice(incident.services), bodies)
        world.settle(number)

    def _visit(self, incident: Visit) -> None:
        world = self.world
        number = self._number[incident.daemon]
        self._visits += 1
        client = world.connect(number, f"v{self._visits}")
        if client is None:
            return
        client.join(incident.group)
        client.send((incident.group,), incident.service, [b"hello"])
        world.settle(number)
        if incident.for_us:
            world.schedule(world.now_us + incident.for_us, self._end_visit, number, client, incident.graceful)

    def _crowd(self, incident: Crowd) -> None:
        world = self.world
        number = self._number[incident.daemon]
        here: list[tuple[Client, str]] = []
        for place in range(incident.count):
            self._visits += 1
            client = world.connect(number, f"v{self._visits}", views=incident.views)
            if client is not None:
                group = incident.groups[place % len(incident.groups)]
                client.join(group)
                here.append((client, group))
        world.settle(number)
        if incident.for_us:
            world.schedule(world.now_us + incident.for_us, self._end_crowd, incident, number, here)

    def _end_crowd(self, incident: Crowd, number: int, here: list[tuple[Client, str]]) -> None:
        for client, group in here:
            if not incident.leaves:
                self._end_visit(number, client, incident.graceful)
            elif client.open:
                client.leave(group)
        if incident.leaves:
            self.world.settle(number)

    def _end_visit(self, number: int, client: Client, graceful: bool) -> None:
        if client.open:
            self.world.disconnect(number, client, graceful)

    def last_words(self) -> None:
        """Every client sends a last message of each service to each of its groups."""
        world = self.world
        for host in world.machines:
            for client in list(host.clients.values()):
                for group in sorted(client.wanted):
                    for service in LAST_SERVICES:
                        client.send((group,), service, [b"goodbye"])
            host.settle()
