"""What a daemon on real sockets writes down about itself, from its start to its end."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from antiphon.config import Config
from antiphon.core.node import Node
from antiphon.core.view import DaemonView
from antiphon.trace.records import Event, Record
from antiphon.trace.samples import clock_sample, fill, link_samples
from antiphon.trace.scrolls import LiveNames, Scroll, daemon_scroll, wall_us
from antiphon.trace.watcher import SERVICE_WORDS, Watcher
from antiphon.wire import bundle

NOT_SPONSORED = "not sponsored"
"""The cause of the end of a session in which a client of an edge has sent."""


class Sponsored:
    """A session in the name of a client of an edge."""

    def __init__(self, process: str, peer: str) -> None:
        self.process = process
        self.peer = peer
        self.sequence = 0
        """The number of its last message."""


class LiveWatcher(Watcher):
    """Watches one life of a daemon; its file begins with the life."""

    def __init__(self, config: Config, name: str, incarnation: int, folder: Path) -> None:
        self._bearers = LiveNames(folder, name)
        self._sponsored: dict[int, Sponsored] = {}
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
        for session in list(self._sponsored):
            self.unsponsored(session)
        self._note_life(Event.CRASH)
        self.scroll.close()

    # Whom it sends for ------------------------------------------------------------------------------------

    def sponsored(self, session: int, private_name: str) -> None:
        """Connect. The name of the process tells whom it serves: `#bob@e1#d1` is what daemon `d1` sends for
        the session `#bob#e1` at edge `e1`."""
        name, _, edge = private_name[1:].partition("#")
        process = self._bearers.born(f"#{name}@{edge}#{self._name}")
        self._sponsored[session] = Sponsored(process, private_name)
        self.scroll.append(
            Record(
                0, wall_us(), Event.CONNECT, self._name, process, peer=private_name,
                incarnation=self._incarnation,
            )
        )  # fmt: skip

    def submitted(self, session: int, bundles: Sequence[bytes | bytearray | memoryview]) -> None:
        """Send."""
        one = self._sponsored[session]
        for frame in bundles:
            header = bundle.parse(frame)
            messages = bundle.decode(bytes(frame))
            first = one.sequence + 1 + header.message_count - len(messages)  # a stamp is numbered, too
            one.sequence += header.message_count
            groups = bundle.parse_names(header.names)[1:]
            for place, message in enumerate(messages):
                self.scroll.append(
                    Record(
                        0, wall_us(), Event.SEND, self._name, one.process, groups, (None,) * len(groups),
                        (self._number, self._incarnation, session, first + place),
                        service=SERVICE_WORDS[header.service], checksum=zlib.crc32(message.payload),
                        self_discard=bool(header.flags & bundle.Flag.SELF_DISCARD), peer=one.peer,
                    )
                )  # fmt: skip

    def unsponsored(self, session: int) -> None:
        """Disconnect."""
        process = self._sponsored.pop(session).process
        self.scroll.append(Record(0, wall_us(), Event.DISCONNECT, self._name, process, cause=NOT_SPONSORED))

    def _note_life(self, event: Event) -> None:
        self.scroll.append(Record(0, wall_us(), event, self._name, incarnation=self._incarnation))


def _ignore_state(number: int, state: str) -> None:
    """Ignore a state: only the trace needs it."""
