"""NATS: one nats-server, core NATS (no JetStream), nats-py over TCP, which is what it has on one machine.

NATS does not promise: one order of the messages of several publishers at all subscribers, members or views,
delivery to a subscriber that is away or slow (the server cuts it off when 64 MB wait, the client drops at
limits of its own). One publisher's messages keep their order.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from antiphon.errors import AntiphonError
from antiphon.load.peers import servers
from antiphon.load.peers.peer import Peer, Place, find_program
from antiphon.load.peers.work import CHANNEL, LOOK_S, Count, Stream, Work
from antiphon.load.plan import Received, Sent


class NatsServer(Peer):
    """nats-server and the asyncio client of its makers."""

    name = "nats"
    programs: ClassVar[dict[str, str]] = {"nats-server": "nats-server"}
    packages = ("nats-py",)

    @contextmanager
    def server(self, folder: Path) -> Iterator[Place]:
        """A server with its usual settings."""
        port = servers.free_port()
        words = [find_program("nats-server") or "nats-server", "--addr", "127.0.0.1", "--port", str(port)]
        with servers.running(words, folder, lambda _: servers.answers_tcp(port)):
            yield Place(f"nats://127.0.0.1:{port}")

    def send(self, work: Work, address: str) -> Sent:
        """A `publish` a message; the client gathers what is published until its loop comes round."""
        return asyncio.run(_send(work, address))

    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        """A subscription with a callback, without limits of the client: it drops nothing by itself."""
        return asyncio.run(_receive(work, address, say_ready))


async def _connect(address: str) -> Any:
    import nats

    async def ignore(_error: Exception) -> None:
        """What is lost is counted."""

    try:
        return await nats.connect(address, allow_reconnect=False, error_cb=ignore)
    except (OSError, nats.errors.Error) as error:
        raise AntiphonError(f"nats-py cannot connect: {error!r}") from error


async def _send(work: Work, address: str) -> Sent:
    client = await _connect(address)
    stream = Stream(work)
    for burst in stream:
        for payload in burst:
            await client.publish(CHANNEL, payload)
        if stream.pause_s:
            await asyncio.sleep(stream.pause_s)
    await client.drain()
    return stream.report()


async def _receive(work: Work, address: str, say_ready: Callable[[], None]) -> Received:
    client = await _connect(address)
    count = Count(work)

    async def take(message: Any) -> None:
        count.take(message.data)

    await client.subscribe(CHANNEL, cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
    await client.flush()
    say_ready()
    while not count.is_over:
        await asyncio.sleep(LOOK_S)
        count.look()
    await client.close()
    return count.report()
