"""Daemons that announce that they leave: a planned stop.

The thesis has crashes alone; its daemons find out by silence that a process was stopped. Here a daemon that
is told to stop first ends its sessions in the agreed order (`core.departure`), then announces in its station
that it leaves, and goes on with its view: it forwards, acknowledges and passes on the stations of others. The
others gather as for a merge, while their view works, try the paths that the view without it needs, and
propose that view. The daemon is done when no neighbour works in the old view any more. Nothing is found out
by silence, and since no group has members at the daemon, clients of the others see no more than the
departures.

An announcement counts for one process of a daemon: the next one is taken in at once. It is taken back by a
newer station of the same process without it, and lapses after `limits.LEAVING_LASTS_US`, so that one that was
made up in a daemon's name cannot keep it out.

This is what one daemon knows; what follows is done where it is due: `search` tries the paths, `decision` and
`proposals` form views without the leaver, `formation` releases it, `loss` tells it from a member that failed,
and `daemons` has the daemon's own leave.
Checked by: tests/unit/test_leaving.py, tests/paper/test_planned_stop.py.
"""

from collections.abc import Iterable, Mapping

from antiphon import limits
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Station


class Leaving:
    """The daemons that leave, as one daemon knows it; and how far its own leave has come."""

    def __init__(self, me: int) -> None:
        self.is_announced = False
        """Whether this daemon leaves, and has announced it."""
        self._me = me
        self._announced: dict[int, tuple[int, int]] = {}  # daemon: its incarnation, and when that was heard
        self._gone_on: set[int] = set()  # neighbours that no longer work in the view that we leave

    def adopt(self, station: Station, now_us: int) -> bool:
        """Take a daemon's newest station; whether it is news that it leaves."""
        daemon, incarnation = station.daemon, station.incarnation
        was_leaving = self.is_leaving(daemon, incarnation, now_us)
        if station.leaving:
            self._announced[daemon] = (incarnation, now_us)
        elif was_leaving:
            del self._announced[daemon]
        return station.leaving and not was_leaving

    def is_leaving(self, daemon: int, incarnation: int, now_us: int) -> bool:
        """Whether this process of a daemon has announced lately that it leaves."""
        leaver, since_us = self._announced.get(daemon, (0, 0))
        is_recent = daemon in self._announced and now_us - since_us < limits.LEAVING_LASTS_US
        return is_recent and leaver == incarnation

    def has_left(self, daemon: int, incarnation: int) -> bool:
        """Whether this process, which was the newest of its daemon, has ever announced that it leaves."""
        return daemon in self._announced and self._announced[daemon][0] == incarnation

    def among(self, stations: Mapping[int, Station], now_us: int) -> frozenset[int]:
        """The other daemons among these that leave."""
        return frozenset(
            daemon
            for daemon, station in stations.items()
            if daemon != self._me and self.is_leaving(daemon, station.incarnation, now_us)
        )

    def of(self, view: DaemonView, now_us: int) -> frozenset[int]:
        """The other members of a view that leave."""
        return frozenset(
            daemon
            for daemon in self._announced
            if daemon != self._me and self.is_leaving(daemon, view.incarnation(daemon) or 0, now_us)
        )

    def newest(self, stations: Iterable[Station], view: DaemonView) -> int | None:
        """The first member of a view that leaves by these stations."""
        members = (station.daemon for station in stations if station.leaving)
        return next((daemon for daemon in members if daemon in view.members), None)

    # Our own leave --------------------------------------------------------------------------------------

    def announce(self) -> None:
        """This daemon leaves the view that it has now."""
        self.is_announced = True
        self._gone_on.clear()

    def went_on(self, neighbour: int) -> None:
        """A neighbour no longer works in the view that we leave."""
        self._gone_on.add(neighbour)

    def waits_for(self, view: DaemonView, now_us: int) -> frozenset[int]:
        """The neighbours because of which this daemon stays: they work in the view that it leaves. Those that
        leave, too, count only if they alone stand between it and the others. If all members leave, there is
        none that has to go on."""
        leavers = self.of(view, now_us)
        if leavers >= frozenset(view.members) - {self._me}:
            return frozenset()
        neighbours = frozenset(view.neighbours(self._me))
        return (neighbours - leavers or neighbours) - self._gone_on
