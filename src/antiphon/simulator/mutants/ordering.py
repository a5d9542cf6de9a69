"""Mutants of the ordering layer: links, order, stability, pruning and flow control within one daemon view."""

import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any

from antiphon import limits
from antiphon.core.admission import Admission
from antiphon.core.groups.backpressure import Backpressure
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.sessions import Pending, Session, Sessions
from antiphon.core.links.hop import HopLink
from antiphon.core.links.packing import Packer, Train
from antiphon.core.links.receiving import Reception
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.fifo import Chain
from antiphon.core.ordering.stability import Lines
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.ordering.unreliable import Unreliable
from antiphon.core.origin import Origin
from antiphon.core.overlay.fragments import Reassembly
from antiphon.service import Service
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.types import Cause, View
from antiphon.wire import frames
from antiphon.wire.bundle import Header
from antiphon.wire.packet import CHECK_BYTES, HEAD_BYTES, Fragment, Pressure, Skip, Update, check


def _agreed_on_receipt(original: Original) -> Original:
    def place(order: SymmetricOrder, entry: Entry, in_order: bool) -> None:
        if entry.header.service is Service.AGREED and not entry.header.flags:
            order._deliver(entry)
        else:
            original(order, entry, in_order)

    return place


def _safe_like_agreed(original: Original) -> Original:
    def advance(lines: Lines, is_complete: bool) -> None:
        original(lines, is_complete)
        lines.stable = lines.agreed

    return advance


def _aru_not_held_back(original: Original) -> Original:
    def advance(lines: Lines, is_complete: bool) -> None:
        lines.capped_below = None
        original(lines, is_complete)

    return advance


def _fifo_forgotten(original: Original) -> Original:
    def is_ready(chain: Chain, previous: int, contiguous: int) -> bool:
        return True

    return is_ready


def _repairs_thrown_away(original: Original) -> Original:
    """Repairs are thrown away, except the first packets of a link: without these no view would ever form."""

    def accept(reception: Reception, number: int, count: int, now_us: int) -> bool:
        repair = 50 < number <= reception.highest
        return bool(original(reception, number, count, now_us)) and not repair

    return accept


def _duplicates_not_noticed(original: Original) -> Original:
    def is_new(unreliable: Unreliable, number: int) -> bool:
        return True

    return is_new


def _own_bundles_first(original: Original) -> Original:
    def place(order: SymmetricOrder, entry: Entry, in_order: bool) -> None:
        if entry.daemon == order.me and not entry.header.flags and not in_order:
            order._deliver(entry)
        else:
            original(order, entry, in_order)

    return place


def _gaps_ignored(original: Original) -> Original:
    def receive(order: SymmetricOrder, entry: Entry, in_order: bool = False) -> bool:
        source = order._sources[entry.source]
        source.contiguous = max(source.contiguous, entry.header.number - 1)
        return bool(original(order, entry, in_order))

    return receive


def _skips_ignored(original: Original) -> Original:
    def skip(order: SymmetricOrder, skipped: Skip, is_urgent: bool = True) -> None:
        return None

    return skip


def _missed_not_sent_again(original: Original) -> Original:
    def send_missed(origin: Origin, group: str, daemon: int, lts: int, now_us: int) -> None:
        return None

    return send_missed


def _unreliable_has_no_past(original: Original) -> Original:
    def saw_unreliable(order: SymmetricOrder, header: Header) -> None:
        return None

    return saw_unreliable


def _with_other_views(original: Original, change: Callable[[View], View]) -> Original:
    def write(delivery: Delivery, numbers: Iterable[int], value: frames.FromDaemon) -> None:
        if isinstance(value, frames.ViewFrame):
            value = frames.ViewFrame(change(value.view))
        original(delivery, numbers, value)

    return write


def _joiner_left_out(original: Original) -> Original:
    def change(view: View) -> View:
        left_out = view.changed if view.cause is Cause.JOIN else ()
        members = tuple(name for name in view.members if name not in left_out)
        return View(view.group, view.id, members, view.transitional, view.cause, view.changed)

    return _with_other_views(original, change)


def _everybody_in_transition(original: Original) -> Original:
    def change(view: View) -> View:
        return View(view.group, view.id, view.members, view.members, view.cause, view.changed)

    return _with_other_views(original, change)


def _pieces_as_they_came(original: Original) -> Original:
    """The pieces of a bundle are put together in the order of their arrival."""

    def add(reassembly: Reassembly, fragment: Fragment, now_us: int) -> bytes | None:
        partial = reassembly._partials.get(fragment.number)
        pieces = partial.pieces if partial is not None else {}
        whole: bytes | None = original(reassembly, fragment, now_us)
        # The header must stay readable, or the bundle would be dropped as malformed.
        if whole is None or not pieces or next(iter(pieces)) != 0:
            return whole
        return b"".join(pieces.values())

    return add


def _pieces_not_freed(original: Original) -> Original:
    def add(reassembly: Reassembly, fragment: Fragment, now_us: int) -> bytes | None:
        whole: bytes | None = original(reassembly, fragment, now_us)
        if whole is not None and len(whole) > len(fragment.body):
            reassembly.buffered_bytes += len(whole)
        return whole

    return add


