"""A session's name right after its end: whoever comes back with it gets it."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from local_cluster import Cluster, with_spread
from raw_client import RawClient, status, wait_until
from spread_client import AGREED, Rejected, SpreadClient

import antiphon
from antiphon.client import _base, blocking, session
from antiphon.config import Config, Settings
from antiphon.errors import Refused
from antiphon.runtime import successors
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.types import Cause, Message, View
from antiphon.wire import frames

TRIES = 200


def sites(cluster: Cluster, *, delay_ms: float = 0.0) -> Config:
    """Three sites, whose agreement the end of a session needs."""
    config = local_config(3, cluster.directory, delay_ms=delay_ms, settings=Settings(membership="lan"))
    return with_spread(config, cluster.directory)


@pytest.fixture
def daemon(cluster: Cluster) -> Daemon:
    """One of three."""
    return cluster.start(sites(cluster))[0]


# After the last word -------------------------------------------------------------------------------------


async def test_whoever_has_closed_has_its_name_free_with_asyncio(daemon: Daemon) -> None:
    for _ in range(TRIES):
        again = await antiphon.connect(daemon.places[0], name="ann")
        await again.join("chat", wait=False)
        await again.send("chat", b"here I am")
        await again.close()
        assert all(one["name"] != "#ann#d1" for one in status(daemon.places[0])["sessions"])


def test_whoever_has_closed_has_its_name_free_with_threads(daemon: Daemon) -> None:
    for _ in range(TRIES):
        again = antiphon.blocking.connect(daemon.places[0], name="ann")
        again.join("chat", wait=False)
        again.send("chat", b"here I am")
        again.close()
        assert all(one["name"] != "#ann#d1" for one in status(daemon.places[0])["sessions"])


@pytest.mark.parametrize("says_goodbye", [True, False], ids=["with a last word", "killed"])
@pytest.mark.parametrize("place", [0, 1], ids=["unix", "tcp"])
def test_clients_of_spread_come_back_at_once(daemon: Daemon, place: int, says_goodbye: bool) -> None:
    """The toolkit's libraries say their last word and close, and wait for nothing."""
    for _ in range(TRIES):
        with SpreadClient(daemon.spread_places[place], "ann") as again:
            again.join("chat")
            again.multicast(AGREED, "chat", body=b"here I am")
            if says_goodbye:
                again.disconnect()


@pytest.mark.parametrize("listener", [0, 1], ids=["unix", "tcp"])
def test_a_program_that_is_killed_and_started_again_gets_its_name(cluster: Cluster, listener: int) -> None:
    """Its last frames, and the end of its connection behind them, may not have been read yet."""
    first, *_ = cluster.start(local_config(3, cluster.directory, tcp=True))
    with RawClient(first.places[0], "witness") as witness:
        witness.join("chat")
        for number in range(TRIES):
            with RawClient(first.places[listener], "ann") as again:
                assert again.name == "#ann#d1"
                again.send("chat", number.to_bytes(4, "big"), bytes(10_000))
        numbers = [int.from_bytes(message.payload[:4], "big") for message in witness.messages(2 * TRIES)[::2]]
        assert numbers == [*range(TRIES)]


