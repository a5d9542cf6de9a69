"""What a daemon's observer writes into the trace: the events of the thesis below the groups (2.2.5)."""

from collections.abc import Callable
from typing import Protocol

from antiphon.config import Config
from antiphon.core.observer import Observer
from antiphon.core.view import DaemonView
from antiphon.service import Service
from antiphon.trace.records import Bundle, Event, Identity, Record
from antiphon.wire.after import after_of
from antiphon.wire.bundle import Flag, Header, parse_names
from antiphon.wire.history import history_of

UNSPOKEN = Flag.LATE | Flag.CONTROL | Flag.ORDER
"""Bundles in which daemons help one another; nothing above the membership hears of them."""
SERVICE_WORDS = {service: service.name.lower() for service in Service}


class Records(Protocol):
    """Where records go, in their order: a list, or a file."""

    def __len__(self) -> int: ...

    def append(self, record: Record, /) -> None: ...


class Watcher(Observer):
    """Watches one daemon, from its start to its crash."""

    def __init__(
        self,
        config: Config,
        number: int,
        records: Records,
        clock: Callable[[], int],
        told: Callable[[int, str], None],
    ) -> None:
        self._config = config
        self._number = number
        self._name = config.daemon_names[number]
        self._records = records
        self._clock = clock
        self._told = told
        """Hears of each state that is entered, and of the daemon."""
        self._view = DaemonView(0, (number,), (0,), ())
        self._destinations: dict[int, tuple[str, ...]] = {}

    def sent(self, view_id: int, header: Header) -> None:
        """Ssend."""
        self._note_bundle(Event.SSEND, view_id, header, self._at(header.destinations))

    def refused(self, message: Identity, count: int) -> None:
        """Unsent."""
        record = self._record(Event.UNSENT)
        record.message = message
        record.count = count
        self._records.append(record)

    def retained(self, view_id: int, header: Header) -> None:
        """Hold."""
        self._note_bundle(Event.HOLD, view_id, header, ())

    def delivered(self, view_id: int, header: Header, place: int) -> None:
        """Sdeliver."""
        self._note_bundle(Event.SDELIVER, view_id, header, self._at(header.destinations), place)

    def signalled(
        self,
        view_id: int,
        transitional: tuple[int, ...],
        committed: tuple[int, ...],
        groups: tuple[str, ...],
    ) -> None:
        """Stranssig."""
        record = self._record(Event.STRANSSIG)
        record.groups = groups
        record.transitional = self._names(transitional)
        record.members = self._names(committed)
        record.daemon_view = view_id
        self._records.append(record)

    def installed(self, view: DaemonView, transitional: tuple[int, ...]) -> None:
        """Sview."""
        self._view = view
        self._destinations.clear()
        record = self._record(Event.SVIEW)
        record.members = self._names(view.members)
        record.transitional = self._names(transitional)
        record.daemon_view = view.id
        record.incarnations = view.incarnations
        names = self._config.daemon_names
        record.links = tuple((names[one], names[other]) for one, other in view.links)
        self._records.append(record)

    def entered(self, state: str, reason: str, now_us: int) -> None:
        """State."""
        record = self._record(Event.STATE)
        record.state = state
        record.reason = reason
        self._records.append(record)
        self._told(self._number, state)

    def _record(self, event: Event) -> Record:
        return Record(len(self._records), self._clock(), event, self._name)

    def _note_bundle(
        self, event: Event, view_id: int, header: Header, destinations: tuple[str, ...], place: int = 0
    ) -> None:
        if header.flags & UNSPOKEN:
            return
        bundle: Bundle = (view_id, header.daemon, header.number)
        message: Identity | None = None
        stamps = 1 if header.flags & Flag.BATCH else 0  # numbered like a message, and none
        if not header.flags & ~Flag.CLIENT:
            message = (header.daemon, header.incarnation, header.session, header.sequence + stamps)
        record = Record(
            len(self._records), self._clock(), event, self._name,
            groups=parse_names(header.names)[1:], message=message, count=header.message_count - stamps,
            service=SERVICE_WORDS[header.service], bundle=bundle, lts=header.lts,
            destinations=destinations, place=0 if place == header.lts else place,
        )  # fmt: skip
        if header.extensions:
            if event is Event.SSEND:
                _note_history(record, header)
            after = after_of(header)
            record.is_loose = after is not None and after.is_loose and header.service < Service.AGREED
        self._records.append(record)

    def _at(self, sites: int) -> tuple[str, ...]:
        """The daemons of the view at these sites."""
        found = self._destinations.get(sites)
        if found is None:
            site_of = self._config.site_of
            found = self._names(tuple(one for one in self._view.members if sites >> site_of(one) & 1))
            self._destinations[sites] = found
        return found

    def _names(self, daemons: tuple[int, ...]) -> tuple[str, ...]:
        names = self._config.daemon_names
        return tuple(names[daemon] for daemon in daemons)


def _note_history(record: Record, header: Header) -> None:
    """What a bundle's history says."""
    history = history_of(header)
    if history is not None:
        record.causes = len(history.causes)
        record.floor = history.floor
        record.stable = history.stable
