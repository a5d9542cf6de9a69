"""A whole journal: its folder, its server, its session, and the recorder between them."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from antiphon.client.blocking import Session, connect
from antiphon.client.events import Reconnected
from antiphon.errors import AntiphonError, ConnectError, Refused, UsageError
from antiphon.journal.guard import Guard
from antiphon.journal.log import Log, LogSettings
from antiphon.journal.memory import remembered
from antiphon.journal.recorder import Recorder
from antiphon.journal.server import JournalServer
from antiphon.journal.state import Gap
from antiphon.types import check_group

LOOPBACK = "grpc://127.0.0.1:0"
"""Any free port, for programs on this machine."""
FIRST_WAIT_S, LAST_WAIT_S = 0.05, 1.0
"""The waits between two questions whether there is a first daemon; the wait doubles up to the last."""
TICK_S = 0.1
"""A journal that is told to end while it waits does so after this time at most."""


class Journal:
    """Records groups into a folder and serves it; to be used in a `with`, then `run`.

    Rows can be read from the moment it is entered, also while there is no daemon. `reconnect` waits for the
    first daemon, and later goes on at another one, or at the same one again, for as long as it takes.
    """

    def __init__(
        self,
        groups: Sequence[str],
        folder: Path,
        settings: LogSettings | None = None,
        *,
        listen: str = LOOPBACK,
        linger_ms: int = 10,
        address: str | Sequence[str] | None = None,
        name: str = "",
        reconnect: bool = False,
        trace: Path | None = None,
        guard: Guard | None = None,
        told: Callable[[Gap], None] | None = None,
        noted: Callable[[str | Reconnected], None] | None = None,
        awaited: Callable[[str | Session], None] | None = None,
    ) -> None:
        """`guard` says who may read. `told` hears of gaps, `noted` of lost connections and new ones: see
        `Recorder`. `awaited` hears, once, why there is no first daemon yet, and then of the session."""
        self.groups = _checked(groups)
        self.latest = 0
        """One past the last offset, when it has ended."""
        self.is_stuck = False
        """Whether, when it has ended, a client keeps a stream open without reading it."""
        self._folder = folder
        self._settings = settings
        self._listen = listen
        self._linger_ms = linger_ms
        self._address = address
        self._name = name
        self._reconnect = reconnect
        self._trace = trace
        self._guard = guard
        self._told = told
        self._noted = noted
        self._awaited = awaited
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.log = Log(self._folder, self._settings)
            stack.callback(self._close_log)
            server = JournalServer(self.log, self._listen, self.groups, guard=self._guard)
            stack.callback(self._end_server, server)
            self.endpoint: str = server.endpoint
            self.log.announce(self.endpoint, self.groups)
            self._stack = stack.pop_all()
        return self

    def run(self, is_over: Callable[[], bool]) -> None:
        """Be a member and record until `is_over`; Disconnected if the session ends before that."""
        session = self._first_session(is_over)
        if session is None:
            return
        with session:
            recorder = Recorder(
                self.log, session, self.groups, linger_ms=self._linger_ms, told=self._told, noted=self._noted
            )
            recorder.join()
            recorder.run(is_over)

    def _first_session(self, is_over: Callable[[], bool]) -> Session | None:
        """The session with the first daemon that answers, for which `reconnect` waits; None if it is over
        before. A daemon that refuses the session is not asked again: a person must see why it does."""
        batches = remembered(self.log)
        wait_s, is_awaiting = FIRST_WAIT_S, False
        while not is_over():
            try:
                session = connect(
                    self._address, name=self._name, reconnect=self._reconnect,
                    reconnect_timeout_s=float("inf"), batches=batches, trace=self._trace,
                )  # fmt: skip
            except ConnectError as error:
                if not self._reconnect or isinstance(error, Refused):
                    raise
                if not is_awaiting and self._awaited is not None:
                    self._awaited(str(error))
                is_awaiting = True
                _pause(wait_s, is_over)
                wait_s = min(2 * wait_s, LAST_WAIT_S)
                continue
            if is_awaiting and self._awaited is not None:
                self._awaited(session)
            return session
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stack.close()
        except AntiphonError:
            if error is None:
                raise

    def _end_server(self, server: JournalServer) -> None:
        self.is_stuck = not server.end()

    def _close_log(self) -> None:
        self.latest = self.log.latest
        self.log.close()


def _pause(seconds: float, is_over: Callable[[], bool]) -> None:
    end_s = time.monotonic() + seconds
    while not is_over() and (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(left_s, TICK_S))


def _checked(groups: Sequence[str]) -> tuple[str, ...]:
    if not groups:
        raise UsageError("a journal needs at least one group")
    return tuple(dict.fromkeys(check_group(group) for group in groups))
