"""One edge as its attachment knows it: what it listens to, and how far it is fed."""

from enum import Enum

from msgspec import Struct

from antiphon import limits
from antiphon.core.feeds.log import Point
from antiphon.types import check_group, check_name
from antiphon.wire import edges


class Flow(Enum):
    """Whether an edge gets what is sent to a group."""

    WAITING = "waiting"
    """Its base comes when the group is in the feed, and the edge has come to its end."""
    FLOWING = "flowing"


class Interest(Struct):
    """One edge's interest in one group."""

    flow: Flow = Flow.WAITING
    held: edges.Held | None = None
    """What it has told its members last, when it comes from somewhere else."""


class Edge:
    """One edge that is attached here."""

    def __init__(self, number: int, request: edges.Attach, end: int, now_us: int) -> None:
        self.number = number
        self.name = request.name
        self.incarnation = request.incarnation
        self.is_standby = request.is_standby
        self.places = request.places
        """Where other edges reach it."""
        self.report = edges.Report()
        """What it has told of those behind it."""
        self.groups: dict[str, Interest] = {}
        self.is_going = False
        """Whether it is fed."""
        self.wish: edges.Go | None = None
        """With what it wants to be fed, as long as that cannot be."""
        self.wished_us = 0
        self.cursor = end
        """The serial number of the item that it gets next."""
        self.skips: Point | None = None
        """It has everything up to here already."""
        self.position: edges.Position | None = None
        """How far it has been fed."""
        self.told: tuple[int, int] | None = None
        """The daemon view and branch that it was told last."""
        self.is_waiting = False
        """Whether it has asked for a group while it was not at the end of the log."""
        self.hears = request.hears
        """Whether it can be told of multicasts."""
        self.is_cast = False
        """Whether its feed goes by the cast now."""
        self.is_blocked = False
        """Whether too much output waits for it."""
        self.counts: dict[str, int] = {}
        self.gaps = 0
        """How often it was told that something is missing."""
        self.heard_us = self.said_us = now_us


def is_flowing(edge: Edge, groups: tuple[str, ...]) -> bool:
    """Whether an edge gets what belongs to any of these groups."""
    interests = map(edge.groups.get, groups)
    return any(interest is not None and interest.flow is Flow.FLOWING for interest in interests)


def state_of(edge: Edge, is_live: bool, end: int) -> dict[str, object]:
    """What status shows of an edge, of which is known whether it has all up to the end of the log."""
    waiting = sorted(group for group, one in edge.groups.items() if one.flow is Flow.WAITING)
    return {
        "name": edge.name,
        "state": "standby" if not edge.is_going else "behind" if not is_live else "fed",
        "groups": len(edge.groups),
        "waiting_groups": waiting if edge.is_going else [],
        "behind_items": end - edge.cursor if edge.is_going else 0,
        "gaps": edge.gaps,
        "receivers": sum(edge.counts.values()),
        "by_multicast": edge.is_cast,
    }


def check_listened(group: str) -> str:
    """`group` if an edge may listen to it: a group's name, or `#edge` for private names there."""
    if group.startswith("#"):
        check_name(group[1:], "edge", limits.DAEMON_NAME_MAX_BYTES)
        return group
    return check_group(group)
