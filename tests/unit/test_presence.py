"""Which other daemons count as present: evidence, what keeps a daemon out, and who exchanges stations."""

import pytest
from host_notes import Notes
from small_worlds import world_config

from antiphon.core.membership.presence import Presence
from antiphon.core.membership.standing import Standing
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Beat, Station, mask_bytes

NOW_US = 50_000_000
ME, MATE, FAR, FAR_MATE = range(4)
"""Two sites of two daemons each."""


class Daemon:
    """Daemon 0, without a view, in a round that has just begun."""

    def __init__(self) -> None:
        alone = DaemonView(1_024, (ME,), (100,), ())
        self.standing = Standing(ME, Notes(), alone, NOW_US)
        config = world_config(2, daemons=2, membership="lan")
        self.presence = Presence(config, ME, 100, self.standing, NOW_US)

    def hear(self, sender: int, *, echo_us: int = NOW_US, representative: int | None = None) -> None:
        beat = Beat(
            clock_us=NOW_US,
            echo_us=echo_us,
            question=False,
            state=4,
            engaged=0,
            promised=0,
            lts=0,
            representative=sender if representative is None else representative,
        )
        self.presence.peers[sender].is_next_full(self.presence.timing, NOW_US)
        self.presence.peers[sender].hear(100 + sender, beat, NOW_US, self.presence.timing)

    def learn(self, daemon: int, *live: int) -> None:
        """A station of another daemon, which works with these."""
        self.presence.gathering.learn(Station(daemon, 100 + daemon, 1, 0, 0, mask_bytes(live)), NOW_US)

    def installs(self, view: DaemonView) -> None:
        self.standing.forming = view
        self.standing.install(NOW_US)

    @property
    def live(self) -> set[int]:
        return {number for number in self.presence.peers if self.presence.is_live(number, NOW_US)}


@pytest.mark.parametrize(("echo_us", "is_live"), [(NOW_US, True), (NOW_US - 1, False), (0, False)])
def test_evidence_is_an_echo_of_this_round(echo_us: int, is_live: bool) -> None:
    daemon = Daemon()
    daemon.hear(FAR, echo_us=echo_us)
    assert daemon.live == ({FAR} if is_live else set())


def test_a_daemon_that_is_left_out_or_leaves_is_not_live() -> None:
    daemon = Daemon()
    daemon.hear(MATE)
    daemon.hear(FAR)
    daemon.hear(FAR_MATE)
    daemon.presence.exclusions.exclude(MATE, 100 + MATE, "", NOW_US)
    daemon.presence.leaving.adopt(Station(FAR, 100 + FAR, 1, 0, 0, b"", leaving=True), NOW_US)
    assert daemon.live == {FAR_MATE}


def test_in_a_view_its_links_are_the_evidence() -> None:
    daemon = Daemon()
    daemon.installs(DaemonView(2_048, (ME, MATE, FAR), (100, 101, 102), ((ME, FAR), (MATE, FAR))))
    assert daemon.live == {FAR}
    assert [peer.number for peer in daemon.presence.absent()] == [FAR_MATE]


def test_a_member_to_which_a_link_is_missing_is_absent() -> None:
    daemon = Daemon()
    daemon.installs(DaemonView(2_048, (ME, MATE, FAR), (100, 101, 102), ((ME, MATE), (MATE, FAR))))
    daemon.presence.find_missed(NOW_US)
    assert daemon.presence.missed == {FAR}
    assert [peer.number for peer in daemon.presence.absent()] == [FAR, FAR_MATE]


def test_links_are_missing_when_a_member_that_leaves_is_gone() -> None:
    """The far site is reached over its representative, until that one leaves."""
    daemon = Daemon()
    links = ((ME, MATE), (ME, FAR), (FAR, FAR_MATE))
    daemon.installs(DaemonView(2_048, (ME, MATE, FAR, FAR_MATE), (100, 101, 102, 103), links))
    daemon.presence.find_missed(NOW_US)
    assert daemon.presence.missed == set()
    daemon.presence.leaving.adopt(Station(FAR, 100 + FAR, 1, 0, 0, b"", leaving=True), NOW_US)
    daemon.presence.find_missed(NOW_US)
    assert daemon.presence.missed == {FAR_MATE}


def exchanging(daemon: Daemon) -> set[int]:
    presence = daemon.presence
    return {number for number, peer in presence.peers.items() if presence.exchanges_stations_with(peer)}


def test_a_representative_exchanges_with_its_own_and_with_representatives() -> None:
    daemon = Daemon()
    daemon.hear(MATE, representative=ME)
    daemon.hear(FAR)
    daemon.hear(FAR_MATE, representative=FAR)
    assert exchanging(daemon) == {MATE, FAR}


def test_a_representative_that_is_not_heard_is_gone_around() -> None:
    daemon = Daemon()
    daemon.hear(FAR_MATE, representative=FAR)
    assert FAR_MATE in exchanging(daemon)


def test_a_represented_daemon_exchanges_with_its_representative() -> None:
    daemon = Daemon()
    daemon.standing.representative = MATE
    daemon.hear(FAR)
    daemon.learn(MATE, ME, FAR)
    assert exchanging(daemon) & {MATE, FAR} == {MATE}


def test_a_daemon_that_the_representative_does_not_reach_is_gone_to_directly() -> None:
    daemon = Daemon()
    daemon.standing.representative = MATE
    daemon.hear(FAR)
    daemon.learn(MATE, ME)
    assert FAR in exchanging(daemon)
