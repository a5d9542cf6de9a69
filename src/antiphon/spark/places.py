"""Where a query stands, and where that is in whichever journal answers.

A query remembers a journal, an offset in it, and the anchor of that place, which means the same in every
journal of the same groups. While its journal answers, the offset is used. When it does not, another one is
asked for the anchor and the query goes on there, and stays. When its journal has a gap, because it was
restarted, the others are asked whether they have what is missing.

Agreed and safe messages and views have one order everywhere, so none of them is read twice or left out. For
reliable and FIFO messages that is not so: those that stand next to the place where a query changes journals
may come twice or not at all.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, UsageError
from antiphon.journal.anchors import Anchor, anchor_from, first_anchor
from antiphon.journal.errors import (
    JournalError,
    JournalUnavailable,
    NoSuchPlace,
    OffsetsRemoved,
    OtherJournal,
)
from antiphon.journal.lookup import Positions
from antiphon.journal.reader import Journals
from antiphon.spark.options import Place, Reading
from antiphon.spark.pushdown import Conditions, Span

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)

AWAY_S = 3.0
"""A journal that does not answer for so long is given up for another one, if there are others."""
CATCH_UP_S = 10.0
"""How long a journal may take to get what another one has already, before a gap is taken for one."""
AGAIN_S = 0.2
"""The time between two attempts to find a place."""
GAP_ROWS_MAX = 4_096
"""How many rows behind a gap are searched for the first one with a place in the order."""


class Position(Struct, frozen=True):
    """A place in one journal, and how to find it in another."""

    journal: str
    offset: int
    anchor: Anchor

    def as_json(self) -> dict[str, Any]:
        """The position for Spark, which compares the text: always the same keys in the same order."""
        anchor = msgspec.to_builtins(self.anchor)
        return {"journal": self.journal, "offset": self.offset, "anchor": anchor}


def position_from(value: dict[str, Any]) -> Position:
    """What `as_json` made; UsageError for anything else."""
    try:
        return Position(value["journal"], int(value["offset"]), anchor_from(value["anchor"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"antiphon: the checkpoint has no position of this source: {error}") from None


class Replicas:
    """Journals that hold the same groups, as a query uses them."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._has_others = len(reading.endpoints) > 1
        away_s = min(AWAY_S, reading.timeout_s) if self._has_others else reading.timeout_s
        self._journals = Journals(reading.endpoints, patience_s=away_s, files=reading.files)
        self._impatient = Journals(reading.endpoints, patience_s=AGAIN_S, files=reading.files)
        """For what is good to know and not worth a wait."""

    # Places -----------------------------------------------------------------------------------------------

    def position(self, journal: str, offset: int) -> Position:
        """The place before `offset`."""
        return Position(journal, offset, self._journals.anchor(offset, journal=journal))

    def named(self, place: Place) -> Position:
        """The place that an option names, in the first journal that answers."""
        return self._insist(lambda: self._named(place))

    def _named(self, place: Place) -> Position:
        have = self._journals.positions()
        if isinstance(place, datetime):
            offset = self._journals.offset_at(int(place.timestamp() * 1_000_000), journal=have.journal)
        elif isinstance(place, int):
            offset = place
            if not have.earliest <= offset <= have.latest:
                raise UsageError(
                    f"antiphon: no offset {offset}; the journal has {have.earliest} up to {have.latest}"
                )
        else:
            offset = have.earliest if place == "earliest" else have.latest
        return self.position(have.journal, offset)

    def check_groups(self, others: Iterable[str] | None = None) -> None:
        """UsageError if the option `groups` names one that the journal has never recorded: all of its rows
        would be none. With `others`, groups of which a query wants rows, only a warning."""
        have = self._insist(self._journals.positions)
        if not have.groups:  # a journal of before it told them
            return
        told = f"the journal has no rows of group %s; it records {', '.join(have.groups)}"
        unknown = sorted(set(self._reading.groups or ()) - set(have.groups))
        if unknown:
            raise UsageError(f"antiphon: option groups: {told % ', '.join(unknown)}")
        unknown = sorted(set(others or ()) - set(have.groups))
        if unknown:
            _log.warning("antiphon: %s", told % ", ".join(unknown))

    def narrowed(self, start: Position, end: Position, conditions: Conditions) -> tuple[Position, Position]:
        """The part of a range that can have rows of use."""
        if start.journal != end.journal or conditions == Conditions(groups=conditions.groups):
            return start, end
        return self._insist(lambda: self._narrowed(start, end, conditions))

    def _narrowed(self, start: Position, end: Position, conditions: Conditions) -> tuple[Position, Position]:
        journal, times_us = start.journal, conditions.times_us
        span = conditions.offsets.within(Span(start.offset, end.offset - 1))
        if times_us.first is not None:
            span = span.within(Span(self._journals.offset_at(times_us.first, journal=journal)))
        if times_us.last is not None:
            with suppress(UsageError):  # a journal of before it could be asked that
                after = self._journals.offset_before(times_us.last + 1, journal=journal)
                span = span.within(Span(None, after - 1))
        assert span.first is not None and span.last is not None
        first = min(span.first, end.offset)
        last = max(min(span.last + 1, end.offset), first)
        return (
            start if first == start.offset else self.position(journal, first),
            end if last == end.offset else self.position(journal, last),
        )

    def lag(self, position: Position) -> dict[str, Any] | None:
        """Where the journal of this place ends now, and how many rows that is further on; None if it does
        not say at once."""
        try:
            have = self._impatient.positions(journal=position.journal)
        except AntiphonError:
            return None
        behind = max(have.latest - position.offset, 0)
        return {"journal": have.journal, "offset": have.latest, "behind": behind}

    def find(self, position: Position) -> tuple[str, int]:
        """The same place in a journal that answers: its own, or else another that has it."""
        return self._insist(lambda: self._find(position))

    def _find(self, position: Position, whole_since: Position | None = None) -> tuple[str, int]:
        """With `whole_since`, another journal will do only if it has everything from there on."""
        try:
            have = self._journals.positions(journal=position.journal)
            if have.earliest <= position.offset <= have.latest:
                return position.journal, position.offset
            away: JournalError = _removed(position.offset, have)
        except (OtherJournal, JournalUnavailable) as error:
            away = error
        for other, journal in self._others(position.journal):
            try:
                offset = other.locate(position.anchor, journal=journal)
                if whole_since is not None:
                    self._check_whole(position.journal, other, journal, whole_since, offset)
            except JournalError as error:
                if not isinstance(away, OffsetsRemoved):
                    away = error
                continue
            _log.warning(
                "offset %d of journal %s is offset %d of journal %s, which is read from here on: %s",
                position.offset, position.journal, offset, journal, away,
            )  # fmt: skip
            return journal, offset
        if isinstance(away, OffsetsRemoved):
            return position.journal, self._lose(position.offset, away)
        raise away

    def _check_whole(self, planned: str, other: Journals, journal: str, start: Position, end: int) -> None:
        """NoSuchPlace if another journal has a gap in what was planned in a journal that has none there."""
        first = start.offset if start.journal == journal else other.locate(start.anchor, journal=journal)
        gaps = self._gaps(other, journal, first, end)
        if gaps:
            raise NoSuchPlace(
                f"journal {journal} has a gap at offset {gaps[0]}, in the middle of what is to be read, and "
                f"journal {planned}, which has none there, does not answer; with failOnDataLoss=false the "
                "query goes on without what is missing"
            )

    def _insist(self, work: Callable[[], _Result], careless: Callable[[], _Result] | None = None) -> _Result:
        """Do it again while journals come and go; the last error when the patience is over.

        A place that is missing may be on its way to a journal that is a little behind. What is `careless`
        with rows is done in the end, if that is what was asked for.
        """
        deadline_s = time.monotonic() + self._reading.timeout_s
        while True:
            try:
                return work()
            except (JournalUnavailable, OtherJournal, NoSuchPlace) as error:
                if time.monotonic() + AGAIN_S > deadline_s:
                    if careless is None or self._reading.fails_on_data_loss:
                        raise
                    _log.warning("antiphon: rows may be lost: %s", error)
                    return careless()
            time.sleep(AGAIN_S)

    def between(self, start: Position, end: Position) -> tuple[str, int, int]:
        """A journal that has both places and everything between them, and their offsets in it."""
        return self._insist(
            lambda: self._between(start, end), lambda: self._between(start, end, is_careless=True)
        )

    def cut(self, start: Position, end: Position, parts: int, part_rows: int) -> list[Position]:
        """The places that cut a range into so many parts of about the same size, both ends included, or into
        fewer if they would have fewer rows; nothing if there is no row."""
        return self._insist(
            lambda: self._cut(self._between(start, end), parts, part_rows),
            lambda: self._cut(self._between(start, end, is_careless=True), parts, part_rows),
        )

    def _cut(self, between: tuple[str, int, int], parts: int, part_rows: int) -> list[Position]:
        journal, first, last = between
        count = last - first
        number = min(parts, -(-count // part_rows))
        cuts = [first + count * part // number for part in range(number + 1)] if count else []
        return [self.position(journal, cut) for cut in cuts]

    def _between(self, start: Position, end: Position, *, is_careless: bool = False) -> tuple[str, int, int]:
        journal, last = self._find(end, None if is_careless else start)
        first = start.offset
        if start.journal != journal:
            first = self._journals.locate(start.anchor, journal=journal)
        have = self._journals.positions(journal=journal)
        if first < have.earliest:
            first = self._lose(first, _removed(first, have))
        return journal, min(first, last), last

    def _lose(self, offset: int, error: JournalError) -> int:
        """Go on where rows are left, if that is what was asked for."""
        if self._reading.fails_on_data_loss or not isinstance(error, OffsetsRemoved):
            raise error
        _log.warning("antiphon: %d rows are lost: %s", error.earliest - offset, error)
        return error.earliest

    def _others(self, but: str) -> Iterator[tuple[Journals, str]]:
        """Each other journal that answers, and its name."""
        if not self._has_others:
            return
        for endpoint in self._reading.endpoints:
            with closing(Journals([endpoint], patience_s=AGAIN_S, files=self._journals.files)) as other:
                try:
                    journal = other.positions().journal
                except JournalUnavailable:
                    continue
                if journal != but:
                    yield other, journal

    # Progress ---------------------------------------------------------------------------------------------

    def advance(self, start: Position, max_rows: int | None, target: Position | None) -> Position:
        """How far a micro-batch that begins at `start` may go; `start` itself if there is nothing to read."""
        return self._insist(lambda: self._advance(start, max_rows, target))

    def _advance(self, start: Position, max_rows: int | None, target: Position | None) -> Position:
        journal, offset = self._find(start)
        if self._has_others:
            journal, offset = self._around_gap(journal, offset)
        last = self._journals.positions(journal=journal).latest
        if target is not None:
            last = min(last, self._target_in(journal, target, last))
        if max_rows is not None:
            last = min(last, offset + max_rows)
        if self._has_others:
            last = min([last, *self._gaps(self._journals, journal, offset + 1, last)])
        if last <= offset:
            # A query that has changed journals remembers it even if there is nothing to read.
            return start if journal == start.journal else self.position(journal, offset)
        return self.position(journal, last)

    def _target_in(self, journal: str, target: Position, otherwise: int) -> int:
        if target.journal == journal:
            return target.offset
        try:
            return self._journals.locate(target.anchor, journal=journal)
        except NoSuchPlace:
            return otherwise

    def _around_gap(self, journal: str, offset: int) -> tuple[str, int]:
        """If a gap begins here and another journal has what is missing, its place there."""
        if not self._gaps(self._journals, journal, offset, offset + 1):
            return journal, offset
        before = self._journals.anchor(offset, journal=journal)
        begun_s = time.monotonic()
        while True:
            after = self._first_ordered(journal, offset + 1)
            asked = 1  # the journal itself
            for other, name in self._others(journal):
                asked += 1
                place = None if after is None else self._covered(other, name, before, after)
                if place is not None:
                    _log.warning("journal %s has what is missing at offset %d of %s", name, offset, journal)
                    return name, place
            all_asked = asked == len(self._reading.endpoints)
            patience_s = min(CATCH_UP_S, self._reading.timeout_s) if all_asked else self._reading.timeout_s
            if time.monotonic() + AGAIN_S > begun_s + patience_s:
                return journal, offset  # no journal has it, or none that can be asked
            time.sleep(AGAIN_S)

    def _first_ordered(self, journal: str, offset: int) -> Anchor | None:
        """The place before the first row from `offset` on that every journal has at the same place."""
        last = min(self._journals.positions(journal=journal).latest, offset + GAP_ROWS_MAX)
        for batch in self._journals.read(offset, last, journal=journal):
            found = first_anchor(batch)
            if found is not None:
                return found
        return None

    def _covered(self, other: Journals, journal: str, before: Anchor, after: Anchor) -> int | None:
        """Where `before` is in a journal that has everything from there to `after`."""
        try:
            start = other.locate(before, journal=journal)
            end = other.locate(after, journal=journal)
            return None if self._gaps(other, journal, start, end) else start
        except JournalError:
            return None

    def _gaps(self, journals: Journals, journal: str, start: int, end: int) -> list[int]:
        """The offsets of the gaps in a range, which may go beyond the end of the journal."""
        end = min(end, journals.positions(journal=journal).latest)
        return journals.gaps(start, end, journal=journal) if start < end else []

    # Rows -------------------------------------------------------------------------------------------------

    def read(self, start: Position, end: Position) -> Iterator[Any]:
        """The rows between two places, as Arrow batches."""
        journal, first, last = self.between(start, end)
        try:
            yield from self._rows(journal, first, last)
        except OffsetsRemoved as error:
            yield from self._rows(journal, min(self._lose(first, error), last), last)

    def _rows(self, journal: str, first: int, last: int) -> Iterator[Any]:
        wanted = self._reading
        return self._journals.read(first, last, wanted.groups, columns=wanted.columns, journal=journal)


def _removed(offset: int, have: Positions) -> JournalError:
    """Why a place is not in its own journal any more."""
    if offset > have.latest:
        return JournalError(
            f"journal {have.journal} ends before {have.latest}, but {offset} was read already"
        )
    return OffsetsRemoved(
        f"the offsets {offset} to {have.earliest - 1} of journal {have.journal} were removed before they "
        "were read; with failOnDataLoss=false the query goes on without them",
        have.earliest,
    )


@lru_cache(maxsize=16)
def replicas(reading: Reading) -> Replicas:
    """The replicas of this process: a worker that Spark uses again need not connect again."""
    return Replicas(reading)
