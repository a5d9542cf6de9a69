"""From an address to a welcome: finding a daemon, asking it for a session, asking it about itself.

Everything here blocks, with a deadline; the asyncio session runs it in a worker thread, so that the two
kinds of session meet a daemon through the same code.
"""

import logging
import os
import re
import socket
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon import config, limits
from antiphon.client._diary import open_diary
from antiphon.client._finding import check_cluster, found_places
from antiphon.client._incoming import Incoming
from antiphon.errors import BadFrame, ConfigError, ConnectError, Refused, UsageError
from antiphon.runtime.addresses import is_on_loopback
from antiphon.runtime.credentials import Credentials, credentials
from antiphon.runtime.tls import Tls, TlsSocket
from antiphon.trace.scrolls import make_folder
from antiphon.types import SLOW_POLICIES, SlowPolicy, check_name, check_priority
from antiphon.wire import frames

_logger = logging.getLogger("antiphon.trace")

DEFAULT_ADDRESS = "unix:/tmp/antiphon.sock"
ADDRESS_VARIABLE = "ANTIPHON"
TRACE_VARIABLE = "ANTIPHON_TRACE"
SEPARATOR = re.compile(r"\s*,\s*(?=unix:|tcp:|tls:|cluster:)")
"""Separates two addresses in one text; a path may have commas of its own."""
SEND_BUFFER_BYTES = 1024 * 1024
"""Room in the kernel for several bundles, so that a sender and its daemon need not alternate."""
QUEUE_FULL_PAUSE_S = 0.01
"""How long to wait between two attempts to get into a unix listener's queue."""


Wire = socket.socket | TlsSocket


class Opened(Struct, frozen=True):
    """A connection whose daemon has said welcome."""

    socket: Wire
    address: str
    welcome: frames.Welcome
    incoming: Incoming
    credentials: Credentials

    def abandon(self) -> None:
        """Close the connection: the session that asked for it is over."""
        self.socket.close()
        self.incoming.end_diary()


def addresses(address: str | Sequence[str] | None) -> tuple[str, ...]:
    """The addresses to try, in order: those given, else $ANTIPHON, else the default. One may name a cluster.

    >>> addresses("unix:/run/antiphon.sock, tcp:127.0.0.1:4811")
    ('unix:/run/antiphon.sock', 'tcp:127.0.0.1:4811')
    """
    if address is None:
        address = os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
    found = SEPARATOR.split(address) if isinstance(address, str) else tuple(address)
    if not found:
        raise UsageError("no address: give unix:PATH, tls:HOST:PORT, tcp:HOST:PORT or cluster:NAME")
    try:
        return tuple(check_cluster(one) or config.check_listener(one) for one in found)
    except ConfigError as error:
        raise UsageError(f"address{str(error).removeprefix('listener')}") from None


def trace_folder(trace: str | Path | None) -> Path | None:
    """The folder for traces: the one given, else $ANTIPHON_TRACE, else none. UsageError if it cannot be
    written to."""
    chosen = trace if trace is not None else os.environ.get(TRACE_VARIABLE)
    return make_folder(Path(chosen)) if chosen else None


def request(name: str, priority: int | str, views: bool, slow: SlowPolicy | None = None) -> frames.Connect:
    """The first word to a daemon, checked."""
    if name:
        check_name(name, "session", limits.SESSION_NAME_MAX_BYTES)
    if slow is not None and slow not in SLOW_POLICIES:
        raise UsageError(f"slow must be one of {', '.join(SLOW_POLICIES)}, not {slow!r}")
    return frames.Connect(
        frames.PROTOCOL_VERSION,
        name,
        check_priority(priority),
        views,
        accepts=True,
        slow=slow or "",
        warnings=True,
        refusals=True,
    )


def open_session(
    places: Sequence[str],
    hello: frames.Connect,
    timeout_s: float,
    trace: Path | None = None,
    shown: Credentials | None = None,
) -> Opened:
    """A session with the first daemon that answers; Refused if it declines, ConnectError if none answers.
    A daemon that is about to stop counts as none.

    With `trace`, a folder that is there, what happens to the session is written down in it. Daemons are
    `shown` who this is.
    """
    shown = shown or credentials(None, None, places)
    failures: list[str] = []
    for place in found_places(places, failures, timeout_s):
        try:
            opened = _open_at(place, hello, timeout_s, shown)
            if trace is not None:
                _begin_trace(opened, hello, timeout_s, trace)
            return opened
        except ConnectError as error:
            if isinstance(error, Refused) and error.code != frames.STOPPING:
                raise
            failures.append(str(error))
    raise ConnectError("; ".join(failures))


