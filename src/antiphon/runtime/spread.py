"""The connection of a Spread client: outside Spread's frames, inside ours."""

import socket
import time
from collections.abc import Callable, Sequence

from antiphon.errors import BadFrame
from antiphon.runtime.connection import READ_BYTES, Buffer, Connection, Phase
from antiphon.spreadwire import greeting
from antiphon.spreadwire.from_spread import FromSpread
from antiphon.spreadwire.greeting import Declined, Hello, Refused
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.wire import frames

_CODES = {"full": greeting.QUOTA, "name": greeting.ILLEGAL_NAME, "name-taken": greeting.NAME_TAKEN}


class SpreadConnection(Connection):
    """Reads and writes for one client as its daemon's other connections do, in another language."""

    def __init__(
        self,
        client: socket.socket,
        to_spread: ToSpread,
        is_taken: Callable[[str], bool],
        is_admitted: bool | None = None,
    ) -> None:
        """`is_admitted`: whether clients may connect from its address; None if any address will do."""
        super().__init__(client)
        self._is_admitted = is_admitted
        self._methods = greeting.METHODS if is_admitted is None else greeting.METHODS_BY_ADDRESS
        self._to_spread = to_spread
        self._is_taken = is_taken
        self._hello: Hello | None = None
        self._from_spread: FromSpread | None = None

    # Input ------------------------------------------------------------------------------------------------

    def read(
        self, shared: memoryview, room_bytes: int = READ_BYTES
    ) -> Sequence[tuple[int, memoryview | bytearray]] | None:
        received = self._receive(shared, room_bytes)
        if not received:
            return None if received is None else []
        data = bytes(received)
        if self._from_spread is None:
            return self._greet(data)
        whole, used, self._needed_bytes = self._from_spread.split(data, time.time_ns() // 1_000)
        self._partial = bytearray(data[used:])
        return whole

    def _greet(self, data: bytes) -> list[tuple[int, memoryview | bytearray]]:
        """One step further in the introduction; our Connect at its end."""
        try:
            return self._greet_on(data)
        except Refused as error:
            self._put(greeting.refusal(error.code))
            raise

    def _greet_on(self, data: bytes) -> list[tuple[int, memoryview | bytearray]]:
        if self._hello is None:
            parsed = greeting.parse_hello(data)
            if parsed is None:
                self._partial = bytearray(data)
                return []
            self._hello, used = parsed
            if self._is_taken(self._hello.name):
                raise Declined(greeting.NAME_TAKEN, "a name that is taken")
            if self._is_admitted is False:
                raise Declined(greeting.NOT_AUTHENTICATED, "an address from which clients may not connect")
            self._put(greeting.methods(self._hello, self._methods))
            data = data[used:]
        hello = self._hello
        choice_bytes = greeting.choice_bytes(hello)
        if len(data) < choice_bytes:
            self._partial = bytearray(data)
            return []
        if choice_bytes:
            greeting.check_choice(data[:choice_bytes], self._methods)
        if len(data) > choice_bytes:
            raise BadFrame("spread: more, before it has a session")
        self._partial = bytearray()
        request = frames.Connect(
            frames.PROTOCOL_VERSION, hello.name, priority=hello.priority, views=hello.wants_views
        )
        return [(frames.FrameKind.CONTROL, bytearray(frames.encode_control(request)))]

    # Output -----------------------------------------------------------------------------------------------

    def queue(self, frame: Buffer) -> None:
        """Have what a frame of ours says written, if Spread has words for it."""
        if self._from_spread is None:
            self._answer(frame)
            return
        data, is_membership = self._to_spread.translate(frame)
        if data and (not is_membership or (self._hello is not None and self._hello.wants_views)):
            self._put(data)

    def queue_first(self, frame: Buffer) -> None:
        """Nothing that overtakes others has a word."""

    def _answer(self, frame: Buffer) -> None:
        """The daemon's word on the session that was asked for."""
        value = frames.decode_from_daemon(frame)
        if isinstance(value, frames.Welcome):
            assert self._hello is not None and self.phase is Phase.OPEN
            self._from_spread = FromSpread(value.name)
            self._put(greeting.answer(self._hello, value.name))
        elif isinstance(value, frames.Refuse):
            self._put(greeting.refusal(_CODES.get(value.code, greeting.NOT_AUTHENTICATED)))
