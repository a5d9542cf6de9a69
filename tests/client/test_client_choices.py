"""Receivers' choices through both libraries and a real daemon."""

import pytest

import antiphon
from antiphon import Message, Service
from antiphon.errors import UsageError

CHOICES = (None, "agreed", "fifo", "arrival")


def test_members_with_different_choices_get_the_same_messages(address: str) -> None:
    sessions = [antiphon.blocking.connect(address) for _ in CHOICES]
    for session, choice in zip(sessions, CHOICES, strict=True):
        session.join("tea", delivery=choice)
    payloads = [str(number).encode() for number in range(200)]
    for number, payload in enumerate(payloads):
        service = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)[number % 4]
        sessions[0].send("tea", payload, service)
    for session, choice in zip(sessions, CHOICES, strict=True):
        got: list[bytes] = []
        while len(got) < len(payloads):
            event = session.receive(timeout_s=30)
            if isinstance(event, Message):
                got.append(event.payload)
        assert sorted(got) == sorted(payloads), choice
        if choice is not None and choice != "arrival":  # reliable ones are in no order
            in_order = [payload for payload in got if int(payload) % 4]
            assert in_order == sorted(in_order, key=int), choice
        session.close()


async def test_the_same_with_asyncio(address: str) -> None:
    async with antiphon.connect(address) as sender, antiphon.connect(address) as receiver:
        await receiver.join("tea", delivery="fifo")
        for number in range(20):
            await sender.send("tea", str(number).encode(), Service.SAFE)
        got: list[bytes] = []
        while len(got) < 20:
            event = await receiver.receive()
            if isinstance(event, Message):
                got.append(event.payload)
        assert got == [str(number).encode() for number in range(20)]


@pytest.mark.parametrize("wrong", ["safe", "", 2, b"fifo"])
def test_a_choice_that_there_is_not_is_refused_before_anything_is_sent(address: str, wrong: object) -> None:
    with antiphon.blocking.connect(address) as session:
        with pytest.raises(UsageError, match="delivery must be one of 'agreed', 'fifo', 'arrival', not"):
            session.join("tea", delivery=wrong)  # type: ignore[arg-type]
        session.join("tea")