# With load -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def flood(places: list[str]) -> Iterator[None]:
    """Somebody at each place sends as fast as its daemon takes it."""
    is_over = threading.Event()

    def send(place: str) -> None:
        with antiphon.blocking.connect(place) as sender:
            while not is_over.is_set():
                sender.send_many("flood", [bytes(500)] * 100)

    def take(place: str) -> None:
        with antiphon.blocking.connect(place) as receiver:
            receiver.join("flood")
            while not is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    receiver.receive_many(timeout_s=0.05)

    threads = [threading.Thread(target=work, args=(place,)) for place in places for work in (send, take)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_names_come_back_under_load_at_every_daemon(cluster: Cluster) -> None:
    """Each name lives many times, at the same time as others; each life's messages come in their order."""
    daemons = cluster.start(sites(cluster, delay_ms=1.0))
    places = [daemon.places[0] for daemon in daemons]
    lives = 6
    failures: list[Exception] = []

    def live(life: Callable[[str, int], None], place: str) -> None:
        try:
            for number in range(lives):
                life(place, number)
        except Exception as error:
            failures.append(error)

    def with_threads(place: str, number: int) -> None:
        with antiphon.blocking.connect(place, name="ann") as again:
            again.send_many("chat", [b"%d %d" % (number, index) for index in range(5)])

    def with_asyncio(place: str, number: int) -> None:
        async def once() -> None:
            async with antiphon.connect(place, name="bob") as again:
                await again.send_many("chat", [b"%d %d" % (number, index) for index in range(5)])

        asyncio.run(once())

    def as_spread_does(place: str, number: int) -> None:
        with SpreadClient(place, "eve") as again:
            for index in range(5):
                again.multicast(AGREED, "chat", body=b"%d %d" % (number, index))
            if number % 2:
                again.disconnect()

    with antiphon.blocking.connect(places[0], name="witness") as witness:
        witness.join("chat")
        with flood(places):
            threads = [
                threading.Thread(target=live, args=(life, place))
                for daemon in daemons
                for life, place in [
                    (with_threads, daemon.places[0]),
                    (with_asyncio, daemon.places[0]),
                    (as_spread_does, daemon.spread_places[0]),
                ]
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not failures
        heard: dict[str, list[bytes]] = {}
        for _ in range(9 * lives * 5):
            while not isinstance(event := witness.receive(timeout_s=30), Message):
                pass
            heard.setdefault(event.sender, []).append(bytes(event.payload))
    expected = [b"%d %d" % (number, index) for number in range(lives) for index in range(5)]
    assert len(heard) == 9
    assert all(payloads == expected for payloads in heard.values())


# Those who wait ------------------------------------------------------------------------------------------


class Standstill:
    """Two sites, of which one does not answer: no message is delivered, and no session ends."""

    def __init__(self, cluster: Cluster, stack: contextlib.ExitStack) -> None:
        patient = Settings(suspect_ms=60_000.0, recovery_ms=60_000.0)
        config = with_spread(local_config(2, cluster.directory, settings=patient), cluster.directory)
        self.first, second = cluster.start(config)
        self.place = self.first.places[0]
        self._is_over = threading.Event()
        stack.callback(self._is_over.set)
        self._second = second

    def begin(self) -> None:
        has_begun = threading.Event()

        def stand_still() -> None:
            has_begun.set()
            self._is_over.wait()

        assert self._second._loop is not None
        self._second._loop.call_soon_threadsafe(stand_still)
        has_begun.wait()

    def end(self) -> None:
        self._is_over.set()

    def waiting(self) -> int:
        """How many clients had to wait for their name so far."""
        waited: int = status(self.place)["runtime"]["clients"]["successors"]
        return waited


@pytest.fixture
def standstill(cluster: Cluster) -> Iterator[Standstill]:
    with contextlib.ExitStack() as stack:
        yield Standstill(cluster, stack)


def ask(place: str, name: str) -> RawClient:
    """Somebody who has asked for a session and has no answer yet."""
    client = RawClient(place)
    client.say(frames.Connect(frames.PROTOCOL_VERSION, name))
    return client


def test_whoever_waits_for_a_name_gets_it_when_the_old_session_is_over(standstill: Standstill) -> None:
    """Others are served meanwhile, and what was sent behind the request is not lost."""
    old = RawClient(standstill.place, "ann")
    standstill.begin()
    old.say(frames.Disconnect())
    with ask(standstill.place, "ann") as new, RawClient(standstill.place, "bob") as bob:
        new.say(frames.Join("chat"))
        wait_until(lambda: standstill.waiting() == 1)
        assert bob.name == "#bob#d1"
        standstill.end()
        assert old.hear(frames.Goodbye).code == "bye"
        assert new.hear(frames.Welcome).name == "#ann#d1"
        assert new.hear(frames.ViewFrame).view.members == ("#ann#d1",)
    old.socket.close()


def test_of_several_who_wait_for_a_name_the_first_gets_it(standstill: Standstill) -> None:
    old = RawClient(standstill.place, "ann")
    standstill.begin()
    old.socket.close()
    with contextlib.ExitStack() as stack:
        crowd = []
        for number in range(3):
            crowd.append(stack.enter_context(ask(standstill.place, "ann")))
            wait_until(lambda expected=number + 1: standstill.waiting() == expected)
        standstill.end()
        assert crowd[0].hear(frames.Welcome).name == "#ann#d1"
        for late in crowd[1:]:
            assert late.hear(frames.Refuse).code == "name-taken"
            assert late.is_closed()


def test_whoever_hangs_up_while_it_waits_passes_the_name_on(standstill: Standstill) -> None:
    old = RawClient(standstill.place, "ann")
    standstill.begin()
    old.socket.close()
    with ask(standstill.place, "ann"):
        wait_until(lambda: standstill.waiting() == 1)
    with ask(standstill.place, "ann") as new:
        wait_until(lambda: standstill.waiting() == 2)
        standstill.end()
        assert new.hear(frames.Welcome).name == "#ann#d1"


def test_a_client_of_spread_waits_for_its_name_too(standstill: Standstill) -> None:
    old = RawClient(standstill.place, "ann")
    standstill.begin()
    old.socket.close()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(SpreadClient, standstill.first.spread_places[0], "ann")
        wait_until(lambda: standstill.waiting() == 1)
        standstill.end()
        with asked.result() as new:
            assert new.private_group == "#ann#d1"


def test_while_no_view_works_whoever_waits_is_refused_in_the_end(
    standstill: Standstill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(successors, "PATIENCE_US", 50_000)
    old = RawClient(standstill.place, "ann")
    standstill.begin()
    old.socket.close()
    with pytest.raises(Refused, match="'ann' is leaving daemon 'd1'") as caught:
        antiphon.blocking.connect(standstill.place, name="ann")
    assert caught.value.code == "name-taken"
    with pytest.raises(Rejected) as rejected:
        SpreadClient(standstill.first.spread_places[0], "ann")
    assert rejected.value.code == -6


async def test_while_no_view_works_close_waits_a_bounded_time(
    standstill: Standstill, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (_base, session, blocking):
        monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", 0.05)
    ann = await antiphon.connect(standstill.place, name="ann")
    bob = await asyncio.to_thread(antiphon.blocking.connect, standstill.place, name="bob")
    standstill.begin()
    await ann.close()
    await asyncio.to_thread(bob.close)
    assert {one["name"] for one in status(standstill.place)["sessions"]} == {"#ann#d1", "#bob#d1"}
    standstill.end()
    async with antiphon.connect(standstill.place, name="ann") as again:
        assert again.name == "#ann#d1"


def test_a_name_in_use_is_refused_at_once(standstill: Standstill) -> None:
    with RawClient(standstill.place, "ann") as old:
        with ask(standstill.place, "ann") as late:
            assert late.hear(frames.Refuse).reason == "a session called 'ann' is connected to daemon 'd1'"
        assert standstill.waiting() == 0
        old.socket.shutdown(socket.SHUT_WR)  # it has nothing more to say: so ends a session, too
        with RawClient(standstill.place, "ann") as new:
            assert new.name == "#ann#d1"


def test_the_others_see_one_life_end_before_the_next_begins(daemon: Daemon) -> None:
    with antiphon.blocking.connect(daemon.places[0], name="witness") as witness:
        witness.join("chat")
        for _ in range(20):
            with RawClient(daemon.places[0], "ann") as again:
                again.join("chat")
        views = []
        while len(views) < 41:
            event = witness.receive(timeout_s=30)
            assert isinstance(event, View)
            views.append(event)
        assert [view.cause for view in views[1:]] == [Cause.JOIN, Cause.DISCONNECT] * 20
        assert all(view.changed == ("#ann#d1",) for view in views[1:])