def ask_status(
    address: str | Sequence[str] | None = None,
    timeout_s: float = 10.0,
    *,
    groups: int | None = None,
    members: int | None = None,
    sessions: int | None = None,
    tls: Tls | str | Path | None = None,
    token: str | Path | None = None,
    shown: Credentials | None = None,
) -> dict[str, Any]:
    """What a daemon says about itself; takes a connection for a moment but no session.

    Without an address, the daemon that `connect` would find; of several, the first that answers. `groups`,
    `members` (of each group) and `sessions` are the most that are wanted; by default all of them, which come
    in as many pages as they need. `not_shown` in the answer says how many there are besides, `group_sizes`
    how large those groups are whose members did not all come. `tls` and `token` are as for `connect`; or
    `shown` is what they mean. Raises Refused if the access list does not allow the question.
    """
    places = addresses(address)
    shown = shown or credentials(tls, token, places)
    failures: list[str] = []
    for place in found_places(places, failures, timeout_s):
        try:
            return _ask_at(place, timeout_s, shown, frames.AskStatus("", groups, members, sessions))
        except Refused:
            raise
        except ConnectError as error:
            failures.append(str(error))
    raise ConnectError("; ".join(failures))


NOTHING_MORE = frames.AskStatus(groups=0, sessions=0)
"""Asks for the overview alone."""


def ask_reload(
    address: str | Sequence[str] | None = None,
    timeout_s: float = 10.0,
    *,
    tls: Tls | str | Path | None = None,
    token: str | Path | None = None,
) -> frames.Reloaded:
    """Have a daemon read its access list and its certificate again; what became of that. Of several daemons
    the first that answers. Raises Refused if the access list does not allow it."""
    places = addresses(address)
    shown = credentials(tls, token, places)
    failures: list[str] = []
    for place in found_places(places, failures, timeout_s):
        try:
            with closing(_dial(place, timeout_s, shown)) as connection:
                incoming = Incoming()
                _converse(connection, place, frames.ReloadAccess(), incoming, timeout_s)
                if isinstance(incoming.answer, frames.Refuse):
                    raise Refused(incoming.answer.code, incoming.answer.reason)
                if incoming.reloaded is None:
                    raise ConnectError(f"the daemon at {place} did not say what became of it")
                return incoming.reloaded
        except Refused:
            raise
        except ConnectError as error:
            failures.append(str(error))
    raise ConnectError("; ".join(failures))


def _ask_at(
    place: str, timeout_s: float, shown: Credentials, request: frames.AskStatus = NOTHING_MORE
) -> dict[str, Any]:
    """All that was asked for; page by page, each of which shows what is so when it is made."""
    with closing(_dial(place, timeout_s, shown)) as connection:
        answer = _ask_page(connection, place, request, timeout_s)
        while after := answer.pop("next", None):
            rest = replace(request, after=after, **_still_wanted(request, answer, after))
            page = _ask_page(connection, place, rest, timeout_s)
            _add_page(answer, page, has_groups=after.startswith("g "))
    return answer


def _add_page(answer: dict[str, Any], page: dict[str, Any], *, has_groups: bool) -> None:
    for group, members in page["groups"].items():
        answer["groups"].setdefault(group, []).extend(members)
    answer["sessions"] += page["sessions"]
    answer["runtime"]["output_bytes"] |= page["runtime"]["output_bytes"]
    answer["next"] = page["next"]
    if "group_sizes" in page:
        answer["group_sizes"] = answer.get("group_sizes", {}) | page["group_sizes"]
    before, after = ({"groups": 0, "members": 0, **one.get("not_shown", {})} for one in (answer, page))
    not_shown = {
        "groups": after["groups"] if has_groups else before["groups"],
        "sessions": after.get("sessions", 0),
        "members": before["members"] + after["members"],
    }
    answer.pop("not_shown", None)
    if any(not_shown.values()):
        answer["not_shown"] = not_shown


def _still_wanted(request: frames.AskStatus, answer: dict[str, Any], after: str) -> dict[str, int]:
    """How many groups and sessions are wanted beyond what has come, if there is a limit."""
    wanted = {}
    if request.groups is not None:
        is_half_told = after.startswith("g ") and not after.endswith(" 0")
        wanted["groups"] = max(0, request.groups - len(answer["groups"]) + is_half_told)
    if request.sessions is not None:
        wanted["sessions"] = max(0, request.sessions - len(answer["sessions"]))
    return wanted


def _ask_page(connection: Wire, place: str, request: frames.AskStatus, timeout_s: float) -> dict[str, Any]:
    incoming = Incoming()
    _converse(connection, place, request, incoming, timeout_s)
    if isinstance(incoming.answer, frames.Refuse):
        raise Refused(incoming.answer.code, incoming.answer.reason)
    if incoming.status is None:
        said = f": {incoming.goodbye.reason}" if incoming.goodbye else ""
        raise ConnectError(f"the daemon at {place} did not tell its status{said}")
    answer: dict[str, Any] = msgspec.json.decode(incoming.status.json)
    return answer


