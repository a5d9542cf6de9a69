"""The options of the data source, checked before anything runs: a wrong one is told at once."""

import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from msgspec import Struct

from antiphon import limits
from antiphon.client._opening import addresses
from antiphon.errors import UsageError
from antiphon.journal.lookup import schema_of
from antiphon.runtime.credentials import CredentialFiles, files_of_environment
from antiphon.runtime.tls import Tls
from antiphon.service import Service
from antiphon.spark.foreign import ours, translated, unknown
from antiphon.types import BatchStamp, check_destination, check_group, check_name, check_stamp

Place = int | datetime | str
"""Where to begin or end: an offset, a time, or the word `earliest` or `latest`."""
NAME_MAX_BYTES = limits.SESSION_NAME_MAX_BYTES - 4
"""The longest name of a sink's sessions: leaves room for the number of a part behind it."""
QUERY_MAX_BYTES = limits.BATCH_QUERY_MAX_BYTES - 37
"""The longest name of a query: leaves room for the identifier of a stream's checkpoint behind it."""
_READING = {
    "endpoint", "groups", "columns", "start", "end", "maxrowspertrigger", "partitions", "failondataloss",
    "timeoutseconds",
}  # fmt: skip
_WRITING = {"address", "group", "service", "name", "query", "batch", "timeoutseconds"}
_SHOWING = {"tlsca", "tlscertificate", "tlskey", "tlsservername", "tokenfile"}
"""Of both: names of files; a token itself would stand in plans, logs and pages of Spark."""
_SPELLED = {
    "maxrowspertrigger": "maxRowsPerTrigger",
    "failondataloss": "failOnDataLoss",
    "timeoutseconds": "timeoutSeconds",
    "tlsca": "tlsCa",
    "tlscertificate": "tlsCertificate",
    "tlskey": "tlsKey",
    "tlsservername": "tlsServerName",
    "tokenfile": "tokenFile",
}
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class Reading(Struct, frozen=True):
    """How a source reads."""

    endpoints: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    """The columns that are wanted, in this order; None: all of them."""
    start: Place = "earliest"
    end: Place = "latest"
    max_rows: int | None = None
    """Rows of the journal in one micro-batch."""
    partitions: int = 1
    fails_on_data_loss: bool = True
    timeout_s: float = 60.0
    """How long a journal that does not answer is asked again, before another one is, or the query fails."""
    files: CredentialFiles = CredentialFiles()
    """What shows a journal who reads: files that driver and executors have."""


class Writing(Struct, frozen=True):
    """How a sink writes."""

    addresses: tuple[str, ...] | None = None
    """The addresses of daemons; None: those in the executor's environment."""
    groups: tuple[str, ...] = ()
    """The groups for rows that name none themselves."""
    service: Service = Service.AGREED
    name: str = ""
    query: str = ""
    batch: int | None = None
    timeout_s: float = 60.0
    """How long to look for a daemon that takes the messages."""
    files: CredentialFiles = CredentialFiles()
    """What shows a daemon who writes: files that the executors have."""


def check_options(options: Mapping[str, str]) -> tuple[Reading, Writing]:
    """Both sides of the options, which Spark gives before it says whether it will read or write."""
    given = translated(ours(options))
    for name in given:
        if name not in _READING | _WRITING | _SHOWING:
            raise unknown(name, sorted(_SPELLED.get(one, one) for one in _READING | _WRITING | _SHOWING))
    timeout_s = _option(given, "timeoutseconds", _seconds, 60.0)
    files = _files(given)
    reading = Reading(
        endpoints=_option(given, "endpoint", _endpoints, ()),
        groups=_option(given, "groups", _groups, None),
        columns=_option(given, "columns", _columns, None),
        start=_option(given, "start", _place, "earliest"),
        end=_option(given, "end", _place, "latest"),
        max_rows=_option(given, "maxrowspertrigger", _positive, None),
        partitions=_option(given, "partitions", _positive, os.cpu_count() or 1),
        fails_on_data_loss=_option(given, "failondataloss", _yes_or_no, True),
        timeout_s=timeout_s,
        files=files,
    )
    writing = Writing(
        addresses=_option(given, "address", addresses, None),
        groups=_option(given, "group", _destinations, ()),
        service=_option(given, "service", Service.parse, Service.AGREED),
        name=_option(given, "name", _session_name, ""),
        query=_option(given, "query", _query, ""),
        batch=_option(given, "batch", _number, None),
        timeout_s=timeout_s,
        files=files,
    )
    return reading, writing


