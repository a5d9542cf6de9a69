"""Zenoh: a router, the sender and the receivers as its clients, eclipse-zenoh over TCP.

The router is a session in router mode of the same package, so that nothing else needs to be installed.
Over `unixsock-stream`, eclipse-zenoh 1.10.2 lost messages of 16 bytes in 3 of 8 floods, and over TCP in none.
Shared memory, which it would use for large messages between programs of one machine, is off: programs that
are killed leave it behind, and the others are measured over sockets, too.

Zenoh does not promise: one order of the messages of several publishers at all subscribers, views (its
liveliness tokens tell who is there, in no order with messages), delivery to a subscriber that is away. The
publisher waits where a path is congested (`BLOCK`), as in Zenoh's own throughput example, instead of
dropping.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from antiphon.load.peers import servers
from antiphon.load.peers.peer import Peer, Place
from antiphon.load.peers.work import CHANNEL, LOOK_S, Count, Stream, Work, sleep
from antiphon.load.plan import Received, Sent


class ZenohRouter(Peer):
    """A router and the binding of its makers."""

    name = "zenoh"
    packages = ("eclipse-zenoh",)

    @contextmanager
    def server(self, folder: Path) -> Iterator[Place]:
        """A router without scouting, in a process of its own."""
        port = servers.free_port()
        address = f"tcp/127.0.0.1:{port}"
        words = servers.serving(self.name, address)
        with servers.running(words, folder, lambda _: servers.answers_tcp(port)):
            yield Place(address)

    def serve(self, address: str) -> None:
        """Route until the process is ended."""
        with _session("router", "listen", address):
            signal.pause()

    def send(self, work: Work, address: str) -> Sent:
        """A `put` of a declared publisher a message."""
        import zenoh

        stream = Stream(work)
        with _session("client", "connect", address) as session:
            publisher = session.declare_publisher(CHANNEL, congestion_control=zenoh.CongestionControl.BLOCK)
            for burst in stream:
                for payload in burst:
                    publisher.put(payload)
                sleep(stream.pause_s)
        return stream.report()

    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        """A subscriber with a callback."""
        count = Count(work)

        def take(sample: Any) -> None:
            count.take(sample.payload.to_bytes())

        with _session("client", "connect", address) as session:
            subscriber = session.declare_subscriber(CHANNEL, take)
            say_ready()
            while not count.is_over:
                time.sleep(LOOK_S)
                count.look()
            subscriber.undeclare()
        return count.report()


def _session(mode: str, how: str, address: str) -> Any:
    import zenoh

    settings = {
        "mode": mode,
        how: {"endpoints": [address]},
        "transport": {"shared_memory": {"enabled": False}},
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
    }
    return zenoh.open(zenoh.Config.from_json5(msgspec.json.encode(settings).decode()))
