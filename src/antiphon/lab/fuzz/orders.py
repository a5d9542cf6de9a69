"""What the fuzzer tells the processes that send mutants, and what they tell it: a file and shared memory.

A process that sends mutants may be a daemon, which has no time to wait for a command: it looks at the serial
of the newest orders, which costs it nothing, and reads the file only when that has changed.
"""

import mmap
import os
from pathlib import Path
from struct import Struct as Layout

import msgspec
from msgspec import Struct

_ORDERS = "orders.json"
_BOARD = "board"
_SERIAL = Layout("!Q")
_DONE = Layout("!QQ")


class Orders(Struct, frozen=True):
    """One spell: mutants of one kind, from `first` on."""

    serial: int
    door: str
    kind: str
    """Empty: none, for a while."""
    seed: int
    first: int
    most: int
    """Mutants of each process."""
    rate_per_s: float
    """The rate of each process."""
    loss: float = 0.0
    """This part of all genuine datagrams is lost, so that daemons ask for them again."""


def number_of(orders: Orders, done: int, worker: int, workers: int) -> int:
    """The number of the mutant that a worker makes after `done` others: no two workers share one.

    >>> [number_of(Orders(1, "udp", "beat", 0, 100, 9, 1.0), done, 1, 3) for done in range(3)]
    [101, 104, 107]
    """
    return orders.first + done * workers + worker


def seed_of(orders: Orders, number: int) -> str:
    """What the `Random` of a mutant is seeded with: nothing but the run's seed, its door and its number."""
    return f"{orders.seed}/{orders.door}/{number}"


class Board:
    """The shared memory: the serial of the orders, and of each worker how many mutants it sent for which."""

    def __init__(self, folder: Path, workers: int, *, make: bool = False) -> None:
        self.workers = workers
        self._folder = folder
        size = _SERIAL.size + workers * _DONE.size
        path = folder / _BOARD
        if make:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._orders = Orders(0, "", "", 0, 0, 0, 0.0)

    def order(self, orders: Orders) -> None:
        """Let all workers carry this out from now on."""
        waiting = self._folder / f"{_ORDERS}.new"
        waiting.write_bytes(msgspec.json.encode(orders))
        os.replace(waiting, self._folder / _ORDERS)
        _SERIAL.pack_into(self._map, 0, orders.serial)
        self._orders = orders

    def orders(self) -> Orders:
        """The newest orders, for a worker."""
        if _SERIAL.unpack_from(self._map)[0] != self._orders.serial:
            text = (self._folder / _ORDERS).read_bytes()
            self._orders = msgspec.json.decode(text, type=Orders)
        return self._orders

    def tell(self, worker: int, serial: int, done: int) -> None:
        """A worker has sent so many mutants for the orders with this serial."""
        _DONE.pack_into(self._map, _SERIAL.size + worker * _DONE.size, serial, done)

    def done(self, serial: int) -> int:
        """How many mutants all workers together have sent for these orders."""
        told = (
            _DONE.unpack_from(self._map, _SERIAL.size + worker * _DONE.size) for worker in range(self.workers)
        )
        return sum(done for about, done in told if about == serial)


class MutantRate:
    """How many mutants may be sent now, by a rate; what was not used is not saved up for long."""

    def __init__(self, most_at_once: int) -> None:
        self._most = most_at_once
        self._room = 0.0
        self._seen_s = 0.0

    def take(self, rate_per_s: float, now_s: float) -> int:
        """How many mutants may be sent now, at most the size of a burst."""
        self._room = min(self._most, self._room + rate_per_s * (now_s - self._seen_s))
        self._seen_s = now_s
        whole = max(0, int(self._room))
        self._room -= whole
        return whole


class Record:
    """The mutants of the present spell in a file, so that the one that broke something can be found."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._serial = 0

    def note(self, orders: Orders, number: int, to: str, what: str, data: bytes) -> None:
        """One mutant; those of earlier orders are forgotten."""
        if orders.serial != self._serial:
            self._file.seek(0)
            self._file.truncate()
            self._serial = orders.serial
        row = {
            "number": number,
            "kind": orders.kind,
            "to": to,
            "what": what,
            "hex": data[:_SHOWN_BYTES].hex(),
        }
        self._file.write(msgspec.json.encode(row) + b"\n")

    def flush(self) -> None:
        """Make the records visible to readers of the file."""
        self._file.flush()


_SHOWN_BYTES = 2_000