def _option(
    given: Mapping[str, str], name: str, parse: Callable[[str], _Value], otherwise: _Default
) -> _Value | _Default:
    text = given.get(name)
    if text is None:
        return otherwise
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"antiphon: option {_SPELLED.get(name, name)}: {error}") from None


def _files(given: Mapping[str, str]) -> CredentialFiles:
    """The files that the options name, and otherwise those of the driver's environment."""
    found = files_of_environment()
    tls = Tls(
        given.get("tlsca", found.tls.ca),
        given.get("tlscertificate", found.tls.certificate),
        given.get("tlskey", found.tls.key),
        given.get("tlsservername", found.tls.server_name),
    )
    return CredentialFiles(tls, given.get("tokenfile", found.token_file))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _endpoints(text: str) -> tuple[str, ...]:
    """Each of a list of endpoints, with its scheme.

    >>> _endpoints("grpc://a:7000, b:7000")
    ('grpc://a:7000', 'grpc://b:7000')
    """
    found = tuple(word if "://" in word else f"grpc://{word}" for word in _words(text))
    if not found:
        raise UsageError("needs grpc://HOST:PORT or grpc+tls://HOST:PORT, or several with commas between")
    for endpoint in found:
        host, _, port = endpoint.partition("://")[2].rpartition(":")
        if not host or not port.isascii() or not port.isdecimal():
            raise UsageError(f"{endpoint!r} is not grpc://HOST:PORT")
    return found


def _groups(text: str) -> tuple[str, ...]:
    found = tuple(check_group(word) for word in _words(text))
    if not found:
        raise UsageError("names no group; leave it out for all")
    return found


def _columns(text: str) -> tuple[str, ...]:
    found = _words(text)
    schema_of(found)
    return found


def _destinations(text: str) -> tuple[str, ...]:
    found = tuple(check_destination(word) for word in _words(text))
    if not 1 <= len(found) <= limits.GROUPS_PER_MESSAGE_MAX:
        raise UsageError(f"{len(found)} groups; a message goes to 1 to {limits.GROUPS_PER_MESSAGE_MAX}")
    return found


def _place(text: str) -> Place:
    """A word, an offset or a time.

    >>> _place("17"), _place("Latest"), _place("2026-11-16T05:00:00Z").isoformat()
    (17, 'latest', '2026-11-16T05:00:00+00:00')
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return word
    if word.isascii() and word.isdecimal():
        return int(word)
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{text!r} is not earliest, latest, an offset, or a time such as 2026-11-16T05:00:00Z"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _number(text: str) -> int:
    word = text.strip()
    if not (word.isascii() and word.isdecimal()) or int(word) > limits.BATCH_NUMBER_MAX:
        raise UsageError(f"{text!r} is not a whole number from 0 on")
    return int(word)


def _positive(text: str) -> int:
    if number := _number(text):
        return number
    raise UsageError("must be more than 0")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _yes_or_no(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise UsageError(f"{text!r} is neither true nor false")
    return word == "true"


def _session_name(text: str) -> str:
    return check_name(text, "session", NAME_MAX_BYTES)


def _query(text: str) -> str:
    if len(text) > QUERY_MAX_BYTES:
        raise UsageError(f"needs 1 to {QUERY_MAX_BYTES} visible ASCII characters, not {text[:40]!r}")
    return check_stamp(BatchStamp(text, 0, 0, 0, 0)).query
