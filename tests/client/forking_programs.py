"""Programs that fork, one of them by its name on the command line: see test_client_fork.py."""

import asyncio
import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import antiphon
from antiphon import errors
from antiphon.blocking import connect


def in_child(job: Callable[[], None]) -> int:
    """The exit code of a forked child that does `job` and then unwinds as a program does."""
    child = multiprocessing.get_context("fork").Process(target=job)
    child.start()
    child.join(60)
    assert child.exitcode is not None
    return child.exitcode


def a_child_cannot_use_or_end_its_parents_session() -> None:
    with connect(embedded=True, name="parent") as session:
        session.join("chat")
        session.receive(60)

        def job() -> None:
            with pytest.raises(errors.Disconnected, match="forked"):
                session.send("chat", b"from the child")
            with pytest.raises(errors.Disconnected, match="forked"):
                session.receive()
            session.close()
            with connect(session.address, name="child") as own:
                own.send("chat", b"from a session of its own")

        assert in_child(job) == 0
        assert Path(session.address.removeprefix("unix:")).is_socket()
        assert session.receive(60).sender == "#child#d1"
        session.send("chat", b"the parent goes on")
        assert session.receive(60).payload == b"the parent goes on"


def a_fork_in_the_middle_of_a_send_and_a_receive_does_not_hang_the_child() -> None:
    with connect(embedded=True) as session, session._sending, session._receiving:
        assert in_child(session.close) == 0


async def _asyncio_program() -> None:
    async with antiphon.connect(embedded=True, name="parent") as session:
        await session.join("chat")
        await session.receive()

        def job() -> None:
            with pytest.raises(errors.Disconnected, match="forked"):
                session.send("chat", b"from the child").send(None)

        assert in_child(job) == 0
        await session.send("chat", b"the parent goes on")
        assert (await asyncio.wait_for(session.receive(), 60)).payload == b"the parent goes on"


def a_child_of_an_asyncio_program_leaves_the_event_loop_alone() -> None:
    asyncio.run(_asyncio_program())


def sockets() -> int:
    """How many sockets this process has open."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            found += os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    return found


def a_child_keeps_no_descriptor_of_an_embedded_daemon() -> None:
    before = sockets()
    with connect(embedded=True):
        assert sockets() == before + 4, "its UDP socket, its listener, and both ends of the session"
        assert in_child(lambda: sys.exit(sockets() - before)) == 0


PROGRAMS: tuple[Callable[[], None], ...] = (
    a_child_cannot_use_or_end_its_parents_session,
    a_fork_in_the_middle_of_a_send_and_a_receive_does_not_hang_the_child,
    a_child_of_an_asyncio_program_leaves_the_event_loop_alone,
    a_child_keeps_no_descriptor_of_an_embedded_daemon,
)

if __name__ == "__main__":
    next(program for program in PROGRAMS if program.__name__ == sys.argv[1])()
