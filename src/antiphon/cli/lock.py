"""The verb `lock`: run a command while a lock is held."""

import os
import subprocess
import time
from contextlib import suppress
from typing import Annotated

import typer

import antiphon.blocking
from antiphon.cli.options import Address, Cluster, Json, Name, TraceFolder, address_of
from antiphon.cli.screen import joining, show_json
from antiphon.errors import AntiphonError, UsageError
from antiphon.types import check_group, check_lock

LOOK_S = 0.1
STOP_S = 5.0
"""How long a command whose lock is lost has to end after SIGTERM."""


def lock(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group of the lock.")],
    lock_name: Annotated[str, typer.Argument(metavar="LOCK", help="The name of the lock.")],
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="What to run while the lock is held.")
    ],
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="Give up if the lock is not granted in this time."),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Give up at once if another session holds the lock.")
    ] = False,
    json: Json = False,
    address: Address = None,
    cluster: Cluster = None,
    name: Name = "",
    trace: TraceFolder = None,
) -> None:
    """Join GROUP, wait for the lock LOCK, run COMMAND, and release the lock.

    COMMAND finds the number of the grant in ANTIPHON_FENCE: whatever it writes to can refuse a smaller one
    than it has seen. If the lock is lost while COMMAND runs, it gets SIGTERM. The exit code is 0 if COMMAND
    ended with 0 while the lock was held, else 1.

    \b
    Examples:
      antiphon lock jobs nightly -- ./backup.sh
      antiphon lock jobs nightly --no-wait -- sh -c 'echo fence $ANTIPHON_FENCE'
    """
    check_group(group)
    check_lock(lock_name)
    with antiphon.blocking.connect(address_of(address, cluster), name=name, trace=trace) as session:
        with joining(group):
            session.join(group)
        if no_wait:
            held = session.try_lock(group, lock_name, timeout_s=timeout)
            if held is None:
                raise AntiphonError(f"another session holds the lock {lock_name!r} of {group!r}")
        else:
            try:
                held = session.lock(group, lock_name, timeout_s=timeout)
            except TimeoutError as error:
                raise AntiphonError(str(error)) from None
        with held:
            code = _run(session, held, command)
        if json:
            show_json({"group": group, "lock": lock_name, "fence": held.fence, "exit_code": code})
    if code:
        raise AntiphonError(f"{command[0]} ended with exit code {code}")


def _run(session: antiphon.blocking.Session, held: antiphon.blocking.HeldLock, command: list[str]) -> int:
    environment = {**os.environ, "ANTIPHON_FENCE": str(held.fence), "ANTIPHON_LOCK": held.name}
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror or error}") from None
    try:
        while process.poll() is None and held.is_held:
            with suppress(TimeoutError):
                session.receive(timeout_s=LOOK_S)
    finally:
        if process.poll() is None:
            process.terminate()
            deadline_s = time.monotonic() + STOP_S
            while process.poll() is None and time.monotonic() < deadline_s:
                time.sleep(LOOK_S / 10)
            process.kill()
    held.check()
    return process.wait()
