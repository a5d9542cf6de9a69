"""Daemons that are left out of views for a while, because views with them came to a standstill.

A daemon is given a strike when a view, installed or being formed, stood still because of it. With the second
strike within `limits.STRIKES_WITHIN_US`, or at once if its state at the end of a view cannot be true, it is
left out for a time that doubles with each further exclusion, up to a limit. The members of its view go on
without it, it goes on alone, and both merge when the time is over. A new process of the daemon does not
inherit the strikes of an earlier one.

A daemon of which two processes run at the same time (`identities`) is left out, too, whichever process it is,
until both are no longer heard.

The thesis has nothing like it: its daemons do not fail in such ways. A daemon that decides on an exclusion
announces it in its station (`wire.membership`), and every daemon that learns of it does the same: a daemon
that a single member left out would be brought back into the view by the next member that still works with it.
A strike is announced there, too, and counts as the first one for all: it is not always the same daemon that
runs out of patience first.
Checked by: tests/unit/test_exclusions.py, tests/paper/test_standstill.py.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from antiphon import limits
from antiphon.core.membership.identities import Identities
from antiphon.core.ordering.stability import daemon_of
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Beat, Exclusion, Proposal, Station

ALL_PROCESSES = 0
"""Stands for an incarnation: the exclusion is of every process with the daemon's name."""
TWINS = "two processes of this daemon run at the same time: end one of them"


def culprits(waited_for: Collection[int], members: Collection[int], me: int) -> tuple[int, ...]:
    """The daemons to blame if `me` waits in vain for some members of a view: these, or if it waits for all
    others or for no other, itself.

    >>> culprits({2}, (0, 1, 2), me=0), culprits({1, 2}, (0, 1, 2), me=0), culprits({1}, (0, 1), me=0)
    ((2,), (0,), (1,))
    """
    others = set(members) - {me}
    blamed = set(waited_for) & others
    is_own_fault = not blamed or (blamed == others and len(others) > 1)
    return (me,) if is_own_fault or len(blamed) > limits.EXCLUSIONS_TOLD_MAX else tuple(sorted(blamed))


class _Record(Struct):
    """The strikes and exclusions of one process of a daemon."""

    incarnation: int
    strikes: int = 0
    struck_us: int = -(10**15)
    accused_us: int = -(10**15)
    """When this daemon last gave it a strike."""
    times: int = 0
    """How often it was left out by our own decision."""
    until_us: int = -(10**15)
    is_ours: bool = False
    """Whether this daemon itself has decided to leave it out."""
    reason: str = ""


