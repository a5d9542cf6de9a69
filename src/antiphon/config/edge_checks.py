"""Checks of the edges of a file: their names, the places of their clients, and to whom they attach."""

from collections.abc import Mapping, Sequence

from antiphon import limits
from antiphon.config.addresses import check_listener
from antiphon.config.faults import Fault, Key
from antiphon.config.values import EdgeConfig
from antiphon.errors import ConfigError, UsageError
from antiphon.types import check_name


def check_edges(edges: Sequence[EdgeConfig], daemons: Mapping[str, tuple[str, ...]]) -> None:
    """A Fault for the first thing that is wrong. `daemons` are those of the core, with the places of their
    clients."""
    places = dict(daemons)
    for number, edge in enumerate(edges):
        key: Key = ("edge", number, "name")
        try:
            check_name(edge.name, "edge", limits.DAEMON_NAME_MAX_BYTES)
        except UsageError as error:
            raise Fault(key, str(error)) from None
        if edge.name in daemons:
            raise Fault(key, f"a daemon of a site is called {edge.name!r}, too")
        if edge.name in places:
            raise Fault(key, f"the edge {edge.name!r} appears more than once")
        places[edge.name] = edge.clients
    owners = {place: name for name, listeners in places.items() for place in listeners}
    for number, edge in enumerate(edges):
        _check_places(edge, ("edge", number))
        _check_attachments(edge, ("edge", number), places, owners)
    _check_loops(edges, owners)


def _check_places(edge: EdgeConfig, key: Key) -> None:
    if not edge.clients:
        raise Fault((*key, "clients"), f"expected a place where clients of {edge.name} connect")
    for index, place in enumerate(edge.clients):
        try:
            check_listener(place)
        except ConfigError as error:
            raise Fault((*key, "clients", index), str(error)) from None


def _check_attachments(
    edge: EdgeConfig, key: Key, places: Mapping[str, tuple[str, ...]], owners: Mapping[str, str]
) -> None:
    if not edge.attach:
        raise Fault((*key, "attach"), "expected at least one daemon, edge or address to attach to")
    most = limits.EDGE_ATTACHMENTS_MAX
    if len(edge.attach) > most:
        raise Fault((*key, "attach", most), f"expected at most {most} attachments, got {len(edge.attach)}")
    seen: set[str] = set()
    for index, target in enumerate(edge.attach):
        at = (*key, "attach", index)
        whose = owners.get(target, target)
        if whose in seen:  # one of its two connections would replace the other
            raise Fault(at, f"{whose!r} appears more than once")
        seen.add(whose)
        if whose == edge.name:
            raise Fault(at, "an edge cannot attach to itself")
        if is_address(target):
            try:
                check_listener(target)
            except ConfigError as error:
                raise Fault(at, str(error)) from None
        elif target not in places:
            raise Fault(at, f"no daemon or edge is called {target!r}; known: {', '.join(places)}")
        elif not places[target]:
            raise Fault(at, f"{target} has no `clients`: no place where an edge can attach")


def _check_loops(edges: Sequence[EdgeConfig], owners: Mapping[str, str]) -> None:
    """No edge attaches to one that may get its feed through it."""
    names = {edge.name: number for number, edge in enumerate(edges)}
    finished: set[str] = set()
    for first in edges:
        path = [first.name]
        choices = [list(enumerate(first.attach))]
        while path:
            if not choices[-1]:
                finished.add(path.pop())
                choices.pop()
                continue
            index, target = choices[-1].pop(0)
            target = owners.get(target, target)
            if target in path:
                circle = " to ".join((*path[path.index(target) :], target))
                raise Fault(("edge", names[path[-1]], "attach", index), f"edges attach in a circle: {circle}")
            if target in names and target not in finished:
                path.append(target)
                choices.append(list(enumerate(edges[names[target]].attach)))


def is_address(target: str) -> bool:
    """Whether an attachment is written as an address, and not as a name.

    >>> is_address("tcp:10.0.0.1:4811"), is_address("oslo1")
    (True, False)
    """
    return target.startswith(("unix:", "tcp:"))
