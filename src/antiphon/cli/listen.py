"""The verb `listen`: join groups and print what is delivered."""

from typing import Annotated, Any, cast

import msgspec
import typer
from msgspec import structs

import antiphon.blocking
from antiphon.calls import Call
from antiphon.cli.call import payload_fields
from antiphon.cli.options import (
    Address,
    Cluster,
    DeliveryWord,
    Json,
    Name,
    Reconnect,
    SlowWord,
    TraceFolder,
    address_of,
    choice,
    slow_policy,
)
from antiphon.cli.screen import joining, show
from antiphon.client import Event, LockGone, LockGranted, NotSent, Reconnected, Unsure
from antiphon.errors import UsageError
from antiphon.types import (
    Gap,
    Left,
    LockChanged,
    Message,
    Minimum,
    SlowReceiver,
    TransitionalSignal,
    View,
    check_minimum,
)
from antiphon.words import described


def listen(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups to join.")],
    json: Json = False,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="End after this many messages.")
    ] = None,
    minimum: Annotated[
        str,
        typer.Option(
            "--minimum",
            metavar="N",
            help="Members needed to go on after a partition: a number, majority or all.",
        ),
    ] = "",
    delivery: DeliveryWord = None,
    address: Address = None,
    cluster: Cluster = None,
    name: Name = "",
    reconnect: Reconnect = False,
    slow: SlowWord = None,
    trace: TraceFolder = None,
) -> None:
    """Join each GROUP and print messages, views and signals in the order of their delivery, until Ctrl-C.

    On a terminal, control characters in messages are shown as escapes; in a pipe they are unchanged.

    \b
    Example:
      antiphon listen chat news --json --count 10
      antiphon listen ticks --delivery arrival
    """
    left = count
    least: Minimum | None = None
    if minimum:
        least = _number(minimum) if minimum not in ("majority", "all") else cast(Minimum, minimum)
        check_minimum(least)
    chosen = choice(delivery)
    with antiphon.blocking.connect(
        address_of(address, cluster), name=name, slow=slow_policy(slow), reconnect=reconnect, trace=trace
    ) as session:
        for group in groups:
            with joining(group):
                session.join(group, minimum=least, delivery=chosen)
        for event in session:
            show(as_json(event) if json else described(event), is_json=json)
            if left is not None and isinstance(event, Message):
                left -= 1
                if left == 0:
                    return


def _number(word: str) -> int:
    if not word.isdecimal():
        raise UsageError(f"--minimum takes a whole number, majority or all, not {word!r}")
    return int(word)


def as_json(event: Event) -> str:
    """One JSON object; a payload that is not UTF-8 comes as `payload_base64` instead of `payload`."""
    return msgspec.json.encode(_fields(event)).decode()


def _fields(event: Event) -> dict[str, Any]:
    match event:
        case Message():
            fields = {
                "event": "message",
                "groups": event.groups,
                "sender": event.sender,
                "service": event.service.name.lower(),
                "tag": event.tag,
                "id": str(event.id),
                "sent_us": event.sent_us,
            }
            if event.resilience is not None:
                fields["resilience"] = event.resilience
            return fields | payload_fields(event.payload)
        case View():
            return {
                "event": "view",
                "group": event.group,
                "id": str(event.id),
                "members": event.members,
                "transitional": event.transitional,
                "cause": event.cause.value,
                "changed": event.changed,
                "has_quorum": event.has_quorum,
                "receivers": event.receivers,
                "locks": [structs.asdict(lock) for lock in event.locks],
            }
        case TransitionalSignal():
            return {"event": "signal", "group": event.group, "id": str(event.id)}
        case Left():
            return {"event": "left", "group": event.group, "id": str(event.id)}
        case Reconnected():
            return {
                "event": "reconnected",
                "old_name": event.old_name,
                "name": event.name,
                "daemon": event.daemon,
                "address": event.address,
                "groups": event.groups,
                "reason": event.reason,
                "unknown_fate": event.unknown_fate,
            }
        case SlowReceiver():
            return {"event": "slow", **structs.asdict(event)}
        case NotSent():
            return {"event": "not-sent", "group": event.group, "count": event.count}
        case Gap():
            return {"event": "gap", **structs.asdict(event), "after": event.after and str(event.after)}
        case Unsure():
            return {"event": "unsure", "count": event.count, "first": event.first, "last": event.last}
        case Call():
            return {
                "event": "call",
                "group": event.group,
                "sender": event.sender,
                "call": str(event.id),
                "handler": event.handler,
                "is_mine": event.is_mine,
                **payload_fields(event.payload),
            }
        case LockChanged():
            return {
                "event": "lock",
                "group": event.group,
                "id": str(event.id),
                "cause": event.cause.value,
                "session": event.session,
                **structs.asdict(event.lock),
            }
        case LockGranted():
            return {"event": "lock-granted", **structs.asdict(event), "id": str(event.id)}
        case LockGone():
            return {"event": "lock-gone", **structs.asdict(event)}
