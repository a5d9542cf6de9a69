"""The verb `send`: each line of stdin is one message."""

import sys
from typing import Annotated

import typer

import antiphon.blocking
from antiphon.cli.options import Address, Cluster, Name, PriorityWord, ServiceWord, TraceFolder, address_of
from antiphon.service import Service
from antiphon.types import check_destination, check_resilience


def send(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="A group, or a private name such as '#bob#oslo1'.")
    ],
    service: ServiceWord = "agreed",
    resilience: Annotated[
        str,
        typer.Option(
            "--resilience",
            metavar="K",
            help="Deliver when so many daemons hold it: a number, majority or total. With agreed only.",
        ),
    ] = "",
    address: Address = None,
    cluster: Cluster = None,
    name: Name = "",
    priority: PriorityWord = "low",
    trace: TraceFolder = None,
) -> None:
    """Send each line of stdin to GROUP. The sender need not be a member.

    \b
    Examples:
      echo "hello, sites" | antiphon send chat --service safe
      echo "two copies" | antiphon send chat --resilience 2
    """
    level = Service.parse(service)
    check_destination(group)
    asked = check_resilience(resilience or None, level)
    with antiphon.blocking.connect(
        address_of(address, cluster), name=name, priority=priority, views=False, trace=trace
    ) as session:
        for line in sys.stdin.buffer:
            session.send(group, line.rstrip(b"\r\n"), service=level, resilience=asked)
