"""What counts as a loss, and when a daemon follows others who keep one out."""

from small_worlds import world_config

from antiphon import limits
from antiphon.config.timing import PRESETS
from antiphon.core.membership.flapping import Flapping
from antiphon.core.membership.peers import Peer
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Station

LAN = PRESETS["lan"]
NOW_US = 50_000_000
EVERYBODY = tuple(range(8))
INCARNATIONS = tuple(100 + daemon for daemon in EVERYBODY)
VIEW = DaemonView(7, EVERYBODY, INCARNATIONS, ((0, 1), (0, 2), (0, 4), (0, 6)))


class Daemon:
    """Daemon 0 of eight, two at each of four sites; it has links to 1, 2, 4 and 6."""

    def __init__(self) -> None:
        config = world_config(4, daemons=2, mesh=True, membership="lan")
        self.peers = {number: Peer(number, 0) for number in EVERYBODY[1:]}
        for number, peer in self.peers.items():
            peer.incarnation = 100 + number
        self.flapping = Flapping(config, 0, self.peers)

    def lose(self, *fading: int, times: int = 1) -> None:
        for _ in range(times):
            self.flapping.fading = frozenset(fading)
            self.flapping.lost(LAN, NOW_US, is_forming=False)

    def install(self, *members: int, stopped_us: int = NOW_US) -> None:
        view = DaemonView(8, members, tuple(100 + member for member in members), ())
        self.flapping.installed(VIEW, view, (), stopped_us, LAN, NOW_US)

    def hear(self, *tellers: tuple[int, int], stopped_us: int | None = NOW_US - 1) -> set[int]:
        """(who tells, of whom): whom it keeps out then."""
        stations = [
            Station(teller, 100 + teller, 1, 0, 0, b"", (), ((daemon, 100 + daemon, 5_000_000),))
            for teller, daemon in tellers
        ]
        self.flapping.follow(stations, VIEW, stopped_us, NOW_US)
        return {number for number, peer in self.peers.items() if not peer.damping.is_trusted(NOW_US)}


def losses(daemon: Daemon) -> dict[int, int]:
    return {number: peer.damping.losses for number, peer in daemon.peers.items() if peer.damping.losses}


def test_all_who_were_fading_are_lost_together() -> None:
    daemon = Daemon()
    daemon.lose(2, 4)
    assert losses(daemon) == {2: 1, 4: 1}
    daemon.lose()
    assert losses(daemon) == {2: 1, 4: 1}


def test_who_is_not_in_the_next_view_is_lost_even_without_a_link() -> None:
    """So all who go on together count the same losses."""
    daemon = Daemon()
    daemon.lose(6)
    daemon.install(0, 1, 2, 3, 4, 5)
    assert losses(daemon) == {6: 1, 7: 1}, "6 has been counted before"


def test_another_process_is_not_lost() -> None:
    daemon = Daemon()
    daemon.peers[7].incarnation = 300
    daemon.install(0, 1, 2, 3, 4, 5, 6)
    assert losses(daemon) == {}


def test_it_tells_whom_it_keeps_out_by_its_own_experience() -> None:
    daemon = Daemon()
    daemon.lose(2, times=2)
    daemon.peers[6].damping.follow(9_000_000, NOW_US)
    assert daemon.flapping.told(NOW_US) == ((2, 102, 2_000_000),)


def test_it_tells_of_a_few() -> None:
    config = world_config(limits.DAMPED_TOLD_MAX + 2, mesh=True)
    peers = {number: Peer(number, 0) for number in range(1, limits.DAMPED_TOLD_MAX + 2)}
    flapping = Flapping(config, 0, peers)
    for _ in range(2):
        flapping.fading = frozenset(peers)
        flapping.lost(LAN, NOW_US, is_forming=False)
    assert len(flapping.told(NOW_US)) == limits.DAMPED_TOLD_MAX


def test_one_teller_is_not_enough() -> None:
    """Then it is a pair that flaps, and there is a way around it."""
    assert Daemon().hear((2, 7)) == set()


def test_two_tellers_are() -> None:
    assert Daemon().hear((2, 7), (4, 7)) == {7}


def test_with_ones_own_experience_one_is_enough() -> None:
    daemon = Daemon()
    daemon.lose(6, times=2)
    assert daemon.hear((2, 6)) == {6}
    assert daemon.peers[6].damping.remaining_us(NOW_US) == 5_000_000, "the longer time"


def test_a_link_that_has_held_is_better_evidence() -> None:
    assert Daemon().hear((2, 6), (4, 6)) == set()
    daemon = Daemon()
    daemon.lose(6)
    assert daemon.hear((2, 6), (4, 6)) == {6}


def test_those_who_are_kept_out_are_not_believed() -> None:
    """Otherwise two halves whose path flaps would make each other fall to pieces."""
    daemon = Daemon()
    daemon.lose(2, 4, times=2)
    assert daemon.hear((2, 7), (4, 7)) == {2, 4}


def test_members_of_a_view_that_works_are_left_alone() -> None:
    assert Daemon().hear((2, 7), (4, 7), stopped_us=None) == set()


def test_words_about_another_process_do_not_count() -> None:
    daemon = Daemon()
    daemon.peers[7].incarnation = 300
    assert daemon.hear((2, 7), (4, 7)) == set()


def test_two_daemons_of_a_site_stand_for_the_path_to_it() -> None:
    """Told by our own site: each daemon of the other one in turn would cost two views otherwise."""
    daemon = Daemon()
    daemon.lose(6, times=2)
    assert daemon.hear((1, 7)) == {6, 7}
    daemon = Daemon()
    daemon.lose(6)
    assert daemon.hear((1, 6), (1, 7)) == {6, 7}


def test_our_own_site_is_no_path() -> None:
    assert Daemon().hear((1, 2)) == set()
