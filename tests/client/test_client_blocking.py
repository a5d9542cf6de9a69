"""The blocking session: the same promises, kept with threads."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripted_daemon import OWN, ScriptedDaemon, delivered

import antiphon
from antiphon import Left, Message, Sent, Service, View, errors, limits
from antiphon.blocking import Session, connect
from antiphon.client import blocking as blocking_module
from antiphon.wire import frames


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[ScriptedDaemon]:
    peer = ScriptedDaemon(tmp_path)
    yield peer
    peer.close()


def met(peer: ScriptedDaemon) -> Session:
    """A session with `peer`."""
    with ThreadPoolExecutor() as pool:
        welcomed = pool.submit(peer.welcome)
        session = connect(peer.address)
        welcomed.result()
    return session


def messages(session: Session, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        event = session.receive(timeout_s=60)
        if isinstance(event, Message):
            found.append(event)
    return found


@pytest.mark.parametrize("place", [0, 1], ids=["unix", "tcp"])
def test_a_message_travels_over_either_listener(daemon, place):
    with antiphon.blocking.connect(daemon.places[place], name="alice") as session:
        session.join("chat")
        session.send("chat", b"hello", Service.SAFE, tag=3)
        view = session.receive(timeout_s=60)
        assert isinstance(view, View) and view.members == ("#alice#d1",)
        (message,) = messages(session, 1)
        assert (message.payload, message.service, message.tag) == (b"hello", Service.SAFE, 3)
        session.leave("chat")
        assert isinstance(session.receive(timeout_s=60), Left)
        assert session.status()["daemon"] == "d1"


def test_one_thread_may_send_and_receive_much_more_than_the_queues_hold(address):
    count = 12_000
    with connect(address) as session:
        session.join("chat")
        for index in range(count):
            session.send("chat", b"%1000d" % index)
        assert count * 1_000 > limits.CLIENT_EVENTS_MAX_BYTES
        assert [int(message.payload) for message in messages(session, count)] == list(range(count))


def test_threads_may_send_and_receive_at_the_same_time(address):
    count = 3_000
    with connect(address) as session, ThreadPoolExecutor() as pool:
        session.join("chat")

        def talk(name: int) -> None:
            for index in range(count):
                session.send("chat", b"%d %d" % (name, index))

        hearing = pool.submit(messages, session, 3 * count)
        for talking in [pool.submit(talk, name) for name in range(3)]:
            talking.result()
        heard = [tuple(map(int, message.payload.split())) for message in hearing.result()]
        for name in range(3):
            assert [index for speaker, index in heard if speaker == name] == list(range(count))


def test_several_threads_may_receive(address):
    count = 2_000
    with connect(address, views=False) as session, ThreadPoolExecutor() as pool:
        session.join("chat")
        takers = [pool.submit(messages, session, count // 4) for _ in range(4)]
        session.send_many("chat", [b"%d" % index for index in range(count)])
        taken = [int(message.payload) for taker in takers for message in taker.result()]
        assert sorted(taken) == list(range(count))


def test_send_many_and_receive_many(address):
    sent = [b"%d" % index for index in range(20_000)]
    with connect(address) as session:
        session.join("chat")
        session.send_many("chat", iter(sent), Service.FIFO)
        heard: list[bytes] = []
        while len(heard) < len(sent):
            events = session.receive_many(timeout_s=60)
            assert events
            heard += [event.payload for event in events if isinstance(event, Message)]
        assert heard == sent


def test_an_error_in_send_many_leaves_those_before_it_sent(address):
    with connect(address, views=False) as session:
        session.join("chat")
        with pytest.raises(errors.UsageError):
            session.send_many("chat", [b"one", b"two", "three"])
        assert [message.payload for message in messages(session, 2)] == [b"one", b"two"]


def test_receive_gives_up_after_its_timeout(address):
    with connect(address) as session, pytest.raises(TimeoutError, match=r"no event within 0.01 s"):
        session.receive(timeout_s=0.01)


def test_a_lone_message_goes_out_at_once_and_a_burst_gathers(peer):
    session = met(peer)
    session.send("chat", b"lone")
    assert [message.payload for message in peer.hear_bundle()] == [b"lone"]
    for _ in range(2_000):
        session.send("chat", bytes(100))
    session.flush()
    assert len(peer.hear_messages(2_000)) < 500
    peer.hang_up()
    with pytest.raises(errors.Disconnected):
        session.close()


def test_gathered_messages_leave_without_another_call(peer):
    session = met(peer)
    for index in range(10):
        session.send("chat", b"%d" % index)
    bundles = peer.hear_messages(10)
    assert [int(message.payload) for one in bundles for message in one] == list(range(10))
    time.sleep(0.05)  # the flusher has gone to sleep
    for index in range(10):
        session.send("chat", b"%d" % index)
    peer.hear_messages(10)
    peer.hang_up()
    with pytest.raises(errors.Disconnected):
        session.close()


def test_iteration_ends_when_another_thread_closes(address):
    session = connect(address)
    session.join("chat")
    with ThreadPoolExecutor() as pool:
        listening = pool.submit(lambda: [type(event) for event in session])
        while not listening.running():
            time.sleep(0.001)
        session.close()
        assert listening.result(timeout=30) in ([], [View])
    session.close()
    with pytest.raises(errors.Disconnected, match="closed by this program"):
        session.send("chat", b"too late")
    with pytest.raises(errors.Disconnected, match="closed by this program"):
        session.receive()


def test_events_that_arrived_are_handed_out_before_the_end_is_told(peer):
    session = met(peer)
    session.send("chat", b"x")
    peer.say(delivered(b"first", b"second"), frames.Goodbye("stopping", "the daemon is stopping"))
    heard = []
    with pytest.raises(errors.Disconnected, match="the daemon is stopping") as caught:
        for event in session:
            heard.append(event.payload)
    assert heard == [b"first", b"second"]
    assert caught.value.unknown_fate == 1
    session.close()


def test_a_sender_learns_the_daemons_last_word(peer):
    session = met(peer)
    peer.say(frames.Goodbye("failure", "out of memory"))
    peer.hang_up()
    with pytest.raises(errors.Disconnected, match="out of memory"):
        for _ in range(100_000):
            session.send("chat", bytes(10_000))
    session.close()


def test_a_full_socket_holds_the_sender_until_the_daemon_reads(peer):
    session = met(peer)
    peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    count = 3_000
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(session.send_many, "chat", [bytes(10_000)] * count)
        time.sleep(0.2)
        assert not sending.done()
        heard = sum(map(len, peer.hear_messages(count)))
        sending.result(timeout=30)
    assert heard == count
    peer.hang_up()
    with pytest.raises(errors.Disconnected) as caught:
        session.close()
    assert caught.value.unknown_fate == count


def test_close_does_not_wait_for_ever_even_for_a_stuck_sender(peer, monkeypatch):
    monkeypatch.setattr(blocking_module, "CLOSE_TIMEOUT_S", 0.1)
    session = met(peer)
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(session.send_many, "chat", [bytes(10_000)] * 3_000)
        time.sleep(0.1)
        with pytest.raises(errors.Disconnected, match="no answer to the request to disconnect"):
            session.close()
        with pytest.raises(errors.Disconnected):
            sending.result(timeout=30)


def test_a_stream_that_makes_no_sense_ends_the_session(peer):
    session = met(peer)
    peer.say(b"\xff" * 100)
    with pytest.raises(errors.Disconnected, match="cannot be read"):
        session.receive()
    session.close()


def test_a_taken_name_is_refused_and_no_daemon_is_one_sentence(address, tmp_path):
    with connect(address, name="alice"), pytest.raises(errors.Refused, match="alice"):
        connect(address, name="alice")
    with pytest.raises(errors.ConnectError, match=r"no daemon at unix:.*: No such file or directory"):
        connect(f"unix:{tmp_path}/nobody.sock")


def test_an_embedded_daemon_lives_as_long_as_its_session():
    before = set(threading.enumerate())
    with connect(embedded=True, name="bob") as session:
        path = Path(session.address.removeprefix("unix:"))
        assert session.name == "#bob#d1"
        for _ in range(10):
            session.send("nobody", b"x")
    assert not path.parent.exists()
    later = set(threading.enumerate()) - before
    assert not [thread for thread in later if thread.name.startswith("antiphon-")]


def test_join_returns_when_the_session_is_a_member(address):
    with connect(address) as alice, connect(address) as bob:
        for number in range(20):
            alice.join(f"g{number}")
            bob.send(f"g{number}", b"%d" % number)
        got = [alice.receive(timeout_s=30) for _ in range(40)]
        assert [event.payload for event in got if isinstance(event, Message)] == [
            b"%d" % number for number in range(20)
        ]
        alice.leave("g0")
        assert "g0" not in alice.groups


def test_join_takes_effect_while_another_thread_receives(address):
    with connect(address) as session:
        events: list[object] = []
        reader = threading.Thread(
            target=lambda: events.extend(session.receive(timeout_s=30) for _ in range(2))
        )
        reader.start()
        session.join("g")
        session.join("h")
        reader.join(30)
        assert len(events) == 2


def test_a_slow_iterator_holds_nobody_up(address):
    with connect(address, name="slow") as slow, connect(address) as listener:
        listener.join("chat")
        more = threading.Event()

        def payloads() -> Iterator[bytes]:
            yield b"first"
            assert more.wait(60)
            yield b"last"

        with ThreadPoolExecutor() as pool:
            sending = pool.submit(slow.send_many, "chat", payloads())
            assert messages(listener, 1)[0].payload == b"first"
            slow.send("chat", b"between")
            assert messages(listener, 1)[0].payload == b"between"
            more.set()
            sending.result()
        assert messages(listener, 1)[0].payload == b"last"


def test_a_receive_gives_up_in_time_though_another_thread_receives(address):
    with connect(address) as session, ThreadPoolExecutor() as pool:
        waiting = pool.submit(session.receive, 60)
        while not session._receiving.locked():
            time.sleep(0.001)
        with pytest.raises(TimeoutError, match=r"no event within 0.01 s"):
            session.receive(timeout_s=0.01)
        with pytest.raises(TimeoutError):
            session.receive_many(timeout_s=0.01)
        session.send(session.name, b"here you are")
        assert waiting.result().payload == b"here you are"


def test_unreliable_messages_have_no_fate_but_are_counted_along(peer):
    session = met(peer)
    session.join("chat", wait=False)  # 1
    for _ in range(5):
        session.send("chat", b"lost for all I care", Service.UNRELIABLE)  # 2 to 6
    session.send("chat", b"came back")  # 7
    peer.say(delivered(b"came back", sequence=7, **OWN))
    assert len(messages(session, 1)) == 1
    for _ in range(2):
        session.send("elsewhere", b"unknown")  # 8 9
    assert session._send_queue.unaccepted() == 2
    peer.say(frames.Accepted(8), delivered(b"later"))
    assert len(messages(session, 1)) == 1
    assert session._send_queue.unaccepted() == 1
    peer.hang_up()
    with pytest.raises(errors.Disconnected) as caught:
        session.close()
    assert (caught.value.unknown_fate, caught.value.unknown) == (
        1,
        (Sent(("elsewhere",), b"unknown", Service.AGREED),),
    )


def test_many_threads_join_while_another_closes(address):
    """Whatever the moment, a join that cannot be ends with Disconnected and nothing else."""
    for _ in range(20):
        session = connect(address)
        with ThreadPoolExecutor() as pool:
            joining = [pool.submit(session.join, f"g{number}") for number in range(4)]
            session.close()
        for one in joining:
            assert isinstance(one.exception(), errors.Disconnected | None)


def test_a_full_unix_queue_is_waited_for(tmp_path):
    place = str(tmp_path / "busy.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(place)
        listener.listen(0)
        first.connect(place)
        with pytest.raises(errors.ConnectError, match=r"no answer from unix:.* within 0.05 s"):
            connect(f"unix:{place}", timeout_s=0.05)
        with ThreadPoolExecutor() as pool:
            connecting = pool.submit(connect, f"unix:{place}")
            with listener.accept()[0], listener.accept()[0] as second:
                second.sendall(frames.encode_control(frames.Refuse("full", "just looking")))
                with pytest.raises(errors.Refused, match="just looking"):
                    connecting.result()
