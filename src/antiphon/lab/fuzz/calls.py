"""The process that sends mutants at the doors of clients.

    python -m antiphon.lab.fuzz.calls DOOR FOLDER WORKERS PLACE...

It captures genuine conversations first. Then it carries out orders until SIGTERM: mutants go over many
connections to all places in turn. Each connection begins as a genuine one does, up to the mutant; a mutant
that the daemon accepts is followed by others on the same connection.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Protocol

from msgspec import structs

from antiphon import limits
from antiphon.lab.fuzz import capture
from antiphon.lab.fuzz.certificates import CERTIFICATE
from antiphon.lab.fuzz.client_values import (
    client_bytes,
    client_value,
    owned_bundle,
    spread_bytes,
    spread_value,
)
from antiphon.lab.fuzz.mutate import Mutant, mutate, mutate_bytes
from antiphon.lab.fuzz.orders import Board, Orders, Record, number_of, seed_of
from antiphon.load.crowd import dial
from antiphon.spreadwire import greeting
from antiphon.wire import frames

WORKER = 0
LINES_MAX = 24
"""Connections that are open at once."""
LINE_MUTANTS_MAX = 64
"""After so many mutants a connection is ended, so that others are tried."""
AT_ONCE = 25
IDLE_S = 0.02
ANSWER_S = 1.0
READ_BYTES = 262_144
HALF_BYTES = 65_536
HALF_KEPT = 64
"""Connections with half a frame that stay open."""


class Door(Protocol):
    """What differs between the doors."""

    def carry_out(self, orders: Orders, number: int, random: Random) -> tuple[str, Mutant]:
        """Send the mutant of this number: to whom, and what it was."""

    def rest(self) -> None:
        """Do what is due between two spells."""


class Line:
    """One connection to a daemon; whatever comes over it is read and thrown away."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.mutants = 0
        self.is_over = False
        self.name = b""
        """The private name of its session."""
        self.socket = dial(place)
        self.socket.settimeout(ANSWER_S)

    def send(self, data: bytes, *, reads: bool = True) -> None:
        """Write, and notice if the daemon has ended the connection or does not read it any more."""
        try:
            self.socket.sendall(data)
            while reads and select.select([self.socket], [], [], 0)[0]:
                if not self.socket.recv(READ_BYTES):
                    self.is_over = True
                    return
        except OSError:
            self.is_over = True

    def take(self, size: int) -> bytes:
        """Wait for so many bytes; what came if there are fewer."""
        taken = b""
        with suppress(OSError):
            while len(taken) < size and (more := self.socket.recv(size - len(taken))):
                taken += more
        return taken

    def close(self) -> None:
        """Without any last word."""
        self.socket.close()


