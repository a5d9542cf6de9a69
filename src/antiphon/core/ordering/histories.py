"""Causal histories at the sender: what comes before the next bundle of each session.

The past of a session is what it has sent and what its daemon has handed to it, and the pasts of all that
(NAVTECH's logical precedence, with sessions as processes). A daemon keeps it for each of its sessions, as
*causes*: for a sender the number of a bundle, which stands for the sender's earlier ones, too, and the sites
that may not have delivered it yet. Every bundle of a session carries them, whatever its service, because a
past is handed on by all of them. As long as no session of the view sends a causal message, none is kept and
none is told. A past from before is told as a *floor*: everything up to an lts.

Follows: NAVTECH 4.2 and 4.3. R1: a view begins with empty histories, since all of the view before is
delivered. R2: a bundle is stamped with what is left of its session's past. R4 and R6: `heard` and `stamp`;
the carbon-copy history is the part of the destinations that is no longer among the `sites` of a cause. R8: a
cause without sites is forgotten. R9: causes that concern this daemon alone do not leave it.
Deviations:
- R7 would leave out what was reported to the same destinations before. Here destinations are sites, and what
  was reported to one session of a site is not known to its others. So causes go out until R8 drops them.
- the sender's site is not taken to have its own message: an agreed one may be delivered there last.
- what the stable line has passed has come everywhere. It is forgotten, and told as a line: receivers that
  have delivered all of it, which is nearly always so, do not wait.
- R9 is for daemons that are alone at their sites: such a daemon is the separator of its sessions, and has
  delivered what they got. NAVTECH's separators of a whole site stamp anew what they forward into it. Here
  bundles are not changed on their way, and at a site with several daemons each may lack what another has
  delivered, so its causes leave it until they are stable.
Checked by: tests/paper/test_causal.py, tests/unit/test_histories.py, the oracle's properties 2.12 and "no
needless waiting".
"""

from collections.abc import Iterable, Mapping

from antiphon import limits
from antiphon.core.ordering.order import Order, Sender
from antiphon.errors import BadFrame
from antiphon.service import UNRELIABLE
from antiphon.wire.bundle import Header
from antiphon.wire.extensions import HEAD_BYTES, Extension
from antiphon.wire.history import Cause, History, extension, history_of

Stamped = tuple[History, Extension]
"""The history of a bundle, and what its header says of it."""


class _Past:
    """What comes before the next bundle of one session."""

    __slots__ = ("causes", "floor", "heard", "stable")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """Everything up to this lts."""
        self.stable = 0
        """The same, and it is known to have come everywhere."""
        self.causes: dict[Sender, list[Cause]] = {}
        """By sender, in the order of their numbers; no two have a site in common."""
        self.heard: dict[Sender, Header] = {}
        """The newest bundle of each sender that was handed to the session and is not among the causes yet."""

    def count(self) -> int:
        return sum(map(len, self.causes.values()))

    def raise_floor(self, lts: int) -> None:
        if lts > self.floor:
            self.floor = lts

    def add(self, cause: Cause, covers: int = 0) -> None:
        """Add a cause; `covers` are the sites at which it comes after all earlier ones of its sender."""
        sender = (cause.daemon, cause.session)
        known = self.causes.get(sender)
        if known is None:
            if cause.sites:
                self.causes[sender] = [cause]
            return
        number, sites = cause.number, cause.sites
        kept: list[Cause] = []
        for one in known:
            if one.number < number:
                one = _without(one, sites | covers)
            elif one.number == number:
                sites &= one.sites
                continue
            else:
                sites &= ~one.sites
            if one.sites:
                kept.append(one)
        if sites:
            kept.append(Cause(cause.daemon, cause.session, number, cause.lts, sites))
            kept.sort(key=lambda one: one.number)
        if kept:
            self.causes[sender] = kept
        else:
            del self.causes[sender]

    def report(self, sites: int) -> None:
        """What is here was reported to these sites: whatever the session sends there comes after it."""
        for sender, known in list(self.causes.items()):
            kept = [one for one in (_without(one, sites) for one in known) if one.sites]
            if kept:
                self.causes[sender] = kept
            else:
                del self.causes[sender]

    def forget_stable(self, stable: int) -> None:
        """Everything up to `stable` has come everywhere: a line says as much as the causes up to it."""
        self.stable = max(self.stable, self.forget_up_to(stable))
        if self.floor <= stable:
            self.stable = max(self.stable, self.floor)
            self.floor = 0

    def forget_up_to(self, lts: int) -> int:
        """Forget the causes that were born up to this lts; the lts of the newest one."""
        newest = 0
        for sender, known in list(self.causes.items()):
            if known[0].lts > lts:
                continue
            newest = max(newest, *(one.lts for one in known if one.lts <= lts))
            kept = [one for one in known if one.lts > lts]
            if kept:
                self.causes[sender] = kept
            else:
                del self.causes[sender]
        return newest

    def newest_first(self) -> list[Cause]:
        found = [one for known in self.causes.values() for one in known]
        found.sort(key=lambda one: one.lts, reverse=True)
        return found


