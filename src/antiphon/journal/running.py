"""A whole journal: its folder, its server, its session, and the recorder between them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import antiphon.client.blocking
from antiphon.client.events import Reconnected
from antiphon.errors import AntiphonError, UsageError
from antiphon.journal.guard import Guard
from antiphon.journal.log import Log, LogSettings
from antiphon.journal.memory import remembered
from antiphon.journal.recorder import Recorder
from antiphon.journal.server import JournalServer
from antiphon.journal.state import Gap
from antiphon.types import check_group

LOOPBACK = "grpc://127.0.0.1:0"
"""Any free port, for programs on this machine."""


class Journal:
    """Records groups into a folder and serves it; to be used in a `with`, then `run`.

    Rows can be read from the moment it is entered, also while there is no daemon. `reconnect` goes on at
    another daemon, or at the same one again, for as long as it takes.
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
    ) -> None:
        """`guard` says who may read. `told` hears of gaps, `noted` of lost connections and new ones: see
        `Recorder`."""
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
        session = antiphon.client.blocking.connect(
            self._address,
            name=self._name,
            reconnect=self._reconnect,
            reconnect_timeout_s=float("inf"),
            batches=remembered(self.log),
            trace=self._trace,
        )
        with session:
            recorder = Recorder(
                self.log, session, self.groups, linger_ms=self._linger_ms, told=self._told, noted=self._noted
            )
            recorder.join()
            recorder.run(is_over)

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


def _checked(groups: Sequence[str]) -> tuple[str, ...]:
    if not groups:
        raise UsageError("a journal needs at least one group")
    return tuple(dict.fromkeys(check_group(group) for group in groups))
