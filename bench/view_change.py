"""What a change of the daemon view costs those who stay, with real daemons in processes of their own.

    .venv/bin/python bench/view_change.py [--samples 5] [--sites 3] [--delay-ms 0] [--preset wan] [--busy]
        [--json]

Three daemons. One is killed (SIGKILL) and started again, then told to stop (SIGTERM) and started again: once
the smallest one, which proposes views, and once another. Meanwhile a session at one of the other two sends
agreed messages to a group that has a member at each daemon; what the one at the other survivor sees is
measured:

- `view`: from the signal until both survivors have installed the next view; of a merge, the longest time that
  one of them has taken from finding the daemon to the next view
- `silence`: the longest time between two of the messages
- `ended`: from the signal until the process has ended; of a merge, from the start until the daemon answers
- `signals`, `torn`: transitional signals, and views that the network made

`--delay-ms` is one way, between sites, by emulated paths. `--busy` keeps every core busy with other work.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import antiphon.blocking
from antiphon import Cause, Event, Message, TransitionalSignal, View
from antiphon.client import ask_status
from antiphon.config import Settings
from antiphon.errors import AntiphonError
from antiphon.load.cluster import DaemonProcesses
from antiphon.runtime.local import local_config

DAEMONS = 3
GROUP = "pinged"
PING_EVERY_S = 0.002
LOOK_EVERY_S = 0.002
QUIET_S = 1.0
"""Before each measurement, and after it: what follows late counts, too."""
WITHIN_S = 60.0
VICTIMS = {"smallest": 0, "another": 1}

Row = dict[str, object]


def spin() -> None:
    """Work for a core."""
    while True:
        sum(range(1_000))


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Every core has something else to do, if that is wanted."""
    spinners = [multiprocessing.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for spinner in spinners if wanted else ():
        spinner.start()
    try:
        yield
    finally:
        for spinner in spinners if wanted else ():
            spinner.terminate()
            spinner.join()


class Pings:
    """Messages from one survivor to the other, and what the receiver sees."""

    def __init__(self, sender: str, receiver: str) -> None:
        self._over = threading.Event()
        self._gate = threading.Lock()
        self._receiver = antiphon.blocking.connect(receiver)
        self._sender = antiphon.blocking.connect(sender)
        self._receiver.join(GROUP)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._say, self._hear)]
        self.begin()
        for thread in self._threads:
            thread.start()

    def begin(self) -> None:
        """A measurement begins."""
        with self._gate:
            self._heard_s = time.monotonic()
            self._silence_s = 0.0
            self._signals = self._torn = 0

    def end(self) -> Row:
        """What was seen since it began."""
        with self._gate:
            silence_s = max(self._silence_s, time.monotonic() - self._heard_s)
            return {"silence_ms": 1e3 * silence_s, "signals": self._signals, "torn": self._torn}

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._sender.close()
        self._receiver.close()

    def _say(self) -> None:
        while not self._over.wait(PING_EVERY_S):
            self._sender.send(GROUP, b"ping")

    def _hear(self) -> None:
        while not self._over.is_set():
            try:
                events = self._receiver.receive_many(timeout_s=0.1)
            except TimeoutError:
                continue
            with self._gate:
                for event in events:
                    self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Message):
            now_s = time.monotonic()
            self._silence_s = max(self._silence_s, now_s - self._heard_s)
            self._heard_s = now_s
        elif isinstance(event, TransitionalSignal):
            self._signals += 1
        elif isinstance(event, View):
            self._torn += event.cause is Cause.NETWORK