def _without(cause: Cause, sites: int) -> Cause:
    left = cause.sites & ~sites
    if left == cause.sites:
        return cause
    return Cause(cause.daemon, cause.session, cause.number, cause.lts, left)


class Histories:
    """The pasts of one daemon's sessions in one view."""

    def __init__(self, me: int, site: int, order: Order, daemons_of: Mapping[int, int]) -> None:
        """`daemons_of` says how many daemons of the view each site has."""
        self.is_active = False
        """Whether pasts are kept: a causal message was sent in this view, here or elsewhere."""
        self.told = 0
        """How many histories were told."""
        self.told_causes = 0
        """How many causes all of them had."""
        self.largest_bytes = 0
        """The size of the largest history that was told."""
        self.cut_short = 0
        """How many histories were too large, and got a floor instead of some causes."""
        self._me = me
        self._order = order
        self._here = 1 << site
        self._is_alone = daemons_of[site] == 1
        self._since = 0
        self._pasts: dict[int, _Past] = {}

    @property
    def kept_causes(self) -> int:
        """Causes in the pasts of all sessions."""
        return sum(past.count() for past in self._pasts.values())

    def begin(self) -> None:
        """A causal message is sent, or a history has come: whatever was before is told as a floor."""
        if not self.is_active:
            self.is_active = True
            self._since = max(self._order.highest_lts, self._order.loose_lts)

    def forget(self, session: int) -> None:
        """A session of this daemon is over."""
        self._pasts.pop(session, None)

    # What a session gets ----------------------------------------------------------------------------------

    def heard(self, sessions: Iterable[int], header: Header) -> None:
        """A bundle is handed to these sessions of this daemon."""
        sender = (header.daemon, header.session)
        mine = header.session if header.daemon == self._me else 0
        for session in sessions:
            if session == mine:
                continue  # what it sent itself is in its past already
            past = self._past_of(session)
            if header.service is UNRELIABLE:
                self._hear_unreliable(past, header)
                continue
            known = past.heard.get(sender)
            if known is None or header.number > known.number:
                past.heard[sender] = header
                if len(past.heard) > limits.PAST_SENDERS_MAX:
                    self._put_together(past)

    def _past_of(self, session: int) -> _Past:
        past = self._pasts.get(session)
        if past is None:
            past = self._pasts[session] = _Past(self._since)
        return past

    def _hear_unreliable(self, past: _Past, header: Header) -> None:
        """It stands outside of the order, so nobody waits for it, and nothing is known to be after it."""
        try:
            history = history_of(header)
        except BadFrame:
            history = None
        if history is None:
            past.raise_floor(header.lts)
            return
        past.raise_floor(history.floor)
        past.stable = max(past.stable, history.stable)
        for cause in history.causes:
            past.add(cause)

    def _put_together(self, past: _Past) -> None:
        """R4 and R6, for all bundles that the session got since the last time."""
        heard, past.heard = past.heard, {}
        queue = self._order.causal
        for sender, header in heard.items():
            history = history_of(header) if header.destinations & self._here else None
            if history is not None and queue.is_resolved(sender, header.number, header.lts):
                self._add_past_of(past, header, history)
            else:  # from before histories were told, a late copy, or delivered before its past
                past.raise_floor(header.lts)
        past.forget_stable(self._order.lines.stable)
        if past.count() > limits.PAST_CAUSES_MAX:
            middle = past.newest_first()[limits.PAST_CAUSES_MAX // 2].lts
            past.raise_floor(past.forget_up_to(middle))

    def _add_past_of(self, past: _Past, header: Header, history: History) -> None:
        reported = header.destinations
        delivered = self._here if self._is_alone else 0
        past.raise_floor(history.floor)
        past.stable = max(past.stable, history.stable)
        for cause in history.causes:
            past.add(_without(cause, reported | delivered))
        past.add(
            Cause(header.daemon, header.session, header.number, header.lts, reported & ~delivered),
            covers=reported,
        )

    # What a session sends ---------------------------------------------------------------------------------

    def stamp(self, session: int, number: int, lts: int, destinations: int) -> Stamped:
        """R2: the history of a session's bundle, which then is part of its past (R4, R6)."""
        told = self.look(session, lts)
        past = self._pasts[session]
        past.report(destinations)
        past.add(Cause(self._me, session, number, lts, destinations), covers=destinations)
        return told

    def look(self, session: int, lts: int) -> Stamped:
        """The history of a bundle that will not be waited for."""
        past = self._past_of(session)
        self._put_together(past)
        history = History(past.floor, past.stable, tuple(past.newest_first()))
        told = extension(lts, history)
        if HEAD_BYTES + len(told.value) > limits.HISTORY_MAX_BYTES:
            self.cut_short += 1
            while HEAD_BYTES + len(told.value) > limits.HISTORY_MAX_BYTES:
                history = _shortened(history)
                told = extension(lts, history)
        self.told += 1
        self.told_causes += len(history.causes)
        self.largest_bytes = max(self.largest_bytes, len(told.value))
        return history, told


def _shortened(history: History) -> History:
    """The same history with the newer half of its causes, and a floor for the others."""
    half = len(history.causes) // 2
    newer, older = history.causes[:half], history.causes[half:]
    return History(max(history.floor, older[0].lts), history.stable, newer)
