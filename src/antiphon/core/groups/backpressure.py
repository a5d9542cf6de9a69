"""Which bundles wait for which receiver: a slow session stops those who send to it, and no others.

A session for which too much output waits is *slow*. What is sent to it, to a group that it is a member of or
to its private name, waits at the daemons of the senders; whatever has no slow receiver goes on. Each daemon
announces its slow sessions to all others (`wire.packet.Pressure`), which know the groups of every session and
so find out by themselves what has to wait. An announcement is repeated while it is true and expires when it
is not, so that none can outlive the daemon that made it. It goes on from one daemon view to the next at the
daemons that move along together: if it ended with the view, each change would let every sender put as many
bytes on their way to the slow session as the order has room for.

Patience is limited:

    slow_patience_ms       how long the senders to a slow session wait while it reads next to nothing; every
                           `limits.SLOW_STEP` of its soft limit that it reads renews this
    slow_own_patience_ms   how long the slow session itself waits with what it sends to its own groups: a
                           program that sends before it reads would otherwise wait for itself

When patience is over, only the session's queue grows, up to the hard limit, until it has caught up.
"""

from collections.abc import Collection

from msgspec import Struct

from antiphon import limits
from antiphon.config import Settings
from antiphon.core.groups.membership import Membership
from antiphon.core.groups.sessions import Pending, Session
from antiphon.types import private_name
from antiphon.wire.bundle import Flag, parse_names
from antiphon.wire.packet import SERIALS, Pressure


class _Slow(Struct):
    """A session of this daemon that stops its senders."""

    session: Session
    until_us: int
    """When the senders' patience ends."""
    own_until_us: int | None
    """When the session stops waiting for itself; None if it has."""
    read_bytes: int
    """How many bytes it had read in all when the senders' patience was last renewed."""
    feeds_itself: bool = False
    """Whether it has sent something to itself when its own patience had ended, since it fell behind: that may
    still wait for it, however much it has read of what came before."""


class _Announced(Struct):
    """The slow sessions of another daemon, as it announced them."""

    serial: int
    until_us: int
    sessions: dict[tuple[int, int], str]
    """Daemon and session number -> private name."""


