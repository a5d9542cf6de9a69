"""The door `flight`: mutants of what readers of a journal ask, and of the bytes in which they ask it.

Tickets, questions, descriptors and criteria go through a real Flight client, so that only what is theirs is
changed. The bytes of a genuine conversation are changed anywhere and sent over connections of their own.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as flight

from antiphon.journal.reader import Journals
from antiphon.journal.server import ACTIONS, Question, Ticket
from antiphon.lab.fuzz.capture import overheard
from antiphon.lab.fuzz.mutate import Mutant, Unencodable, mutate, mutate_bytes
from antiphon.lab.fuzz.orders import Orders
from antiphon.lab.fuzz.talkers import GROUP
from antiphon.load.crowd import dial

ANSWER_S = 2.0
BATCHES_MAX = 4
"""How many batches of a stream are read before it is cancelled."""
CALLERS_MAX = 32
REFUSALS = (pa.ArrowException, OSError)
"""What a client of Arrow raises for an answer that is an error: for some of them it is the latter."""
CALLS_MAX = 5_000
"""How many calls one client makes before it is replaced by a new one."""


class Flights:
    """Mutants for one journal."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        place = f"tcp:{endpoint.partition('://')[2]}"
        journals = Journals([endpoint])
        have = journals.positions()
        anchor = journals.anchor(have.latest) if have.latest else None
        few = max(have.earliest, have.latest - 5)
        self._tickets = [
            Ticket(few, have.latest, have.journal, (GROUP,)),
            Ticket(few, have.latest),
            Ticket(have.earliest, have.earliest + 1, have.journal),
        ]
        self._questions = [
            Question(have.journal, 1, 2, anchor, have.earliest, have.latest),
            Question(time_us=1_700_000_000_000_000),
            Question(offset=have.latest),
            Question(anchor=anchor),
            Question(start=have.earliest, end=have.latest),
        ]
        self._conversations = overheard(place, self._talk)
        self._place = place
        self._client: Any = None
        self._calls = 0
        self._callers: list[Any] = []
        self._ways: dict[str, Callable[[Random], Mutant]] = {
            "ticket": self._get,
            "action": self._ask,
            "descriptor": self._describe,
            "criteria": self._list,
            "bytes": self._send_bytes,
        }

    @staticmethod
    def _talk(place: str) -> None:
        """A genuine conversation."""
        client = flight.connect(f"grpc+unix://{place.removeprefix('unix:')}")
        options = flight.FlightCallOptions(timeout=ANSWER_S)
        (result,) = client.do_action(flight.Action("positions", b"{}"), options)
        latest = msgspec.json.decode(result.body.to_pybytes())["latest"]
        ticket = flight.Ticket(msgspec.json.encode(Ticket(max(0, latest - 3), latest)))
        client.do_get(ticket, options).read_all()
        list(client.list_flights(options=options))
        client.close()

    def carry_out(self, orders: Orders, number: int, random: Random) -> tuple[str, Mutant]:
        self._calls += 1
        if self._client is None or self._calls % CALLS_MAX == 0:
            self.rest()
            self._client = flight.connect(self._endpoint)
        return self._endpoint, self._ways[orders.kind](random)

    def rest(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        for caller in self._callers:
            caller.close()
        self._callers.clear()

    @property
    def _options(self) -> Any:
        return flight.FlightCallOptions(timeout=ANSWER_S)

    def _get(self, random: Random) -> Mutant:
        mutant = mutate(random, random.choice(self._tickets), _json, self._tickets)
        with suppress(*REFUSALS, StopIteration):
            reader = self._client.do_get(flight.Ticket(mutant.data), self._options)
            for _ in range(BATCHES_MAX):
                reader.read_chunk()
            reader.cancel()
        return mutant

    def _ask(self, random: Random) -> Mutant:
        mutant = mutate(random, random.choice(self._questions), _json, self._questions)
        name = random.choice((*ACTIONS, "x" * random.randrange(2_000)))
        with suppress(*REFUSALS):
            list(self._client.do_action(flight.Action(name, mutant.data), self._options))
        return Mutant(mutant.data, f"{name[:_SHOWN]}: {mutant.what}")

    def _describe(self, random: Random) -> Mutant:
        mutant = mutate(random, random.choice(self._tickets), _json, self._tickets)
        if random.random() < 0.5:
            descriptor = flight.FlightDescriptor.for_command(mutant.data)
        else:
            descriptor = flight.FlightDescriptor.for_path(*[mutant.data] * random.randrange(5))
        call = random.choice((self._client.get_flight_info, self._client.get_schema))
        with suppress(*REFUSALS):
            call(descriptor, self._options)
        return mutant

    def _list(self, random: Random) -> Mutant:
        mutant = mutate_bytes(random, b'{"group": "talk"}')
        with suppress(*REFUSALS):
            list(self._client.list_flights(mutant.data, self._options))
        return mutant

    def _send_bytes(self, random: Random) -> Mutant:
        """Over a connection of its own, which stays open for a while."""
        mutant = mutate_bytes(random, random.choice(self._conversations))
        caller = dial(self._place)
        caller.settimeout(ANSWER_S)
        with suppress(OSError):
            caller.sendall(mutant.data)
        self._callers.append(caller)
        if len(self._callers) > CALLERS_MAX:
            self._callers.pop(0).close()
        return mutant


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (OverflowError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Unencodable from error


_SHOWN = 40
