"""What a daemon on real sockets writes down about itself, from its start to its end."""

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from antiphon.config import Config
from antiphon.core.node import Node
from antiphon.core.view import DaemonView
from antiphon.trace.records import Event, Record
from antiphon.trace.samples import clock_sample, fill, link_samples
from antiphon.trace.scrolls import Scroll, daemon_scroll, wall_us
from antiphon.trace.watcher import Watcher


class LiveWatcher(Watcher):
    """Watches one life of a daemon; its file begins with the life."""

    def __init__(self, config: Config, name: str, incarnation: int, folder: Path) -> None:
        sites = tuple(config.sites[config.site_of(number)].name for number in range(config.daemon_count))
        self.scroll: Scroll = daemon_scroll(
            folder, name, incarnation, config.settings.name, config.daemon_names, sites
        )
        super().__init__(config, config.daemon_number(name), self.scroll, wall_us, _ignore_state)
        self._incarnation = incarnation
        self._is_born = False

    def installed(self, view: DaemonView, transitional: tuple[int, ...]) -> None:
        """The first view comes with the start."""
        if not self._is_born:
            self._is_born = True
            self._note_life(Event.RECOVER)
        super().installed(view, transitional)

    def look(self, node: Node, monotonic: Callable[[], int]) -> None:
        """Write down how the daemon's buffers and links are now, and what it knows of the time; `monotonic`
        is the node's clock."""
        now_us = wall_us()
        record = Record(0, now_us, Event.BUFFERS, node.name)
        record.buffers = fill(node)
        self.scroll.append(record)
        for sample in link_samples(node, now_us):
            self.scroll.append(sample)
        self._compare_clocks(node, monotonic)

    def _compare_clocks(self, node: Node, monotonic: Callable[[], int]) -> None:
        """Write down what the time is while the system clock, which stamps the records, shows `time_us`. Who
        asks keeps the daemons at work on the time, so a traced cluster has a common one."""
        before_us = monotonic()
        shown_us = wall_us()
        within_us = monotonic() - before_us
        said = node.time.ask(before_us)
        if said is not None:
            said = structs.replace(said, error_us=said.error_us + within_us)
            self.scroll.append(Record(0, shown_us, Event.CLOCK, node.name, **clock_sample(node, said)))

    def leaves(self) -> None:
        """The daemon is told to stop in a planned way."""
        self._note_life(Event.STOP)

    def ended(self) -> None:
        """The daemon has stopped: nothing happens at it any more, as after a crash."""
        self._note_life(Event.CRASH)
        self.scroll.close()

    def _note_life(self, event: Event) -> None:
        self.scroll.append(Record(0, wall_us(), event, self._name, incarnation=self._incarnation))


def _ignore_state(number: int, state: str) -> None:
    """Ignore a state: only the trace needs it."""
