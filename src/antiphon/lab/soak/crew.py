"""The client processes of a soak, from the outside: started, told, counted, and gone at the end."""

import selectors
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import msgspec

from antiphon.errors import AntiphonError
from antiphon.lab.soak.cluster import SITES, SoakCluster
from antiphon.lab.soak.talk import BEGIN, REST, Failed, Orders, Report, Role, Tally

REST_WITHIN_S = 90.0
"""How long sessions may take to finish their work and disconnect."""
SLOW_HOMES = ("d2", "d4")
"""Where the slow receivers are: at daemons that are never killed, so that nothing else ends them."""
CHURN = "restless"


class ClientProcess:
    """One process full of sessions."""

    def __init__(self, orders: Orders) -> None:
        words = [sys.executable, "-m", "antiphon.lab.soak.people", msgspec.json.encode(orders).decode()]
        # A session of its own: Ctrl-C ends it through this process.
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    def tell(self, word: str) -> None:
        """An act begins or ends."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AntiphonError(f"a client process ended with exit code {self.process.wait()}") from None

    def report(self, deadline_s: float) -> Tally:
        """What it did in the act that was just told to end."""
        stream = self.process.stdout
        assert stream is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                raise AntiphonError(f"clients did not come to rest within {REST_WITHIN_S:.0f} s")
        line = stream.readline()
        if not line:
            raise AntiphonError(f"a client process ended with exit code {self.process.wait()}")
        told: Report = msgspec.json.decode(line, type=Tally | Failed)
        if isinstance(told, Failed):
            raise AntiphonError(f"a client process failed: {told.reason}")
        return told

    def end(self) -> None:
        """Without a word."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Crew:
    """All client processes: one that floods at each site, one of slow receivers, and one whose sessions come
    and go. They are gone when the stack is left."""

    def __init__(self, cluster: SoakCluster, act_s: float, stack: ExitStack) -> None:
        self.processes: dict[str, ClientProcess] = {}
        self._cluster = cluster
        self._act_s = act_s
        stack.callback(self.end)
        for site in SITES:
            self._start(f"clients at {site}", "flood", cluster.site_places(site))
        self._start("slow clients", "slow", [cluster.places[name] for name in SLOW_HOMES])
        self._start(CHURN, "churn", list(cluster.places.values()))

    def _start(self, name: str, role: Role, homes: list[str]) -> None:
        orders = Orders(
            role=role,
            homes=tuple(homes),
            places=tuple(self._cluster.places.values()),
            trace=str(self._cluster.traces),
            seed=len(self.processes),
            act_s=self._act_s,
        )
        self.processes[name] = ClientProcess(orders)

    @property
    def lasting(self) -> list[str]:
        """The processes that live as long as the soak."""
        return [name for name in self.processes if name != CHURN]

    def begin(self) -> None:
        """All sessions come."""
        for client in self.processes.values():
            client.tell(BEGIN)

    def rest(self) -> Tally:
        """All sessions go; what they did."""
        for client in self.processes.values():
            client.tell(REST)
        deadline_s = time.monotonic() + REST_WITHIN_S
        return sum((client.report(deadline_s) for client in self.processes.values()), Tally())

    def abandon(self) -> None:
        """The restless ones die without a word, and others come instead."""
        self.processes.pop(CHURN).end()
        self._start(CHURN, "churn", list(self._cluster.places.values()))
        self.processes[CHURN].tell(BEGIN)

    def end(self) -> None:
        """All processes."""
        for client in self.processes.values():
            client.end()
