"""Standstill: in a view that works, with all neighbours alive, something is waited for and does not come.

The thesis has nothing like it, because correct daemons never stand still. A packet that was damaged or made
up, a daemon with a mistake, or one whose memory is wrong can bring that about, and would do so for ever. What
is watched, each with a patience that is a multiple of `stall_us` (at least four times `suspect_us`):

- bundle: one that is known to exist does not come. One `stall_us`. While data comes in, a slow path may
  still have it in its queue: that time does not count, unless a later bundle of the same source has come.
  Nor does it count while no neighbour has it either: the queue may be further up, out of our sight.
- announcement: a source does not announce that it will send nothing earlier than what has come. One
  `stall_us` if that is ours, and the other side of our link to the source has it. Otherwise it takes
  `limits.STALL_PATIENT_TIMES` as long: a daemon that has everything does not see others progress. While
  64 KiB or more of ours are under way on a link, the time does not count either.
- acknowledgement: a source does not acknowledge what has come. `limits.STALL_PATIENT_TIMES`.
- the token of a ring does not come to a daemon that has something to send. One `stall_us`.
- groups: after a merge, a daemon does not announce its groups. `limits.STALL_GROUPS_TIMES`.

Time that does not count ends at `limits.STALL_BUSY_TIMES` the patience.

A daemon that runs out of patience ends the view; `membership.exclusions` decides what becomes of the daemons
that were waited for. A session that makes senders wait is no standstill: then nothing waits in the order.
Checked by: tests/paper/test_standstill.py, the scenario `poisoned` and its mutants.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon import limits
from antiphon.core.membership.engine import Engine
from antiphon.core.membership.states import State

if TYPE_CHECKING:
    from antiphon.core.node import Node

LOOKS_PER_STALL = 20
SUSPICIONS_PER_STALL = 4


class Standstill(Struct, frozen=True):
    """Messages do not flow."""

    since_us: int
    waits_for: tuple[int, ...]
    """The daemons that are waited for, if any are known."""
    detail: str
    """What is waited for, as text."""


class _Wait(Struct, frozen=True):
    """Something that must come from other daemons."""

    kind: str
    source: int
    daemons: frozenset[int]
    """The daemons from which it may come."""
    mark: tuple[int, ...]
    """The progress so far: it changes while what is waited for comes nearer."""
    patience_us: int
    detail: str
    is_told: bool = False
    """Whether the source is known to have got what it must answer."""


class _Patience(Struct):
    """How long a wait has lasted without anything that moved."""

    wait: _Wait
    since_us: int
    counted_us: int = 0
    lasted_us: int = 0
    was_told: bool = False
    """Whether the source was known to have got it at any time; then it need not be patient any more."""

    @property
    def most_us(self) -> int:
        patience_us = self.wait.patience_us
        return patience_us // limits.STALL_PATIENT_TIMES if self.was_told else patience_us

    @property
    def is_over(self) -> bool:
        return self.counted_us >= self.most_us or self.lasted_us >= limits.STALL_BUSY_TIMES * self.most_us

    @property
    def is_worth_telling(self) -> bool:
        return self.lasted_us * limits.STALL_TOLD_SHARE >= self.most_us

    def goes_on(self, wait: _Wait, window_us: int, is_excused: bool) -> None:
        """Nothing has moved in another window of time."""
        self.wait = wait
        self.lasted_us += window_us
        if not is_excused:
            self.counted_us += window_us
        if wait.is_told and not self.was_told:
            self.was_told = True
            self.counted_us = self.lasted_us = 0


class Stalls:
    """Watches the installed view of one daemon."""

    def __init__(self, node: "Node", now_us: int) -> None:
        timing = node.membership.timing
        self.stall_us = max(timing.stall_us, SUSPICIONS_PER_STALL * timing.suspect_us)
        self._node = node
        self._interval_us = self.stall_us // LOOKS_PER_STALL
        self._looked_us = now_us
        self._view = 0
        self._received_bytes = 0
        self._patience: dict[tuple[str, int], _Patience] = {}

    # Watching ---------------------------------------------------------------------------------------------

    def look(self, now_us: int) -> None:
        """Is anything waited for that does not come? Called now and then."""
        node = self._node
        window_us = now_us - self._looked_us
        if not node.membership.is_active or window_us < self._interval_us:
            return
        self._looked_us = now_us
        engine = node.engine
        if engine.view.id != self._view:
            self._view = engine.view.id
            self._patience.clear()
            self._received_bytes = 0
        came_bytes = engine.received_bytes - self._received_bytes
        self._received_bytes = engine.received_bytes
        is_busy = came_bytes * 1_000_000 >= limits.STALL_BUSY_BYTES_PER_S * window_us
        # A long window is a pause of this daemon itself, for which the others are not to blame.
        window_us = min(window_us, 2 * self._interval_us)
        before, self._patience = self._patience, {}
        # Deliveries come first: a daemon that waits for one does not acknowledge either.
        for wait in (*self._deliveries(engine), *self._others(engine), *self._acknowledgements(engine)):
            key = (wait.kind, wait.source)
            patience = before.get(key)
            if patience is None or patience.wait.mark != wait.mark:
                patience = _Patience(wait, now_us, was_told=wait.is_told)
            else:
                patience.goes_on(wait, window_us, self._is_excused(engine, wait, is_busy))
            self._patience[key] = patience
        self._end_view(now_us)

    def _is_excused(self, engine: Engine, wait: _Wait, is_busy: bool) -> bool:
        """Whether what is waited for may be behind other data, here or on its way."""
        if wait.kind not in ("bundle", "announcement", "acknowledgement"):
            return False
        is_sending = wait.kind != "bundle" and any(
            link.waiting_bytes + link.open_bytes > limits.STALL_QUEUE_BYTES for link in engine.links.values()
        )
        if is_sending or (is_busy and not engine.order.has_later(wait.source)):
            return True
        return wait.kind == "bundle" and self._is_further_up(engine, wait.source)

    def _is_further_up(self, engine: Engine, source: int) -> bool:
        """Whether no neighbour at another site has what we wait for: then it is for them, who are nearer to
        the source, to notice a standstill. Of the daemons of our own segment only all together are known."""
        if engine.site_link is not None:
            return False
        return not any(engine.order.has_all_of(engine.source_of[peer], source) for peer in engine.links)

    def _deliveries(self, engine: Engine) -> list[_Wait]:
        """What must come before something can be delivered."""
        waits = []
        for source, contiguous, known, lts in engine.order.waited_for():
            kind, times, is_told = "bundle", 1, False
            detail = f"bundle {contiguous + 1} of {known} is missing"
            if known == contiguous:
                kind, times, is_told = (
                    "announcement", limits.STALL_PATIENT_TIMES, self._has_got_all(engine, source),
                )  # fmt: skip
                detail = "no announcement that nothing earlier was sent"
            mark = (contiguous, lts, engine.reassembly[source].received_of(contiguous + 1))
            members = self._members_of(engine, source)
            waits.append(_Wait(kind, source, members, mark, times * self.stall_us, detail, is_told))
        return waits

    def _acknowledgements(self, engine: Engine) -> list[_Wait]:
        """The sources that have not acknowledged what was sent."""
        return [
            _Wait(
                "acknowledgement",
                source,
                self._members_of(engine, source),
                (aru,),
                limits.STALL_PATIENT_TIMES * self.stall_us,
                "no acknowledgement of what was sent",
            )
            for source, aru in engine.order.unacknowledged()
        ]

    def _has_got_all(self, engine: Engine, source: int) -> bool:
        """Whether a source must know what waits here: we sent it ourselves, and the other side of our link
        has acknowledged it."""
        links = [link for daemon, link in engine.links.items() if engine.source_of[daemon] == source]
        is_ours = engine.order.first_waiting_source() == self._node.me == engine.order.source
        return bool(links) and is_ours and all(link.is_quiet for link in links)

    def _others(self, engine: Engine) -> list[_Wait]:
        node = self._node
        waits = []
        if node.regrouping.merging is not None:
            patience_us = limits.STALL_GROUPS_TIMES * self.stall_us
            missing = node.regrouping.merging.missing
            came_bytes = sum(engine.reassembly[engine.source_of[daemon]].buffered_bytes for daemon in missing)
            daemons, mark = frozenset(missing) - {node.me}, (*missing, came_bytes)
            waits.append(_Wait("groups", node.me, daemons, mark, patience_us, "its groups have not come"))
        link, source = engine.site_link, engine.order.source
        if link is not None and not link.has_turn and node.admission.has_leave and node.sessions.waiting:
            daemons, mark = self._members_of(engine, source), (link.turns,)
            detail = f"the token of the {link.protocol} does not arrive"
            waits.append(_Wait("token", source, daemons, mark, self.stall_us, detail))
        return waits

    def _end_view(self, now_us: int) -> None:
        """End the view if patience is over."""
        over = [patience for patience in self._patience.values() if patience.is_over]
        if over:
            # Others may wait only because of the first; waits that have lasted nearly as long count, too.
            kind = over[0].wait.kind
            together = [
                patience
                for patience in self._patience.values()
                if patience.wait.kind == kind and 2 * patience.lasted_us >= over[0].lasted_us
            ]
            found = self._standstill(together)
            lasted_s = (now_us - found.since_us) / 1e6
            self._patience.clear()
            detail = f"no progress for {lasted_s:.1f} s: {found.detail}"
            self._node.membership.loss.stalled(found.waits_for, detail, now_us)

    def _standstill(self, patience: list[_Patience]) -> Standstill:
        """The standstill that these waits make together."""
        first = max(patience, key=lambda one: one.lasted_us)
        daemons: set[int] = set()
        for one in patience:
            daemons |= one.wait.daemons
        waits_for = tuple(sorted(daemons))
        names = ", ".join(self._node.config.daemon_names[daemon] for daemon in waits_for)
        detail = f"waiting for {names or 'no other'}: {first.wait.detail}"
        return Standstill(first.since_us, waits_for, detail)

    def _members_of(self, engine: Engine, source: int) -> frozenset[int]:
        """The other daemons of a source."""
        segment = next(segment for segment in engine.segments if segment[0] == source)
        return frozenset(segment) - {self._node.me}

    # Telling ----------------------------------------------------------------------------------------------

    def standstill(self) -> Standstill | None:
        """Why messages do not flow, if they do not, as far as it is worth telling."""
        node = self._node
        membership = node.membership
        names = node.config.daemon_names
        if membership.standing.stopped_us is not None:
            waits_for = node.waits_for()
            if membership.state is State.REP:
                waits_for = (membership.standing.representative,)
            whom = f", waiting for {', '.join(names[daemon] for daemon in waits_for)}" if waits_for else ""
            current = membership.rounds.current
            why = f"; {current.detail}" if current is not None else ""
            detail = f"no view works, state {node.state}{whom}{why}"
            return Standstill(membership.standing.stopped_us, waits_for, detail)
        told = [patience for patience in self._patience.values() if patience.is_worth_telling]
        if told:
            return self._standstill([one for one in told if one.wait.kind == told[0].wait.kind])
        if node.regrouping.merging is not None:
            missing = node.regrouping.merging.missing
            whom = ", ".join(names[daemon] for daemon in missing)
            return Standstill(
                membership.standing.since_us, missing, f"groups are put together, waiting for {whom}"
            )
        return None
