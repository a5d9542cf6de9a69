"""Resilience: an agreed bundle that is delivered only once enough daemons are known to hold it.

Follows: RMP 3.2 and figure 3.2 (K resilient, majority resilient, totally resilient).

A resilient bundle has its place in the one agreed order, and what comes after it waits for it, as for a safe
one. When the agreed order has reached it, a daemon delivers it if it counts K daemons of the view. These it
knows to hold it, and to deliver it unless they crash, in whatever part of the view they end up:

- the daemon that sent it: a daemon delivers what it has sent (2.15)
- itself: it is about to deliver the bundle, and whoever comes along with it will do so, too
- all daemons of a source whose announced aru has passed the bundle: they have everything that was born up to
  there, from all sources, so for none of them does the bundle come after a hole

To hold a bundle is not enough to count: a daemon that is cut off with it drops it if a lost source may have
sent something before it that is missing there. Nor does an lts that a source announces count: it says that
the source sends nothing more up to there, and nothing of what it has received. So a bundle that the agreed
line has passed may still be at its sender and at its receiver alone.
With K = 2 every daemon but the sender's own has its two at once. The aru of a daemon's own source comes with
the token of its ring, and needs no aru of another site: with K up to the size of a site, nobody waits for
these. Where they are needed they are announced at once, as for a safe bundle (`Order.needs_aru`).

In the adaptive order the agreed line does not wait for passive sources, and arus do. So a fourth kind counts
there, for K = 2: one *witness* of the sender tells all others when it has delivered the bundle and arus are
late. It is another daemon of the sender's site, or, if there is none, one of the next site that gets the
bundle. For a greater K no daemon could tell that it has delivered the bundle before arus have passed it.
A bundle may also have got its place by a ticket there. A part of the view that does not know that the ticket
is confirmed drops the bundle (`adaptive_ending`), so that a source counts once its aru has passed the
confirmation.

What the words mean: N is the number of daemons of the view. `total` is K = N. `majority` is K = N // 2 + 1.
The paper has (MaxN + 1) / 2 with MaxN the most members of any view of which some packet is not stable. A view
of ours ends with everything in it delivered or dropped, and nothing of it is left in the next one, so that
MaxN is N; of an even number more than half is taken.

Deviations:
- K counts daemons, not members: members live and fail with their daemons. The sender's and the receiver's own
  count, where RMP waits for K others.
- A bundle goes to the sites that have receivers, and to that of its sender. If these have fewer than K
  daemons, all of them are enough: then nobody is left who could deliver it and does not have it.
- At the end of a view nothing is added: what has not been delivered by anybody and is not known to be
  everywhere comes after the transitional signal, where it promises no more than an agreed bundle.
Checked by: tests/paper/test_resilience.py, the oracle's rule `resilience`.
"""

from collections.abc import Sequence

from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import Lines
from antiphon.core.overlay.topology import Segment
from antiphon.wire.resilience import MAJORITY, TOTAL, code_of

Key = tuple[int, int]
"""A bundle: its source and its number."""


