"""How a session that has lost its connection gets another: where it asks, how often, and when it gives up.

`route` decides that and has no clock, socket or chance of its own; `Search` carries it out in a thread. Tests
carry it out in virtual time, against simulated daemons (`tests/simulation/virtual_library.py`).
"""

import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from msgspec import Struct

from antiphon.client._opening import Opened, open_session
from antiphon.errors import ConnectError
from antiphon.runtime.credentials import Credentials
from antiphon.wire import frames

FIRST_WAIT_S = 0.05
LAST_WAIT_S = 5.0
"""The waits between two rounds through all places; the wait doubles from the first to the last."""
SPREAD = 0.5
"""Each wait is shortened by up to this share: the clients of a dead daemon should not come all at once."""


class Ask(Struct, frozen=True):
    """Ask at this place for a session. After a success the route is over."""

    place: str


class Wait(Struct, frozen=True):
    """Wait for this time before the next step."""

    seconds: float


class ReconnectPlan(Struct, frozen=True):
    """The places at which a lost session may be continued."""

    places: tuple[str, ...]
    hello: frames.Connect
    timeout_s: float
    """How long to wait for the answer of each daemon."""
    limit_s: float
    """How long to try, over all rounds."""
    trace: Path | None = None
    """The trace file of the new session."""
    shown: Credentials | None = None
    """What daemons are shown of who this is."""

    def order(self, lost: str) -> tuple[str, ...]:
        """The places of one round.

        >>> ReconnectPlan(("a", "b", "c"), frames.Connect(2), 1, 1).order("b")
        ('c', 'a', 'b')
        """
        places = self.places
        after = places.index(lost) + 1 if lost in places else 0
        return places[after:] + places[:after]

    def waits_s(self, chance: Callable[[], float] = random.random) -> Iterator[float]:
        """How long to wait after each round in vain."""
        wait_s = FIRST_WAIT_S
        while True:
            yield wait_s * (1 - SPREAD * chance())
            wait_s = min(2 * wait_s, LAST_WAIT_S)

    def route(
        self,
        lost: str,
        *,
        may_try: Callable[[], bool],
        now_s: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> Generator[Ask | Wait, str | None, str]:
        """What to do step by step until there is a connection; takes the reason of each `Ask` in vain, and
        returns why there is none when the time is up.

        A refusal does not end a round: another daemon may have the name free, and the same one soon will,
        when it notices that the old session has ended.
        """
        deadline_s = now_s() + self.limit_s
        failure = "this program did not take its events"
        for wait_s in self.waits_s(chance):
            if may_try():
                failures = []
                for place in self.order(lost):
                    failures.append((yield Ask(place)) or "")
                failure = "; ".join(failures)
            if now_s() + wait_s > deadline_s:
                break
            yield Wait(wait_s)
        return f"no daemon took the session again within {self.limit_s:g} s: {failure}"


class Search:
    """A thread that looks for another connection until there is one, the time is up, or it is stopped.

    A daemon thread even for asyncio: one of the loop's own would keep a program that wants to end waiting for
    the answer of a dead daemon.
    """

    def __init__(
        self,
        plan: ReconnectPlan,
        lost: str,
        *,
        may_try: Callable[[], bool],
        found: Callable[[Opened], None],
        failed: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._lost = lost
        self._may_try = may_try
        self._found = found
        self._failed = failed
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="antiphon-reconnect", daemon=True).start()

    def stop(self) -> None:
        """End the search: the session is over. A connection that is being opened is thrown away."""
        self._stopped.set()

    def _run(self) -> None:
        try:
            opened = self._search()
        except Exception as error:
            self._failed(f"the attempt to reconnect failed: {error!r}")
            raise
        if isinstance(opened, str):
            self._failed(opened)
        elif self._stopped.is_set():
            opened.abandon()
        else:
            self._found(opened)

    def _search(self) -> Opened | str:
        """Another connection, or why there is none."""
        plan = self._plan
        steps = plan.route(self._lost, may_try=self._may_try, now_s=time.monotonic)
        failure: str | None = None
        while not self._stopped.is_set():
            try:
                step = steps.send(failure)
            except StopIteration as end:
                reason: str = end.value
                return reason
            failure = None
            if isinstance(step, Wait):
                self._stopped.wait(step.seconds)
                continue
            try:
                return open_session((step.place,), plan.hello, plan.timeout_s, plan.trace, plan.shown)
            except ConnectError as error:
                failure = str(error)
        return "the search was stopped"