def _own_messages_withheld(original: Original) -> Original:
    def message(
        delivery: Delivery, source: int, header: Any, bundle: bytes, handed: tuple[int, ...] = ()
    ) -> None:
        if source != delivery._me or header.service is not Service.RELIABLE:
            original(delivery, source, header, bundle, handed)

    return message


def _always_accepting(_original: object) -> object:
    return property(lambda admission: True)


def _all_in_one_go(original: Original) -> Original:
    def begin(admission: Admission, now_us: int) -> None:
        original(admission, now_us)
        admission._room_bytes = sys.maxsize

    return begin


def _pressure_ignored(original: Original) -> Original:
    def receive(backpressure: Backpressure, pressure: Pressure, now_us: int) -> None:
        return None

    return receive


def _pressure_for_ever(original: Original) -> Original:
    """What a daemon has announced counts until it announces something else, also if it is lost."""

    def begin_view(backpressure: Backpressure, together: Collection[int], now_us: int) -> None:
        others = dict(backpressure._others)
        original(backpressure, together, now_us)
        backpressure._others = others
        for announced in others.values():
            announced.until_us = limits.NEVER_US

    return begin_view


def _pressure_on_all(original: Original) -> Original:
    """As long as any session is slow, everything waits."""

    def must_wait(backpressure: Backpressure, session: Session, pending: Pending) -> bool:
        return pending.event is None and bool(backpressure.slow_names or backpressure.other_names)

    return must_wait


def _window_ignored(original: Original) -> Original:
    def room(link: HopLink, now_us: int) -> int:
        return 1_000_000

    return room


def _input_not_held_back(original: Original) -> Original:
    def wants_input(sessions: Sessions, session: Session) -> bool:
        return not session.is_leaving

    return wants_input


def _skips_overreach(original: Original) -> Original:
    """Two ranges become one, with whatever lies between them."""

    def add_skip(packer: Packer, skip: Skip) -> None:
        waiting = packer._skips[-1] if packer._skips else None
        if waiting is not None and waiting.source == skip.source and waiting.last < skip.first:
            packer._skips.pop()
            skip = Skip(skip.source, waiting.first, skip.last, skip.lts, skip.aru)
        original(packer, skip)

    return add_skip


def _skip_before_earlier_ones(original: Original) -> Original:
    """A skipped range counts as everything of its source before it."""

    def skip(order: SymmetricOrder, skipped: Skip, is_urgent: bool = True) -> None:
        original(order, Skip(skipped.source, 1, skipped.last, skipped.lts, skipped.aru))

    return skip


def _neighbour_sent_again(original: Original) -> Original:
    """The packet after the one that was asked for, under the number that was asked for."""

    def packet(train: Train, number: int) -> bytes:
        data: bytes = original(train, number)
        if number + 1 >= train.first + train.count:
            return data
        other: bytes = original(train, number + 1)
        start, found = data[:HEAD_BYTES], other[HEAD_BYTES:-CHECK_BYTES]
        return start + found + check((start, found))

    return packet


def _aru_too_early(original: Original) -> Original:
    def advance(lines: Lines, is_complete: bool) -> None:
        original(lines, is_complete)
        lines.aru = lines._arus[lines._own] = lines.clock

    return advance


def _updates_too_early(original: Original) -> Original:
    def update(order: SymmetricOrder, told: Update) -> None:
        original(order, told)
        order.lines.claim(told.source, told.lts, told.aru)

    return update


def _sent_again_once_more(original: Original) -> Original:
    def send_missed(origin: Origin, group: str, daemon: int, lts: int, now_us: int) -> None:
        for missed in origin._order.own_after(0):
            missed.resent = 0
        original(origin, group, daemon, lts, now_us)

    return send_missed


