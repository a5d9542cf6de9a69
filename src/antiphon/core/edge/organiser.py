"""What an edge that organises itself does with its connections: asks, moves, keeps a second one ready.

Where it wants to be, `hierarchy` decides. A move breaks nothing: the new attachment stands by until it has
listened for a while, and nothing that was sent waits for an answer; then the edge goes on there as if the
old one were lost.
"""

from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.edge.connection import Connection, Stage
from antiphon.core.edge.hierarchy import Hierarchy
from antiphon.wire import edges, frames

if TYPE_CHECKING:
    from antiphon.core.edge.upstream import Upstream

_PROBE = frames.encode_control(edges.Probe())
_NO_ROOM = ("full", "unattached", "loop")
"""What attachments say that are there and take no edge now."""


class Organiser:
    """Follows the hierarchy, over the connections of one edge."""

    def __init__(self, links: "Upstream", hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self._links = links

    # Events -----------------------------------------------------------------------------------------------

    def probed(self, connection: Connection, answer: edges.Probed, now_us: int) -> None:
        """A probe is answered."""
        links, took_us = self._links, now_us - connection.probed_us
        if connection.is_probe:
            connection.is_answered = True
            links.hang_up(connection, "asked", now_us)
        self.hierarchy.probed(connection.address, answer, max(1, took_us), now_us)

    def refused(self, connection: Connection, refusal: frames.Refuse, now_us: int) -> None:
        """An attachment does not take this edge."""
        if refusal.code in _NO_ROOM:
            self.hierarchy.refused(connection.address, now_us)

    def dropped(self, connection: Connection, was_feeding: bool, now_us: int) -> None:
        """A connection is gone."""
        if was_feeding:
            self.hierarchy.lost(connection.address, now_us)
        elif not connection.is_answered and (connection.is_probe or connection.stage is Stage.DIALLING):
            self.hierarchy.unreachable(connection.address, now_us)

    # What is to be done -----------------------------------------------------------------------------------

    def go_on(self, now_us: int) -> None:
        """Ask, dial, move, let go."""
        links, hierarchy = self._links, self.hierarchy
        hierarchy.children = len(links.owner.behind.server.edges)
        for address in hierarchy.probes(now_us):
            self._ask(links.place_of(address), now_us)
        feeds, stands_by = self._places()
        if not feeds:
            return
        if links.main is None or links.main.place not in feeds:
            self._move(feeds, now_us)
            return
        spare = [place for place in stands_by if place != links.main.place]
        if not any(self._at(place) for place in spare):
            self._dial_one(spare, now_us)
        for connection in links.connections:
            if connection is not links.main and connection.place not in spare and not connection.is_probe:
                links.hang_up(connection, "not needed", now_us)

    def _places(self) -> tuple[list[int], list[int]]:
        """Where this edge wants to be fed, and to stand by."""
        choice = self.hierarchy.choice()
        place_of = self._links.place_of
        return list(map(place_of, choice.feeds)), list(map(place_of, choice.stands_by))

    def _ask(self, place: int, now_us: int) -> None:
        """Send a probe, over a connection that is there or over one of its own."""
        links = self._links
        for connection in links.connections:
            if connection.place == place and connection.is_greeted:
                connection.probed_us = now_us
                links.write(connection, _PROBE, now_us)
                return
        links.dial(place, now_us, is_probe=True)

    def _at(self, place: int) -> Connection | None:
        found = (one for one in self._links.connections if one.place == place and not one.is_probe)
        return next(found, None)

    def _dial_one(self, places: list[int], now_us: int) -> None:
        """Connect to the first of these that need not be left alone."""
        links = self._links
        place = next((one for one in places if links.places[one].until_us <= now_us), None)
        if place is not None:
            links.dial(place, now_us)

    def _move(self, feeds: list[int], now_us: int) -> None:
        """Go to another attachment, once it is ready."""
        links = self._links
        fresh = next((one for place in feeds if (one := self._at(place)) is not None), None)
        old = links.main
        if fresh is None:
            self._dial_one(feeds, now_us)
        elif old is not None and fresh.stage is Stage.STANDBY and self._ripe_us(fresh) <= now_us:
            links.hang_up(old, "moved to another attachment", now_us)
            links.go(fresh, now_us)

    def _ripe_us(self, fresh: Connection) -> int:
        """When a connection that stands by may take over."""
        is_quiet = self._links.owner.sending.is_idle
        return fresh.since_us + (limits.EDGE_MOVE_US if is_quiet else limits.EDGE_MOVE_MOST_US)

    def next_deadline_us(self) -> int | None:
        """When something is due."""
        links = self._links
        due_us = self.hierarchy.next_deadline_us()
        due = [] if due_us is None else [due_us]
        feeds, stands_by = self._places()
        main = links.main
        if main is not None and main.place in feeds:
            wanted = [place for place in stands_by if place != main.place]
        else:
            wanted = feeds
        there = [one for place in wanted if (one := self._at(place)) is not None]
        if not there:
            due += [links.places[place].until_us for place in wanted]
        elif main is not None and main.place not in feeds and there[0].stage is Stage.STANDBY:
            due.append(self._ripe_us(there[0]))
        return min(due, default=None)
