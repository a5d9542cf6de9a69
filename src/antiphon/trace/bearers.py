"""Who bears a name: private names are used again, processes are not.

A name is free again once its session's end is delivered at its own daemon. Whatever the old session did is
then at or below that daemon's clock, and whatever the new one will do is above it. So the clock at each
connect tells the sessions of one name apart in every view, wherever and whenever that view is read.

Nobody knows that clock in a live run. There, the views of the joins tell: see `Namesakes`.
"""

from bisect import bisect_left
from collections.abc import Iterable

from antiphon.trace.records import Event, Record, ViewNumber


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


class Bearers:
    """Every process that bore a name."""

    def __init__(self) -> None:
        self.has_heirs = False
        """Whether any name was used more than once."""
        self._births: dict[str, list[int]] = {}

    def born(self, name: str, clock_lts: int) -> str:
        """A session called `name` begins while its daemon's clock shows `clock_lts`; its process."""
        births = self._births.setdefault(name, [])
        births.append(clock_lts)
        if len(births) > 1:
            self.has_heirs = True
        return process_name(name, len(births))

    def meant(self, names: tuple[str, ...], lts: int) -> tuple[str, ...]:
        """The processes that a view with this lts means by `names`."""
        if not self.has_heirs:
            return names
        return tuple(process_name(name, bisect_left(self._births[name], lts)) for name in names)


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
    """Let the views in these records of a live run, which are in order, name processes instead of names."""
    namesakes = Namesakes(records)
    if not namesakes.has_heirs:
        return
    before: dict[tuple[str, str], tuple[str, ...]] = {}
    for record in records:
        if record.event is not Event.VIEW or record.views[0] is None:
            continue
        group, view = record.groups[0], record.views[0]

        def meant(names: tuple[str, ...], group: str = group, view: ViewNumber = view) -> tuple[str, ...]:
            return tuple(namesakes.meant(group, view, name) for name in names)

        if record.cause == "network":  # who was lost is who was there before
            lost = {private_name(process): process for process in before.get((record.process, group), ())}
            record.changed = tuple(lost.get(name, name) for name in record.changed)
        else:
            record.changed = meant(record.changed)
        record.members = meant(record.members)
        record.transitional = meant(record.transitional)
        before[record.process, group] = record.members
