"""Traces told by hand, for tests of the oracle."""

import zlib

from antiphon.simulator.trace import Event, Identity, Record, Trace, ViewNumber

A, B, C = "#a#d0", "#b#d1", "#c#d2"
NUMBERS = {A: (0, 1), B: (1, 1), C: (2, 1)}


class Story:
    """Builds a trace line by line; each process lives at its own daemon."""

    def __init__(self) -> None:
        self.trace = Trace("story", 7, ("d0", "d1", "d2"))
        self._views: dict[tuple[str, str], ViewNumber] = {}
        self._sent: dict[Identity, Record] = {}
        self._sequences: dict[str, int] = {}

    def connect(self, *processes: str) -> "Story":
        for process in processes:
            self._add(Event.CONNECT, process)
        return self

    def view(
        self, number: int, members: tuple[str, ...], *, at: tuple[str, ...] | None = None,
        together: tuple[str, ...] = (), group: str = "g", cause: str = "join",
    ) -> "Story":  # fmt: skip
        """A view, at all its members unless told; `together` is the transitional set of all but a joiner."""
        for process in at if at is not None else members:
            first = (process, group) not in self._views
            self._views[process, group] = (0, number, 0)
            self._add(
                Event.VIEW, process, (group,), members=members, cause=cause,
                transitional=() if first else together,
            )  # fmt: skip
        return self

    def join(self, process: str, group: str = "g") -> "Story":
        return self._add(Event.JOIN, process, (group,))

    def leave(self, process: str, group: str = "g") -> "Story":
        return self._add(Event.LEAVE, process, (group,))

    def left(self, process: str, group: str = "g") -> "Story":
        self._add(Event.LEFT, process, (group,))
        self._views.pop((process, group), None)
        return self

    def disconnect(self, process: str) -> "Story":
        return self._add(Event.DISCONNECT, process)

    def send(
        self,
        process: str,
        service: str = "agreed",
        groups: tuple[str, ...] = ("g",),
        self_discard: bool = False,
    ) -> Identity:
        """A message; its sender's daemon holds it at once."""
        self._sequences[process] = self._sequences.get(process, 0) + 1
        message = (*NUMBERS[process], self._sequences[process])
        self._add(
            Event.SEND, process, groups, message=message, service=service, self_discard=self_discard,
            checksum=zlib.crc32(repr(message).encode()),
        )  # fmt: skip
        self._sent[message] = self.trace.records[-1]
        return self.hold(message, process)

    def hold(self, message: Identity, *processes: str) -> Identity:
        """The daemons of these processes have all of it."""
        for process in processes:
            self._add(Event.HOLD, "", message=message, daemon=process.rpartition("#")[2])
        return message

    def deliver(self, message: Identity, *processes: str, **changes: object) -> "Story":
        sent = self._sent[message]
        for process in processes:
            fields = {"service": sent.service, "checksum": sent.checksum, **changes}
            self._add(Event.DELIVER, process, sent.groups, message=message, **fields)
        return self

    def buffers(self, daemon: str, used: int, limit: int) -> "Story":
        return self._add(Event.BUFFERS, "", daemon=daemon, buffers={"unstable": (used, limit)})

    def _add(
        self, event: Event, process: str, groups: tuple[str, ...] = (), daemon: str = "", **fields: object
    ) -> "Story":
        records = self.trace.records
        views = tuple(self._views.get((process, group)) for group in groups)
        daemon = daemon or process.rpartition("#")[2]
        place = len(records)
        records.append(Record(place, place * 10, event, daemon, process, groups, views, **fields))  # type: ignore[arg-type]
        return self


def gathered() -> Story:
    """Three processes in one view of one group."""
    return Story().connect(A, B, C).view(1, (A, B, C))
