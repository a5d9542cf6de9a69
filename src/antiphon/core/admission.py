"""Which bundles of the clients may be ordered now, and how many in one go.

Sessions of lower priority leave room for those of higher priority that are active. No bundle can overtake
what is under way: a link keeps the order of what it was given, and agreed messages wait for all before them.
So the queues after the daemon's choice are kept short for sessions of lower priority.

Follows: Spread paper 2 (a queue for each session, which allows priorities) and thesis 6.4.6 (no message of a
client is taken while the groups are being put together).
Deviations: the papers leave the global flow control open. Here a daemon orders nothing more while too many
bytes of its own bundles are unstable (`allowance`); `groups.sessions` defines what priorities mean.
Checked by: tests/paper/test_flow.py, tests/paper/test_groups.py.
"""

from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.core.allowance import Allowance
from antiphon.core.groups.requests import denial_of
from antiphon.core.groups.sessions import Denial, Pending, Session
from antiphon.core.groups.states import GOP
from antiphon.wire import frames
from antiphon.wire.bundle import parse_names
from antiphon.wire.events import departures_bundle

if TYPE_CHECKING:
    from antiphon.core.links.link import Link
    from antiphon.core.links.site import SiteLink
    from antiphon.core.node import Node
    from antiphon.core.origin import Origin

ANNOUNCEMENTS = 2
"""Those that follow each other before a bundle of ours is known to be everywhere, each up to delta late: that
the others have it, and that they know it of one another."""


