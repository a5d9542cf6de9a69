"""Receivers' choices that hand out too much, too early, twice or not at all."""

from typing import Any

from antiphon.core.groups.choices import Choices
from antiphon.core.groups.delivery import Delivery
from antiphon.core.ordering.early import EarlyQueue
from antiphon.service import AGREED, FIFO, SAFE, Service
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.bundle import Flag
from antiphon.wire.events import GroupEvent


def _nothing(original: Original) -> Original:
    return lambda *_, **__: None


def _gaps_do_not_count(original: Original) -> Original:
    def came(queue: EarlyQueue, entry: Any, in_order: bool) -> None:
        original(queue, entry, in_order)
        if not in_order and entry.place and not entry.header.flags & ~Flag.CLIENT:
            queue._reach(entry, FIFO)

    return came


def _places_do_not_count(original: Original) -> Original:
    def came(queue: EarlyQueue, entry: Any, in_order: bool) -> None:
        original(queue, entry, in_order)
        if entry.place and not entry.header.flags & ~Flag.CLIENT and entry.header.service >= AGREED:
            queue._reach(entry, AGREED)

    return came


def _out_of_turn(original: Original) -> Original:
    def came(queue: EarlyQueue, entry: Any, in_order: bool) -> None:
        original(queue, entry, False)

    return came


def _dropped_all_the_same(original: Original) -> Original:
    def reach(queue: EarlyQueue, entry: Any, level: Service) -> None:
        original(queue, entry, level)
        entry.is_shown = False

    return reach


def _delivered_again(original: Original) -> Original:
    def message(delivery: Delivery, source: int, header: Any, bundle: Any, handed: Any = ()) -> None:
        original(delivery, source, header, bundle)

    return message


def _taken_as_handed(original: Original) -> Original:
    def offer(choices: Choices, entry: Any, level: int) -> bool:
        was_handed = bool(original(choices, entry, level))
        late = [one for one, _ in choices._of(entry.header.names) if one not in entry.handed]
        entry.handed += tuple(late)
        return was_handed

    return offer


def _in_every_group(original: Original) -> Original:
    def choose(choices: Choices, number: int, event: GroupEvent) -> None:
        original(choices, number, event)
        session = choices._sessions.get(number)
        if session is not None and event.kind == "join" and event.delivery:
            for group in choices._membership.groups:
                session.ceilings[group] = Service(event.delivery)

    return choose


def _weakest_way(original: Original) -> Original:
    def find(choices: Choices, names: tuple[str, ...]) -> tuple[tuple[int, Service], ...]:
        found = []
        for number, ceiling in original(choices, names):
            session = choices._sessions.get(number)
            assert session is not None
            ways = [session.ceilings[name] for name in names if name in session.ceilings]
            found.append((number, min([ceiling, *ways])))
        return tuple(found)

    return find


def _private_ones_too(original: Original) -> Original:
    def find(choices: Choices, names: tuple[str, ...]) -> tuple[tuple[int, Service], ...]:
        found = []
        for number, ceiling in original(choices, names):
            session = choices._sessions.get(number)
            assert session is not None
            is_private = session.private_name in names
            found.append((number, min(session.ceilings.values()) if is_private else ceiling))
        return tuple(found)

    return find


def _back_to_its_sender(original: Original) -> Original:
    def offer(choices: Choices, entry: Any, level: int) -> bool:
        header = entry.header
        own = [one for one, ceiling in choices._of(header.names) if ceiling <= level]
        is_mine = header.daemon == choices._me and header.session in own
        if is_mine and header.flags & Flag.SELF_DISCARD and header.session not in entry.handed:
            entry.handed += (header.session,)
            choices._hand((header.session,), header, entry.bundle)
        return bool(original(choices, entry, level))

    return offer


def _without_a_choice_too(original: Original) -> Original:
    def find(choices: Choices, names: tuple[str, ...]) -> tuple[tuple[int, Service], ...]:
        return tuple((number, FIFO if way is SAFE else way) for number, way in original(choices, names))

    return find


CHOICES: tuple[Mutant, ...] = (
    Mutant(
        "gaps do not count", "a member that chose fifo does not wait for what its sender sent before",
        frozenset(("2.11",)), EarlyQueue, "came", _gaps_do_not_count, "choices",
    ),
    Mutant(
        "places do not count", "a member that chose agreed gets what comes, whatever may come before it",
        frozenset(("2.13",)), EarlyQueue, "came", _places_do_not_count, "choices",
    ),
    Mutant(
        "out of turn", "what came between two views, or beside a join, is offered all the same",
        frozenset(("2.9", "2.13")), EarlyQueue, "came", _out_of_turn, "choices",
    ),
    Mutant(
        "dropped all the same", "what was shown in its place is dropped at the end of the view",
        frozenset(("2.13",)), EarlyQueue, "_reach", _dropped_all_the_same, "choices", 903, shown_by=902,
    ),
    Mutant(
        "handed and delivered", "what a member got early it gets again when it is delivered",
        frozenset(("2.5",)), Delivery, "message", _delivered_again, "choices",
    ),
    Mutant(
        "taken as handed", "what a member could not get early is taken as handed, and never comes",
        frozenset(("2.7", "2.10", "2.15")), Choices, "offer", _taken_as_handed, "choices",
    ),
    Mutant(
        "a choice for every group", "what a member chose for one group counts in all groups",
        frozenset(("2.11", "2.13", "2.14")), Choices, "choose", _in_every_group, "choices", shown_by=1,
    ),
    Mutant(
        "the weakest way", "what comes to a member by several groups comes by the weakest of its choices",
        frozenset(("2.11", "2.13", "2.14")), Choices, "_find", _weakest_way, "choices", shown_by=1,
    ),
    Mutant(
        "private ones too", "a choice for a group counts for messages to the member's private name",
        frozenset(("2.11", "2.13", "2.14")), Choices, "_find", _private_ones_too, "choices", shown_by=3,
    ),
    Mutant(
        "back to its sender", "what a session did not want back is offered to it",
        frozenset(("2.6",)), Choices, "offer", _back_to_its_sender, "choices", shown_by=1,
    ),
    Mutant(
        "choosers choose everywhere", "who chose anything gets fifo where it did not choose",
        frozenset(("2.13", "2.14")), Choices, "_find", _without_a_choice_too, "choices", shown_by=1,
    ),
    Mutant(
        "choices ignored", "nothing is handed out before it is delivered",
        frozenset(("choices",)), Choices, "offer", _nothing, "choices",
    ),
    Mutant(
        "lines jumped", "what is offered overtakes what its receiver must wait for",
        frozenset(("2.11", "2.13")), Choices, "_wait", _nothing, "choices", shown_by=1,
    ),
)  # fmt: skip