ORDERING: tuple[Mutant, ...] = (
    Mutant(
        "agreed on receipt", "agreed bundles are delivered as soon as they come",
        frozenset(("2.13",)), SymmetricOrder, "_place", _agreed_on_receipt, seeds=5, shown_by=3,
    ),
    Mutant(
        "safe like agreed", "safe bundles are delivered at the agreed line",
        frozenset(("2.14",)), Lines, "advance", _safe_like_agreed, seeds=5,
    ),
    Mutant(
        "aru not held back", "a joining site vouches for bundles that are still to be sent to it again",
        frozenset(("2.14",)), Lines, "advance", _aru_not_held_back, "pruned", shown_by=2,
    ),
    Mutant(
        "FIFO forgotten", "FIFO bundles do not wait for earlier ones of their session",
        frozenset(("2.11",)), Chain, "is_ready", _fifo_forgotten, shown_by=3,
    ),
    Mutant(
        "repairs thrown away", "packets that were sent again are acknowledged but not used",
        frozenset(("2.10",)), Reception, "accept", _repairs_thrown_away, seeds=5,
    ),
    Mutant(
        "duplicates not noticed", "unreliable bundles that came before are delivered again",
        frozenset(("2.5",)), Unreliable, "is_new", _duplicates_not_noticed, seeds=25,
    ),
    Mutant(
        "own bundles first", "a site does not wait for others to deliver what its own clients sent",
        frozenset(("2.13",)), SymmetricOrder, "_place", _own_bundles_first, seeds=5, shown_by=3,
    ),
    Mutant(
        "gaps ignored", "a bundle counts as all before it",
        frozenset(("2.13", "2.7")), SymmetricOrder, "receive", _gaps_ignored, seeds=5, shown_by=1,
    ),
    Mutant(
        "skips ignored", "sites do not listen when they are told of bundles that are not for them",
        frozenset(("2.17",)), SymmetricOrder, "skip", _skips_ignored, seeds=5,
    ),
    Mutant(
        "missed bundles not sent again", "a site that joins does not get what was pruned from it meanwhile",
        frozenset(("2.7",)), Origin, "send_missed", _missed_not_sent_again, "pruned",
    ),
    Mutant(
        "unreliable has no past", "an unreliable bundle does not move the clock of its receivers",
        frozenset(("2.12",)), SymmetricOrder, "saw_unreliable", _unreliable_has_no_past, "narrow",
        seeds=18, shown_by=17,
    ),
    Mutant(
        "joiner left out", "views of a join do not name the joiner",
        frozenset(("2.2",)), Delivery, "_write", _joiner_left_out, shown_by=3,
    ),
    Mutant(
        "everybody in transition", "the transitional set is the whole view",
        frozenset(("2.4",)), Delivery, "_write", _everybody_in_transition, shown_by=3,
    ),
    Mutant(
        "pieces as they came", "fragments are joined in the order of their arrival",
        frozenset(("2.6",)), Reassembly, "add", _pieces_as_they_came,
    ),
    Mutant(
        "pieces not freed", "memory of fragments is not given back",
        frozenset(("bounded",)), Reassembly, "add", _pieces_not_freed, seeds=5, shown_by=1,
    ),
    Mutant(
        "own messages withheld", "reliable messages do not come back to the sender's daemon",
        frozenset(("2.15",)), Delivery, "message", _own_messages_withheld, seeds=5, shown_by=3,
    ),
    Mutant(
        "back-pressure forgotten", "a daemon orders new bundles however much of its own is unstable",
        frozenset(("bounded",)), Admission, "is_accepting", _always_accepting, "flood", seeds=5, shown_by=0,
    ),
    Mutant(
        "all in one go", "a daemon that is alone orders all that waits before it looks who can take it",
        frozenset(("bounded",)), Admission, "begin", _all_in_one_go, "slow", seeds=240, shown_by=231,
    ),
    Mutant(
        "pressure ignored", "a daemon goes on although another one asks it to wait for a slow receiver",
        frozenset(("bounded",)), Backpressure, "receive", _pressure_ignored, "flood", shown_by=8,
    ),
    Mutant(
        "pressure on all", "all senders wait for slow receivers, also those that send them nothing",
        frozenset(("pressure",)), Backpressure, "must_wait", _pressure_on_all, "slow",
    ),
    Mutant(
        "pressure for ever", "senders wait for a slow receiver at a daemon that is no longer there",
        frozenset(("2.17",)), Backpressure, "begin_view", _pressure_for_ever, "sites", seeds=120,
        shown_by=20,
    ),
    Mutant(
        "window ignored", "a link sends all that it has, whatever is still unacknowledged",
        frozenset(("bounded",)), HopLink, "_room", _window_ignored, "flood", seeds=5, shown_by=2,
    ),
    Mutant(
        "input not held back", "a daemon reads its clients however much of theirs waits for its turn",
        frozenset(("bounded",)), Sessions, "wants_input", _input_not_held_back, "flood", seeds=5, shown_by=4,
    ),
    Mutant(
        "skips overreach", "a branch is told to skip what lies between two skipped ranges, too",
        frozenset(("2.7", "2.10", "2.13")), Packer, "add_skip", _skips_overreach, "pruned", shown_by=1,
    ),
    Mutant(
        "skips too early", "a skipped range counts although bundles before it have not come",
        frozenset(("2.7", "2.10", "2.13")), SymmetricOrder, "skip", _skip_before_earlier_ones,
        seeds=5, shown_by=0,
    ),
    Mutant(
        "neighbour sent again", "a packet is repeated with the contents of the one after it",
        frozenset(("2.10",)), Train, "packet", _neighbour_sent_again, shown_by=0,
    ),
    Mutant(
        "aru too early", "a site says that it has everything that it has heard of",
        frozenset(("2.14",)), Lines, "advance", _aru_too_early, seeds=5,
    ),
    Mutant(
        "updates too early", "a site's update counts although bundles before it have not come",
        frozenset(("2.13",)), SymmetricOrder, "update", _updates_too_early,
    ),
    Mutant(
        "late copies twice", "a joining site is sent the same bundle again with every join",
        frozenset(("2.5",)), Origin, "send_missed", _sent_again_once_more, "pruned",
        shown_by=2,
    ),
)  # fmt: skip
