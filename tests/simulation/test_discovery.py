"""Discovery in virtual time: many daemons that find each other, come and go, and lose beacons."""

from collections.abc import Callable

import pytest
from lan import WAITS, Host, Lan

from antiphon.core.discovery.discovery import Discovery
from antiphon.core.discovery.roster import Roster
from antiphon.wire.discovery import State

SEEDS = range(10)


def steady(seed: int, make: Callable[..., Discovery] = Discovery) -> Lan:
    """Daemons come and go on a LAN that loses beacons and is in one part."""
    lan = Lan(seed, loss=0.1, make=make)
    chance = lan.chance
    for _ in range(chance.randrange(2, 7)):
        lan.start(wish=chance.choice(("oslo", "lima")))
    lan.run(8)
    for _ in range(10):
        _change(lan)
        lan.run(chance.uniform(0.2, 12))
    lan.loss = 0.0
    lan.run(15)
    return lan


def parted(seed: int, make: Callable[..., Discovery] = Discovery) -> Lan:
    """Daemons come and go while the LAN falls into parts and becomes one again."""
    lan = Lan(seed, loss=0.15, make=make)
    chance = lan.chance
    for _ in range(chance.randrange(2, 9)):
        lan.start(wish=chance.choice(("oslo", "lima")))
        if chance.random() < 0.3:
            lan.split(3)
    for _ in range(8):
        lan.run(chance.uniform(0.2, 20))
        if chance.random() < 0.5:
            lan.split(chance.randrange(1, 4))
        _change(lan)
    lan.heal()
    lan.loss = 0.0
    lan.run(15)
    return lan


def _change(lan: Lan) -> None:
    chance, alive = lan.chance, lan.alive()
    what = chance.random()
    if what < 0.45 or len(alive) < 2:
        lan.start(wish=chance.choice(("oslo", "lima")))
    elif what < 0.6:
        lan.kill(chance.choice(alive))
    elif what < 0.75:
        lan.leave(chance.choice(alive))
    else:
        _restart(lan, chance.choice(alive))


def _restart(lan: Lan, host: Host) -> None:
    lan.kill(host)
    lan.start(wish=host.machine._wish, host=host.machine.host)
    lan.hosts[-1].part = host.part


@pytest.mark.parametrize("seed", SEEDS)
def test_daemons_that_come_and_go_have_numbers_of_their_own(seed: int) -> None:
    assert steady(seed).judge() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_that_meet_again_agree(seed: int) -> None:
    assert parted(seed).judge() == []


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_given_back(seed: int) -> None:
    """After the stated time without its bearer, nobody keeps a number any more."""
    lan = steady(seed)
    lan.run(WAITS.hold_us / 1e6 + 30)
    assert lan.judge() == []
    for host in lan.alive():
        assert len(host.machine.roster.entries) == len(lan.alive())


def test_many_that_start_at_once_soon_have_numbers() -> None:
    lan = Lan(1, loss=0.02, delay_us=5_000)
    for _ in range(40):
        lan.start()
    lan.run(8)
    assert lan.judge() == []
    assert {host.machine.name for host in lan.alive()} == {"host", *(f"host-{n}" for n in range(2, 41))}


def test_a_daemon_that_is_restarted_gets_its_number_and_name_back() -> None:
    lan = Lan(3, delay_us=2_000)
    hosts = [lan.start(wish=wish) for wish in ("oslo", "lima", "perth")]
    lan.run(4)
    before = hosts[1].machine.number, hosts[1].machine.name
    _restart(lan, hosts[1])
    lan.run(7)
    assert (lan.hosts[-1].machine.number, lan.hosts[-1].machine.name) == before
    assert lan.judge() == []


def test_one_that_has_left_is_back_at_once() -> None:
    lan = Lan(3, delay_us=2_000)
    hosts = [lan.start(wish=wish) for wish in ("oslo", "lima")]
    lan.run(4)
    lan.leave(hosts[1])
    lan.start(wish="lima", host=hosts[1].machine.host)
    lan.run(2.5)
    assert (lan.hosts[-1].machine.state, lan.hosts[-1].machine.name) == (State.BEARS, "lima")


@pytest.mark.parametrize("seed", range(4))
def test_two_names_with_one_hash_do_not_mix(seed: int) -> None:
    lan = Lan(seed, loss=0.1)
    for place in range(8):
        lan.start(cluster=("tea", "coffee")[place % 2])
    lan.run(15)
    lan.loss = 0
    lan.run(8)
    assert lan.judge() == []
    for cluster in ("tea", "coffee"):
        assert sorted(host.machine.number or 0 for host in lan.alive(cluster)) == [0, 1, 2, 3]
        assert all(host.machine.counters["discovery: of another cluster"] for host in lan.alive(cluster))