class Backpressure:
    """The slow sessions for which senders at one daemon wait."""

    def __init__(
        self, me: int, daemon_names: tuple[str, ...], settings: Settings, membership: Membership
    ) -> None:
        self.is_eased = False
        """Whether something that waited may go on now; the owner looks and clears it."""
        self._me = me
        self.daemon_names = daemon_names
        """By daemon number."""
        self._membership = membership
        self._patience_us = round(settings.slow_patience_ms * 1_000)
        self._own_patience_us = round(settings.slow_own_patience_ms * 1_000)
        self._step_bytes = max(1, settings.output_soft_bytes // limits.SLOW_STEP)
        self._slow: dict[int, _Slow] = {}  # by session number
        self._others: dict[int, _Announced] = {}  # by daemon
        self._serial = 0
        self._announced: tuple[int, ...] = ()  # the sessions of the last announcement
        self._announced_us = -limits.PRESSURE_PAUSE_US
        self._is_new_view = False  # whether an announcement is due at once

    # Sessions of this daemon ------------------------------------------------------------------------------

    def behind(self, session: Session, read_bytes: int, now_us: int) -> None:
        """Too much output waits for a session, which has read so much in all."""
        self._slow[session.number] = _Slow(
            session, now_us + self._patience_us, now_us + self._own_patience_us, read_bytes
        )

    def has_read(self, session: int, read_bytes: int, now_us: int) -> None:
        """A session has read so much in all: patience with one that reads is renewed."""
        slow = self._slow.get(session)
        if slow is not None and read_bytes - slow.read_bytes >= self._step_bytes:
            slow.read_bytes = read_bytes
            slow.until_us = now_us + self._patience_us
            slow.own_until_us = now_us + self._own_patience_us

    def caught_up(self, session: int) -> None:
        """A session has read enough, or is gone."""
        if self._slow.pop(session, None) is not None:
            self.is_eased = True

    # Announcements ----------------------------------------------------------------------------------------

    def begin_view(self, together: Collection[int], now_us: int) -> None:
        """A daemon view is installed. What daemons that come along announced counts as if it were new:
        without a view they could not repeat it."""
        self._others = {daemon: told for daemon, told in self._others.items() if daemon in together}
        for announced in self._others.values():
            announced.until_us = now_us + limits.PRESSURE_VALID_US
        self._is_new_view = bool(self._slow or self._announced)
        self.is_eased = True

    def receive(self, pressure: Pressure, now_us: int) -> None:
        """Another daemon's announcement came in; of several the newest counts."""
        before = self._others.get(pressure.daemon)
        if before is not None and pressure.serial <= before.serial:
            return
        daemon = self.daemon_names[pressure.daemon]
        sessions = {
            (pressure.daemon, number): private_name(name, daemon) for number, name in pressure.sessions
        }
        if before is not None and not before.sessions.keys() <= sessions.keys():
            self.is_eased = True
        self._others[pressure.daemon] = _Announced(
            pressure.serial, now_us + limits.PRESSURE_VALID_US, sessions
        )

    def announcement(self, source: int, now_us: int) -> Pressure | None:
        """The announcement that is due now, if any."""
        if not (self._slow or self._announced or self._is_new_view) or self._announce_us() > now_us:
            return None
        self._announced = self._to_announce()
        self._announced_us = now_us
        self._is_new_view = False
        self._serial = (self._serial + 1) % SERIALS  # older ones expire before it begins anew
        sessions = tuple((number, self._slow[number].session.name) for number in self._announced)
        return Pressure(source, self._me, self._serial, sessions)

    def _to_announce(self) -> tuple[int, ...]:
        """The sessions that fell behind first; those beyond the limit stop only senders of this daemon."""
        return tuple(self._slow)[: limits.PRESSURE_SESSIONS_MAX]

    def _announce_us(self) -> int:
        """When to announce: in a new view at once, a change soon, the same again before it expires."""
        if self._is_new_view:
            return self._announced_us
        if self._to_announce() != self._announced:
            return self._announced_us + limits.PRESSURE_PAUSE_US
        if self._slow:
            return self._announced_us + limits.PRESSURE_RENEW_US
        return limits.NEVER_US

    # Time -------------------------------------------------------------------------------------------------

    def due_us(self, is_active: bool = True) -> int | None:
        """When there is something to do; announcements are made and expire only while a view works."""
        if not (self._slow or self._others or self._announced):
            return None
        due_us = self._announce_us() if is_active else limits.NEVER_US
        for slow in self._slow.values():
            due_us = min(due_us, slow.until_us if slow.own_until_us is None else slow.own_until_us)
        if is_active:
            for announced in self._others.values():
                due_us = min(due_us, announced.until_us)
        return due_us

    def timeout(self, is_active: bool, now_us: int) -> None:
        """End the patience that is over and, while a view works, what was not announced again."""
        for number, slow in list(self._slow.items()):
            if slow.until_us <= now_us:
                del self._slow[number]
                self.is_eased = True
            elif slow.own_until_us is not None and slow.own_until_us <= now_us:
                slow.own_until_us = None
                self.is_eased = True
        for daemon, announced in list(self._others.items()):
            if is_active and announced.until_us <= now_us:
                self.is_eased = self.is_eased or bool(announced.sessions)
                del self._others[daemon]

    # Questions --------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """Whether any sender may have to wait: some session is slow."""
        return bool(self._slow or self._others)

    def must_wait(self, session: Session, pending: Pending) -> bool:
        """Whether a bundle of a session of ours has to wait. Joins, leaves and ends never do: they are short,
        and often the end of the trouble."""
        if pending.event is not None:
            return False
        destinations = parse_names(pending.header.names)[1:]
        for number, slow in self._slow.items():
            if number != session.number:
                if self._is_for(destinations, (self._me, number), slow.session.private_name):
                    return True
            elif not pending.header.flags & Flag.SELF_DISCARD and self._is_for(
                destinations, (self._me, number), slow.session.private_name
            ):
                if slow.own_until_us is not None:
                    return True
                slow.feeds_itself = True
        return any(
            self._is_for(destinations, member, name)
            for announced in self._others.values()
            for member, name in announced.sessions.items()
        )

    def _is_for(self, destinations: tuple[str, ...], member: tuple[int, int], name: str) -> bool:
        """Whether a session receives what is sent to these groups and private names."""
        return any(
            self._membership.is_member(member, destination) or destination == name
            for destination in destinations
        )

    def bounds(self, session: int) -> bool:
        """Whether all senders to a session of ours wait, itself among them, so that what can still come for
        it is bounded by what is under way."""
        slow = self._slow.get(session)
        return slow is not None and not slow.feeds_itself

    @property
    def slow_names(self) -> list[str]:
        """The sessions of this daemon for which senders wait."""
        return [slow.session.private_name for slow in self._slow.values()]

    @property
    def other_names(self) -> list[str]:
        """The sessions of other daemons for which senders of this one wait."""
        return sorted(name for announced in self._others.values() for name in announced.sessions.values())
