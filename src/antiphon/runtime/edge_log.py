"""What an edge's log says: who feeds it, who stands by, why it lost one, and where something is missing."""

import logging
from collections import deque
from itertools import islice

from msgspec import Struct

from antiphon import limits
from antiphon.core.edge.connection import Connection
from antiphon.core.edge.node import EdgeNode
from antiphon.runtime.notices import Notices

RECORDS_KEPT = 64


class Record(Struct, frozen=True):
    """Something that `antiphon explain` tells later."""

    at_us: int
    event: str
    """"attached", "lost" or "gap"."""
    name: str
    """The attachment's, or the group's."""
    detail: str
    """How the attachment is reached, why it was lost, or why something is missing."""


class EdgeLog:
    """Follows the attachments of one edge."""

    def __init__(self, logger: logging.Logger, notices: Notices) -> None:
        self.records: deque[Record] = deque(maxlen=RECORDS_KEPT)
        """What has happened of late, oldest first."""
        self._logger = logger
        self._notices = notices
        self._main: Connection | None = None
        self._standby: Connection | None = None
        self._way: tuple[str, ...] = ()
        self._losses = 0
        self._gaps = 0
        self._look_at_us = 0

    def follow(self, node: EdgeNode, now_us: int) -> None:
        """After every turn of the loop: tell of what has changed since the last time."""
        links = node.links
        if links.losses != self._losses:
            self._losses = links.losses
            self._tell_loss(node, now_us)
        if links.main is not None:
            self._tell_main(node, links.main, now_us)
        standby = links.standby
        if standby is not self._standby:
            self._tell_standby(node, standby)
        if node.members.gaps != self._gaps:
            self._tell_gaps(node, now_us)
        if now_us >= self._look_at_us:
            self._look_at_us = now_us + limits.STANDSTILL_LOOK_US
            self._tell_alone(node, now_us)

    def _tell_loss(self, node: EdgeNode, now_us: int) -> None:
        main, self._main, self._way = self._main, None, ()
        if main is None:  # it came and went in one turn
            return
        reason = node.links.places[main.place].reason
        self._logger.warning("edge %s has lost its attachment %s: %s", node.name, self._name(main), reason)
        self.records.append(Record(now_us, "lost", self._name(main), reason))

    def _tell_main(self, node: EdgeNode, main: Connection, now_us: int) -> None:
        attached = main.attached
        assert attached is not None
        way = (attached.name, *attached.path, attached.daemon)
        if main is self._main and way == self._way:
            return
        through = f"fed by {attached.daemon}" if attached.daemon != attached.name else "a daemon of the core"
        self._logger.info("edge %s is attached to %s, %s", node.name, self._name(main), through)
        self.records.append(Record(now_us, "attached", self._name(main), through))
        self._main, self._way = main, way

    def _tell_gaps(self, node: EdgeNode, now_us: int) -> None:
        members = node.members
        count, self._gaps = members.gaps - self._gaps, members.gaps
        newest = list(islice(reversed(members.newest_gaps), count))
        for gap in reversed(newest):
            self.records.append(Record(now_us, "gap", gap.group, gap.reason))
        more = f" and {count - 1} more groups" if count > 1 else ""
        group, reason = newest[0].group, newest[0].reason
        self._notices.warn(
            "gap", "edge %s: something may be missing of %s%s: %s", node.name, group, more, reason
        )

    def _tell_standby(self, node: EdgeNode, standby: Connection | None) -> None:
        before, self._standby = self._standby, standby
        if standby is not None:
            self._logger.info("edge %s has the standby %s", node.name, self._name(standby))
        elif before is not None and before is not node.links.main:
            reason = node.links.places[before.place].reason
            self._logger.info("edge %s has no standby, %s is lost: %s", node.name, self._name(before), reason)

    def _tell_alone(self, node: EdgeNode, now_us: int) -> None:
        """While there is no attachment, for longer than a change from one to another takes."""
        since_us = node.links.lost_us
        if since_us is None or now_us - since_us < limits.STANDSTILL_TOLD_US:
            return
        reasons = "; ".join(f"{place.address}: {place.reason}" for place in node.links.places if place.reason)
        self._notices.warn(
            "unattached", "edge %s has no attachment for %.1f s: %s",
            node.name, (now_us - since_us) / 1e6, reasons or "no answer yet",
        )  # fmt: skip

    def _name(self, connection: Connection) -> str:
        address = connection.address
        return address if connection.attached is None else f"{connection.attached.name} ({address})"
