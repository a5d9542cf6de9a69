"""Antiphon itself: one daemon, agreed messages to one group.

The client bundles, as it does by default. Agreed order, the views of the group's members and flow control,
which makes a sender wait for slow members, are part of what is measured.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import antiphon
from antiphon.load.cluster import daemons
from antiphon.load.peers.peer import Peer, Place
from antiphon.load.peers.work import CHANNEL, LOOK_S, Count, Stream, Work
from antiphon.load.plan import Received, Sent
from antiphon.service import Service
from antiphon.types import Message


class AntiphonDaemon(Peer):
    """Our daemon and our asyncio client, over a unix socket."""

    name = "antiphon"
    packages = ("antiphon",)

    def missing(self) -> str:
        """Nothing: this is it, whether pip knows of it or not."""
        return ""

    @contextmanager
    def server(self, folder: Path) -> Iterator[Place]:
        """One daemon of one site; it has a folder of its own, since paths of unix sockets must be short."""
        with daemons(1) as (address,):
            yield Place(address)

    def send(self, work: Work, address: str) -> Sent:
        """A `send` a message; the library bundles."""
        return asyncio.run(_send(work, address))

    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        """A member of the group that takes whatever has come."""
        return asyncio.run(_receive(work, address, say_ready))


async def _send(work: Work, address: str) -> Sent:
    async with antiphon.connect(address, views=False) as session:
        stream = Stream(work)
        for burst in stream:
            for payload in burst:
                await session.send(CHANNEL, payload, service=Service.AGREED)
            if stream.pause_s:
                await asyncio.sleep(stream.pause_s)
    return stream.report()


async def _receive(work: Work, address: str, say_ready: Callable[[], None]) -> Received:
    async with antiphon.connect(address) as session:
        await session.join(CHANNEL)
        say_ready()
        count = Count(work)
        while not count.is_over:
            try:
                async with asyncio.timeout(LOOK_S):
                    events = await session.receive_many()
            except TimeoutError:
                count.look()
            else:
                count.take_many(event.payload for event in events if type(event) is Message)
        return count.report()
