"""Redis PUB/SUB: one redis-server that writes nothing to disk, redis-py over a unix socket.

Redis PUB/SUB does not promise: members or views, delivery to a subscriber that is away or slow (the server
disconnects it), one order at subscribers of several servers. One server puts all messages of a channel into
one order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from antiphon.errors import AntiphonError
from antiphon.load.peers import servers
from antiphon.load.peers.peer import Peer, Place, find_program
from antiphon.load.peers.work import CHANNEL, LOOK_S, Count, Stream, Work, sleep
from antiphon.load.plan import Received, Sent

_SETTINGS = {
    "save": "",
    "appendonly": "no",
    "client-output-buffer-limit": "pubsub 1gb 0 0",  # else it cuts a subscriber off after 32 MB
}


class RedisServer(Peer):
    """redis-server and the blocking client of its makers."""

    name = "redis"
    programs: ClassVar[dict[str, str]] = {"redis-server": "redis-server"}
    packages = ("redis",)
    helpful = ("hiredis",)

    @contextmanager
    def server(self, folder: Path) -> Iterator[Place]:
        """A server without persistence and with room for a subscriber that lags behind."""
        path = folder / "redis.sock"
        words = [find_program("redis-server") or "redis-server", "--port", "0", "--unixsocket", str(path)]
        words += [word for key, value in _SETTINGS.items() for word in (f"--{key}", value)]
        with servers.running(words, folder, lambda _: servers.answers_unix(path)):
            yield Place(str(path))

    def send(self, work: Work, address: str) -> Sent:
        """A pipeline a burst, as its documentation advises; a lone message is published as it is."""
        client = _client(address)
        pipeline = client.pipeline(transaction=False)
        stream = Stream(work)
        for burst in stream:
            if len(burst) == 1:
                client.publish(CHANNEL, burst[0])
            else:
                for payload in burst:
                    pipeline.publish(CHANNEL, payload)
                pipeline.execute()
            sleep(stream.pause_s)
        client.close()
        return stream.report()

    def receive(self, work: Work, address: str, say_ready: Callable[[], None]) -> Received:
        """A subscriber that asks for one message after another."""
        import redis

        subscriber = _client(address).pubsub()
        subscriber.subscribe(CHANNEL)
        while subscriber.get_message(timeout=None) is None:
            pass
        say_ready()
        count = Count(work)
        try:
            while not count.is_over:
                message = subscriber.get_message(timeout=LOOK_S)
                if message is None:
                    count.look()
                else:
                    count.take(message["data"])
        except redis.ConnectionError as error:
            raise AntiphonError(f"redis-server cut the subscriber off: {error}") from error
        subscriber.close()
        return count.report()


def _client(address: str) -> Any:
    import redis

    return redis.Redis(unix_socket_path=address)
