"""What a reader that stops costs the others, with real daemons in processes of their own.

    python bench/slow_receiver.py [--seconds 20] [--json]

Three daemons. A pinger sends agreed messages in a group of its own, at another daemon than the others, and
takes the time until they come back. It does so while nothing else happens, then while a group is flooded
whose members all read, then while another member of that group never reads, until it is cut off, and after
that. Last, a program sends 20 MB of 100 KB to its own group before it reads anything, beside one that sends
the same to a group in which it is no member.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.synchronize import Event

import antiphon.blocking
from antiphon import Message
from antiphon.client import ask_status
from antiphon.errors import Disconnected
from antiphon.load.cluster import daemons

PAYLOAD = bytes(1_000)
PING_EVERY_S = 0.005
SELF_BYTES, SELF_MESSAGES = 100_000, 200


def flood(place: str, until: Event) -> None:
    """Send to the flooded group as fast as it takes messages."""
    with antiphon.blocking.connect(place, name="flooder") as session:
        while not until.is_set():
            session.send_many("flood", [PAYLOAD] * 200)


def read(place: str, until: Event) -> None:
    """Be a member of the flooded group that reads everything."""
    with antiphon.blocking.connect(place, name="swift") as session:
        session.join("flood")
        while not until.is_set():
            with suppress(TimeoutError):
                session.receive_many(0.2)


def stop_reading(place: str, until: Event) -> None:
    """Be a member of the flooded group that reads nothing."""
    session = antiphon.blocking.connect(place, name="sloth")
    session.join("flood")
    until.wait()
    with suppress(Disconnected):
        session.close()


class Pinger:
    """Sends to itself through all daemons, and takes the time."""

    def __init__(self, place: str) -> None:
        self._session = antiphon.blocking.connect(place, name="pinger")
        self._session.join("elsewhere")

    def measure(self, seconds: float, while_: Callable[[], bool] = lambda: True) -> list[float]:
        """Round trips, in seconds, for so long or while something holds."""
        found: list[float] = []
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and while_():
            begun_s = time.monotonic()
            self._session.send("elsewhere", b"ping")
            while not any(isinstance(event, Message) for event in self._session.receive_many(60.0)):
                pass
            found.append(time.monotonic() - begun_s)
            time.sleep(PING_EVERY_S)
        return found


def row(case: str, trips: list[float]) -> dict[str, object]:
    ordered = sorted(trips)
    return {
        "case": case,
        "pings": len(trips),
        "p50_ms": 1e3 * statistics.median(ordered),
        "p99_ms": 1e3 * ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        "longest_ms": 1e3 * ordered[-1],
    }


def send_before_reading(place: str, is_member: bool) -> float:
    """How long it takes to send 20 MB to a group, and to read them if they come back."""
    with antiphon.blocking.connect(place, name="selfish" if is_member else "generous") as session:
        if is_member:
            session.join("own")
        begun_s = time.monotonic()
        for _ in range(SELF_MESSAGES):
            session.send("own", bytes(SELF_BYTES))
        session.flush()
        sent_s = time.monotonic() - begun_s
        count = 0
        while is_member and count < SELF_MESSAGES:
            count += sum(isinstance(event, Message) for event in session.receive_many(60.0))
    return sent_s


def measure(seconds: float) -> tuple[list[dict[str, object]], dict[str, float]]:
    with daemons(3) as places:
        pinger = Pinger(places[0])
        rows = [row("nothing else happens", pinger.measure(seconds / 4))]
        until, slow_until = multiprocessing.Event(), multiprocessing.Event()
        others = [
            multiprocessing.Process(target=flood, args=(places[1], until)),
            multiprocessing.Process(target=read, args=(places[2], until)),
        ]
        for other in others:
            other.start()
        pinger.measure(1.0)
        rows.append(row("a flood; all members read", pinger.measure(seconds)))
        sloth = multiprocessing.Process(target=stop_reading, args=(places[2], slow_until))
        cut_off = ask_status(places[2])["runtime"]["clients"]["slow_receivers"]
        sloth.start()
        looked_s = time.monotonic()

        def is_there() -> bool:
            nonlocal looked_s
            if time.monotonic() - looked_s < 0.5:
                return True
            looked_s = time.monotonic()
            return bool(ask_status(places[2])["runtime"]["clients"]["slow_receivers"] == cut_off)

        rows.append(row("a member never reads, until it is cut off", pinger.measure(seconds, is_there)))
        rows.append(row("after that", pinger.measure(seconds / 4)))
        slow_until.set()
        until.set()
        for other in (*others, sloth):
            other.join()
        own = {
            "to_others_s": send_before_reading(places[0], is_member=False),
            "to_itself_s": send_before_reading(places[0], is_member=True),
        }
    return rows, own


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    words.add_argument("--seconds", type=float, default=20.0)
    words.add_argument("--json", action="store_true")
    chosen = words.parse_args()
    rows, own = measure(chosen.seconds)
    if chosen.json:
        print(json.dumps({"pinger": rows, "sends_before_it_reads": own}))
        return
    print(f"{'agreed pinger in another group':42} {'pings':>7} {'p50 ms':>8} {'p99 ms':>8} {'longest':>8}")
    for each in rows:
        print(
            f"{each['case']:42} {each['pings']:7} {each['p50_ms']:8.1f} {each['p99_ms']:8.1f}"
            f" {each['longest_ms']:8.1f}"
        )
    print(f"20 MB of 100 KB: {own['to_others_s']:.2f} s to others, {own['to_itself_s']:.2f} s to itself, too")


if __name__ == "__main__":
    main()
