"""From what links bring in to what the order gets: fragments, bundles, skips, updates."""

from collections import Counter
from typing import Protocol

from antiphon.core.groups.backpressure import Backpressure
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.events import GroupEvent, parse_event
from antiphon.core.ordering.entry import Entry
from antiphon.core.term import Term
from antiphon.errors import BadFrame
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.packet import EVERYBODY, Data, Fragment, PacketKind, Pressure, Skip, Update


class Situation(Protocol):
    """What the node knows and a bundle does not."""

    backpressure: Backpressure

    @property
    def is_between_views(self) -> bool:
        """Whether there is something to do before the newest view is ready for clients."""

    def keeps_order(self, header: Header) -> bool:
        """Whether a bundle must wait for its place in the agreed order whatever its service."""

    def saw_event(self, header: Header, event: GroupEvent, now_us: int) -> None:
        """A join, leave or disconnect has come in; it takes effect later."""


class Intake:
    """Takes in what comes from other daemons, for one daemon."""

    def __init__(
        self, me: int, site: int, situation: Situation, delivery: Delivery, counters: Counter[str]
    ) -> None:
        self._me = me
        self._site = site
        self._situation = situation
        self._delivery = delivery
        self._counters = counters

    def take(self, term: Term, data: Data, now_us: int) -> None:
        """Data packets that are new to their link, or to the ring."""
        reliable = data.head.kind == PacketKind.DATA
        from_ring = data.head.receiver == EVERYBODY
        mine = term.order.source
        for item in data.items:
            source = item.source
            if (source == mine and not from_ring) or source not in term.source_of:
                self._counters["item: impossible source"] += 1
            elif not reliable:
                if isinstance(item, Fragment) and source != self._me:
                    self._take_unreliable(term, item, now_us, from_ring)
            elif source not in term.reassembly:
                self._counters["item: impossible source"] += 1
            elif isinstance(item, Fragment):
                self._take_fragment(term, item, now_us, from_ring)
            elif isinstance(item, Update):
                term.order.update(item)
                term.forwarder.update(item, from_ring)
            elif isinstance(item, Pressure):
                self._take_pressure(term, item, now_us, from_ring)
            else:
                term.order.skip(item)
                term.forwarder.skip(item, now_us, from_ring)

    def _take_pressure(self, term: Term, pressure: Pressure, now_us: int, from_ring: bool) -> None:
        if term.source_of.get(pressure.daemon) != pressure.source or pressure.daemon == self._me:
            self._counters["item: impossible source"] += 1
            return
        term.forwarder.pressure(pressure, from_ring)
        self._situation.backpressure.receive(pressure, now_us)

    def _take_fragment(self, term: Term, fragment: Fragment, now_us: int, from_ring: bool) -> None:
        term.forwarder.fragment(fragment, from_ring)
        mine = fragment.destinations >> self._site & 1
        try:
            if fragment.offset == 0:
                lts, aru = bundles.peek_lines(fragment.body)
                source, number = fragment.source, fragment.number
                term.forwarder.head(fragment, lts, aru, now_us, from_ring)
                if source == term.order.source:
                    term.announcer.announced(now_us, lts, aru)
                if not mine:
                    term.order.skip(Skip(source, number, number, lts, aru))
            if mine:
                data = term.reassembly[fragment.source].add(fragment, now_us)
                if data is not None:
                    self._take_bundle(term, fragment, data, now_us)
        except BadFrame as error:
            self._counters[error.reason] += 1

    def _take_bundle(self, term: Term, fragment: Fragment, data: bytes, now_us: int) -> None:
        source = fragment.source
        header = bundles.parse(data)
        if (term.source_of.get(header.daemon), header.number) != (source, fragment.number):
            raise BadFrame("bundle: not what its fragments said")
        entry = Entry(source, header, data)
        # What others send in the new view comes after all that is still to do for it here.
        is_early = self._situation.is_between_views and not header.flags & Flag.CONTROL
        in_order = is_early or self._situation.keeps_order(header)
        if not term.order.receive(entry, in_order=in_order):
            self._counters["bundle: duplicate"] += 1
            return
        if header.flags & Flag.LATE and header.tag == self._me:
            original = bundles.payloads(data, header)[0]
            term.order.receive_late(Entry(source, bundles.parse(original), original))
        elif header.flags & Flag.EVENT:
            self._situation.saw_event(header, parse_event(data, header), now_us)

    def _take_unreliable(self, term: Term, fragment: Fragment, now_us: int, from_ring: bool) -> None:
        term.forwarder.unreliable(fragment, from_ring)
        if not fragment.destinations >> self._site & 1:
            return
        data = term.unreliable_reassembly[fragment.source].add(fragment, now_us)
        if data is None:
            term.incomplete.add(fragment.source)
            return
        if not term.unreliable[fragment.source].is_new(fragment.number):
            return
        if self._situation.is_between_views:
            return  # it may be lost, and its view is not ours yet
        try:
            header = bundles.parse(data)
            term.order.saw_unreliable(header.lts)
            self._delivery.message(fragment.source, header, data)
        except BadFrame as error:
            self._counters[error.reason] += 1
