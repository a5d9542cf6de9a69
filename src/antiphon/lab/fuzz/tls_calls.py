"""The door `tls`: what clients say over TLS, and mutants of TLS itself, of first words and records."""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from antiphon.lab.fuzz.calls import READ_BYTES, Callers, Line
from antiphon.lab.fuzz.mutate import Mutant, mutate_bytes
from antiphon.lab.fuzz.orders import Orders

HOST = "127.0.0.1"
HANDSHAKE, RECORD = "handshake", "record"


class TlsLine(Line):
    """A connection over TLS; what comes over it is read and thrown away, once there is a session."""

    def __init__(self, place: str, context: ssl.SSLContext) -> None:
        super().__init__(place.replace("tls:", "tcp:"))
        self._came, self._sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._sealed, server_hostname=HOST)
        with suppress(OSError):
            self._shake_hands()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.socket.sendall(self._sealed.read())
                if not self._hear():
                    return
            else:
                self.socket.sendall(self._sealed.read())
                return

    def _hear(self) -> bool:
        """Wait for something; whether anything came."""
        came = self.socket.recv(READ_BYTES)
        self._came.write(came)
        self.is_over = not came
        return bool(came)

    def sealed(self, data: bytes) -> bytes:
        """The records that carry this; none if the connection is over."""
        try:
            self._tls.write(data)
        except ssl.SSLError:
            self.is_over = True
        return self._sealed.read()

    def send(self, data: bytes, *, reads: bool = True) -> None:
        super().send(self.sealed(data), reads=reads)

    def send_plain(self, data: bytes) -> None:
        """Write beside TLS."""
        super().send(data)

    def take(self, size: int) -> bytes:
        taken = b""
        with suppress(OSError):
            while len(taken) < size:
                try:
                    more = self._tls.read(size - len(taken))
                except ssl.SSLWantReadError:
                    if not self._hear():
                        break
                    continue
                if not more:
                    break
                taken += more
        return taken


class TlsCallers(Callers):
    """Connections over TLS. The first of the places is a plain one, where genuine frames are captured."""

    def __init__(self, places: Sequence[str], certificate: Path) -> None:
        self._context = ssl.create_default_context(cafile=str(certificate))
        super().__init__("clients", places)
        self._places = list(places[1:])

    def carry_out(self, orders: Orders, number: int, random: Random) -> tuple[str, Mutant]:
        if orders.kind == HANDSHAKE:
            return self._begin_wrong(random)
        if orders.kind == RECORD:
            return self._break_record(random)
        return super().carry_out(orders, number, random)

    def _dial(self) -> Line:
        self._calls += 1
        return TlsLine(self._places[self._calls % len(self._places)], self._context)

    def _begin_wrong(self, random: Random) -> tuple[str, Mutant]:
        """First words that are not quite those of TLS, and perhaps more behind them."""
        sealed = ssl.MemoryBIO()
        tls = self._context.wrap_bio(ssl.MemoryBIO(), sealed, server_hostname=HOST)
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = sealed.read()
        mutant = mutate_bytes(random, hello)
        place = random.choice(self._places)
        line = Line(place.replace("tls:", "tcp:"))
        line.send(mutant.data if random.random() < 0.7 else mutant.data + hello)
        self._keep(self._halves, line, _BEGUN_MAX)
        return place, mutant

    def _break_record(self, random: Random) -> tuple[str, Mutant]:
        """A frame over a good connection, in records that are changed on their way."""
        line = self._line(random)
        assert isinstance(line, TlsLine)
        some = random.choice(list(self._captured.values()))
        mutant = mutate_bytes(random, line.sealed(random.choice(some)))
        line.send_plain(mutant.data)
        self._lines.remove(line)
        self._keep(self._halves, line, _BEGUN_MAX)
        return line.place, mutant


_BEGUN_MAX = 32
"""Connections that were broken and stay open."""
