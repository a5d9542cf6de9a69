"""A log on the network: ranges of rows over Arrow Flight, and small questions about places in it.

    do_get     a ticket in JSON: {"start": 0, "end": 100, "journal": "...", "groups": ["a"],
               "columns": ["offset", "payload"]}; the last three may be left out
    do_action  positions {}, offset_at {"time_us"}, offset_before {"time_us"}, anchor {"offset"},
               locate {"anchor"}, gaps {"start", "end"}: JSON in, JSON out; each may have "journal", too
    flights    one for each group and one for all of them; their endpoints read what is there now

A request that names another journal gets an error instead of rows, so that the offsets of one journal
are never used on another. Every error carries a code in its extra information, for
`antiphon.journal.reader`.

Streams beyond what the server may have (`antiphon.journal.streams`) end with the status UNAVAILABLE and words
that begin with "busy, try again"; readers do.

Who may read, and how that is protected, is the business of `antiphon.journal.guard`.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as flight
from msgspec import Struct

from antiphon.errors import AntiphonError, UsageError
from antiphon.journal import lookup
from antiphon.journal.anchors import Anchor
from antiphon.journal.errors import JournalError, NoSuchPlace, OffsetsRemoved, OtherJournal
from antiphon.journal.guard import Guard
from antiphon.journal.log import Log
from antiphon.journal.schema import SCHEMA
from antiphon.journal.streams import Busy, Stream, Streams
from antiphon.wire.decoding import NOT_A_VALUE

SCHEMES = ("grpc", "grpc+tls")
END_S = 2.0
"""How long an ending server waits for its streams."""


class Ticket(Struct, frozen=True, omit_defaults=True):
    """Which rows."""

    start: int
    end: int
    journal: str | None = None
    groups: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None


class Question(Struct, frozen=True, omit_defaults=True):
    """The body of an action: each takes what it needs of it."""

    journal: str | None = None
    time_us: int | None = None
    offset: int | None = None
    anchor: Anchor | None = None
    start: int | None = None
    end: int | None = None


class Complaint(Struct, frozen=True):
    """What an error carries for programs."""

    code: str
    text: str
    earliest: int = 0


CODES: dict[str, type[AntiphonError]] = {
    "removed": OffsetsRemoved,
    "other": OtherJournal,
    "nowhere": NoSuchPlace,
    "usage": UsageError,
    "journal": JournalError,
}
"""The errors that a server tells, by the code that stands for each; the most special first."""

ACTIONS = {
    "positions": "which journal this is, its earliest offset, one past its latest, and its groups",
    "offset_at": "the first offset that was delivered at or after `time_us`",
    "offset_before": "one past the last offset that was delivered before `time_us`",
    "anchor": "what names the place just before `offset` in every journal of the same groups",
    "locate": "the offset of the place that `anchor` names",
    "gaps": "the offsets of the gaps from `start` up to `end`",
}


class JournalServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves one log. Calls come in threads of its own and do not wait for one another."""

    def __init__(
        self,
        log: Log,
        location: str = "grpc://127.0.0.1:0",
        groups: tuple[str, ...] = (),
        streams: Streams | None = None,
        guard: Guard | None = None,
    ) -> None:
        check_endpoint(location)
        self.streams = Streams() if streams is None else streams
        options = (guard or Guard()).options(location)
        try:
            super().__init__(location, **options)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"cannot listen on {location}: {reason}") from None
        self._log = log
        self._groups = groups
        self._is_ending = False
        scheme, _, place = location.partition("://")
        self.endpoint = f"{scheme}://{place.rpartition(':')[0]}:{self.port}"
        """Where it can be reached."""

    def end(self) -> bool:
        """Stop serving; whether that was possible at once.

        Streams that are being read end with an error that sends their readers elsewhere. One that is open
        but not read cannot be ended: it occupies a thread until its reader goes away, or the process ends.
        """
        self._is_ending = True
        ending = threading.Thread(target=self.shutdown, name="antiphon-journal-end", daemon=True)
        ending.start()
        ending.join(END_S)
        return not ending.is_alive()

    # Rows -------------------------------------------------------------------------------------------------

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of a ticket."""
        wanted = _decoded(ticket.ticket, Ticket)
        batches = _told(lambda: self._read(wanted))
        stream = _told(lambda: self.streams.open(context.peer().rpartition(":")[0]))
        return flight.GeneratorStream(lookup.schema_of(wanted.columns), self._each(stream, batches))

    def _each(self, stream: Stream, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches; an error between two of them as one of Flight."""
        pieces = stream.pieces(batches)
        try:
            while (piece := _told(lambda: next(pieces, None))) is not None:
                yield piece
                if self._is_ending:
                    raise flight.FlightUnavailableError("the journal is ending")
        finally:
            stream.end()

    def _read(self, wanted: Ticket) -> Iterator[pa.RecordBatch]:
        self._check(wanted.journal)
        return lookup.read(self._log, wanted.start, wanted.end, wanted.groups, wanted.columns)

    def _check(self, journal: str | None) -> None:
        if journal is not None and journal != self._log.journal:
            raise OtherJournal(f"this is journal {self._log.journal}, not {journal}")

    # Questions --------------------------------------------------------------------------------------------

    def list_actions(self, context: Any) -> Any:
        """What `do_action` knows."""
        return [flight.ActionType(name, about) for name, about in ACTIONS.items()]

    def do_action(self, context: Any, action: Any) -> Any:
        """The answer to a question."""
        body = action.body.to_pybytes() or b"{}"
        answer = _told(lambda: self._answer(action.type, _decoded(body, Question)))
        return [flight.Result(pa.py_buffer(msgspec.json.encode(answer)))]

    def _answer(self, name: str, question: Question) -> object:
        self._check(question.journal)
        match name:
            case "positions":
                return lookup.positions(self._log, self._groups)
            case "offset_at":
                return {"offset": lookup.offset_at(self._log, _needed(name, "time_us", question.time_us))}
            case "offset_before":
                time_us = _needed(name, "time_us", question.time_us)
                return {"offset": lookup.offset_before(self._log, time_us)}
            case "anchor":
                return lookup.anchor(self._log, _needed(name, "offset", question.offset))
            case "locate":
                return {"offset": lookup.locate(self._log, _needed(name, "anchor", question.anchor))}
            case "gaps":
                start, end = _needed(name, "start", question.start), _needed(name, "end", question.end)
                return {"offsets": lookup.gaps(self._log, start, end)}
        raise UsageError(f"unknown action {name[:40]!r}; known: {', '.join(ACTIONS)}")

    # Flights ----------------------------------------------------------------------------------------------

    def list_flights(self, context: Any, criteria: Any) -> Iterator[Any]:
        """All groups together, then each."""
        yield self._info(())
        for group in self._groups:
            yield self._info((group,))

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Describes a flight: a path names the groups wanted (none: all of them), a command is a ticket."""
        if descriptor.descriptor_type is flight.DescriptorType.CMD:
            wanted = _decoded(descriptor.command, Ticket)
            _told(lambda: self._read(wanted))
            return self._info_of(descriptor, wanted)
        groups = tuple(part.decode("utf-8", "replace") for part in descriptor.path or ())
        unknown = [group for group in groups if group not in self._groups]
        if unknown:
            raise flight.FlightServerError(f"no such group in this journal: {', '.join(unknown)[:80]}")
        return self._info(groups)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The schema of every flight."""
        return flight.SchemaResult(SCHEMA)

    def _info(self, groups: tuple[str, ...]) -> Any:
        have = lookup.positions(self._log)
        wanted = Ticket(have.earliest, have.latest, have.journal, groups or None)
        return self._info_of(flight.FlightDescriptor.for_path(*groups), wanted)

    def _info_of(self, descriptor: Any, wanted: Ticket) -> Any:
        endpoint = flight.FlightEndpoint(msgspec.json.encode(wanted), [])  # no location: ask here
        rows = wanted.end - wanted.start if wanted.groups is None else -1
        return flight.FlightInfo(lookup.schema_of(wanted.columns), descriptor, [endpoint], rows, -1)


