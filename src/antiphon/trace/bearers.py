"""Which process has a name: private names are used again, processes are not.

A name is free again once its session's end is delivered at its own daemon. Daemons that are cut off from that
one may not know of it for long: their views go on to mean the old session, after the new one has begun, and
no clock tells which. So a simulated daemon says itself which sessions each of its views means: see `Bearers`.

A live run has no such record. There, each process's own views, one after the other, and the views of the
joins tell: see `Namesakes`.
"""

from collections.abc import Iterable

from antiphon.trace.records import Event, LockState, Record, ViewNumber
from antiphon.types import View, ViewId


def process_name(name: str, place: int) -> str:
    """The process that was the `place`-th to bear a private name, from 1; no session can be called so.

    >>> process_name("#alice#d1", 1), process_name("#alice#d1", 2)
    ('#alice#d1', '#alice!2#d1')
    """
    if place == 1:
        return name
    session, _, daemon = name[1:].partition("#")
    return f"#{session}!{place}#{daemon}"


def private_name(process: str) -> str:
    """The name by which a process can be addressed.

    >>> private_name("#alice!2#d1")
    '#alice#d1'
    """
    session, _, daemon = process[1:].partition("#")
    return f"#{session.partition('!')[0]}#{daemon}"


Session = tuple[int, int, int]
"""A daemon's number, the incarnation of its process, and the number of a session there."""


class Bearers:
    """Every process that bore a name, and whom each daemon's views mean by it."""

    def __init__(self) -> None:
        self.has_heirs = False
        """Whether any name was used more than once."""
        self._counts: dict[str, int] = {}
        self._processes: dict[Session, str] = {}
        self._meant: dict[tuple[str, str, ViewId], dict[str, str]] = {}
        self._meant_by_any: dict[tuple[str, ViewId], dict[str, str]] = {}

    def born(self, name: str, session: Session) -> str:
        """A session called `name` begins; its process."""
        place = self._counts[name] = self._counts.get(name, 0) + 1
        self.has_heirs = self.has_heirs or place > 1
        process = self._processes[session] = process_name(name, place)
        return process

    def saw(self, daemon: str, view: View, sessions: Iterable[Session]) -> None:
        """A daemon has made a view that means these sessions: its members, and those in `changed` who are
        gone. Only names that are not their bearer's first need to be remembered."""
        if not self.has_heirs:
            return
        heirs = {}
        for session in sessions:
            process = self._processes.get(session)
            if process is not None and (name := private_name(process)) != process:
                heirs[name] = process
        if heirs:
            self._meant[daemon, view.group, view.id] = heirs
            self._meant_by_any[view.group, view.id] = heirs

    def meant(self, daemon: str, view: View, names: tuple[str, ...]) -> tuple[str, ...]:
        """The processes that a view of a daemon means by `names`."""
        heirs = self._meant.get((daemon, view.group, view.id))
        return names if heirs is None else tuple(heirs.get(name, name) for name in names)

    def meant_by_any(self, view: View, names: tuple[str, ...]) -> tuple[str, ...]:
        """The processes that a view means by `names` at an edge, which passes on what a daemon has made."""
        heirs = self._meant_by_any.get((view.group, view.id))
        return names if heirs is None else tuple(heirs.get(name, name) for name in names)


CAME = ("join", "merge")
"""Causes of views whose `changed` have come; those of others have gone."""


class Namesakes:
    """Which process a live run's views mean by a name that several bore.

    The view of a join is the joiner's own first word about itself in that group, so the joiner's record of it
    says which process joined; in the views that follow, the name means that process until the next join. Of
    views made after a cut, those of the other side do not count. A joiner that never read that view is the
    last one who had connected under the name when others did.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        """`records` has the connects and views of the run, earlier ones first."""
        self._joins: dict[tuple[str, str], list[tuple[ViewNumber, str]]] = {}
        self.has_heirs = False
        """Whether any name was used more than once."""
        claimed: dict[tuple[str, str], dict[ViewNumber, str]] = {}
        own: dict[tuple[str, str], set[ViewNumber]] = {}
        bearers: dict[str, str] = {}
        for record in records:
            if record.event is Event.CONNECT:
                name = private_name(record.process)
                self.has_heirs = self.has_heirs or name in bearers
                bearers[name] = record.process
            elif record.event is Event.VIEW and record.cause == "join" and record.views[0] is not None:
                group, view = record.groups[0], record.views[0]
                for name in record.changed:
                    if name == private_name(record.process):
                        claimed.setdefault((group, name), {})[view] = record.process
                        own.setdefault((group, name), set()).add(view)
                    elif name in bearers and view not in own.get((group, name), ()):
                        claimed.setdefault((group, name), {}).setdefault(view, bearers[name])
        for key, views in claimed.items():
            self._joins[key] = sorted(views.items())

    def meant(self, group: str, view: ViewNumber, name: str) -> str:
        """The process that a view of `group` means by a private name."""
        epoch, branch = view[:2]
        known = [
            process
            for made, process in self._joins.get((group, name), ())
            if made <= view and (made[0] != epoch or made[1] in (0, branch))
        ]
        return known[-1] if known else name


def tell_apart(records: list[Record]) -> None:
    """Let the views and locks in these records of a live run, which are in order, name processes instead of
    names."""
    namesakes = Namesakes(records)
    if not namesakes.has_heirs:
        return
    before: dict[tuple[str, str], dict[str, str]] = {}
    for record in records:
        if record.event is Event.LEFT:
            before.pop((record.process, record.groups[0]), None)
        if record.event is Event.LOCK:
            meant = before.get((record.process, record.groups[0]), {})
            record.changed = tuple(meant.get(name, name) for name in record.changed)
            record.locks = _with_processes(record.locks, meant)
        if record.event is not Event.VIEW or record.views[0] is None:
            continue
        group, view = record.groups[0], record.views[0]
        # A member that was there before, and has not come with this view, is the same process.
        known = dict(before.get((record.process, group), ()))
        if record.cause in CAME:
            stayed = record.transitional if record.cause == "merge" else record.members
            changed = set(record.changed)
            known = {name: known[name] for name in stayed if name in known and name not in changed}
        known[private_name(record.process)] = record.process
        names = dict.fromkeys((*record.members, *record.changed))
        meant = {name: known.get(name) or namesakes.meant(group, view, name) for name in names}
        record.changed = tuple(meant[name] for name in record.changed)
        record.transitional = tuple(meant[name] for name in record.transitional)
        before[record.process, group] = {name: meant[name] for name in record.members}
        record.members = tuple(meant[name] for name in record.members)
        record.locks = _with_processes(record.locks, meant)


def _with_processes(locks: tuple[LockState, ...], meant: dict[str, str]) -> tuple[LockState, ...]:
    """The locks of a group, whose members `meant` gives by their names."""
    return tuple(
        (name, meant.get(holder, holder), fence, tuple(meant.get(one, one) for one in waiting))
        for name, holder, fence, waiting in locks
    )
