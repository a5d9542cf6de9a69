"""Resilient messages through both libraries and a real daemon."""

import pytest

import antiphon
from antiphon import BatchStamp, Message, Service
from antiphon.errors import UsageError

EVERY = (None, 1, 2, "majority", "total")


def test_a_message_tells_its_resilience(address: str) -> None:
    with antiphon.blocking.connect(address, name="sam") as session:
        session.join("tea")
        session.receive(timeout_s=30)
        for asked in EVERY:
            session.send("tea", str(asked).encode(), resilience=asked)
        session.send_many("tea", [b"many", b"more"], resilience=2)
        session.send_many("tea", iter([b"one by one"]), resilience=2)
        session.send_many("tea", [b"batch"], batch=BatchStamp("q", 1, 0, 1, 0), resilience=2)
        found = [session.receive(timeout_s=30) for _ in range(9)]
    assert all(isinstance(message, Message) for message in found)
    assert [(message.resilience, message.payload) for message in found] == [
        *((asked, str(asked).encode()) for asked in EVERY),
        *((2, payload) for payload in (b"many", b"more", b"one by one", b"batch")),
    ]
    assert {message.service for message in found} == {Service.AGREED}


async def test_the_same_with_asyncio(address: str) -> None:
    async with antiphon.connect(address, name="sam") as session:
        await session.join("tea")
        await session.receive()
        for asked in EVERY:
            await session.send("tea", str(asked).encode(), resilience=asked)
        await session.send_many("tea", [b"many", b"more"], resilience=2)
        await session.send_many("tea", [b"batch"], batch=BatchStamp("q", 1, 0, 1, 0), resilience=2)
        found = [await session.receive() for _ in range(8)]
        with pytest.raises(UsageError, match="resilience goes with the service agreed, not with fifo"):
            await session.send("tea", b"x", Service.FIFO, resilience=2)
    assert [message.resilience for message in found] == [*EVERY, 2, 2, 2]
