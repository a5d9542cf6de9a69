"""ZeroMQ: a proxy between XSUB and XPUB, pyzmq over unix sockets (`ipc`).

ZeroMQ does not promise: members or views, delivery to a subscriber that connects late, reconnects or, with
usual settings, is slow, one order at subscribers of several proxies. Here publisher and proxy wait for a
slow subscriber (`XPUB_NODROP`) instead of dropping what it has no room for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from antiphon.load.peers import servers
from antiphon.load.peers.peer import Peer, Place
from antiphon.load.peers.work import CHANNEL, LOOK_S, Count, Stream, Work, sleep
from antiphon.load.plan import Received, Sent

_TOPIC = CHANNEL.encode()
_HIGH_WATER_MESSAGES = 10_000
_IN, _OUT = "in", "out"
"""The sockets of publishers and of subscribers, in the server's folder."""


class ZmqProxy(Peer):
    """libzmq's own proxy and the usual Python binding."""

    name = "zmq"
    packages = ("pyzmq",)

    @contextmanager
    def server(self, folder: Path) -> Iterator[Place]:
        """The proxy, in a process of its own."""

        def is_ready(_process: int) -> bool:
            return all(servers.answers_unix(folder / name) for name in (_IN, _OUT))

        with servers.running(servers.serving(self.name, str(folder)), folder, is_ready):
            yield Place(str(folder))

    def serve(self, address: str) -> None:
        """Forward between the two sockets, in C, until the process is ended."""
        import zmq

        publishers, subscribers = _socket(zmq.XSUB), _socket(zmq.XPUB)
        publishers.bind(f"ipc://{address}/{_IN}")
        subscribers.bind(f"ipc://{address}/{_OUT}")
        zmq.proxy(publishers, subscribers)

    def send(self, work: Work, address: str) -> Sent:
        """A message a `send`, with the topic in front of the payload."""
        import zmq

        socket = _socket(zmq.PUB)
        socket.connect(f"ipc://{address}/{_IN}")
        stream = Stream(work)
        for burst in stream:
            for payload in burst:
                socket.send(_TOPIC + payload)
            sleep(stream.pause_s)
        socket.close(linger=-1)
        zmq.Context.instance().term()
        return stream.report()

    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        """A subscriber to the topic."""
        import zmq

        socket = _socket(zmq.SUB)
        socket.rcvtimeo = int(LOOK_S * 1_000)
        socket.connect(f"ipc://{address}/{_OUT}")
        socket.subscribe(_TOPIC)
        say_ready()
        count = Count(work, len(_TOPIC))
        while not count.is_over:
            try:
                count.take(socket.recv())
            except zmq.Again:
                count.look()
        return count.report()


def _socket(kind: int) -> Any:
    import zmq

    socket = zmq.Context.instance().socket(kind)
    socket.set_hwm(_HIGH_WATER_MESSAGES)
    if kind in (zmq.PUB, zmq.XPUB):
        socket.setsockopt(zmq.XPUB_NODROP, 1)
    return socket
