"""The verb `send`: one message from the command line, or each line of stdin."""

import os
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

import antiphon.blocking
from antiphon.cli.options import Address, Cluster, Name, PriorityWord, ServiceWord, TraceFolder, address_of
from antiphon.errors import NotAllowed
from antiphon.service import Service
from antiphon.types import check_destination, check_resilience


def send(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="A group, or a private name such as '#bob#oslo1'.")
    ],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The message; default: each line of stdin.")
    ] = None,
    service: ServiceWord = "agreed",
    resilience: Annotated[
        str,
        typer.Option(
            "--resilience",
            metavar="K",
            help="Deliver when this many daemons have it: a number, majority or total. With agreed only.",
        ),
    ] = "",
    address: Address = None,
    cluster: Cluster = None,
    name: Name = "",
    priority: PriorityWord = "low",
    trace: TraceFolder = None,
) -> None:
    """Send TEXT, or each line of stdin, to GROUP. The sender need not be a member.

    Words of TEXT are joined with blanks. Put text that begins with a dash behind `--`.

    \b
    Examples:
      antiphon send chat hello, sites
      echo "hello, sites" | antiphon send chat --service safe
      echo "two copies" | antiphon send chat --resilience 2
    """
    level = Service.parse(service)
    check_destination(group)
    asked = check_resilience(resilience or None, level)
    with antiphon.blocking.connect(
        address_of(address, cluster), name=name, priority=priority, views=False, trace=trace
    ) as session:
        for payload in _payloads(text):
            session.send(group, payload, service=level, resilience=asked)
    if session.denied:  # told behind the last line
        raise NotAllowed(next(iter(session.denied.values())))


def _payloads(text: list[str] | None) -> Iterator[bytes]:
    """The messages to send."""
    if text:
        yield os.fsencode(" ".join(text))  # the bytes that were typed, whatever their encoding
    else:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
