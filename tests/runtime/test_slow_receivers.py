"""Receivers that do not keep up, with real daemons: warned, spared or cut off, never in the others' way."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from local_cluster import Cluster
from raw_client import RawClient, status, wait_until

import antiphon
import antiphon.blocking
from antiphon import Message, Service, SlowReceiver, errors, limits
from antiphon.config import Settings
from antiphon.runtime.client_limits import SLOW_GRACE_US
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.wire import frames

SOFT = 2**18
HARD = 2**23
UNSTABLE = 2**20
"""So little is under way that no turn brings more than the hard limit."""
PATIENCE_MS = 500.0
PAYLOAD_BYTES = 20_000
PATIENCE_S = 60.0
"""Only to keep a failing test from hanging."""


@pytest.fixture
def small_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library keeps little, so that the daemon soon has to."""
    monkeypatch.setattr(limits, "CLIENT_EVENTS_MAX_BYTES", 100_000)


def started(cluster: Cluster, sites: int, **settings: object) -> list[Daemon]:
    chosen = {
        "output_soft_bytes": SOFT, "output_hard_bytes": HARD, "unstable_bytes": UNSTABLE,
        "slow_patience_ms": PATIENCE_MS, "membership": "lan", "suspect_ms": 5_000.0, "recovery_ms": 10_000.0,
        **settings,
    }  # fmt: skip
    config = local_config(sites, cluster.directory, settings=Settings(**chosen))  # type: ignore[arg-type]
    return cluster.start(config)


def slowness(session: antiphon.blocking.Session) -> Iterator[SlowReceiver]:
    """What the session is told about itself; messages are taken as they come."""
    while True:
        for event in session.receive_many(PATIENCE_S):
            if isinstance(event, SlowReceiver):
                yield event


def flood(session: antiphon.blocking.Session, group: str, count: int, service: Service) -> None:
    for number in range(count):
        session.send(group, number.to_bytes(4, "big") + bytes(PAYLOAD_BYTES), service=service)


def numbers(session: antiphon.blocking.Session, count: int) -> list[int]:
    """The numbers of the next `count` messages."""
    found: list[int] = []
    while len(found) < count:
        for event in session.receive_many(PATIENCE_S):
            if isinstance(event, Message):
                found.append(int.from_bytes(event.payload[:4], "big"))
    return found


def slow_sessions(daemon: Daemon) -> int:
    now: int = status(daemon.places[0])["slow_receivers"]["now"]
    return now


