"""A service of three members at three daemons, of which one is killed every second, under a load of calls.

    .venv/bin/python bench/calls_under_fire.py [--seconds 60] [--rate 1000] [--every 1.0]

Each member is a process: it holds or waits for a handler and answers calls. One of them at a time is killed
with SIGKILL and started again. Callers are sessions at all three daemons that are not members. Each member
writes the identities of the calls that it executes to a file, before it answers, and the file of every life
counts. What must hold: every call is answered, with the answer of a member that executed it; no life of a
member executes a call twice. A call may be executed by two members only if the first was killed before its
answer was delivered: those are counted.
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import antiphon
from antiphon.errors import AntiphonError
from antiphon.load.cluster import daemons

GROUP = "service"
MEMBERS = 3
TIMEOUT_S = 30.0
CALLERS = 3


async def serve(address: str, diary: Path) -> None:
    """One life of a member."""
    async with antiphon.connect(address, reconnect=True) as session:
        await session.join(GROUP)
        holding = asyncio.create_task(_hold(session))
        with diary.open("ab", buffering=0) as file:
            async for event in session:
                if isinstance(event, antiphon.Call) and event.is_mine:
                    file.write(f"{event.id}\n".encode())
                    await session.answer(event, f"{event.id} {diary.name}".encode())
        holding.cancel()


async def _hold(session: antiphon.Session) -> None:
    while True:
        try:
            async with session.handle(GROUP, 0) as held:
                await held.lost.wait()
        except AntiphonError:
            await asyncio.sleep(0.05)


async def _members(caller: antiphon.Session) -> tuple[str, ...]:
    """Who is there; a call to a group without members is delivered to nobody."""
    try:
        return await caller.call(GROUP, b"ready?", answers="delivered", timeout_s=0.5)
    except TimeoutError:
        return ()


class Fire:
    """The members, and what befalls them."""

    def __init__(self, addresses: list[str], folder: Path) -> None:
        self.kills = 0
        self._addresses = addresses
        self._folder = folder
        self._lives: Counter[int] = Counter()
        self._processes: dict[int, asyncio.subprocess.Process] = {}

    async def start(self, number: int) -> None:
        self._lives[number] += 1
        diary = self._folder / f"member{number}.{self._lives[number]}"
        diary.touch()
        self._processes[number] = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--serve", self._addresses[number], str(diary)
        )

    async def kill(self, number: int) -> None:
        process = self._processes[number]
        process.send_signal(signal.SIGKILL)
        await process.wait()
        self.kills += 1

    async def burn(self, every_s: float, caller: antiphon.Session) -> None:
        """Kill one after the other, and start it again, for ever; the next when that one is a member."""
        number = 0
        while True:
            await asyncio.sleep(every_s)
            await self.kill(number)
            await self.start(number)
            while len(await _members(caller)) < MEMBERS:  # one at a time: the others have the memory
                await asyncio.sleep(0.05)
            number = (number + 1) % MEMBERS

    async def put_out(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
                await process.wait()


async def run(seconds: float, rate: float, every_s: float) -> bool:
    """One experiment; whether everything that must hold held."""
    with tempfile.TemporaryDirectory() as folder, daemons(MEMBERS) as addresses:
        fire = Fire(list(addresses), Path(folder))
        callers = [await antiphon.connect(address, reconnect=True) for address in addresses][:CALLERS]
        times: list[float] = []
        failures: Counter[str] = Counter()
        answers: dict[bytes, bytes] = {}

        async def ask(number: int) -> None:
            begun_s = time.monotonic()
            try:
                answer = await callers[number % CALLERS].call(GROUP, b"%d" % number, timeout_s=TIMEOUT_S)
            except AntiphonError as error:
                failures[f"{type(error).__name__}: {error}"] += 1
                return
            times.append(time.monotonic() - begun_s)
            id, _, by = answer.partition(b" ")
            answers[id] = by

        for number in range(MEMBERS):
            await fire.start(number)
        while len(await _members(callers[0])) < MEMBERS:
            await asyncio.sleep(0.1)
        burning = asyncio.create_task(fire.burn(every_s, callers[0]))
        asked = 0
        tasks: set[asyncio.Task[None]] = set()
        begun_s = time.monotonic()
        while (passed_s := time.monotonic() - begun_s) < seconds:
            while asked < passed_s * rate:
                task = asyncio.create_task(ask(asked))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                asked += 1
            await asyncio.sleep(0.005)
        burning.cancel()
        await asyncio.gather(*tasks)
        took_s = time.monotonic() - begun_s
        await fire.put_out()
        for caller in callers:
            await caller.close()
        executed, twice = _read_diaries(Path(folder))
        unfounded = sum(by.decode() not in executed.get(id.decode(), ()) for id, by in answers.items())
        shared = sum(len(lives) > 1 for lives in executed.values())
        times.sort()
        print(f"{asked:,} calls in {took_s:.1f} s, {fire.kills} members killed")
        print(f"answered {len(times):,}, failed {sum(failures.values()):,}")
        for text, count in failures.most_common(5):
            print(f"  {count:,} x {text}")
        print(f"executed twice by one life of a member: {twice:,}")
        print(f"answers of nobody who executed the call: {unfounded:,}")
        print(f"executed by two members, the first killed before its answer: {shared:,}")
        if times:
            high = times[int(len(times) * 0.99)]
            print(
                f"time to the answer: median {statistics.median(times) * 1e3:.1f} ms, "
                f"99% {high * 1e3:.1f} ms, most {times[-1] * 1e3:.0f} ms"
            )
        return not failures and not twice and not unfounded and len(times) == asked


def _read_diaries(folder: Path) -> tuple[dict[str, set[str]], int]:
    """By call, the lives of members that executed it; and how many were executed twice by one."""
    executed: dict[str, set[str]] = {}
    twice = 0
    for diary in sorted(folder.glob("member*")):
        counts = Counter(diary.read_text().split("\n")[:-1])
        twice += sum(count - 1 for count in counts.values())
        for id in counts:
            executed.setdefault(id, set()).add(diary.name)
    return executed, twice


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1_000.0, help="calls a second")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two kills")
    parser.add_argument("--serve", nargs=2, metavar=("ADDRESS", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve[0], Path(options.serve[1])))
        return
    is_kept = asyncio.run(run(options.seconds, options.rate, options.every))
    print("every promise was kept" if is_kept else "FAILED")
    sys.stdout.flush()
    os._exit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
