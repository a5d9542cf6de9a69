"""The verb `call`: call a group and print what is answered."""

import sys
from base64 import b64encode
from typing import Annotated, Any

import typer

import antiphon.blocking
from antiphon.calls import Answers
from antiphon.cli.options import Address, Cluster, Handler, Json, Name, Reconnect, TraceFolder, address_of
from antiphon.cli.screen import show, show_json
from antiphon.errors import UsageError
from antiphon.types import check_group


def call(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to call.")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The request; default: all of stdin.")
    ] = None,
    handler: Handler = 0,
    all_: Annotated[bool, typer.Option("--all", help="Ask for the answers of all members.")] = False,
    delivered: Annotated[
        bool, typer.Option("--delivered", help="Print only the members to which the call is delivered.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the answer.")
    ] = 5.0,
    json: Json = False,
    address: Address = None,
    cluster: Cluster = None,
    name: Name = "",
    reconnect: Reconnect = False,
    trace: TraceFolder = None,
) -> None:
    """Call GROUP and print the answer of the member that holds the handler. The caller need not be a member.

    \b
    Examples:
      antiphon call stock --handler 2 "how many apples?"
      antiphon call stock --all ping
      cat order.json | antiphon call stock
    """
    check_group(group)
    if all_ and delivered:
        raise UsageError("--all and --delivered exclude each other")
    payload = " ".join(text).encode() if text else sys.stdin.buffer.read()
    with antiphon.blocking.connect(
        address_of(address, cluster), name=name, views=False, reconnect=reconnect, trace=trace
    ) as session:
        if all_:
            answers = session.call(group, payload, answers="all", handler=handler, timeout_s=timeout)
            _show_all(answers, json)
        elif delivered:
            members = session.call(group, payload, answers="delivered", handler=handler, timeout_s=timeout)
            _show_members(members, json)
        else:
            answer = session.call(group, payload, handler=handler, timeout_s=timeout)
            _show_one(answer, json)


def _show_one(answer: bytes, json: bool) -> None:
    if json:
        show_json(payload_fields(answer))
    elif sys.stdout.isatty():
        show(answer.decode("utf-8", "backslashreplace"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(answer if answer.endswith(b"\n") else answer + b"\n")
        sys.stdout.buffer.flush()


def _show_all(answers: Answers, json: bool) -> None:
    if json:
        for member, answer in answers.items():
            show_json({"member": member, **payload_fields(answer)})
        for member, error in answers.errors.items():
            show_json({"member": member, "error": error})
        for member in answers.missing:
            show_json({"member": member, "missing": True})
        return
    for member, answer in answers.items():
        show(f"{member}: {answer.decode('utf-8', 'backslashreplace')}")
    for member, error in answers.errors.items():
        show(f"{member}: error: {error}")
    for member in answers.missing:
        show(f"{member}: lost before it had answered")


def _show_members(members: tuple[str, ...], json: bool) -> None:
    if json:
        show_json({"members": members})
    else:
        for member in members:
            show(member)


def payload_fields(payload: bytes) -> dict[str, Any]:
    """A payload for JSON: as text, or in base64 if it is none."""
    try:
        return {"payload": payload.decode("utf-8")}
    except UnicodeDecodeError:
        return {"payload_base64": b64encode(payload).decode()}