class Callers:
    """The doors `clients` and `spread`: connections, and mutants of what clients say over them."""

    def __init__(self, door: str, places: Sequence[str]) -> None:
        self._is_spread = door == "spread"
        self._places = list(places)
        gather = capture.spread_frames if self._is_spread else capture.client_frames
        read = spread_value if self._is_spread else client_value
        self._captured = gather(places[0])
        self._values = {kind: [read(kind, one) for one in some] for kind, some in self._captured.items()}
        self._pool = [value for some in self._values.values() for value in some]
        self._write = spread_bytes if self._is_spread else client_bytes
        self._lines: list[Line] = []
        self._halves: list[Line] = []
        self._reserve: list[Line] = []
        """Connections with a session, not yet in use."""
        self._calls = 0

    def carry_out(self, orders: Orders, number: int, random: Random) -> tuple[str, Mutant]:
        kind = orders.kind
        if kind in ("connect", "hello", "choice"):
            return self._open_with(kind, random)
        if kind == "half":
            return self._half(random)
        line = self._line(random)
        mutant = self._mutant(kind, random, line.name)
        line.mutants += 1
        line.send(mutant.data)
        if line.is_over or line.mutants >= LINE_MUTANTS_MAX:
            self._lines.remove(line)
            line.close()
        return line.place, mutant

    def rest(self) -> None:
        for line in (*self._lines, *self._halves, *self._reserve):
            line.close()
        self._reserve.clear()
        self._lines.clear()
        self._halves.clear()

    def _mutant(self, kind: str, random: Random, name: bytes) -> Mutant:
        if kind == "bytes":
            some = random.choice(list(self._captured.values()))
            return mutate_bytes(random, random.choice(some))
        value: Any = random.choice(self._values[kind])
        if self._is_spread:
            value = spread_value(kind, _owned(spread_bytes(value), name))
        elif kind in ("bundle", "batch"):
            value = owned_bundle(value, name)
        return mutate(random, value, self._write, self._pool)

    # Connections ------------------------------------------------------------------------------------------

    def _line(self, random: Random) -> Line:
        """One that is open, or a new one with a session on it."""
        if len(self._lines) >= LINES_MAX:
            return random.choice(self._lines)
        if not self._reserve:
            self._open_reserve(random)
        self._lines.append(self._reserve.pop())
        return self._lines[-1]

    def _open_reserve(self, random: Random) -> None:
        """Several sessions at once: to begin one takes a few round trips, and a mutant may end it at once."""
        self._reserve = [self._dial() for _ in range(LINES_MAX)]
        if self._is_spread:
            for line in self._reserve:
                line.send(self._captured["hello"][0], reads=False)
            for line in self._reserve:
                line.take(1 + len(greeting.METHODS))
                line.send(self._captured["choice"][0], reads=False)
            for line in self._reserve:
                answer = line.take(1 + len(greeting.VERSION) + 1)
                line.name = line.take(answer[-1]) if answer else b""
                line.send(_owned(self._captured["join"][0], line.name))
            return
        for line in self._reserve:
            line.send(frames.encode_control(frames.Connect(frames.PROTOCOL_VERSION)), reads=False)
        for line in self._reserve:
            line.name = _welcomed(line)
            line.send(random.choice(self._captured["join"]))

    def _dial(self) -> Line:
        self._calls += 1
        return Line(self._places[self._calls % len(self._places)])

    def _open_with(self, kind: str, random: Random) -> tuple[str, Mutant]:
        """A connection whose beginning is the mutant."""
        line = self._dial()
        mutant = mutate(random, random.choice(self._values[kind]), self._write, self._pool)
        if kind == "choice":
            line.send(self._captured["hello"][0])
        line.send(mutant.data)
        if random.random() < 0.3:
            line.send(b"".join(random.choice(some) for some in self._captured.values()))
        self._keep(self._halves, line, LINES_MAX)
        return line.place, mutant

    def _half(self, random: Random) -> tuple[str, Mutant]:
        """A frame that is announced to be large, and of which only the beginning comes."""
        line = self._line(random)
        self._lines.remove(line)
        if self._is_spread:
            value = random.choice(self._values["message"])
            whole = _owned(spread_bytes(value), line.name) + bytes(random.randrange(HALF_BYTES))
            mutant = mutate(random, spread_value("message", whole), spread_bytes, bytes_share=0.0)
            mutant = Mutant(mutant.data[: random.randrange(1, len(mutant.data))], f"half of {mutant.what}")
        else:
            size = random.choice((limits.FRAME_MAX_BYTES, 1_000_000, 70_000))
            kind = random.choice((frames.FrameKind.BUNDLE, frames.FrameKind.CONTROL))
            sent = random.randrange(HALF_BYTES)
            start = frames.HEAD.pack(size, kind)
            mutant = Mutant(start + random.randbytes(sent), f"{sent} of {size} bytes")
        line.send(mutant.data)
        self._keep(self._halves, line, HALF_KEPT)
        return line.place, mutant

    @staticmethod
    def _keep(where: list[Line], line: Line, most: int) -> None:
        where.append(line)
        if len(where) > most:
            where.pop(0).close()


def _owned(frame: bytes, name: bytes) -> bytes:
    """A frame of Spread's protocol under the private name of a session."""
    value = spread_value("join", frame)
    return spread_bytes(structs.replace(value, sender=name))


def _welcomed(line: Line) -> bytes:
    """The private name of the session that the daemon has just begun; empty if it has not."""
    head = line.take(frames.HEAD_BYTES)
    if len(head) < frames.HEAD_BYTES:
        return b""
    answer = frames.decode_from_daemon(head + line.take(frames.HEAD.unpack(head)[0] - frames.HEAD_BYTES))
    return answer.name.encode("ascii") if isinstance(answer, frames.Welcome) else b""


def make_door(door: str, places: Sequence[str], folder: Path) -> Door:
    """The door of this name; files of the cluster are in the folder."""
    if door == "tls":
        from antiphon.lab.fuzz.tls_calls import TlsCallers

        return TlsCallers(places, folder / CERTIFICATE)
    if door == "flight":
        from antiphon.lab.fuzz.flights import Flights  # needs Arrow

        return Flights(places[0])
    return Callers(door, places)


def serve(door: Door, board: Board, record: Record, is_over: list[int]) -> None:
    """Carry out orders until told to end."""
    serial, done, parent = 0, 0, os.getppid()
    while not is_over and os.getppid() == parent:
        orders = board.orders()
        if orders.serial != serial:
            serial, done = orders.serial, 0
            door.rest()
        if not orders.kind or done >= orders.most:
            time.sleep(IDLE_S)
            continue
        for _ in range(min(AT_ONCE, orders.most - done)):
            number = number_of(orders, done, WORKER, 1)
            try:
                to, mutant = door.carry_out(orders, number, Random(seed_of(orders, number)))
            except OSError:  # the daemon has no room for another connection just now
                time.sleep(IDLE_S)
                break
            record.note(orders, number, to, mutant.what, mutant.data)
            done += 1
        board.tell(WORKER, serial, done)
        record.flush()


def main() -> None:
    """Run until SIGTERM."""
    door, folder, workers, *places = sys.argv[1:]
    is_over: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        is_over.append(number)

    signal.signal(signal.SIGTERM, stop)
    board = Board(Path(folder), int(workers))
    serve(make_door(door, places, Path(folder)), board, Record(Path(folder) / "mutants.jsonl"), is_over)


if __name__ == "__main__":
    main()