class Resilience:
    """The bundles of one view that wait for their holders at one daemon."""

    def __init__(self, me: int, segments: Sequence[Segment], sites: Sequence[int]) -> None:
        """`sites` has the site of each of the segments of the view."""
        self.waiting: dict[Key, int] = {}
        """The resilient bundles that are here and not delivered, and how many daemons must hold each; those
        for which one is enough are not resilient. Empty in most views."""
        self._me = me
        self._source = next(segment[0] for segment in segments if me in segment)
        self._segments = [
            (segment[0], site, len(segment)) for segment, site in zip(segments, sites, strict=True)
        ]
        self._daemons = sum(map(len, segments))
        self._site_of = {
            daemon: site for segment, site in zip(segments, sites, strict=True) for daemon in segment
        }
        self._members = {segment[0]: segment for segment in segments}
        self._source_of = {daemon: segment[0] for segment in segments for daemon in segment}
        self._delivered: dict[int, int] = {}  # by daemon, the place up to which it says that it has delivered
        self.to_tell = 0
        """The place up to which this daemon has delivered, if it must tell that; otherwise 0."""

    def came(self, entry: Entry) -> bool:
        """A bundle with extensions has come; whether it may wait for the arus of other sources."""
        header = entry.header
        code = code_of(header.extensions)
        needed = self.needed(code, header.destinations) if code else 0
        if needed < 2:
            return False
        self.waiting[entry.source, header.number] = needed
        return self._needs_others(entry, needed)

    def needed(self, code: int, destinations: int) -> int:
        """How many daemons must hold a bundle for these sites that asks for `code`."""
        asked = code
        if code == TOTAL:
            asked = self._daemons
        elif code == MAJORITY:
            asked = self._daemons // 2 + 1
        return min(asked, sum(size for _, site, size in self._segments if destinations >> site & 1))

    def _needs_others(self, entry: Entry, needed: int) -> bool:
        """Whether some receiver's own source and the sender are not enough."""
        destinations = entry.header.destinations
        return any(
            size + (source != entry.source) < needed
            for source, site, size in self._segments
            if destinations >> site & 1
        )

    def is_urgent(self, entry: Entry) -> bool:
        """Whether a bundle is resilient and not delivered: daemons wait for what others announce."""
        return bool(self.waiting) and (entry.source, entry.header.number) in self.waiting

    def is_reached(self, entry: Entry, lts: int, lines: Lines) -> bool:
        """Whether the next bundle of the agreed order need not wait: it is not resilient, or enough daemons
        are known to hold it; those of a source count whose aru has passed `lts`, if that is not 0."""
        key = (entry.source, entry.header.number)
        needed = self.waiting.get(key)
        if needed is None:
            return True
        if self._count(entry, lts, lines) < needed:
            return False
        del self.waiting[key]
        return True

    def _count(self, entry: Entry, lts: int, lines: Lines) -> int:
        """How many daemons are known to hold a bundle and to deliver it unless they crash."""
        destinations = entry.header.destinations
        counted = {
            source: size
            for source, site, size in self._segments
            if lts and destinations >> site & 1 and lines.announced_aru(source) >= lts
        }
        count = sum(counted.values())
        if entry.source not in counted:
            count += 1  # the sender's daemon
        if entry.daemon != self._me and self._source not in counted:
            count += 1  # this one
        for daemon, place in self._delivered.items():
            if (
                place >= entry.place
                and daemon not in (entry.daemon, self._me)
                and destinations >> self._site_of[daemon] & 1
                and self._source_of[daemon] not in counted
            ):
                count += 1
        return count

    # Witnesses, in the adaptive order ---------------------------------------------------------------------

    def witness(self, entry: Entry) -> int | None:
        """The daemon that tells when it has delivered a bundle; None if there is no other one."""
        for daemon in self._members[entry.source]:
            if daemon != entry.daemon:
                return daemon
        destinations = entry.header.destinations
        sources = [source for source, site, _ in self._segments if destinations >> site & 1]
        later = [source for source in sources if source > entry.source]
        others = later or [source for source in sources if source != entry.source]
        return others[0] if others else None

    def reached_early(self, entry: Entry) -> None:
        """A resilient bundle is delivered here although arus will not pass it soon."""
        header = entry.header
        is_pair = self.needed(code_of(header.extensions), header.destinations) == 2
        if is_pair and self.witness(entry) == self._me:
            self.to_tell = max(self.to_tell, entry.place)

    def take_to_tell(self) -> int:
        """The place that must be told, which is told now."""
        place, self.to_tell = self.to_tell, 0
        return place

    def has_delivered(self, daemon: int, place: int) -> None:
        """A daemon says that it has delivered everything up to a place."""
        self._delivered[daemon] = max(place, self._delivered.get(daemon, 0))
