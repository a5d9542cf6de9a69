"""The observer of a simulated daemon: it writes into the trace, and tells whom the daemon's views mean."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from antiphon.core.view import DaemonView
from antiphon.simulator.twins import Diary
from antiphon.trace.watcher import Watcher
from antiphon.types import View

if TYPE_CHECKING:
    from antiphon.simulator.host import Host
    from antiphon.simulator.world import World


class HostWatcher(Watcher):
    """Watches one life of a daemon."""

    def __init__(self, world: "World", host: "Host") -> None:
        super().__init__(world.config, host.number, Diary(host, world), world.clock, world.entered)
        self._host = host
        self._bearers = world.bearers
        self._incarnations: dict[int, dict[int, int]] = {}
        """The incarnations of the daemons in the present view and in the one before it: views of groups that
        end with a daemon view are made while the next one is being installed."""

    def installed(self, view: DaemonView, transitional: tuple[int, ...]) -> None:
        """Sview."""
        super().installed(view, transitional)
        while len(self._incarnations) > 1:
            del self._incarnations[next(iter(self._incarnations))]
        self._incarnations[view.id] = dict(zip(view.members, view.incarnations, strict=True))

    def regrouped(self, view: View, sessions: Iterable[tuple[int, int]]) -> None:
        """Names alone do not say which sessions a view means."""
        if not self._host.is_observed:
            return
        incarnations = self._incarnations.get(view.id.epoch, {})
        self._bearers.saw(
            self._name,
            view,
            ((daemon, incarnations.get(daemon, 0), session) for daemon, session in sessions),
        )