class Exclusions:
    """The daemons that one daemon leaves out, itself included: then it works with no other daemon."""

    def __init__(self, me: int, incarnation: int) -> None:
        self._me = me
        self._incarnation = incarnation
        self._records: dict[int, _Record] = {}
        self._identities = Identities()
        self._twins: dict[int, int] = {}  # daemons that run twice -> until when both processes are left out

    def hear(
        self, daemon: int, incarnation: int, beat: Beat, working_view: DaemonView | None, now_us: int
    ) -> bool:
        """A beat came in. If it shows that two processes of its daemon run at the same time, both are left
        out, and any other for a while; whether that is new and a reason to give up `working_view`."""
        if not self._identities.hear(daemon, incarnation, beat.clock_us, beat.echo_us, now_us):
            return False
        is_new = self._twins.get(daemon, now_us) <= now_us
        self._twins[daemon] = now_us + limits.TWIN_OUT_US
        return is_new and working_view is not None and daemon in working_view.members

    def contradicted(self, working_view: DaemonView | None, proposal: Proposal, now_us: int) -> int | None:
        """The daemon that has proposed two views with one identifier, if a proposal shows that: two processes
        of it have, which have the same number and do not know of each other's clocks."""
        if working_view is None or proposal.id != working_view.id:
            return None
        told = (proposal.members, proposal.incarnations, set(proposal.pairs))
        if told == (working_view.members, working_view.incarnations, set(working_view.links)):
            return None
        twin = daemon_of(proposal.id)
        self._twins[twin] = now_us + limits.TWIN_OUT_US
        return twin

    def strike(self, daemon: int, incarnation: int, reason: str, now_us: int) -> bool:
        """A view stood still because of a daemon; whether it is left out now."""
        record = self._of(daemon, incarnation)
        if now_us - record.struck_us > limits.STRIKES_WITHIN_US:
            record.strikes = record.times = 0
        record.strikes += 1
        record.struck_us = record.accused_us = now_us
        if record.strikes < limits.STRIKES_MAX:
            return False
        self.exclude(daemon, incarnation, reason, now_us)
        return True

    def exclude(self, daemon: int, incarnation: int, reason: str, now_us: int) -> None:
        """Leave a daemon out from now on."""
        record = self._of(daemon, incarnation)
        if now_us - record.until_us > limits.STRIKES_WITHIN_US:
            record.times = 0
        record.times += 1
        self._leave_out(record, reason, now_us)

    def renew(self, daemon: int, incarnation: int, reason: str, now_us: int) -> None:
        """The same; but for a daemon that is left out already by our own decision, the time begins anew and
        does not double."""
        record = self._of(daemon, incarnation)
        if record.is_ours and now_us < record.until_us:
            self._leave_out(record, reason, now_us)
        else:
            self.exclude(daemon, incarnation, reason, now_us)

    def _leave_out(self, record: _Record, reason: str, now_us: int) -> None:
        record.strikes = max(record.strikes, limits.STRIKES_MAX)
        record.struck_us = now_us
        wait_us = limits.EXCLUDED_US << min(record.times - 1, 20)
        record.until_us = now_us + min(wait_us, limits.EXCLUDED_MAX_US)
        record.reason = reason
        record.is_ours = True

    def blame(self, waited_for: Collection[int], view: DaemonView, reason: str, now_us: int) -> int:
        """Give a strike to the members for which a view waited when it stood still; one of them."""
        blamed = culprits(waited_for, view.members, self._me)
        for daemon in blamed:
            self.strike(daemon, view.incarnation(daemon) or 0, reason, now_us)
        return blamed[0]

    def adopt(self, told: Iterable[Exclusion], now_us: int) -> bool:
        """Another daemon announces exclusions and strikes; whether a daemon is left out anew."""
        is_new = False
        for daemon, incarnation, remaining_us in told:
            if incarnation == ALL_PROCESSES:
                if daemon != self._me and self._twins.get(daemon, now_us) <= now_us:
                    self._twins[daemon] = now_us + min(remaining_us, limits.TWIN_OUT_US)
                    is_new = True
                continue
            record = self._of(daemon, incarnation)
            if daemon == self._me or (record.is_ours and now_us < record.until_us):
                continue  # when others leave us out they do not work with us, and that is enough
            if not remaining_us:
                if now_us - record.struck_us > limits.STRIKES_WITHIN_US:
                    record.strikes = record.times = 0
                record.strikes = max(record.strikes, 1)
                record.struck_us = now_us
                continue
            until_us = now_us + min(remaining_us, limits.EXCLUDED_MAX_US)
            if record.until_us <= now_us < until_us:
                is_new = True
                record.reason = "another daemon leaves it out"
            record.is_ours = False
            record.until_us = until_us
        return is_new

    def is_out(self, daemon: int, incarnation: int, now_us: int) -> bool:
        """Whether this process of a daemon is left out now."""
        if self._twins and now_us < self._twins.get(daemon, now_us):
            return True
        record = self._records.get(daemon)
        return record is not None and now_us < record.until_us and record.incarnation == incarnation

    def is_apart(self, daemon: int, incarnation: int, now_us: int) -> bool:
        """Whether this daemon does not work with another one: either of them is left out."""
        is_alone = self.is_out(self._me, self._incarnation, now_us)
        return is_alone or self.is_out(daemon, incarnation, now_us)

    def among(self, stations: Mapping[int, Station], now_us: int) -> frozenset[int]:
        """The other daemons among these that are left out now."""
        return frozenset(
            daemon
            for daemon, station in stations.items()
            if daemon != self._me and self.is_out(daemon, station.incarnation, now_us)
        )

    def told(self, now_us: int) -> tuple[Exclusion, ...]:
        """The exclusions that this daemon decided on and its strikes of late, for its station."""
        told = [
            (daemon, record.incarnation, max(0, record.until_us - now_us) if record.is_ours else 0)
            for daemon, record in sorted(self._records.items())
            if (record.is_ours and now_us < record.until_us)
            or now_us - record.accused_us < limits.STRIKE_TOLD_US
        ]
        twins = [
            (daemon, ALL_PROCESSES, until_us - now_us)
            for daemon, until_us in sorted(self._twins.items())
            if now_us < until_us
        ]
        return tuple((twins + told)[: limits.EXCLUSIONS_TOLD_MAX])

    def current(self, now_us: int) -> dict[int, tuple[str, int]]:
        """Daemons that are left out -> why, and for how much longer in microseconds."""
        current = {
            daemon: (record.reason, record.until_us - now_us)
            for daemon, record in self._records.items()
            if now_us < record.until_us
        }
        current |= {
            daemon: (TWINS, until_us - now_us)
            for daemon, until_us in self._twins.items()
            if now_us < until_us
        }
        return dict(sorted(current.items()))

    def _of(self, daemon: int, incarnation: int) -> _Record:
        record = self._records.get(daemon)
        if record is None or record.incarnation != incarnation:
            record = self._records[daemon] = _Record(incarnation)
        return record
