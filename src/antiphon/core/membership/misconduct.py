"""Nonsense under a valid seal: counted for each neighbour, and past a bound that daemon is left out of views.

What a seal vouches for was made by a process with the cluster's key, as it is. If it is something that no
daemon makes (`errors.Nonsense`), then no loss, delay, repetition or change of order explains it, and no
clock: the process has a mistake, its memory is wrong, or somebody else has the key. Each such packet is
refused and changes nothing, but it costs its opening; on a connection it ends that. So a neighbour of which
`limits.NONSENSE_MAX` came within `limits.NONSENSE_WITHIN_US` is left out like one because of which views
stand still (`exclusions`): for a time that doubles, whoever learns of it does the same, and it is taken in
again afterwards.

What does not count, because honest daemons may be the cause:

- packets without a seal: anybody can have sent them, in anybody's name
- numbers and stamps that are implausible just now: they may be early, or passed on for a third daemon, which
  could so have an honest one left out. If they stop a view, `stalls` finds out because of whom
- packets of another version of the protocol, or of another configuration
- packets that came before, and introductions: a stranger may have recorded them

The ways of a neighbour through this, all of them in `note`:

- below the bound: it is counted, and nothing else happens
- at the bound, in the view over whose links this daemon works: it is left out, and the view is lost
- at the bound, outside of that view: it is left out; there is no view to lose
- while it is left out, in a view that is proposed: to ignore that would keep others waiting, so the view is
  accepted, and lost at once, which tells them (`look_at`). Only that daemon proposes such a view, or one that
  has not heard yet
- at the bound again, while it is left out: the time begins anew, and is no longer than it was
- at the bound, when half of it or more has come of each other member, too, and these are at least two: it is
  this daemon that does not understand, and that leaves itself out
- as a new process: it begins with nothing against it

It follows no paper: the papers trust every packet.
Checked by: tests/unit/test_misconduct.py, the scenario `nonsense` and its mutants.
"""

from msgspec import Struct

from antiphon import limits
from antiphon.core.membership.loss import Loss
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.standing import Standing
from antiphon.core.view import DaemonView


class _Record(Struct):
    """What came of one process of a neighbour."""

    incarnation: int
    since_us: int
    """When the count began."""
    count: int = 0
    """Since then; what came over a connection counts more than once."""
    total: int = 0
    """Packets, in the whole life of the process."""
    newest_us: int = 0
    reason: str = ""
    """Of the newest one."""
    is_left_out: bool = False
    """Whether the process was left out because of it."""

    def is_old(self, now_us: int) -> bool:
        """Whether what was counted says nothing any more."""
        return now_us - self.since_us > limits.NONSENSE_WITHIN_US


class Misconduct:
    """What one daemon has against its neighbours: at most one record for each."""

    def __init__(self, me: int, incarnation: int, standing: Standing, presence: Presence, loss: Loss) -> None:
        self._me = me
        self._incarnation = incarnation
        self._standing = standing
        self._presence = presence
        self._loss = loss
        self._records: dict[int, _Record] = {}

    def note(self, sender: int, incarnation: int, reason: str, is_connected: bool, now_us: int) -> None:
        """Nonsense came of a neighbour, under its seal; `is_connected`: over a connection, which ends with
        it."""
        if sender not in self._presence.peers:
            return
        record = self._records.get(sender)
        if record is None or record.incarnation != incarnation:
            record = self._records[sender] = _Record(incarnation, now_us)
        elif record.is_old(now_us):
            record.count, record.since_us = 0, now_us
        record.count += limits.NONSENSE_PER_CONNECTION if is_connected else 1
        record.total += 1
        record.newest_us = now_us
        record.reason = reason
        if record.count >= limits.NONSENSE_MAX:
            self._leave_out(sender, record, now_us)

    def _leave_out(self, sender: int, record: _Record, now_us: int) -> None:
        """The bound is reached."""
        exclusions, working = self._presence.exclusions, self._standing.working_view
        name = self._presence.name(sender)
        others = set() if working is None else set(working.members) - {self._me}
        detail = f"{name} sends what no daemon sends, sealed with the cluster's key ({record.reason})"
        daemon, incarnation = sender, record.incarnation
        if len(others) > 1 and others <= self._talkers(now_us):
            daemon, incarnation = self._me, self._incarnation
            detail = f"what all others send makes no sense to this daemon ({record.reason})"
        else:
            record.is_left_out = True
        record.count, record.since_us = 0, now_us
        exclusions.renew(daemon, incarnation, detail, now_us)
        if working is not None and working.incarnation(sender) == record.incarnation:
            self._loss.lose(Reason.NONSENSE, sender, detail, now_us)

    def look_at(self, forming: DaemonView, now_us: int) -> None:
        """A view was accepted: it must not have a daemon that is left out by our own decision."""
        exclusions = self._presence.exclusions
        for daemon, record in self._records.items():
            if (
                record.is_left_out
                and forming.incarnation(daemon) == record.incarnation
                and exclusions.is_out(daemon, record.incarnation, now_us)
            ):
                detail = f"{self._presence.name(daemon)} is left out because it sends what no daemon sends"
                self._loss.lose(Reason.NONSENSE, daemon, detail, now_us)
                return

    def _talkers(self, now_us: int) -> set[int]:
        """The neighbours of which at least half as much came as it takes."""
        return {
            daemon
            for daemon, record in self._records.items()
            if 2 * record.count >= limits.NONSENSE_MAX and not record.is_old(now_us)
        }

    def describe(self, now_us: int) -> list[dict[str, object]]:
        """For `antiphon status`: of which neighbours nonsense came."""
        return [
            {
                "daemon": self._presence.name(daemon),
                "packets": record.total,
                "reason": record.reason,
                "ago_us": now_us - record.newest_us,
            }
            for daemon, record in sorted(self._records.items())
        ]
