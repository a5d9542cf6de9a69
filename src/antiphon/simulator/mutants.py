"""Deliberately broken protocols: the proof that the oracle can fail.

Each mutant replaces one method of the core while it is active, and says which properties it must break within
how many seeds of which scenario. A mutant that survives is a hole in the oracle or in the scenarios.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from antiphon.core.groups.delivery import Delivery
from antiphon.core.links.receiving import Reception
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.fifo import Chain
from antiphon.core.ordering.stability import Lines
from antiphon.core.ordering.symmetric import SymmetricOrder, Unreliable
from antiphon.core.origin import Origin
from antiphon.core.overlay.fragments import Reassembly
from antiphon.service import Service
from antiphon.types import Cause, View
from antiphon.wire.packet import Fragment, Skip

Original = Callable[..., Any]


class Mutant(Struct, frozen=True):
    """One broken protocol."""

    name: str
    wrong: str
    """What it does wrong, in words."""
    breaks: frozenset[str]
    """Numbers of the properties of which at least one must be found broken."""
    owner: type
    method: str
    make: Callable[[Original], Original]
    """The broken method, given the right one."""
    scenario: str = "mixed"
    seeds: int = 10
    """Seeds, from 0, among which at least one must show it."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """While this lasts, every node is broken in this way."""
        original = getattr(self.owner, self.method)
        setattr(self.owner, self.method, self.make(original))
        try:
            yield
        finally:
            setattr(self.owner, self.method, original)


def _agreed_on_receipt(original: Original) -> Original:
    def place(order: SymmetricOrder, entry: Entry, in_order: bool) -> None:
        if entry.header.service is Service.AGREED and not entry.header.flags:
            order._deliver(entry)
        else:
            original(order, entry, in_order)

    return place


def _safe_like_agreed(original: Original) -> Original:
    def advance(lines: Lines) -> None:
        original(lines)
        lines.stable = lines.agreed

    return advance


def _aru_not_held_back(original: Original) -> Original:
    def advance(lines: Lines) -> None:
        lines.held_below = None
        original(lines)

    return advance


def _fifo_forgotten(original: Original) -> Original:
    def is_ready(chain: Chain, previous: int, contiguous: int) -> bool:
        return True

    return is_ready


def _repairs_thrown_away(original: Original) -> Original:
    def accept(reception: Reception, number: int, count: int, now_us: int) -> bool:
        repair = number <= reception.highest
        return bool(original(reception, number, count, now_us)) and not repair

    return accept


def _duplicates_not_noticed(original: Original) -> Original:
    def is_new(unreliable: Unreliable, number: int) -> bool:
        return True

    return is_new


def _own_bundles_first(original: Original) -> Original:
    def place(order: SymmetricOrder, entry: Entry, in_order: bool) -> None:
        if entry.source == order.me and not entry.header.flags and not in_order:
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
    def skip(order: SymmetricOrder, skipped: Skip) -> None:
        return None

    return skip


def _missed_not_sent_again(original: Original) -> Original:
    def send_missed(origin: Origin, group: str, site: int, lts: int, now_us: int) -> None:
        return None

    return send_missed


def _unreliable_has_no_past(original: Original) -> Original:
    def saw_unreliable(order: SymmetricOrder, lts: int) -> None:
        return None

    return saw_unreliable


def _joiner_left_out(original: Original) -> Original:
    def send_view(delivery: Delivery, numbers: list[int], view: View) -> None:
        if view.cause is Cause.JOIN:
            members = tuple(name for name in view.members if name not in view.changed)
            view = View(view.group, view.id, members, view.transitional, view.cause, view.changed)
        original(delivery, numbers, view)

    return send_view


def _everybody_in_transition(original: Original) -> Original:
    def send_view(delivery: Delivery, numbers: list[int], view: View) -> None:
        original(
            delivery, numbers, View(view.group, view.id, view.members, view.members, view.cause, view.changed)
        )

    return send_view


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
            reassembly.bytes_held += len(whole)
        return whole

    return add


def _own_messages_withheld(original: Original) -> Original:
    def message(delivery: Delivery, source: int, header: Any, bundle: bytes) -> None:
        if source != delivery._me or header.service is not Service.RELIABLE:
            original(delivery, source, header, bundle)

    return message


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "agreed on receipt", "agreed bundles are delivered as soon as they come",
        frozenset(("2.13",)), SymmetricOrder, "_place", _agreed_on_receipt, seeds=5,
    ),
    Mutant(
        "safe like agreed", "safe bundles are delivered at the agreed line",
        frozenset(("2.14",)), Lines, "advance", _safe_like_agreed, seeds=5,
    ),
    Mutant(
        "aru not held back", "a joining site vouches for bundles that are still to be sent to it again",
        frozenset(("2.14",)), Lines, "advance", _aru_not_held_back, "pruned", seeds=10,
    ),
    Mutant(
        "FIFO forgotten", "FIFO bundles do not wait for earlier ones of their session",
        frozenset(("2.11",)), Chain, "is_ready", _fifo_forgotten, seeds=10,
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
        frozenset(("2.13",)), SymmetricOrder, "_place", _own_bundles_first, seeds=5,
    ),
    Mutant(
        "gaps ignored", "a bundle counts as all before it",
        frozenset(("2.13", "2.7")), SymmetricOrder, "receive", _gaps_ignored, seeds=5,
    ),
    Mutant(
        "skips ignored", "sites do not listen when they are told of bundles that are not for them",
        frozenset(("2.17",)), SymmetricOrder, "skip", _skips_ignored, seeds=5,
    ),
    Mutant(
        "missed bundles not sent again", "a site that joins does not get what was pruned from it meanwhile",
        frozenset(("2.7",)), Origin, "send_missed", _missed_not_sent_again, "pruned", seeds=10,
    ),
    Mutant(
        "unreliable has no past", "an unreliable bundle does not move the clock of its receivers",
        frozenset(("2.12",)), SymmetricOrder, "saw_unreliable", _unreliable_has_no_past, seeds=25,
    ),
    Mutant(
        "joiner left out", "views of a join do not name the joiner",
        frozenset(("2.2",)), Delivery, "_send_view", _joiner_left_out, seeds=3,
    ),
    Mutant(
        "everybody in transition", "the transitional set is the whole view",
        frozenset(("2.4",)), Delivery, "_send_view", _everybody_in_transition, seeds=3,
    ),
    Mutant(
        "pieces as they came", "fragments are joined in the order of their arrival",
        frozenset(("2.6",)), Reassembly, "add", _pieces_as_they_came, seeds=10,
    ),
    Mutant(
        "pieces not freed", "memory of fragments is not given back",
        frozenset(("bounded",)), Reassembly, "add", _pieces_not_freed, seeds=5,
    ),
    Mutant(
        "own messages withheld", "reliable messages do not come back to the sender's daemon",
        frozenset(("2.15",)), Delivery, "message", _own_messages_withheld, seeds=5,
    ),
)  # fmt: skip