class Admission:
    """Lets the bundles that wait at a daemon into the order of its view."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._room_bytes = 0  # what may still be ordered before the driver has its turn
        self._view = 0  # that of the allowance
        self.allowance = Allowance(node.config.settings.unstable_bytes, 0, is_alone=True, now_us=0)
        """What this daemon may have under way in the installed view."""

    @property
    def has_leave(self) -> bool:
        """Whether new bundles may be ordered when it is this daemon's turn: messages flow, and not too much
        of ours is unstable."""
        node = self._node
        return (
            node.membership.standing.is_active
            and node.regrouping.state is GOP
            and node.order.own_unstable_bytes < self.allowance.bytes
            and not node.order.is_holding
        )

    @property
    def is_accepting(self) -> bool:
        """Whether new bundles may be ordered now."""
        if not (self._node.order.is_turn and self.has_leave):
            return False
        link = self._node.working_site_link
        return link is None or link.has_room

    @property
    def is_exhausted(self) -> bool:
        """Whether as much was ordered in one go as may be.

        A daemon that is alone in its view knows at once that a message is everywhere, so that no limit on
        what is unstable ever stops it. Between two turns the driver tells who reads too slowly for that.
        """
        return self._room_bytes <= 0

    def begin(self, now_us: int) -> None:
        """The driver has had its turn."""
        self._node.engine.look(now_us)
        settings, view = self._node.config.settings, self._node.view
        self._room_bytes = settings.unstable_bytes
        if self._view != view.id:
            self._view = view.id
            slack_us = ANNOUNCEMENTS * int(settings.delta_ms * 1_000)
            is_alone = len(view.members) == 1
            self.allowance = Allowance(settings.unstable_bytes, slack_us, is_alone=is_alone, now_us=now_us)

    def look(self, now_us: int) -> None:
        """The order has drawn its lines again: find out what that says about the paths."""
        node, allowance = self._node, self.allowance
        order = node.order
        stable_bytes, unstable_bytes = order.own_stable_bytes, order.own_unstable_bytes
        is_dry = unstable_bytes >= allowance.used_from_bytes and not any(
            way.waiting_bytes for way in self._ways()
        )
        allowance.sample(stable_bytes + unstable_bytes, stable_bytes, now_us, is_dry=is_dry)

    def _ways(self) -> "list[Link | SiteLink]":
        """All that carries bundles away from this daemon."""
        node = self._node
        ways: list[Link | SiteLink] = [*node.working_links.values()]
        if node.working_site_link is not None:
            ways.append(node.working_site_link)
        return ways

    def may_go_on(self, now_us: int) -> bool:
        """Whether a bundle waits that may be ordered now."""
        sessions = self._node.sessions
        return bool(sessions.waiting) and sessions.has_turn(self._lowest(now_us))

    def admit(self, origin: "Origin", now_us: int) -> None:
        """Order what sessions have sent, as long as there is room."""
        node = self._node
        blocked = node.delivery.membership.blocked
        must_wait = self._must_wait if blocked else node.backpressure.must_wait if node.backpressure else None
        departing: list[tuple[Session, Pending]] = []
        steps = 0
        while self._room_bytes > 0 and self.is_accepting:
            turn = node.sessions.take(self._lowest(now_us), must_wait)
            if turn is None:
                break
            session, pending = turn
            self._room_bytes -= len(pending.bundle)
            if pending.denial is not None:
                self._deny(origin, session, pending, pending.denial)
                continue
            if pending.event is not None and pending.event.kind == "disconnect":
                departing.append(turn)
                steps += 1 + node.delivery.membership.count_of((node.me, session.number))
                if steps < limits.DEPARTURES_STEPS:
                    continue
            if departing:
                self._let_go(origin, departing, now_us)
                departing, steps = [], 0
            if blocked and pending.event is None and self._refuse(origin, session, pending):
                continue
            if pending.event is None or pending.event.kind != "disconnect":
                origin.send(session, pending, now_us)
        self._let_go(origin, departing, now_us)

    def _must_wait(self, session: Session, pending: Pending) -> bool:
        """Whether a bundle waits for a decision about the quorum of one of its groups, or, if its session is
        not told of refusals, for that quorum; or for a slow receiver."""
        node = self._node
        if pending.event is None:
            blocked = node.delivery.membership.blocked
            states = [blocked[name] for name in parse_names(pending.header.names)[1:] if name in blocked]
            if states and (all(states) or not session.refusals):
                return True
        return bool(node.backpressure) and node.backpressure.must_wait(session, pending)

    def _refuse(self, origin: "Origin", session: Session, pending: Pending) -> bool:
        """Whether a bundle is not sent, because one of its groups has no quorum: its session is told."""
        node = self._node
        group = node.delivery.membership.blocking(parse_names(pending.header.names)[1:])
        if group is None:
            return False
        count, number = pending.header.message_count, session.sponsored_number
        refusal = frames.NotSent(group, session.sequence, count, number)
        origin.pass_over(session, pending)
        if not session.is_leaving:
            node.frames.append(((session.speaker,), frames.encode_control(refusal), None))
        node.counters["bundle: to a group without quorum"] += 1
        return True

    def _deny(self, origin: "Origin", session: Session, pending: Pending, denial: Denial) -> None:
        """Pass over something that the access list does not allow; its session is told if it was not."""
        told = denial_of(session, pending, denial)
        origin.pass_over(session, pending)
        if told is not None and (session.is_connected or not session.is_leaving):
            # Also behind its last word: somebody who sends and leaves at once must hear of it.
            self._node.frames.append(((session.speaker,), frames.encode_control(told), None))

    def _let_go(self, origin: "Origin", departing: list[tuple[Session, Pending]], now_us: int) -> None:
        """Order the ends of sessions that come one after another: in one bundle, if they are several."""
        if len(departing) == 1:
            origin.send(*departing[0], now_us)
        elif departing:
            origin.send_control(departures_bundle(session.number for session, _ in departing), now_us)

    def _lowest(self, now_us: int) -> int:
        """The lowest priority whose bundles may be ordered now."""
        node = self._node
        active = node.sessions.active_priority(now_us)
        if not active:
            return 0
        share_bytes = min(
            node.config.settings.unstable_bytes // limits.PRIORITY_SHARE, self.allowance.used_from_bytes
        )
        if node.order.own_unstable_bytes >= share_bytes or any(
            way.waiting_bytes > limits.PRIORITY_QUEUE_BYTES for way in self._ways()
        ):
            return active
        return 0