def _open_at(place: str, hello: frames.Connect, timeout_s: float, shown: Credentials) -> Opened:
    incoming = Incoming()
    incoming.shows_views = hello.views
    connection = _dial(place, timeout_s, shown)
    try:
        _converse(connection, place, hello, incoming, timeout_s)
        _read_on(connection, incoming)
        match incoming.answer:
            case frames.Welcome() as welcome:
                return Opened(connection, place, welcome, incoming, shown)
            case frames.Refuse(code=code, reason=reason):
                raise Refused(code, reason)
        goodbye = incoming.goodbye
        raise ConnectError(
            f"the daemon at {place} did not welcome us{f': {goodbye.reason}' if goodbye else ''}"
        )
    except BaseException:
        connection.close()
        raise


def _begin_trace(opened: Opened, hello: frames.Connect, timeout_s: float, folder: Path) -> None:
    """Open the diary. What the welcome does not say of the daemon and its cluster, its status does.

    There is none at an edge: what happens to sessions there stands in the trace of the edge.
    """
    if opened.welcome.daemon_number == frames.AT_AN_EDGE:
        _logger.warning(
            "no trace of session %s: it is at an edge, whose own trace tells of it", opened.welcome.name
        )
        return
    try:
        told = _ask_at(opened.address, timeout_s, opened.credentials)
    except BaseException:
        opened.socket.close()
        raise
    opened.incoming.diary = open_diary(
        folder, opened.welcome, hello.views, told["cluster"], told["daemons"], told["incarnation"]
    )


def _dial(place: str, timeout_s: float, shown: Credentials) -> Wire:
    """A connection to a daemon that knows who this is, as far as it is to be told."""
    scheme, _, rest = place.partition(":")
    connection = _dial_plain(place, scheme, rest, timeout_s)
    wire: Wire = connection
    try:
        if scheme == "tls":
            server_name = shown.tls.server_name or config.address(rest)[0]
            wire = TlsSocket(connection, shown.context(), server_name=server_name)
            wire.handshake()
        if shown.token:
            if scheme == "tcp" and not is_on_loopback(connection):
                raise ConnectError(f"the token is not sent to {place}, which is plain: use tls:")
            wire.sendall(frames.encode_control(frames.Credential(shown.token)))
    except TimeoutError:
        connection.close()
        raise ConnectError(f"no TLS with {place} within {timeout_s:g} s") from None
    except BadFrame as error:
        connection.close()
        raise ConnectError(f"no TLS with {place}: {error.reason.removeprefix('tls: ')}") from None
    except OSError as error:
        connection.close()
        if isinstance(error, ConnectError):
            raise
        raise ConnectError(f"the connection to {place} broke: {_said(error)}") from None
    except BaseException:
        connection.close()
        raise
    return wire


def _read_on(connection: Wire, incoming: Incoming) -> None:
    """Take what TLS has already: no descriptor tells of it."""
    if not isinstance(connection, TlsSocket):
        return
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while connection.has_unread and (count := connection.recv_into(incoming.space())):
            incoming.filled(count)


def _dial_plain(place: str, scheme: str, rest: str, timeout_s: float) -> socket.socket:
    try:
        if scheme == "unix":
            connection = _dial_unix(rest, timeout_s)
        else:
            connection = socket.create_connection(config.address(rest), timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError:
        raise ConnectError(f"no answer from {place} within {timeout_s:g} s") from None
    except OSError as error:
        raise ConnectError(f"no daemon at {place}: {_said(error)}") from None
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return connection


def _dial_unix(path: str, timeout_s: float) -> socket.socket:
    """A connected socket. Where TCP would wait for a daemon with a full queue of newcomers, a unix socket
    says "try again" at once: so try again."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_s)
            connection.connect(path)
            return connection
        except BlockingIOError:
            connection.close()
            if time.monotonic() >= deadline_s:
                raise TimeoutError from None
            time.sleep(QUEUE_FULL_PAUSE_S)
        except BaseException:
            connection.close()
            raise


def _converse(
    connection: Wire, place: str, word: frames.FromClient, incoming: Incoming, timeout_s: float
) -> None:
    """Say `word` and read until the daemon has answered one way or another."""
    deadline = time.monotonic() + timeout_s
    try:
        connection.sendall(frames.encode_control(word))
        while not incoming.has_answer:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            count = connection.recv_into(incoming.space())
            if not count:
                raise ConnectError(f"the daemon at {place} closed the connection without an answer")
            incoming.filled(count)
    except TimeoutError:
        raise ConnectError(f"no answer from {place} within {timeout_s:g} s") from None
    except BadFrame as error:
        if error.reason.startswith("tls: "):  # of TLS 1.3, what the daemon says of our certificate comes late
            said = error.reason.removeprefix("tls: ")
            raise ConnectError(f"no TLS with {place}: {said}") from None
        raise ConnectError(f"what answers at {place} is not an Antiphon daemon ({error.reason})") from None
    except ConnectError:
        raise
    except OSError as error:
        raise ConnectError(f"the connection to {place} broke: {_said(error)}") from None


def _said(error: OSError) -> str:
    return error.strerror or str(error)
