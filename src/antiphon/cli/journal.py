"""The verb `journal`: a durable, ordered log of groups, served over Arrow Flight."""

import atexit
import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import msgspec
import typer

from antiphon.cli.options import Address, Cluster, Json, Name, Reconnect, TraceFolder, address_of
from antiphon.cli.screen import show_json
from antiphon.client.blocking import Session
from antiphon.client.events import Reconnected
from antiphon.errors import UsageError
from antiphon.extras import how_to_get
from antiphon.words import printable


def journal(
    groups: Annotated[
        list[str],
        typer.Option("--groups", metavar="GROUP...", help="The groups to record; may be repeated."),
    ],
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The journal's folder; made if it is not there.")
    ],
    more_groups: Annotated[list[str] | None, typer.Argument(metavar="GROUP", hidden=True)] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="PLACE",
            help="Where to serve: grpc+tls://HOST:PORT or grpc://HOST:PORT; port 0: any free port.",
        ),
    ] = "grpc://127.0.0.1:0",
    fsync: Annotated[
        str,
        typer.Option(
            "--fsync",
            metavar="POLICY",
            help="When rows are forced to disk: always (before a reader gets them), interval or never.",
        ),
    ] = "interval",
    fsync_ms: Annotated[
        int, typer.Option("--fsync-ms", min=1, metavar="MS", help="How often, with --fsync interval.")
    ] = 1_000,
    segment_bytes: Annotated[
        int, typer.Option("--segment-bytes", min=4_096, metavar="N", help="Size of a file of the journal.")
    ] = 128 * 1024 * 1024,
    keep_bytes: Annotated[
        int | None,
        typer.Option("--keep-bytes", min=1, metavar="N", help="Remove the oldest files beyond this size."),
    ] = None,
    keep_age: Annotated[
        float | None,
        typer.Option("--keep-age", min=0.001, metavar="S", help="Remove files with only older rows."),
    ] = None,
    linger_ms: Annotated[
        int,
        typer.Option(
            "--linger-ms",
            min=0,
            metavar="MS",
            help="How long a row waits to be written together with others.",
        ),
    ] = 10,
    serve_certificate: Annotated[
        str,
        typer.Option(
            "--serve-certificate", metavar="FILE", help="With grpc+tls://: the journal's certificate."
        ),
    ] = "",
    serve_key: Annotated[str, typer.Option("--serve-key", metavar="FILE", help="The key of that.")] = "",
    serve_ca: Annotated[
        str,
        typer.Option(
            "--serve-ca", metavar="FILE", help="Require certificates of readers, signed by these roots."
        ),
    ] = "",
    serve_tokens: Annotated[
        str, typer.Option("--serve-tokens", metavar="FILE", help="Require one of the tokens in this file.")
    ] = "",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines over unencrypted connections, too.")
    ] = False,
    address: Address = None,
    cluster: Cluster = None,
    name: Name = "",
    reconnect: Reconnect = False,
    trace: TraceFolder = None,
    json: Json = False,
) -> None:
    """Join groups, write what they deliver to DIR, and serve it over Arrow Flight until Ctrl-C or SIGTERM.

    A journal that is started again in the same folder goes on after its last row and marks the gap. With
    --reconnect it may be started before its daemon, and waits for it.

    \b
    Example:
      antiphon journal --groups orders audit --dir /var/lib/journal --reconnect
    """
    _check_packages()
    from antiphon.journal.guard import Guard
    from antiphon.journal.log import LogSettings
    from antiphon.journal.running import Journal

    told: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    running = Journal(
        [*groups, *(more_groups or ())],
        folder,
        LogSettings(_policy(fsync), fsync_ms, segment_bytes, keep_bytes, keep_age),
        listen=listen,
        linger_ms=linger_ms,
        address=address_of(address, cluster),
        name=name,
        reconnect=reconnect,
        trace=trace,
        guard=Guard(serve_certificate, serve_key, serve_ca, serve_tokens, insecure),
        told=lambda gap: _report("gap", msgspec.to_builtins(gap), json),
        noted=_note,
        awaited=_note_first,
    )
    code = 0
    try:
        with running:
            signal.signal(signal.SIGTERM, stop)
            signal.signal(signal.SIGINT, stop)
            log = running.log
            have = {"endpoint": running.endpoint, "journal": log.journal, "dir": str(folder)}
            offsets = {"earliest": log.earliest, "latest": log.latest}
            _report("serving", {**have, **offsets, "groups": running.groups, "cut": log.cut}, json)
            running.run(lambda: bool(told))
        _report("ended", {"journal": log.journal, "latest": running.latest}, json)
        if signal.SIGINT in told:
            code = 128 + signal.SIGINT
            raise KeyboardInterrupt  # so that it ends as every verb does on Ctrl-C
    except Exception:
        code = 1
        raise
    finally:
        if running.is_stuck:  # a reader that never reads would keep this process from ending
            atexit.register(os._exit, code)


def _check_packages() -> None:
    """Everything but the pipeline works without Arrow."""
    if find_spec("pyarrow") is None:
        raise UsageError(f"a journal needs the package pyarrow: {how_to_get('journal')}")


def _policy(word: str) -> Any:
    from antiphon.journal.log import Fsync

    try:
        return Fsync(word)
    except ValueError:
        known = ", ".join(policy.value for policy in Fsync)
        raise UsageError(f"unknown policy {word!r} for --fsync; known: {known}") from None


def _report(event: str, fields: Mapping[str, Any], json: bool) -> None:
    """Print one line on stdout, unbuffered: a script may be waiting for the endpoint."""
    if json:
        show_json({"event": event, **fields})
    else:
        for line in _WORDS[event](fields).splitlines():
            print(printable(line), flush=True)


def _note(what: str | Reconnected) -> None:
    """Print a line on stderr for people: the daemon is lost, or there is one again."""
    line = f"lost the daemon, looking for one: {what}"
    if isinstance(what, Reconnected):
        line = f"back, at {what.daemon} ({what.address}) as {what.name}"
    print(f"antiphon: {printable(line)}", file=sys.stderr, flush=True)


def _note_first(what: str | Session) -> None:
    """The same of the first daemon, if it is not there yet."""
    line = f"no daemon yet, waiting for one: {what}"
    if isinstance(what, Session):
        line = f"there is one now, {what.daemon} ({what.address}), where this is {what.name}"
    print(f"antiphon: {printable(line)}", file=sys.stderr, flush=True)


def _serving(fields: Mapping[str, Any]) -> str:
    cut = "".join(f"\ncut off {part}" for part in fields["cut"])
    return (
        f"journal {fields['journal']} of {', '.join(fields['groups'])} serves {fields['endpoint']}; "
        f"offsets {fields['earliest']} to {fields['latest'] - 1}{cut}"
        if fields["latest"]
        else f"journal {fields['journal']} of {', '.join(fields['groups'])} serves {fields['endpoint']}"
    )


def _gap(fields: Mapping[str, Any]) -> str:
    since = datetime.fromtimestamp(fields["last_delivered_us"] / 1_000_000, UTC)
    return f"a gap after offset {fields['last_offset']}, {since:%Y-%m-%d %H:%M:%S} UTC: {fields['why']}"


def _ended(fields: Mapping[str, Any]) -> str:
    return f"journal {fields['journal']} ended before offset {fields['latest']}"


_WORDS = {"serving": _serving, "gap": _gap, "ended": _ended}
