"""Members that chose less than the sender asked for get a bundle as early as their choice allows.

Follows: InterGroup 5: each receiver chooses the reliability and order with which it gets messages.
Deviations: every bundle is kept and ordered as its sender asked, whatever anybody chose. A choice is a
*ceiling*: the service that a member wants at the most. A bundle *reaches* RELIABLE when it comes, FIFO when
everything that its session sent before has reached FIFO or is delivered, AGREED when its place in the agreed
order is certain and everything before it is delivered or has reached AGREED. When it reaches what somebody
chose it is *offered*: its daemon hands it to those members, and leaves them out when it is delivered.
- What the order holds to its place for reasons of its own (it came between two views, or beside a join that
  it comes after) is not offered before that; what follows it in its session waits, too.
- In the adaptive order a bundle that waits for its ticket has no place: whoever read it and sent something
  would send that before it. So it is offered when its place is certain.
- What was offered in its place of the agreed order is not dropped at the end of the view, as if it were
  delivered: daemons tell it (`state.SourceState.overtook`). What was offered earlier than that may be.
- Events of groups stop the way to AGREED: nothing is agreed before the view that comes before it.
Checked by: the scenario `choices`, the oracle's "choices" and the properties that members chose.
"""

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.fifo import Chain
from antiphon.service import AGREED, FIFO, RELIABLE, Service
from antiphon.wire.bundle import Flag

_DAEMON_FLAGS = ~Flag.CLIENT
_CHANGES = Flag.EVENT | Flag.GROUPS | Flag.ORDER
"""Bundles that change who gets those after them, or the order itself."""


class Offer(Struct, frozen=True):
    """A bundle that has reached what somebody chose, before it is delivered."""

    entry: Entry
    level: int
    """What it had reached: by the time of the offer it may be more, but not for what comes before it."""


class EarlyQueue:
    """The bundles of one daemon in one view that are not delivered, while a session here chose less."""

    def __init__(self, ready: deque[Entry | Offer], contiguous: Callable[[int], int]) -> None:
        """Offers are put into `ready`; `contiguous` has the number up to which a source's bundles have
        come."""
        self.is_active = False
        """Whether somebody here chose less."""
        self.offered = 0
        """How many offers were made."""
        self._ceilings: frozenset[Service] = frozenset()
        self._ready = ready
        self._contiguous = contiguous
        self._chains: dict[tuple[int, int], Chain] = {}
        self._blocked: dict[int, set[tuple[int, int]]] = {}  # by source
        self._is_stopped = False

    def choose(self, ceilings: frozenset[Service], undelivered: Iterable[Entry]) -> None:
        """These are chosen by sessions here. What is `undelivered` when the first one comes is not offered,
        but what follows it waits for it."""
        was_active = self.is_active
        self._ceilings = ceilings
        self.is_active = bool(ceilings) and not self._is_stopped
        if not self.is_active:
            self._chains.clear()
            self._blocked.clear()
        elif not was_active:
            for entry in sorted(undelivered, key=lambda entry: entry.header.number):
                entry.reached = 0
                self._chain_of(entry).received(entry.header.number)

    def stop(self) -> None:
        """The view has stopped: what is left is delivered in the agreed order."""
        self._is_stopped = True
        self.choose(frozenset(), ())

    def forget(self, senders: Iterable[tuple[int, int]]) -> None:
        """Sessions are over: their last bundles are delivered."""
        for sender in senders:
            self._chains.pop(sender, None)

    # What happens to bundles ------------------------------------------------------------------------------

    def came(self, entry: Entry, in_order: bool) -> None:
        """A bundle has come; `in_order`: it keeps to its place."""
        header = entry.header
        chain = self._chain_of(entry)
        chain.received(header.number)
        if in_order or not entry.place or header.flags & _DAEMON_FLAGS or header.service < FIFO:
            return
        if chain.is_ready(header.previous, self._contiguous(entry.source)):
            self._reach_fifo(entry)
            return
        self._reach(entry, RELIABLE)
        chain.wait(entry)
        self._blocked.setdefault(entry.source, set()).add((header.daemon, header.session))

    def delivered(self, entry: Entry) -> None:
        """A bundle is delivered to all who have not got it."""
        if entry.reached < FIFO:
            self._count(entry)

    def retry(self, source: int) -> None:
        """More of a source has come, or is known to be for other sites."""
        blocked = self._blocked.get(source)
        if not blocked:
            return
        contiguous = self._contiguous(source)
        for sender in sorted(blocked):
            chain = self._chains.get(sender)
            if chain is not None:
                chain.release(contiguous, self._reach_fifo)
            if chain is None or not chain.is_blocked:
                blocked.discard(sender)

    def agreed(self, waiting: list[Entry], is_certain: Callable[[Entry], bool]) -> None:
        """These are up to the agreed line and not delivered: they wait until others have them, or are behind
        what does. Those whose places are certain reach AGREED, up to the first event of a group."""
        for entry in sorted(waiting, key=lambda entry: entry.place):
            if entry.header.flags & _CHANGES or not is_certain(entry):
                return
            if entry.reached >= AGREED or entry.header.flags & _DAEMON_FLAGS:
                continue
            is_counted = entry.reached >= FIFO
            self._reach(entry, AGREED)
            if not is_counted:
                self._count(entry)

    def _chain_of(self, entry: Entry) -> Chain:
        sender = (entry.header.daemon, entry.header.session)
        chain = self._chains.get(sender)
        if chain is None:
            chain = self._chains[sender] = Chain()
        return chain

    def _reach_fifo(self, entry: Entry) -> None:
        self._reach(entry, FIFO)
        self._chain_of(entry).delivered(entry, self._contiguous(entry.source))

    def _count(self, entry: Entry) -> None:
        """A bundle that kept to its place has reached it: what follows it waits no longer."""
        header = entry.header
        chain = self._chain_of(entry)
        if entry in chain.waiting:
            chain.waiting.remove(entry)
        chain.delivered(entry, self._contiguous(entry.source))
        if chain.is_blocked:
            self._blocked.setdefault(entry.source, set()).add((header.daemon, header.session))
            self.retry(entry.source)

    def _reach(self, entry: Entry, level: Service) -> None:
        before, entry.reached = entry.reached, max(level, entry.reached)
        if any(before < ceiling <= level for ceiling in self._ceilings):
            self.offered += 1
            entry.is_shown |= level >= AGREED
            self._ready.append(Offer(entry, level))
