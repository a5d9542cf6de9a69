"""The adaptive order beside the symmetric one, on real daemons in processes of their own, in turns.

    .venv/bin/python bench/orders.py [--rounds 3] [--seconds 4] [--delay-ms 25] [--json]

Three sites of one daemon each, with emulated paths of `--delay-ms` one way.

- `latency`: one session sends an agreed message every 10 ms; how long each takes to a member at each of the
  other two sites, the median of all
- `rare`: meanwhile a session at another site sends one every 300 ms: the same for these
- `flood`: a session at each site sends as fast as it may, without emulated paths; what each of the three
  receivers gets, in messages per second together

The first seconds are not counted: sources find their roles in them.
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
from antiphon import Message
from antiphon.config import Settings
from antiphon.load.cluster import DaemonProcesses
from antiphon.runtime.local import local_config

ORDERS = ("symmetric", "adaptive")
GROUP = "g"
EVERY_S = 0.01
RARE_EVERY_S = 0.3
WARM_S = 4.0
PAYLOAD = b"x" * 100


class Member:
    """A session that notes when messages with a time in them came, or counts the others."""

    def __init__(self, address: str) -> None:
        self.session = antiphon.blocking.connect(address)
        self.session.join(GROUP)
        self.took_s: dict[bytes, list[float]] = {}
        self.count = 0
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
                    self.count += 1
                    kind, _, sent_s = event.payload.partition(b" ")
                    if sent_s:
                        self.took_s.setdefault(kind, []).append(now_s - float(sent_s))

    def forget(self) -> None:
        """What came so far does not count."""
        self.took_s.clear()
        self.count = 0

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.session.close()


def say(session: antiphon.blocking.Session, kind: bytes, every_s: float, over: threading.Event) -> None:
    """Send the time again and again."""
    while not over.wait(every_s):
        session.send(GROUP, b"%s %.6f" % (kind, time.monotonic()))


def flood(session: antiphon.blocking.Session, over: threading.Event) -> None:
    """Send as fast as the daemon lets us."""
    batch = [PAYLOAD] * 100
    while not over.is_set():
        session.send_many(GROUP, batch)


def cluster(order: str, delay_ms: float, stack: ExitStack) -> DaemonProcesses:
    """Three daemons with an order."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    settings = Settings(order=order, membership="lan")  # type: ignore[arg-type]
    return DaemonProcesses(local_config(3, folder, settings=settings, delay_ms=delay_ms), folder, stack)


def latency(order: str, delay_ms: float, seconds: float) -> dict[str, float]:
    """The medians of both kinds of messages, in milliseconds."""
    with ExitStack() as stack:
        daemons = cluster(order, delay_ms, stack)
        members = [Member(address) for address in daemons.addresses]
        over = threading.Event()
        loads = ((0, b"often", EVERY_S), (1, b"rare", RARE_EVERY_S))
        sessions = [antiphon.blocking.connect(daemons.addresses[at]) for at, _, _ in loads]
        threads = [
            threading.Thread(target=say, args=(session, kind, every_s, over), daemon=True)
            for session, (_, kind, every_s) in zip(sessions, loads, strict=True)
        ]
        threads[0].start()
        time.sleep(WARM_S)
        threads[1].start()
        time.sleep(WARM_S)
        for member in members:
            member.forget()
        time.sleep(seconds)
        found = {
            name: 1e3 * statistics.median(
                [one for at, member in enumerate(members) if at != from_ for one in member.took_s[kind]]
            )
            for name, kind, from_ in (("latency_ms", b"often", 0), ("rare_ms", b"rare", 1))
        }  # fmt: skip
        over.set()
        for thread in threads:
            thread.join()
        for session in (*sessions, *members):
            session.close()
        return found


def throughput(order: str, seconds: float) -> float:
    """Messages per second at all receivers together while everybody sends."""
    with ExitStack() as stack:
        daemons = cluster(order, 0.0, stack)
        members = [Member(address) for address in daemons.addresses]
        over = threading.Event()
        sessions = [antiphon.blocking.connect(address) for address in daemons.addresses]
        threads = [threading.Thread(target=flood, args=(one, over), daemon=True) for one in sessions]
        for thread in threads:
            thread.start()
        time.sleep(WARM_S / 2)
        for member in members:
            member.forget()
        time.sleep(seconds)
        rate = sum(member.count for member in members) / seconds
        over.set()
        for thread in threads:
            thread.join()
        for session in (*sessions, *members):
            session.close()
        return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--delay-ms", type=float, default=25.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    for number in range(arguments.rounds):
        for order in ORDERS if number % 2 == 0 else reversed(ORDERS):
            found: dict[str, object] = {"order": order, "round": number}
            found |= latency(order, arguments.delay_ms, arguments.seconds)
            found["flood_per_s"] = throughput(order, arguments.seconds)
            rows.append(found)
            if arguments.json:
                print(json.dumps(found), flush=True)
            else:
                print(
                    f"round {number}, {order:10} latency {found['latency_ms']:6.1f} ms, rare "
                    f"{found['rare_ms']:6.1f} ms, flood {found['flood_per_s']:10,.0f} messages/s",
                    flush=True,
                )
    for name in ("latency_ms", "rare_ms", "flood_per_s"):
        middle = {
            order: statistics.median(float(str(row[name])) for row in rows if row["order"] == order)
            for order in ORDERS
        }
        ratio = middle["adaptive"] / middle["symmetric"]
        if not arguments.json:
            print(f"{name}: symmetric {middle['symmetric']:,.1f}, adaptive {middle['adaptive']:,.1f}, "
                  f"ratio {ratio:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
