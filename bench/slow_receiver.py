"""What one reader that stops costs the others: throughput at another member, half second by half second.

    python bench/slow_receiver.py [--patience-ms 1000] [--seconds 8]

One daemon, one sender that sends agreed messages as fast as it may, a member that reads, and one that stops
after two seconds. Prints what the reading member got in each half second and what became of the other.
"""

import argparse
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import antiphon.blocking
from antiphon import Message
from antiphon.client import ask_status
from antiphon.config import Settings
from antiphon.errors import Disconnected
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config

STOPS_AFTER_S = 2.0
STEP_S = 0.5
PAYLOAD = bytes(1_000)


class Reader:
    """Counts what a session gets, until it is told to stop reading."""

    def __init__(self, place: str, name: str) -> None:
        self.session = antiphon.blocking.connect(place, name=name)
        self.session.join("flood")
        self.payload_bytes = 0
        self.is_reading = True
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self.is_reading:
            try:
                events = self.session.receive_many(0.2)
            except TimeoutError:
                continue
            except Disconnected:
                return
            self.payload_bytes += sum(len(event.payload) for event in events if isinstance(event, Message))


def send(session: antiphon.blocking.Session, until_s: float) -> None:
    while time.monotonic() < until_s:
        session.send_many("flood", [PAYLOAD] * 200)


def measure(place: str, seconds: float) -> None:
    swift, sloth = Reader(place, "swift"), Reader(place, "sloth")
    begun_s = time.monotonic()
    flooder = antiphon.blocking.connect(place, name="flooder")
    sending = threading.Thread(target=send, args=(flooder, begun_s + seconds))
    sending.start()
    print(f"{'seconds':>8} {'MB/s':>8}   slow reader")
    before = 0
    for step in range(int(seconds / STEP_S)):
        time.sleep(max(0.0, begun_s + (step + 1) * STEP_S - time.monotonic()))
        sloth.is_reading = sloth.is_reading and (step + 1) * STEP_S < STOPS_AFTER_S
        got, before = swift.payload_bytes - before, swift.payload_bytes
        print(f"{(step + 1) * STEP_S:8.1f} {got / STEP_S / 1e6:8.1f}   {state_of(place, sloth)}")
    sending.join()
    flooder.close()
    swift.session.close()


def state_of(place: str, sloth: Reader) -> str:
    told = ask_status(place)
    if sloth.is_reading:
        return "reads"
    if "#sloth#d1" not in told["groups"].get("flood", ()):
        return "cut off"
    if "#sloth#d1" in told["slow_sessions"]:
        return "all wait for it"
    (session,) = [session for session in told["sessions"] if session["name"] == "#sloth#d1"]
    waiting_bytes = told["runtime"]["output_bytes"].get(str(session["number"]), 0)
    return f"does not read, {waiting_bytes / 1e6:.0f} MB wait"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    words.add_argument("--patience-ms", type=float, default=1_000.0)
    words.add_argument("--seconds", type=float, default=8.0)
    chosen = words.parse_args()
    settings = Settings(slow_patience_ms=chosen.patience_ms)
    with TemporaryDirectory() as folder:
        config = local_config(1, Path(folder), settings=settings)
        with Daemon(config, "d1") as daemon:
            measure(daemon.places[0], chosen.seconds)


if __name__ == "__main__":
    main()
