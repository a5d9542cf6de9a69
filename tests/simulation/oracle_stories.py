"""Traces told by hand, for tests of the oracle."""

import zlib

from antiphon.simulator.oracle import judge
from antiphon.trace import Bundle, Event, Identity, Record, Trace, ViewNumber

A, B, C = "#a#d0", "#b#d1", "#c#d2"
DAEMONS = ("d0", "d1", "d2")
ALL = DAEMONS


def number(view: int, branch: int = 0) -> ViewNumber:
    return (0, branch, view, 0)


def broken(story: "Story") -> set[str]:
    """The numbers of the properties that a story breaks."""
    return {violation.name.split()[0] for violation in judge(story.trace)}


def names(story: "Story") -> set[str]:
    """Numbers and names."""
    return {violation.name for violation in judge(story.trace)}


class Story:
    """Builds a trace line by line; each process lives at its own daemon. Daemons that nobody speaks of are
    not in the trace: the oracle then takes them to be together."""

    def __init__(self) -> None:
        self.trace = Trace("story", 7, DAEMONS)
        self._views: dict[tuple[str, str], ViewNumber] = {}
        self._sent: dict[Identity, Record] = {}
        self._sequences: dict[str, int] = {}
        self._lives: dict[str, int] = {}
        self._daemon_views: dict[str, int] = {}
        self._bundles: dict[Bundle, Record] = {}
        self._lts = 0

    # Processes --------------------------------------------------------------------------------------------

    def connect(self, *processes: str) -> "Story":
        for process in processes:
            self._add(Event.CONNECT, process)
        return self

    def view(
        self, view: int, members: tuple[str, ...], *, at: tuple[str, ...] | None = None,
        together: tuple[str, ...] = (), group: str = "g", cause: str = "join", changed: tuple[str, ...] = (),
        branch: int = 0,
    ) -> "Story":  # fmt: skip
        """A view, at all its members unless told; `together` is the transitional set of all but a joiner."""
        for process in at if at is not None else members:
            first = (process, group) not in self._views
            self._views[process, group] = number(view, branch)
            self._add(
                Event.VIEW, process, (group,), members=members, cause=cause, changed=changed,
                transitional=() if first else together,
            )  # fmt: skip
        return self

    def signal(self, *processes: str, group: str = "g") -> "Story":
        for process in processes:
            self._add(Event.TRANSSIG, process, (group,))
        return self

    def join(self, process: str, group: str = "g") -> "Story":
        return self._add(Event.JOIN, process, (group,))

    def leave(self, process: str, group: str = "g") -> "Story":
        return self._add(Event.LEAVE, process, (group,))

    def left(self, process: str, view: int, group: str = "g") -> "Story":
        """Its leave took effect, with the view that the others get."""
        self._add(Event.LEFT, process, (group,), views=(number(view),))
        self._views.pop((process, group), None)
        return self

    def disconnect(self, process: str, cause: str = "disconnect") -> "Story":
        return self._add(Event.DISCONNECT, process, cause=cause)

    def send(
        self,
        process: str,
        service: str = "agreed",
        groups: tuple[str, ...] = ("g",),
        self_discard: bool = False,
    ) -> Identity:
        """A message; its sender's daemon holds it at once."""
        daemon = process.rpartition("#")[2]
        self._sequences[process] = self._sequences.get(process, 0) + 1
        session = 1 + process.count("!")
        message = (DAEMONS.index(daemon), self._lives.get(daemon, 0), session, self._sequences[process])
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

    # Daemons ----------------------------------------------------------------------------------------------

    def start(self, *daemons: str, view: int | None = None) -> "Story":
        """Daemons begin, each alone in a view of its own."""
        for daemon in daemons:
            self._lives[daemon] = self._lives.get(daemon, 0) + 1
            self._add(Event.RECOVER, "", daemon=daemon, incarnation=self._lives[daemon])
            self.daemon_view(1 + DAEMONS.index(daemon) if view is None else view, (daemon,))
        return self

    def daemon_view(
        self, view: int, members: tuple[str, ...], *, at: tuple[str, ...] | None = None,
        together: tuple[str, ...] | None = None, **changes: object,
    ) -> "Story":  # fmt: skip
        """A daemon view, at all its members unless told. `together` is the transitional set; without it every
        daemon comes alone."""
        for daemon in at if at is not None else members:
            first = daemon not in self._daemon_views
            alone = () if first else (daemon,)
            fields: dict[str, object] = {
                "daemon_view": view,
                "members": members,
                "transitional": alone if together is None else together,
                "incarnations": tuple(self._lives[member] for member in members),
                **changes,
            }
            self._daemon_views[daemon] = view
            self._add(Event.SVIEW, "", daemon=daemon, **fields)
        return self

    def daemon_signal(
        self, *daemons: str, together: tuple[str, ...], groups: tuple[str, ...] = (),
        committed: tuple[str, ...] = (),
    ) -> "Story":  # fmt: skip
        for daemon in daemons:
            self._add(
                Event.STRANSSIG, "", groups, daemon=daemon, views=(), transitional=together,
                members=committed or together, daemon_view=self._daemon_views[daemon],
            )  # fmt: skip
        return self

    def crash(self, daemon: str, *processes: str) -> "Story":
        """A daemon ends, and with it these processes."""
        for process in processes:
            self.disconnect(process, "crash")
        self._add(Event.CRASH, "", daemon=daemon, incarnation=self._lives[daemon])
        del self._daemon_views[daemon]
        return self

    def carry(
        self,
        daemon: str,
        destinations: tuple[str, ...] = ALL,
        message: Identity | None = None,
        service: str = "agreed",
        groups: tuple[str, ...] = ("g",),
        **changes: object,
    ) -> Bundle:
        """A daemon sends a bundle, with this message of a client or with none, and holds it."""
        if message is not None:
            service, groups = self._sent[message].service, self._sent[message].groups
        self._lts += 1
        bundle = (self._daemon_views[daemon], DAEMONS.index(daemon), self._lts)
        fields: dict[str, object] = {
            "bundle": bundle, "lts": self._lts, "service": service, "message": message,
            "destinations": destinations, **changes,
        }  # fmt: skip
        self._add(Event.SSEND, "", groups, daemon=daemon, views=(), **fields)
        self._bundles[bundle] = self.trace.records[-1]
        return self.have(bundle, daemon)

    def have(self, bundle: Bundle, *daemons: str) -> Bundle:
        """These daemons have all of it."""
        for daemon in daemons:
            self._add(Event.HOLD, "", daemon=daemon, bundle=bundle, message=self._bundles[bundle].message)
        return bundle

    def pass_up(self, bundle: Bundle, *daemons: str, **changes: object) -> "Story":
        """These daemons deliver it."""
        sent = self._bundles[bundle]
        for daemon in daemons:
            fields: dict[str, object] = {
                "bundle": bundle, "lts": sent.lts, "service": sent.service, "message": sent.message,
                "destinations": sent.destinations, **changes,
            }  # fmt: skip
            self._add(Event.SDELIVER, "", sent.groups, daemon=daemon, views=(), **fields)
        return self

    def buffers(self, daemon: str, used: int, limit: int) -> "Story":
        return self._add(Event.BUFFERS, "", daemon=daemon, buffers={"unstable": (used, limit)})

    def restored(self, *parts: tuple[str, ...], bound_us: int = 1_000) -> "Story":
        return self._add(Event.RESTORED, "", parts=parts, bound_us=bound_us)

    def steady(self, *daemons: str, views: int, silent_us: int) -> "Story":
        return self._add(Event.STEADY, "", parts=(daemons,), count=views, bound_us=silent_us)

    def state(self, state: str, *daemons: str) -> "Story":
        for daemon in daemons:
            self._add(Event.STATE, "", daemon=daemon, state=state)
        return self

    def _add(
        self, event: Event, process: str, groups: tuple[str, ...] = (), daemon: str = "", **fields: object
    ) -> "Story":
        records = self.trace.records
        fields.setdefault("views", tuple(self._views.get((process, group)) for group in groups))
        daemon = daemon or process.rpartition("#")[2]
        place = len(records)
        records.append(Record(place, place * 10, event, daemon, process, groups, **fields))  # type: ignore[arg-type]
        return self


def gathered() -> Story:
    """Three processes in one view of one group."""
    return Story().connect(A, B, C).view(1, (A, B, C))


def assembled() -> Story:
    """Three daemons in one daemon view, the tenth."""
    return Story().start(*DAEMONS).daemon_view(10, ALL)
