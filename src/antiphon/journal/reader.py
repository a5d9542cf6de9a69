"""Reading journals over the network, with patience and with replicas.

`Journals` knows the endpoints of one or more journals that hold the same groups. Each call asks the first
that answers, tries the others when one does not, and goes round again with growing waits until its patience
ends. Offsets belong to one journal; every call takes the `journal` that its offsets are of, and then asks
only that one. A place is carried from one journal to another by its anchor, see `antiphon.journal.anchors`.

Connections are made when they are needed and are no part of a pickled copy, so that a `Journals` may travel
to the workers of a cluster.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.flight as flight

from antiphon.errors import NotAllowed, UsageError
from antiphon.journal.anchors import Anchor
from antiphon.journal.errors import (
    JournalError,
    JournalUnavailable,
    OffsetsRemoved,
    OtherJournal,
)
from antiphon.journal.guard import AUTHORIZATION, BEARER, is_local, read_pem
from antiphon.journal.lookup import Positions
from antiphon.journal.server import CODES, Complaint, Question, Ticket, check_endpoint
from antiphon.runtime.credentials import CredentialFiles, files_of_environment
from antiphon.wire.decoding import NOT_A_VALUE

PATIENCE_S = 30.0
BUSY_PATIENCE = 10
"""A journal that is there and has too many readers is tried for so many times the patience."""
FIRST_WAIT_S = 0.05
LAST_WAIT_S = 2.0
ANSWER_S = 30.0
"""How long one journal may take to answer a question: a search through a large journal takes a while."""
STREAM_S = 300.0
"""How long it may take to send one range of rows; what has come by then is not asked for again."""

BROKEN = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightInternalError)
"""What a stream ends with when its server goes away."""

_CANNOT_CONNECT = re.compile(r"Failed to connect to remote host: ([^.;]+)")

_Answer = TypeVar("_Answer")


class Journals:
    """Journals that hold the same groups; see the module.

    `endpoints` are `grpc+tls://HOST:PORT` or `grpc://HOST:PORT`; `patience_s` is how long each call tries
    before it gives up; `files` name what shows who reads, without them those of the environment.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        patience_s: float = PATIENCE_S,
        files: CredentialFiles | None = None,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self.patience_s = patience_s
        self.files = files_of_environment() if files is None else files
        self._token: str | None = None
        if not self.endpoints:
            raise UsageError("at least one endpoint of a journal is needed: grpc://HOST:PORT")
        for endpoint in self.endpoints:
            check_endpoint(endpoint)
        self._clients: dict[str, Any] = {}
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {"endpoints": self.endpoints, "patience_s": self.patience_s, "files": self.files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.endpoints, self.patience_s = state["endpoints"], state["patience_s"]
        self.files, self._token = state["files"], None
        self._clients, self._process = {}, os.getpid()

    def __repr__(self) -> str:
        return f"Journals({', '.join(self.endpoints)})"

    # Questions --------------------------------------------------------------------------------------------

    def positions(self, *, journal: str | None = None) -> Positions:
        """Which journal answers, its earliest offset, and one past its latest."""
        return self._ask("positions", Question(journal), Positions)

    def offset_at(self, time_us: int, *, journal: str | None = None) -> int:
        """The first offset delivered at or after a Unix time in microseconds; the end if there is none
        yet."""
        return int(self._ask("offset_at", Question(journal, time_us=time_us), dict[str, int])["offset"])

    def offset_before(self, time_us: int, *, journal: str | None = None) -> int:
        """One past the last offset delivered before a Unix time in microseconds; the start if there is
        none."""
        answer = self._ask("offset_before", Question(journal, time_us=time_us), dict[str, int])
        return int(answer["offset"])

    def anchor(self, offset: int, *, journal: str | None = None) -> Anchor:
        """What names the place just before `offset` in every journal of the same groups."""
        return self._ask("anchor", Question(journal, offset=offset), Anchor)

    def locate(self, anchor: Anchor, *, journal: str | None = None) -> int:
        """The offset of that place; NoSuchPlace if the journal does not have the row that names it."""
        return int(self._ask("locate", Question(journal, anchor=anchor), dict[str, int])["offset"])

    def gaps(self, start: int, end: int, *, journal: str | None = None) -> list[int]:
        """The offsets of the gaps from `start` up to `end`: what the journal has missed stands before
        them."""
        return self._ask("gaps", Question(journal, start=start, end=end), dict[str, list[int]])["offsets"]

    def resume(self, journal: str, offset: int, anchor: Anchor) -> tuple[str, int]:
        """The same place in a journal that answers: in `journal` itself if it is there, else in another one.

        Returns the journal and the offset in it. If no other has the place, the error of the last one asked.
        """
        away: JournalError
        try:
            have = self.positions(journal=journal)
            if have.earliest <= offset <= have.latest:
                return journal, offset
            away = OffsetsRemoved(f"offset {offset} is not in {have}", have.earliest)
        except (OtherJournal, JournalUnavailable) as error:
            away = error
        for endpoint in self.endpoints:
            other = Journals([endpoint], patience_s=min(self.patience_s, ANSWER_S / 10), files=self.files)
            try:
                found = other.positions().journal
                return found, other.locate(anchor, journal=found)
            except JournalUnavailable:
                continue
            except JournalError as error:
                away = error
            finally:
                other.close()
        raise away

    def _ask(self, action: str, question: Question, kind: type[_Answer]) -> _Answer:
        body = msgspec.json.encode(question)

        def ask(client: Any) -> _Answer:
            options = self._options(ANSWER_S)
            (result,) = client.do_action(flight.Action(action, body), options)
            return msgspec.json.decode(result.body.to_pybytes(), type=kind)

        return self._patiently(ask)

    # Rows -------------------------------------------------------------------------------------------------

    def read(
        self,
        start: int,
        end: int,
        groups: Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        journal: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows from `start` up to `end`, in order; with `groups`, those of these groups and the gaps;
        with `columns`, these only.

        A connection that breaks is made again, and the reading goes on after the last row that came, in the
        same journal. JournalError if that journal does not come back.
        """
        if journal is None:
            journal = self.positions().journal
        wanted = None if groups is None else tuple(groups)
        chosen = None if columns is None else tuple(columns)
        # The offset comes in any case: it tells where to go on when a connection breaks.
        sent = None if chosen is None else tuple(dict.fromkeys((*chosen, "offset")))
        give_up_s = time.monotonic() + self.patience_s
        wait_s = FIRST_WAIT_S
        while start < end:
            try:
                for batch in self._patiently(
                    partial(self._stream, Ticket(start, end, journal, wanted, sent))
                ):
                    if not batch.num_rows:
                        continue
                    yield batch if chosen is None else batch.select(list(chosen))
                    start = int(batch.column("offset")[-1].as_py()) + 1
                    give_up_s, wait_s = time.monotonic() + self.patience_s, FIRST_WAIT_S
                return
            except BROKEN as error:
                if not _is_busy(error):
                    self.close()
                if time.monotonic() + wait_s > give_up_s:
                    raise JournalUnavailable(f"the journal breaks off at offset {start}: {error}") from None
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, LAST_WAIT_S)

    def _stream(self, ticket: Ticket, client: Any) -> "_Stream":
        return _Stream(ticket, client, self._options(STREAM_S))

    # Patience ---------------------------------------------------------------------------------------------

    def _patiently(self, work: Callable[[Any], _Answer]) -> _Answer:
        """Let one endpoint after the other do it until one does, or the patience is over.

        That another journal answers at all endpoints is certain at once; while some do not answer, the right
        one may still come back.
        """
        began_s = time.monotonic()
        deadline_s = began_s + self.patience_s
        wait_s = FIRST_WAIT_S
        while True:
            failures: list[str] = []
            other: OtherJournal | None = None
            for endpoint in self.endpoints:
                try:
                    return work(self._client(endpoint))
                except flight.FlightServerError as error:
                    told = _error(error)
                    if not isinstance(told, OtherJournal):
                        raise told from None
                    other = told
                except flight.FlightUnauthenticatedError as error:
                    words = str(error).splitlines()[0].partition(". ")[0][:200]
                    raise NotAllowed(f"{endpoint}: {words}") from None
                except flight.FlightError as error:
                    if _is_busy(error):
                        deadline_s = began_s + BUSY_PATIENCE * self.patience_s
                    else:
                        self._forget(endpoint)
                    failures.append(f"{endpoint}: {_reason(error)}")
            if other is not None and not failures:
                raise other
            if time.monotonic() + wait_s > deadline_s:
                words = f"no journal answered within {self.patience_s:g} s: {'; '.join(failures)}"
                raise JournalUnavailable(words) from None
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LAST_WAIT_S)

    def _client(self, endpoint: str) -> Any:
        if self._process != os.getpid():  # a connection is of no use in a forked child
            self._clients, self._process = {}, os.getpid()
        client = self._clients.get(endpoint)
        if client is None:
            client = self._clients[endpoint] = self._connected(endpoint)
        return client

    def _connected(self, endpoint: str) -> Any:
        scheme, _, place = endpoint.partition("://")
        if scheme == "grpc" and self._bearer() and not is_local(place.rpartition(":")[0]):
            raise UsageError(f"the token is not sent to {endpoint}, which is plain: use grpc+tls://")
        if scheme == "grpc":
            return flight.FlightClient(endpoint)
        tls = self.files.tls
        files = {"tls_root_certs": tls.ca, "cert_chain": tls.certificate, "private_key": tls.key}
        options: dict[str, Any] = {name: read_pem(path) for name, path in files.items() if path}
        if tls.server_name:
            options["override_hostname"] = tls.server_name
        return flight.FlightClient(endpoint, **options)

    def _bearer(self) -> str:
        """The token, read once."""
        if self._token is None:
            self._token = self.files.load().token
        return self._token

    def _options(self, timeout_s: float) -> Any:
        """Of each call: how long it may take, and who makes it."""
        token = self._bearer()
        headers = [(AUTHORIZATION.encode(), f"{BEARER}{token}".encode())] if token else []
        return flight.FlightCallOptions(timeout=timeout_s, headers=headers)

    def _forget(self, endpoint: str) -> None:
        client = self._clients.pop(endpoint, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        for endpoint in list(self._clients):
            self._forget(endpoint)


class _Stream:
    """The batches of a ticket, of which the first has come: so an error at the start is met at the start."""

    def __init__(self, ticket: Ticket, client: Any, options: Any) -> None:
        self._chunks = client.do_get(flight.Ticket(msgspec.json.encode(ticket)), options)
        self._first = self._next()

    def _next(self) -> pa.RecordBatch | None:
        try:
            return self._chunks.read_chunk().data
        except StopIteration:
            return None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batch = self._first
        try:
            while batch is not None:
                yield batch
                batch = self._next()
        except flight.FlightServerError as error:
            raise _error(error) from None


def _reason(error: Any) -> str:
    """Why an endpoint does not answer, without the layers that told it one another."""
    first = str(error).splitlines()[0]
    found = _CANNOT_CONNECT.search(first)
    return f"cannot connect: {found[1]}" if found else first[:200]


def _is_busy(error: Any) -> bool:
    """Whether a server has as many readers as it may have."""
    return isinstance(error, flight.FlightUnavailableError) and "busy, try again" in str(error)


def _error(error: Any) -> Exception:
    """The error that the server had."""
    try:
        complaint = msgspec.json.decode(error.extra_info, type=Complaint)
    except NOT_A_VALUE:
        return JournalError(str(error).splitlines()[0])
    kind = CODES.get(complaint.code, JournalError)
    if kind is OffsetsRemoved:
        return OffsetsRemoved(complaint.text, complaint.earliest)
    return kind(complaint.text)
