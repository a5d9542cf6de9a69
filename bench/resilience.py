"""What resilience costs beside agreed and safe delivery, on real daemons in processes of their own.

    .venv/bin/python bench/resilience.py [--rounds 3] [--seconds 4] [--delay-ms 25] [--daemons 2] [--json]

Three sites of `--daemons` daemons each, with emulated paths of `--delay-ms` one way: 50 ms for a round trip.
A session of the first daemon sends a message every 10 ms: agreed, with K = 2, with K = 3, for a majority, for
all, and safe, in turns. Told is the median of how long each kind takes to members

- `own`: at the daemon of the sender
- `site`: at the other daemons of its site, if there are any
- `far`: at the daemons of other sites

In the adaptive order the first seconds are not counted: the other sites become passive in them. What comes
after a message that waits waits for it, so that kinds are sent one after the other, not at the same time.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import antiphon.blocking
from antiphon import Message, Service
from antiphon.config import Settings
from antiphon.load.cluster import DaemonProcesses
from antiphon.runtime.local import local_config
from antiphon.types import Resilience

ORDERS = ("symmetric", "adaptive")
KINDS: dict[str, tuple[Service, Resilience | None]] = {
    "agreed": (Service.AGREED, None),
    "K=2": (Service.AGREED, 2),
    "K=3": (Service.AGREED, 3),
    "majority": (Service.AGREED, "majority"),
    "total": (Service.AGREED, "total"),
    "safe": (Service.SAFE, None),
}
SITES = 3
GROUP = "g"
EVERY_S = 0.01
WARM_S = 6.0
REST_S = 0.5


class Member:
    """A session that notes how long messages took, by kind."""

    def __init__(self, address: str) -> None:
        self.session = antiphon.blocking.connect(address)
        self.session.join(GROUP)
        self.took_s: dict[str, list[float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        while not self._over.is_set():
            try:
                events = self.session.receive_many(timeout_s=0.1)
            except TimeoutError:
                continue
            now_s = time.monotonic()
            for event in events:
                if isinstance(event, Message):
                    kind, _, sent_s = event.payload.partition(b" ")
                    self.took_s.setdefault(kind.decode(), []).append(now_s - float(sent_s))

    def close(self) -> None:
        """End the session."""
        self._over.set()
        self._thread.join()
        self.session.close()


def say(session: antiphon.blocking.Session, kind: str, seconds: float) -> None:
    """Send messages of a kind for a while, with the time in them."""
    service, resilience = KINDS[kind]
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        payload = b"%s %.6f" % (kind.encode(), time.monotonic())
        session.send(GROUP, payload, service, resilience=resilience)
        time.sleep(EVERY_S)


def measured(order: str, daemons: int, delay_ms: float, seconds: float) -> dict[str, dict[str, float]]:
    """By kind and by where the members are, the median in milliseconds."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = Settings(order=order, membership="lan")  # type: ignore[arg-type]
        config = local_config(SITES, folder, daemons=daemons, settings=settings, delay_ms=delay_ms)
        addresses = DaemonProcesses(config, folder, stack).addresses
        members = [Member(address) for address in addresses]
        sender = antiphon.blocking.connect(addresses[0])
        say(sender, "agreed", WARM_S)
        time.sleep(REST_S)
        for member in members:
            member.took_s.clear()
        for kind in KINDS:
            say(sender, kind, seconds)
            time.sleep(REST_S)
        places = {"own": members[:1], "site": members[1:daemons], "far": members[daemons:]}
        found = {
            kind: {
                place: 1e3 * statistics.median([one for member in some for one in member.took_s[kind]])
                for place, some in places.items()
                if some
            }
            for kind in KINDS
        }
        for one in (sender, *members):
            one.close()
        return found


def main() -> None:
    """Measure, round by round, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--delay-ms", type=float, default=25.0)
    parser.add_argument("--daemons", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {order: [] for order in ORDERS}
    for number in range(arguments.rounds):
        for order in ORDERS if number % 2 == 0 else reversed(ORDERS):
            found = measured(order, arguments.daemons, arguments.delay_ms, arguments.seconds)
            rounds[order].append(found)
            if arguments.json:
                print(json.dumps({"order": order, "round": number, "median_ms": found}), flush=True)
    if arguments.json:
        return
    for order, of_order in rounds.items():
        places = list(of_order[0]["safe"])
        middle = {
            (kind, place): statistics.median(one[kind][place] for one in of_order)
            for kind in KINDS
            for place in places
        }
        for kind in KINDS:
            cells = (
                f"{place} {middle[kind, place]:6.1f} ms ({middle[kind, place] / middle['safe', place]:4.2f})"
                for place in places
            )
            print(f"{order:10} {kind:9} {', '.join(cells)} of safe")


if __name__ == "__main__":
    main()
