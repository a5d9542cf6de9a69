"""The verb `serve`: answer calls with what a command prints."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import antiphon
from antiphon.cli.options import Address, Cluster, Handler, Json, Name, TraceFolder, address_of
from antiphon.cli.screen import show, show_json
from antiphon.errors import LockLost, UsageError
from antiphon.types import check_group, handler_lock

ERROR_MAX_CHARACTERS = 1_000
"""Of what a failed command prints on stderr, its caller gets the last so many."""


def serve(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to join and serve.")],
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND", help="Reads a call from stdin, prints the answer; run per call."
        ),
    ],
    handler: Handler = 0,
    json: Json = False,
    address: Address = None,
    cluster: Cluster = None,
    name: Name = "",
    trace: TraceFolder = None,
) -> None:
    """Join GROUP and answer its calls with the output of COMMAND, until Ctrl-C.

    Several of these form one service: the one that holds the handler answers, and if it is lost, the next
    one takes over. Calls are answered one after the other. If COMMAND exits with a code other than 0, the
    caller gets an error with its stderr.

    \b
    Examples:
      antiphon serve stock --handler 2 -- ./answer.py
      antiphon serve echo -- cat
    """
    check_group(group)
    handler_lock(handler)
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve(group, command, handler, json, address_of(address, cluster), name, trace))


async def _serve(
    group: str,
    command: list[str],
    handler: int,
    json: bool,
    address: str | None,
    name: str,
    trace: Path | None,
) -> None:
    async with antiphon.connect(address, name=name, reconnect=True, trace=trace) as session:
        await session.join(group)
        _tell(json, f"{session.name} is in line for handler {handler} of {group}", event="ready")
        holding = asyncio.create_task(_hold(session, group, handler, json))
        try:
            async for event in session:
                if isinstance(event, antiphon.Call) and event.is_mine:
                    await _answer(session, event, command, json)
        finally:
            holding.cancel()
            with suppress(asyncio.CancelledError, antiphon.errors.AntiphonError):
                await holding


async def _hold(session: antiphon.Session, group: str, handler: int, json: bool) -> None:
    """Be in line for the handler for ever: also after a reconnection, or a loss in a merge."""
    while True:
        try:
            async with session.handle(group, handler) as held:
                _tell(json, f"{session.name} holds handler {handler} of {group}", event="holds")
                await held.lost.wait()
        except LockLost as error:
            _tell(json, f"{session.name}: {error}", event="lost")
        except UsageError:
            await asyncio.sleep(0.1)  # the group is being joined again


async def _answer(session: antiphon.Session, call: antiphon.Call, command: list[str], json: bool) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror or error}") from None
    try:
        out, err = await process.communicate(call.payload)
    except BaseException:
        with suppress(ProcessLookupError):
            process.kill()
        raise
    if process.returncode == 0:
        await session.answer(call, out)
    else:
        said = err.decode("utf-8", "replace").strip()[-ERROR_MAX_CHARACTERS:]
        await session.answer(call, error=said or f"the command ended with exit code {process.returncode}")
    words = f"{call.id} of {call.sender}: exit code {process.returncode}, {len(out):,} bytes"
    _tell(json, words, event="answered", call=str(call.id), sender=call.sender, code=process.returncode)


def _tell(json: bool, words: str, **fields: object) -> None:
    if json:
        show_json(fields)
    else:
        show(words)
    sys.stdout.flush()