def test_a_slow_program_is_warned_before_it_reads_on_and_told_when_it_keeps_up(
    cluster: Cluster, small_client: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (daemon,) = started(cluster, 1, slow_patience_ms=60_000.0)
    place = daemon.places[0]
    with (
        antiphon.blocking.connect(place, name="sloth") as sloth,
        antiphon.blocking.connect(place, name="ada") as ada,
    ):
        sloth.join("chat")
        flooding = threading.Thread(target=flood, args=(ada, "chat", 600, Service.AGREED))
        flooding.start()
        wait_until(lambda: slow_sessions(daemon) == 1)
        told = status(place)
        assert told["slow_sessions"] == ["#sloth#d1"]
        (entry,) = [session for session in told["sessions"] if session["name"] == "#sloth#d1"]
        assert (entry["is_slow"], entry["warned"], entry["slow_policy"]) == (True, 1, "disconnect")
        assert told["runtime"]["output_bytes"][str(entry["number"])] > SOFT
        said: list[SlowReceiver] = []
        messages = 0
        while messages < 600 or not said[-1].is_over:
            for event in sloth.receive_many(PATIENCE_S):
                if isinstance(event, SlowReceiver):
                    said.append(event)
                messages += isinstance(event, Message)
        flooding.join(PATIENCE_S)
        warning, relief = said[0], said[1]
    assert (warning.is_over, warning.soft_bytes, warning.hard_bytes) == (False, SOFT, HARD)
    assert warning.waiting_bytes > SOFT
    assert relief.is_over and relief.waiting_bytes <= SOFT // 2
    assert relief.dropped_messages == 0
    assert "#sloth#d1 reads too slowly (policy disconnect)" in caplog.text
    assert "#sloth#d1 keeps up again" in caplog.text


def test_a_client_that_did_not_ask_for_warnings_gets_none(cluster: Cluster) -> None:
    (daemon,) = started(cluster, 1, slow_patience_ms=60_000.0)
    with RawClient(daemon.places[0], "sloth") as sloth, RawClient(daemon.places[0], "ada") as ada:
        sloth.join("chat")
        bodies = b"".join(ada.bundle("chat", [bytes(50_000)]) for _ in range(400))
        sending = threading.Thread(target=ada.send_bytes, args=(bodies,))
        sending.start()
        wait_until(lambda: slow_sessions(daemon) == 1)
        kinds = [read_frame(sloth) for _ in range(400)]
        sending.join(PATIENCE_S)
        wait_until(lambda: slow_sessions(daemon) == 0)
        assert set(kinds) == {frames.FrameKind.BUNDLE}


def read_frame(client: RawClient) -> int:
    """The kind of the next frame."""
    frame = client.next_frame()
    assert frame is not None
    return frame[0]


def test_unreliable_messages_are_left_out_and_ordered_ones_all_come(
    cluster: Cluster, small_client: None
) -> None:
    first, second = started(cluster, 2, output_hard_bytes=2**26)

    def dropped() -> int:
        count: int = status(first.places[0])["slow_receivers"]["dropped_messages"]
        return count

    with (
        antiphon.blocking.connect(first.places[0], name="sloth", slow="drop-unreliable") as sloth,
        antiphon.blocking.connect(second.places[0], name="ada") as ada,
    ):
        sloth.join("chat")
        waves = 0
        while dropped() == 0:  # they may get lost on their way, too: then send more
            flood(ada, "chat", 200, Service.UNRELIABLE)
            waves += 1
            assert waves < 1_000
        assert status(first.places[0])["slow_sessions"] == []  # nobody waits for it
        ordered = [number.to_bytes(4, "big") for number in range(300)]
        ada.send_many("chat", ordered, Service.AGREED)
        said: list[SlowReceiver] = []
        heard: list[bytes] = []
        while len(heard) < len(ordered) or not said[-1].is_over:
            for event in sloth.receive_many(PATIENCE_S):
                if isinstance(event, SlowReceiver):
                    said.append(event)
                elif isinstance(event, Message) and event.service is Service.AGREED:
                    heard.append(event.payload)
        assert heard == ordered
        assert [event.is_over for event in said[:2]] == [False, True]
        assert said[-1].policy == "drop-unreliable"
        assert said[-1].dropped_messages > 0


def test_one_reader_that_stops_costs_the_others_nothing_but_time(cluster: Cluster) -> None:
    """Before, during and after: the others get everything, and the one that stopped is ended with its
    reason. Those who send to it wait for `slow_patience_ms` at most, since it reads nothing."""
    first, second = started(cluster, 2)
    with (
        RawClient(first.places[0], "sloth") as sloth,
        antiphon.blocking.connect(first.places[0], name="bob") as bob,
        antiphon.blocking.connect(second.places[0], name="eve") as eve,
        antiphon.blocking.connect(second.places[0], name="ada") as ada,
    ):
        sloth.join("chat")
        bob.join("chat")
        eve.join("chat")
        count = 1_500  # 30 MB: more than the kernel and the daemon keep for one client
        heard: dict[str, list[int]] = {}

        def listen(name: str, session: antiphon.blocking.Session) -> None:
            heard[name] = numbers(session, count)

        listening = [
            threading.Thread(target=listen, args=("bob", bob)),
            threading.Thread(target=listen, args=("eve", eve)),
        ]
        for thread in listening:
            thread.start()
        flood(ada, "chat", count, Service.AGREED)
        for thread in listening:
            thread.join(PATIENCE_S)
        assert heard == {"bob": list(range(count)), "eve": list(range(count))}
        told = status(first.places[0])
        assert told["runtime"]["clients"]["slow_receivers"] == 1
        assert told["slow_receivers"]["warned"] >= 1
        assert "#sloth#d1" not in told["groups"]["chat"]
        wait_until(lambda: slow_sessions(first) == 0)
        goodbye = sloth.hear(frames.Goodbye)
        assert goodbye.code == "slow-receiver"
        assert "did not read" in goodbye.reason
        assert sloth.is_closed()
        flood(ada, "chat", 10, Service.SAFE)
        assert numbers(bob, 10) == numbers(eve, 10) == list(range(10))


def test_a_reader_that_is_late_but_reads_is_not_cut_off_while_senders_wait_for_it(cluster: Cluster) -> None:
    """Much more than the hard limit comes at once, since the wish to hold takes its time to the sender, and
    taking it takes longer than the first grace."""
    settings = Settings(
        unstable_bytes=2**25, output_soft_bytes=SOFT, output_hard_bytes=SOFT + 1, slow_patience_ms=60_000.0
    )
    first, second = cluster.start(local_config(2, cluster.directory, delay_ms=50, settings=settings))
    with RawClient(first.places[0], "late") as late, RawClient(second.places[0], "ada") as ada:
        late.join("chat")
        count = 600
        bodies = b"".join(ada.bundle("chat", [bytes(50_000)]) for _ in range(count))
        sending = threading.Thread(target=ada.send_bytes, args=(bodies,))
        sending.start()
        wait_until(lambda: slow_sessions(first) == 1)
        heard = 0
        deadline_s = time.monotonic() + 2.5 * SLOW_GRACE_US / 1e6
        while time.monotonic() < deadline_s:
            heard += read_frame(late) == frames.FrameKind.BUNDLE
            time.sleep(0.05)
        while heard < count:
            heard += read_frame(late) == frames.FrameKind.BUNDLE
        sending.join(PATIENCE_S)
        told = status(first.places[0])
        assert told["slow_receivers"]["warned"] >= 1
        assert told["runtime"]["clients"]["slow_receivers"] == 0


def test_senders_elsewhere_do_not_wait_for_a_reader_that_stopped(cluster: Cluster) -> None:
    """Those who send to it wait, and would do so for a minute; messages of another group and private ones
    pass between the same daemons meanwhile."""
    first, second = started(cluster, 2, slow_patience_ms=60_000.0)
    with (
        RawClient(first.places[0], "sloth") as sloth,
        antiphon.blocking.connect(first.places[0], name="bob") as bob,
        antiphon.blocking.connect(second.places[0], name="eve") as eve,
        RawClient(second.places[0], "ada") as ada,
    ):
        sloth.join("chat")
        bob.join("tea")
        eve.join("tea")
        bodies = b"".join(ada.bundle("chat", [bytes(50_000)]) for _ in range(600))
        sending = threading.Thread(target=ada.send_bytes, args=(bodies,), daemon=True)
        sending.start()
        wait_until(lambda: status(second.places[0])["held_sessions"] == ["#ada#d2"])
        assert (
            status(first.places[0])["slow_sessions"] == status(second.places[0])["holding"] == ["#sloth#d1"]
        )
        flood(bob, "tea", 50, Service.AGREED)
        flood(eve, "#bob#d1", 50, Service.SAFE)
        assert sorted(numbers(bob, 100)) == sorted([*range(50), *range(50)])
        assert numbers(eve, 50) == list(range(50))
        assert status(second.places[0])["held_sessions"] == ["#ada#d2"]
        sloth.socket.close()
        sending.join(PATIENCE_S)
        wait_until(lambda: status(second.places[0])["held_sessions"] == [])


def test_a_program_that_sends_before_it_reads_does_not_wait_for_itself(cluster: Cluster) -> None:
    """The others would wait for it for a minute, and the test fails sooner than that."""
    (daemon,) = started(cluster, 1, slow_patience_ms=600_000.0, output_hard_bytes=2**26)
    with RawClient(daemon.places[0], "selfish") as selfish:
        selfish.join("own")
        count = 200
        selfish.send_bytes(b"".join(selfish.bundle("own", [bytes(100_000)]) for _ in range(count)))
        assert status(daemon.places[0])["slow_receivers"]["warned"] >= 1
        assert {read_frame(selfish) for _ in range(count)} == {frames.FrameKind.BUNDLE}


def test_the_reason_reaches_a_program_that_reads_on(cluster: Cluster, small_client: None) -> None:
    (daemon,) = started(cluster, 1)
    place = daemon.places[0]
    with antiphon.blocking.connect(place, name="ada") as ada:
        sloth = antiphon.blocking.connect(place, name="sloth")
        sloth.join("chat")
        with contextlib.suppress(errors.Disconnected):
            flood(ada, "chat", 1_500, Service.AGREED)
        wait_until(lambda: status(place)["runtime"]["clients"]["slow_receivers"] == 1)
        with pytest.raises(errors.Disconnected, match="slow-receiver"):
            for _ in slowness(sloth):
                pass
        sloth.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"slow": "ignore"}, "disconnect, drop-unreliable"), ({"priority": "urgent"}, "low, medium, high")],
)
def test_wrong_wishes_are_refused_at_once(arguments: dict[str, str], words: str) -> None:
    with pytest.raises(errors.UsageError, match=words):
        antiphon.blocking.connect("unix:/nowhere", **arguments)  # type: ignore[arg-type]