@pytest.mark.long
def test_the_sixty_fifth_waits_until_a_number_is_free() -> None:
    lan = Lan(5, delay_us=2_000)
    for _ in range(65):
        lan.start()
    lan.run(12)
    late = [host for host in lan.alive() if host.machine.state is not State.BEARS]
    assert [host.machine.waits_for for host in late] == ["all 64 numbers are taken"]
    lan.kill(next(host for host in lan.alive() if host not in late))
    lan.run(WAITS.hold_us / 1e6 + 5)
    assert late[0].machine.state is State.BEARS


def test_a_beacon_of_another_host_is_refused() -> None:
    lan = Lan(6, delay_us=2_000)
    first, second = lan.start(), lan.start()
    lan.run(3)
    beacon = first.machine._beacon(lan.now_us, asks=False)
    second.machine.receive(beacon, ("10.0.0.9", 1), lan.now_us)
    assert second.machine.counters["discovery: from a host that is not its sender's"] == 1


# Planted bugs ---------------------------------------------------------------------------------------------


class YoungerKeeps(Roster):
    """Of two that bear one number, each believes that the younger one keeps it, unless it is itself older."""

    def outranks(self, one, other, now_us):  # type: ignore[no-untyped-def]
        return one.age > other.age if one.process % 2 else super().outranks(one, other, now_us)


class ForgetsTheAbsent(Roster):
    """The number of an absent daemon is given again at once."""

    def expire(self, now_us):  # type: ignore[no-untyped-def]
        for entry in list(self.entries.values()):
            if not self.is_alive(entry, now_us):
                self._remove(entry.number)


class NeverGivesBack(Roster):
    """Absent daemons keep their numbers for ever."""

    def expire(self, now_us):  # type: ignore[no-untyped-def]
        pass


def with_roster(kind: type[Roster]) -> Callable[..., Discovery]:
    def make(*args, **kwargs):  # type: ignore[no-untyped-def]
        machine = Discovery(*args, **kwargs)
        machine.roster = kind(machine.waits)
        return machine

    return make


class KeepsItsNumber(Discovery):
    """Does not give up what belongs to another one."""

    def _check_right(self, now_us):  # type: ignore[no-untyped-def]
        pass


class TellsNothing(Discovery):
    """Does not tell of absent daemons."""

    def _tell(self, now_us):  # type: ignore[no-untyped-def]
        return ()


class TakesCopies(Discovery):
    """Believes beacons that were overtaken by later ones."""

    def _note(self, beacon, now_us, by_multicast):  # type: ignore[no-untyped-def]
        known = self._heard.get(beacon.process)
        if known is not None and not known.has_left:
            known.serial = -1
        return super()._note(beacon, now_us, by_multicast)


class MixesNames(Discovery):
    """Takes beacons of any cluster for those of its own."""

    def receive(self, beacon, origin, now_us, *, by_multicast=True):  # type: ignore[no-untyped-def]
        from msgspec.structs import replace

        super().receive(replace(beacon, cluster=self.cluster), origin, now_us, by_multicast=by_multicast)


def gives_back(seed: int, make: Callable[..., Discovery]) -> Lan:
    lan = steady(seed, make)
    lan.run(WAITS.hold_us / 1e6 + 30)
    for host in lan.alive():
        if len(host.machine.roster.entries) != len(lan.alive()):
            lan.faults.append("a number was not given back")
    return lan


def two_names(seed: int, make: Callable[..., Discovery]) -> Lan:
    lan = Lan(seed, make=make)
    for place in range(4):
        lan.start(cluster=("tea", "coffee")[place % 2])
    lan.run(10)
    return lan


PLANTED = {
    "younger keeps": (parted, with_roster(YoungerKeeps)),
    "forgets the absent": (steady, with_roster(ForgetsTheAbsent)),
    "never gives back": (gives_back, with_roster(NeverGivesBack)),
    "keeps its number": (parted, KeepsItsNumber),
    "tells nothing": (steady, TellsNothing),
    "mixes names": (two_names, MixesNames),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str) -> None:
    """Each of these breaks a promise in one of the runs above."""
    story, make = PLANTED[bug]
    assert any(story(seed, make).judge() for seed in range(10))
