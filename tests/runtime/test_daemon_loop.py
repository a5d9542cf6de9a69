"""The event loop, the notices and what a daemon takes from its process."""

import logging
import os
import socket
import threading
from functools import partial

import pytest

from antiphon.runtime import notices
from antiphon.runtime.loop import EVENTS_PER_TURN, FINE_WAIT_US, READABLE, Loop, now_us
from antiphon.runtime.notices import Notices
from antiphon.runtime.process import new_incarnation


@pytest.mark.parametrize("wait_us", [-1, 300, FINE_WAIT_US - 1, FINE_WAIT_US, FINE_WAIT_US + 2_500])
def test_turns_come_to_an_end_at_the_deadline(wait_us: int) -> None:
    loop = Loop()
    deadline_us = now_us() + wait_us
    while now_us() < deadline_us:
        loop.turn(deadline_us)
    loop.turn(deadline_us)
    loop.close()


def test_other_threads_wake_the_loop_and_their_calls_run_in_its_thread() -> None:
    loop = Loop()
    ran_in: list[threading.Thread] = []

    def call() -> None:
        ran_in.append(threading.current_thread())

    caller = threading.Thread(target=lambda: loop.call_soon_threadsafe(call))
    caller.start()
    while not ran_in:
        loop.turn(None)
    caller.join()
    assert ran_in == [threading.current_thread()]
    loop.close()
    loop.call_soon_threadsafe(call)
    assert len(ran_in) == 1


def test_what_is_urgent_does_not_wait_behind_a_crowd() -> None:
    """However many clients hang up at once, packets of other daemons are read in every turn."""
    loop = Loop()
    handled: list[str] = []
    crowd = [socket.socketpair() for _ in range(2 * EVENTS_PER_TURN)]
    near, far = socket.socketpair()
    for one, other in crowd:
        loop.register(one.fileno(), lambda _events: handled.append("crowd"), READABLE)
        other.send(b"x")
    loop.register(near.fileno(), lambda _events: handled.append("urgent"), READABLE, urgent=True)
    far.send(b"x")
    for _ in range(3):
        handled.clear()
        loop.turn(None)
        assert handled.count("urgent") == 1
        assert handled.count("crowd") >= EVENTS_PER_TURN - 1
    loop.unregister(near.fileno())
    handled.clear()
    loop.turn(None)
    assert "urgent" not in handled
    loop.close()
    for one, other in (*crowd, (near, far)):
        one.close()
        other.close()


def test_a_descriptor_closed_by_an_earlier_handler_is_not_handled() -> None:
    loop = Loop()
    pairs = [socket.socketpair() for _ in range(2)]
    handled: list[int] = []

    def close_the_other(which: int, _events: int) -> None:
        handled.append(which)
        loop.unregister(pairs[1 - which][0].fileno())

    for index, (near, far) in enumerate(pairs):
        loop.register(near.fileno(), partial(close_the_other, index), READABLE)
        far.send(b"x")
    loop.turn(None)
    assert len(handled) == 1
    loop.close()
    for near, far in pairs:
        near.close()
        far.close()


def test_what_repeats_is_said_once_and_then_summed_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_us = 0
    monkeypatch.setattr(notices, "now_us", lambda: clock_us)
    quiet = Notices(logging.getLogger("antiphon.daemon"))
    for number in range(5):
        quiet.warn("bad", "bad input %d", number)
    quiet.warn("other", "something else")
    clock_us = notices.INTERVAL_US
    quiet.warn("bad", "bad input %d", 5)
    assert [record.getMessage() for record in caplog.records] == [
        "bad input 0",
        "something else",
        "bad input 5 (and 4 more like this since the last such line)",
    ]


def test_incarnations_differ_and_fit_their_field() -> None:
    found = [new_incarnation() for _ in range(100)]
    assert len(set(found)) == 100
    assert all(0 < incarnation < 1 << 32 for incarnation in found)


def test_the_loop_gives_its_descriptors_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        Loop().close()
    assert len(os.listdir("/proc/self/fd")) == before