def wait_for(done: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not done():
        if time.monotonic() > deadline_s:
            raise AntiphonError(f"{what} did not happen within {WITHIN_S:.0f} s")
        time.sleep(LOOK_EVERY_S)


def measure(
    daemons: DaemonProcesses, pings: Pings, survivors: list[int], act: Callable[[], None], is_merge: bool
) -> Row:
    """Do something that changes the view; what it costs."""
    time.sleep(QUIET_S)
    before = [daemons.views_told(number) for number in survivors]
    pings.begin()
    begun_s = time.monotonic()
    seen_s: list[float] = []

    def have_changed() -> bool:
        return all(
            daemons.views_told(number) > views for number, views in zip(survivors, before, strict=True)
        )

    def watch() -> None:
        wait_for(have_changed, "a change of the view")
        seen_s.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    act()
    acted_s = time.monotonic()
    watcher.join()
    if not seen_s:
        raise AntiphonError("no view came")
    time.sleep(QUIET_S)
    view_ms = 1e3 * (seen_s[0] - begun_s)
    if is_merge:
        rounds = [ask_status(daemons.addresses[number])["rounds"] for number in survivors]
        view_ms = max(told[-1]["took_us"] for told in rounds) / 1e3
    return {"view_ms": view_ms, "ended_ms": 1e3 * (acted_s - begun_s), **pings.end()}


def lives(daemons: DaemonProcesses, victim: int) -> Iterator[tuple[str, Row]]:
    """Kill a daemon, start it again, tell it to stop, start it again."""
    survivors = [number for number in range(DAEMONS) if number != victim]
    pings = Pings(*(daemons.addresses[number] for number in survivors))
    try:
        for event, end in (("kill", daemons.kill), ("stop", daemons.stop)):
            with antiphon.blocking.connect(daemons.addresses[victim]) as member:
                member.join(GROUP)
                yield event, measure(daemons, pings, survivors, lambda end=end: end(victim), False)  # type: ignore[misc]
                drop(member)
            yield (
                f"merge after {event}",
                measure(daemons, pings, survivors, lambda: daemons.restart(victim), True),
            )
            wait_for(lambda: is_whole(daemons), "a whole cluster")
    finally:
        pings.close()


def drop(session: antiphon.blocking.Session) -> None:
    """Read up to the end of a session whose daemon is gone."""
    try:
        while True:
            session.receive(timeout_s=WITHIN_S)
    except (AntiphonError, TimeoutError):
        return


def is_whole(daemons: DaemonProcesses) -> bool:
    told = [ask_status(address, groups=0, sessions=0) for address in daemons.addresses]
    return all(len(one["view"]["members"]) == DAEMONS and one["state"] == "op" for one in told)


def table(rows: list[Row]) -> Iterator[str]:
    """Median and worst of each figure."""
    yield f"{'event':18}{'daemon':10}{'view':>16}{'silence':>16}{'ended':>16}{'signals':>9}{'torn':>6}   (ms)"
    for event, daemon in dict.fromkeys((row["event"], row["daemon"]) for row in rows):
        some = [row for row in rows if (row["event"], row["daemon"]) == (event, daemon)]

        def figures(name: str, some: list[Row] = some) -> str:
            values = [float(str(row[name])) for row in some]
            return f"{statistics.median(values):,.0f} / {max(values):,.0f}"

        signals, torn = (sum(int(str(row[name])) for row in some) for name in ("signals", "torn"))
        yield (
            f"{event:18}{daemon:10}{figures('view_ms'):>16}{figures('silence_ms'):>16}"
            f"{figures('ended_ms'):>16}{signals:>9}{torn:>6}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--sites", type=int, choices=(1, 3), default=3)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--preset", choices=("lan", "wan"))
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    settings = Settings() if arguments.preset is None else Settings(membership=arguments.preset)
    rows: list[Row] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        config = local_config(
            arguments.sites,
            directory,
            daemons=DAEMONS // arguments.sites,
            delay_ms=arguments.delay_ms,
            settings=settings,
        )
        daemons = DaemonProcesses(config, directory, stack)
        stack.enter_context(busy(arguments.busy))
        for sample in range(arguments.samples):
            for daemon, victim in VICTIMS.items():
                for event, figures in lives(daemons, victim):
                    rows.append({"event": event, "daemon": daemon, "sample": sample, **figures})
                    print(f"sample {sample + 1}: {event} of the {daemon} daemon", file=sys.stderr)
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
