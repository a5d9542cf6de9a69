"""What is known of other daemons while a view is gathered, and the view that follows from it.

Follows: thesis 6.1.8 (JOIN messages carry members and representatives until all daemons know of each other).
Deviation: what is passed on is each daemon's own station, which lists the daemons that it works with, so that
daemons which only reach one another through a third are found, and pairs that work in one direction only are
not relied upon.
Checked by: tests/unit/test_gathering.py, tests/paper/test_daemon_gathering.py.
"""

from collections.abc import Callable, Iterator

from antiphon.core.membership.patience import LONG_STATIONS_PER_BEAT, STATIONS_PER_BEAT
from antiphon.wire.membership import Station

Pair = tuple[int, int]


class Gathering:
    """The stations of one round."""

    def __init__(self, may_talk: Callable[[int, int], bool] = lambda one, other: True) -> None:
        """`may_talk` tells whether the configuration lets two daemons exchange packets."""
        self._may_talk = may_talk
        self.stations: dict[int, Station] = {}
        self._refreshed_us: dict[int, int] = {}

    def clear(self) -> None:
        self.stations.clear()
        self._refreshed_us.clear()

    def learn(self, station: Station, now_us: int) -> bool:
        """Take a daemon's station; whether it has anything new."""
        known = self.stations.get(station.daemon)
        if known is not None and known.serial >= station.serial:
            return False
        self.stations[station.daemon] = station
        self._refreshed_us[station.daemon] = now_us
        return known is None or _essence(known) != _essence(station)

    def expire(self, before_us: int) -> bool:
        """Forget the stations that were not renewed since then; whether there were any."""
        old = [daemon for daemon, refreshed_us in self._refreshed_us.items() if refreshed_us < before_us]
        for daemon in old:
            del self.stations[daemon], self._refreshed_us[daemon]
        return bool(old)

    def component(self, me: int, without: frozenset[int] = frozenset()) -> tuple[frozenset[int], set[Pair]]:
        """The daemons that `me` reaches over pairs which both ends vouch for, and these pairs; the daemons
        `without` are left out."""
        masks = {
            daemon: int.from_bytes(station.live, "little")
            for daemon, station in self.stations.items()
            if daemon not in without
        }
        reached = {me}
        edge = [me]
        pairs: set[Pair] = set()
        while edge:
            one = edge.pop()
            for other in _members(masks.get(one, 0)):
                pair = (min(one, other), max(one, other))
                if other == one or pair in pairs:
                    continue
                if not (masks.get(other, 0) >> one & 1 and self._may_talk(one, other)):
                    continue
                pairs.add(pair)
                if other not in reached:
                    reached.add(other)
                    edge.append(other)
        return frozenset(reached), pairs

    def parts(self) -> list[tuple[Station, ...]]:
        """All stations, as many together as fit a beat."""
        stations = tuple(self.stations.values())
        is_long = any(station.left_out or station.damped for station in stations)
        most = LONG_STATIONS_PER_BEAT if is_long else STATIONS_PER_BEAT
        return [stations[first : first + most] for first in range(0, len(stations), most)]

    def vouches(self, daemon: int, other: int) -> bool:
        """Whether the station of `daemon` lists `other` as one that it works with."""
        station = self.stations.get(daemon)
        return station is not None and bool(int.from_bytes(station.live, "little") >> other & 1)

    def is_whole(self, members: frozenset[int], leavers: frozenset[int] = frozenset()) -> bool:
        """Whether every view that still works for one of `members` has all of its members there, or
        leaving."""
        counts: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for member in members:
            station = self.stations[member]
            if station.view:
                counts[station.view] = counts.get(station.view, 0) + 1
                sizes[station.view] = station.company
        for leaver in leavers - members:
            view = self.stations[leaver].view
            if view in counts:
                counts[view] += 1
        return all(count >= sizes[view] for view, count in counts.items())


def _members(mask: int) -> Iterator[int]:
    """The daemons in a mask, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _essence(station: Station) -> tuple[object, ...]:
    """All that matters of a station; its serial and the time that exclusions still last always change."""
    left_out = tuple((daemon, incarnation) for daemon, incarnation, _ in station.left_out)
    damped = tuple((daemon, incarnation) for daemon, incarnation, _ in station.damped)
    told = (left_out, damped, station.leaving)
    return station.incarnation, station.view, station.company, station.live, told
