"""`antiphon.connect`: to be awaited, or entered with `async with`."""

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from antiphon.client import _embedded
from antiphon.client._finding import chosen_address
from antiphon.client._opening import Opened, addresses, open_session, request, trace_folder
from antiphon.client._reconnecting import ReconnectPlan
from antiphon.client.batches import BatchMemory
from antiphon.client.session import Session
from antiphon.errors import UsageError
from antiphon.runtime.credentials import Credentials, credentials
from antiphon.runtime.tls import Tls
from antiphon.types import SlowPolicy
from antiphon.wire import frames


class Connecting:
    """A session on its way: `await` it to get the session, or use it in `async with` to also close it."""

    def __init__(
        self,
        places: tuple[str, ...],
        hello: frames.Connect,
        shown: Credentials,
        *,
        bundle: bool,
        embedded: bool,
        timeout_s: float,
        reconnect_plan: ReconnectPlan | None,
        batches: BatchMemory | None,
        trace: Path | None,
    ) -> None:
        self._places = places
        self._hello = hello
        self._shown = shown
        self._bundle = bundle
        self._embedded = embedded
        self._timeout_s = timeout_s
        self._reconnect_plan = reconnect_plan
        self._batches = batches
        self._trace = trace
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, trace)

    async def _open(self) -> Session:
        opening = asyncio.get_running_loop().run_in_executor(None, self._open_here)
        try:
            opened, release = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_abandon)
            raise
        return Session(
            opened,
            bundle=self._bundle,
            release=release,
            reconnect_plan=self._reconnect_plan,
            batches=self._batches,
        )

    def _open_here(self) -> tuple[Opened, Callable[[], None] | None]:
        """In a worker thread: resolving names, connecting and starting a daemon all block."""
        return open_with(
            self._places,
            self._hello,
            self._shown,
            embedded=self._embedded,
            timeout_s=self._timeout_s,
            trace=self._trace,
        )


def open_with(
    places: tuple[str, ...],
    hello: frames.Connect,
    shown: Credentials,
    *,
    embedded: bool,
    timeout_s: float,
    trace: Path | None = None,
) -> tuple[Opened, Callable[[], None] | None]:
    """A welcomed connection and, with `embedded`, what stops the daemon that was started for it."""
    if not embedded:
        return open_session(places, hello, timeout_s, trace, shown), None
    place, release = _embedded.start(trace)
    try:
        return open_session((place,), hello, timeout_s, trace, shown), release
    except BaseException:
        release()
        raise


def reconnect_plan_for(
    places: tuple[str, ...],
    hello: frames.Connect,
    shown: Credentials,
    *,
    reconnect: bool,
    timeout_s: float,
    limit_s: float,
    trace: Path | None = None,
) -> ReconnectPlan | None:
    """How to come back, if that is wanted and there is somewhere to come back to."""
    if not limit_s > 0:
        raise UsageError(f"reconnect_timeout_s must be more than 0, not {limit_s!r}")
    if not (reconnect and places):
        return None
    return ReconnectPlan(places, hello, timeout_s, limit_s, trace, shown)


def _abandon(opening: "asyncio.Future[tuple[Opened, Callable[[], None] | None]]") -> None:
    """The task that wanted this session was cancelled while it was being opened."""
    if opening.cancelled() or opening.exception() is not None:
        return
    opened, release = opening.result()
    opened.abandon()
    if release is not None:
        # Stopping a daemon takes a moment, which the event loop does not have.
        threading.Thread(target=release, name="antiphon-release").start()


def connect(
    address: str | Sequence[str] | None = None,
    *,
    cluster: str | None = None,
    name: str = "",
    priority: int | str = 0,
    slow: SlowPolicy | None = None,
    views: bool = True,
    embedded: bool = False,
    bundle: bool = True,
    timeout_s: float = 10.0,
    reconnect: bool = False,
    reconnect_timeout_s: float = 60.0,
    batches: BatchMemory | None = None,
    trace: str | Path | None = None,
    tls: Tls | str | Path | None = None,
    token: str | Path | None = None,
) -> Connecting:
    """Connect to a daemon: `async with connect(...) as session`, or `session = await connect(...)`.

    - `address`: `unix:PATH`, `tls:HOST:PORT` or `tcp:HOST:PORT`, or several to try in order (a sequence, or
      one text with commas between); without one, the environment variable ANTIPHON, or else
      `unix:/tmp/antiphon.sock`.
    - `cluster`: the name of a cluster whose daemons are looked for, first on this machine and then in its LAN
      (docs/how-to/no-configuration.md); short for the address `cluster:NAME`.
    - `name`: up to 10 characters, unique at its daemon; without one, the daemon chooses.
    - `priority`: 0 to 9, or "low", "medium" or "high"; when a daemon has a queue, it takes bundles of higher
      priority first.
    - `slow`: what the daemon does when this session does not keep up: "disconnect" lets all senders wait for
      a while, "drop-unreliable" leaves unreliable messages out; without one, what the daemon is configured
      for. `SlowReceiver` warns.
    - `views`: whether to be told of joins, leaves and disconnections in the groups joined.
    - `embedded`: start a daemon in this process and stop it on close; `address` and `reconnect` are not used
      then.
    - `bundle`: False sends each message as a bundle of its own: for measurements. A daemon that is busy
      gathers them.
    - `timeout_s`: how long to wait for each daemon's answer.
    - `reconnect`: when the connection is lost, connect to the next address (or the same again), rejoin the
      groups and deliver `Reconnected`, which says which sends have an unknown fate.
    - `reconnect_timeout_s`: how long to try that before the session ends with Disconnected.
    - `batches`: what was received of batches in earlier sessions and must not be handed out again.
    - `trace`: a folder to which the session writes what it does and gets (docs/how-to/trace-a-cluster.md);
      without one, the environment variable ANTIPHON_TRACE. With `embedded`, its daemon does so, too.
    - `tls`: for addresses that begin with `tls:`: an `antiphon.Tls`, or the file with the roots from which
      the daemon's certificate must come; without it, the environment variables ANTIPHON_TLS_CA,
      ANTIPHON_TLS_CERTIFICATE, ANTIPHON_TLS_KEY and ANTIPHON_TLS_SERVER_NAME, or the roots of the system.
    - `token`: who this is, for the access list of the daemon: the token, or as a Path the file that has it;
      without it, the file in the environment variable ANTIPHON_TOKEN_FILE, or none. It is sent over TLS, over
      unix sockets and to this machine only.

    Raises UsageError at once for arguments that cannot be right, Refused if a daemon declines, ConnectError
    if none answers.

    >>> import asyncio
    >>> async def main():
    ...     async with connect(embedded=True, name="alice") as session:
    ...         return session.name
    >>> asyncio.run(main())
    '#alice#d1'
    """
    places = () if embedded else addresses(chosen_address(address, cluster))
    hello = request(name, priority, views, slow)
    folder = trace_folder(trace)
    shown = credentials(tls, token, places)
    return Connecting(
        places,
        hello,
        shown,
        bundle=bundle,
        embedded=embedded,
        timeout_s=timeout_s,
        reconnect_plan=reconnect_plan_for(
            places,
            hello,
            shown,
            reconnect=reconnect,
            timeout_s=timeout_s,
            limit_s=reconnect_timeout_s,
            trace=folder,
        ),
        batches=batches,
        trace=folder,
    )
