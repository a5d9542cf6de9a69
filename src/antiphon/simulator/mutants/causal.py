"""Mutants of causal delivery: what a programmer may leave out of a past, or wait for in vain."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from antiphon.core.ordering.causal import CausalQueue
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.histories import Histories, _Past
from antiphon.core.ordering.state import SourceState
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.core.origin import Origin
from antiphon.service import Service
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.bundle import Header
from antiphon.wire.history import Cause, History


def _a_cause_is_lost(original: Original) -> Original:
    def newest_first(past: _Past) -> list[Cause]:
        return original(past)[1:]  # type: ignore[no-any-return]

    return newest_first


def _reported_to_all(original: Original) -> Original:
    def report(past: _Past, sites: int) -> None:
        past.causes.clear()

    return report


def _alone_everywhere(original: Original) -> Original:
    def init(histories: Histories, *arguments: Any) -> None:
        original(histories, *arguments)
        histories._is_alone = True

    return init


def _only_what_it_got(original: Original) -> Original:
    def add_past_of(histories: Histories, past: _Past, header: Header, history: History) -> None:
        original(histories, past, header, replace(history, causes=()))

    return add_past_of


def _unreliable_hands_nothing_on(original: Original) -> Original:
    def hear_unreliable(histories: Histories, past: _Past, header: Header) -> None:
        pass

    return hear_unreliable


def _delivered_is_resolved(original: Original) -> Original:
    def came(queue: CausalQueue, entry: Entry, history: History, may_overtake: bool) -> None:
        original(queue, entry, replace(history, causes=()) if entry.delivered else history, may_overtake)

    return came


def _joins_do_not_bind(original: Original) -> Original:
    def keeps_order(origin: Origin, header: Header) -> bool:
        return header.service is not Service.CAUSAL and bool(original(origin, header))

    return keeps_order


def _overtook_in_silence(original: Original) -> Original:
    def tell_source(order: SymmetricOrder, source: int) -> SourceState:
        told: SourceState = original(order, source)
        return replace(told, overtook=())

    return tell_source


def _no_lines(original: Original) -> Original:
    def came(queue: CausalQueue, entry: Entry, history: History, may_overtake: bool) -> None:
        original(queue, entry, replace(history, floor=0, stable=0), may_overtake)

    return came


def _never_ahead(original: Original) -> Original:
    def came(queue: CausalQueue, entry: Entry, history: History, may_overtake: bool) -> None:
        original(queue, entry, history, False)

    return came


def _waits_for_other_sites(original: Original) -> Original:
    def came(queue: CausalQueue, entry: Entry, history: History, may_overtake: bool) -> None:
        causes = tuple(replace(cause, sites=~0) for cause in history.causes)
        original(queue, entry, replace(history, causes=causes), may_overtake)

    return came


def _all_that_its_daemon_got(original: Original) -> Original:
    def heard(histories: Histories, sessions: Iterable[int], header: Header) -> None:
        original(histories, {*sessions, *histories._pasts}, header)

    return heard


CAUSAL: tuple[Mutant, ...] = (
    Mutant(
        "a cause is lost", "the newest cause of a session's past is not told",
        frozenset(("2.12",)), _Past, "newest_first", _a_cause_is_lost, "swarm",
    ),
    Mutant(
        "reported to all", "a past that was reported to some sites is forgotten for all (R8 too early)",
        frozenset(("2.12", "causes")), _Past, "report", _reported_to_all, "swarm", shown_by=8,
    ),
    Mutant(
        "alone everywhere", "a daemon takes itself for the separator of a site with several (R9)",
        frozenset(("2.12", "causes")), Histories, "__init__", _alone_everywhere, "sites", shown_by=1,
    ),
    Mutant(
        "only what it got", "the past of what a session got is not part of its own",
        frozenset(("2.12", "causes")), Histories, "_add_past_of", _only_what_it_got, "pruned", shown_by=4,
    ),
    Mutant(
        "unreliable hands nothing on", "an unreliable message does not hand its sender's past on",
        frozenset(("2.12", "causes")), Histories, "_hear_unreliable", _unreliable_hands_nothing_on, "swarm",
        seeds=93, shown_by=92,
    ),
    Mutant(
        "delivered is resolved", "a reliable bundle counts as resolved although its past has not come",
        frozenset(("2.12", "causes")), CausalQueue, "came", _delivered_is_resolved, "swarm",
    ),
    Mutant(
        "joins do not bind", "a causal bundle does not keep its place while a join is under way",
        frozenset(("2.12", "causes", "2.7")), Origin, "keeps_order", _joins_do_not_bind, "pruned",
    ),
    Mutant(
        "overtook in silence", "at the end of a view nobody is told what was delivered ahead of its place",
        frozenset(("2.7",)), SymmetricOrder, "tell_source", _overtook_in_silence, "swarm", seeds=30,
        shown_by=24,
    ),
    Mutant(
        "no lines", "what is not known exactly of a past is not waited for",
        frozenset(("2.12", "causes", "2.9")), CausalQueue, "came", _no_lines, "swarm",
    ),
    Mutant(
        "never ahead", "causal bundles wait for their places in the agreed order",
        frozenset(("needless",)), CausalQueue, "came", _never_ahead, "swarm", shown_by=2,
    ),
    Mutant(
        "waits for other sites", "a causal bundle waits for causes that are not for its daemon's site",
        frozenset(("needless",)), CausalQueue, "came", _waits_for_other_sites, "swarm", shown_by=2,
    ),
    Mutant(
        "all that its daemon got", "what other sessions of a daemon got counts as the past of each",
        frozenset(("needless",)), Histories, "heard", _all_that_its_daemon_got, "mixed", shown_by=8,
    ),
)  # fmt: skip
