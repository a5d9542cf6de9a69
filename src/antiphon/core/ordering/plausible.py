"""How far the numbers of a view can have come: what is beyond is refused when it arrives.

Numbers and stamps of a view are taken over for good. One that no daemon can have reached would stop the order
at once, and every daemon would refuse it in the state with which the next view begins. So a packet with one
is dropped as a whole, before its link counts it: if it was false, its true number is still free, and if it
was only early, it comes again.

- A source's bundles are at most `limits.OUTSTANDING_MAX` beyond those that have come, as in the states that
  daemons exchange at the end of the view.
- A Lamport clock of the view is at most `limits.LTS_LEAD` beyond the view's stamp, with which all its members
  have begun, and has counted at most `limits.LTS_PER_US` since then. What is told of stamps (an lts, an aru)
  is not beyond that.

Checked by: tests/unit/test_plausible.py, tests/paper/test_implausible.py.
"""

from collections.abc import Mapping

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Order
from antiphon.errors import BadFrame, BadPacket
from antiphon.wire.packet import KIND_DATA, Data, Fragment, Pressure, Update

NUMBER = "item: number far beyond its source's last one"
STAMP = "item: stamp that its source cannot have reached"


class Reach:
    """The bounds of one daemon in one view."""

    def __init__(self, order: Order, source_of: Mapping[int, int], view_id: int, now_us: int) -> None:
        """`source_of` has the source of each member."""
        self._order = order
        self._source_of = source_of
        self._sources = frozenset(source_of.values())
        self._start = view_id + limits.LTS_LEAD
        self._began_us = now_us

    def stamp(self, now_us: int) -> int:
        """The greatest stamp that a daemon of this view can have reached."""
        return self._start + (now_us - self._began_us) * limits.LTS_PER_US

    def check(self, data: Data, from_site: bool, now_us: int) -> None:
        """BadPacket for data that no member of the view can have sent; `from_site`: over our site link."""
        is_reliable = data.head.kind == KIND_DATA
        stamp_max = self.stamp(now_us)
        checked, number_max = (
            -1,
            0,
        )  # the source of the items so far, and the greatest number that it can have
        for item in data.items:
            if item.source != checked:
                checked = item.source
                number_max = self._check_source(checked, is_reliable, from_site)
            if isinstance(item, Fragment):
                if item.number > number_max:
                    raise BadPacket(NUMBER)
                if item.offset:
                    continue  # the stamps stand at the start of the bundle
                try:
                    start = item.look()
                except BadFrame as error:
                    raise BadPacket(error.reason) from None
                lts, aru = start.lts, start.aru
            elif isinstance(item, Pressure):
                continue  # it has no number in the order
            else:
                if (item.number if isinstance(item, Update) else item.last) > number_max:
                    raise BadPacket(NUMBER)
                lts, aru = item.lts, item.aru
            if lts > stamp_max or aru > stamp_max:
                raise BadPacket(STAMP)

    def _check_source(self, source: int, is_reliable: bool, from_site: bool) -> int:
        """The greatest number that an item of a source can have; BadPacket if it can have no items here."""
        order = self._order
        if source not in self._source_of or (source == order.source and not from_site):
            raise BadPacket("item: impossible source")
        if not is_reliable:
            return limits.COUNTER_MAX  # each daemon numbers what may be lost by itself
        if source not in self._sources:
            raise BadPacket("item: impossible source")
        return order.contiguous(source) + limits.OUTSTANDING_MAX

    def check_entry(self, entry: Entry, now_us: int) -> None:
        """BadFrame for a bundle, come inside of another one, that no member of the view can have sent."""
        header = entry.header
        if header.number > self._order.contiguous(entry.source) + limits.OUTSTANDING_MAX:
            raise BadFrame(NUMBER)
        if max(header.lts, header.aru) > self.stamp(now_us):
            raise BadFrame(STAMP)

    def check_numbering(self, number: int, lts: int, aru: int, now_us: int) -> None:
        """BadPacket for what a site link tells of our source and cannot be."""
        order = self._order
        if number > order.contiguous(order.source) + limits.OUTSTANDING_MAX:
            raise BadPacket("token: number far beyond the last one")
        if max(lts, aru) > self.stamp(now_us):
            raise BadPacket("token: stamp that no daemon can have reached")
