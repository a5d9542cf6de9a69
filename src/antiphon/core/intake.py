"""From what links bring in to what the order gets: fragments, bundles, skips, updates.

Follows: Spread paper 3.2 (packets are forwarded despite the loss of earlier ones) and 3.3
(unreliable messages are reassembled, freed of duplicates and delivered at once), thesis 5.1 (a complete
message enters the order).
Deviation: daemons that have installed a view earlier may already send in it. What they send is delivered in
the agreed order whatever its service, until this daemon has done all that belongs before it.
Checked by: tests/paper/test_overlay.py, tests/paper/test_implausible.py, tests/paper/test_parsed_once.py.
"""

from collections import Counter
from typing import Protocol

from antiphon.core.groups.backpressure import Backpressure
from antiphon.core.groups.delivery import Delivery
from antiphon.core.membership.engine import Engine
from antiphon.core.ordering.entry import Entry, read_late
from antiphon.errors import BadFrame
from antiphon.service import UNRELIABLE
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag, Header, Start
from antiphon.wire.events import GroupEvent, parse_event
from antiphon.wire.history import history_of
from antiphon.wire.packet import KIND_DATA, Data, Fragment, Pressure, Skip, Update


class Situation(Protocol):
    """What the node knows and a bundle does not."""

    backpressure: Backpressure

    @property
    def is_between_views(self) -> bool:
        """Whether there is something to do before the newest view is ready for clients."""

    @property
    def is_joining(self) -> bool:
        """Whether `keeps_order` holds for any bundle."""

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

    def take(self, engine: Engine, data: Data, from_site: bool, now_us: int) -> None:
        """Data packets that are new to their link, or to the site link, and are plausible."""
        if data.head.kind != KIND_DATA:
            for item in data.items:
                if isinstance(item, Fragment) and item.source != self._me:
                    self._take_unreliable(engine, item, now_us, from_site)
            return
        for item in data.items:
            if isinstance(item, Fragment):
                self._take_fragment(engine, item, now_us, from_site)
            elif isinstance(item, Update):
                engine.order.update(item)
                engine.forwarder.update(item, from_site)
            elif isinstance(item, Pressure):
                self._take_pressure(engine, item, now_us, from_site)
            else:
                engine.order.skip(item)
                engine.forwarder.skip(item, now_us, from_site)

    def _take_pressure(self, engine: Engine, pressure: Pressure, now_us: int, from_site: bool) -> None:
        if engine.source_of.get(pressure.daemon) != pressure.source or pressure.daemon == self._me:
            self._counters["item: impossible source"] += 1
            return
        engine.forwarder.pressure(pressure, from_site)
        self._situation.backpressure.receive(pressure, now_us)

    def _take_fragment(self, engine: Engine, fragment: Fragment, now_us: int, from_site: bool) -> None:
        mine = fragment.destinations >> self._site & 1
        try:
            start = fragment.look() if fragment.offset == 0 else None
            engine.forwarder.fragment(fragment, start, now_us, from_site)
            if start is not None:
                source, number = fragment.source, fragment.number
                if source == engine.order.source:
                    engine.announcer.announced(now_us, start.lts, start.aru, engine.order.came)
                if not mine:
                    engine.order.skip(Skip(source, number, number, start.lts, start.aru), start.is_urgent)
            if mine:
                data = engine.reassembly[fragment.source].add(fragment, now_us)
                if data is not None:
                    self._take_bundle(engine, fragment, start, data, now_us)
        except BadFrame as error:
            self._counters[error.reason] += 1

    def _take_bundle(
        self, engine: Engine, last: Fragment, start: Start | None, data: bytes, now_us: int
    ) -> None:
        """A bundle is whole, of which `last` was the last fragment to come, and the first if it has the
        `start`. One that came whole has been read already."""
        source = last.source
        known = None if start is None else start.header
        header = bundles.parse_from_daemon(data) if known is None else known
        if header.number != last.number or engine.source_of.get(header.daemon) != source:
            raise BadFrame("bundle: not what its fragments said")
        if header.service is UNRELIABLE:
            raise BadFrame("bundle: unreliable, in the order")
        # All of it is read before any of it counts: what the order has got it delivers.
        event = parse_event(data, header) if header.flags & Flag.EVENT else None
        late = None
        if header.flags & Flag.LATE and header.tag == self._me:
            late = read_late(source, data, header)
            if engine.source_of.get(late.header.daemon) != source:
                raise BadFrame("late bundle: of another source")
            engine.reach.check_entry(late, now_us)
        entry = Entry(source, header, data)
        if header.extensions:
            entry.history = history_of(header)
        # What others send in the new view comes after all that is still to do for it here.
        situation = self._situation
        is_early = situation.is_between_views and not header.flags & Flag.CONTROL
        in_order = is_early or (situation.is_joining and situation.keeps_order(header))
        if not engine.order.receive(entry, in_order=in_order):
            self._counters["bundle: duplicate"] += 1
            return
        if entry.history is not None:
            engine.histories.begin()
        if late is not None:
            engine.order.receive_late(late)
        elif event is not None:
            self._situation.saw_event(header, event, now_us)

    def _take_unreliable(self, engine: Engine, fragment: Fragment, now_us: int, from_site: bool) -> None:
        engine.forwarder.unreliable(fragment, from_site)
        if not fragment.destinations >> self._site & 1:
            return
        data = engine.unreliable_reassembly[fragment.source].add(fragment, now_us)
        if data is None:
            engine.incomplete.add(fragment.source)
            return
        if not engine.unreliable[fragment.source].is_new(fragment.number):
            return
        if self._situation.is_between_views:
            return  # it may be lost, and its view is not ours yet
        try:
            known = fragment.look().header if fragment.offset == 0 else None
            header = bundles.parse_from_daemon(data) if known is None else known
            if (header.daemon, header.number) != (fragment.source, fragment.number):
                raise BadFrame("bundle: not what its fragments said")
            if header.service is not UNRELIABLE or header.flags & ~Flag.CLIENT:
                raise BadFrame("bundle: not to be sent unreliably")
            engine.order.saw_unreliable(header)
            self._delivery.message(fragment.source, header, data)
        except BadFrame as error:
            self._counters[error.reason] += 1