def _decoded(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except NOT_A_VALUE as error:
        raise _flight_error(UsageError(f"not a {kind.__name__.lower()}: {error}")) from None


def _needed(action: str, field: str, value: Any) -> Any:
    if value is None:
        raise UsageError(f"the action {action} needs {field}")
    return value


def _told(work: Callable[[], Any]) -> Any:
    """What `work` returns; its errors as those of Flight."""
    try:
        return work()
    except Busy as error:
        raise flight.FlightUnavailableError(str(error)) from None
    except AntiphonError as error:
        raise _flight_error(error) from None


def _flight_error(error: AntiphonError) -> Exception:
    code = next((code for code, kind in CODES.items() if isinstance(error, kind)), "journal")
    earliest = error.earliest if isinstance(error, OffsetsRemoved) else 0
    complaint = Complaint(code, str(error), earliest)
    wrapped: Exception = flight.FlightServerError(str(error), msgspec.json.encode(complaint))
    return wrapped


def check_endpoint(endpoint: str) -> str:
    """`endpoint` if it can be one; otherwise a UsageError that says what it should be."""
    scheme, _, place = endpoint.partition("://")
    host, _, port = place.rpartition(":")
    if scheme not in SCHEMES or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(
            f"the endpoint of a journal is grpc+tls://HOST:PORT or grpc://HOST:PORT, not {endpoint!r}"
        )
    return endpoint
